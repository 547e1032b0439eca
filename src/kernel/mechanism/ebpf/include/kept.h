/* SPDX-License-Identifier: MIT OR Apache-2.0
 * Stacks that are taken where something happens, kept whole, and named by what they hold (see kept.rs). Shorter than those of
 * stacks.h, and hashed only as far as they go: for events that come often. */
#pragma once
#include "rdiag.h"

#define DEPTH 64
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

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 8192);
	__type(key, u64);
	__type(value, struct stack);
} kept_stacks SEC(".maps");

/* What found a table full. */
enum { NO_SUM, NO_STACK, LOSSES };
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, LOSSES);
	__type(key, u32);
	__type(value, u64);
} lost SEC(".maps");

static __always_inline void lose(u32 what)
{
	u64 *count = bpf_map_lookup_elem(&lost, &what);

	if (count)
		(*count)++;
}

/* Names the stack at hand and keeps it. */
static __always_inline u64 keep(struct stack *stack)
{
	u64 hash = 0x9e3779b97f4a7c15ULL;

	for (int i = 0; i < DEPTH; i++) {
		u64 ip = stack->ips[i];
		if (!ip)
			break;
		hash = (hash ^ ip) * 0xff51afd7ed558ccdULL;
		hash ^= hash >> 32;
	}
	hash |= 2;
	if (!bpf_map_lookup_elem(&kept_stacks, &hash) && bpf_map_update_elem(&kept_stacks, &hash, stack, BPF_ANY)) {
		lose(NO_STACK);
		return MISSING;
	}
	return hash;
}

/* Takes the stack of the task that runs, and returns its name: never 0. */
static __always_inline u64 take_stack(void *ctx, u64 flags)
{
	u32 zero = 0;
	struct stack *stack = bpf_map_lookup_elem(&scratch, &zero);

	if (!stack || bpf_get_stack(ctx, stack, sizeof(*stack), flags) <= 0)
		return MISSING;
	return keep(stack);
}

/* The same at the entry of a program's function, which has no frame yet: `from` is where it was called from. */
static __always_inline u64 take_callers_stack(void *ctx, u64 from)
{
	u32 zero = 0;
	struct stack *stack = bpf_map_lookup_elem(&scratch, &zero);

	if (!stack || !from || bpf_get_stack(ctx, stack, sizeof(*stack), BPF_F_USER_STACK) <= 0)
		return MISSING;
	stack->ips[0] = from;
	return keep(stack);
}

/* When the process of the task that runs began, as /proc/PID/stat has it. */
struct task_struct___born {
	u64 start_boottime;
} __attribute__((preserve_access_index));

static __always_inline u64 current_born(void)
{
	struct task_struct *task = (void *)bpf_get_current_task();
	struct task_struct___born *leader = (void *)BPF_CORE_READ(task, group_leader);

	return BPF_CORE_READ(leader, start_boottime);
}
