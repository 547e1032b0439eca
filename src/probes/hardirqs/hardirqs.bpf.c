// SPDX-License-Identifier: MIT OR Apache-2.0
/* How long interrupt handlers take, by handler. They run with interrupts off, so none interrupts another on its CPU and one
 * time stamp for each CPU is enough. */
#define LOSSES 2 /* 0: of handlers that found no place, 1: the same for distributions */
#include "lost.h"
#include "began.h"

struct key {
	u64 action; /* address: several devices may share a line */
	u64 irq;
};

struct handler {
	u64 count;
	u64 sum;
	u64 max;
	char name[32]; /* on the CPU where it was seen first */
};

struct slots {
	u64 count[HIST_SLOTS];
};

const volatile u32 with_hist = 0;

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_HASH);
	__uint(max_entries, 1024);
	__type(key, struct key);
	__type(value, struct handler);
} handlers SEC(".maps");

/* Distributions, when asked for. One for all CPUs: an interrupt seldom goes to several at once. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 256);
	__type(key, struct key);
	__type(value, struct slots);
} dists SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct slots);
} zeros SEC(".maps");

static __always_inline void distribute(struct key *key, u64 took)
{
	struct slots *slots = bpf_map_lookup_elem(&dists, key);
	u32 zero = 0;

	if (!slots) {
		struct slots *empty = bpf_map_lookup_elem(&zeros, &zero);
		if (!empty)
			return;
		bpf_map_update_elem(&dists, key, empty, BPF_NOEXIST);
		slots = bpf_map_lookup_elem(&dists, key);
	}
	u32 slot = hist_slot(took);
	if (!slots)
		lose(1);
	else if (slot < HIST_SLOTS)
		__sync_fetch_and_add(&slots->count[slot], 1);
}

BOTH_TRACEPOINTS(irq_handler_entry)
{
	return begins();
}

BOTH_TRACEPOINTS(irq_handler_exit)
{
	u32 zero = 0;
	u64 *since = bpf_map_lookup_elem(&began, &zero);

	/* One that began before the probe is left out. */
	if (!since || !*since)
		return 0;
	u64 took = bpf_ktime_get_ns() - *since;
	*since = 0;
	struct irqaction *action = (void *)ctx[1];
	struct key key = { .action = (u64)action, .irq = (u32)ctx[0] };
	struct handler *known = bpf_map_lookup_elem(&handlers, &key);
	if (known) {
		known->count++;
		known->sum += took;
		if (took > known->max)
			known->max = took;
	} else {
		struct handler fresh = { .count = 1, .sum = took, .max = took };
		bpf_probe_read_kernel_str(fresh.name, sizeof(fresh.name), READ(action, name));
		if (bpf_map_update_elem(&handlers, &key, &fresh, BPF_NOEXIST))
			lose(0);
	}
	if (with_hist)
		distribute(&key, took);
	return 0;
}
