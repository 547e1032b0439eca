/* SPDX-License-Identifier: MIT OR Apache-2.0
 * What rings of io_uring and contexts of libaio have under way at disks. A thread that waits for one is told of nothing but that something
 * is done: whether a request to a disk was among that is known by those that end while it waits.
 *
 * A ring goes by what calls are given, a descriptor or the address of a context. What a worker of io_uring sends may be for any ring of
 * its process. */
#pragma once
#include "syscall.h"
#include "tasks.h"

#define RINGS 1024
#define RING_REQUESTS 4096
#define ANY_RING (~0ULL)
#define MERGED 128 /* that are looked at of those that one request is for */

struct ring {
	u64 tgid;
	u64 argument;
};
struct ring_count {
	u64 sent;
	u64 ended;
};
/* The oldest make room: what is lost by it leaves one too many under way, and a ring with so many is waiting for a disk. */
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

/* The running thread sends a request to a disk: a page of its program, or a line of a log, is none that a ring waits for. */
static __always_inline void ring_sends(struct thread *thread, u64 bio)
{
	struct ring ring = { .tgid = thread->ids >> 32, .argument = ANY_RING };
	u32 zero = 0;

	if (!(thread->flags & 1)) {
		void *saved = own_registers();
		if (!(traits(call_number(saved, false)) & HANDS_OVER))
			return;
		ring.argument = call_argument(saved, 0, false);
	}
	u64 *used = bpf_map_lookup_elem(&rings_used, &zero);
	struct ring_count none = {}, *count;
	count = bpf_map_lookup_elem(&rings, &ring);
	if (!count) {
		bpf_map_update_elem(&rings, &ring, &none, BPF_NOEXIST);
		count = bpf_map_lookup_elem(&rings, &ring);
	}
	if (!used || !count || bpf_map_update_elem(&ring_requests, &bio, &ring, BPF_ANY))
		return;
	__sync_fetch_and_add(&count->sent, 1);
	*used = 1;
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
		if (count)
			__sync_fetch_and_add(&count->ended, 1);
	}
	return (u64)BPF_CORE_READ((struct bio *)bio, bi_next);
}

/* Of the ring that a thread waits for: requests to disks that have ended, and in the lowest bit whether any is under way. */
__noinline u64 ring_disks(u64 tgid, u64 argument)
{
	struct ring ring = { .tgid = tgid, .argument = argument };
	u64 sent = 0, ended = 0;
	struct ring_count *count = bpf_map_lookup_elem(&rings, &ring);

	if (count) {
		sent = count->sent;
		ended = count->ended;
	}
	ring.argument = ANY_RING;
	count = bpf_map_lookup_elem(&rings, &ring);
	if (count) {
		sent += count->sent;
		ended += count->ended;
	}
	return ended << 1 | (sent > ended);
}

/* A wait for a ring that is over, or lasts still: whether it was one for a disk. */
static __always_inline void tell_disk(struct thread *thread, bool lasts)
{
	u64 flag = (u64)IO_WAIT << 48, disks;

	if (!(traits(thread->wait >> 8 & 0xffff) & IS_RING) || thread->wait >> 48 & KERNEL_LOCK)
		return;
	disks = ring_disks(thread->ids >> 32, thread->argument);
	if (disks >> 1 != thread->ring_ended || (lasts && disks & 1)) {
		thread->wait |= flag;
		return;
	}
	if (thread->wait & flag)
		thread->object[0] = 0;
	thread->wait &= ~flag;
}
