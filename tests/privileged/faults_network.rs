//! Connections and segments that the kernel drops because there is no room: a full table of tracked connections, a full queue of half-open
//! ones, a full receive buffer; and connection requests that some peer does not answer. Beside each, what looks like it.

use serde_json::Value;

use super::induced::{Setting, Space};
use crate::support::{Need, alone, assert_nothing_else_fired, finding, has};

const NEEDS: &[Need] = &[Need::Root, Need::Tool("ip"), Need::Tool("python3")];

const CONNTRACK_MAX: &str = "/proc/sys/net/netfilter/nf_conntrack_max";

/// A hundred connections that are tracked, and when fewer than a thousand are allowed fifty questions a second, each from a port of its own.
const TRACKED: &str = "
import ctypes, socket, time
server = socket.socket(); server.bind(('127.0.0.1', 7000)); server.listen(128)
kept = []
for _ in range(100):
    client = socket.create_connection(('127.0.0.1', 7000)); kept.append((client, server.accept()))
ctypes.CDLL(None).prctl(15, b'begun')
while int(open('/proc/sys/net/netfilter/nf_conntrack_max').read()) > 1000: time.sleep(0.01)
while True:
    question = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    try: question.sendto(b'question', ('127.0.0.1', 53))
    except OSError: pass
    question.close(); time.sleep(0.02)
";

/// What rdiag says where a hundred connections of so many are tracked, and what the firewall does with questions.
fn tracking(most: &str, questions: &str) -> Value {
    let space = Space::new("tracked");
    let rules = format!(
        "table ip track {{ chain out {{ type filter hook output priority 0; ct state established accept; udp dport 53 {questions}; }}; }}"
    );
    let output = space.within("nft", &[&rules]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let _load = space.load(TRACKED, &[]);
    // It is one number for all namespaces, each of which counts for itself.
    let _limit = Setting::put(CONNTRACK_MAX, most);
    space.report("2s")
}

#[test]
#[ignore = "needs: root, a quiet machine, ip, nft, python3"]
fn packets_of_connections_for_which_the_table_has_no_room_are_counted() {
    let _alone = alone();
    if !has(NEEDS) || !has(&[Need::Tool("nft"), Need::Path(CONNTRACK_MAX)]) {
        return;
    }
    let report = tracking("100", "accept");
    let table = finding(&report, "network.utilization.conntrack", None);
    assert_eq!(table["status"], "critical", "{table:#}");
    assert!((0.99..1.05).contains(&table["value"].as_f64().unwrap()), "100 of 100: {table:#}");
    let dropped = finding(&report, "network.errors.conntrack_drop", None);
    assert_eq!(dropped["status"], "critical", "{dropped:#}");
    assert!((50.0..=150.0).contains(&dropped["value"].as_f64().unwrap()), "50 each second: {dropped:#}");
    assert!(dropped["log"][0].as_str().is_some_and(|line| line.contains("table full")), "{dropped:#}");
    assert_nothing_else_fired(&report, &["network.utilization.conntrack", "network.errors.conntrack_drop", "cpu."]);
}

#[test]
#[ignore = "needs: root, a quiet machine, ip, nft, python3"]
fn packets_that_a_firewall_drops_beside_a_table_with_room_are_none_of_them() {
    let _alone = alone();
    if !has(NEEDS) || !has(&[Need::Tool("nft"), Need::Path(CONNTRACK_MAX)]) {
        return;
    }
    let report = tracking("200", "drop");
    let table = finding(&report, "network.utilization.conntrack", None);
    assert_eq!((table["status"].as_str(), table["value"].as_f64()), (Some("ok"), Some(0.5)), "{table:#}");
    assert_eq!(finding(&report, "network.errors.conntrack_drop", None)["status"], "ok");
    assert_nothing_else_fired(&report, &["cpu."]);
}

/// From a second and a half on, a hundred SYNs a second of a peer that never finishes a handshake, for a listener with so large a queue.
/// Beside it another listener, which lets a connection wait.
const HALF_OPEN: &str = "
import ctypes, socket, struct, sys, time
open('/proc/sys/net/ipv4/tcp_syncookies', 'w').write(sys.argv[1])
here, there = socket.inet_aton('10.9.8.1'), socket.inet_aton('10.9.8.2')
flooded = socket.socket(); flooded.bind(('10.9.8.1', 7000)); flooded.listen(int(sys.argv[2]))
slow = socket.socket(); slow.bind(('127.0.0.1', 7001)); slow.listen(8)
waiting = socket.create_connection(('127.0.0.1', 7001))
raw = socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_RAW)
def checksum(words):
    total = sum(struct.unpack(f'>{len(words) // 2}H', words))
    while total >> 16: total = (total & 0xffff) + (total >> 16)
    return ~total & 0xffff
def syn(port):
    head = lambda check: struct.pack('>HHIIHHHH', port, 7000, port, 0, 0x5002, 65535, check, 0)
    check = checksum(there + here + struct.pack('>HH', socket.IPPROTO_TCP, 20) + head(0))
    ip = struct.pack('>BBHHHBBH4s4s', 0x45, 0, 40, 0, 0, 64, socket.IPPROTO_TCP, 0, there, here)
    raw.sendto(ip + head(check), ('10.9.8.1', 0))
ctypes.CDLL(None).prctl(15, b'begun')
time.sleep(1.5)
for port in range(10000, 60000):
    syn(port)
    time.sleep(0.01)
";

/// What rdiag says beside that flood.
fn flooded(cookies: &str, queue: &str) -> Value {
    let space = Space::wired("half-open");
    let _load = space.load(HALF_OPEN, &[cookies, queue]);
    space.report("3s")
}

#[test]
#[ignore = "needs: root, a quiet machine, ip, python3"]
fn a_flood_of_half_open_connections_fills_the_queue_of_its_listener() {
    let _alone = alone();
    if !has(NEEDS) {
        return;
    }
    for (cookies, status) in [("1", "warning"), ("0", "critical")] {
        let report = flooded(cookies, "8");
        let queue = finding(&report, "network.saturation.syn_queue", None);
        assert_eq!(queue["status"], status, "{queue:#}");
        assert!(queue["value"].as_f64().unwrap() > 50.0, "{queue:#}");
        assert_eq!(queue["culprit"]["name"], "10.9.8.1:7000", "not the one whose connection waits: {queue:#}");
        assert_nothing_else_fired(&report, &["network.saturation.syn_queue", "cpu."]);
    }
}

#[test]
#[ignore = "needs: root, a quiet machine, ip, python3"]
fn as_many_half_open_connections_in_a_queue_with_room_are_no_finding() {
    let _alone = alone();
    if !has(NEEDS) {
        return;
    }
    let report = flooded("1", "1024");
    let queue = finding(&report, "network.saturation.syn_queue", None);
    assert_eq!((queue["status"].as_str(), queue["value"].as_f64()), (Some("ok"), Some(0.0)), "{queue:#}");
    assert_nothing_else_fired(&report, &["cpu."]);
}

/// Up to fifty times a second: a connection whose server reads nothing, with a buffer that became small once the client knew of a large
/// one, or not. Of the four segments that the client sends, the second one finds it full.
const UNREAD: &str = "
import ctypes, socket, sys, time
server = socket.socket(); server.bind(('127.0.0.1', 7000)); server.listen(16)
ctypes.CDLL(None).prctl(15, b'begun')
while True:
    client = socket.create_connection(('127.0.0.1', 7000)); served, _ = server.accept()
    client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    if sys.argv[1] == 'small': served.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1)
    for _ in range(4): client.send(bytes(2000))
    time.sleep(0.02)
    served.close(); client.close()
";

#[test]
#[ignore = "needs: root, a quiet machine, ip, python3"]
fn segments_that_find_the_receive_buffer_full_are_counted() {
    let _alone = alone();
    if !has(NEEDS) {
        return;
    }
    let space = Space::new("buffer");
    let _load = space.load(UNREAD, &["small"]);
    let report = space.report("2s");
    let dropped = finding(&report, "network.saturation.receive_buffer", None);
    assert_eq!(dropped["status"], "warning", "{dropped:#}");
    assert!(dropped["value"].as_f64().unwrap() >= 20.0, "one of each connection at least: {dropped:#}");
    assert_nothing_else_fired(&report, &["network.saturation.receive_buffer", "cpu."]);
}

#[test]
#[ignore = "needs: root, a quiet machine, ip, python3"]
fn segments_that_no_process_reads_in_a_buffer_with_room_are_no_finding() {
    let _alone = alone();
    if !has(NEEDS) {
        return;
    }
    let space = Space::new("roomy");
    let _load = space.load(UNREAD, &["large"]);
    let report = space.report("2s");
    let dropped = finding(&report, "network.saturation.receive_buffer", None);
    assert_eq!((dropped["status"].as_str(), dropped["value"].as_f64()), (Some("ok"), Some(0.0)), "{dropped:#}");
    assert_nothing_else_fired(&report, &["cpu."]);
}

/// A hundred connections a second to a server that answers, and forty to this address.
const SOME_UNANSWERED: &str = "
import ctypes, socket, sys, time
server = socket.socket(); server.bind(('127.0.0.1', 7000)); server.listen(64)
kept, due = [], time.monotonic()
for turn in range(300):
    if turn == 25: ctypes.CDLL(None).prctl(15, b'begun')
    for _ in range(10):
        client = socket.create_connection(('127.0.0.1', 7000)); server.accept()[0].close(); client.close()
    for _ in range(4):
        other = socket.socket(); other.setblocking(False); kept.append(other)
        try: other.connect((sys.argv[1], 81))
        except OSError: pass
    due += 0.1
    time.sleep(max(0, due - time.monotonic()))
";

#[test]
#[ignore = "needs: root, a quiet machine, ip, python3"]
fn requests_that_one_of_the_peers_does_not_answer_are_repeated_and_counted() {
    let _alone = alone();
    if !has(NEEDS) {
        return;
    }
    let space = Space::wired("unanswered");
    let load = space.load(SOME_UNANSWERED, &["10.9.8.2"]);
    let report = space.report("2s");
    let repeated = finding(&report, "network.errors.syn_retransmits", None);
    assert_eq!(repeated["status"], "warning", "{repeated:#}");
    // The rule beside it says which process waits.
    let unanswered = finding(&report, "network.errors.unanswered", None);
    assert_eq!(unanswered["culprit"]["pids"][0], load.pids()[0], "{unanswered:#}");
    assert_nothing_else_fired(&report, &["network.errors.syn_retransmits", "network.errors.unanswered", "cpu."]);
}

#[test]
#[ignore = "needs: root, a quiet machine, ip, python3"]
fn as_many_requests_that_are_refused_are_not_repeated() {
    let _alone = alone();
    if !has(NEEDS) {
        return;
    }
    let space = Space::wired("refused");
    let _load = space.load(SOME_UNANSWERED, &["127.0.0.1"]);
    let report = space.report("2s");
    let repeated = finding(&report, "network.errors.syn_retransmits", None);
    assert_eq!((repeated["status"].as_str(), repeated["value"].as_f64()), (Some("ok"), Some(0.0)), "{repeated:#}");
    assert_nothing_else_fired(&report, &["cpu."]);
}
