/* SPDX-License-Identifier: MIT OR Apache-2.0
 * Which of the two architectures the kernel is of: what the registers of the other one are called is not in its types. */
#pragma once
#include "rdiag.h"

struct pt_regs___arm64 {
	u64 regs[31];
	u64 pstate;
	u64 orig_x0;
	s32 syscallno;
} __attribute__((preserve_access_index));

#define IS_ARM64 bpf_core_field_exists(((struct pt_regs___arm64 *)0)->syscallno)
