/* SPDX-License-Identifier: MIT OR Apache-2.0
 * System calls, as far as they are watched: all the time, in short parts of it, or first the one and then the other.
 *
 * A call counts if it ends while it is watched. Its time is as much of it as was watched, whether or not it began or ended
 * then: a thread that goes out tells its call by its registers at any time, so a long wait has its share of each part. */
#pragma once
#include "intervals.h"

static __noinline void failed(struct thread *thread, u64 slot, u64 of, u64 error)
{
	struct key key = { .kind = (of & ~0xffULL) | ERRNO, .object[0] = error };
	struct cell *cell = cell_of(thread, slot, &key, 0);

	if (cell)
		cell->count++;
}

#define CUT 0 /* nothing will tell any more how long it lasts */
#define LEFT 1 /* it is under way when the observation ends */
/* A call that ended at an instant, or is to be left at that. `call_most` says what was watched by then. */
__noinline int called_in(u32 slot, s64 result, u64 ended)
{
	struct thread *thread = bpf_map_lookup_elem(&threads, &slot);
	if (!thread)
		return 0;
	u64 call = thread->call, class = NO_FILE, at = thread->call_at;
	struct key key = { .kind = CALL };
	u32 zero = 0;
	u8 has = traits(call);

	thread->call_at = 0;
	if (call >= CALLS || call == NONE || (thread->flags & 1))
		return 0;
	if (has & TAKES_FD) {
		struct opened *file = opened(thread, thread->task, thread->argument & 0xffffffff, false);
		class = file->class;
		if (class == ANONYMOUS)
			key.object[2] = file->object[2];
	}
	key.kind |= call << 8 | class << 24 | (thread->in_parts ? (u64)IN_PARTS << 48 : 0);
	struct cell *cell = cell_of(thread, slot, &key, 0);
	if (!cell)
		return 0;
	u64 within = thread->call_most > thread->call_from ? thread->call_most - thread->call_from : 0;
	u64 off = thread->off_watched - thread->call_off;
	cell->within += within;
	cell->on += within > off ? within - off : 0;
	if (ended == CUT)
		return 0;
	if (ended == LEFT || thread->call_open == 1) {
		cell->open++;
		return 0;
	}
	cell_add(cell, ended > at ? ended - at : 0, ended);
	count_in(&calls_made, &zero, 1);
	if (is_error(result))
		failed(thread, slot, key.kind, -result);
	else if (has & GIVES_BYTES)
		cell->bytes += result;
	return 0;
}

static __always_inline void called(struct thread *thread, u64 slot, u64 task, s64 result, u64 ended)
{
	thread->task = task;
	called_in(slot, result, ended);
}

/* It is in this call, which nobody has seen begin. */
static __always_inline void meets(struct thread *thread, struct watch *watch, u64 at, u64 open)
{
	if (thread->call >= CALLS || thread->call == NONE)
		return;
	thread->call_at = at;
	thread->call_open = open;
	thread->call_from = watched_until(watch, at);
	thread->call_most = thread->call_from;
	thread->call_off = thread->off_watched;
}

/* Since when a call was under way that was so when a watch began. */
static __always_inline u64 met_at(struct thread *thread, struct watch *watch)
{
	return thread->began > watch->from ? thread->began : watch->from;
}

/* From now on only parts of the time are watched: what was before is an account of its own. */
static __noinline void into_parts(struct thread *thread, u64 slot, u64 task, u64 whole)
{
	u64 at = thread->call_at;

	if (at) {
		thread->call_most = whole;
		called(thread, slot, task, 0, CUT);
		thread->call_at = at;
	}
	thread->in_parts = 1;
	thread->call_from = thread->call_most = 0;
	thread->call_off = thread->off_watched;
	thread->out_watched = 0;
}

static __always_inline void keeps_up(struct thread *thread, u64 slot, u64 task, struct watch *watch)
{
	if (watch && watch->in_parts && !thread->in_parts)
		into_parts(thread, slot, task, watch->whole);
}

/* A thread is about to go out. Its registers tell its call, unless that was seen to begin or end. Returns what was watched
 * until now. */
static __always_inline u64 find_call(struct thread *thread, u64 slot, struct task_struct *task, u64 now)
{
	u64 number = 0;
	struct watch *watch = latest_watch(&number);
	bool on = is_watched(watch, now);

	keeps_up(thread, slot, (u64)task, watch);
	if (!on || (thread->watch != number && thread->call != BIRTH)) {
		if (thread->call_at)
			called(thread, slot, (u64)task, 0, CUT);
		look_at_registers(thread, task);
		if (watch)
			meets(thread, watch, on ? met_at(thread, watch) : now, watch->in_parts ? 2 : 1);
	}
	thread->watch = on ? number : 0;
	return watched_until(watch, now);
}

/* A thread that was off the CPU for this time is back. Its call goes on where it is watched; elsewhere nobody will see it end. */
static __always_inline void take_up_call(struct thread *thread, u64 slot, u64 task, u64 off, u64 now)
{
	u64 number = 0;
	struct watch *watch = latest_watch(&number);
	u64 watched = watched_until(watch, now);

	keeps_up(thread, slot, task, watch);
	was_off(thread, off, watched);
	if (!thread->call_at)
		return;
	if (watch && is_watched(watch, now)) {
		thread->watch = number;
		thread->call_most = watch->before + watch->until - watch->from;
		return;
	}
	thread->call_most = watched;
	if (watched > thread->call_from)
		called(thread, slot, task, 0, CUT);
	thread->call_at = 0;
}

/* Nobody looks any more. */
static __always_inline void leave_call(struct thread *thread, u64 slot, u64 task, u64 off, u64 now)
{
	u64 number = 0;
	struct watch *watch = latest_watch(&number);
	u64 watched = watched_until(watch, now);

	keeps_up(thread, slot, task, watch);
	if (thread->mode != ON) {
		was_off(thread, off, watched);
		thread->call_most = watched;
	} else if (thread->call_most > watched) {
		thread->call_most = watched;
	}
	if (thread->call_at)
		called(thread, slot, task, 0, LEFT);
}
