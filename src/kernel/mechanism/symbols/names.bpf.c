// SPDX-License-Identifier: MIT OR Apache-2.0
/* Names for addresses of the kernel, from the kernel: it looks up those that are asked for, which is a hundred times cheaper
 * than having it write out all of its functions (/proc/kallsyms). */
#include "kernel.h"
#include "bpf/bpf_helpers.h"

/* The helper that writes is for GPL-compatible programs alone; the source stays permissive. */
char LICENSE[] SEC("license") = "Dual BSD/GPL";

#define ADDRESSES 128

struct seq_file;
#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)
struct bpf_iter_meta {
	struct seq_file *seq;
	u64 session_id;
	u64 seq_num;
};
struct bpf_map;
struct bpf_iter__bpf_map {
	struct bpf_iter_meta *meta;
	struct bpf_map *map;
};
#pragma clang attribute pop

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, ADDRESSES);
	__type(key, u32);
	__type(value, u64);
} addresses SEC(".maps");

/* Of the iterators this one has the least to go through. The first map that comes, whichever it is, brings all answers. */
SEC("iter/bpf_map") int names(struct bpf_iter__bpf_map *ctx)
{
	char line[] = "%pB\n";

	if (ctx->meta->seq_num)
		return 0;
	struct seq_file *seq = ctx->meta->seq;
	for (u32 at = 0; at < ADDRESSES; at++) {
		u32 key = at;
		u64 *address = bpf_map_lookup_elem(&addresses, &key);
		if (!address || !*address)
			break;
		bpf_seq_printf(seq, line, sizeof(line), address, sizeof(*address));
	}
	return 0;
}
