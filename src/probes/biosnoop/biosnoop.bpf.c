// SPDX-License-Identifier: MIT OR Apache-2.0
/* Each block I/O when it ends: who wanted it, where, how much, how long it was queued and in the device. */
#include "owner.h"
#include "lost.h"

#define NO_WAKEUP 1 /* BPF_RB_NO_WAKEUP: the reader looks several times a second, and needs no call */

const volatile u64 threshold = 0; /* shortest latency that is shown, ns */

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 1 << 21);
} events SEC(".maps");

NOTE_REQUESTS(false)

BOTH_TRACEPOINTS(block_rq_complete)
{
	struct ended io = {};
	u32 zero = 0;

	if (!has_ended((void *)ctx[0], ctx[2], &io, direct))
		return 0;
	if (threshold && (io.latency == UNKNOWN || io.latency < threshold))
		return 0;
	if (bpf_ringbuf_output(&events, &io, sizeof(io), NO_WAKEUP))
		lose_at(&zero, 1);
	return 0;
}
