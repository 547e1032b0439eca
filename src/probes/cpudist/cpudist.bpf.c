// SPDX-License-Identifier: MIT OR Apache-2.0
/* How long tasks stay on a CPU, or off it, at a time. On it, one time stamp for each CPU is enough; off it, one for each
 * task. */
#include "rdiag.h"
#include "lost.h"

const volatile u32 off_cpu = 0;
const volatile u32 by_task = 0;

struct stint {
	u64 tid;
	u64 since;
};

struct left {
	u64 born; /* start time: a pid may be used again */
	u64 at; /* 0: not off the CPU, as far as is known */
	u64 slept; /* went by itself; otherwise it was preempted */
};

struct task_dist {
	struct hist hist;
	u64 born;
	u64 tgid;
	char comm[16];
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct stint);
} stints SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 16384);
	__type(key, u32);
	__type(value, struct left);
} away SEC(".maps");

/* On the CPU: 0. Off it: 0 preempted, 1 slept. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 2);
	__type(key, u32);
	__type(value, struct hist);
} all SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1024);
	__type(key, u32);
	__type(value, struct task_dist);
} tasks SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct task_dist);
} blank SEC(".maps");

static __always_inline void add(struct task_struct *task, u32 tid, u32 kind, u64 took, const bool direct)
{
	struct hist *hist = bpf_map_lookup_elem(&all, &kind);
	u32 zero = 0;

	if (hist)
		hist_add(hist, took);
	if (!by_task)
		return;
	u64 born = READ(task, start_time);
	struct task_dist *known = bpf_map_lookup_elem(&tasks, &tid);
	if (!known || known->born != born) {
		struct task_dist *fresh = bpf_map_lookup_elem(&blank, &zero);
		if (!fresh)
			return;
		fresh->born = born;
		fresh->tgid = READ(task, tgid);
		bpf_probe_read_kernel(fresh->comm, sizeof(fresh->comm), &task->comm);
		bpf_map_update_elem(&tasks, &tid, fresh, BPF_ANY);
		known = bpf_map_lookup_elem(&tasks, &tid);
	}
	/* Several CPUs never switch one task at once, so nobody else writes here. */
	if (known) {
		hist_add(&known->hist, took);
	} else {
		lose_at(&zero, 1);
	}
}

static __always_inline void left_cpu(struct task_struct *task, u32 tid, u64 now, bool slept, const bool direct)
{
	u64 born = READ(task, start_time);
	struct left *known = bpf_map_lookup_elem(&away, &tid);

	if (known && known->born == born) {
		known->at = now;
		known->slept = slept;
	} else {
		struct left fresh = { .born = born, .at = now, .slept = slept };
		bpf_map_update_elem(&away, &tid, &fresh, BPF_ANY);
	}
}

static __always_inline void got_cpu(struct task_struct *task, u32 tid, u64 now, const bool direct)
{
	struct left *known = bpf_map_lookup_elem(&away, &tid);

	if (!known || known->born != READ(task, start_time) || !known->at || known->at > now)
		return;
	add(task, tid, known->slept ? 1 : 0, now - known->at, direct);
	known->at = 0;
}

static __always_inline bool wanted(struct task_struct *task, u32 tid, const bool direct)
{
	return tid && READ(task, tgid) != own_tgid && task_wanted(task, direct);
}

BOTH_TRACEPOINTS(sched_switch)
{
	struct task_struct *prev = (void *)ctx[1];
	struct task_struct *next = (void *)ctx[2];
	bool preempted = ctx[0];
	u32 prev_tid = READ(prev, pid), next_tid = READ(next, pid), zero = 0;
	u64 now = bpf_ktime_get_ns();

	if (off_cpu) {
		if (wanted(prev, prev_tid, direct))
			left_cpu(prev, prev_tid, now, !preempted && task_state(prev, direct), direct);
		if (wanted(next, next_tid, direct))
			got_cpu(next, next_tid, now, direct);
		return 0;
	}
	struct stint *stint = bpf_map_lookup_elem(&stints, &zero);
	if (!stint)
		return 0;
	if (stint->tid == prev_tid && stint->since && wanted(prev, prev_tid, direct))
		add(prev, prev_tid, 0, now - stint->since, direct);
	stint->tid = next_tid;
	stint->since = now;
	return 0;
}
