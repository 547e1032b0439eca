// SPDX-License-Identifier: MIT OR Apache-2.0
/* Segments of TCP that are sent again. A timer or an acknowledgement is the occasion, so the task that runs is nobody: the
 * number of the socket's file leads to who holds it. */
#include "stream.h"
#include "sock.h"

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)
struct sk_buff {
	unsigned int len;
	char cb[48];
};
struct tcp_skb_cb {
	u16 tcp_gso_segs;
};
struct inet_connection_sock {
	u8 icsk_ca_state : 5;
};
/* The error is handed over since 6.15; before, a segment that could not be sent did not come here. */
struct trace_event_raw_tcp_retransmit_skb {
	int err;
};
#pragma clang attribute pop

#define TCP_NEW_SYN_RECV 12
struct resent {
	u64 at;
	u64 inode; /* 0: no file */
	struct ends ends;
	u64 state;
	u64 congestion;
	u64 segments;
	u64 bytes;
};

BOTH_TRACEPOINTS(tcp_retransmit_skb)
{
	struct sock *sk = (void *)ctx[0];
	struct sk_buff *skb = (void *)ctx[1];
	struct resent resent = { .at = bpf_ktime_get_ns() };

	if (bpf_core_field_exists(struct trace_event_raw_tcp_retransmit_skb, err) && (int)ctx[2])
		return 0;
	read_ends(sk, &resent.ends);
	if (!port_wanted(&resent.ends))
		return 0;
	resent.inode = inode_of(sk);
	resent.state = BPF_CORE_READ(sk, __sk_common.skc_state);
	struct inet_connection_sock *connection = (void *)sk;
	resent.congestion = BPF_CORE_READ_BITFIELD_PROBED(connection, icsk_ca_state);
	struct tcp_skb_cb *control = (void *)&skb->cb;
	resent.segments = BPF_CORE_READ(control, tcp_gso_segs);
	resent.bytes = BPF_CORE_READ(skb, len);
	send_event(&resent, sizeof(resent));
	return 0;
}

BOTH_TRACEPOINTS(tcp_retransmit_synack)
{
	struct sock *listener = (void *)ctx[0];
	struct request_sock *request = (void *)ctx[1];
	struct resent resent = { .at = bpf_ktime_get_ns(), .state = TCP_NEW_SYN_RECV, .segments = 1 };

	read_request_ends(request, &resent.ends);
	if (!port_wanted(&resent.ends))
		return 0;
	resent.inode = inode_of(listener);
	send_event(&resent, sizeof(resent));
	return 0;
}
