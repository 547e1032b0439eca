// SPDX-License-Identifier: MIT OR Apache-2.0
/* Block I/Os by process and device: how many, how much, and how long they took. */
#include "../../mechanism/ebpf/include/owner.h"

struct sums {
	u64 ios;
	u64 bytes;
	u64 written;
	u64 timed; /* I/Os whose latency is known */
	u64 time;
	u64 queued;
	char comm[16];
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_HASH);
	__uint(max_entries, 2048); /* set before loading */
	__type(key, u64); /* process, device */
	__type(value, struct sums);
} processes SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, u64);
} lost SEC(".maps");

NOTE_REQUESTS(true)

BOTH_TRACEPOINTS(block_rq_complete)
{
	struct ended io = {};
	u32 zero = 0;

	if (!has_ended((void *)ctx[0], ctx[2], &io, direct))
		return 0;
	u64 key = io.ids >> 32 << 32 | io.device;
	struct sums *sums = bpf_map_lookup_elem(&processes, &key);
	if (!sums) {
		struct sums fresh = {};
		__builtin_memcpy(fresh.comm, io.comm, sizeof(fresh.comm));
		bpf_map_update_elem(&processes, &key, &fresh, BPF_NOEXIST);
		sums = bpf_map_lookup_elem(&processes, &key);
	}
	if (!sums) {
		u64 *count = bpf_map_lookup_elem(&lost, &zero);
		if (count)
			(*count)++;
		return 0;
	}
	sums->ios++;
	sums->bytes += io.bytes;
	if (request_writes(io.kind))
		sums->written += io.bytes;
	if (io.latency != UNKNOWN) {
		sums->timed++;
		sums->time += io.latency;
	}
	if (io.queued != UNKNOWN)
		sums->queued += io.queued;
	return 0;
}
