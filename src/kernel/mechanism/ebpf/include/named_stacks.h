/* SPDX-License-Identifier: MIT OR Apache-2.0
 * Stacks that are taken where something happens, and named in sums (see named_stacks.rs). Shorter than those of profiles, and hashed
 * only as far as they go: for events that come often. */
#pragma once
#define DEPTH 64
#include "stacks.h"

/* What found a table full. */
enum { NO_SUM, NO_STACK };
#define LOSSES 2
#include "lost.h"

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 8192);
	__type(key, u64);
	__type(value, struct stack);
} kept_stacks SEC(".maps");

/* Names the stack at hand, by its words as far as it goes, and keeps it. */
static __always_inline u64 keep(struct stack *stack)
{
	u64 name = NO_WORDS;

	for (int i = 0; i < DEPTH; i++) {
		u64 ip = stack->ips[i];
		if (!ip)
			break;
		name = mix(name, ip);
	}
	name |= 2;
	if (!bpf_map_lookup_elem(&kept_stacks, &name) && bpf_map_update_elem(&kept_stacks, &name, stack, BPF_ANY)) {
		lose(NO_STACK);
		return MISSING;
	}
	return name;
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

static __always_inline u64 current_born(void)
{
	return born((void *)bpf_get_current_task());
}
