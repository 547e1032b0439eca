// SPDX-License-Identifier: MIT OR Apache-2.0
/* Signals: who sent which one to whom, and what became of it. */
#include "stream.h"

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)
struct kernel_siginfo {
	int si_code;
};
#pragma clang attribute pop

const volatile u32 only_signal = 0;
const volatile u32 with_stack = 0;

#define DEPTH 48

/* In the place of a siginfo stand, without one: */
#define FROM_USER 0
#define FROM_KERNEL 1
#define SI_KERNEL 0x80

struct sent {
	u64 at;
	u64 from; /* tgid << 32 | tid of whoever runs on this CPU */
	u64 to;
	u64 signal;
	u64 code; /* positive when the kernel sent it */
	u64 group;
	u64 result;
	char from_comm[16];
	char to_comm[16];
	u64 depth; /* addresses that follow; with_stack only */
	u64 stack[DEPTH]; /* innermost first */
};

/* Without a stack a record ends here. */
#define WITHOUT_STACK __builtin_offsetof(struct sent, stack)

/* Room to put a record together in. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct sent);
} scratch SEC(".maps");

BOTH_TRACEPOINTS(signal_generate)
{
	u32 signal = ctx[0];
	u64 info = ctx[1];
	struct task_struct *to = (void *)ctx[2];
	u64 group = ctx[3], result = ctx[4];

	if (only_signal && signal != only_signal)
		return 0;
	if (bpf_get_current_pid_tgid() >> 32 == own_tgid || (!current_wanted() && !task_wanted(to, direct)))
		return 0;
	u32 zero = 0;
	struct sent *sent = bpf_map_lookup_elem(&scratch, &zero);
	if (!sent)
		return 0;
	sent->at = bpf_ktime_get_ns();
	sent->from = bpf_get_current_pid_tgid();
	sent->to = (u64)READ(to, tgid) << 32 | (u32)READ(to, pid);
	sent->signal = signal;
	if (info == FROM_USER)
		sent->code = 0;
	else if (info == FROM_KERNEL)
		sent->code = SI_KERNEL;
	else {
		int code = 0;
		bpf_core_read(&code, sizeof(code), &((struct kernel_siginfo *)info)->si_code);
		sent->code = (s64)code;
	}
	sent->group = (u32)group;
	sent->result = (u32)result;
	bpf_get_current_comm(sent->from_comm, sizeof(sent->from_comm));
	bpf_probe_read_kernel(sent->to_comm, sizeof(sent->to_comm), &to->comm);
	sent->depth = 0;
	if (!with_stack) {
		send_event(sent, WITHOUT_STACK);
		return 0;
	}
	/* The frames of this program and of the tracepoint come first; the names tell. */
	long bytes = bpf_get_stack(ctx, sent->stack, sizeof(sent->stack), 0);
	if (bytes > 0)
		sent->depth = bytes / sizeof(u64);
	send_event(sent, sizeof(*sent));
	return 0;
}
