/* SPDX-License-Identifier: MIT OR Apache-2.0
 * What the kernel's own records say of a task, and of the files that it has open. */
#pragma once
#include "sums.h"

const volatile u64 threshold_ns = 100000;
const volatile u32 with_children = 0;
const volatile u32 with_command = 0; /* it was started for this, and stands still until it is let go */
const volatile u32 want_user = 1;
const volatile u8 call_traits[CALLS] = {}; /* bits: see the next */
#define TAKES_FD 1
#define GIVES_BYTES 2
#define TAKES_ADDRESS 4
#define FREES_FD 8
#define IS_RING 16
#define IS_POLL 32
#define IS_SELECT 64
#define HANDS_OVER 128

#define DEAD 0x80
#define STATES 0x940f /* bits of a sleeping task that tell why: S, D, T, t, NOLOAD, RTLOCK, FROZEN */
#define ONE_IN 256 /* short waits of a thread whose stack is taken */
#define EARLY_NS 20000
#define SOCK_MAGIC 0x534F434B
#define PIPE_MAGIC 0x50495045
#define ANON_MAGIC 0x09041934

static __always_inline u64 now_ns(void)
{
	return bpf_ktime_get_ns();
}

/* The call that a task is in, by its registers: true while it is blocked or waits for a CPU, not while it runs. */
static __always_inline void look_at_registers(struct thread *thread, struct task_struct *task)
{
	u32 call;

	if (bpf_core_enum_value_exists(enum bpf_func_id___regs, BPF_FUNC_task_pt_regs)) {
		/* The verifier knows these as registers, so they need no helper to be read. */
		void *saved = (void *)bpf_task_pt_regs(task);
		call = call_number(saved, true);
		thread->argument = call_argument(saved, 0, true);
	} else {
		void *saved = registers(task);
		call = call_number(saved, false);
		thread->argument = call_argument(saved, 0, false);
	}
	thread->call = call == NO_CALL ? NONE : call;
	if (call == COMPAT)
		thread->flags |= 8;
}

static __always_inline void account_by(struct task_struct *task, u64 *into, const bool direct)
{
	struct task_struct___more *more = (void *)task;

	into[0] = READ(more, utime);
	into[1] = READ(more, stime);
	into[2] = READ(task, se.sum_exec_runtime);
	if (bpf_core_field_exists(task->sched_info.run_delay))
		into[3] = READ(task, sched_info.run_delay);
	into[4] = READ(more, min_flt);
	into[5] = READ(more, maj_flt);
}

static __noinline void account(struct task_struct *task, u64 *into)
{
	account_by(task, into, true);
}

/* The run queue of a task that has a CPU, if it keeps what is asked of it below. */
static __always_inline struct rq___taken *run_queue(struct task_struct *task, const bool direct)
{
	struct rq___taken *rq = NULL;

	if (!bpf_core_field_exists(rq->prev_steal_time_rq) && !bpf_core_field_exists(rq->prev_irq_time))
		return NULL;
	if (!bpf_core_field_exists(task->se.cfs_rq))
		return NULL;
	struct cfs_rq *cfs_rq = READ(task, se.cfs_rq);
	return cfs_rq ? (void *)READ(cfs_rq, rq) : NULL;
}

/* The task has a CPU from now on. */
static __always_inline void has_cpu(struct thread *thread, struct rq___taken *rq, const bool direct)
{
	thread->rq = (u64)rq;
	if (!rq)
		return;
	if (bpf_core_field_exists(rq->prev_steal_time_rq))
		thread->stolen_before = READ(rq, prev_steal_time_rq);
	if (bpf_core_field_exists(rq->prev_irq_time))
		thread->interrupted_before = READ(rq, prev_irq_time);
}

/* A counter that went back, as one of a machine that moved to another host may, says nothing. */
static __always_inline u64 grown(u64 now, u64 before, u64 most)
{
	u64 ns = now > before ? now - before : 0;

	return ns < most ? ns : most;
}

/* It had it until now: what of that time the run queue's clock leaves out, and the task's run time with it. Of a task that may be on
 * another queue by now it is the one that it came in by. */
static __always_inline void had_cpu(struct thread *thread, struct rq___taken *rq, u64 now, const bool direct)
{
	u64 most = now > thread->on_since ? now - thread->on_since : 0;

	if (!rq || (u64)rq != thread->rq || thread->mode != ON)
		return;
	thread->rq = 0;
	if (bpf_core_field_exists(rq->prev_steal_time_rq)) {
		u64 ns = grown(READ(rq, prev_steal_time_rq), thread->stolen_before, most);
		thread->stolen += ns;
		most -= ns;
	}
	if (bpf_core_field_exists(rq->prev_irq_time))
		thread->interrupted += grown(READ(rq, prev_irq_time), thread->interrupted_before, most);
}

/* Time for which the task's run queue was not allowed to run, as the kernel counts it. */
static __always_inline u64 throttled_time(struct cfs_rq *of)
{
	struct cfs_rq___bandwidth *cfs_rq = (void *)of;

	if (bpf_core_field_exists(cfs_rq->throttled_clock_pelt_time))
		return BPF_CORE_READ(cfs_rq, throttled_clock_pelt_time);
	if (bpf_core_field_exists(cfs_rq->throttled_clock_task_time))
		return BPF_CORE_READ(cfs_rq, throttled_clock_task_time);
	return 0;
}

/* Whether a task that could run may not. From 6.18 on tasks are throttled one by one, before that with their run queue. */
static __always_inline bool is_throttled(struct task_struct *task)
{
	struct task_struct___more *more = (void *)task;

	if (bpf_core_field_exists(more->throttled))
		return more->throttled;
	if (!bpf_core_field_exists(task->se.cfs_rq))
		return false;
	struct cfs_rq___bandwidth *cfs_rq = (void *)BPF_CORE_READ(task, se.cfs_rq);
	return bpf_core_field_exists(cfs_rq->throttle_count) && BPF_CORE_READ(cfs_rq, throttle_count) > 0;
}

static __always_inline void note_throttle(struct thread *thread, struct task_struct *task)
{
	if (!bpf_core_field_exists(task->se.cfs_rq))
		return;
	struct cfs_rq *cfs_rq = BPF_CORE_READ(task, se.cfs_rq);
	thread->cfs_rq = (u64)cfs_rq;
	thread->throttled_before = throttled_time(cfs_rq);
}

/* Whether there is no disk behind a file: the kernel makes up what is read, and does at once what is written. */
static __always_inline bool made_up(u64 magic)
{
	return magic == 0x9fa0 /* proc */ || magic == 0x62656572 /* sysfs */ || magic == 0x27e0eb /* cgroup */ ||
	       magic == 0x63677270 /* cgroup2 */ || magic == 0x64626720 /* debugfs */ || magic == 0x74726163 /* tracefs */ ||
	       magic == 0x62656570 /* configfs */ || magic == 0x73636673 /* securityfs */;
}

/* What file a descriptor of a task stands for. */
static __noinline void open_file(u64 of, struct opened *out, u32 fd)
{
	struct task_struct___more *task = (void *)of;
	struct fdtable *table = BPF_CORE_READ(task, files, fdt);
	void **array = BPF_CORE_READ(table, fd);
	struct file *file = NULL;

	out->class = NO_FILE;
	out->file = out->inode = 0;
	out->object[0] = out->object[1] = out->object[2] = 0;
	if (fd >= BPF_CORE_READ(table, max_fds) || bpf_probe_read_kernel(&file, sizeof(file), array + fd) || !file)
		return;
	out->file = (u64)file;
	struct inode *inode = BPF_CORE_READ(file, f_inode);
	out->inode = (u64)inode;
	struct super_block *block = BPF_CORE_READ(inode, i_sb);
	u32 kind = BPF_CORE_READ(inode, i_mode) & 0xf000;
	u64 magic = BPF_CORE_READ(block, s_magic);
	u32 special = BPF_CORE_READ(inode, i_rdev);

	out->object[0] = BPF_CORE_READ(block, s_dev);
	out->object[1] = BPF_CORE_READ(inode, i_ino);
	switch (kind) {
	case 0x8000:
		out->class = magic == 0x6969 || magic == 0xff534d42 || magic == 0xfe534d42 || magic == 0x00c36400 ||
				     magic == 0x01021997 || magic == 0x65735546 ? NETWORK_FILE :
			     made_up(magic) ? KERNEL_FILE : REGULAR;
		return;
	case 0x4000:
		out->class = DIRECTORY;
		return;
	case 0x6000:
		out->class = BLOCK;
		out->object[0] = special;
		return;
	case 0x1000:
		out->class = PIPE;
		return;
	case 0x2000:
		out->object[0] = special;
		out->class = CHARACTER;
		if (special == (10 << 20 | 229))
			out->class = FUSE;
		else if (special >> 20 == 4 || special >> 20 == 5 || (special >> 20 >= 136 && special >> 20 <= 143))
			out->class = TTY;
		return;
	case 0xc000:
		break;
	default:
		out->class = ANONYMOUS;
		const unsigned char *name = BPF_CORE_READ(file, f_path.dentry, d_name.name);
		bpf_probe_read_kernel(&out->object[2], 8, name);
		out->object[0] = out->object[1] = 0;
		return;
	}
	struct socket *socket = BPF_CORE_READ(file, private_data);
	struct sock *sk = BPF_CORE_READ(socket, sk);
	u32 family = BPF_CORE_READ(sk, __sk_common.skc_family);
	if (family != 2 && family != 10) {
		out->class = family == 1 ? UNIX : family == 16 ? NETLINK : SOCKET;
		return;
	}
	/* The peer, and of the two ports the one that says what service this is: the lower one. */
	u32 their = __builtin_bswap16(BPF_CORE_READ(sk, __sk_common.skc_dport));
	u32 own = BPF_CORE_READ(sk, __sk_common.skc_num);
	out->class = INET;
	out->object[0] = BPF_CORE_READ(sk, __sk_common.skc_daddr);
	out->object[1] = 0;
	if (family == 10)
		bpf_core_read(&out->object[0], 16, &sk->__sk_common.skc_v6_daddr);
	out->object[2] = (u64)family << 32 | (their && their <= own ? their : own | 1 << 16);
}

/* The same by way of what is known already. A descriptor can mean another file only after one was closed. */
static __always_inline struct opened *opened(struct thread *thread, u64 task, u64 fd, const bool direct)
{
	u32 one = 1;
	u64 *generation = bpf_map_lookup_elem(&control, &one);
	/* What is closed between two watches is not seen either, so what is known from one does not hold in the next. */
	u64 age = (generation ? *generation : 0) + thread->watch * 0x9e3779b1;
	u64 tag = fd << 32 | (age & 0x7fffffff) | 1ULL << 31;
	struct opened *known = &thread->files[fd & (FILES - 1)];

	if (known->tag == tag && !thread->watch) {
		/* Nobody watches what is closed: the same file has the same address and the same inode. */
		struct task_struct___more *more = (void *)task;
		struct files_struct *files = READ(more, files);
		struct fdtable *table = READ(files, fdt);
		void **array = READ(table, fd);
		struct file *file = NULL;
		if (fd >= READ(table, max_fds) || bpf_probe_read_kernel(&file, sizeof(file), array + fd) ||
		    (u64)file != known->file || (u64)BPF_CORE_READ(file, f_inode) != known->inode)
			known->tag = 0;
	}
	if (known->tag != tag) {
		open_file(task, known, fd);
		known->tag = tag;
	}
	return known;
}

static __always_inline bool has_name(u64 class)
{
	return class == REGULAR || class == NETWORK_FILE || class == DIRECTORY || class == KERNEL_FILE;
}

static __always_inline u8 traits(u64 call)
{
	return call < CALLS ? call_traits[call & (CALLS - 1)] : 0;
}

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)
struct block_device {
	u32 bd_dev;
};
struct bio {
	struct block_device *bi_bdev;
	struct bio *bi_next;
};
struct request___disk {
	struct bio *bio;
};
/* Before 5.12. */
struct gendisk {
	int major;
	int first_minor;
};
struct bio___old {
	struct gendisk *bi_disk;
	u8 bi_partno;
};
#pragma clang attribute pop

static __always_inline u64 bio_device(struct bio *bio)
{
	struct bio___old *old = (void *)bio;

	if (bpf_core_field_exists(bio->bi_bdev))
		return BPF_CORE_READ(bio, bi_bdev, bd_dev);
	u32 minor = BPF_CORE_READ(old, bi_disk, first_minor) + BPF_CORE_READ(old, bi_partno);
	return (u64)BPF_CORE_READ(old, bi_disk, major) << 20 | minor;
}
