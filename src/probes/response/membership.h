/* SPDX-License-Identifier: MIT OR Apache-2.0
 * Who is observed: threads are taken in and leave. */
#pragma once
#include "together.h"

/* Ends the observation of a thread, and tells user space, which takes its sums and frees its place. */
static __always_inline void leaves_by(struct thread *thread, u32 slot, struct task_struct *task, u64 now, u64 how,
				      const bool direct)
{
	u32 at = (u32)thread->ids & (PLACES - 1);
	struct place *place = bpf_map_lookup_elem(&places, &at);

	/* Nobody finds it any more: where programs can be interrupted, an event may come in between. */
	if (place)
		place->tid = 0;
	barrier();
	if (with_together)
		leaves_others(thread, now);
	account_by(task, thread->after, direct);
	bpf_probe_read_kernel(thread->comm, sizeof(thread->comm), &task->comm);
	thread->ended = now;
	thread->mode = ENDED;
	thread->flags |= how;
	bpf_map_push_elem(&ended_threads, &slot, 0);
}

static __noinline void leaves(struct thread *thread, u32 slot, struct task_struct *task, u64 now, u64 how)
{
	leaves_by(thread, slot, task, now, how, true);
}

#define NOBODY (~0U)
/* Takes a thread in, and returns where its record is. Its place is published last: from then on its events count. */
static __always_inline u32 take_in_by(struct task_struct *task, u64 now, u64 flags, const bool direct)
{
	/* By a helper, whatever the verifier knows: it looks through the names of all types of the kernel where a pointer is followed. */
	struct task_struct *parent = BPF_CORE_READ(task, real_parent);
	struct task_struct___more *leader = (void *)BPF_CORE_READ(task, group_leader);
	u32 tid = READ(task, pid), at = tid & (PLACES - 1), slot = 0;
	struct place *place = bpf_map_lookup_elem(&places, &at);

	if (!place)
		return NOBODY;
	if (place->tid) {
		lose(NO_PLACE);
		return NOBODY;
	}
	if (bpf_map_pop_elem(&free_threads, &slot)) {
		lose(NO_THREAD);
		return NOBODY;
	}
	struct thread *thread = bpf_map_lookup_elem(&threads, &slot);
	if (!thread)
		return NOBODY;
	thread->t = now;
	thread->began = now;
	thread->on_since = now;
	thread->ids = (u64)READ(task, tgid) << 32 | tid;
	thread->flags = flags;
	thread->parent = BPF_CORE_READ(parent, tgid);
	thread->process_born = BPF_CORE_READ(leader, start_boottime);
	bpf_probe_read_kernel(thread->comm, sizeof(thread->comm), &task->comm);
	account_by(task, thread->before, direct);
	thread->ran_before = thread->before[2];
	thread->waited_before = thread->before[3];
	return slot;
}

static __noinline u32 take_in(struct task_struct *task, u64 now, u64 flags)
{
	u32 slot = take_in_by(task, now, flags, true), tid = task->pid, three = 3;

	if (slot != NOBODY)
		return slot;
	u64 *any = bpf_map_lookup_elem(&control, &three);
	if (any)
		*any = 1;
	bpf_map_update_elem(&passed_by, &tid, &now, BPF_ANY);
	return NOBODY;
}

/* Since when a thread would have been observed that found no room; 0: it is no such thread. */
static __always_inline u64 passed_by_since(u32 tid)
{
	u32 three = 3;
	u64 *any = bpf_map_lookup_elem(&control, &three), *since;

	if (!any || !*any)
		return 0;
	since = bpf_map_lookup_elem(&passed_by, &tid);
	return since ? *since : 0;
}

#define PF_IO_WORKER 0x10
#define PF_KTHREAD 0x200000
struct task_struct___worker {
	unsigned int flags;
	void *worker_private;
	void *pf_io_worker;
} __attribute__((preserve_access_index));

/* Threads of the kernel, and workers of io_uring, which have a program's memory and never leave the kernel. */
static __always_inline u64 kernel_flag(struct task_struct *task)
{
	struct task_struct___worker *worker = (void *)task;
	u32 flags = BPF_CORE_READ(worker, flags);

	if (!BPF_CORE_READ(task, mm) || flags & PF_KTHREAD)
		return 1;
	/* Their registers are a copy of those of the thread that made them, from Linux 5.12 on, where the flag has this place. */
	if (bpf_core_field_exists(worker->worker_private) || bpf_core_field_exists(worker->pf_io_worker)) {
		if (flags & PF_IO_WORKER)
			return 1;
	}
	if (IS_ARM64)
		return 0;
	struct pt_regs___x86 *saved = registers(task);
	u64 cs = 3;
	bpf_core_read(&cs, sizeof(cs), &saved->cs);
	return cs & 3 ? 0 : 1;
}

static __always_inline void publish(u32 tid, u32 slot)
{
	u32 at = tid & (PLACES - 1);
	struct place *place = bpf_map_lookup_elem(&places, &at);

	if (place) {
		place->slot = slot;
		barrier();
		place->tid = tid;
	}
}
