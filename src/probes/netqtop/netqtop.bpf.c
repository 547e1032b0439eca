// SPDX-License-Identifier: MIT OR Apache-2.0
/* Packets and bytes by network device and queue: as they are handed to a driver, and as they come from one. */
#include "rdiag.h"
#include "lost.h"

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)
struct ns_common {
	unsigned int inum;
};
struct net {
	struct ns_common ns;
};
struct possible_net {
	struct net *net;
};
struct net_device___named {
	char name[16];
	int ifindex;
	struct possible_net nd_net;
};
struct sk_buff {
	unsigned int len;
	u16 queue_mapping;
	struct net_device___named *dev;
};
#pragma clang attribute pop

#define SENT 0
#define RECEIVED 1
/* The driver did not tell which queue a packet came from. */
#define NO_QUEUE 0xffff
#define SIZES 5

struct key {
	u64 device; /* network namespace << 32 | index */
	u64 queue; /* direction << 32 | queue */
	char name[16];
};

struct sum {
	u64 packets;
	u64 bytes;
	u64 sizes[SIZES];
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_HASH);
	__uint(max_entries, 4096);
	__type(key, struct key);
	__type(value, struct sum);
} queues SEC(".maps");

static __always_inline int passes(struct sk_buff *skb, struct net_device___named *dev, u64 direction, u64 queue)
{
	u32 zero = 0, len = BPF_CORE_READ(skb, len);
	struct key key = { .queue = direction << 32 | queue };

	key.device = (u64)BPF_CORE_READ(dev, nd_net.net, ns.inum) << 32 | (u32)BPF_CORE_READ(dev, ifindex);
	bpf_core_read(key.name, sizeof(key.name), &dev->name);
	struct sum *sum = bpf_map_lookup_elem(&queues, &key);
	if (!sum) {
		struct sum none = {};
		bpf_map_update_elem(&queues, &key, &none, BPF_NOEXIST);
		sum = bpf_map_lookup_elem(&queues, &key);
	}
	if (!sum) {
		lose_at(&zero, 1);
		return 0;
	}
	sum->packets++;
	sum->bytes += len;
	if (len < 64)
		sum->sizes[0]++;
	else if (len < 512)
		sum->sizes[1]++;
	else if (len < 2048)
		sum->sizes[2]++;
	else if (len < 16384)
		sum->sizes[3]++;
	else
		sum->sizes[4]++;
	return 0;
}

BOTH_TRACEPOINTS(net_dev_start_xmit)
{
	struct sk_buff *skb = (void *)ctx[0];

	return passes(skb, (void *)ctx[1], SENT, BPF_CORE_READ(skb, queue_mapping));
}

/* Drivers count from 1 here. */
BOTH_TRACEPOINTS(netif_receive_skb)
{
	struct sk_buff *skb = (void *)ctx[0];
	u16 queue = BPF_CORE_READ(skb, queue_mapping);

	return passes(skb, BPF_CORE_READ(skb, dev), RECEIVED, queue ? queue - 1 : NO_QUEUE);
}
