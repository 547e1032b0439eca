/* SPDX-License-Identifier: MIT OR Apache-2.0
 * The innermost part of a user stack, of which user space finds the functions.
 *
 * Functions of a Java machine keep their frames linked. Those of the C library, which wait for it, do not and come first, so that the
 * kernel finds none of the others; but they lie close by. */
#pragma once
#include "tasks.h"

/* The top of a stack: words that are no address near the code are 0, so that what is the same again has the same name. */
#define TOP 96
struct top {
	u64 sp;
	u64 words[TOP];
};
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1024);
	__type(key, u64);
	__type(value, struct top);
} tops SEC(".maps");
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct top);
} top_at_hand SEC(".maps");
/* Processes of which it is wanted, each at the place of its id. */
#define WITH_TOPS 64
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, WITH_TOPS);
	__type(key, u32);
	__type(value, u32);
} with_tops SEC(".maps");

#define EARLY_WAITS 64
#define ONE_TOP_IN 16
#define NEAR (1ULL << 40)

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)
struct pt_regs___x86_top {
	u64 ip;
	u64 sp;
};
struct pt_regs___arm64_top {
	u64 sp;
	u64 pc;
};
#pragma clang attribute pop

static __always_inline bool wants_top(struct thread *thread)
{
	u32 tgid = thread->ids >> 32, at = tgid & (WITH_TOPS - 1);
	u32 *wanted = bpf_map_lookup_elem(&with_tops, &at);

	if (!wanted || *wanted != tgid)
		return false;
	return thread->waits < EARLY_WAITS || !(thread->waits & (ONE_TOP_IN - 1)) || thread->long_calls & bit_of_call(thread);
}

/* Makes words of the top at hand 0 that are no address near the code, and goes on with the name of all. */
#define TOP_AT_ONCE 8
__noinline u64 name_top_part(u32 from, u64 ip, u64 hash)
{
	u32 zero = 0;
	struct top *top = bpf_map_lookup_elem(&top_at_hand, &zero);
	u64 at = from;

	asm volatile("" : "+r"(at));
	if (!top || at > TOP - TOP_AT_ONCE)
		return hash;
	for (int i = 0; i < TOP_AT_ONCE; i++) {
		/* Without a branch, since each would be verified in each turn: all ones where it is near. */
		u64 far = (top->words[at + i] - ip + NEAR) / (2 * NEAR);
		top->words[at + i] &= ((far | -far) >> 63) - 1;
		hash = mix(hash, top->words[at + i]);
	}
	return hash;
}

/* Keeps the top of the stack of the task that runs now, and returns its name; 0 if it cannot. */
__noinline u64 keep_top(u64 ip, u64 sp)
{
	u32 zero = 0;
	struct top *top = bpf_map_lookup_elem(&top_at_hand, &zero);

	if (!top || bpf_probe_read_user(top->words, sizeof(top->words), (void *)sp))
		return 0;
	u64 hash = mix(NO_WORDS, sp);
	for (int from = 0; from < TOP; from += TOP_AT_ONCE)
		hash = name_top_part(from, ip, hash);
	top->sp = sp;
	hash |= 2;
	if (!bpf_map_lookup_elem(&tops, &hash) && bpf_map_update_elem(&tops, &hash, top, BPF_ANY))
		return 0;
	return hash;
}

static __always_inline u64 top_of_stack(void *saved)
{
	if (IS_ARM64) {
		struct pt_regs___arm64_top *arm = saved;
		return keep_top(BPF_CORE_READ(arm, pc), BPF_CORE_READ(arm, sp));
	}
	struct pt_regs___x86_top *x86 = saved;
	return keep_top(BPF_CORE_READ(x86, ip), BPF_CORE_READ(x86, sp));
}
