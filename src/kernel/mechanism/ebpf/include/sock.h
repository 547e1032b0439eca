/* SPDX-License-Identifier: MIT OR Apache-2.0
 * Sockets of TCP and UDP: their ends, and the socket behind a descriptor. Types that other headers may describe too are
 * flavours here. */
#pragma once
#include "descriptors.h"

#define TCP_ESTABLISHED 1
#define TCP_SYN_SENT 2
#define TCP_SYN_RECV 3
#define TCP_FIN_WAIT1 4
#define TCP_CLOSE 7
#define TCP_LAST_ACK 9
#define TCP_LISTEN 10
#define IPPROTO_TCP 6
#define AF_INET 2
#define AF_INET6 10

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)
struct in6_addr {
	u64 words[2];
};
struct sock_common {
	u16 skc_family;
	u32 skc_rcv_saddr;
	u32 skc_daddr;
	struct in6_addr skc_v6_rcv_saddr;
	struct in6_addr skc_v6_daddr;
	u16 skc_dport;
	u16 skc_num;
	volatile unsigned char skc_state;
	unsigned long skc_flags;
};
struct socket;
struct sock {
	struct sock_common __sk_common;
	u16 sk_protocol;
	int sk_err;
	struct socket *sk_socket;
};
struct inet_sock {
	u16 inet_sport;
};
struct tcp_sock {
	u64 bytes_sent;
	u64 bytes_retrans;
	u64 bytes_received;
};
struct inode___socket {
	unsigned long i_ino;
};
struct file___socket {
	void *private_data;
	struct inode___socket *f_inode;
};
struct socket {
	struct sock *sk;
	struct file___socket *file;
};
struct request_sock {
	struct sock_common __req_common;
};
#pragma clang attribute pop

enum sock_flags { SOCK_DEAD, SOCK_DONE };

/* Both ends of a socket; see sockets.rs. */
struct ends {
	u64 family_and_ports; /* family << 32 | local port << 16 | remote port */
	u64 local[2]; /* as in the packet; IPv4 in the first four bytes */
	u64 remote[2];
};

static __always_inline u16 swapped(u16 port)
{
	return port << 8 | port >> 8;
}

static __always_inline void read_common(struct sock_common *common, u16 local, struct ends *ends)
{
	u16 family = BPF_CORE_READ(common, skc_family);
	u16 remote = BPF_CORE_READ(common, skc_dport);

	ends->family_and_ports = (u64)family << 32 | (u32)local << 16 | swapped(remote);
	if (family == AF_INET6 && bpf_core_field_exists(common->skc_v6_daddr)) {
		bpf_core_read(ends->local, 16, &common->skc_v6_rcv_saddr);
		bpf_core_read(ends->remote, 16, &common->skc_v6_daddr);
	} else {
		ends->local[0] = BPF_CORE_READ(common, skc_rcv_saddr);
		ends->remote[0] = BPF_CORE_READ(common, skc_daddr);
	}
}

/* The port of inet_sock outlives the binding, so that it is still known when the socket is closed. */
static __always_inline void read_ends(struct sock *sk, struct ends *ends)
{
	read_common(&sk->__sk_common, swapped(BPF_CORE_READ((struct inet_sock *)sk, inet_sport)), ends);
}

/* A request to connect that is no socket yet. */
static __always_inline void read_request_ends(struct request_sock *request, struct ends *ends)
{
	read_common(&request->__req_common, BPF_CORE_READ(request, __req_common.skc_num), ends);
}

/* By what descriptors of processes name the socket; 0: none does, it was not accepted yet, or closed, or is the kernel's. */
static __always_inline u64 inode_of(struct sock *sk)
{
	return BPF_CORE_READ(sk, sk_socket, file, f_inode, i_ino);
}

/* Only this port, on either side; 0: any. */
const volatile u32 filter_port = 0;

static __always_inline bool port_wanted(const struct ends *ends)
{
	return !filter_port || (u16)(ends->family_and_ports >> 16) == filter_port ||
	       (u16)ends->family_and_ports == filter_port;
}

/* The socket behind a descriptor of the task that runs; NULL if it is none. Only a socket's file leads to something that
 * leads back to it. */
static __always_inline struct sock *socket_of(u64 fd)
{
	struct task_struct___files *task = (void *)bpf_get_current_task();
	struct fdtable *table = BPF_CORE_READ(task, files, fdt);
	struct file___socket *file = NULL;

	if (fd >= BPF_CORE_READ(table, max_fds))
		return NULL;
	bpf_probe_read_kernel(&file, sizeof(file), BPF_CORE_READ(table, fd) + fd);
	struct socket *socket = BPF_CORE_READ(file, private_data);
	struct sock *sk = BPF_CORE_READ(socket, sk);
	return BPF_CORE_READ(sk, sk_socket) == socket ? sk : NULL;
}
