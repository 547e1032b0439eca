/* SPDX-License-Identifier: MIT OR Apache-2.0
 * What all programs of rdiag share: both kinds of tracepoint from one body, filters, histograms. */
#pragma once
#include "kernel.h"
#include "bpf/bpf_helpers.h"
#include "bpf/bpf_core_read.h"

/* The helpers that GPL-compatible programs alone may call are used; the source stays permissive. */
char LICENSE[] SEC("license") = "Dual BSD/GPL";

/* A BTF tracepoint and a raw tracepoint on the same event, from one body. `direct` tells whether pointers can be followed
 * as in C (the verifier knows their types) or must be read through a helper; READ() does either. */
#define BOTH_TRACEPOINTS(event)                                                                                        \
	static __always_inline int on_##event(u64 *ctx, const bool direct);                                            \
	SEC("tp_btf/" #event) int event##_btf(u64 *ctx) { return on_##event(ctx, true); }                              \
	SEC("raw_tp/" #event) int event##_raw(u64 *ctx) { return on_##event(ctx, false); }                             \
	static __always_inline int on_##event(u64 *ctx, const bool direct)

#define READ(src, path)                                                                                                \
	({                                                                                                             \
		typeof((src)->path) value_;                                                                            \
		if (direct)                                                                                            \
			value_ = (src)->path;                                                                          \
		else                                                                                                   \
			bpf_core_read(&value_, sizeof(value_), &(src)->path);                                          \
		value_;                                                                                                \
	})

/* Filters, set before loading; a filter that is off costs nothing, since the verifier removes the branch. */
const volatile u32 filter_tgids = 0; /* how many of the next are set */
const volatile u32 filter_tgid[16] = {};
const volatile u32 filter_children = 0; /* what those have started counts too */
const volatile u32 filter_comm_on = 0;
const volatile u64 filter_comm[2] = {};
const volatile u64 filter_cgroup = 0; /* inode of the group's directory */
const volatile s32 filter_cgroup_v1 = -1; /* index of the v1 controller; -1 in the v2 tree */
const volatile u32 own_tgid = 0; /* rdiag itself */

static __always_inline bool tgid_wanted(u32 tgid)
{
	if (!filter_tgids)
		return true;
	for (int i = 0; i < 16; i++) {
		if (i < filter_tgids && filter_tgid[i] == tgid)
			return true;
	}
	return false;
}

/* Whether an ancestor is one of the processes that are wanted. Who outlives a parent is a child of the one that takes it in. */
static __noinline bool descends(struct task_struct *task)
{
	for (int depth = 0; depth < 16; depth++) {
		task = BPF_CORE_READ(task, real_parent);
		u32 tgid = BPF_CORE_READ(task, tgid);
		if (tgid <= 1)
			return false;
		if (tgid_wanted(tgid))
			return true;
	}
	return false;
}

/* Whether a process that is not itself wanted is so as a child. */
static __always_inline bool child_wanted(struct task_struct *task)
{
	return filter_children && descends(task);
}

/* Whether a name is the one that is wanted. Old kernels (5.10) leave the rest of a former, longer name behind its NUL. */
static __always_inline bool comm_wanted(const u64 *comm)
{
	u64 have, want;

	for (int i = 0; i < 2; i++) {
		have = comm[i];
		want = filter_comm[i];
		/* 0x80 in the first byte that is 0; what is set above it by a borrow does no harm, only the lowest counts. */
		u64 ends = (want - 0x0101010101010101ULL) & ~want & 0x8080808080808080ULL;
		if (ends) /* All bits up to the end of that byte. */
			return !((have ^ want) & (ends ^ (ends - 1)));
		if (have != want)
			return false;
	}
	return true;
}

static __always_inline bool cgroup_wanted(struct task_struct *task, const bool direct)
{
	struct css_set *set = READ(task, cgroups);
	struct cgroup_subsys_state *css = NULL;
	struct cgroup *group;

	if (filter_cgroup_v1 >= 0 && filter_cgroup_v1 < 16)
		bpf_core_read(&css, sizeof(css), &set->subsys[filter_cgroup_v1 & 15]);
	else if ((group = BPF_CORE_READ(set, dfl_cgrp)))
		css = &group->self;
	/* The group itself or any group above it; deeper trees than this are rare, and then the filter says no. */
	for (int depth = 0; depth < 16 && css; depth++) {
		group = BPF_CORE_READ(css, cgroup);
		if (BPF_CORE_READ(group, kn, id) == filter_cgroup)
			return true;
		css = BPF_CORE_READ(css, parent);
	}
	return false;
}

static __always_inline bool task_wanted(struct task_struct *task, const bool direct)
{
	if (filter_tgids && !tgid_wanted(READ(task, tgid)) && !child_wanted(task))
		return false;
	if (filter_comm_on) {
		u64 comm[2];
		bpf_probe_read_kernel(comm, sizeof(comm), &task->comm);
		if (!comm_wanted(comm))
			return false;
	}
	return !filter_cgroup || cgroup_wanted(task, direct);
}

/* Whether the process that runs now is wanted, whatever the name of its thread. */
static __always_inline bool current_process_wanted(u32 tgid)
{
	return tgid_wanted(tgid) || child_wanted((struct task_struct *)bpf_get_current_task());
}

/* The same as task_wanted() for the task that runs now. */
static __always_inline bool current_wanted(void)
{
	u32 tgid = bpf_get_current_pid_tgid() >> 32;

	if (tgid == own_tgid || !current_process_wanted(tgid))
		return false;
	if (filter_comm_on) {
		u64 comm[2] = {};
		bpf_get_current_comm(comm, sizeof(comm));
		if (!comm_wanted(comm))
			return false;
	}
	return !filter_cgroup || cgroup_wanted((struct task_struct *)bpf_get_current_task(), false);
}

/* Whether the task went to sleep; a task that is still runnable was preempted. */
static __always_inline u32 task_state(struct task_struct *task, const bool direct)
{
	if (bpf_core_field_exists(task->__state))
		return READ(task, __state);
	struct task_struct___old *old = (void *)task;
	long state = 0;
	bpf_core_read(&state, sizeof(state), &old->state);
	return state;
}

/* Adds to one of the counters that each CPU has of its own. */
static __always_inline void count_in(void *counters, const u32 *which, u64 many)
{
	u64 *count = bpf_map_lookup_elem(counters, which);

	if (count)
		*count += many;
}

/* A distribution: eight buckets per power of two, so a value is known within 12.5 %. 499 words; see hist.rs. */
#define HIST_SLOTS 496
struct hist {
	u64 count;
	u64 sum;
	u64 max;
	u64 slots[HIST_SLOTS];
};

static __always_inline u32 msb(u64 v)
{
	u32 r = 0, s;
	s = (v > 0xffffffffULL) << 5; v >>= s; r |= s;
	s = (v > 0xffff) << 4; v >>= s; r |= s;
	s = (v > 0xff) << 3; v >>= s; r |= s;
	s = (v > 0xf) << 2; v >>= s; r |= s;
	s = (v > 3) << 1; v >>= s; r |= s;
	return r | (v >> 1);
}

static __always_inline u32 hist_slot(u64 v)
{
	if (v < 8)
		return v;
	u32 top = msb(v);
	return ((top - 2) << 3) + ((v >> (top - 3)) & 7);
}

/* For maps of one CPU each. */
static __always_inline void hist_add(struct hist *hist, u64 value)
{
	u32 slot = hist_slot(value);

	hist->count++;
	hist->sum += value;
	if (value > hist->max)
		hist->max = value;
	if (slot < HIST_SLOTS)
		hist->slots[slot]++;
}

static __always_inline void hist_add_at(void *hists, const u32 *which, u64 value)
{
	struct hist *hist = bpf_map_lookup_elem(hists, which);

	if (hist)
		hist_add(hist, value);
}

/* The name of the process whose task runs: that of its first thread. */
static __always_inline void read_process_name(char *comm)
{
	struct task_struct *task = (void *)bpf_get_current_task();
	struct task_struct *leader = BPF_CORE_READ(task, group_leader);

	bpf_probe_read_kernel(comm, 16, &leader->comm);
}
