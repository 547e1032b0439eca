// SPDX-License-Identifier: MIT OR Apache-2.0
/* Packets that the kernel throws away: where in its code, why, and by which UDP socket. */
#include "sock.h"
#define LOSSES 2 /* 0: packets that found a table full, 1: datagrams */
#include "lost.h"

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)
struct sk_buff {
	unsigned int len;
	u16 protocol;
};
/* The reason is told since 5.17. The field is there for the loader only if its type is of the same kind and name. */
enum skb_drop_reason { SKB_DROP_REASON_UNUSED };
struct trace_event_raw_kfree_skb {
	enum skb_drop_reason reason;
};
#pragma clang attribute pop

#define NO_REASON (~0U)
struct drop {
	u64 location; /* the instruction after the call that dropped it */
	u64 reason_and_protocol; /* reason << 32 | protocol of the frame */
};
struct sum {
	u64 packets;
	u64 bytes;
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_HASH);
	__uint(max_entries, 4096);
	__type(key, struct drop);
	__type(value, struct sum);
} drops SEC(".maps");

struct receiver {
	u64 inode;
	struct ends ends;
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_HASH);
	__uint(max_entries, 4096);
	__type(key, struct receiver);
	__type(value, u64);
} receivers SEC(".maps");

BOTH_TRACEPOINTS(kfree_skb)
{
	struct sk_buff *skb = (void *)ctx[0];
	struct drop drop = { .location = ctx[1] };
	u32 reason = NO_REASON;

	if (bpf_core_field_exists(struct trace_event_raw_kfree_skb, reason))
		reason = ctx[2];
	drop.reason_and_protocol = (u64)reason << 32 | swapped(READ(skb, protocol));
	struct sum *sum = bpf_map_lookup_elem(&drops, &drop);
	if (!sum) {
		struct sum none = {};
		bpf_map_update_elem(&drops, &drop, &none, BPF_NOEXIST);
		sum = bpf_map_lookup_elem(&drops, &drop);
	}
	if (!sum) {
		lose(0);
		return 0;
	}
	sum->packets++;
	sum->bytes += READ(skb, len);
	return 0;
}

BOTH_TRACEPOINTS(udp_fail_queue_rcv_skb)
{
	struct sock *sk = (void *)ctx[1];
	struct receiver receiver = { .inode = inode_of(sk) };

	read_ends(sk, &receiver.ends);
	u64 *count = bpf_map_lookup_elem(&receivers, &receiver);
	if (!count) {
		u64 none = 0;
		bpf_map_update_elem(&receivers, &receiver, &none, BPF_NOEXIST);
		count = bpf_map_lookup_elem(&receivers, &receiver);
	}
	if (count)
		(*count)++;
	else
		lose(1);
	return 0;
}
