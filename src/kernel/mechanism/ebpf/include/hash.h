/* SPDX-License-Identifier: MIT OR Apache-2.0
 * A hash over words, one after the other: names for what is too long to be a key. */
#pragma once
#include "rdiag.h"

#define NO_WORDS 0x9e3779b97f4a7c15ULL

static __always_inline u64 mix(u64 hash, u64 word)
{
	hash = (hash ^ word) * 0xff51afd7ed558ccdULL;
	return hash ^ hash >> 32;
}
