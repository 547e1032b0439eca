/* SPDX-License-Identifier: MIT OR Apache-2.0
 * How long the task that gets a CPU waited for it, in one of two ways. The program that includes this defines waited().
 *
 * By the kernel's own account, with one hook: at sched_switch the account of the task that comes in is not settled yet.
 * `last_queued` still says since when it waits, the run queue's clock was just updated, and `run_delay` holds all it waited
 * before. A wait that was cut by a move to another CPU is settled there piece by piece, so each wait is taken as the growth
 * of the account since the task was last seen. The sums are therefore those of /proc/PID/schedstat, to the nanosecond.
 *
 * By time stamps, where the kernel keeps no such account or the way from a task to its run queue's clock is missing
 * (CONFIG_SCHED_INFO, CONFIG_FAIR_GROUP_SCHED): taken when a task wakes up or is preempted. */
#pragma once
#include "rdiag.h"

static __always_inline void waited(struct task_struct *prev, struct task_struct *next, u32 tid, u64 born, u64 wait,
				   const bool direct);

struct seen {
	u64 born; /* start time: tells apart the tasks that share a place, and those that share a pid in turn */
	u64 settled; /* the kernel's account when the task last got a CPU, ns */
};

#define SEEN 65536 /* a power of two */

/* An array instead of a hash, since its lookup costs next to nothing. Two tasks whose ids differ by a multiple of its size
 * push each other out; then a wait that was cut by a move counts from the move. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, SEEN);
	__type(key, u32);
	__type(value, struct seen);
} seen SEC(".maps");

BOTH_TRACEPOINTS(sched_switch)
{
	struct task_struct *prev = (void *)ctx[1];
	struct task_struct *next = (void *)ctx[2];
	u32 tid = READ(next, pid), place = tid & (SEEN - 1);

	if (!tid || !task_wanted(next, direct))
		return 0;
	u64 queued = READ(next, sched_info.last_queued);
	u64 settled = READ(next, sched_info.run_delay);
	u64 wait = 0;
	if (queued) {
		struct cfs_rq *cfs_rq = READ(next, se.cfs_rq);
		struct rq *rq = READ(cfs_rq, rq);
		u64 now = READ(rq, clock);
		if (now > queued)
			wait = now - queued;
	}
	settled += wait;
	u64 born = READ(next, start_time);
	struct seen *before = bpf_map_lookup_elem(&seen, &place);
	if (before) {
		if (before->born == born && settled > before->settled + wait)
			wait = settled - before->settled;
		before->born = born;
		before->settled = settled;
	}
	waited(prev, next, tid, born, wait, direct);
	return 0;
}

struct stamp {
	u64 born;
	u64 at; /* 0: not waiting */
};

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 16384);
	__type(key, u32);
	__type(value, struct stamp);
} stamps SEC(".maps");

static __always_inline void stamp(struct task_struct *task, u64 now, const bool direct)
{
	u32 tid = READ(task, pid);

	if (!tid || !task_wanted(task, direct))
		return;
	u64 born = READ(task, start_time);
	struct stamp *known = bpf_map_lookup_elem(&stamps, &tid);
	if (known && known->born == born) {
		known->at = now;
	} else {
		struct stamp fresh = { .born = born, .at = now };
		bpf_map_update_elem(&stamps, &tid, &fresh, BPF_ANY);
	}
}

BOTH_TRACEPOINTS(sched_wakeup)
{
	stamp((void *)ctx[0], bpf_ktime_get_ns(), direct);
	return 0;
}

BOTH_TRACEPOINTS(sched_wakeup_new)
{
	stamp((void *)ctx[0], bpf_ktime_get_ns(), direct);
	return 0;
}

BOTH_TRACEPOINTS(switch_by_stamps)
{
	bool preempted = ctx[0];
	struct task_struct *prev = (void *)ctx[1];
	struct task_struct *next = (void *)ctx[2];
	u32 tid = READ(next, pid);
	u64 now = bpf_ktime_get_ns();

	if (preempted || !task_state(prev, direct))
		stamp(prev, now, direct);
	if (!tid || !task_wanted(next, direct))
		return 0;
	u64 born = READ(next, start_time);
	struct stamp *known = bpf_map_lookup_elem(&stamps, &tid);
	if (known && known->born == born && known->at) {
		u64 wait = now > known->at ? now - known->at : 0;
		known->at = 0;
		waited(prev, next, tid, born, wait, direct);
	}
	return 0;
}
