use super::*;
use crate::testing::{Story, gap};

const SNMP: &str = "Ip: Forwarding InDiscards OutDiscards\nIp: 2 0 0\n\
    Tcp: RtoAlgorithm MaxConn ActiveOpens PassiveOpens InSegs OutSegs RetransSegs\nTcp: 1 -1 10 20 1000 2000 30\n\
    Udp: InDatagrams RcvbufErrors\nUdp: 100 1\n";

#[test]
fn names_of_ipv6_are_split_after_the_6() {
    let found: Vec<_> = lines("Udp6RcvbufErrors     \t7\nIp6InDiscards\t0\nnothing 3\nIcmp6\n").collect();
    assert_eq!(found, [("Udp6", "RcvbufErrors", 7), ("Ip6", "InDiscards", 0)]);
}

#[test]
fn every_series_can_be_found_by_its_source() {
    assert_eq!(wanted().len(), series::SERIES.len());
}

proptest::proptest! {
    #[test]
    fn no_text_makes_the_parsers_panic(text in "(\\PC|\n|: ){0,200}") {
        let _ = lines(&text).count();
    }
}

fn instant(tree: &Story, sent: u64, retransmits: u64, syn: u64) {
    tree.put(
        "proc/net/snmp",
        format!("Tcp: OutSegs RetransSegs ActiveOpens PassiveOpens\nTcp: {sent} {retransmits} 0 0\n"),
    );
    tree.put("proc/net/netstat", format!("TcpExt: TCPSynRetrans TCPTimeouts\nTcpExt: {syn} {syn}\n"));
}

const RATIO: &str = "network.tcp.retransmitted.ratio";

#[test]
fn retransmitted_requests_are_no_lost_data() {
    let mut tree = Story::of_seconds(1);
    instant(&tree, 0, 0, 0);
    tree.next();
    instant(&tree, 2000, 60, 20);
    let metrics = tree.metrics(&COLLECTOR);
    assert_eq!(metrics.stats(RATIO, "").unwrap().mean, 0.02);
    assert_eq!(metrics.stats("network.tcp.syn_retransmits.count", "").unwrap().total, 20.0);
}

#[test]
fn what_a_peer_had_already_was_not_lost() {
    let mut tree = Story::of_seconds(1);
    instant(&tree, 0, 0, 0);
    tree.put("proc/net/netstat", "TcpExt: TCPSynRetrans TCPDSACKRecvSegs\nTcpExt: 0 7\n");
    tree.next();
    instant(&tree, 2000, 208, 0);
    tree.put("proc/net/netstat", "TcpExt: TCPSynRetrans TCPDSACKRecvSegs\nTcpExt: 0 207\n");
    let metrics = tree.metrics(&COLLECTOR);
    assert_eq!(metrics.stats(RATIO, "").unwrap().mean, 0.004);
    assert_eq!(metrics.stats("network.tcp.retransmits.per_second", "").unwrap().mean, 208.0);
    assert_eq!(metrics.stats("network.tcp.received_twice.per_second", "").unwrap().mean, 200.0);
}

#[test]
fn three_segments_make_no_ratio() {
    let mut tree = Story::of_seconds(1);
    instant(&tree, 0, 0, 0);
    tree.next();
    instant(&tree, 3, 3, 0);
    let gap = gap(&tree.metrics(&COLLECTOR), RATIO, "");
    assert_eq!(gap.reason, Reason::NotApplicable);
    assert!(gap.why.contains("too little"), "{}", gap.why);
}

#[test]
fn a_counter_that_this_kernel_lacks_is_absent_and_not_zero() {
    let mut tree = Story::of_seconds(1);
    instant(&tree, 0, 0, 0);
    tree.next();
    let metrics = tree.metrics(&COLLECTOR);
    assert_eq!(gap(&metrics, "network.tcp.listen_overflows.count", "").reason, Reason::Absent);
    assert_eq!(gap(&metrics, "network.udp.receive_buffer_errors.count", "").reason, Reason::Absent);
}

#[test]
fn without_netstat_the_rest_is_still_read() {
    let mut tree = Story::of_seconds(1);
    tree.put("proc/net/snmp", SNMP);
    tree.fault("proc/net/netstat", Reason::Denied);
    tree.next();
    let metrics = tree.metrics(&COLLECTOR);
    assert!(metrics.stats("network.tcp.sent.per_second", "").is_ok());
    assert_eq!(gap(&metrics, "network.tcp.timeouts.per_second", "").reason, Reason::Denied);
}

#[test]
fn datagrams_of_both_protocols_are_added() {
    let mut tree = Story::of_seconds(1);
    tree.put("proc/net/snmp", "Udp: InDatagrams RcvbufErrors\nUdp: 0 0\n");
    tree.put("proc/net/snmp6", "Udp6RcvbufErrors 0\nUdp6InDatagrams 0\n");
    tree.next();
    tree.put("proc/net/snmp", "Udp: InDatagrams RcvbufErrors\nUdp: 0 3\n");
    tree.put("proc/net/snmp6", "Udp6RcvbufErrors 4\nUdp6InDatagrams 9\n");
    let metrics = tree.metrics(&COLLECTOR);
    assert_eq!(metrics.stats("network.udp.receive_buffer_errors.count", "").unwrap().total, 7.0);
    assert_eq!(metrics.stats("network.udp.received.per_second", "").unwrap().mean, 9.0);
}

#[test]
fn garbage_is_malformed() {
    let tree = Story::of_seconds(1);
    tree.put("proc/net/snmp", [0xff, 0xfe, b'\n', 0, b':']);
    assert_eq!(tree.record(&COLLECTOR).unavailable.unwrap().reason, Reason::Malformed);
}
