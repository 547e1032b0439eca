/* SPDX-License-Identifier: MIT OR Apache-2.0
 * What found no room in a table is counted, in whatever the program that includes this counts. */
#pragma once
#include "rdiag.h"

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, u64);
} no_room SEC(".maps");

static __always_inline void count_no_room(u64 lost)
{
	u32 zero = 0;
	u64 *count = bpf_map_lookup_elem(&no_room, &zero);

	if (count)
		*count += lost;
}
