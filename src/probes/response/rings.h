/* SPDX-License-Identifier: MIT OR Apache-2.0
 * What rings of io_uring and contexts of libaio have under way at disks. A thread that waits for one is told of nothing but that something
 * is done: whether that was a request to a disk is known by those that ended just before it was woken. What a worker of io_uring sends may
 * be for any ring of its process. */
#pragma once
#include "syscall.h"
#include "tasks.h"

#define RINGS 1024
#define RING_REQUESTS 4096
#define ANY_RING (~0ULL)
#define REGISTERED_RING 16 /* a flag of io_uring_enter: the ring is given by a number of the thread's own */
#define MERGED 256 /* that are looked at of those that one request is for */
#define UNTIL_WOKEN 10000000 /* ns; a worker that hands over what was read must get a CPU for it */
#define UNDER_WAY 60000000000 /* ns; what is not seen to end in so long may have ended unseen */

struct ring {
	u64 tgid;
	u64 argument;
};
struct ring_count {
	u64 sent;
	u64 sent_at;
	u64 ended;
	u64 ended_at;
};
/* The oldest make room. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, RINGS);
	__type(key, struct ring);
	__type(value, struct ring_count);
} rings SEC(".maps");
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, RING_REQUESTS);
	__type(key, u64);
	__type(value, struct ring);
} ring_requests SEC(".maps");
/* Whether any ring has sent a request yet. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, u64);
} rings_used SEC(".maps");

/* Which ring a call is about: a descriptor, a number of the thread's own, or the address of a context. */
static __always_inline u64 ring_of(void *saved, u64 call, u32 tid)
{
	u64 given = call_argument(saved, 0, false);

	/* io_uring_enter does both. */
	if (!(traits(call) & IS_RING) || !(traits(call) & HANDS_OVER))
		return given;
	given = (u32)given;
	return call_argument(saved, 3, false) & REGISTERED_RING ? (u64)tid << 32 | given : given;
}

static __always_inline bool is_ring_used(void)
{
	u32 zero = 0;
	u64 *used = bpf_map_lookup_elem(&rings_used, &zero);

	return used && *used;
}

/* One that a ring has sent, or any other; returns the next one of the same request. */
__noinline u64 ring_request_ended(u64 bio)
{
	struct ring *ring = bpf_map_lookup_elem(&ring_requests, &bio), of;

	if (ring) {
		of = *ring;
		bpf_map_delete_elem(&ring_requests, &bio);
		struct ring_count *count = bpf_map_lookup_elem(&rings, &of);
		if (count) {
			count->ended_at = now_ns();
			__sync_fetch_and_add(&count->ended, 1);
		}
	}
	return (u64)BPF_CORE_READ((struct bio *)bio, bi_next);
}

/* The running thread sends a request to a disk: a page of its program, or a line of a log, is none that a ring waits for. */
static __always_inline void ring_sends(struct thread *thread, u64 bio)
{
	struct ring ring = { .tgid = thread->ids >> 32, .argument = ANY_RING };
	u32 zero = 0;

	if (!(thread->flags & 1)) {
		void *saved = own_registers();
		u64 call = call_number(saved, false);
		if (!(traits(call) & HANDS_OVER))
			return;
		ring.argument = ring_of(saved, call, thread->ids);
	}
	u64 *used = bpf_map_lookup_elem(&rings_used, &zero);
	struct ring_count none = {}, *count;
	/* If it is known, its memory had another request, whose end was not seen. */
	if (is_ring_used() && bpf_map_lookup_elem(&ring_requests, &bio))
		ring_request_ended(bio);
	count = bpf_map_lookup_elem(&rings, &ring);
	if (!count) {
		bpf_map_update_elem(&rings, &ring, &none, BPF_NOEXIST);
		count = bpf_map_lookup_elem(&rings, &ring);
	}
	if (!used || !count || bpf_map_update_elem(&ring_requests, &bio, &ring, BPF_ANY))
		return;
	count->sent_at = now_ns();
	__sync_fetch_and_add(&count->sent, 1);
	*used = 1;
}

/* Of the ring that a thread waits for, and of workers: requests to disks that have ended. */
__noinline u64 ring_ended(u64 tgid, u64 argument)
{
	struct ring ring = { .tgid = tgid, .argument = argument };
	struct ring_count *count = bpf_map_lookup_elem(&rings, &ring);
	u64 ended = count ? count->ended : 0;

	ring.argument = ANY_RING;
	count = bpf_map_lookup_elem(&rings, &ring);
	return count ? ended + count->ended : ended;
}

/* Whether any of them is under way, at an instant (`woken` 0), or has ended so shortly before it that it is what the thread was woken for. */
__noinline u64 ring_has(u64 tgid, u64 argument, u64 at, u64 woken)
{
	struct ring ring = { .tgid = tgid, .argument = argument };
	u64 has = 0;

#pragma unroll
	for (int i = 0; i < 2; i++) {
		struct ring_count *count = bpf_map_lookup_elem(&rings, &ring);
		if (count && woken)
			has |= count->ended_at + UNTIL_WOKEN >= at;
		else if (count)
			has |= count->sent > count->ended && count->sent_at + UNDER_WAY >= at;
		ring.argument = ANY_RING;
	}
	return has;
}

/* A wait for a ring that is over, or lasts still: whether it was one for a disk. */
static __always_inline void tell_disk(struct thread *thread, bool open)
{
	u64 flag = (u64)IO_WAIT << 48, tgid = thread->ids >> 32, has = 0;

	if (!(traits(thread->wait >> 8 & 0xffff) & IS_RING) || thread->wait >> 48 & KERNEL_LOCK)
		return;
	if (ring_ended(tgid, thread->ring) != thread->ring_ended)
		has = !thread->woken || ring_has(tgid, thread->ring, thread->woken, 1);
	else if (open && !thread->woken)
		has = ring_has(tgid, thread->ring, now_ns(), 0);
	if (has) {
		thread->wait |= flag;
		return;
	}
	if (thread->wait & flag)
		thread->object[0] = 0;
	thread->wait &= ~flag;
}
