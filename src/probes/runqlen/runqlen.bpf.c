// SPDX-License-Identifier: MIT OR Apache-2.0
/* How many tasks wait for each CPU, looked at by a clock. */
#include "rdiag.h"

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct hist);
} lengths SEC(".maps");

SEC("perf_event") int sample(void *ctx)
{
	struct task_struct *task = (void *)bpf_get_current_task();
	struct rq *rq = BPF_CORE_READ(task, se.cfs_rq, rq);
	u32 waiting = BPF_CORE_READ(rq, nr_running), delayed = 0, zero = 0;

	/* Tasks that have gone to sleep may stay queued for a while (since 6.12); they wait for nothing. */
	if (bpf_core_field_exists(rq->cfs.h_nr_runnable))
		delayed = BPF_CORE_READ(rq, cfs.h_nr_queued) - BPF_CORE_READ(rq, cfs.h_nr_runnable);
	else if (bpf_core_field_exists(rq->cfs.h_nr_delayed))
		delayed = BPF_CORE_READ(rq, cfs.h_nr_delayed);
	waiting = waiting > delayed ? waiting - delayed : 0;
	/* The one that runs does not wait. */
	if (BPF_CORE_READ(task, pid) && waiting)
		waiting--;
	struct hist *hist = bpf_map_lookup_elem(&lengths, &zero);
	if (hist)
		hist_add(hist, waiting);
	return 0;
}
