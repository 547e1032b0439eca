/* SPDX-License-Identifier: MIT OR Apache-2.0
 * A path, part by part. */
#pragma once
#include "rdiag.h"

#define PARTS 12
#define PART 64

struct parts {
	u64 is_whole; /* whether the root was reached */
	char names[PARTS][PART]; /* the last part of the path first; empty: a step from a mount to what it is mounted on */
};

/* Nothing is known of the path yet, but for its last parts, up to `from`. */
static __always_inline void clear_parts(struct parts *parts, const u32 from)
{
	u32 at;

	parts->is_whole = 0;
#pragma unroll
	for (at = from; at < PARTS; at++)
		parts->names[at][0] = 0;
}
