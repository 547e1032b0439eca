/* SPDX-License-Identifier: MIT OR Apache-2.0
 * What is free at the beginning: a call from user space for each place would take longer than all the rest of a short observation. */
#pragma once
#include "response.h"

const volatile u32 room_threads = 0;
const volatile u32 room_cells = 0;
const volatile u32 room_spreads = 0;

/* A place is free for each of these. Not static, as those below, so that the verifier meets the bodies of loops once. */
__noinline int frees(u32 at)
{
	/* Cell and spread 0 stand for none. */
	if (at < room_threads)
		bpf_map_push_elem(&free_threads, &at, 0);
	if (at && at < room_cells)
		bpf_map_push_elem(&free_cells, &at, 0);
	if (at && at < room_spreads)
		bpf_map_push_elem(&free_spreads, &at, 0);
	return 0;
}

#define FREED_AT_ONCE 64
__noinline int frees_some(u32 from)
{
	for (u32 i = 0; i < FREED_AT_ONCE; i++)
		frees(from + i);
	return 0;
}

__noinline int frees_more(u32 from)
{
	for (u32 i = 0; i < FREED_AT_ONCE; i++)
		frees_some(from + i * FREED_AT_ONCE);
	return 0;
}

struct bpf_iter__bpf_map {
	struct bpf_map *map;
} __attribute__((preserve_access_index));

/* Once, after the last of the maps, of which there are fewer than of other things that can be iterated. */
SEC("iter/bpf_map") int fill_free_lists(struct bpf_iter__bpf_map *ctx)
{
	if (ctx->map)
		return 0;
	for (u32 i = 0; i < PLACES / FREED_AT_ONCE / FREED_AT_ONCE; i++) {
		u32 from = i * FREED_AT_ONCE * FREED_AT_ONCE;
		if (from < room_threads || from < room_cells || from < room_spreads)
			frees_more(from);
	}
	return 0;
}
