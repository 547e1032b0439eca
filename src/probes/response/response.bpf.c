// SPDX-License-Identifier: MIT OR Apache-2.0
/* Where the time of some threads goes: every change of state of an observed thread, to the nanosecond of one clock.
 *
 * A thread is at any moment in one mode, since a known instant; each event closes that interval and opens the next, so the
 * intervals of a thread sum up to its observed life. Threads that are observed stand in a table, and everybody else's event
 * ends after one look into it. A wait is known by the call the thread is in, as its saved registers tell; only waits that
 * are long, and a sample of the short ones, pay for a stack. All sums of a thread are written where nobody else writes at
 * that moment: by the thread itself, or under the lock of the run queue that switches it. */
#include "free.h"
#include "locks.h"
#include "marks.h"
#include "polled.h"
#include "running.h"

static __always_inline void goes_out(u64 *ctx, struct thread *thread, u64 slot, struct task_struct *prev, bool preempted,
				     u64 now)
{
	u32 state = task_state(prev, true);

	u64 watched = find_call(thread, slot, prev, now);

	had_cpu(thread, run_queue(prev, true), now, true);
	ran(thread, slot, (u64)prev, now, thread->call != NONE);
	thread->out_watched = watched;
	thread->switches++;
	thread->ran_before = run_time(prev, true);
	thread->waited_before = run_delay(prev, true);
	if (!preempted && (state & DEAD)) {
		leaves(thread, slot, prev, now, 4);
		return;
	}
	if (preempted || !state) {
		note_throttle(thread, prev);
		thread->mode = is_throttled(prev) ? THROTTLED : PREEMPTED;
		if (with_together)
			counts_no_more(thread, RUNS, now);
		return;
	}
	if (with_together)
		counts_no_more(thread, RUNS | ABLE, now);
	describe_wait(thread, prev, state, true);
	note_polled(thread, slot, prev);
	take_user_stack(ctx, thread, prev);
	thread->mode = BLOCKED;
}

SEC("tp_btf/sched_switch") int sched_switch_btf(u64 *ctx)
{
	struct task_struct *prev = (void *)ctx[1], *next = (void *)ctx[2];
	u32 out = prev->pid, in = next->pid;
	struct thread *leaving = observed(out), *coming;
	u64 now = 0;

	if (leaving) {
		now = now_ns();
		goes_out(ctx, leaving, slot_of(out), prev, ctx[0], now);
	}
	coming = observed(in);
	if (coming)
		comes_in(coming, slot_of(in), next, now ? now : now_ns());
	return 0;
}

SEC("tp_btf/sched_switch") int sched_switch_python_btf(u64 *ctx)
{
	struct task_struct *prev = (void *)ctx[1];
	struct thread *thread = observed(prev->pid);

	if (thread)
		goes_out_of_python(ctx, thread, prev);
	return 0;
}

SEC("perf_event") int sample_running_code(void *ctx) { return sample_running(ctx, false); }
SEC("perf_event") int sample_running_python(void *ctx) { return sample_running(ctx, true); }

/* In the context of the task that wakes, or of the interrupt that does. */
SEC("tp_btf/sched_waking") int sched_waking_btf(u64 *ctx)
{
	struct task_struct *task = (void *)ctx[0];
	struct thread *thread = observed(task->pid);
	u32 zero = 0;

	if (!thread)
		return 0;
	u64 now = now_ns();
	if (thread->mode != BLOCKED) {
		thread->early = now;
		return 0;
	}
	if (thread->woken)
		return 0;
	u64 waker = bpf_get_current_pid_tgid();
	/* The same one as before is called as before, but for a program that has just begun. */
	if (waker != thread->waker || now - thread->t >= threshold_ns) {
		thread->waker = waker;
		bpf_get_current_comm(thread->waker_comm, sizeof(thread->waker_comm));
	}
	thread->waker_stack = 0;
	/* The stack tells an interrupt from the task that it hit. */
	if ((u32)thread->waker && now - thread->t >= threshold_ns) {
		struct stack *at_hand = bpf_map_lookup_elem(&scratch, &zero);
		thread->waker_stack = MISSING;
		if (at_hand && bpf_get_stack(ctx, at_hand, sizeof(*at_hand), 0) > 0)
			thread->waker_stack = keep_at_hand(0);
	}
	thread->woken = now;
	if (thread->semaphore)
		note_who_had_it(thread, waker, now);
	return 0;
}

/* It stands in the queue of its CPU now, which another CPU takes a while for: so its wait for one begins as in the kernel's own account. */
SEC("tp_btf/sched_wakeup") int sched_wakeup_btf(u64 *ctx)
{
	struct task_struct *task = (void *)ctx[0];
	struct thread *thread = observed(task->pid);

	if (!thread || thread->mode != BLOCKED || !thread->woken)
		return 0;
	thread->woken = now_ns();
	if (with_together)
		counts_as(thread, ABLE, thread->woken);
	return 0;
}

/* A task is woken for the first time: by the one that made it. */
SEC("tp_btf/sched_wakeup_new") int sched_wakeup_new_btf(u64 *ctx)
{
	struct task_struct *task = (void *)ctx[0];
	u64 ids = bpf_get_current_pid_tgid();
	u32 slot = 0, zero = 0;
	u64 *stopped = bpf_map_lookup_elem(&control, &zero);

	if (!stopped || *stopped || task->tgid == own_tgid)
		return 0;
	if (with_marks) {
		note_of_command(task);
		return 0;
	}
	bool wanted = (observed((u32)ids) || passed_by_since(ids)) && (task->tgid == ids >> 32 || with_children);
	if (!wanted && (filter_comm_on || filter_cgroup || filter_tgids))
		wanted = task_wanted(task, true);
	if (!wanted)
		return 0;
	u64 now = now_ns();
	slot = take_in(task, now, 2 | kernel_flag(task));
	struct thread *thread = bpf_map_lookup_elem(&threads, &slot);
	if (!thread)
		return 0;
	thread->mode = WOKEN;
	thread->call = with_calls ? BIRTH : NONE;
	note_throttle(thread, task);
	publish(task->pid, slot);
	if (with_together && task->pid != task->tgid) {
		gets_company(task->tgid, now);
		counts_as(thread, ABLE, now);
	}
	return 0;
}

/* A process becomes another program: its name changes, and a thread that is not the first takes the first one's id. */
SEC("tp_btf/sched_process_exec") int sched_process_exec_btf(u64 *ctx)
{
	struct task_struct *task = (void *)ctx[0];
	u32 before = ctx[1], tid = task->pid, slot = 0, zero = 0;
	struct thread *thread = observed(before);
	u64 now = now_ns();
	u64 *stopped = bpf_map_lookup_elem(&control, &zero);

	if (!stopped || *stopped || task->tgid == own_tgid)
		return 0;
	u32 tgid = task->tgid;
	/* Another program has another interpreter, if any. */
	bpf_map_delete_elem(&pythons, &tgid);
	bpf_map_delete_elem(&v8s, &tgid);
	bpf_map_delete_elem(&javas, &tgid);
	if (thread || bpf_map_lookup_elem(&executed, &tgid)) {
		u64 new_code = NEW_CODE | now;
		bpf_map_update_elem(&executed, &tgid, &new_code, BPF_ANY);
	}
	if (thread) {
		slot = slot_of(before);
		thread->interpreter = 0;
		begins_anew(thread);
		if (filter_comm_on && !with_children && !task_wanted(task, true)) {
			had_cpu(thread, (void *)thread->rq, now, false);
			ran(thread, slot, (u64)task, now, true);
			leaves(thread, slot, task, now, 4);
			return 0;
		}
		bpf_probe_read_kernel(thread->comm, sizeof(thread->comm), &task->comm);
		if (before != tid) {
			u32 at = before & (PLACES - 1);
			struct place *place = bpf_map_lookup_elem(&places, &at);
			if (place)
				place->tid = 0;
			/* The first one, which did not end by a switch that anybody saw. */
			struct thread *first = observed(tid);
			if (first)
				leaves(first, slot_of(tid), task, now, 4);
			thread->ids = (u64)task->tgid << 32 | tid;
			publish(tid, slot);
		}
		return 0;
	}
	if (with_marks || !filter_comm_on || !task_wanted(task, true))
		return 0;
	slot = take_in(task, now, 2);
	thread = bpf_map_lookup_elem(&threads, &slot);
	if (!thread)
		return 0;
	thread->mode = ON;
	thread->call = with_calls ? BIRTH : NONE;
	has_cpu(thread, run_queue(task, false), false);
	publish(tid, slot);
	return 0;
}

/* Of a thread that found no room nothing is known but how long it lived. */
SEC("tp_btf/sched_process_exit") int sched_process_exit_btf(u64 *ctx)
{
	struct task_struct *task = (void *)ctx[0];
	u32 tid = task->pid, zero = 0, one = 1;
	u64 since = passed_by_since(tid), now = now_ns();
	if (tid == (u32)task->tgid) {
		bpf_map_delete_elem(&executed, &tid);
		bpf_map_delete_elem(&pythons, &tid);
		bpf_map_delete_elem(&v8s, &tid);
		bpf_map_delete_elem(&javas, &tid);
	}
	u64 *stopped = bpf_map_lookup_elem(&control, &zero);

	if (!since || !stopped || *stopped || bpf_map_delete_elem(&passed_by, &tid))
		return 0;
	u64 *count = bpf_map_lookup_elem(&passed_by_ended, &zero), *ns = bpf_map_lookup_elem(&passed_by_ended, &one);
	if (count && ns) {
		(*count)++;
		*ns += now - since;
	}
	return 0;
}

SEC("tp_btf/sys_enter") int sys_enter_btf(u64 *ctx)
{
	u32 tid = bpf_get_current_pid_tgid();
	struct thread *thread = observed(tid);

	if (!thread)
		return 0;
	u64 now = now_ns(), number = 0;
	struct watch *watch = latest_watch(&number);
	if (!watch || !is_watched(watch, now))
		return 0;
	void *saved = (void *)ctx[0];
	keeps_up(thread, slot_of(tid), bpf_get_current_task(), watch);
	if (thread->call_at)
		called(thread, slot_of(tid), bpf_get_current_task(), 0, CUT);
	ran(thread, slot_of(tid), bpf_get_current_task(), now, false);
	u32 call = call_number(saved, true);
	if (call == COMPAT)
		thread->flags |= 8;
	thread->call = call == NO_CALL ? 509 : call;
	thread->argument = call_argument(saved, 0, true);
	thread->call_at = now;
	thread->call_off = thread->off_watched;
	thread->call_open = 0;
	thread->call_from = watched_until(watch, now);
	thread->call_most = watch->before + watch->until - watch->from;
	thread->watch = number;
	return 0;
}

SEC("tp_btf/sys_exit") int sys_exit_btf(u64 *ctx)
{
	u32 tid = bpf_get_current_pid_tgid(), one = 1;
	struct thread *thread = observed(tid);

	if (!thread)
		return 0;
	u64 now = now_ns(), number = 0;
	struct watch *watch = latest_watch(&number);
	if (!watch || !is_watched(watch, now))
		return 0;
	keeps_up(thread, slot_of(tid), bpf_get_current_task(), watch);
	if (thread->watch != number && thread->call != BIRTH) {
		/* It was in the call when the watch began. */
		if (thread->call_at)
			called(thread, slot_of(tid), bpf_get_current_task(), 0, CUT);
		u32 call = call_number((void *)ctx[0], true);
		thread->call = call == NO_CALL ? NONE : call;
		thread->argument = call_argument((void *)ctx[0], 0, true);
		meets(thread, watch, met_at(thread, watch), watch->in_parts ? 2 : 1);
	}
	thread->watch = number;
	ran(thread, slot_of(tid), bpf_get_current_task(), now, true);
	if (thread->call_at) {
		thread->call_most = watched_until(watch, now);
		called(thread, slot_of(tid), bpf_get_current_task(), ctx[1], now);
		if (traits(thread->call) & FREES_FD) {
			u64 *generation = bpf_map_lookup_elem(&control, &one);
			if (generation)
				__sync_fetch_and_add(generation, 1);
		}
	}
	thread->call = NONE;
	thread->call_at = 0;
	return 0;
}

/* An argument of an event is no number to the verifier, which functions that are verified once take, unless a helper has read it. */
static __always_inline u64 number_of(u64 given)
{
	u64 number = 0;

	bpf_probe_read_kernel(&number, sizeof(number), &given);
	return number;
}

/* Where the running thread sent its last request: what it waits for next, most likely. */
static __always_inline int bio_queued(u64 given)
{
	struct thread *thread = observed(bpf_get_current_pid_tgid());
	struct bio *bio = (void *)number_of(given);

	if (!thread)
		return 0;
	thread->bio_device = bio_device(bio);
	thread->bio_at = now_ns();
	ring_sends(thread, (u64)bio);
	return 0;
}
/* The queue came first once. */
SEC("tp_btf/block_bio_queue") int block_bio_queue_btf(u64 *ctx) { return bio_queued(ctx[0]); }
SEC("tp_btf/block_bio_queue") int block_bio_queue_queue_btf(u64 *ctx) { return bio_queued(ctx[1]); }

/* Both come before who waits for it is woken; the latter is of devices without requests of their own (device mapper, md). */
SEC("tp_btf/block_rq_complete") int block_rq_complete_btf(u64 *ctx)
{
	if (!is_ring_used())
		return 0;
	u64 bio = (u64)BPF_CORE_READ((struct request___disk *)ctx[0], bio);
	for (int i = 0; i < MERGED && bio; i++)
		bio = ring_request_ended(bio);
	return 0;
}
SEC("tp_btf/block_bio_complete") int block_bio_complete_btf(u64 *ctx)
{
	if (is_ring_used())
		ring_request_ended(number_of(ctx[1]));
	return 0;
}

struct bpf_iter__task {
	struct bpf_iter_meta *meta;
	struct task_struct *task;
} __attribute__((preserve_access_index));

/* The field is an int up to some kernel and a byte from then on: its lowest byte tells on either. */
static __always_inline bool runs_now(struct task_struct___more *task)
{
	u8 on_cpu = 0;
	bpf_probe_read_kernel(&on_cpu, sizeof(on_cpu), &task->on_cpu);
	return on_cpu;
}

/* Takes in the threads that are there already, with the state in which they are. */
SEC("iter/task") int begin_threads(struct bpf_iter__task *ctx)
{
	struct task_struct *task = ctx->task;
	u32 slot = 0;

	if (!task || with_marks || task->tgid == own_tgid)
		return 0;
	u32 at = task->pid & (PLACES - 1);
	struct place *place = bpf_map_lookup_elem(&places, &at);
	if (!place || place->tid == task->pid)
		return 0;
	if (!task_wanted(task, true) && !(with_children && filter_tgids && descends(task)))
		return 0;
	u32 state = task_state(task, true);
	if (state & (DEAD | 0x30))
		return 0;
	slot = take_in(task, now_ns(), kernel_flag(task));
	struct thread *thread = bpf_map_lookup_elem(&threads, &slot);
	if (!thread)
		return 0;
	struct task_struct___more *more = (void *)task;
	thread->fresh = 1;
	thread->call = UNSEEN;
	note_throttle(thread, task);
	publish(task->pid, slot);
	barrier();
	/* From here on its events are seen, and one that comes now knows better. */
	state = task_state(task, true);
	if (thread->mode)
		return 0;
	if (runs_now(more)) {
		thread->mode = ON;
		has_cpu(thread, run_queue(task, false), false);
		return 0;
	}
	u64 number = 0;
	struct watch *watch = latest_watch(&number);
	look_at_registers(thread, task);
	meets(thread, watch, thread->t, 1);
	thread->out_watched = watched_until(watch, thread->t);
	if (state) {
		struct at at = {};
		describe_wait(thread, task, state, false);
		/* Nothing in its program changes as long as it sleeps, so that user space may walk its stack. */
		if (want_user && BPF_CORE_READ(task, mm) && !(thread->flags & 1) && begin_walk(&at, registers(task))) {
			thread->asleep[1] = at.sp;
			thread->asleep[2] = at.pointer;
			thread->asleep[3] = at.link;
			thread->asleep[0] = at.pc;
		}
	}
	if (!thread->mode)
		thread->mode = state ? BLOCKED : is_throttled(task) ? THROTTLED : PREEMPTED;
	return 0;
}

/* Closes what is under way when the observation has stopped: a thread that slept all the time had no event at all. */
SEC("iter/task") int end_threads(struct bpf_iter__task *ctx)
{
	struct task_struct *task = ctx->task;
	u32 zero = 0, one = 1;

	if (!task)
		return 0;
	u32 tid = task->pid, at = tid & (PLACES - 1);
	struct place *place = bpf_map_lookup_elem(&places, &at);
	u64 *stopped = bpf_map_lookup_elem(&control, &zero);
	if (!place || place->tid != tid || !stopped)
		return 0;
	at = place->slot;
	struct thread *thread = bpf_map_lookup_elem(&threads, &at);
	if (!thread || thread->mode == ENDED)
		return 0;
	struct task_struct___more *more = (void *)task;
	u64 slot = at, now = *stopped, begun = thread->t, mode = thread->mode, ns = 0;
	thread->edge += now > begun && !thread->fresh ? now - begun : 0;
	if (mode == ON || (runs_now(more) && mode != BLOCKED)) {
		if (thread->call == UNSEEN)
			thread->call = NONE;
		had_cpu(thread, (void *)thread->rq, now, false);
		ran(thread, slot, (u64)task, now, thread->call != NONE);
		mode = ON;
	} else {
		ns = elapsed(thread, now);
		thread->off += ns;
	}
	if (mode == BLOCKED) {
		u64 woken = thread->woken && thread->woken < now ? thread->woken : now;
		u64 blocked = woken > begun ? woken - begun : 0, stack = MISSING;
		struct stack *at_hand = bpf_map_lookup_elem(&scratch, &one);
		if (at_hand && bpf_get_task_stack(task, at_hand, sizeof(*at_hand), 0) > 0)
			stack = keep_at_hand(1);
		waited(thread, slot, blocked, !thread->woken || thread->fresh, stack);
		if (ns > blocked)
			queued(thread, slot, WOKEN, ns - blocked, now, true, 0);
	} else if (mode == PREEMPTED || mode == WOKEN || mode == THROTTLED) {
		queued(thread, slot, mode == THROTTLED ? PREEMPTED : mode, ns, now, true, throttled_of(thread, task, ns));
	}
	thread->mode = mode;
	if (with_together)
		leaves_others(thread, now);
	leave_call(thread, slot, (u64)task, ns, now);
	account(task, thread->after);
	bpf_probe_read_kernel(thread->comm, sizeof(thread->comm), &task->comm);
	thread->ended = now;
	thread->mode = ENDED;
	return 0;
}
