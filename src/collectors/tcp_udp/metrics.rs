//! What follows from the counters of TCP, UDP and IP.

use super::series::{DATA_RETRANSMITS, NEEDED_RETRANSMITS};
use rdiag_model::Unit;
use rdiag_model::metric::{Formula, MetricDef, minus, optional, term};

/// A ratio per segment or per connection says nothing of fewer than these.
const LEAST_SEGMENTS: f64 = 1000.0;
const LEAST_OPENS: f64 = 100.0;

const ATTEMPTS: &str = "Counts attempts, retransmitted ones too, and not clients.";
const TCP: &str = "sar -n TCP,ETCP 1 10";
const NSTAT: &str = "nstat -az";

pub(super) const METRICS: &[MetricDef] = &[
    MetricDef {
        id: "network.tcp.sent.per_second",
        unit: Unit::PerSecond,
        help: "TCP segments sent per second, retransmissions excluded.",
        sources: &[Formula::rate(&[term("tcp_udp.segments_sent")])],
        caveat: "What the device splits itself (TSO) counts once; loopback counts too.",
        manual: TCP,
        ..MetricDef::EMPTY
    },
    MetricDef {
        id: "network.tcp.received.per_second",
        unit: Unit::PerSecond,
        help: "TCP segments received per second.",
        sources: &[Formula::rate(&[term("tcp_udp.segments_received")])],
        caveat: "What was merged before TCP saw it (GRO) counts once; loopback counts too.",
        manual: TCP,
        ..MetricDef::EMPTY
    },
    MetricDef {
        id: "network.tcp.active_opens.per_second",
        unit: Unit::PerSecond,
        help: "Connections begun from here per second.",
        sources: &[Formula::rate(&[term("tcp_udp.active_opens")])],
        caveat: "Attempts that fail count too.",
        manual: TCP,
        ..MetricDef::EMPTY
    },
    MetricDef {
        id: "network.tcp.passive_opens.per_second",
        unit: Unit::PerSecond,
        help: "Connections taken from others per second.",
        sources: &[Formula::rate(&[term("tcp_udp.passive_opens")])],
        caveat: "Only those whose handshake was finished.",
        manual: TCP,
        ..MetricDef::EMPTY
    },
    MetricDef {
        id: "network.tcp.established.count",
        unit: Unit::Count,
        help: "Connections that are open now.",
        sources: &[Formula::level(&[term("tcp_udp.established")])],
        caveat: "Those that wait to be closed by the application count too.",
        manual: "ss -s",
        ..MetricDef::EMPTY
    },
    MetricDef {
        id: "network.tcp.failed_attempts.per_second",
        unit: Unit::PerSecond,
        help: "Connection attempts, in either direction, that failed per second.",
        sources: &[Formula::rate(&[term("tcp_udp.attempt_fails")])],
        caveat: "A port scan moves it; a refused connection is often a service that is down.",
        manual: TCP,
        ..MetricDef::EMPTY
    },
    MetricDef {
        id: "network.tcp.resets.per_second",
        unit: Unit::PerSecond,
        help: "Open connections that were reset per second, by either side.",
        sources: &[Formula::rate(&[term("tcp_udp.established_resets")])],
        caveat: "Some applications close this way on purpose.",
        manual: TCP,
        ..MetricDef::EMPTY
    },
    MetricDef {
        id: "network.tcp.resets_sent.per_second",
        unit: Unit::PerSecond,
        help: "Resets sent per second.",
        sources: &[Formula::rate(&[term("tcp_udp.resets_sent")])],
        caveat: "Includes answers to connection attempts on ports without a listener.",
        manual: TCP,
        ..MetricDef::EMPTY
    },
    MetricDef {
        id: "network.tcp.retransmits.per_second",
        unit: Unit::PerSecond,
        help: "TCP data segments retransmitted per second.",
        sources: &[Formula::rate(DATA_RETRANSMITS)],
        caveat: "Some are spurious: the acknowledgement was only late.",
        manual: TCP,
        ..MetricDef::EMPTY
    },
    MetricDef {
        id: "network.tcp.retransmitted.ratio",
        unit: Unit::Ratio,
        help: "TCP retransmit rate: data segments retransmitted, less those that the peer had already, per segment \
               sent.",
        sources: &[Formula::ratio(NEEDED_RETRANSMITS, &[term("tcp_udp.segments_sent")]).floor(LEAST_SEGMENTS)],
        caveat: "No peer is named, and loopback traffic dilutes it. Before Linux 5.9, and of peers without SACK, \
                 needless ones count too.",
        manual: "nstat -az TcpRetransSegs TcpOutSegs TcpExtTCPSynRetrans TcpExtTCPDSACKRecvSegs",
        ..MetricDef::EMPTY
    },
    MetricDef {
        id: "network.tcp.received_twice.per_second",
        unit: Unit::PerSecond,
        help: "Data segments sent from here that peers reported as received twice (DSACK), per second.",
        sources: &[Formula::rate(&[term("tcp_udp.received_twice")])],
        caveat: "Reported a round trip after the retransmission. Peers without SACK report none.",
        manual: "nstat -az TcpExtTCPDSACKRecvSegs",
        ..MetricDef::EMPTY
    },
    MetricDef {
        id: "network.tcp.timeouts.per_second",
        unit: Unit::PerSecond,
        help: "Expired retransmission timers per second: each cost its connection 200 ms or more of silence.",
        sources: &[Formula::rate(&[term("tcp_udp.timeouts")])],
        caveat: "Unanswered connection requests count too.",
        manual: "nstat -az TcpExtTCPTimeouts",
        ..MetricDef::EMPTY
    },
    MetricDef {
        id: "network.tcp.loss_probes.per_second",
        unit: Unit::PerSecond,
        help: "Tail loss probes sent per second.",
        sources: &[Formula::rate(&[term("tcp_udp.loss_probes")])],
        caveat: "A probe is a suspicion and no loss.",
        manual: "nstat -az TcpExtTCPLossProbes",
        ..MetricDef::EMPTY
    },
    MetricDef {
        id: "network.tcp.lost_retransmits.per_second",
        unit: Unit::PerSecond,
        help: "Retransmissions that were lost again, per second.",
        sources: &[Formula::rate(&[term("tcp_udp.lost_retransmits")])],
        caveat: "An estimate of the sender.",
        manual: "nstat -az TcpExtTCPLostRetransmit",
        ..MetricDef::EMPTY
    },
    MetricDef {
        id: "network.tcp.syn_retransmits.count",
        unit: Unit::Count,
        help: "SYN and SYN-ACK segments retransmitted.",
        sources: &[Formula::change(&[term("tcp_udp.syn_retransmits")])],
        caveat: "Both directions in one counter.",
        manual: "nstat -az TcpExtTCPSynRetrans",
        ..MetricDef::EMPTY
    },
    MetricDef {
        id: "network.tcp.syn_retransmitted.ratio",
        unit: Unit::Ratio,
        help: "SYN and SYN-ACK segments retransmitted per connection opened or accepted.",
        sources: &[Formula::ratio(
            &[term("tcp_udp.syn_retransmits")],
            &[term("tcp_udp.active_opens"), term("tcp_udp.passive_opens")],
        )
        .floor(LEAST_OPENS)],
        caveat: "One peer that never answers is sent many.",
        manual: "nstat -az TcpExtTCPSynRetrans TcpActiveOpens TcpPassiveOpens",
        ..MetricDef::EMPTY
    },
    MetricDef {
        id: "network.tcp.listen_overflows.count",
        unit: Unit::Count,
        help: "Finished handshakes that were refused because the listener's accept queue was full.",
        sources: &[Formula::change(&[term("tcp_udp.listen_overflows")])],
        caveat: ATTEMPTS,
        manual: "nstat -az TcpExtListenOverflows; ss -lnt",
        ..MetricDef::EMPTY
    },
    MetricDef {
        id: "network.tcp.listen_drops.count",
        unit: Unit::Count,
        help: "Connection requests dropped at a listener, for any reason, a full accept queue included.",
        sources: &[Formula::change(&[term("tcp_udp.listen_drops")])],
        caveat: ATTEMPTS,
        manual: "nstat -az TcpExtListenDrops",
        ..MetricDef::EMPTY
    },
    MetricDef {
        id: "network.tcp.syn_cookies.count",
        unit: Unit::Count,
        help: "Connection requests answered with a cookie because the queue of half-open connections was full.",
        sources: &[Formula::change(&[term("tcp_udp.cookies_sent")])],
        caveat: "With net.ipv4.tcp_syncookies=2 every request is answered so.",
        manual: "nstat -az TcpExtSyncookiesSent",
        ..MetricDef::EMPTY
    },
    MetricDef {
        id: "network.tcp.syn_drops.count",
        unit: Unit::Count,
        help: "Connection requests dropped because the queue of half-open connections was full.",
        sources: &[Formula::change(&[term("tcp_udp.request_drops")])],
        caveat: ATTEMPTS,
        manual: "nstat -az TcpExtTCPReqQFullDrop",
        ..MetricDef::EMPTY
    },
    MetricDef {
        id: "network.tcp.memory_pressure_entries.count",
        unit: Unit::Count,
        help: "How often TCP as a whole came under memory pressure.",
        sources: &[Formula::change(&[term("tcp_udp.memory_pressures")])],
        caveat: "Staying under pressure does not count again.",
        manual: "nstat -az TcpExtTCPMemoryPressures",
        ..MetricDef::EMPTY
    },
    MetricDef {
        id: "network.tcp.aborted_on_memory.count",
        unit: Unit::Count,
        help: "Connections aborted because socket memory was exhausted.",
        sources: &[Formula::change(&[term("tcp_udp.aborted_on_memory")])],
        caveat: "Too many orphaned connections count too.",
        manual: "nstat -az TcpExtTCPAbortOnMemory",
        ..MetricDef::EMPTY
    },
    MetricDef {
        id: "network.tcp.aborted_on_timeout.count",
        unit: Unit::Count,
        help: "Connections given up because the peer did not answer any more.",
        sources: &[Formula::change(&[term("tcp_udp.aborted_on_timeout")])],
        caveat: "Clients that vanish are an everyday matter for servers on the internet.",
        manual: "nstat -az TcpExtTCPAbortOnTimeout",
        ..MetricDef::EMPTY
    },
    MetricDef {
        id: "network.tcp.time_wait_overflows.count",
        unit: Unit::Count,
        help: "Closed connections that could not be remembered in TIME_WAIT.",
        sources: &[Formula::change(&[term("tcp_udp.time_wait_overflows")])],
        caveat: "Old segments may then meet a new connection.",
        manual: "nstat -az TcpExtTCPTimeWaitOverflow",
        ..MetricDef::EMPTY
    },
    MetricDef {
        id: "network.tcp.receive_queue_drops.count",
        unit: Unit::Count,
        help: "Segments dropped at a socket whose receive buffer or backlog was full.",
        // Each is counted once as TCPRcvQDrop (since 4.19) or TCPOFODrop, where TCP has no memory left too; and where the socket's own room
        // was all used, once more as RcvPruned.
        sources: &[
            Formula::change(&[
                term("tcp_udp.backlog_drops"),
                term("tcp_udp.receive_queue_drops"),
                optional("tcp_udp.out_of_order_drops"),
            ]),
            Formula::change(&[term("tcp_udp.backlog_drops"), optional("tcp_udp.pruned")]),
        ],
        caveat: "They are retransmitted: it costs time and no data.",
        manual: "nstat -az TcpExtTCPBacklogDrop TcpExtTCPRcvQDrop TcpExtTCPOFODrop",
        ..MetricDef::EMPTY
    },
    MetricDef {
        id: "network.tcp.zero_windows.per_second",
        unit: Unit::PerSecond,
        help: "How often a socket here told its peer to stop sending, per second.",
        sources: &[Formula::rate(&[term("tcp_udp.zero_windows")])],
        caveat: "An application here reads slower than its peer sends: the network is not the limit. Bulk downloads do \
                 it too.",
        manual: "nstat -az TcpExtTCPToZeroWindowAdv",
        ..MetricDef::EMPTY
    },
    MetricDef {
        id: "network.tcp.windows_left_closed.count",
        unit: Unit::Count,
        help: "Sockets here that still advertise a zero window to their peer: closed less reopened windows.",
        sources: &[Formula::change(&[term("tcp_udp.zero_windows"), minus("tcp_udp.windows_reopened")])],
        caveat: "Below 0 where windows from before were opened again; one or two are on their way at any time under \
                 load.",
        manual: "nstat -az TcpExtTCPToZeroWindowAdv TcpExtTCPFromZeroWindowAdv",
        ..MetricDef::EMPTY
    },
    MetricDef {
        id: "network.tcp.window_probes.count",
        unit: Unit::Count,
        help: "Probes sent to peers that had told this host to stop sending.",
        sources: &[Formula::change(&[term("tcp_udp.window_probes")])],
        caveat: "Their distance doubles from 0.2 s to 2 min, so few probes can mean a long wait.",
        manual: "nstat -az TcpExtTCPWinProbe",
        ..MetricDef::EMPTY
    },
    MetricDef {
        id: "network.tcp.checksum_errors.count",
        unit: Unit::Count,
        help: "Segments that arrived with a wrong checksum.",
        sources: &[Formula::change(&[term("tcp_udp.checksum_errors")])],
        caveat: "What the device drops itself is not seen. TcpInErrs counts more: a handshake that is answered again \
                 while an accept queue is full, too.",
        manual: "nstat -az TcpInCsumErrors",
        ..MetricDef::EMPTY
    },
    MetricDef {
        id: "network.udp.received.per_second",
        unit: Unit::PerSecond,
        help: "Datagrams that applications received, per second.",
        sources: &[Formula::rate(&[term("tcp_udp.datagrams_received"), optional("tcp_udp.datagrams6_received")])],
        caveat: "Dropped ones are not in it.",
        manual: "sar -n UDP,UDP6 1 10",
        ..MetricDef::EMPTY
    },
    MetricDef {
        id: "network.udp.sent.per_second",
        unit: Unit::PerSecond,
        help: "Datagrams sent per second.",
        sources: &[Formula::rate(&[term("tcp_udp.datagrams_sent"), optional("tcp_udp.datagrams6_sent")])],
        caveat: "Loopback counts too.",
        manual: "sar -n UDP,UDP6 1 10",
        ..MetricDef::EMPTY
    },
    MetricDef {
        id: "network.udp.receive_buffer_errors.count",
        unit: Unit::Count,
        help: "Datagrams dropped because the socket's receive buffer was full, or UDP had no memory left.",
        sources: &[Formula::change(&[
            term("tcp_udp.udp_receive_buffer"),
            optional("tcp_udp.udp_memory"),
            optional("tcp_udp.udp6_receive_buffer"),
            optional("tcp_udp.udp6_memory"),
        ])],
        caveat: "They are lost: UDP sends nothing again.",
        manual: "nstat -az UdpRcvbufErrors Udp6RcvbufErrors UdpMemErrors; ss -ulnm",
        ..MetricDef::EMPTY
    },
    MetricDef {
        id: "network.udp.send_buffer_errors.count",
        unit: Unit::Count,
        help: "Datagrams that could not be sent because the send buffer was full.",
        sources: &[Formula::change(&[term("tcp_udp.udp_send_buffer"), optional("tcp_udp.udp6_send_buffer")])],
        caveat: "The application gets an error and may try again.",
        manual: "nstat -az UdpSndbufErrors Udp6SndbufErrors",
        ..MetricDef::EMPTY
    },
    MetricDef {
        id: "network.udp.checksum_errors.count",
        unit: Unit::Count,
        help: "Datagrams that arrived with a wrong checksum.",
        sources: &[Formula::change(&[term("tcp_udp.datagrams_broken"), optional("tcp_udp.datagrams6_broken")])],
        caveat: "What the device drops itself is not seen.",
        manual: "nstat -az UdpInCsumErrors Udp6InCsumErrors",
        ..MetricDef::EMPTY
    },
    MetricDef {
        id: "network.udp.no_ports.per_second",
        unit: Unit::PerSecond,
        help: "Datagrams per second for a port without a listener.",
        sources: &[Formula::rate(&[term("tcp_udp.datagrams_without_port")])],
        caveat: "Broadcasts and port scans count too.",
        manual: "nstat -az UdpNoPorts",
        ..MetricDef::EMPTY
    },
    MetricDef {
        id: "network.ip.discards.count",
        unit: Unit::Count,
        help: "IP packets dropped although nothing was wrong with them, mostly because memory or a route was missing.",
        sources: &[Formula::change(&[
            term("tcp_udp.ip_receive_discards"),
            term("tcp_udp.ip_transmit_discards"),
            optional("tcp_udp.ip6_receive_discards"),
            optional("tcp_udp.ip6_transmit_discards"),
        ])],
        caveat: "Firewall drops may be in it.",
        manual: "nstat -az IpInDiscards IpOutDiscards Ip6InDiscards Ip6OutDiscards",
        ..MetricDef::EMPTY
    },
    MetricDef {
        id: "network.ip.header_errors.count",
        unit: Unit::Count,
        help: "IP packets with a broken header or an expired hop limit.",
        sources: &[Formula::change(&[term("tcp_udp.ip_header_errors"), optional("tcp_udp.ip6_header_errors")])],
        caveat: "A traceroute through this host moves it.",
        manual: "nstat -az IpInHdrErrors Ip6InHdrErrors",
        ..MetricDef::EMPTY
    },
    MetricDef {
        id: "network.ip.fragment_failures.count",
        unit: Unit::Count,
        help: "Fragments that could not be put together, and packets that could not be split.",
        sources: &[Formula::change(&[
            term("tcp_udp.ip_reassembly_fails"),
            term("tcp_udp.ip_fragmentation_fails"),
            optional("tcp_udp.ip6_reassembly_fails"),
            optional("tcp_udp.ip6_fragmentation_fails"),
        ])],
        caveat: "A lost fragment shows here 30 s later; path MTU discovery counts a packet that was too large.",
        manual: NSTAT,
        ..MetricDef::EMPTY
    },
];
