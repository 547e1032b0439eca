/* SPDX-License-Identifier: MIT OR Apache-2.0
 * When what runs on a CPU began, where nothing of its kind interrupts it: one time stamp for each CPU is enough. */
#pragma once
#include "rdiag.h"

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, u64);
} began SEC(".maps");

static __always_inline int begins(void)
{
	u32 zero = 0;
	u64 *since = bpf_map_lookup_elem(&began, &zero);

	if (since)
		*since = bpf_ktime_get_ns();
	return 0;
}
