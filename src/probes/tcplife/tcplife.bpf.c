// SPDX-License-Identifier: MIT OR Apache-2.0
/* Connections of TCP: when they are opened, accepted and over. The state of a socket changes in whatever context a packet
 * is handled in, so the task that runs is the owner at some changes only: where connect() begins, where a descriptor
 * comes out of accept(), and where a task closes its side. */
#include "stream.h"
#include "syscall.h"
#include "sock.h"

#define LIFE 0
#define CONNECT 1
#define ACCEPT 2
const volatile u32 tells = LIFE; /* of what */
const volatile u32 accept_calls[2] = { NO_CALL, NO_CALL };

#define BY_CONNECT 1
#define BY_ACCEPT 2
#define BY_CLOSE 3
struct connection {
	u64 ids; /* tgid << 32 | tid of the owner */
	u64 begun;
	u64 established; /* 0: not seen */
	u32 by; /* where the owner was seen; 0: nowhere */
	u32 skip; /* a filter says no */
	char comm[16];
};

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 32768);
	__type(key, u64); /* address of the socket */
	__type(value, struct connection);
} connections SEC(".maps");

#define UNKNOWN (~0ULL)
struct told {
	u64 at;
	u64 ids;
	char comm[16];
	struct ends ends;
	u64 how; /* BY_... | last state << 8 | error << 16 */
	u64 time; /* UNKNOWN: the beginning was not seen */
	u64 sent;
	u64 received;
};

/* Out of line, as is tell(): they are the bulk, and called from many places. */
static __noinline void note_owner(struct connection *connection, u32 by)
{
	connection->by = by;
	connection->ids = bpf_get_current_pid_tgid();
	connection->skip = !current_wanted();
	bpf_get_current_comm(connection->comm, sizeof(connection->comm));
}

static __noinline void tell(struct sock *sk, struct connection *connection, u64 how, u64 now, u64 since)
{
	struct told told = { .at = now, .time = since && now >= since ? now - since : UNKNOWN };

	if (connection->by ? connection->skip : filter_tgids || filter_comm_on || filter_cgroup)
		return;
	read_ends(sk, &told.ends);
	if (!port_wanted(&told.ends))
		return;
	told.ids = connection->ids;
	__builtin_memcpy(told.comm, connection->comm, sizeof(told.comm));
	told.how = how | connection->by;
	if (tells == LIFE) {
		struct tcp_sock *tcp = (void *)sk;
		u64 received = BPF_CORE_READ(tcp, bytes_received);
		/* The end of the peer's data is counted as a byte. */
		if (BPF_CORE_READ(sk, __sk_common.skc_flags) >> bpf_core_enum_value(enum sock_flags, SOCK_DONE) & 1 && received)
			received--;
		told.received = received;
		told.sent = BPF_CORE_READ(tcp, bytes_sent) - BPF_CORE_READ(tcp, bytes_retrans);
	}
	send_event(&told, sizeof(told));
}

BOTH_TRACEPOINTS(inet_sock_set_state)
{
	struct sock *sk = (void *)ctx[0];
	u32 from = ctx[1], to = ctx[2];
	u64 id = (u64)sk;

	if (READ(sk, sk_protocol) != IPPROTO_TCP || (from == TCP_LISTEN && to == TCP_CLOSE))
		return 0;
	u64 now = bpf_ktime_get_ns();
	struct connection *known = bpf_map_lookup_elem(&connections, &id);
	/* Begins anew with what is the first change of a connection; a socket of before may have had the same address. */
	bool is_first = to == TCP_SYN_SENT || (to == TCP_SYN_RECV && from == TCP_LISTEN);
	if (is_first || !known) {
		struct connection fresh = {};
		if (is_first)
			fresh.begun = now;
		bpf_map_update_elem(&connections, &id, &fresh, BPF_ANY);
		known = bpf_map_lookup_elem(&connections, &id);
		if (!known)
			return 0;
	}
	if (to == TCP_SYN_SENT) {
		note_owner(known, BY_CONNECT);
	} else if (to == TCP_ESTABLISHED) {
		known->established = now;
		if (tells == CONNECT && known->by == BY_CONNECT)
			tell(sk, known, 0, now, known->begun);
	} else if ((to == TCP_FIN_WAIT1 || to == TCP_LAST_ACK) && !known->by) {
		/* Only close() and shutdown() lead there. */
		note_owner(known, BY_CLOSE);
	} else if (to == TCP_CLOSE) {
		u64 how = from << 8 | (u64)(u32)BPF_CORE_READ(sk, sk_err) << 16;
		bool is_attempt = from == TCP_SYN_SENT || (known->begun && !known->established);
		if (tells == CONNECT && is_attempt && known->by == BY_CONNECT)
			tell(sk, known, how, now, known->begun);
		if (tells == LIFE && !is_attempt && from != TCP_SYN_RECV)
			tell(sk, known, how, now, known->established);
		bpf_map_delete_elem(&connections, &id);
	}
	return 0;
}

BOTH_TRACEPOINTS(sys_exit)
{
	void *regs = (void *)ctx[0];
	s64 fd = ctx[1];

	if (fd < 0)
		return 0;
	u32 number = call_number(regs, direct);
	if (number == NO_CALL || (number != accept_calls[0] && number != accept_calls[1]))
		return 0;
	struct sock *sk = socket_of(fd);
	if (!sk || BPF_CORE_READ(sk, sk_protocol) != IPPROTO_TCP)
		return 0;
	u16 family = BPF_CORE_READ(sk, __sk_common.skc_family);
	if (family != AF_INET && family != AF_INET6)
		return 0;
	u64 id = (u64)sk;
	struct connection *known = bpf_map_lookup_elem(&connections, &id);
	/* Established before the start, or over already. */
	struct connection fresh = {};
	if (tells == ACCEPT) {
		u64 now = bpf_ktime_get_ns();
		if (known)
			fresh.established = known->established;
		note_owner(&fresh, BY_ACCEPT);
		tell(sk, &fresh, 0, now, fresh.established);
		bpf_map_delete_elem(&connections, &id);
	} else if (known) {
		note_owner(known, BY_ACCEPT);
	} else {
		note_owner(&fresh, BY_ACCEPT);
		bpf_map_update_elem(&connections, &id, &fresh, BPF_ANY);
	}
	return 0;
}
