// SPDX-License-Identifier: MIT OR Apache-2.0
/* Who uses a cache, and who does not find there what it looks for: samples of two events, by process. */
#include "rdiag.h"

struct sums {
	u64 uses; /* samples */
	u64 misses;
	char comm[16];
};

#include "processes.h"

static __always_inline int count(const bool missed)
{
	struct sums *sums = current_wanted() ? sums_of_current(1) : NULL;

	if (sums)
		__sync_fetch_and_add(missed ? &sums->misses : &sums->uses, 1);
	return 0;
}

SEC("perf_event") int uses(void *ctx) { return count(false); }
SEC("perf_event") int misses(void *ctx) { return count(true); }
