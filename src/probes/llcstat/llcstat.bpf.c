// SPDX-License-Identifier: MIT OR Apache-2.0
/* Who uses a cache, and who does not find there what it looks for: samples of two events, by process. */
#include "../../mechanism/ebpf/include/rdiag.h"

struct sums {
	u64 uses; /* samples */
	u64 misses;
	char comm[16];
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 8192);
	__type(key, u32);
	__type(value, struct sums);
} processes SEC(".maps");

/* Samples of more processes than there is room for. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, u64);
} no_room SEC(".maps");

static __always_inline int count(const bool missed)
{
	u32 tgid = bpf_get_current_pid_tgid() >> 32, zero = 0;

	if (!current_wanted())
		return 0;
	struct sums *sums = bpf_map_lookup_elem(&processes, &tgid);
	if (!sums) {
		struct sums fresh = {};
		struct task_struct *task = (void *)bpf_get_current_task();
		struct task_struct *leader = BPF_CORE_READ(task, group_leader);
		bpf_probe_read_kernel(fresh.comm, sizeof(fresh.comm), &leader->comm);
		bpf_map_update_elem(&processes, &tgid, &fresh, BPF_NOEXIST);
		sums = bpf_map_lookup_elem(&processes, &tgid);
	}
	if (!sums) {
		u64 *lost = bpf_map_lookup_elem(&no_room, &zero);
		if (lost)
			(*lost)++;
		return 0;
	}
	__sync_fetch_and_add(missed ? &sums->misses : &sums->uses, 1);
	return 0;
}

SEC("perf_event") int uses(void *ctx) { return count(false); }
SEC("perf_event") int misses(void *ctx) { return count(true); }
