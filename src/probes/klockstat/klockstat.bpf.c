// SPDX-License-Identifier: MIT OR Apache-2.0
/* Waits for locks of the kernel: which kind, which lock, who waits, on which stack.
 *
 * A stack is taken when the wait begins: who has to wait has the time, while who has just got a lock holds others up. What spins
 * is on its CPU until it has its lock, but an interrupt may spin for another one meanwhile; so those are noted by CPU, in a
 * table that is never locked. The table of the others is no LRU: that would take locks of its own in an order that a wait
 * for one of them may not have. */
#include "named_stacks.h"

/* LCB_F_… of the kernel. */
#define SPIN 1
#define READER 2
#define WRITER 4
#define MUTEX 32

struct wait {
	u64 lock;
	u64 kind;
	u64 since;
	u64 stack;
};

struct waiter {
	u64 tid;
	u64 lock;
};

struct key {
	u64 lock;
	u64 kind;
	u64 stack;
	u64 tgid;
	char comm[16];
};

struct sum {
	u64 count;
	u64 ns;
	u64 max; /* not exact where two CPUs end a wait of one kind at the same moment */
};

#define NESTED 4
struct spins {
	struct wait at[NESTED];
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct spins);
} spinning SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 16384);
	__type(key, struct waiter);
	__type(value, struct wait);
} sleeping SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 16384);
	__type(key, struct key);
	__type(value, struct sum);
} waits SEC(".maps");

static __always_inline int spins(void *ctx, u64 lock, u64 kind)
{
	u32 zero = 0;
	u64 stack = take_stack(ctx, 0);
	struct spins *spins = bpf_map_lookup_elem(&spinning, &zero);

	if (!spins)
		return 0;
	for (int i = 0; i < NESTED; i++) {
		struct wait *wait = &spins->at[i];
		if (wait->lock && wait->lock != lock && i < NESTED - 1)
			continue;
		wait->lock = lock;
		wait->kind = kind;
		wait->stack = stack;
		wait->since = bpf_ktime_get_ns();
		break;
	}
	return 0;
}

static __always_inline int begins(void *ctx, u64 lock, u64 kind, u64 known_as)
{
	if (!current_wanted())
		return 0;
	/* A mutex spins first, then sleeps, and tells of both: that is one wait. */
	if (kind & MUTEX)
		kind &= ~SPIN;
	if (kind & SPIN)
		return spins(ctx, lock, kind);
	struct waiter waiter = { .tid = bpf_get_current_pid_tgid(), .lock = known_as };
	if (bpf_map_lookup_elem(&sleeping, &waiter))
		return 0;
	struct wait wait = { .lock = lock, .kind = kind, .stack = take_stack(ctx, 0), .since = bpf_ktime_get_ns() };
	if (bpf_map_update_elem(&sleeping, &waiter, &wait, BPF_ANY))
		lose(NO_SUM);
	return 0;
}

static __always_inline void add(struct wait *wait)
{
	u64 took = bpf_ktime_get_ns() - wait->since;
	struct key key = { .lock = wait->lock, .kind = wait->kind, .stack = wait->stack };
	struct sum fresh = { .count = 1, .ns = took, .max = took };

	key.tgid = bpf_get_current_pid_tgid() >> 32;
	bpf_get_current_comm(key.comm, sizeof(key.comm));
	struct sum *sum = bpf_map_lookup_elem(&waits, &key);
	if (!sum) {
		if (!bpf_map_update_elem(&waits, &key, &fresh, BPF_NOEXIST))
			return;
		/* Another CPU may have been first. */
		sum = bpf_map_lookup_elem(&waits, &key);
	}
	if (!sum) {
		lose(NO_SUM);
		return;
	}
	__sync_fetch_and_add(&sum->count, 1);
	__sync_fetch_and_add(&sum->ns, took);
	if (took > sum->max)
		sum->max = took;
}

static __always_inline int ends(u64 known_as, bool may_spin)
{
	u32 zero = 0;
	struct spins *spins = may_spin ? bpf_map_lookup_elem(&spinning, &zero) : NULL;

	for (int i = 0; spins && i < NESTED; i++) {
		if (spins->at[i].lock != known_as)
			continue;
		struct wait wait = spins->at[i];
		spins->at[i].lock = 0;
		add(&wait);
		return 0;
	}
	struct waiter waiter = { .tid = bpf_get_current_pid_tgid(), .lock = known_as };
	struct wait *known = bpf_map_lookup_elem(&sleeping, &waiter);
	if (!known)
		return 0;
	struct wait wait = *known;
	bpf_map_delete_elem(&sleeping, &waiter);
	add(&wait);
	return 0;
}

BOTH_TRACEPOINTS(contention_begin)
{
	return begins(ctx, ctx[0], (u32)ctx[1], ctx[0]);
}

BOTH_TRACEPOINTS(contention_end)
{
	return ends(ctx[0], true);
}

/* Before 5.19: the functions in which a task waits for a lock. It is in one of them at a time. */
#define SLOW_PATH(function, kind)                                                                                      \
	SEC("fentry/" #function) int function##_fentry(u64 *ctx) { return begins(ctx, ctx[0], kind, 0); }              \
	SEC("fexit/" #function) int function##_fexit(u64 *ctx) { return ends(0, false); }

SLOW_PATH(__mutex_lock_slowpath, MUTEX)
SLOW_PATH(__mutex_lock_killable_slowpath, MUTEX)
SLOW_PATH(__mutex_lock_interruptible_slowpath, MUTEX)
SLOW_PATH(rwsem_down_read_slowpath, READER)
SLOW_PATH(rwsem_down_write_slowpath, WRITER)
