// SPDX-License-Identifier: MIT OR Apache-2.0
/* Each wait for a CPU that was longer than a threshold, and behind whom. */
#include "../runqlat/wait.h"
#include "lost.h"

const volatile u64 threshold = 0; /* ns */

struct slow {
	u64 at;
	u64 wait;
	u64 cpu;
	u32 tid;
	u32 tgid;
	u32 prev_tid;
	u32 prev_tgid;
	char comm[16];
	char prev_comm[16];
};

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 1 << 19);
} events SEC(".maps");

static __always_inline void waited(struct task_struct *prev, struct task_struct *next, u32 tid, u64 born, u64 wait,
				   const bool direct)
{
	u32 tgid, zero = 0;

	if (wait < threshold || !wait || (tgid = READ(next, tgid)) == own_tgid)
		return;
	struct slow *slow = bpf_ringbuf_reserve(&events, sizeof(*slow), 0);
	if (!slow) {
		lose_at(&zero, 1);
		return;
	}
	slow->at = bpf_ktime_get_ns();
	slow->wait = wait;
	slow->cpu = bpf_get_smp_processor_id();
	slow->tid = tid;
	slow->tgid = tgid;
	slow->prev_tid = READ(prev, pid);
	slow->prev_tgid = READ(prev, tgid);
	bpf_probe_read_kernel(slow->comm, sizeof(slow->comm), &next->comm);
	bpf_probe_read_kernel(slow->prev_comm, sizeof(slow->prev_comm), &prev->comm);
	bpf_ringbuf_submit(slow, 0);
}
