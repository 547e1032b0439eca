// SPDX-License-Identifier: MIT OR Apache-2.0
/* Processes that the kernel kills because memory ran out: who, with how much, in which control group, and for whose sake.
 *
 * mark_victim runs in the task whose request could not be met. Old kernels hand it an id alone; the task itself is seen in
 * the signal that kills it, which is sent right before, and is not freed in between. */
#include "stream.h"

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)
struct trace_event_raw_mark_victim {
	unsigned long total_vm; /* since 6.9, with the task itself as argument */
};
struct percpu_counter {
	s64 count;
};
struct mm_struct___counters { /* since 6.2 */
	struct percpu_counter rss_stat[4];
};
struct atomic64___plain {
	s64 counter;
};
struct mm_rss_stat {
	struct atomic64___plain count[4];
};
struct mm_struct___sums {
	struct mm_rss_stat rss_stat;
};
struct signal_struct___oom {
	short oom_score_adj;
};
struct task_struct___oom {
	struct signal_struct___oom *signal;
	struct mm_struct *mm;
};
struct kernfs_node___named {
	const char *name;
};
struct cgroup___named {
	struct kernfs_node___named *kn;
};
#pragma clang attribute pop
enum cgroup_subsys_id { memory_cgrp_id = 99 };

#define SIGKILL 9
#define FROM_KERNEL 1
#define LEVELS 8
#define DEPTH 48
#define FILE_PAGES 0
#define ANON_PAGES 1
#define SHMEM_PAGES 3

struct killed {
	u64 at;
	u64 victim; /* process << 32 | thread */
	u64 by;
	s64 adjusted;
	u64 anon; /* pages */
	u64 file;
	u64 shmem;
	char victim_comm[16];
	char by_comm[16];
	char group[LEVELS][64]; /* from the group up to the root; "" where there is none */
	u64 stack[DEPTH];
};

/* Room to put a record together in. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct killed);
} scratch SEC(".maps");

/* Whom the kernel has sent SIGKILL last, by the task that ran. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 1024);
	__type(key, u32);
	__type(value, u64);
} condemned SEC(".maps");

BOTH_TRACEPOINTS(signal_generate)
{
	u32 tid = bpf_get_current_pid_tgid();
	u64 info = ctx[1], task = ctx[2];

	if ((u32)ctx[0] == SIGKILL && info == FROM_KERNEL)
		bpf_map_update_elem(&condemned, &tid, &task, BPF_ANY);
	return 0;
}

static __always_inline void read_pages(struct mm_struct *mm, struct killed *killed)
{
	struct mm_struct___counters *counters = (void *)mm;
	struct mm_struct___sums *sums = (void *)mm;

	if (bpf_core_type_exists(struct mm_rss_stat) && bpf_core_field_exists(sums->rss_stat.count)) {
		bpf_core_read(&killed->file, 8, &sums->rss_stat.count[FILE_PAGES].counter);
		bpf_core_read(&killed->anon, 8, &sums->rss_stat.count[ANON_PAGES].counter);
		bpf_core_read(&killed->shmem, 8, &sums->rss_stat.count[SHMEM_PAGES].counter);
	} else if (bpf_core_field_exists(counters->rss_stat[0].count)) {
		bpf_core_read(&killed->file, 8, &counters->rss_stat[FILE_PAGES].count);
		bpf_core_read(&killed->anon, 8, &counters->rss_stat[ANON_PAGES].count);
		bpf_core_read(&killed->shmem, 8, &counters->rss_stat[SHMEM_PAGES].count);
	}
}

static __always_inline void read_group(struct task_struct *task, struct killed *killed)
{
	struct css_set *set = BPF_CORE_READ(task, cgroups);
	struct cgroup_subsys_state *css = NULL;

	if (bpf_core_enum_value_exists(enum cgroup_subsys_id, memory_cgrp_id)) {
		u32 at = bpf_core_enum_value(enum cgroup_subsys_id, memory_cgrp_id);
		if (at < 16)
			bpf_core_read(&css, sizeof(css), &set->subsys[at & 15]);
	}
	for (int i = 0; i < LEVELS && css; i++) {
		struct cgroup___named *group = (void *)BPF_CORE_READ(css, cgroup);
		const char *name = BPF_CORE_READ(group, kn, name);
		bpf_probe_read_kernel_str(killed->group[i], sizeof(killed->group[i]), name);
		css = BPF_CORE_READ(css, parent);
	}
}

static __always_inline int kills(void *ctx, u64 id, struct task_struct *task)
{
	u32 zero = 0;
	u64 ids = bpf_get_current_pid_tgid();
	struct killed *killed = bpf_map_lookup_elem(&scratch, &zero);

	if (!killed)
		return 0;
	__builtin_memset(killed, 0, __builtin_offsetof(struct killed, group));
	for (int i = 0; i < LEVELS; i++)
		killed->group[i][0] = 0;
	killed->at = bpf_ktime_get_ns();
	killed->victim = id << 32 | id;
	killed->by = ids;
	bpf_get_current_comm(killed->by_comm, sizeof(killed->by_comm));
	if (task) {
		struct task_struct___oom *of = (void *)task;
		killed->victim = (u64)BPF_CORE_READ(task, tgid) << 32 | (u32)BPF_CORE_READ(task, pid);
		bpf_probe_read_kernel(killed->victim_comm, sizeof(killed->victim_comm), &task->comm);
		killed->adjusted = BPF_CORE_READ(of, signal, oom_score_adj);
		read_pages(BPF_CORE_READ(task, mm), killed);
		read_group(task, killed);
	}
	if (bpf_get_stack(ctx, killed->stack, sizeof(killed->stack), 0) <= 0)
		killed->stack[0] = 0;
	send_event(killed, sizeof(*killed));
	return 0;
}

BOTH_TRACEPOINTS(mark_victim)
{
	u32 tid = bpf_get_current_pid_tgid();

	if (bpf_core_field_exists(((struct trace_event_raw_mark_victim *)0)->total_vm)) {
		struct task_struct *task = (void *)ctx[0];
		return kills(ctx, (u32)BPF_CORE_READ(task, pid), task);
	}
	u32 id = ctx[0];
	/* A task that is about to exit is marked without a signal. */
	struct task_struct *task = id == tid ? (void *)bpf_get_current_task() : NULL;
	u64 *known = bpf_map_lookup_elem(&condemned, &tid);
	if (!task && known && BPF_CORE_READ((struct task_struct *)*known, pid) == id)
		task = (struct task_struct *)*known;
	return kills(ctx, id, task);
}
