// SPDX-License-Identifier: MIT OR Apache-2.0
/* Moves of tasks from one CPU to another: whose, and between which. */
#include "rdiag.h"
#define LOSSES 2 /* 0: of tasks that found no place, 1: of pairs of CPUs */
#include "lost.h"

struct mover {
	u64 born; /* start time: a pid may be used again */
	u64 count;
	u64 runnable; /* moved while it ran or waited, not at a wake-up */
	u64 tgid;
	char comm[16];
};

struct pair {
	u32 from;
	u32 to;
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 16384);
	__type(key, u32);
	__type(value, struct mover);
} tasks SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 16384);
	__type(key, struct pair);
	__type(value, u64);
} pairs SEC(".maps");

static __always_inline u32 cpu_of(struct task_struct *task)
{
	u32 cpu = 0;

	if (bpf_core_field_exists(task->thread_info.cpu))
		bpf_core_read(&cpu, sizeof(cpu), &task->thread_info.cpu);
	else
		bpf_core_read(&cpu, sizeof(cpu), &((struct task_struct___cpu *)task)->cpu);
	return cpu;
}

BOTH_TRACEPOINTS(sched_migrate_task)
{
	struct task_struct *task = (void *)ctx[0];
	u32 tid = READ(task, pid), tgid = READ(task, tgid);

	if (tgid == own_tgid || !task_wanted(task, direct))
		return 0;
	u64 born = READ(task, start_time);
	bool runnable = task_state(task, direct) == 0;
	struct mover *known = bpf_map_lookup_elem(&tasks, &tid);
	if (known && known->born == born) {
		/* Its run queue is locked, so nobody else moves this task now. */
		known->count++;
		known->runnable += runnable;
	} else {
		struct mover fresh = { .born = born, .count = 1, .runnable = runnable, .tgid = tgid };
		bpf_probe_read_kernel(fresh.comm, sizeof(fresh.comm), &task->comm);
		if (bpf_map_update_elem(&tasks, &tid, &fresh, BPF_ANY))
			lose(0);
	}
	struct pair pair = { .from = cpu_of(task), .to = (u32)ctx[1] };
	u64 *count = bpf_map_lookup_elem(&pairs, &pair), one = 1;
	if (count)
		__sync_fetch_and_add(count, 1);
	else if (bpf_map_update_elem(&pairs, &pair, &one, BPF_NOEXIST)) {
		/* Another CPU may have made the entry meanwhile. */
		count = bpf_map_lookup_elem(&pairs, &pair);
		if (count)
			__sync_fetch_and_add(count, 1);
		else
			lose(1);
	}
	return 0;
}
