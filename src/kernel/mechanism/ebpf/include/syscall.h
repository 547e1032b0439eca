/* SPDX-License-Identifier: MIT OR Apache-2.0
 * System calls as sys_enter and sys_exit see them: number and arguments lie in the registers that the task saved when it
 * entered the kernel. Both architectures' registers are described, and the one that the kernel has is read, so that one
 * object serves both. */
#pragma once
#include "arm64.h"

#define CALLS 512 /* numbers up to here are told apart */
#define COMPAT 511 /* stands for all calls of 32-bit (and x32) programs, which number them in another way */
#define NO_CALL 510 /* rt_sigreturn restores registers, and with them no number at all; and numbers that make no sense */

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)
struct pt_regs___x86 {
	u64 r10;
	u64 r8;
	u64 dx;
	u64 si;
	u64 di;
	u64 orig_ax;
	u64 cs;
};
struct task_struct___stack {
	void *stack;
};
/* Helpers that are there or not; the numbers are the kernel's own. */
enum bpf_func_id___regs { BPF_FUNC_task_pt_regs = 175 };
#pragma clang attribute pop

#define X86_USER32_CS 0x23
#define X32_BIT 0x40000000
#define ARM64_32_BIT 0x10

/* Size of a task's stack in the kernel on x86, before 5.15. */
#define STACK_SIZE 16384

/* Registers that a task saved when it entered the kernel. Before 5.15 they are where the stack begins. */
static __always_inline void *registers(struct task_struct *task)
{
	struct task_struct___stack *with = (void *)task;

	if (bpf_core_enum_value_exists(enum bpf_func_id___regs, BPF_FUNC_task_pt_regs))
		return (void *)bpf_task_pt_regs(task);
	return BPF_CORE_READ(with, stack) + STACK_SIZE - bpf_core_type_size(struct pt_regs___x86);
}

/* Those of the task that runs now. */
static __always_inline void *own_registers(void)
{
	if (bpf_core_enum_value_exists(enum bpf_func_id___regs, BPF_FUNC_task_pt_regs))
		return registers(bpf_get_current_task_btf());
	return registers((void *)bpf_get_current_task());
}

/* The call's number; COMPAT or NO_CALL where it has none of ours. */
static __always_inline u32 call_number(void *regs, const bool direct)
{
	s64 number;

	if (IS_ARM64) {
		struct pt_regs___arm64 *arm = regs;
		if (READ(arm, pstate) & ARM64_32_BIT)
			return COMPAT;
		number = READ(arm, syscallno);
	} else {
		struct pt_regs___x86 *x86 = regs;
		if ((u16)READ(x86, cs) == X86_USER32_CS)
			return COMPAT;
		number = READ(x86, orig_ax);
		if (number > 0 && number & X32_BIT)
			return COMPAT;
	}
	return number >= 0 && number < NO_CALL ? number : NO_CALL;
}

/* The first four arguments. They keep their values until the call returns, but for the first one of arm64, whose register
 * takes the result: a copy is kept for that. */
static __always_inline u64 call_argument(void *regs, const int at, const bool direct)
{
	if (IS_ARM64) {
		struct pt_regs___arm64 *arm = regs;
		switch (at) {
		case 0: return READ(arm, orig_x0);
		case 1: return READ(arm, regs[1]);
		case 2: return READ(arm, regs[2]);
		default: return READ(arm, regs[3]);
		}
	} else {
		struct pt_regs___x86 *x86 = regs;
		switch (at) {
		case 0: return READ(x86, di);
		case 1: return READ(x86, si);
		case 2: return READ(x86, dx);
		default: return READ(x86, r10);
		}
	}
}

/* Whether a result is an error, as the kernel itself tells. */
static __always_inline bool is_error(s64 result)
{
	return result < 0 && result >= -4095;
}
