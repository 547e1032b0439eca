// SPDX-License-Identifier: MIT OR Apache-2.0
/* Where the CPUs are, looked at by a clock or another event: who runs, and on which stacks. Sums are kept here; what user
 * space reads grows with the number of distinct stacks, not with that of samples. */
#include "stacks.h"

const volatile u32 want_user = 1;
const volatile u32 want_kernel = 1;

/* What a program on a perf event is called with. */
struct bpf_perf_event_data {
	u64 sample_period;
} __attribute__((preserve_access_index));

struct key {
	u64 tgid;
	u64 kernel; /* names of stacks */
	u64 user;
	u64 in_kernel;
	char comm[16];
};

struct sum {
	u64 count;
	u64 weight; /* events; nanoseconds for clocks */
	u64 born;   /* start of the process: an id may be used again */
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 8192);
	__type(key, struct key);
	__type(value, struct sum);
} profile_sums SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 8192);
	__type(key, u64);
	__type(value, struct stack);
} profile_stacks SEC(".maps");

#ifdef TABLES
enum { IDLE, OWN, UNSUMMED, UNKEPT, UNDUMPED, TOTALS };
#else
enum { IDLE, OWN, UNSUMMED, UNKEPT, TOTALS };
#endif
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, TOTALS);
	__type(key, u32);
	__type(value, u64);
} profile_totals SEC(".maps");

static __always_inline void count(u32 which)
{
	count_in(&profile_totals, &which, 1);
}

#ifdef TABLES
#include "dumps.h"
#endif

/* Puts the stack at hand into the table, unless it is there, and returns its name. */
static __always_inline u64 keep(struct stack *stack)
{
	u64 name = stack_name(stack);

	if (!bpf_map_lookup_elem(&profile_stacks, &name) && bpf_map_update_elem(&profile_stacks, &name, stack, BPF_ANY)) {
		count(UNKEPT);
		return MISSING;
	}
	return name;
}

SEC("perf_event") int sample(struct bpf_perf_event_data *ctx)
{
	u64 ids = bpf_get_current_pid_tgid(), ip;
	u32 zero = 0;

	if ((u32)ids && ids >> 32 == own_tgid) {
		count(OWN);
		return 0;
	}
	struct task_struct *task = (void *)bpf_get_current_task();
	bool is_wanted = current_wanted();
	/* In the name of the idle task the CPU idles, or an interrupt has work: only the stack tells which. */
	if (!(u32)ids && !(is_wanted && want_kernel)) {
		count(IDLE);
		return 0;
	}
	if (!is_wanted)
		return 0;
	struct stack *stack = bpf_map_lookup_elem(&scratch, &zero);
	if (!stack)
		return 0;
	struct key key = {};
	struct sum sum = {.count = 1, .weight = ctx->sample_period};
	key.tgid = ids >> 32;
	bpf_get_current_comm(key.comm, sizeof(key.comm));
	/* Nothing of the kernel is on the stack of a task that runs its own code. */
	key.in_kernel = bpf_get_stack(ctx, &ip, sizeof(ip), 0) > 0;
	if (want_kernel && key.in_kernel)
		key.kernel = bpf_get_stack(ctx, stack, sizeof(*stack), 0) > 0 ? keep(stack) : MISSING;
	if (want_user && BPF_CORE_READ(task, mm))
		key.user = bpf_get_stack(ctx, stack, sizeof(*stack), BPF_F_USER_STACK) > 0 ? keep(stack) : MISSING;
	sum.born = born(task);
#ifdef TABLES
	/* What is sent whole is counted by user space, once it knows the stack. */
	if (key.user && dump(ctx, task, &key, sum.weight, sum.born))
		return 0;
#endif
	struct sum *known = bpf_map_lookup_elem(&profile_sums, &key);
	if (!known && bpf_map_update_elem(&profile_sums, &key, &sum, BPF_NOEXIST)) {
		/* Another CPU may have been first. */
		known = bpf_map_lookup_elem(&profile_sums, &key);
		if (!known) {
			count(UNSUMMED);
			return 0;
		}
	}
	if (known) {
		__sync_fetch_and_add(&known->count, 1);
		__sync_fetch_and_add(&known->weight, sum.weight);
	}
	return 0;
}
