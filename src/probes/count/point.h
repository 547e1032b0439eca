/* SPDX-License-Identifier: MIT OR Apache-2.0
 * What happens at one point: a tracepoint, or a function of the kernel or of a program.
 *
 * What a point has (arguments in registers, fields of a record, the value returned) lies at a known offset of the context,
 * so a few constants, set before loading, say what to read and what to compare; the verifier removes the rest. Contexts are
 * read through a helper: a computed offset into one may not be followed directly. */
#pragma once
#include "field.h"

/* What may be read: the value, three parts of the key, and the left sides of four comparisons. */
#define KEYS 3
#define TESTS 4
#define FIRST_KEY 1
#define FIRST_TEST (FIRST_KEY + KEYS)
#define FIELDS (FIRST_TEST + TESTS)

enum operator { NO_TEST, EQUAL, UNEQUAL, LESS, LESS_EQUAL, GREATER, GREATER_EQUAL, SHARES_BITS };
struct test {
	u32 operator;
	u32 is_signed;
	u64 number;
};

const volatile struct field point_fields[FIELDS] = {};
const volatile struct test point_tests[TESTS] = {};
const volatile u32 is_paired = 0; /* what is needed of the entry is kept until the return */
const volatile s32 group_v1 = -1; /* index of the v1 controller in whose tree the GROUP is; -1 in the v2 tree */

/* Calls of one thread that have not returned yet, the last one on top. */
#define DEEPEST 8
struct call {
	u64 at;
	u64 words[FIELDS];
};
struct calls {
	u64 depth;
	struct call calls[DEEPEST];
};
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct calls);
} point_calls SEC(".maps");

/* What new values begin as; nobody writes here. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct calls);
} no_calls SEC(".maps");

enum { EVENTS, SUM, NEGATIVE, NO_ROOM, NO_STACK_ROOM, TOO_DEEP, NO_ENTRY, COUNTERS };
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, COUNTERS);
	__type(key, u32);
	__type(value, u64);
} point_counters SEC(".maps");

/* The program of a uprobe or of a trampoline may be preempted, and run for another task on the same CPU meanwhile. */
const volatile u32 is_preempted = 0;

static __always_inline void plus(u64 *counter, u64 value)
{
	if (is_preempted)
		__sync_fetch_and_add(counter, value);
	else
		*counter += value;
}

static __always_inline void add(u32 which, u64 value)
{
	u64 *counter = bpf_map_lookup_elem(&point_counters, &which);

	if (counter)
		plus(counter, value);
}

/* The control group of the task that runs, by the inode of its directory. */
static __always_inline u64 group(void)
{
	struct task_struct *task = (void *)bpf_get_current_task();
	struct css_set *set = BPF_CORE_READ(task, cgroups);
	struct cgroup_subsys_state *css = NULL;
	struct cgroup *group = NULL;

	if (group_v1 >= 0 && group_v1 < 16) {
		bpf_core_read(&css, sizeof(css), &set->subsys[group_v1 & 15]);
		group = BPF_CORE_READ(css, cgroup);
	} else {
		group = BPF_CORE_READ(set, dfl_cgrp);
	}
	return BPF_CORE_READ(group, kn, id);
}

static __always_inline bool passes(const volatile struct test *test, u64 value)
{
	u64 number = test->number;

	if (test->is_signed) {
		/* Both move by the same, and keep their order. */
		value ^= 1ULL << 63;
		number ^= 1ULL << 63;
	}
	switch (test->operator) {
	case EQUAL: return value == number;
	case UNEQUAL: return value != number;
	case LESS: return value < number;
	case LESS_EQUAL: return value <= number;
	case GREATER: return value > number;
	case GREATER_EQUAL: return value >= number;
	case SHARES_BITS: return value & number;
	default: return true;
	}
}

/* Everything that was to be read at the point is in `words`. */
static __noinline int settle(void *ctx, u64 *words);

/* What every event has, and whether all comparisons hold. */
static __always_inline bool holds(u64 *words)
{
#pragma unroll
	for (int i = 0; i < FIELDS; i++) {
		switch (point_fields[i].source) {
		case TGID: words[i] = bpf_get_current_pid_tgid() >> 32; break;
		case TID: words[i] = (u32)bpf_get_current_pid_tgid(); break;
		case CPU: words[i] = bpf_get_smp_processor_id(); break;
		case GROUP: words[i] = group(); break;
		}
	}
#pragma unroll
	for (int i = 0; i < TESTS; i++) {
		if (point_tests[i].operator != NO_TEST && !passes(&point_tests[i], words[FIRST_TEST + i]))
			return false;
	}
	return true;
}

static __noinline int remember(u64 *words)
{
	u32 tid = bpf_get_current_pid_tgid(), zero = 0;
	struct calls *calls = bpf_map_lookup_elem(&point_calls, &tid);

	if (!calls) {
		struct calls *empty = bpf_map_lookup_elem(&no_calls, &zero);
		if (!empty)
			return 0;
		bpf_map_update_elem(&point_calls, &tid, empty, BPF_ANY);
		calls = bpf_map_lookup_elem(&point_calls, &tid);
		if (!calls)
			return 0;
	}
	u64 depth = calls->depth++;
	if (depth >= DEEPEST)
		return 0;
	struct call *call = &calls->calls[depth & (DEEPEST - 1)];
	__builtin_memcpy(call->words, words, sizeof(call->words));
	call->at = bpf_ktime_get_ns();
	return 0;
}

/* Where something begins, or happens at once. */
static __noinline int enters(void *ctx)
{
	u64 words[FIELDS] = {};

	if (!current_wanted())
		return 0;
#pragma unroll
	for (int i = 0; i < FIELDS; i++) {
		if (point_fields[i].source == ENTRY || point_fields[i].source == MEMORY || point_fields[i].source == CONSTANT)
			words[i] = load(ctx, &point_fields[i]);
	}
	return is_paired ? remember(words) : settle(ctx, words);
}

static __noinline int returns(void *ctx)
{
	u64 words[FIELDS] = {}, now = bpf_ktime_get_ns();
	u32 tid = bpf_get_current_pid_tgid();
	struct call *call = NULL;

	if (!current_wanted())
		return 0;
	if (is_paired) {
		struct calls *calls = bpf_map_lookup_elem(&point_calls, &tid);
		u64 depth = calls ? calls->depth : 0;
		if (!calls || !depth) {
			add(NO_ENTRY, 1);
			return 0;
		}
		calls->depth = --depth;
		if (depth >= DEEPEST) {
			add(TOO_DEEP, 1);
			return 0;
		}
		call = &calls->calls[depth & (DEEPEST - 1)];
		__builtin_memcpy(words, call->words, sizeof(words));
		now = now > call->at ? now - call->at : 0;
	}
#pragma unroll
	for (int i = 0; i < FIELDS; i++) {
		if (point_fields[i].source == RETURN)
			words[i] = load(ctx, &point_fields[i]);
		if (point_fields[i].source == LATENCY)
			words[i] = now;
	}
	return settle(ctx, words);
}

SEC("tracepoint/any") int point_tracepoint(void *ctx) { return enters(ctx); }
SEC("kprobe/any") int point_kprobe(void *ctx) { return enters(ctx); }
SEC("kretprobe/any") int point_kretprobe(void *ctx) { return returns(ctx); }
SEC("fentry/any") int point_fentry(void *ctx) { return enters(ctx); }
SEC("fexit/any") int point_fexit(void *ctx) { return returns(ctx); }
SEC("uprobe/any") int point_uprobe(void *ctx) { return enters(ctx); }
SEC("uretprobe/any") int point_uretprobe(void *ctx) { return returns(ctx); }
