// SPDX-License-Identifier: MIT OR Apache-2.0
/* Every thread of the host in one pass, without the text of /proc: some 40 times cheaper than four files per process.
 * A thread is 14 words; the leader of a thread group adds what belongs to the group. See kernel/record.rs. */
#include "rdiag.h"

struct seq_file;
struct bpf_iter_meta {
	struct seq_file *seq;
} __attribute__((preserve_access_index));

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)
struct task_io_accounting {
	u64 read_bytes;
	u64 write_bytes;
};
struct signal_struct {
	int nr_threads;
	u64 utime;
	u64 stime;
	unsigned long long sum_sched_runtime;
	unsigned long nvcsw;
	unsigned long nivcsw;
	unsigned long min_flt;
	unsigned long maj_flt;
	struct task_io_accounting ioac;
};
struct percpu_counter {
	s64 count;
};
struct mm_struct___size {
	unsigned long total_vm;
};
/* Since 6.2. */
struct mm_struct___counters {
	struct percpu_counter rss_stat[4];
};
/* Before. */
typedef struct {
	s64 counter;
} atomic64_t;
typedef atomic64_t atomic_long_t;
struct mm_rss_stat {
	atomic_long_t count[4];
};
struct mm_struct___stat {
	struct mm_rss_stat rss_stat;
};
struct task_struct___whole {
	int pid;
	int tgid;
	int exit_state;
	int static_prio;
	u64 start_boottime;
	u64 utime;
	u64 stime;
	unsigned long nvcsw;
	unsigned long nivcsw;
	unsigned long min_flt;
	unsigned long maj_flt;
	char comm[16];
	struct sched_entity se;
	struct sched_info sched_info;
	struct task_io_accounting ioac;
	struct task_struct *real_parent;
	struct signal_struct *signal;
	struct mm_struct *mm;
	const struct cred *real_cred;
};
typedef struct {
	u32 val;
} kuid_t;
struct cred {
	kuid_t uid;
	kuid_t euid;
};
struct bpf_iter__task {
	struct bpf_iter_meta *meta;
	struct task_struct *task;
};
#pragma clang attribute pop

struct thread {
	u32 tid, tgid;
	u32 state;
	s32 nice;
	u64 born; /* ns since boot */
	u64 utime, stime, runtime, run_delay; /* ns */
	u64 voluntary, involuntary;
	u64 minor_faults, major_faults;
	u64 read_bytes, write_bytes;
	u32 uid, euid;
};

struct leader {
	struct thread thread;
	u32 ppid, threads;
	s64 resident, swapped; /* pages; -1 if the kernel keeps them elsewhere */
	u64 virtual; /* pages */
	/* of threads that ended */
	u64 utime, stime, runtime;
	u64 voluntary, involuntary;
	u64 minor_faults, major_faults;
	u64 read_bytes, write_bytes;
	u64 comm[2];
};

/* A macro, not a function: an index that is no constant when the access is compiled is computed with the sizes here, not
 * with those of the kernel. */
#define PAGES(mm, kind)                                                                                                \
	({                                                                                                             \
		s64 count_ = -1;                                                                                       \
		struct mm_struct___stat *old_ = (void *)(mm);                                                          \
		struct mm_struct___counters *now_ = (void *)(mm);                                                      \
		if (bpf_core_type_exists(struct mm_rss_stat))                                                          \
			bpf_core_read(&count_, sizeof(count_), &old_->rss_stat.count[kind].counter);                   \
		else if (bpf_core_field_exists(now_->rss_stat))                                                        \
			bpf_core_read(&count_, sizeof(count_), &now_->rss_stat[kind].count);                           \
		count_;                                                                                                \
	})
enum { FILE_PAGES = 0, ANONYMOUS_PAGES = 1, SWAPPED_PAGES = 2, SHARED_PAGES = 3 };

static __always_inline void fill(struct thread *out, struct task_struct *any)
{
	struct task_struct___whole *task = (void *)any;
	const bool direct = true;

	out->tid = task->pid;
	out->tgid = task->tgid;
	out->state = task_state(any, direct) | task->exit_state;
	out->nice = task->static_prio - 120;
	out->born = task->start_boottime;
	out->utime = task->utime;
	out->stime = task->stime;
	out->runtime = task->se.sum_exec_runtime;
	if (bpf_core_field_exists(task->sched_info.run_delay))
		out->run_delay = task->sched_info.run_delay;
	out->voluntary = task->nvcsw;
	out->involuntary = task->nivcsw;
	out->minor_faults = task->min_flt;
	out->major_faults = task->maj_flt;
	if (bpf_core_field_exists(task->ioac.read_bytes)) {
		out->read_bytes = task->ioac.read_bytes;
		out->write_bytes = task->ioac.write_bytes;
	}
}

SEC("iter/task")
int tasks(struct bpf_iter__task *ctx)
{
	struct task_struct___whole *task = (void *)ctx->task;
	struct seq_file *seq = ctx->meta->seq;

	if (!task)
		return 0;
	if (task->pid != task->tgid) {
		struct thread thread = {};
		fill(&thread, (void *)task);
		bpf_seq_write(seq, &thread, sizeof(thread));
		return 0;
	}
	struct leader leader = { .resident = 0, .swapped = 0 };
	struct signal_struct *signal = task->signal;
	struct mm_struct *mm = task->mm;

	fill(&leader.thread, (void *)task);
	leader.thread.uid = task->real_cred->uid.val;
	leader.thread.euid = task->real_cred->euid.val;
	leader.ppid = task->real_parent->tgid;
	leader.threads = signal->nr_threads;
	leader.utime = signal->utime;
	leader.stime = signal->stime;
	leader.runtime = signal->sum_sched_runtime;
	leader.voluntary = signal->nvcsw;
	leader.involuntary = signal->nivcsw;
	leader.minor_faults = signal->min_flt;
	leader.major_faults = signal->maj_flt;
	if (bpf_core_field_exists(signal->ioac.read_bytes)) {
		leader.read_bytes = signal->ioac.read_bytes;
		leader.write_bytes = signal->ioac.write_bytes;
	}
	if (mm) {
		s64 file = PAGES(mm, FILE_PAGES), anonymous = PAGES(mm, ANONYMOUS_PAGES);
		s64 shared = PAGES(mm, SHARED_PAGES);
		leader.virtual = ((struct mm_struct___size *)mm)->total_vm;
		leader.swapped = PAGES(mm, SWAPPED_PAGES);
		leader.resident = file < 0 && anonymous < 0 ? -1 : 0;
		leader.resident += file > 0 ? file : 0;
		leader.resident += anonymous > 0 ? anonymous : 0;
		leader.resident += shared > 0 ? shared : 0;
	}
	bpf_probe_read_kernel(leader.comm, sizeof(leader.comm), &task->comm);
	bpf_seq_write(seq, &leader, sizeof(leader));
	return 0;
}
