/* SPDX-License-Identifier: MIT OR Apache-2.0
 * The kernel's types, cut down to the fields that rdiag's programs read. Offsets are those of the running kernel: every
 * access is relocated against its BTF when a program is loaded, so the order here means nothing. A field that some
 * kernels lack is read behind bpf_core_field_exists(). */
#pragma once
#define __VMLINUX_H__ /* for the helper headers: these are kernel types, not those of user space */

typedef signed char s8;
typedef unsigned char u8;
typedef short s16;
typedef unsigned short u16;
typedef int s32;
typedef unsigned int u32;
typedef long long s64;
typedef unsigned long long u64;
typedef s8 __s8;
typedef u8 __u8;
typedef s16 __s16;
typedef u16 __u16;
typedef s32 __s32;
typedef u32 __u32;
typedef s64 __s64;
typedef u64 __u64;
typedef u16 __be16;
typedef u32 __be32;
typedef u32 __wsum;
typedef _Bool bool;
#define true 1
#define false 0
#define NULL ((void *)0)

enum { BPF_ANY = 0, BPF_NOEXIST = 1, BPF_EXIST = 2 };
enum { BPF_F_NO_PREALLOC = 1, BPF_F_NO_COMMON_LRU = 2 };
enum { BPF_F_USER_STACK = 1 << 8, BPF_F_FAST_STACK_CMP = 1 << 9, BPF_F_REUSE_STACKID = 1 << 10 };
enum { BPF_F_CURRENT_CPU = 0xffffffff };
enum bpf_map_type {
	BPF_MAP_TYPE_HASH = 1,
	BPF_MAP_TYPE_ARRAY = 2,
	BPF_MAP_TYPE_PERCPU_HASH = 5,
	BPF_MAP_TYPE_PERCPU_ARRAY = 6,
	BPF_MAP_TYPE_STACK_TRACE = 7,
	BPF_MAP_TYPE_LRU_HASH = 9,
	BPF_MAP_TYPE_LRU_PERCPU_HASH = 10,
	BPF_MAP_TYPE_QUEUE = 22,
	BPF_MAP_TYPE_RINGBUF = 27,
};

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct kernfs_node {
	u64 id;
};
struct cgroup_subsys_state {
	struct cgroup *cgroup;
	struct cgroup_subsys_state *parent;
};
struct cgroup {
	struct cgroup_subsys_state self;
	struct kernfs_node *kn;
};
struct css_set {
	struct cgroup_subsys_state *subsys[16];
	struct cgroup *dfl_cgrp;
};

struct cfs_rq {
	unsigned int h_nr_queued;
	unsigned int h_nr_runnable;
	unsigned int h_nr_delayed;
	struct rq *rq;
};
struct rq {
	unsigned int nr_running;
	struct cfs_rq cfs;
	u64 clock;
};
struct sched_entity {
	u64 sum_exec_runtime;
	struct cfs_rq *cfs_rq;
};
struct sched_info {
	unsigned long long run_delay;
	unsigned long long last_queued;
};
struct mm_struct {
	unsigned long hiwater_rss;
};
struct thread_info {
	u32 cpu;
};
struct task_struct {
	struct thread_info thread_info;
	unsigned int __state;
	unsigned int flags;
	int exit_code;
	int pid;
	int tgid;
	int prio;
	struct task_struct *real_parent;
	struct task_struct *group_leader;
	u64 start_time;
	char comm[16];
	struct sched_entity se;
	struct sched_info sched_info;
	struct css_set *cgroups;
	struct mm_struct *mm;
};
/* Before 5.14. */
struct task_struct___old {
	long state;
};
/* Before 5.16. */
struct task_struct___cpu {
	unsigned int cpu;
};

struct irqaction {
	const char *name;
};

#pragma clang attribute pop
