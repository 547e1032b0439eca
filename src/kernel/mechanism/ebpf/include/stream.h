/* SPDX-License-Identifier: MIT OR Apache-2.0
 * Single events for user space. Records are whole words; the first is the event's time, so that they can be put in order. */
#pragma once
#include "rdiag.h"

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 1 << 20); /* bytes; a power of two and whole pages everywhere */
} events SEC(".maps");

/* Events that found the ring full. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, u64);
} dropped SEC(".maps");

static __always_inline void drop_event(void)
{
	u32 zero = 0;

	count_in(&dropped, &zero, 1);
}

/* Room for one record; NULL when the ring is full, which is counted. */
static __always_inline void *reserve_event(u64 size)
{
	void *record = bpf_ringbuf_reserve(&events, size, 0);

	if (!record)
		drop_event();
	return record;
}

/* A record that was put together elsewhere: for those whose length differs. */
static __always_inline void send_event(void *record, u64 size)
{
	if (bpf_ringbuf_output(&events, record, size, 0))
		drop_event();
}

/* A length that is at most this; longer ones and errors, which are huge without a sign, become 0. The barrier keeps the
 * compiler from adding before it has compared: older verifiers would not know the bounds of the sum. */
static __always_inline u64 length_up_to(u64 length, u64 most)
{
	if (length > most)
		length = 0;
	asm volatile("" : "+r"(length));
	return length;
}
