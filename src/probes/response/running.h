/* SPDX-License-Identifier: MIT OR Apache-2.0
 * Where observed threads are while they run: samples by a clock on each CPU. How long they ran is known exactly; these divide it.
 * Their stacks are many, and have a table of their own, which user space empties again and again. */
#pragma once
#include "walk.h"

struct running {
	u64 ids; /* process << 32 | thread */
	u64 process_born;
	u64 comm[2];
	u64 user_stack; /* 0: of a thread of the kernel */
	u64 kernel_stack; /* 0: it ran in user mode */
};
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1);
	__type(key, struct running);
	__type(value, u64);
} running SEC(".maps");
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1);
	__type(key, u64);
	__type(value, struct stack);
} running_stacks SEC(".maps");

static __noinline u64 keep_running(struct stack *stack, u64 name)
{
	if (!bpf_map_lookup_elem(&running_stacks, &name) && bpf_map_update_elem(&running_stacks, &name, stack, BPF_ANY)) {
		lose(NO_SAMPLE);
		return MISSING;
	}
	return name;
}

/* The functions of Python behind the innermost place on the stack; 0 if it has none. */
static __always_inline u64 running_python(void *ctx, struct stack *at_hand, struct thread *thread, struct python *python, u32 tgid)
{
	u32 two = 2;
	u64 at = python_thread(thread, (void *)bpf_get_current_task(), tgid);

	if (!at || bpf_get_stack(ctx, at_hand, sizeof(u64), BPF_F_USER_STACK) <= 0)
		return 0;
	if (!python_frames(at_hand, two, python, tgid, at)) {
		thread->interpreter = 0;
		return 0;
	}
	name_python(two, tgid);
	return keep_running(at_hand, python_stack_name(two, tgid));
}

static __always_inline int sample_running(void *ctx, const bool of_python)
{
	struct running key = { .ids = bpf_get_current_pid_tgid() };
	struct thread *thread = observed(key.ids);
	u32 tgid = key.ids >> 32, two = 2;
	u64 one = 1;

	if (!thread)
		return 0;
	struct python *python = bpf_map_lookup_elem(&pythons, &tgid);
	struct stack *at_hand = bpf_map_lookup_elem(&scratch, &two);
	if (!at_hand || !!python != of_python)
		return 0;
	key.process_born = thread->process_born;
	bpf_get_current_comm(key.comm, sizeof(key.comm));
	if (bpf_get_stack(ctx, at_hand, sizeof(*at_hand), 0) > 0)
		key.kernel_stack = keep_running(at_hand, name_at_hand(two));
	if (python)
		key.user_stack = running_python(ctx, at_hand, thread, python, tgid);
	if (!key.user_stack && !(thread->flags & 1)) {
		bool to_keep = true;
		u64 name = of_python ? 0 : walked_stack(at_hand, thread, own_registers(), true, &to_keep);
		key.user_stack = MISSING;
		if (!name && bpf_get_stack(ctx, at_hand, sizeof(*at_hand), BPF_F_USER_STACK) > 0)
			name = name_at_hand(two);
		if (name)
			key.user_stack = to_keep ? keep_running(at_hand, name) : name;
	}
	u64 *count = bpf_map_lookup_elem(&running, &key);
	if (count)
		__sync_fetch_and_add(count, 1);
	else if (bpf_map_update_elem(&running, &key, &one, BPF_ANY))
		lose(NO_SAMPLE);
	return 0;
}
