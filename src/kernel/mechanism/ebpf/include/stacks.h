/* SPDX-License-Identifier: MIT OR Apache-2.0
 * Stacks that are kept whole and named by what they hold: the kernel's own table of stacks lets two of them collide. */
#pragma once
#include "hash.h"

#ifndef DEPTH
#define DEPTH 127
#endif
/* What stands where a stack's name would: it could not be taken. 0 is: there is none, or it was not asked for. */
#define MISSING 1

struct stack {
	u64 ips[DEPTH];
};

/* The stack at hand. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct stack);
} scratch SEC(".maps");

/* A hash over all words of a stack; those behind its end are 0. Never 0 or MISSING. */
static __always_inline u64 stack_name(struct stack *stack)
{
	u64 hash = NO_WORDS;

	for (int i = 0; i < DEPTH; i++)
		hash = mix(hash, stack->ips[i]);
	return hash | 2;
}

/* When a process began, as /proc/PID/stat has it. */
struct task_struct___born {
	u64 start_boottime;
} __attribute__((preserve_access_index));

static __always_inline u64 born(struct task_struct *task)
{
	struct task_struct___born *leader = (void *)BPF_CORE_READ(task, group_leader);

	return BPF_CORE_READ(leader, start_boottime);
}
