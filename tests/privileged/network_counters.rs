//! What the network stack counts as lost, damaged or refused: all of it at once, in a network namespace of its own, and the same traffic in order.

use std::process::Command;

use serde_json::Value;

use crate::support::{Load, Need, alone, assert_nothing_else_fired, finding, has, rdiag, report_told, wait_until};

const NEEDS: &[Need] = &[
    Need::Root,
    Need::Tool("python3"),
    Need::Tool("ip"),
    Need::Tool("nft"),
    Need::Tool("unshare"),
    Need::Tool("nsenter"),
    Need::Path("/proc/sys/net/netfilter"),
];

/// Four times a second: the first half of a datagram in two fragments, datagrams with a checksum, connections that are closed at once, and a byte on a
/// connection of which a filter drops everything. With `orderly` both halves, right checksums, room for the closed connections, and no filter.
const TRAFFIC: &str = "
import ctypes, socket, struct, subprocess, sys, time
orderly = sys.argv[1] == 'orderly'
put = lambda name, value: open(f'/proc/sys/net/ipv4/{name}', 'w').write(str(value))
subprocess.run(['ip', 'link', 'set', 'lo', 'up'], check=True)
put('ipfrag_time', 1)
put('tcp_max_tw_buckets', 5000 if orderly else 20)
home = socket.inet_aton('127.0.0.1')
raw = socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_RAW)
def ip(number, fragment, body):
    head = struct.pack('>BBHHHBBH4s4s', 0x45, 0, 20 + len(body), number, fragment, 64, socket.IPPROTO_UDP, 0, home, home)
    raw.sendto(head + body, ('127.0.0.1', 0))
def udp(body, right):
    length = 8 + len(body)
    words = home + home + struct.pack('>BBH', 0, socket.IPPROTO_UDP, length) + struct.pack('>HHHH', 9, 5009, length, 0) + body
    total = sum(struct.unpack(f'>{len(words) // 2}H', words))
    while total >> 16: total = (total & 0xffff) + (total >> 16)
    return struct.pack('>HHHH', 9, 5009, length, (~total & 0xffff) ^ (0 if right else 1)) + body
reader = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); reader.bind(('127.0.0.1', 5009)); reader.setblocking(False)
listener = socket.socket(); listener.bind(('127.0.0.1', 7001)); listener.listen(64)
def pair():
    one = socket.create_connection(('127.0.0.1', 7001))
    return one, listener.accept()[0]
dead = [pair() for _ in range(60)]
for one, _ in dead: one.setsockopt(socket.IPPROTO_TCP, 18, 700)
if not orderly:
    ports = ', '.join(str(one.getsockname()[1]) for one, _ in dead)
    subprocess.run(['nft', f'table ip cut {{ chain out {{ type filter hook output priority 0; tcp sport {{ {ports} }} drop; }}; }}'], check=True)
ctypes.CDLL(None).prctl(15, b'traffic')
for number in range(1, 60):
    half = b'x' * 1024
    whole = udp(half + half, True)
    ip(number, 0x2000, whole[:1032])
    if orderly: ip(number, 1032 // 8, whole[1032:])
    for _ in range(5): ip(1000 + number, 0, udp(b'data', orderly))
    for _ in range(8):
        one, other = pair()
        one.close(); other.close()
    dead[number][0].send(b'x')
    try:
        while True: reader.recv(4096)
    except BlockingIOError: pass
    time.sleep(0.25)
time.sleep(60)
";

/// What rdiag says within that namespace.
fn report(kind: &str) -> Value {
    let load = Load::start(1, "unshare", &["--net", "python3", "-c", TRAFFIC, kind]);
    let pid = load.pids().into_iter().next().unwrap();
    let is_ready = || std::fs::read_to_string(format!("/proc/{pid}/comm")).is_ok_and(|name| name == "traffic\n");
    assert!(wait_until(20, is_ready), "the traffic has begun");
    let output = Command::new("nsenter")
        .args(["--net", "--target", &pid.to_string()])
        .arg(rdiag().get_program())
        .args(["run", "use-method", "--format", "json", "--out", "-", "--duration", "5s"])
        .output()
        .unwrap();
    report_told(&output)
}

const RULES: [(&str, &str); 4] = [
    ("network.errors.fragmentation", "info"),
    ("network.errors.checksums", "warning"),
    ("network.utilization.time_wait", "warning"),
    ("network.errors.aborted_on_timeout", "info"),
];

#[test]
#[ignore = "needs: root, a quiet machine, python3, ip, nft, unshare, nsenter"]
fn lost_fragments_wrong_checksums_and_connections_that_are_given_up_are_counted() {
    let _alone = alone();
    if !has(NEEDS) {
        return;
    }
    let report = report("faulty");
    for (rule, status) in RULES {
        let found = finding(&report, rule, None);
        assert_eq!(found["status"], status, "{found:#}");
    }
    // What is retransmitted until it is given up is a finding of its own.
    let also = ["network.errors.retransmits", "network.errors.timeouts", "network.errors.retransmitting_peers"];
    let allowed: Vec<&str> = RULES.iter().map(|(rule, _)| *rule).chain(also).chain(["cpu."]).collect();
    assert_nothing_else_fired(&report, &allowed);
}

#[test]
#[ignore = "needs: root, a quiet machine, python3, ip, nft, unshare, nsenter"]
fn the_same_traffic_in_order_is_no_finding() {
    let _alone = alone();
    if !has(NEEDS) {
        return;
    }
    let report = report("orderly");
    for (rule, _) in RULES {
        let found = finding(&report, rule, None);
        assert_eq!(found["status"], "ok", "{found:#}");
    }
    assert_nothing_else_fired(&report, &["cpu."]);
}
