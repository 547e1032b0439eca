/* SPDX-License-Identifier: MIT OR Apache-2.0
 * What is missing from the results is counted by reason, most often that a table was full. A program with more reasons than one says
 * how many before it includes this: LOSSES. */
#pragma once
#include "rdiag.h"

#ifndef LOSSES
#define LOSSES 1
#endif

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, LOSSES);
	__type(key, u32);
	__type(value, u64);
} lost SEC(".maps");

/* By a place on the stack that holds the reason: a program that has one anyway needs no second. */
static __always_inline void lose_at(const u32 *why, u64 many)
{
	count_in(&lost, why, many);
}

static __always_inline void lose_many(u32 why, u64 many)
{
	lose_at(&why, many);
}

static __always_inline void lose(u32 why)
{
	lose_at(&why, 1);
}
