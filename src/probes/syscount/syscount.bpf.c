// SPDX-License-Identifier: MIT OR Apache-2.0
/* How many system calls return, by call and by process, and how many of them with an error; with `latency` also how long
 * they took.
 *
 * Counting needs one hook: when a call returns, its number is still there beside its result. Counters are never set back;
 * whoever reads them takes the difference, so that no call is lost between reading and clearing. Every CPU remembers the
 * process that it saw last and where its counters are, so that a hash is looked up only when another one comes. */
#include "syscall.h"

const volatile u32 latency = 0;
const volatile u32 no_return[2] = { NO_CALL, NO_CALL }; /* exit and exit_group */
const volatile u32 new_program[2] = { NO_CALL, NO_CALL }; /* execve and execveat */
const volatile u32 new_task[4] = { NO_CALL, NO_CALL, NO_CALL, NO_CALL }; /* clone, clone3, fork, vfork */

#define PROCESSES 8192

struct sum {
	u64 count;
	u64 errors;
	u64 ns;
	u64 max;
};

struct cpu {
	u64 tgid;
	u64 slot;
	struct sum calls[CALLS];
};

struct process_key {
	u64 tgid;
	u64 born; /* start time: a pid may be used again */
};

struct process {
	u64 slot;
	char comm[16];
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct cpu);
} cpus SEC(".maps");

/* Slot 0 is for the processes that found no room. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, PROCESSES);
	__type(key, u32);
	__type(value, struct sum);
} sums SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, PROCESSES);
	__type(key, struct process_key);
	__type(value, struct process);
} processes SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, u64);
} used SEC(".maps");

/* Slots that are taken. Before 5.12 an atomic addition does not tell what was there, so a slot belongs to whoever enters
 * it here first. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, PROCESSES);
	__type(key, u32);
	__type(value, u32);
} taken SEC(".maps");

/* By call and error: (number << 16 | error). */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_HASH);
	__uint(max_entries, 2048);
	__type(key, u32);
	__type(value, u64);
} errnos SEC(".maps");

struct begin {
	u64 at; /* 0 when no call is under way */
	u64 number;
};

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 1); /* set before loading: with latency only */
	__type(key, u32);
	__type(value, struct begin);
} begins SEC(".maps");

/* 0: calls whose begin is not known; 1: errors that found no room in `errnos`. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 2);
	__type(key, u32);
	__type(value, u64);
} missed SEC(".maps");

static __always_inline void miss(u32 which)
{
	count_in(&missed, &which, 1);
}

/* A slot that nobody else has; 0 when there is none. As many CPUs as it tries may want one at the same moment. */
static __always_inline u64 new_slot(void)
{
	u32 zero = 0, one = 1;
	u64 *count = bpf_map_lookup_elem(&used, &zero);

	for (u32 i = 1; count && i <= 16; i++) {
		u32 slot = *count + i;
		if (slot >= PROCESSES)
			return 0;
		if (!bpf_map_update_elem(&taken, &slot, &one, BPF_NOEXIST)) {
			__sync_fetch_and_add(count, 1);
			return slot;
		}
	}
	return 0;
}

/* Where this process is counted. Out of line: it runs when a CPU comes to another process, or one to another program. */
static __noinline u64 slot_of(u64 tgid)
{
	struct task_struct *task = (struct task_struct *)bpf_get_current_task();
	struct task_struct *leader = BPF_CORE_READ(task, group_leader);
	struct process_key key = { .tgid = tgid, .born = BPF_CORE_READ(leader, start_time) };
	struct process *known = bpf_map_lookup_elem(&processes, &key);

	if (!known) {
		struct process fresh = { .slot = new_slot() };
		if (!fresh.slot)
			return 0;
		/* Another thread may have been quicker; then its slot counts. */
		bpf_map_update_elem(&processes, &key, &fresh, BPF_NOEXIST);
		known = bpf_map_lookup_elem(&processes, &key);
		if (!known)
			return 0;
	}
	bpf_probe_read_kernel(known->comm, sizeof(known->comm), &leader->comm);
	return known->slot;
}

static __always_inline void add(struct sum *sum, bool error, u64 ns)
{
	sum->count++;
	if (error)
		sum->errors++;
	if (latency) {
		sum->ns += ns;
		if (ns > sum->max)
			sum->max = ns;
	}
}

static __always_inline u64 elapsed(u32 number)
{
	u32 tid = bpf_get_current_pid_tgid();
	struct begin *begin = bpf_map_lookup_elem(&begins, &tid);

	if (!begin || !begin->at || begin->number != number) {
		miss(0);
		return 0;
	}
	u64 ns = bpf_ktime_get_ns() - begin->at;
	begin->at = 0;
	return ns;
}

static __always_inline bool makes_task(u32 number)
{
	for (int i = 0; i < 4; i++) {
		if (number == new_task[i])
			return true;
	}
	return false;
}

BOTH_TRACEPOINTS(sys_exit)
{
	s64 result = ctx[1];
	u32 zero = 0;
	u64 tgid = bpf_get_current_pid_tgid() >> 32;

	if (!current_wanted())
		return 0;
	struct cpu *cpu = bpf_map_lookup_elem(&cpus, &zero);
	if (!cpu)
		return 0;
	u32 number = call_number((void *)ctx[0], direct);
	/* A new task begins with the return from the call of the one that made it. */
	if (!result && makes_task(number))
		return 0;
	bool error = is_error(result);
	u64 ns = latency ? elapsed(number) : 0;
	if (cpu->tgid != tgid || number == new_program[0] || number == new_program[1]) {
		cpu->slot = slot_of(tgid);
		cpu->tgid = tgid;
	}
	add(&cpu->calls[number & (CALLS - 1)], error, ns);
	u32 slot = cpu->slot;
	struct sum *sum = bpf_map_lookup_elem(&sums, &slot);
	if (sum)
		add(sum, error, ns);
	if (error) {
		u32 key = number << 16 | (u32)-result;
		u64 one = 1, *count = bpf_map_lookup_elem(&errnos, &key);
		if (count)
			(*count)++;
		else if (bpf_map_update_elem(&errnos, &key, &one, BPF_NOEXIST)) {
			/* No room, or another CPU was quicker. */
			count = bpf_map_lookup_elem(&errnos, &key);
			if (count)
				(*count)++;
			else
				miss(1);
		}
	}
	return 0;
}

/* Attached with `latency` only. */
BOTH_TRACEPOINTS(sys_enter)
{
	u32 tid = bpf_get_current_pid_tgid();

	if (!current_wanted())
		return 0;
	u32 number = call_number((void *)ctx[0], direct);
	if (number == no_return[0] || number == no_return[1])
		return 0;
	struct begin *known = bpf_map_lookup_elem(&begins, &tid);
	if (known) {
		known->number = number;
		known->at = bpf_ktime_get_ns();
	} else {
		struct begin fresh = { .at = bpf_ktime_get_ns(), .number = number };
		bpf_map_update_elem(&begins, &tid, &fresh, BPF_ANY);
	}
	return 0;
}
