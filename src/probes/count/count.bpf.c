// SPDX-License-Identifier: MIT OR Apache-2.0
/* Counts, sums and distributions of what happens at one point. */
#include "../../mechanism/ebpf/include/stacks.h"
#include "point.h"

const volatile u32 want_hist = 0; /* distributions in place of sums */
const volatile u32 has_key = 0;
const volatile u32 want_comm = 0;
const volatile u32 want_kernel = 0; /* stacks */
const volatile u32 want_user = 0;
/* Where the entry of a function of a program finds its caller: 0 not at all, 1 in a register, 2 on top of the stack. */
const volatile u32 caller_in = 0;
const volatile u32 caller_at = 0; /* offset of that register */

struct key {
	u64 words[KEYS];
	u64 comm[2];
	u64 kernel; /* names of stacks */
	u64 user;
	u64 tgid; /* whose addresses the stack has */
	u64 born;
};
struct sum {
	u64 count;
	u64 sum;
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_HASH);
	__uint(max_entries, 1);
	__type(key, struct key);
	__type(value, struct sum);
} point_sums SEC(".maps");

/* The same without stacks: hashing the whole key for every event would cost more than the rest. */
struct short_key {
	u64 words[KEYS];
	u64 comm[2];
};
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_HASH);
	__uint(max_entries, 1);
	__type(key, struct short_key); /* what a struct key begins with */
	__type(value, struct sum);
} point_short_sums SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_HASH);
	__uint(max_entries, 1);
	__type(key, struct key);
	__type(value, struct hist);
} point_hists SEC(".maps");

/* Without a key. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct hist);
} point_hist SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1);
	__type(key, u64);
	__type(value, struct stack);
} point_stacks SEC(".maps");

/* What a new distribution begins as; nobody writes here. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct hist);
} no_values SEC(".maps");

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

static __always_inline void add_value(struct key *key, u64 value)
{
	u32 zero = 0;
	struct hist *hist;

	if (!has_key) {
		hist = bpf_map_lookup_elem(&point_hist, &zero);
	} else {
		hist = bpf_map_lookup_elem(&point_hists, key);
		if (!hist) {
			struct hist *empty = bpf_map_lookup_elem(&no_values, &zero);
			if (empty)
				bpf_map_update_elem(&point_hists, key, empty, BPF_NOEXIST);
			hist = bpf_map_lookup_elem(&point_hists, key);
		}
	}
	if (!hist) {
		add(NO_ROOM, 1);
		return;
	}
	u32 slot = hist_slot(value);
	__sync_fetch_and_add(&hist->count, 1);
	__sync_fetch_and_add(&hist->sum, value);
	if (value > hist->max)
		hist->max = value;
	if (slot < HIST_SLOTS)
		__sync_fetch_and_add(&hist->slots[slot], 1);
}

static __always_inline void add_sum(void *sums, struct key *key, u64 value)
{
	struct sum *sum = bpf_map_lookup_elem(sums, key);

	if (!sum) {
		struct sum fresh = {};
		bpf_map_update_elem(sums, key, &fresh, BPF_NOEXIST);
		sum = bpf_map_lookup_elem(sums, key);
	}
	if (sum) {
		__sync_fetch_and_add(&sum->count, 1);
		if (point_fields[0].source != NOTHING)
			__sync_fetch_and_add(&sum->sum, value);
	} else {
		add(NO_ROOM, 1);
	}
}

/* Everything is known: compares, and sums up. */
static __noinline int settle(void *ctx, u64 *words)
{
	if (!holds(words))
		return 0;
	u64 value = words[0];
	if (want_hist && point_fields[0].is_signed && (s64)value < 0) {
		add(NEGATIVE, 1);
		return 0;
	}
	/* Sums by key tell it themselves, unless some of them get lost on the way. */
	if (!has_key || want_hist || want_kernel || want_user)
		add(EVENTS, 1);
	struct key key = {};
	if (has_key) {
		__builtin_memcpy(key.words, &words[FIRST_KEY], sizeof(key.words));
		if (want_comm)
			bpf_get_current_comm(key.comm, sizeof(key.comm));
		if (want_kernel)
			key.kernel = kernel_stack(ctx);
		if (want_user) {
			struct task_struct *task = (void *)bpf_get_current_task();
			if (BPF_CORE_READ(task, mm)) {
				key.user = user_stack(ctx);
				key.tgid = bpf_get_current_pid_tgid() >> 32;
				key.born = born(task);
			}
		}
	}
	if (want_hist) {
		add_value(&key, value);
		return 0;
	}
	if (point_fields[0].source != NOTHING && (!has_key || want_kernel || want_user))
		add(SUM, value);
	if (want_kernel || want_user)
		add_sum(&point_sums, &key, value);
	else if (has_key)
		add_sum(&point_short_sums, &key, value);
	return 0;
}

