/* SPDX-License-Identifier: MIT OR Apache-2.0
 * Stacks at a point. */
#pragma once
#include "stacks.h"
#include "point.h"

const volatile u32 want_kernel = 0;
const volatile u32 want_user = 0;
/* Where the entry of a function of a program finds its caller: 0 not at all, 1 in a register, 2 on top of the stack. */
const volatile u32 caller_in = 0;
const volatile u32 caller_at = 0; /* offset of that register */

/* The names of the stacks that were taken, 0 where there is none. */
struct whence {
	u64 kernel;
	u64 user;
	u64 tgid; /* whose addresses the user's stack has */
	u64 born;
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1);
	__type(key, u64);
	__type(value, struct stack);
} point_stacks SEC(".maps");

/* Puts a stack into the table, unless it is there, and returns its name. */
static __always_inline u64 keep(struct stack *stack)
{
	u64 hash = stack_name(stack);

	if (!bpf_map_lookup_elem(&point_stacks, &hash) && bpf_map_update_elem(&point_stacks, &hash, stack, BPF_ANY)) {
		add(NO_STACK_ROOM, 1);
		return MISSING;
	}
	return hash;
}

static __always_inline u64 kernel_stack(void *ctx)
{
	u32 zero = 0;
	struct stack *stack = bpf_map_lookup_elem(&scratch, &zero);

	return stack && bpf_get_stack(ctx, stack, sizeof(*stack), 0) > 0 ? keep(stack) : MISSING;
}

/* At the entry of a function its frame does not stand yet, so walking frames leaves out the caller, as long as the kernel
 * does not put it in itself (6.11 and later do, mostly). */
static __always_inline u64 user_stack(void *ctx)
{
	u32 zero = 0;
	u64 caller = 0;
	struct stack *stack = bpf_map_lookup_elem(&scratch, &zero);

	if (!stack)
		return MISSING;
	if (!caller_in)
		return bpf_get_stack(ctx, stack, sizeof(*stack), BPF_F_USER_STACK) > 0 ? keep(stack) : MISSING;
	if (bpf_get_stack(ctx, &stack->ips[1], sizeof(*stack) - 8, BPF_F_USER_STACK) <= 0)
		return MISSING;
	stack->ips[0] = 0; /* whoever reads it leaves this out */
	bpf_probe_read_kernel(&caller, sizeof(caller), ctx + caller_at);
	if (caller_in == 2 && bpf_probe_read_user(&caller, sizeof(caller), (void *)caller))
		caller = 0;
	if (caller && stack->ips[2] != caller) {
		stack->ips[0] = stack->ips[1];
		stack->ips[1] = caller;
	}
	return keep(stack);
}

/* `to` must be all 0. */
static __always_inline void take_stacks(void *ctx, struct whence *to)
{
	if (want_kernel)
		to->kernel = kernel_stack(ctx);
	if (want_user) {
		struct task_struct *task = (void *)bpf_get_current_task();
		if (BPF_CORE_READ(task, mm)) {
			to->user = user_stack(ctx);
			to->tgid = bpf_get_current_pid_tgid() >> 32;
			to->born = born(task);
		}
	}
}
