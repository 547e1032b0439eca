// SPDX-License-Identifier: MIT OR Apache-2.0
/* Pages that come back from swap, by the process that runs when they are read, and how long its tasks wait for them: the fault
 * that finds a page swapped out (do_swap_page), and the function that reads it and those around it. */
#include "folio.h"
#include "registers.h"
#include "lost.h"

/* Of what a fault returns: something had to be read for it. The same number since the kernel has such results. */
#define VM_FAULT_MAJOR 4

struct process {
	u64 tgid;
	u64 born; /* start time: a pid may be used again */
};

struct sums {
	u64 pages; /* read, those ahead too */
	u64 faults;
	u64 took; /* ns */
	u64 longest;
	char comm[16];
};

/* Faults under way. A task that dies in one leaves its entry to whoever needs the room. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 16384);
	__type(key, u32);
	__type(value, u64);
} begun SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 8192);
	__type(key, struct process);
	__type(value, struct sums);
} processes SEC(".maps");

static __always_inline struct sums *sums_of_current(void)
{
	struct task_struct *task = (void *)bpf_get_current_task();
	struct task_struct *leader = BPF_CORE_READ(task, group_leader);
	struct process key = { .tgid = bpf_get_current_pid_tgid() >> 32, .born = BPF_CORE_READ(leader, start_time) };
	struct sums *sums = bpf_map_lookup_elem(&processes, &key);

	if (sums)
		return sums;
	struct sums fresh = {};
	bpf_probe_read_kernel(fresh.comm, sizeof(fresh.comm), &leader->comm);
	bpf_map_update_elem(&processes, &key, &fresh, BPF_NOEXIST);
	sums = bpf_map_lookup_elem(&processes, &key);
	if (!sums)
		lose(0);
	return sums;
}

static __always_inline int reads(void *folio)
{
	struct sums *sums = current_wanted() ? sums_of_current() : NULL;

	if (sums)
		__sync_fetch_and_add(&sums->pages, pages_of(folio));
	return 0;
}

static __always_inline int fault_begins(void)
{
	u32 tid = bpf_get_current_pid_tgid();
	u64 now = bpf_ktime_get_ns();

	if (current_wanted())
		bpf_map_update_elem(&begun, &tid, &now, BPF_ANY);
	return 0;
}

static __always_inline int fault_ends(u64 result)
{
	u32 tid = bpf_get_current_pid_tgid();
	u64 *since = bpf_map_lookup_elem(&begun, &tid);

	if (!since)
		return 0;
	u64 took = bpf_ktime_get_ns() - *since;
	bpf_map_delete_elem(&begun, &tid);
	/* A page that was read ahead is found in memory, and one that moves is none of swap. */
	if (!(result & VM_FAULT_MAJOR))
		return 0;
	struct sums *sums = sums_of_current();
	if (!sums)
		return 0;
	__sync_fetch_and_add(&sums->faults, 1);
	__sync_fetch_and_add(&sums->took, took);
	if (took > sums->longest)
		sums->longest = took;
	return 0;
}

SEC("fentry/do_swap_page") int do_swap_page_fentry(u64 *ctx) { return fault_begins(); }
SEC("fexit/do_swap_page") int do_swap_page_fexit(u64 *ctx) { return fault_ends(ctx[1]); }
SEC("kprobe/do_swap_page") int do_swap_page_kprobe(void *ctx) { return fault_begins(); }
SEC("kretprobe/do_swap_page") int do_swap_page_kretprobe(void *ctx) { return fault_ends(returned(ctx)); }

/* Its name since 6.9, and before. */
SEC("fentry/swap_read_folio") int swap_read_folio_fentry(u64 *ctx) { return reads((void *)ctx[0]); }
SEC("kprobe/swap_read_folio") int swap_read_folio_kprobe(void *ctx) { return reads((void *)argument(ctx, 0)); }
SEC("fentry/swap_readpage") int swap_readpage_fentry(u64 *ctx) { return reads((void *)ctx[0]); }
SEC("kprobe/swap_readpage") int swap_readpage_kprobe(void *ctx) { return reads((void *)argument(ctx, 0)); }
