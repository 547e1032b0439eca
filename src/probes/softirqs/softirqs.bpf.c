// SPDX-License-Identifier: MIT OR Apache-2.0
/* How long the kernel's deferred interrupt work takes, by vector. On one CPU a vector never interrupts another, so one time
 * stamp for each CPU is enough. */
#include "began.h"

#define VECTORS 16 /* ten are in use */

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, VECTORS);
	__type(key, u32);
	__type(value, struct hist);
} vectors SEC(".maps");

BOTH_TRACEPOINTS(softirq_entry)
{
	return begins();
}

BOTH_TRACEPOINTS(softirq_exit)
{
	u32 vector = ctx[0], zero = 0;
	u64 *since = bpf_map_lookup_elem(&began, &zero);

	/* One that began before the probe is left out. */
	if (!since || !*since)
		return 0;
	u64 took = bpf_ktime_get_ns() - *since;
	*since = 0;
	hist_add_at(&vectors, &vector, took);
	return 0;
}
