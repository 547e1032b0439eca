//! What is recorded of TCP, UDP and IP.

use rdiag_model::RawUnit;
use rdiag_model::metric::{SeriesDef, Term, term};

const fn count(name: &'static str, source: &'static str) -> SeriesDef {
    SeriesDef::counter(name, RawUnit::Count, source)
}

/// The source ends in group and column; the collector finds the value by them.
pub(super) const SERIES: &[SeriesDef] = &[
    count("tcp_udp.active_opens", "/proc/net/snmp, Tcp ActiveOpens"),
    count("tcp_udp.passive_opens", "/proc/net/snmp, Tcp PassiveOpens"),
    count("tcp_udp.attempt_fails", "/proc/net/snmp, Tcp AttemptFails"),
    count("tcp_udp.established_resets", "/proc/net/snmp, Tcp EstabResets"),
    count("tcp_udp.resets_sent", "/proc/net/snmp, Tcp OutRsts"),
    SeriesDef::gauge("tcp_udp.established", RawUnit::Count, "/proc/net/snmp, Tcp CurrEstab"),
    count("tcp_udp.segments_received", "/proc/net/snmp, Tcp InSegs"),
    count("tcp_udp.segments_sent", "/proc/net/snmp, Tcp OutSegs"),
    count("tcp_udp.retransmits", "/proc/net/snmp, Tcp RetransSegs"),
    count("tcp_udp.checksum_errors", "/proc/net/snmp, Tcp InCsumErrors"),
    count("tcp_udp.datagrams_received", "/proc/net/snmp, Udp InDatagrams"),
    count("tcp_udp.datagrams_sent", "/proc/net/snmp, Udp OutDatagrams"),
    count("tcp_udp.datagrams_without_port", "/proc/net/snmp, Udp NoPorts"),
    count("tcp_udp.udp_receive_buffer", "/proc/net/snmp, Udp RcvbufErrors"),
    count("tcp_udp.udp_send_buffer", "/proc/net/snmp, Udp SndbufErrors"),
    count("tcp_udp.udp_memory", "/proc/net/snmp, Udp MemErrors"),
    count("tcp_udp.datagrams_broken", "/proc/net/snmp, Udp InCsumErrors"),
    count("tcp_udp.ip_receive_discards", "/proc/net/snmp, Ip InDiscards"),
    count("tcp_udp.ip_transmit_discards", "/proc/net/snmp, Ip OutDiscards"),
    count("tcp_udp.ip_header_errors", "/proc/net/snmp, Ip InHdrErrors"),
    count("tcp_udp.ip_reassembly_fails", "/proc/net/snmp, Ip ReasmFails"),
    count("tcp_udp.ip_fragmentation_fails", "/proc/net/snmp, Ip FragFails"),
    count("tcp_udp.datagrams6_received", "/proc/net/snmp6, Udp6 InDatagrams"),
    count("tcp_udp.datagrams6_sent", "/proc/net/snmp6, Udp6 OutDatagrams"),
    count("tcp_udp.udp6_receive_buffer", "/proc/net/snmp6, Udp6 RcvbufErrors"),
    count("tcp_udp.udp6_send_buffer", "/proc/net/snmp6, Udp6 SndbufErrors"),
    count("tcp_udp.udp6_memory", "/proc/net/snmp6, Udp6 MemErrors"),
    count("tcp_udp.datagrams6_broken", "/proc/net/snmp6, Udp6 InCsumErrors"),
    count("tcp_udp.ip6_receive_discards", "/proc/net/snmp6, Ip6 InDiscards"),
    count("tcp_udp.ip6_transmit_discards", "/proc/net/snmp6, Ip6 OutDiscards"),
    count("tcp_udp.ip6_header_errors", "/proc/net/snmp6, Ip6 InHdrErrors"),
    count("tcp_udp.ip6_reassembly_fails", "/proc/net/snmp6, Ip6 ReasmFails"),
    count("tcp_udp.ip6_fragmentation_fails", "/proc/net/snmp6, Ip6 FragFails"),
    count("tcp_udp.cookies_sent", "/proc/net/netstat, TcpExt SyncookiesSent"),
    count("tcp_udp.pruned", "/proc/net/netstat, TcpExt RcvPruned"),
    count("tcp_udp.listen_overflows", "/proc/net/netstat, TcpExt ListenOverflows"),
    count("tcp_udp.listen_drops", "/proc/net/netstat, TcpExt ListenDrops"),
    count("tcp_udp.lost_retransmits", "/proc/net/netstat, TcpExt TCPLostRetransmit"),
    count("tcp_udp.received_twice", "/proc/net/netstat, TcpExt TCPDSACKRecvSegs"),
    count("tcp_udp.timeouts", "/proc/net/netstat, TcpExt TCPTimeouts"),
    count("tcp_udp.loss_probes", "/proc/net/netstat, TcpExt TCPLossProbes"),
    count("tcp_udp.aborted_on_memory", "/proc/net/netstat, TcpExt TCPAbortOnMemory"),
    count("tcp_udp.aborted_on_timeout", "/proc/net/netstat, TcpExt TCPAbortOnTimeout"),
    count("tcp_udp.memory_pressures", "/proc/net/netstat, TcpExt TCPMemoryPressures"),
    count("tcp_udp.backlog_drops", "/proc/net/netstat, TcpExt TCPBacklogDrop"),
    count("tcp_udp.receive_queue_drops", "/proc/net/netstat, TcpExt TCPRcvQDrop"),
    count("tcp_udp.out_of_order_drops", "/proc/net/netstat, TcpExt TCPOFODrop"),
    count("tcp_udp.request_drops", "/proc/net/netstat, TcpExt TCPReqQFullDrop"),
    count("tcp_udp.time_wait_overflows", "/proc/net/netstat, TcpExt TCPTimeWaitOverflow"),
    count("tcp_udp.zero_windows", "/proc/net/netstat, TcpExt TCPToZeroWindowAdv"),
    count("tcp_udp.windows_reopened", "/proc/net/netstat, TcpExt TCPFromZeroWindowAdv"),
    count("tcp_udp.window_probes", "/proc/net/netstat, TcpExt TCPWinProbe"),
    count("tcp_udp.syn_retransmits", "/proc/net/netstat, TcpExt TCPSynRetrans"),
];

/// Retransmissions of data: those of connection requests are subtracted, as they mean a peer that does not answer
/// or accept, and not a path that loses packets.
pub(super) const DATA_RETRANSMITS: &[Term] =
    &[term("tcp_udp.retransmits"), Term { series: "tcp_udp.syn_retransmits", weight: -1.0, optional: true }];

/// Those of them for which something was lost. A peer that had the data already says so (DSACK): then the segment had arrived, and was only
/// late, or its acknowledgement was lost, or a tail loss probe asked. Linux counts these segments since 5.9.
pub(super) const NEEDED_RETRANSMITS: &[Term] = &[
    term("tcp_udp.retransmits"),
    Term { series: "tcp_udp.syn_retransmits", weight: -1.0, optional: true },
    Term { series: "tcp_udp.received_twice", weight: -1.0, optional: true },
];
