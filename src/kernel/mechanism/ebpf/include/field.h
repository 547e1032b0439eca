/* SPDX-License-Identifier: MIT OR Apache-2.0
 * One value that a point has: a number, or text. Constants, set before loading, say where it is; the verifier removes the rest. */
#pragma once
#include "rdiag.h"

/* MEMORY: of the program, where a register points to; CONSTANT: what a compiler knew. */
enum source { NOTHING, ENTRY, RETURN, LATENCY, TGID, TID, CPU, MEMORY, CONSTANT, GROUP };
/* PLACE: not what is there, but its address; SWAPPED: bytes in the order of networks. */
enum form { PLAIN, PLACE, SWAPPED };
#define HOPS 4
struct field {
	u32 source;
	u32 offset; /* in the context, for ENTRY, RETURN and MEMORY */
	u32 size; /* 1, 2, 4 or 8 bytes */
	u32 is_signed;
	s64 plus; /* from where the register points to, for MEMORY; the value, for CONSTANT */
	u32 form;
	u32 hops; /* so many pointers of the kernel are followed, for ENTRY and RETURN */
	u32 hop[HOPS]; /* how far behind the place to which each leads it goes on */
};

/* What cannot be read is 0: the place to which a pointer leads that is none. */
static __always_inline u64 load(void *ctx, const volatile struct field *field)
{
	u32 size = field->size;
	u64 value = 0, base = 0;

	if (field->source == CONSTANT) {
		value = field->plus;
	} else if (field->source == MEMORY) {
		bpf_probe_read_kernel(&base, sizeof(base), ctx + field->offset);
		bpf_probe_read_user(&value, size, (void *)(base + field->plus));
	} else if (field->hops) {
		bpf_probe_read_kernel(&base, sizeof(base), ctx + field->offset);
#pragma unroll
		for (int i = 0; i < HOPS; i++) {
			if (i && i < field->hops) {
				u64 next = 0;
				bpf_probe_read_kernel(&next, sizeof(next), (void *)base);
				base = next;
			}
			/* Nothing lies behind no pointer. */
			if (i < field->hops && base)
				base += field->hop[i];
		}
		if (field->form == PLACE)
			return base;
		bpf_probe_read_kernel(&value, size, (void *)base);
	} else {
		bpf_probe_read_kernel(&value, size, ctx + field->offset);
	}
	u32 shift = 64 - 8 * size;
	if (field->form == SWAPPED)
		return __builtin_bswap64(value) >> shift;
	return field->is_signed ? (u64)((s64)(value << shift) >> shift) : value;
}

/* What a value leads to: an address in the memory of the program or of the kernel; a place in the record that the value
 * tells; the value's own place in the record; an address in the memory of the program, with the length elsewhere in the context. */
enum text_in { NO_TEXT, OF_PROGRAM, OF_KERNEL, LOCATED, INLINE, SLICE };

/* Reads it, and returns its length with the NUL; an error is negative. `in` and `at`, the offset in the record for INLINE and of the
 * length for SLICE, must be constants: the context may not be looked at in places that the verifier does not know. `size` is a power of
 * two. */
static __always_inline s64 read_text(void *ctx, u64 value, u32 in, u32 at, char *to, u32 size)
{
	u64 length = 0;

	switch (in) {
	case OF_PROGRAM: return bpf_probe_read_user_str(to, size, (void *)value);
	case OF_KERNEL: return bpf_probe_read_kernel_str(to, size, (void *)value);
	case LOCATED: return bpf_probe_read_kernel_str(to, size, ctx + (value & 0xffff));
	case INLINE: return bpf_probe_read_kernel_str(to, size, ctx + at);
	case SLICE:
		bpf_probe_read_kernel(&length, sizeof(length), ctx + at);
		if (length > size - 1)
			length = size - 1;
		to[length & (size - 1)] = 0;
		if (length && bpf_probe_read_user(to, length & (size - 1), (void *)value))
			return -14;
		return length + 1;
	default: return 0;
	}
}
