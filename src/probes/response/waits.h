/* SPDX-License-Identifier: MIT OR Apache-2.0
 * A thread goes to sleep, and comes back. */
#pragma once
#include "calls.h"
#include "futex.h"
#include "java.h"
#include "rings.h"
#include "semaphores.h"
#include "top.h"
#include "walk.h"

/* Whether the stack of a wait is taken. */
static __always_inline bool pays(struct thread *thread, u64 ns)
{
	return ns >= threshold_ns || !(thread->waits & (ONE_IN - 1));
}

static __always_inline void comes_in(struct thread *thread, u64 slot, struct task_struct *next, u64 now)
{
	u64 begun = thread->t, ns = elapsed(thread, now), stack = 0, mode = thread->mode;
	bool open = thread->fresh;
	u64 off = thread->off;
	u32 zero = 0;

	thread->fresh = 0;
	if (with_command && open) {
		/* Until now it stood still because rdiag made it. */
		thread->began = now;
		thread->edge = 0;
		thread->flags |= 2;
		thread->call = with_calls ? BIRTH : NONE;
		thread->call_at = 0;
		thread->mode = ON;
		thread->on_since = now;
		thread->ran_before = run_time(next, true);
		account(next, thread->before);
		has_cpu(thread, run_queue(next, false), false);
		return;
	}
	thread->off += ns;
	if (mode == BLOCKED) {
		u64 woken = thread->woken;
		if (!woken) {
			/* The wake-up came while the thread was on its way out, or was missed. */
			woken = now;
			if (thread->early + EARLY_NS > begun)
				woken = begun;
			else
				lose(LOST_WAKE);
		}
		u64 blocked = woken > begun ? woken - begun : 0;
		if (blocked > ns)
			blocked = ns;
		if (pays(thread, blocked)) {
			struct stack *at_hand = bpf_map_lookup_elem(&scratch, &zero);
			stack = MISSING;
			if (at_hand && bpf_get_task_stack(next, at_hand, sizeof(*at_hand), 0) > 0)
				stack = keep_at_hand(0);
		}
		thread->waits++;
		if (blocked >= threshold_ns)
			thread->long_calls |= bit_of_call(thread);
		else
			thread->long_calls &= ~bit_of_call(thread);
		waited(thread, slot, blocked, open, stack);
		may_have_it(thread, now);
		queued(thread, slot, WOKEN, ns - blocked, now, false, 0);
	} else if (mode == PREEMPTED || mode == WOKEN || mode == THROTTLED) {
		queued(thread, slot, mode == THROTTLED ? PREEMPTED : mode, ns, now, open, throttled_of(thread, next, ns));
	} else {
		/* It was not seen to go out, so why it did is not known. */
		u64 ran = run_time(next, true) - thread->ran_before;
		if (ran > ns)
			ran = ns;
		lose(LOST_SWITCH);
		thread->user += thread->call == NONE ? ran : 0;
		thread->kernel += thread->call == NONE ? 0 : ran;
		thread->unknown += ns - ran;
		thread->off -= ran;
	}
	take_up_call(thread, slot, (u64)next, thread->off - off, now);
	thread->ran_before = run_time(next, true);
	thread->mode = ON;
	thread->on_since = now;
	has_cpu(thread, run_queue(next, true), true);
	if (with_together)
		counts_as(thread, RUNS | ABLE, now);
}

/* Whether a wait for a lock of the kernel is one for the file that the call is on; of the others only the one of a process's
 * address space has a name. */
static __always_inline bool locks_file(struct thread *thread, struct task_struct *task, u64 of)
{
	struct inode *inode = (void *)of;

	if (of && thread->lock == (u64)&inode->i_rwsem)
		return true;
	struct mm_struct___lock *mm = (void *)BPF_CORE_READ(task, mm);
	thread->object[0] = mm && bpf_core_field_exists(mm->mmap_lock) && thread->lock == (u64)&mm->mmap_lock ? 1 : 0;
	thread->object[1] = thread->object[2] = 0;
	thread->file = 0;
	return false;
}

/* A wait for a futex that its operation says nothing else of: older C libraries have FUTEX_WAIT for conditions as well. */
static __always_inline bool waits_for_any(u64 operation, u64 flags)
{
	operation &= FUTEX_OPERATION;
	return operation == FUTEX_WAIT_BITSET || (operation == FUTEX_WAIT && !(flags & LOCK_WORD));
}

/* What a thread that is asleep waits for, as far as that is known without its stack. Memory of its program is there only when it
 * is the one that goes out now. */
static __always_inline void describe_wait(struct thread *thread, struct task_struct *task, u32 state, const bool own)
{
	struct task_struct___more *more = (void *)task;
	u64 call = thread->call, class = NO_FILE, flags = 0, inode = 0;

	thread->object[0] = thread->object[1] = thread->object[2] = 0;
	thread->file = 0;
	thread->user_stack = 0;
	thread->woken = 0;
	thread->semaphore = thread->ended_by = thread->held = 0;
	if (thread->flags & 1) {
		flags |= KERNEL_THREAD;
		call = NONE;
	} else if (traits(call) & TAKES_FD) {
		struct opened *file = opened(thread, (u64)task, thread->argument & 0xffffffff, own);
		class = file->class;
		inode = file->inode;
		thread->object[0] = file->object[0];
		thread->object[1] = file->object[1];
		thread->object[2] = file->object[2];
		thread->file = has_name(class) ? file->file : 0;
	} else if (traits(call) & TAKES_ADDRESS) {
		/* A futex: what is done, and whether its word is that of a lock which others wait for. */
		void *saved = registers(task);
		u64 operation = call_argument(saved, 1, false);
		u32 value = call_argument(saved, 2, false);
		thread->object[0] = thread->argument;
		flags |= (operation & FUTEX_OPERATION) << 8;
		if (own)
			waits_for_semaphore(thread, operation, value);
		if (!(operation & FUTEX_OPERATION) && is_word_of_lock(task, saved, thread->argument, value, own))
			flags |= LOCK_WORD;
		u64 lock = own && value ? rwlock_of(thread->argument, operation, value) : 0, java = 0;
		u32 tgid = thread->ids >> 32;
		if (own && !lock && waits_for_any(operation, flags)) {
			bool may_look = thread->t - thread->looked_for >= LOOKED_FOR_EVERY;
			java = java_thread_parked_on(tgid, thread->argument, thread->interpreter, may_look);
			thread->looked_for = may_look ? thread->t : thread->looked_for;
		}
		if (lock) {
			flags |= RWLOCK;
			thread->object[0] = lock;
		} else if (java) {
			flags |= PARKED;
			thread->interpreter = java;
			thread->object[1] = thread->object[0];
			thread->object[0] = java_parked_for(tgid, java);
		} else if (own && (operation & FUTEX_OPERATION) == FUTEX_WAIT_BITSET && wants_top(thread)) {
			thread->object[1] = top_of_stack(saved);
		}
	} else if (call == COMPAT && !IS_ARM64) {
		struct pt_regs___x86 *saved = registers(task);
		u64 number = BPF_CORE_READ(saved, orig_ax);
		if (number < 0x800)
			call = 0x800 | number;
	}
	/* The kernel calls it a wait for a disk whatever an io_uring has under way, a read of a pipe too, and never for libaio. */
	bool disk;
	if (traits(call) & IS_RING) {
		thread->ring = ring_of(registers(task), call, thread->ids);
		thread->ring_ended = ring_ended(thread->ids >> 32, thread->ring);
		disk = ring_has(thread->ids >> 32, thread->ring, now_ns(), 0);
	} else {
		disk = BPF_CORE_READ_BITFIELD(more, in_iowait);
	}
	if (thread->lock) {
		flags |= KERNEL_LOCK;
		if (!locks_file(thread, task, inode))
			class = NO_FILE;
	} else if (disk) {
		flags |= IO_WAIT;
		/* The address of a socket is no disk. */
		if (class && class != BLOCK && !has_name(class))
			thread->object[0] = thread->object[1] = thread->object[2] = 0;
		/* The device that it sent its last request to, if that was just now. */
		if (thread->bio_at && thread->bio_at >= thread->on_since)
			thread->object[0] = thread->bio_device;
	}
	/* Somebody who wakes it already has marked it: the state itself is gone then. */
	state = state & 0x200 ? 1 : state & STATES;
	thread->wait = WAIT | call << 8 | class << 24 | (u64)state << 32 | flags << 48;
}

/* Only its own context can walk a user stack: before anybody knows how long the wait will be. It is taken where the last
 * wait in the same call was long, and of the first ones: threads of a pool begin, wait once, and are not heard of again. */
#define EARLY_STACKS 8

static __always_inline void take_user_stack(u64 *ctx, struct thread *thread, struct task_struct *prev)
{
	u32 zero = 0;

	if (!want_user || (thread->flags & 1))
		return;
	if (!(thread->long_calls & bit_of_call(thread)) && (thread->waits & (ONE_IN - 1)) && (with_marks || thread->waits >= EARLY_STACKS))
		return;
	if (!BPF_CORE_READ(prev, mm))
		return;
	struct stack *at_hand = bpf_map_lookup_elem(&scratch, &zero);
	thread->user_stack = MISSING;
	if (!at_hand)
		return;
	bool to_keep = true;
	u64 name = walked_stack(at_hand, thread, registers(prev), false, &to_keep);
	if (name)
		thread->user_stack = to_keep ? keep_as(at_hand, name) : name;
	else if (bpf_get_stack(ctx, at_hand, sizeof(*at_hand), BPF_F_USER_STACK) > 0)
		thread->user_stack = keep_at_hand(0);
}
