/* SPDX-License-Identifier: MIT OR Apache-2.0
 * For how long any thread of a process ran, or could have. Where a runtime moves the work from thread to thread, as Go does, what one of
 * them did says little. The first thread's record has the sums.
 *
 * No lock, and no operation that returns what was there (before 5.12 there is none): of threads that begin and end in the same nanoseconds
 * one may miss what the other has just written, which costs the time of one of them until it goes. */
#pragma once
#include "tasks.h"

const volatile u32 with_together = 0;

#define RUNS 1
#define ABLE 2 /* runs, or waits for a CPU */

/* The record that has the sums; none of a process with one thread. */
static __always_inline struct thread *first_of(struct thread *thread)
{
	u32 tgid = thread->ids >> 32;
	struct thread *first = (u32)thread->ids == tgid ? thread : observed(tgid);

	return first && first->shared ? first : NULL;
}

static __always_inline void one_more(u64 *count, struct any *any, u64 now)
{
	__sync_fetch_and_add(count, 1);
	barrier();
	if (!*(volatile u64 *)&any->since)
		any->since = now;
}

/* The last one says for how long there was any. Its own time is known where another one has just begun another sum. Two that both see
 * themselves as the last write nearly the same. */
static __always_inline void one_less(u64 *count, struct any *any, u64 own_since, u64 now)
{
	if (!*(volatile u64 *)count)
		return;
	__sync_fetch_and_add(count, -1);
	barrier();
	if (*(volatile u64 *)count)
		return;
	u64 sum = *(volatile u64 *)&any->sum, from = *(volatile u64 *)&any->since, until = *(volatile u64 *)&any->until;
	any->since = 0;
	if (!from)
		from = own_since;
	if (from < until)
		from = until;
	if (now <= from)
		return;
	any->sum = sum + (now - from);
	any->until = now;
}

static __noinline void counts_as(struct thread *thread, u64 what, u64 now)
{
	struct thread *first = first_of(thread);

	if (!first)
		return;
	what &= ~thread->counted;
	thread->counted |= what;
	if (what & ABLE)
		one_more(&first->able, &first->any_able, now);
	if (what & RUNS)
		one_more(&first->running, &first->any_ran, now);
}

static __noinline void counts_no_more(struct thread *thread, u64 what, u64 now)
{
	struct thread *first = first_of(thread);

	what &= thread->counted;
	thread->counted &= ~what;
	if (!first)
		return;
	if (what & RUNS)
		one_less(&first->running, &first->any_ran, thread->on_since, now);
	if (what & ABLE)
		one_less(&first->able, &first->any_able, thread->on_since, now);
}

/* The running thread has made another one of its process. Until now the first one was alone. */
static __always_inline void gets_company(u32 tgid, u64 now)
{
	struct thread *first = observed(tgid), *own = observed((u32)bpf_get_current_pid_tgid());

	if (!first || first->shared)
		return;
	first->shared = 1;
	first->any_ran.sum = first->user + first->kernel;
	first->any_able.sum = first->any_ran.sum + first->runq;
	if (!own || own->ids >> 32 != tgid)
		return;
	if (own == first)
		first->any_ran.since = first->any_able.since = first->t;
	counts_as(own, RUNS | ABLE, now);
}

static __always_inline void goes_on_until(struct any *any, u64 now)
{
	if (any->since && now > any->since)
		any->sum += now - any->since;
	any->since = 0;
}

/* A thread ends, and with the first one the sums do. */
static __always_inline void leaves_others(struct thread *thread, u64 now)
{
	counts_no_more(thread, RUNS | ABLE, now);
	if (!thread->shared)
		return;
	goes_on_until(&thread->any_ran, now);
	goes_on_until(&thread->any_able, now);
	thread->shared = 0;
}

/* Another program is another matter. */
static __always_inline void begins_anew(struct thread *thread)
{
	thread->shared = thread->running = thread->able = thread->counted = 0;
	thread->any_ran = thread->any_able = (struct any){};
}
