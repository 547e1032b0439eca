/* SPDX-License-Identifier: MIT OR Apache-2.0
 * Semaphores that are used as locks, as far as the program's memory and who wakes whom prove it.
 *
 * A semaphore keeps others out, or counts what is in a queue, or tells that something has happened. Of a lock the value is 1 at most, and
 * who waits for it is woken by the thread that was let in last. Who takes it without waiting is not seen, but for one: a thread that was
 * woken for it and waits again at once has found it taken, by the one that had just let it go. User space decides by all waits for it
 * (semaphores.rs). The layout is that of glibc since 2.21, where a word has 64 bits. */
#pragma once
#include "futex.h"

struct semaphore {
	u32 value;
	u32 waiters;
	u32 shared; /* 0, or FUTEX_PRIVATE: the other way round than in the call */
	u32 unused;
};

/* What thread->semaphore has beside the address. */
#define IS_POSTED 1 /* the wait ended since its value was not 0 */
#define IS_SHARED 2 /* between processes: those that were forked have it at the same address */
#define SEMAPHORE_FLAGS 7

/* How waits for one ended: the second word of what their cells are about. */
#define HANDED_ON 1 /* by the thread that was let in last */
#define COUNTS 2 /* its value was more than 1 */
#define ACROSS 4 /* by a thread of another process */

struct holder_key {
	u64 tgid; /* 0 of a shared one */
	u64 semaphore;
};
struct holder {
	u64 tid; /* that was let in last; 0: it has let it go, or is not known */
	u64 since;
	u64 before; /* who let it go last, if that was known to have it */
};
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 1024);
	__type(key, struct holder_key);
	__type(value, struct holder);
} holders SEC(".maps");

static __always_inline struct holder_key holder_key(struct thread *thread)
{
	return (struct holder_key){
		.tgid = thread->semaphore & IS_SHARED ? 0 : thread->ids >> 32,
		.semaphore = thread->semaphore & ~(u64)SEMAPHORE_FLAGS,
	};
}

/* The task that runs now begins to wait for a futex, which may be a semaphore. */
#define AT_ONCE 100000
static __noinline void waits_for_semaphore(struct thread *thread, u64 operation, u32 value)
{
	if ((operation & FUTEX_OPERATION) != FUTEX_WAIT_BITSET || value || thread->argument & SEMAPHORE_FLAGS)
		return;
	thread->semaphore = thread->argument | (operation & FUTEX_PRIVATE ? 0 : IS_SHARED);
	struct holder_key key = holder_key(thread);
	struct holder *holder = bpf_map_lookup_elem(&holders, &key);
	if (!holder || holder->tid != (u32)thread->ids)
		return;
	/* It has let it go before anybody waited, or has never had it. */
	holder->tid = thread->t - holder->since < AT_ONCE ? holder->before : 0;
	holder->before = 0;
}

/* A thread that waits for what may be one is woken. */
static __noinline void note_who_had_it(struct thread *thread, u64 waker, u64 now)
{
	struct holder_key key = holder_key(thread);
	bool shared = thread->semaphore & IS_SHARED, across = waker >> 32 != thread->ids >> 32;
	struct semaphore is = {};

	if (bpf_probe_read_user(&is, sizeof(is), (void *)key.semaphore) || !is.value || !is.waiters)
		return;
	if (is.shared != (shared ? FUTEX_PRIVATE : 0) || (across && !shared))
		return;
	thread->semaphore |= IS_POSTED;
	thread->ended_by = across ? ACROSS : 0;
	struct holder *holder = bpf_map_lookup_elem(&holders, &key);
	u64 had = holder ? holder->tid : 0;
	if (is.value > 1) {
		thread->ended_by |= COUNTS;
	} else if (had && had == (u32)waker) {
		u64 since = holder->since > thread->t ? holder->since : thread->t;
		thread->ended_by |= HANDED_ON;
		/* All who wait have their turn. */
		thread->held = now > since ? (now - since) * is.waiters : 0;
	} else {
		had = 0;
	}
	if (holder) {
		holder->before = had;
		holder->tid = 0;
	}
}

/* A wait has ended: of a semaphore that was posted the thread may have it from now on. */
static __always_inline void may_have_it(struct thread *thread, u64 now)
{
	if (!(thread->semaphore & IS_POSTED))
		return;
	struct holder_key key = holder_key(thread);
	struct holder *holder = bpf_map_lookup_elem(&holders, &key);
	struct holder first = { .tid = (u32)thread->ids, .since = now };
	if (holder) {
		holder->tid = first.tid;
		holder->since = now;
	} else {
		bpf_map_update_elem(&holders, &key, &first, BPF_ANY);
	}
}
