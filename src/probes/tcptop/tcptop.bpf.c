// SPDX-License-Identifier: MIT OR Apache-2.0
/* What tasks send and receive through sockets of TCP, in bytes, by process and connection: when a call on the socket returns. */
#include "sock.h"
#include "lost.h"

/* A look at what has come takes nothing. */
#define MSG_PEEK 2

struct key {
	u64 tgid;
	char comm[16];
	struct ends ends;
};

struct sum {
	u64 sent;
	u64 received;
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_HASH);
	__uint(max_entries, 16384);
	__type(key, struct key);
	__type(value, struct sum);
} bytes SEC(".maps");

static __always_inline int passes(struct sock *sk, s64 sent, s64 received)
{
	struct key key = { .tgid = bpf_get_current_pid_tgid() >> 32 };
	u32 zero = 0;

	/* Errors, and calls with which nothing came or went. */
	if (sent <= 0 && received <= 0)
		return 0;
	if (BPF_CORE_READ(sk, sk_protocol) != IPPROTO_TCP || !current_wanted())
		return 0;
	read_ends(sk, &key.ends);
	u32 family = key.ends.family_and_ports >> 32;
	if ((family != AF_INET && family != AF_INET6) || !port_wanted(&key.ends))
		return 0;
	bpf_get_current_comm(key.comm, sizeof(key.comm));
	struct sum *sum = bpf_map_lookup_elem(&bytes, &key);
	if (!sum) {
		struct sum none = {};
		bpf_map_update_elem(&bytes, &key, &none, BPF_NOEXIST);
		sum = bpf_map_lookup_elem(&bytes, &key);
	}
	if (sum) {
		sum->sent += sent > 0 ? sent : 0;
		sum->received += received > 0 ? received : 0;
	} else {
		lose_at(&zero, sent > 0 ? sent : received);
	}
	return 0;
}

/* Since 6.3. */
BOTH_TRACEPOINTS(sock_send_length)
{
	return passes((void *)ctx[0], (int)ctx[1], 0);
}

BOTH_TRACEPOINTS(sock_recv_length)
{
	if (ctx[2] & MSG_PEEK)
		return 0;
	return passes((void *)ctx[0], 0, (int)ctx[1]);
}

/* Before that, the functions of TCP; the result stands behind the arguments. */
SEC("fexit/tcp_sendmsg") int tcp_sendmsg_fexit(u64 *ctx)
{
	return passes((void *)ctx[0], (int)ctx[3], 0);
}

SEC("fexit/tcp_sendpage") int tcp_sendpage_fexit(u64 *ctx)
{
	return passes((void *)ctx[0], (int)ctx[5], 0);
}

/* Before 5.19 not to wait was an argument of its own. */
SEC("fexit/tcp_recvmsg") int tcp_recvmsg_of_six_fexit(u64 *ctx)
{
	if (ctx[4] & MSG_PEEK)
		return 0;
	return passes((void *)ctx[0], 0, (int)ctx[6]);
}

SEC("fexit/tcp_recvmsg") int tcp_recvmsg_of_five_fexit(u64 *ctx)
{
	if (ctx[3] & MSG_PEEK)
		return 0;
	return passes((void *)ctx[0], 0, (int)ctx[5]);
}
