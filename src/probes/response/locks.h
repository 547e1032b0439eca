/* SPDX-License-Identifier: MIT OR Apache-2.0
 * Waits for locks of the kernel, as it tells of them itself. */
#pragma once
#include "sums.h"

/* LCB_F_… of the kernel. What only spins does not sleep, and may be in an interrupt that hit a thread on its way to sleep; a mutex
 * tells that it spins before it sleeps. */
#define SPINS 1
#define MUTEX 32

/* From now on the running thread waits for a lock of the kernel: functions of these are in no stack. Since 5.19. */
SEC("tp_btf/contention_begin") int contention_begin_btf(u64 *ctx)
{
	u32 flags = ctx[1];

	if ((flags & SPINS) && !(flags & MUTEX))
		return 0;
	struct thread *thread = observed(bpf_get_current_pid_tgid());
	if (thread)
		thread->lock = ctx[0];
	return 0;
}

SEC("tp_btf/contention_end") int contention_end_btf(u64 *ctx)
{
	struct thread *thread = observed(bpf_get_current_pid_tgid());

	if (thread && thread->lock == ctx[0])
		thread->lock = 0;
	return 0;
}
