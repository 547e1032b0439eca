/* SPDX-License-Identifier: MIT OR Apache-2.0
 * Arguments and results where a breakpoint finds them: in the registers of the calling convention. */
#pragma once
#include "arm64.h"

struct pt_regs___x86 {
	u64 di;
	u64 si;
	u64 dx;
	u64 cx;
	u64 ax;
} __attribute__((preserve_access_index));

static __always_inline u64 argument(void *regs, const int at)
{
	struct pt_regs___x86 *x86 = regs;
	struct pt_regs___arm64 *arm = regs;
	u64 value = 0;

	if (IS_ARM64)
		bpf_core_read(&value, sizeof(value), &arm->regs[at]);
	else if (at == 0)
		bpf_core_read(&value, sizeof(value), &x86->di);
	else if (at == 1)
		bpf_core_read(&value, sizeof(value), &x86->si);
	else if (at == 2)
		bpf_core_read(&value, sizeof(value), &x86->dx);
	else
		bpf_core_read(&value, sizeof(value), &x86->cx);
	return value;
}

static __always_inline u64 returned(void *regs)
{
	struct pt_regs___x86 *x86 = regs;
	struct pt_regs___arm64 *arm = regs;
	u64 value = 0;

	if (IS_ARM64)
		bpf_core_read(&value, sizeof(value), &arm->regs[0]);
	else
		bpf_core_read(&value, sizeof(value), &x86->ax);
	return value;
}
