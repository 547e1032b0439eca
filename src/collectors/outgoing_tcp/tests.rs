use super::*;
use crate::testing::{Story, gap, instances, stats};

const TAKEN: &str = "network.ports.taken.count";
const UNANSWERED: &str = "network.tcp.unanswered.count";

/// A connection from 10.0.0.1 to 10.0.0.2:7000.
fn socket(port: u16, state: &str, retransmits: u32, inode: u64) -> String {
    format!(" 0: 0100000A:{port:04X} 0200000A:1B58 {state} 0:0 0:0 {retransmits:08X} 7 0 {inode} 1 0\n")
}

/// A host of so many sockets and 10 local ports on which SYNs were retransmitted so many times.
fn host(tree: &Story, sockets: usize, repeated: u64, rows: &[String]) {
    tree.put("proc/net/netstat", format!("TcpExt: ListenOverflows TCPSynRetrans\nTcpExt: 5 {repeated}\n"));
    tree.put("proc/net/sockstat", format!("sockets: used 9\nTCP: inuse {sockets} orphan 0 tw 0 alloc 4 mem 3\n"));
    tree.put("proc/net/tcp", format!("  sl  local_address\n{}", rows.concat()));
    tree.put("proc/sys/net/ipv4/ip_local_port_range", "40000\t40009\n");
}

#[test]
fn all_ports_towards_a_destination_are_counted_and_their_holder_is_named() {
    let mut tree = Story::of_seconds(1);
    let rows: Vec<String> = (0..10).map(|n| socket(40_000 + n, "01", 0, 70 + u64::from(n))).collect();
    host(&tree, 12, 3, &rows);
    tree.next();
    for inode in 70..80 {
        let pid = if inode == 70 { 30 } else { 31 };
        tree.link(&format!("proc/{pid}/fd/{inode}"), &format!("socket:[{inode}]"));
    }
    tree.put("proc/30/comm", "curl\n").put("proc/31/comm", "proxy\n");
    let metrics = tree.metrics(&COLLECTOR);
    assert_eq!(stats(&metrics, TAKEN, "").max, 10.0);
    assert_eq!(stats(&metrics, "network.ports.ratio", "").max, 1.0);
    assert_eq!(instances(&metrics, "network.ports.towards.count"), ["10.0.0.1 to 10.0.0.2:7000"]);
    let labels = &metrics.labels["destination"]["10.0.0.1 to 10.0.0.2:7000"];
    assert_eq!((labels["name"].as_str(), labels["pid"].as_str()), ("proxy to 10.0.0.2:7000", "31"));
    assert_eq!(stats(&metrics, UNANSWERED, "").max, 0.0, "every SYN was answered at first");
}

#[test]
fn where_few_sockets_are_the_tables_are_not_read() {
    let mut tree = Story::of_seconds(1);
    host(&tree, 4, 3, &[]);
    tree.fault("proc/net/tcp", Reason::Hung);
    tree.next();
    let metrics = tree.metrics(&COLLECTOR);
    assert_eq!((stats(&metrics, TAKEN, "").max, stats(&metrics, UNANSWERED, "").max), (4.0, 0.0));
    assert_eq!(gap(&metrics, "network.ports.towards.count", "").reason, Reason::NotApplicable);
    assert_eq!(gap(&metrics, "network.tcp.unanswered_by.count", "").reason, Reason::NotApplicable);
}

#[test]
fn requests_without_an_answer_name_who_waits_for_whom() {
    let mut tree = Story::of_seconds(1);
    let rows: Vec<String> = (0..3).map(|n| socket(40_000 + n, "02", 1, 70 + u64::from(n))).collect();
    host(&tree, 3, 100, &rows);
    tree.next();
    host(&tree, 3, 103, &rows);
    tree.link("proc/30/fd/3", "socket:[71]").put("proc/30/comm", "client\n");
    let metrics = tree.metrics(&COLLECTOR);
    assert_eq!(stats(&metrics, UNANSWERED, "").max, 3.0);
    assert_eq!(stats(&metrics, "network.tcp.unanswered_here.count", "").max, 0.0);
    assert_eq!(stats(&metrics, "network.tcp.unanswered_by.count", "10.0.0.2:7000").max, 3.0);
    assert_eq!(metrics.labels["destination"]["10.0.0.2:7000"]["name"], "client to 10.0.0.2:7000");
}

#[test]
fn a_holder_that_cannot_be_seen_is_said_to_be_so() {
    let mut tree = Story::of_seconds(1);
    let rows: Vec<String> = (0..10).map(|n| socket(40_000 + n, "06", 0, 0)).collect();
    host(&tree, 10, 3, &rows);
    tree.put("proc/sys/net/ipv4/tcp_tw_reuse", "0\n");
    tree.next();
    let labels = &tree.metrics(&COLLECTOR).labels["destination"]["10.0.0.1 to 10.0.0.2:7000"];
    assert!(labels["owner"].contains("TIME_WAIT") && !labels.contains_key("pid"));
}

#[test]
fn what_the_kernel_does_not_tell_is_a_gap() {
    let mut tree = Story::of_seconds(1);
    host(&tree, 1, 3, &[]);
    tree.put("proc/net/netstat", "TcpExt: ListenOverflows\nTcpExt: 5\n");
    tree.put("proc/sys/net/ipv4/ip_local_port_range", "40000\n");
    tree.next();
    let metrics = tree.metrics(&COLLECTOR);
    assert_eq!(gap(&metrics, UNANSWERED, "").reason, Reason::Absent);
    assert_eq!(gap(&metrics, "network.ports.ratio", "").reason, Reason::Malformed);
}
