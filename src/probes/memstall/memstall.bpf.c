// SPDX-License-Identifier: MIT OR Apache-2.0
/* Tasks that stop to make room in memory before they get what they asked for: how often, how long, how much it freed. Begin and
 * end of each kind of work come in the task's own name, one after the other, so its id alone pairs them. */
#include "rdiag.h"
#include "lost.h"

#define RECLAIM 0 /* of the whole host */
#define GROUP 1   /* of a control group */
#define COMPACT 2
#define KINDS 3

struct task_kind {
	u64 tid;
	u64 kind;
};

struct stalls {
	u64 born; /* start time: a pid may be used again */
	u64 tgid;
	u64 count;
	u64 took; /* ns */
	u64 longest;
	u64 freed; /* pages */
	char comm[16];
};

struct work {
	u64 kind;
	u64 since;
};

/* A task that dies in its work leaves its entry to whoever needs the room. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 16384);
	__type(key, u32);
	__type(value, struct work);
} begun SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 8192);
	__type(key, struct task_kind);
	__type(value, struct stalls);
} tasks SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, KINDS);
	__type(key, u32);
	__type(value, struct hist);
} lengths SEC(".maps");

static __always_inline int begin(u64 kind)
{
	u32 tid = bpf_get_current_pid_tgid();

	if (!current_wanted())
		return 0;
	struct work work = { .kind = kind, .since = bpf_ktime_get_ns() };
	bpf_map_update_elem(&begun, &tid, &work, BPF_ANY);
	return 0;
}

static __always_inline int end(u32 kind, u64 freed)
{
	u64 ids = bpf_get_current_pid_tgid();
	u32 tid = ids, none = 0;
	struct work *work = bpf_map_lookup_elem(&begun, &tid);

	if (!work || work->kind != kind)
		return 0;
	u64 took = bpf_ktime_get_ns() - work->since;
	bpf_map_delete_elem(&begun, &tid);
	hist_add_at(&lengths, &kind, took);
	struct task_struct *task = (void *)bpf_get_current_task();
	u64 born = BPF_CORE_READ(task, start_time);
	struct task_kind key = { .tid = tid, .kind = kind };
	struct stalls *known = bpf_map_lookup_elem(&tasks, &key);
	if (known && known->born == born) {
		/* Nobody else writes to the entry of this task. */
		known->count++;
		known->took += took;
		if (took > known->longest)
			known->longest = took;
		known->freed += freed;
		return 0;
	}
	struct stalls fresh = { .born = born, .tgid = ids >> 32, .count = 1, .took = took, .longest = took, .freed = freed };
	bpf_get_current_comm(fresh.comm, sizeof(fresh.comm));
	if (bpf_map_update_elem(&tasks, &key, &fresh, BPF_ANY))
		lose_at(&none, 1);
	return 0;
}

BOTH_TRACEPOINTS(mm_vmscan_direct_reclaim_begin)
{
	return begin(RECLAIM);
}

BOTH_TRACEPOINTS(mm_vmscan_direct_reclaim_end)
{
	return end(RECLAIM, ctx[0]);
}

BOTH_TRACEPOINTS(mm_vmscan_memcg_reclaim_begin)
{
	return begin(GROUP);
}

BOTH_TRACEPOINTS(mm_vmscan_memcg_reclaim_end)
{
	return end(GROUP, ctx[0]);
}

BOTH_TRACEPOINTS(mm_compaction_begin)
{
	return begin(COMPACT);
}

BOTH_TRACEPOINTS(mm_compaction_end)
{
	return end(COMPACT, 0);
}
