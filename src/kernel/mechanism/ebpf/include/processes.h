/* SPDX-License-Identifier: MIT OR Apache-2.0
 * Sums by process. What is added up is the `struct sums` of the program, which defines it before it includes this; its last member is
 * the name of the process, `char comm[16]`. */
#pragma once
#include "lost.h"

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 8192);
	__type(key, u32);
	__type(value, struct sums);
} processes SEC(".maps");

/* Those of a process; a name is noted only if it is the one that runs. Where there is no room for another process, what
 * is lost by that is counted. */
static __always_inline struct sums *sums_of(u32 tgid, const bool is_current, u64 lost)
{
	struct sums *sums = bpf_map_lookup_elem(&processes, &tgid);

	if (sums)
		return sums;
	struct sums fresh = {};
	if (is_current)
		read_process_name(fresh.comm);
	bpf_map_update_elem(&processes, &tgid, &fresh, BPF_NOEXIST);
	sums = bpf_map_lookup_elem(&processes, &tgid);
	if (!sums)
		lose_many(0, lost);
	return sums;
}

static __always_inline struct sums *sums_of_current(u64 lost)
{
	return sums_of(bpf_get_current_pid_tgid() >> 32, true, lost);
}
