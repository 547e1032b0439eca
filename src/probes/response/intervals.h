/* SPDX-License-Identifier: MIT OR Apache-2.0
 * Intervals that end: where their time goes. */
#pragma once
#include "futex.h"
#include "rings.h"
#include "semaphores.h"
#include "together.h"

/* Ends the interval under way and gives its length; the first of a thread began before anybody looked. */
static __always_inline u64 elapsed(struct thread *thread, u64 now)
{
	u64 ns = now > thread->t ? now - thread->t : 0;

	thread->t = now > thread->t ? now : thread->t;
	if (thread->fresh)
		thread->edge += ns;
	return ns;
}

/* The interval for which a thread waited for a CPU, or was not allowed to have one. */
__noinline int queued_in(u32 slot, u32 mode_open, u64 ns, u64 now, u64 throttled)
{
	struct thread *thread = bpf_map_lookup_elem(&threads, &slot);
	u64 mode = mode_open & 0xff;
	bool open = mode_open >> 8;
	if (!thread)
		return 0;
	struct key key = { .kind = RUNQ | (u64)mode << 8 };

	thread->runq += ns;
	if (throttled > ns)
		throttled = ns;
	if (throttled) {
		struct key other = { .kind = RUNQ | (u64)THROTTLED << 8 };
		struct cell *cell = cell_of(thread, slot, &other, 0);
		if (!cell)
			thread->unkept += throttled;
		else if (open)
			cell_add_open(cell, throttled, now);
		else
			cell_add(cell, throttled, now);
		ns -= throttled;
		if (!ns)
			return 0;
	}
	struct cell *cell = cell_of(thread, slot, &key, 0);
	if (!cell)
		thread->unkept += ns;
	else if (open)
		cell_add_open(cell, ns, now);
	else
		cell_add(cell, ns, now);
	return 0;
}

static __always_inline void queued(struct thread *thread, u64 slot, u64 mode, u64 ns, u64 now, bool open, u64 throttled)
{
	queued_in(slot, mode | (u32)open << 8, ns, now, throttled);
}

/* It was off the CPU for this time since it went out: how much of that was while calls were watched. */
static __always_inline void was_off(struct thread *thread, u64 ns, u64 watched)
{
	u64 since = watched > thread->out_watched ? watched - thread->out_watched : 0;

	thread->off_watched += ns < since ? ns : since;
}

/* How much of a wait for a CPU that ends now was no permission to run. Of a thread that went out for its quota, all: what it
 * waited for a CPU after it got a new one is in it, since nothing says when that was. */
static __always_inline u64 throttled_of(struct thread *thread, struct task_struct *task, u64 ns)
{
	if (thread->mode == THROTTLED)
		return ns;
	if (!bpf_core_field_exists(task->se.cfs_rq))
		return 0;
	/* A queue whose quota ran out while the thread waited in it. */
	struct cfs_rq *cfs_rq = BPF_CORE_READ(task, se.cfs_rq);
	return (u64)cfs_rq == thread->cfs_rq ? throttled_time(cfs_rq) - thread->throttled_before : 0;
}

/* A futex whose use is in the memory of its program alone. */
static __always_inline bool is_unknown_futex(u64 wait)
{
	u64 flags = wait >> 48, operation = flags >> 8 & FUTEX_OPERATION;

	return traits(wait >> 8 & 0xffff) & TAKES_ADDRESS && !(flags & (LOCK_WORD | RWLOCK | PARKED)) &&
	       (operation == FUTEX_WAIT || operation == FUTEX_WAIT_BITSET);
}

/* A wait that ended, or lasts still. */
__noinline int waited_in(u32 slot, u64 ns, u32 open, u64 stack)
{
	struct thread *thread = bpf_map_lookup_elem(&threads, &slot);
	if (!thread)
		return 0;
	tell_disk(thread, open);
	struct key key = { .kind = thread->wait };
	bool sampled = stack && !open && ns < threshold_ns;

	key.object[0] = thread->object[0];
	key.object[1] = thread->object[1];
	key.object[2] = thread->object[2];
	key.stack = sampled ? 0 : stack;
	struct cell *cell = cell_of(thread, slot, &key, thread->file);
	if (!cell)
		thread->unkept += ns;
	else if (open)
		cell_add_open(cell, ns, thread->t);
	else
		cell_add(cell, ns, thread->t);
	key.object[1] = key.object[2] = 0;
	if (thread->semaphore && !open && is_unknown_futex(thread->wait)) {
		key.kind = (thread->wait & ~0xffULL) | SEMAPHORE;
		key.stack = 0;
		key.object[1] = thread->ended_by;
		cell = cell_of(thread, slot, &key, 0);
		if (cell) {
			cell->count++;
			cell->sum += ns;
			cell->within += thread->held;
		}
		key.object[1] = 0;
	}
	if (stack) {
		key.kind = (thread->wait & ~0xffULL) | STACK | (sampled ? (u64)SHORT << 48 : 0);
		/* Of a futex that nothing else tells the use of, the stacks that wait for it may; of a parked thread what it is parked for does. */
		bool is_told = thread->wait >> 48 & PARKED || thread->semaphore & IS_POSTED || (is_by_tables(thread->user_stack) && is_unknown_futex(thread->wait));
		key.object[1] = is_told ? thread->object[0] : 0;
		key.object[0] = thread->user_stack;
		key.stack = stack;
		cell = cell_of(thread, slot, &key, 0);
		if (cell) {
			cell->count++;
			cell->sum += ns;
		}
	}
	if (thread->woken) {
		key.kind = (thread->wait & ~0xffULL) | WAKER;
		key.stack = thread->waker_stack;
		key.object[0] = thread->waker;
		key.object[1] = thread->waker_comm[0];
		key.object[2] = thread->waker_comm[1];
		cell = cell_of(thread, slot, &key, 0);
		if (cell) {
			cell->count++;
			cell->sum += ns;
		}
	}
	return 0;
}

static __always_inline void waited(struct thread *thread, u64 slot, u64 ns, bool open, u64 stack)
{
	waited_in(slot, ns, open, stack);
}

/* The kernel's own account of a task's run time and of its waits for a CPU. */
static __always_inline u64 run_time(struct task_struct *task, const bool direct)
{
	return READ(task, se.sum_exec_runtime);
}

static __always_inline u64 run_delay(struct task_struct *task, const bool direct)
{
	return bpf_core_field_exists(task->sched_info.run_delay) ? READ(task, sched_info.run_delay) : 0;
}

/* A thread is seen running that was not seen to come in: some kernels leave events out. How long it waited for a CPU is
 * in the kernel's account, which was settled when it got one. Returns how much of the time it ran. */
static __noinline u64 came_unseen(struct thread *thread, u64 slot, u64 task, u64 begun, u64 ns)
{
	u64 waits = run_delay((void *)task, false) - thread->waited_before, mode = thread->mode;

	lose(LOST_SWITCH);
	if (waits > ns)
		waits = ns;
	if (mode == PREEMPTED || mode == WOKEN || mode == THROTTLED) {
		/* Without such an account nobody knows. */
		if (!waits) {
			thread->unknown += ns;
			return 0;
		}
		queued(thread, slot, mode, waits, thread->t, thread->fresh, 0);
		thread->off += waits;
		return ns - waits;
	}
	if (mode != BLOCKED) {
		thread->unknown += ns;
		return 0;
	}
	u64 ran = run_time((void *)task, false) - thread->ran_before, blocked = ns - waits;
	if (thread->woken)
		blocked = thread->woken > begun ? thread->woken - begun : 0;
	else
		blocked = blocked > ran ? blocked - ran : 0;
	if (blocked > ns - waits)
		blocked = ns - waits;
	waited(thread, slot, blocked, thread->fresh, 0);
	queued(thread, slot, WOKEN, waits, thread->t, false, 0);
	thread->off += blocked + waits;
	return ns - blocked - waits;
}

/* The interval that ends now was spent on a CPU. */
static __always_inline void ran(struct thread *thread, u64 slot, u64 task, u64 now, bool in_kernel)
{
	u64 begun = thread->t, ns = elapsed(thread, now);

	if (thread->mode != ON) {
		u64 number = 0, off = thread->off;
		ns = came_unseen(thread, slot, task, begun, ns);
		was_off(thread, thread->off - off, watched_until(latest_watch(&number), now));
		thread->mode = ON;
		if (with_together)
			counts_as(thread, RUNS | ABLE, now);
	}
	if (in_kernel || (thread->flags & 1))
		thread->kernel += ns;
	else
		thread->user += ns;
	thread->fresh = 0;
}
