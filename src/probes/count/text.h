/* SPDX-License-Identifier: MIT OR Apache-2.0
 * Text at a point. */
#pragma once
#include "point.h"

/* What a value leads to: an address in the memory of the program or of the kernel; a place in the record that the value
 * tells; the value's own place in the record. */
enum text_in { NO_TEXT, OF_PROGRAM, OF_KERNEL, LOCATED, INLINE };

/* Reads it, and returns its length with the NUL; an error is negative. `in` and `at`, the offset in the record for INLINE,
 * must be constants: the context may not be looked at in places that the verifier does not know. */
static __always_inline s64 read_text(void *ctx, u64 value, u32 in, u32 at, char *to, u32 size)
{
	switch (in) {
	case OF_PROGRAM: return bpf_probe_read_user_str(to, size, (void *)value);
	case OF_KERNEL: return bpf_probe_read_kernel_str(to, size, (void *)value);
	case LOCATED: return bpf_probe_read_kernel_str(to, size, ctx + (value & 0xffff));
	case INLINE: return bpf_probe_read_kernel_str(to, size, ctx + at);
	default: return 0;
	}
}
