/* SPDX-License-Identifier: MIT OR Apache-2.0
 * Which plain waits in futex(2) are for a lock of the program: see src/kernel/classify/futex.rs. */
#pragma once
#include "syscall.h"

#define CONTENDED 2
#define WAITERS 0x80000000
#define OWNER 0x3fffffff
#define MOST_OWNERS (1 << 22)
#define TAKEN 16
#define LEAST_OWNER 64
#define NEAR_STACK (1 << 14)

struct pt_regs___x86_stack {
	u64 sp;
} __attribute__((preserve_access_index));
struct pt_regs___arm64_stack {
	u64 sp;
} __attribute__((preserve_access_index));

static __always_inline bool in_own_stack(void *saved, u64 address)
{
	struct pt_regs___x86_stack *x86 = saved;
	struct pt_regs___arm64_stack *arm = saved;
	u64 stack = IS_ARM64 ? BPF_CORE_READ(arm, sp) : BPF_CORE_READ(x86, sp);

	/* Without a stack pointer nothing is known, and nothing is called a lock. */
	return !stack || address - stack < NEAR_STACK;
}

struct thread_struct___x86 {
	u64 fsbase;
} __attribute__((preserve_access_index));
struct task_struct___x86 {
	struct thread_struct___x86 thread;
} __attribute__((preserve_access_index));

/* Whether the task that runs now uses musl, whose mutexes never have a word of 2, while its joins and condition variables do. What stands
 * at the thread's base of TLS begins with its own address; glibc has that in the third word as well, and musl another thread's. Unknown
 * on arm64, which has no such words. */
static __always_inline bool is_of_musl(struct task_struct *task)
{
	struct task_struct___x86 *x86 = (void *)task;
	u64 words[3] = {};

	if (!bpf_core_field_exists(x86->thread.fsbase))
		return false;
	u64 base = BPF_CORE_READ(x86, thread.fsbase);
	if (!base || bpf_probe_read_user(words, sizeof(words), (void *)base))
		return false;
	return words[0] == base && words[2] != base;
}

/* `own`: the task runs now, so the memory of its program can be read. */
static __always_inline bool is_word_of_lock(struct task_struct *task, void *saved, u64 address, u32 word, const bool own)
{
	u32 owner = word & OWNER;

	if (word == CONTENDED)
		return !in_own_stack(saved, address) && !(own && is_of_musl(task));
	return word & WAITERS && (owner == TAKEN || (owner >= LEAST_OWNER && owner <= MOST_OWNERS));
}
