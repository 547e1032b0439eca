// SPDX-License-Identifier: MIT OR Apache-2.0
/* How long tasks were blocked, and on which stacks.
 *
 * A stack is expensive, a time is not. When a task goes to sleep, its time is stamped, and its user stack is kept, which only
 * its own context can walk. Whether the sleep was long is known when it comes back, and a sleeping task's kernel stack can be
 * walked from outside: so only those that slept at least `threshold_ns` pay for a kernel stack and for an entry of the
 * tables. The waker's stack is taken while it wakes, under the same condition. Sums of time are those of all sleeps. */
#include "stacks.h"

#define NOLOAD 0x400
#define UNINTERRUPTIBLE 2
#define DEAD 0x80

const volatile u64 threshold_ns = 0;
const volatile u32 only_uninterruptible = 0;
const volatile u32 want_user = 1;
const volatile u32 want_kernel = 1;
const volatile u32 want_waker = 0;
const volatile u32 want_blocked = 1;

struct waker {
	u64 tgid;
	u64 kernel;
	u64 user;
	u64 born;
	char comm[16];
};

/* A task that is asleep, or was. */
struct sleeper {
	u64 since; /* 0: awake */
	s64 user_bytes;
	u64 woken;
	struct waker waker;
	struct stack user;
};

struct key {
	u64 tgid;
	u64 kernel; /* names of stacks */
	u64 user;
	char comm[16];
	u64 waker_tgid;
	u64 waker_kernel;
	u64 waker_user;
	char waker_comm[16];
};

struct sum {
	u64 ns;
	u64 count;
	u64 born; /* start of the processes: an id may be used again */
	u64 waker_born;
};

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 8192);
	__type(key, u32);
	__type(value, struct sleeper);
} offcpu_sleepers SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 8192);
	__type(key, struct key);
	__type(value, struct sum);
} offcpu_sums SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 8192);
	__type(key, u64);
	__type(value, struct stack);
} offcpu_stacks SEC(".maps");

/* What a sleeper begins as; nobody writes here. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct sleeper);
} fresh SEC(".maps");

enum { LONG_NS, LONG, SHORT_NS, SHORT, UNSUMMED_NS, UNSUMMED, UNKEPT, TOTALS };
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, TOTALS);
	__type(key, u32);
	__type(value, u64);
} totals SEC(".maps");

static __always_inline void add(u32 which, u64 value)
{
	count_in(&totals, &which, value);
}

/* Puts a stack into the table, unless it is there, and returns its name. */
static __always_inline u64 keep(struct stack *stack)
{
	u64 hash = stack_name(stack);

	if (!bpf_map_lookup_elem(&offcpu_stacks, &hash) && bpf_map_update_elem(&offcpu_stacks, &hash, stack, BPF_ANY)) {
		add(UNKEPT, 1);
		return MISSING;
	}
	return hash;
}

static __always_inline void sleeps(u64 *ctx, struct task_struct *prev, bool preempted, u64 now)
{
	const bool direct = true;
	u32 pid = prev->pid, state = task_state(prev, direct), zero = 0;

	/* Who still wants to run was preempted, and waits for a CPU, not for an event. */
	if (!pid || preempted || !state)
		return;
	bool uninterruptible = (state & UNINTERRUPTIBLE) && !(state & NOLOAD);
	if (only_uninterruptible && !uninterruptible)
		return;
	/* A thread of the kernel that has nothing to do is not held up. */
	if (!prev->mm && !uninterruptible && !(state & DEAD))
		return;
	if (prev->tgid == own_tgid || !task_wanted(prev, direct))
		return;
	struct sleeper *sleeper = bpf_map_lookup_elem(&offcpu_sleepers, &pid);
	if (state & DEAD) {
		if (sleeper)
			sleeper->since = 0;
		return;
	}
	if (!sleeper) {
		struct sleeper *empty = bpf_map_lookup_elem(&fresh, &zero);
		if (!empty)
			return;
		bpf_map_update_elem(&offcpu_sleepers, &pid, empty, BPF_ANY);
		sleeper = bpf_map_lookup_elem(&offcpu_sleepers, &pid);
		if (!sleeper)
			return;
	}
	sleeper->woken = 0;
	sleeper->user_bytes = 0;
	if (want_blocked && want_user && prev->mm)
		sleeper->user_bytes = bpf_get_stack(ctx, &sleeper->user, sizeof(sleeper->user), BPF_F_USER_STACK);
	sleeper->since = now;
}

static __always_inline void comes_back(struct task_struct *next, u64 now)
{
	u32 pid = next->pid, zero = 0;

	if (!pid)
		return;
	struct sleeper *sleeper = bpf_map_lookup_elem(&offcpu_sleepers, &pid);
	if (!sleeper || !sleeper->since)
		return;
	u64 slept = now > sleeper->since ? now - sleeper->since : 0;
	sleeper->since = 0;
	/* With wakers, the time until the wake-up decides: at that time it was known, and the waker's stack was taken. */
	if (slept < threshold_ns || (want_waker && !sleeper->woken)) {
		add(SHORT_NS, slept);
		add(SHORT, 1);
		return;
	}
	add(LONG_NS, slept);
	add(LONG, 1);

	struct key key = {};
	struct sum sum = { .ns = slept, .count = 1 };
	key.tgid = next->tgid;
	sum.born = born(next);
	bpf_probe_read_kernel(key.comm, sizeof(key.comm), &next->comm);
	if (want_blocked) {
		struct stack *stack = bpf_map_lookup_elem(&scratch, &zero);
		if (want_kernel && stack) {
			long bytes = bpf_get_task_stack(next, stack, sizeof(*stack), 0);
			key.kernel = bytes > 0 ? keep(stack) : MISSING;
		}
		if (sleeper->user_bytes > 0)
			key.user = keep(&sleeper->user);
		else if (sleeper->user_bytes < 0)
			key.user = MISSING;
	}
	if (want_waker) {
		key.waker_tgid = sleeper->waker.tgid;
		key.waker_kernel = sleeper->waker.kernel;
		key.waker_user = sleeper->waker.user;
		__builtin_memcpy(key.waker_comm, sleeper->waker.comm, sizeof(key.waker_comm));
		sum.waker_born = sleeper->waker.born;
	}
	struct sum *known = bpf_map_lookup_elem(&offcpu_sums, &key);
	if (known) {
		__sync_fetch_and_add(&known->ns, slept);
		__sync_fetch_and_add(&known->count, 1);
	} else if (bpf_map_update_elem(&offcpu_sums, &key, &sum, BPF_NOEXIST)) {
		/* Another CPU may have been first. */
		known = bpf_map_lookup_elem(&offcpu_sums, &key);
		if (known) {
			__sync_fetch_and_add(&known->ns, slept);
			__sync_fetch_and_add(&known->count, 1);
		} else {
			add(UNSUMMED_NS, slept);
			add(UNSUMMED, 1);
		}
	}
}

/* Only the BTF tracepoint knows its tasks as such, which walking the stack of another one needs. */
SEC("tp_btf/sched_switch") int sched_switch_btf(u64 *ctx)
{
	bool preempted = ctx[0];
	struct task_struct *prev = (void *)ctx[1], *next = (void *)ctx[2];
	u64 now = bpf_ktime_get_ns();

	sleeps(ctx, prev, preempted, now);
	comes_back(next, now);
	return 0;
}

/* In the context of whoever wakes, or of the interrupt that does. */
SEC("tp_btf/sched_waking") int sched_waking_btf(u64 *ctx)
{
	struct task_struct *task = (void *)ctx[0];
	u32 pid = task->pid, zero = 0;

	struct sleeper *sleeper = bpf_map_lookup_elem(&offcpu_sleepers, &pid);
	if (!sleeper || !sleeper->since || sleeper->woken)
		return 0;
	if (bpf_ktime_get_ns() - sleeper->since < threshold_ns)
		return 0;
	struct stack *stack = bpf_map_lookup_elem(&scratch, &zero);
	if (!stack)
		return 0;
	struct task_struct *current = (void *)bpf_get_current_task();
	u64 ids = bpf_get_current_pid_tgid();
	sleeper->waker.tgid = ids >> 32;
	sleeper->waker.born = born(current);
	bpf_get_current_comm(sleeper->waker.comm, sizeof(sleeper->waker.comm));
	sleeper->waker.kernel = 0;
	sleeper->waker.user = 0;
	/* The kernel stack is taken even when it is not shown: it alone tells an interrupt from the task that it hit. */
	sleeper->waker.kernel = bpf_get_stack(ctx, stack, sizeof(*stack), 0) > 0 ? keep(stack) : MISSING;
	if (want_user && BPF_CORE_READ(current, mm)) {
		long bytes = bpf_get_stack(ctx, stack, sizeof(*stack), BPF_F_USER_STACK);
		sleeper->waker.user = bytes > 0 ? keep(stack) : MISSING;
	}
	sleeper->woken = 1;
	return 0;
}
