// SPDX-License-Identifier: MIT OR Apache-2.0
/* Which mutex is asked for while which others are held. An order is noted when the lock is asked for, before it is given: in a
 * deadlock it never is. A stack is taken when an order is seen for the first time. */
#include "named_stacks.h"
#include "arm64.h"

struct pt_regs___x86 {
	u64 di;
	u64 sp;
	u64 ax;
} __attribute__((preserve_access_index));

#define HELD 8
struct thread {
	u64 asked;
	u64 depth; /* may be more than there is room for */
	u64 held[HELD];
};

struct order {
	u64 tgid;
	u64 first;
	u64 then;
};

struct seen {
	u64 count;
	u64 stack;
	u64 born;
	u64 tid; /* who was first */
	u64 by_others;
	char comm[16];
};

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 16384);
	__type(key, u32);
	__type(value, struct thread);
} threads SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 16384);
	__type(key, struct order);
	__type(value, struct seen);
} orders SEC(".maps");

/* The first argument, and the result, of a function of the program. */
static __always_inline u64 argument(void *regs)
{
	u64 value = 0;

	if (IS_ARM64)
		bpf_core_read(&value, sizeof(value), &((struct pt_regs___arm64 *)regs)->regs[0]);
	else
		bpf_core_read(&value, sizeof(value), &((struct pt_regs___x86 *)regs)->di);
	return value;
}

static __always_inline s32 result(void *regs)
{
	u64 value = 0;

	if (IS_ARM64)
		bpf_core_read(&value, sizeof(value), &((struct pt_regs___arm64 *)regs)->regs[0]);
	else
		bpf_core_read(&value, sizeof(value), &((struct pt_regs___x86 *)regs)->ax);
	return value;
}

/* Where a function that has just been entered returns to. */
static __always_inline u64 caller(void *regs)
{
	u64 value = 0;

	if (IS_ARM64) {
		bpf_core_read(&value, sizeof(value), &((struct pt_regs___arm64 *)regs)->regs[30]);
		return value;
	}
	u64 sp = 0;
	bpf_core_read(&sp, sizeof(sp), &((struct pt_regs___x86 *)regs)->sp);
	bpf_probe_read_user(&value, sizeof(value), (void *)sp);
	return value;
}

static __always_inline void note(void *ctx, u64 ids, u64 first, u64 then, u64 from)
{
	struct order order = { .tgid = ids >> 32, .first = first, .then = then };
	struct seen *seen = bpf_map_lookup_elem(&orders, &order);

	if (seen) {
		__sync_fetch_and_add(&seen->count, 1);
		if (seen->tid != (u32)ids)
			seen->by_others = 1;
		return;
	}
	struct seen fresh = { .count = 1, .tid = (u32)ids, .born = current_born() };
	fresh.stack = take_callers_stack(ctx, from);
	bpf_get_current_comm(fresh.comm, sizeof(fresh.comm));
	if (bpf_map_update_elem(&orders, &order, &fresh, BPF_ANY))
		lose(NO_SUM);
}

static __always_inline struct thread *thread_of(u32 tid)
{
	struct thread *thread = bpf_map_lookup_elem(&threads, &tid);

	if (thread)
		return thread;
	struct thread none = {};
	bpf_map_update_elem(&threads, &tid, &none, BPF_ANY);
	return bpf_map_lookup_elem(&threads, &tid);
}

static __always_inline int asks(void *ctx, const bool waits)
{
	u64 ids = bpf_get_current_pid_tgid(), lock = argument(ctx);

	if (!current_wanted())
		return 0;
	struct thread *thread = thread_of(ids);
	if (!thread)
		return 0;
	thread->asked = lock;
	/* Whoever does not wait is in nobody's way. */
	if (!waits || !thread->depth)
		return 0;
	/* Not in the loop: the compiler would look for the registers of the other architecture before it knows which one it is. */
	u64 from = caller(ctx);
	bool again = false;
	for (int i = 0; i < HELD; i++)
		again |= i < thread->depth && thread->held[i] == lock;
	for (int i = 0; !again && i < HELD; i++) {
		if (i < thread->depth && thread->held[i])
			note(ctx, ids, thread->held[i], lock, from);
	}
	return 0;
}

static __always_inline int gets(void *ctx)
{
	u32 tid = bpf_get_current_pid_tgid();
	struct thread *thread = bpf_map_lookup_elem(&threads, &tid);

	if (!thread || !thread->asked)
		return 0;
	u64 lock = thread->asked, depth = thread->depth;
	thread->asked = 0;
	if (result(ctx))
		return 0;
	if (depth < HELD)
		thread->held[depth & (HELD - 1)] = lock;
	else
		lose(NO_SUM);
	thread->depth = depth + 1;
	return 0;
}

SEC("uprobe") int lock_uprobe(void *ctx)
{
	return asks(ctx, true);
}

SEC("uretprobe") int lock_uretprobe(void *ctx)
{
	return gets(ctx);
}

SEC("uprobe") int try_uprobe(void *ctx)
{
	return asks(ctx, false);
}

SEC("uretprobe") int try_uretprobe(void *ctx)
{
	return gets(ctx);
}

/* Locks are mostly given back in the opposite order, but need not be: what was taken later moves down. */
SEC("uprobe") int unlock_uprobe(void *ctx)
{
	u32 tid = bpf_get_current_pid_tgid();
	u64 lock = argument(ctx);
	struct thread *thread = bpf_map_lookup_elem(&threads, &tid);

	if (!thread || !thread->depth)
		return 0;
	u64 depth = thread->depth, known = HELD;
	for (int i = 0; i < HELD; i++) {
		if (i < depth && thread->held[i] == lock)
			known = i;
	}
	/* One that found no room, or was taken before the start. */
	if (known == HELD) {
		if (depth > HELD)
			thread->depth = depth - 1;
		return 0;
	}
	for (int i = 0; i < HELD - 1; i++) {
		if (i >= known)
			thread->held[i] = thread->held[i + 1];
	}
	thread->held[HELD - 1] = 0;
	thread->depth = depth - 1;
	return 0;
}
