// SPDX-License-Identifier: MIT OR Apache-2.0
/* Signals: who sent which one to whom, and what became of it. */
#include "../../mechanism/ebpf/include/stream.h"

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)
struct kernel_siginfo {
	int si_code;
};
#pragma clang attribute pop

const volatile u32 only_signal = 0;

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
};

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
	struct sent *sent = reserve_event(sizeof(*sent));
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
	bpf_ringbuf_submit(sent, 0);
	return 0;
}
