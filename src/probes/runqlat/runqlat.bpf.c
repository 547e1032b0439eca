// SPDX-License-Identifier: MIT OR Apache-2.0
/* How long tasks that could run waited for a CPU.
 *
 * One hook: at sched_switch the kernel's own account of the task that comes in is not settled yet. `last_queued` still says
 * since when it waits, the run queue's clock was just updated, and `run_delay` holds all it waited before. A wait that was
 * cut by a move to another CPU is settled there piece by piece, so each wait is taken as the growth of the account since the
 * task was last seen. The sums are therefore those of /proc/PID/schedstat, to the nanosecond. */
#include "../../mechanism/ebpf/include/rdiag.h"

struct waits {
	u64 settled; /* the kernel's account when the task last got a CPU, ns */
	u64 born; /* start time: a pid may be used again */
	u64 sum;
	u64 count;
	u64 max;
	u64 tgid;
	char comm[16];
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct hist);
} all SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 16384);
	__type(key, u32);
	__type(value, struct waits);
} tasks SEC(".maps");

BOTH_TRACEPOINTS(sched_switch)
{
	struct task_struct *next = (void *)ctx[2];
	u32 pid = READ(next, pid), zero = 0;

	if (!pid || !task_wanted(next, direct))
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
	struct waits *known = bpf_map_lookup_elem(&tasks, &pid);
	if (known && known->born == born) {
		/* Several CPUs never run one task at once, so nobody else writes here. */
		if (settled > known->settled + wait)
			wait = settled - known->settled;
		known->settled = settled;
		known->sum += wait;
		known->count++;
		if (wait > known->max)
			known->max = wait;
	} else {
		struct waits fresh = { .settled = settled, .born = born, .sum = wait, .count = 1, .max = wait };
		fresh.tgid = READ(next, tgid);
		bpf_probe_read_kernel(fresh.comm, sizeof(fresh.comm), &next->comm);
		bpf_map_update_elem(&tasks, &pid, &fresh, BPF_ANY);
	}
	struct hist *hist = bpf_map_lookup_elem(&all, &zero);
	if (hist)
		hist_add(hist, wait);
	return 0;
}
