// SPDX-License-Identifier: MIT OR Apache-2.0
/* Every program that is started and every process that ends, so that those are seen too that live between two looks at
 * /proc. What a process used is final only when it is taken apart, a moment after its parent asked for it. */
#include "stream.h"
#include "syscall.h"

#define ARGS 512
#define ARGS_AT __builtin_offsetof(struct exec, args)

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)
struct signal_struct {
	struct {
		int counter;
	} live;
	int group_exit_code;
	unsigned int flags;
	unsigned long long sum_sched_runtime;
};
struct mm_struct___args {
	unsigned long arg_start;
	unsigned long arg_end;
};
struct task_struct___signal {
	struct signal_struct *signal;
};
#pragma clang attribute pop

#define SIGNAL_GROUP_EXIT 4
#define PF_KTHREAD 0x200000

enum { EXEC = 1, EXIT = 2, USED = 3, FAILED = 4 };

const volatile u32 exec_calls[2] = { NO_CALL, NO_CALL }; /* execve, execveat */

struct exec {
	u64 at;
	u64 kind;
	u64 tgid;
	u64 born;
	u64 ppid;
	u64 uid;
	u64 length; /* bytes of arguments in the new program's memory; with FAILED the error */
	char comm[16];
	char parent[16];
	char args[ARGS]; /* each ends with NUL */
};

struct end {
	u64 at;
	u64 kind;
	u64 tgid;
	u64 born;
	u64 ppid;
	u64 status; /* as wait() gives it */
	u64 cpu; /* ns; with USED only */
	char comm[16];
	char parent[16];
};

/* Processes whose end was told: two threads that end at the same time would both tell it. */
struct process_key {
	u64 tgid;
	u64 born;
};
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 4096);
	__type(key, struct process_key);
	__type(value, u64);
} ended SEC(".maps");

/* Room to put a record together in: most arguments are short, and the ring takes what there is. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct exec);
} scratch SEC(".maps");

static __always_inline struct exec *new_exec(u64 kind)
{
	u32 zero = 0;
	struct exec *exec = bpf_map_lookup_elem(&scratch, &zero);

	if (!exec)
		return NULL;
	exec->at = bpf_ktime_get_ns();
	exec->kind = kind;
	exec->tgid = bpf_get_current_pid_tgid() >> 32;
	exec->uid = (u32)bpf_get_current_uid_gid();
	bpf_get_current_comm(exec->comm, sizeof(exec->comm));
	return exec;
}

static __always_inline struct signal_struct *signal_of(struct task_struct *task, const bool direct)
{
	struct task_struct___signal *with = (void *)task;

	return READ(with, signal);
}

static __always_inline void put_parent(struct task_struct *leader, u64 *ppid, char *comm)
{
	struct task_struct *parent = BPF_CORE_READ(leader, real_parent);

	*ppid = BPF_CORE_READ(parent, tgid);
	bpf_probe_read_kernel(comm, 16, &parent->comm);
}

BOTH_TRACEPOINTS(sched_process_exec)
{
	struct task_struct *task = (void *)ctx[0];
	struct task_struct *leader = READ(task, group_leader);
	struct mm_struct___args *mm = (void *)READ(task, mm);

	if (!current_wanted())
		return 0;
	struct exec *exec = new_exec(EXEC);
	if (!exec)
		return 0;
	exec->born = READ(leader, start_time);
	put_parent(leader, &exec->ppid, exec->parent);
	u64 from = READ(mm, arg_start);
	u64 length = READ(mm, arg_end) - from;
	exec->length = length;
	if (length > ARGS)
		length = ARGS;
	/* What cannot be read is no text, and `length` tells that there was some. */
	if (bpf_probe_read_user(exec->args, length, (void *)from))
		length = 0;
	send_event(exec, ARGS_AT + length);
	return 0;
}

BOTH_TRACEPOINTS(sched_process_exit)
{
	struct task_struct *task = (void *)ctx[0];
	struct task_struct *leader = READ(task, group_leader);
	struct signal_struct *signal = signal_of(task, direct);
	struct process_key key = { .tgid = READ(task, tgid), .born = READ(leader, start_time) };
	u64 one = 1;

	if (READ(signal, live.counter) || READ(task, flags) & PF_KTHREAD || !current_wanted())
		return 0;
	if (bpf_map_update_elem(&ended, &key, &one, BPF_NOEXIST))
		return 0;
	struct end *end = reserve_event(sizeof(*end));
	if (!end)
		return 0;
	end->at = bpf_ktime_get_ns();
	end->kind = EXIT;
	end->tgid = key.tgid;
	end->born = key.born;
	end->cpu = 0;
	put_parent(leader, &end->ppid, end->parent);
	if (READ(signal, flags) & SIGNAL_GROUP_EXIT)
		end->status = (u32)READ(signal, group_exit_code);
	else
		end->status = (u32)READ(leader, exit_code);
	bpf_probe_read_kernel(end->comm, sizeof(end->comm), &leader->comm);
	bpf_ringbuf_submit(end, 0);
	return 0;
}

/* The task is gone for good, and its account is settled. */
BOTH_TRACEPOINTS(sched_process_free)
{
	struct task_struct *task = (void *)ctx[0];
	u32 tgid = READ(task, tgid);

	if (READ(task, pid) != tgid)
		return 0;
	struct process_key key = { .tgid = tgid, .born = READ(task, start_time) };
	if (!bpf_map_lookup_elem(&ended, &key))
		return 0;
	bpf_map_delete_elem(&ended, &key);
	struct signal_struct *signal = signal_of(task, direct);
	struct end *end = reserve_event(sizeof(*end));
	if (!end)
		return 0;
	__builtin_memset(end, 0, sizeof(*end));
	end->at = bpf_ktime_get_ns();
	end->kind = USED;
	end->tgid = tgid;
	end->born = key.born;
	end->cpu = READ(signal, sum_sched_runtime);
	bpf_ringbuf_submit(end, 0);
	return 0;
}

/* Attached with `failed` only: programs that could not be started. */
BOTH_TRACEPOINTS(sys_exit)
{
	s64 result = ctx[1];

	if (!is_error(result))
		return 0;
	void *regs = (void *)ctx[0];
	u32 number = call_number(regs, direct);
	if ((number != exec_calls[0] && number != exec_calls[1]) || !current_wanted())
		return 0;
	struct exec *exec = new_exec(FAILED);
	if (!exec)
		return 0;
	struct task_struct *task = (struct task_struct *)bpf_get_current_task();
	struct task_struct *leader = BPF_CORE_READ(task, group_leader);
	exec->born = BPF_CORE_READ(leader, start_time);
	exec->length = -result;
	put_parent(leader, &exec->ppid, exec->parent);
	u64 path = number == exec_calls[0] ? call_argument(regs, 0, direct) : call_argument(regs, 1, direct);
	u64 length = length_up_to(bpf_probe_read_user_str(exec->args, ARGS, (void *)path), ARGS);
	send_event(exec, ARGS_AT + length);
	return 0;
}
