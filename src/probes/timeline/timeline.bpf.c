// SPDX-License-Identifier: MIT OR Apache-2.0
/* Who ran when, on which CPU: each stay of a task on a CPU, in a fixed number of places for each CPU. */
#include "rdiag.h"

/* A stay that is over; see slices.rs. */
struct slice {
	u64 from; /* 0 and 1: since before the beginning */
	u64 until;
	u64 ids; /* process << 32 | thread */
	u64 left; /* why it gave up the CPU: LEFT_…; and UNSEEN */
	u64 before; /* the kernel's account of its waiting for CPUs (run_delay) when it was chosen, ns; see UNSEEN */
	u64 after; /* the same when it left; what it grew by is the wait before this stay */
	char comm[16];
};

enum { LEFT_SLEPT, LEFT_STUCK, LEFT_PREEMPTED, LEFT_ENDED };
/* Somebody else was there last: some kernels leave switches out of the event. Then `before` is since when it is not known who ran,
 * and nobody is named where not even the end of it is known. */
#define UNSEEN 0x100
#define NO_ACCOUNT (~0ULL)

/* What a CPU does at this moment, and how many stays it has put down. */
struct running {
	u64 since; /* 0: nothing is known yet, 1: since before the beginning */
	u64 ids; /* 0: idle, or nobody who is wanted */
	u64 before;
	char comm[16];
	u64 written; /* only grows; the place of a stay is its number modulo the places */
	u64 lost; /* found no place */
	u64 tid; /* whoever it is, wanted or not */
};

/* On some kernels the run queue's clock is not to be reached from a task. */
struct sched_info___arrival {
	unsigned long long last_arrival;
} __attribute__((preserve_access_index));

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1); /* as many as `places`, set when loading */
	__type(key, u32);
	__type(value, struct slice);
} slices SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct running);
} running SEC(".maps");

/* How many of them have been read, so that their places are free. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, u64);
} taken SEC(".maps");

const volatile u32 places = 1;

/* Of include/linux/sched.h, the same from 5.10 on. */
#define TASK_UNINTERRUPTIBLE 0x2
#define ENDED (0x10 | 0x20 | 0x80) /* EXIT_DEAD, EXIT_ZOMBIE, TASK_DEAD */
#define TASK_NOLOAD 0x400 /* idle threads of the kernel that count as asleep */

static __always_inline u64 waited(struct task_struct *task, const bool direct)
{
	if (!bpf_core_field_exists(task->sched_info.run_delay))
		return NO_ACCOUNT;
	return READ(task, sched_info.run_delay);
}

static __always_inline u64 left(struct task_struct *prev, bool preempted, const bool direct)
{
	u32 state = task_state(prev, direct);

	if (preempted || !state)
		return LEFT_PREEMPTED;
	if (state & ENDED)
		return LEFT_ENDED;
	return state & TASK_UNINTERRUPTIBLE && !(state & TASK_NOLOAD) ? LEFT_STUCK : LEFT_SLEPT;
}

static __always_inline void begin(struct running *cpu, struct task_struct *task, u64 since, const bool direct)
{
	u32 tid = READ(task, pid);

	cpu->since = since;
	cpu->ids = 0;
	cpu->tid = tid;
	if (!tid || !task_wanted(task, direct))
		return;
	cpu->ids = (u64)READ(task, tgid) << 32 | tid;
	cpu->before = waited(task, direct);
	bpf_probe_read_kernel(cpu->comm, sizeof(cpu->comm), &task->comm);
}

/* When a task got the CPU that it is leaving now, by the kernel's own account; 0 if there is none. */
static __always_inline u64 arrived(struct task_struct *task, u64 now, const bool direct)
{
	struct sched_info___arrival *info = (void *)&task->sched_info;
	u64 at = 0, clock;

	if (!bpf_core_field_exists(info->last_arrival) || !bpf_core_field_exists(task->se.cfs_rq) ||
	    !bpf_core_field_exists(((struct cfs_rq *)0)->rq))
		return 0;
	bpf_core_read(&at, sizeof(at), &info->last_arrival);
	struct cfs_rq *cfs_rq = READ(task, se.cfs_rq);
	struct rq *rq = READ(cfs_rq, rq);
	clock = READ(rq, clock);
	/* The two clocks run alike, from other beginnings. */
	return at && clock >= at && clock - at < now ? now - (clock - at) : 0;
}

BOTH_TRACEPOINTS(sched_switch)
{
	struct task_struct *prev = (void *)ctx[1], *next = (void *)ctx[2];
	u64 now = bpf_ktime_get_ns(), ids = 0;
	u32 zero = 0, tid = READ(prev, pid);
	struct running *cpu = bpf_map_lookup_elem(&running, &zero);
	u64 *read = bpf_map_lookup_elem(&taken, &zero);

	if (!cpu || !read)
		return 0;
	if (tid && task_wanted(prev, direct))
		ids = (u64)READ(prev, tgid) << 32 | tid;
	bool unseen = cpu->since && cpu->tid != tid;
	if (ids || (unseen && cpu->ids)) {
		u32 place = cpu->written % places;
		struct slice *slice = bpf_map_lookup_elem(&slices, &place);
		if (!slice || cpu->written - *read >= places) {
			cpu->lost++;
		} else {
			slice->from = cpu->since;
			slice->until = now;
			slice->ids = ids;
			slice->left = left(prev, ctx[0], direct);
			slice->before = cpu->since > 1 ? cpu->before : NO_ACCOUNT;
			if (unseen) {
				u64 from = ids ? arrived(prev, now, direct) : now;
				slice->left |= UNSEEN;
				slice->before = cpu->since;
				if (from > cpu->since)
					slice->from = from;
			}
			slice->after = waited(prev, direct);
			/* As it is called now: it may have become another program meanwhile. */
			bpf_probe_read_kernel(slice->comm, sizeof(slice->comm), &prev->comm);
			cpu->written++;
		}
	}
	begin(cpu, next, now, direct);
	return 0;
}

/* A task that has its CPU for itself is never switched away from, so a clock looks who it is, until there is a first switch.
 * It cannot come in between: switches keep interrupts out. */
SEC("perf_event") int look(void *ctx)
{
	u32 zero = 0;
	struct running *cpu = bpf_map_lookup_elem(&running, &zero);

	if (cpu && !cpu->since)
		begin(cpu, (void *)bpf_get_current_task(), 1, false);
	return 0;
}
