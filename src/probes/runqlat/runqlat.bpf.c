// SPDX-License-Identifier: MIT OR Apache-2.0
/* How long tasks that could run waited for a CPU. */
#include "wait.h"

struct waits {
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

static __always_inline void waited(struct task_struct *prev, struct task_struct *next, u32 tid, u64 born, u64 wait,
				   const bool direct)
{
	u32 zero = 0;
	struct waits *known = bpf_map_lookup_elem(&tasks, &tid);

	if (known && known->born == born) {
		/* Several CPUs never run one task at once, so nobody else writes here. */
		known->sum += wait;
		known->count++;
		if (wait > known->max)
			known->max = wait;
	} else {
		struct waits fresh = { .born = born, .sum = wait, .count = 1, .max = wait };
		fresh.tgid = READ(next, tgid);
		bpf_probe_read_kernel(fresh.comm, sizeof(fresh.comm), &next->comm);
		bpf_map_update_elem(&tasks, &tid, &fresh, BPF_ANY);
	}
	hist_add_at(&all, &zero, wait);
}
