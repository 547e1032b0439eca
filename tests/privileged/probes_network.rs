//! Probes of connections, in network namespaces of the test's own: as many lines as connections, with the bytes that were
//! sent, the time that a lost packet costs, and the errors that programs were given.

use serde_json::{Map, Value};

use super::probing::{Script, assert_nothing_lost, probed, ready, rows};
use crate::support::{Need, alone, has};

/// A network of its own with nothing but loopback, and what the scripts below share.
const SETUP: &str = "
import ctypes, errno, select, socket, struct, subprocess, threading
assert ctypes.CDLL(None).unshare(0x40000000) == 0
def run(words, text=None): subprocess.run(words.split(), input=text, text=True, check=True)
run('ip link set lo up')
def listener(address, backlog=64):
    s = socket.socket(socket.AF_INET6 if ':' in address else socket.AF_INET)
    s.bind((address, 0)); s.listen(backlog)
    return s
def read(c):
    while c.recv(65536): pass
";

/// Connections to both addresses one after the other; of the n-th, the client sends 1000 n + 1 bytes and gets 70 n + 3.
const TALK: &str = "
def serve(s):
    for n in range(15):
        c, _ = s.accept(); read(c); c.sendall(b'y' * (70 * n + 3)); c.close()
for address in ('127.0.0.1', '::1'):
    s = listener(address); t = threading.Thread(target=serve, args=(s,)); t.start()
    for n in range(15):
        c = socket.create_connection(s.getsockname()[:2]); c.sendall(b'x' * (1000 * n + 1)); c.shutdown(1); read(c); c.close()
    t.join()
";

fn script(work: &str) -> Script {
    Script::start(&format!("{SETUP}{work}"))
}

fn text<'r>(row: &'r Map<String, Value>, column: &str) -> &'r str {
    row[column].as_str().unwrap_or_else(|| panic!("{column} is no text: {row:?}"))
}

fn number(row: &Map<String, Value>, column: &str) -> f64 {
    row[column].as_f64().unwrap_or_else(|| panic!("{column} is no number: {row:?}"))
}

/// The lines of what one script did while another did the same unseen.
fn lines(probe: &str, id: &str, work: &str) -> (Vec<Map<String, Value>>, String) {
    let (mut script, mut other) = (script(work), script(work));
    let (pid, mut says) = (script.pid().to_string(), String::new());
    let readings = probed(&[probe, "--pid", &pid], || {
        says = script.work();
        other.work();
    });
    assert_nothing_lost(&readings);
    let lines = rows(&readings, "events", id);
    assert!(lines.iter().all(|line| line["pid"] == pid.as_str() && line["name"] == "python3"), "{lines:#?}");
    (lines, says)
}

#[test]
#[ignore = "needs: root, eBPF, python3, ip"]
fn vm_each_connection_gives_a_line_for_either_side_with_the_bytes_that_it_carried() {
    let _alone = alone();
    if !ready() || !has(&[Need::Tool("ip")]) {
        return;
    }
    let (lines, _) = lines("tcplife", "connections", TALK);
    for (by, address) in
        [("connect", "127.0.0.1:"), ("connect", "[::1]:"), ("accept", "127.0.0.1:"), ("accept", "[::1]:")]
    {
        let of_side = lines.iter().filter(|line| text(line, "by") == by && text(line, "local").starts_with(address));
        let bytes: Vec<(f64, f64)> = of_side.map(|line| (number(line, "sent"), number(line, "received"))).collect();
        let client = (0..15).map(|n| (f64::from(1000 * n + 1), f64::from(70 * n + 3)));
        let expected: Vec<(f64, f64)> =
            client.map(|(sent, received)| if by == "connect" { (sent, received) } else { (received, sent) }).collect();
        assert_eq!(bytes, expected, "{by} {address}");
    }
    assert_eq!(lines.len(), 60, "{lines:#?}");
    assert!(lines.iter().all(|line| text(line, "result") == "closed" && number(line, "duration") > 0.0), "{lines:#?}");
}

/// A connection that is there before the start, and one that is cut off.
const EARLIER: &str = "
s = listener('127.0.0.1')
early = socket.create_connection(s.getsockname()); server, _ = s.accept()
early.sendall(b'x' * 10); server.recv(10)
";

#[test]
#[ignore = "needs: root, eBPF, python3, ip"]
fn vm_a_connection_from_before_the_start_belongs_to_who_closes_it_and_one_that_is_cut_off_says_so() {
    let _alone = alone();
    if !ready() || !has(&[Need::Tool("ip")]) {
        return;
    }
    let work = "
early.sendall(b'x' * 5); early.close(); read(server); server.close()
c = socket.create_connection(s.getsockname()); d, _ = s.accept()
c.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack('ii', 1, 0)); c.close()
try: d.recv(1)
except ConnectionResetError: pass
";
    // What stands before the first wait of a script is done before the probe starts.
    let mut script = Script::start(&format!("{SETUP}{EARLIER}done(); go(){work}"));
    script.work();
    let pid = script.pid().to_string();
    let readings = probed(&["tcplife", "--pid", &pid], || drop(script.work()));
    assert_nothing_lost(&readings);
    let lines = rows(&readings, "events", "connections");
    let of = |by: &str| lines.iter().filter(|line| text(line, "by") == by).collect::<Vec<_>>();
    let closed = of("close");
    assert_eq!(closed.len(), 2, "{lines:#?}");
    assert!(closed.iter().all(|line| line["duration"].is_null()), "{closed:#?}");
    assert_eq!(closed.iter().map(|line| number(line, "sent")).fold(0.0, f64::max), 15.0, "the whole life: {closed:#?}");
    assert_eq!(
        of("connect").iter().map(|line| text(line, "result")).collect::<Vec<_>>(),
        ["aborted here"],
        "{lines:#?}"
    );
    assert_eq!(of("accept").iter().map(|line| text(line, "result")).collect::<Vec<_>>(), ["ECONNRESET"], "{lines:#?}");
    assert_eq!(lines.len(), 4, "{lines:#?}");
}

/// 7 attempts that succeed, 5 that are refused, one that is given up, one whose request is lost, which the kernel sends again
/// after a second, and one without a port to leave from.
const ATTEMPTS: &str = "
s = listener('127.0.0.1')
for n in range(7): socket.create_connection(s.getsockname()).close()
for n in range(5):
    try: socket.create_connection(('127.0.0.1', 9))
    except ConnectionRefusedError: pass
run('nft -f -', 'table ip t { chain o { type filter hook output priority 0; tcp flags syn / syn,ack drop; }; }')
c = socket.socket(); c.setblocking(False); c.connect_ex(s.getsockname()); c.close()
c = socket.socket(); c.setblocking(False); start = time.monotonic(); c.connect_ex(s.getsockname())
time.sleep(0.2); run('nft delete table ip t')
select.select([], [c], []); took = time.monotonic() - start
open('/proc/sys/net/ipv4/ip_local_port_range', 'w').write('50001 50001')
d = socket.socket(); d.bind(('127.0.0.1', 50001))
says = f'{errno.errorcode[socket.socket().connect_ex(s.getsockname())]} {took}'
";

#[test]
#[ignore = "needs: root, eBPF, python3, ip, nft"]
fn vm_attempts_to_connect_are_told_with_their_result_and_the_time_that_a_lost_packet_cost() {
    let _alone = alone();
    if !ready() || !has(&[Need::Tool("ip"), Need::Tool("nft")]) {
        return;
    }
    let (lines, says) = lines("tcpconnect", "attempts", ATTEMPTS);
    let (error, took) = says.split_once(' ').unwrap();
    assert_eq!(error, "EADDRNOTAVAIL");
    let results: Vec<&str> = lines.iter().map(|line| text(line, "result")).collect();
    let expected =
        [vec!["established"; 7], vec!["ECONNREFUSED"; 5], vec!["given up", "established", "no local port"]].concat();
    assert_eq!(results, expected, "{lines:#?}");
    assert!(
        lines.iter().filter(|line| text(line, "result") == "ECONNREFUSED").all(|line| line["remote"] == "127.0.0.1:9")
    );
    // On a slow machine the request is lost twice, so the program's own clock is the judge.
    let (lost, took) = (number(&lines[13], "latency"), took.parse::<f64>().unwrap());
    assert!(lost > 0.95 && lost > 0.9 * took && lost <= took, "{lost} s, and the program saw {took} s");
    let others = lines.iter().take(12).map(|line| number(line, "latency")).fold(0.0, f64::max);
    assert!(others < 0.5, "{others} s on loopback");
}

/// Three connections that are left in the queue for a known time, as the program's own clock says.
const QUEUED: &str = "
s = listener('127.0.0.1')
clients = [socket.create_connection(s.getsockname()) for n in range(3)]
end = time.monotonic(); time.sleep(0.4); start = time.monotonic()
served = [s.accept()[0] for n in range(3)]
says = start - end
";

#[test]
#[ignore = "needs: root, eBPF, python3, ip"]
fn vm_connections_that_are_accepted_late_are_told_with_their_wait() {
    let _alone = alone();
    if !ready() || !has(&[Need::Tool("ip")]) {
        return;
    }
    let (lines, says) = lines("tcpaccept", "connections", QUEUED);
    assert_eq!(lines.len(), 3, "{lines:#?}");
    let truth: f64 = says.parse().unwrap();
    for line in &lines {
        let wait = number(line, "wait");
        assert!(wait > 0.99 * truth && wait < truth + 0.5, "{wait} s, and the program slept {truth} s");
    }
}

#[test]
#[ignore = "needs: root, eBPF, python3, ip"]
fn vm_a_port_limits_what_is_told_to_connections_that_have_it_on_either_side() {
    let _alone = alone();
    if !ready() || !has(&[Need::Tool("ip")]) {
        return;
    }
    let work = "
one, two = socket.socket(), listener('127.0.0.1')
one.bind(('127.0.0.1', 40123)); one.listen(8)
for s in (one, two, one):
    c = socket.create_connection(s.getsockname()); d, _ = s.accept(); c.close(); read(d); d.close()
";
    let mut script = script(work);
    let readings = probed(&["tcplife", "--param", "port=40123"], || drop(script.work()));
    let lines = rows(&readings, "events", "connections");
    assert_eq!(lines.len(), 4, "{lines:#?}");
    let has_port =
        |line: &Map<String, Value>| ["local", "remote"].iter().any(|end| text(line, end).ends_with(":40123"));
    assert!(lines.iter().all(has_port), "{lines:#?}");
}

/// A byte that is lost until a timer has expired, and a connection request whose answer is lost until both sides have repeated
/// themselves. The kernel counts each segment that it sends again in this namespace.
const RESENT: &str = "
def lose(what): run('nft -f -', 'table ip t { chain i { type filter hook input priority 0; ' + what + ' drop; }; }')
s = listener('127.0.0.1')
port = s.getsockname()[1]
c = socket.create_connection(s.getsockname()); d, _ = s.accept()
lose(f'tcp dport {port}'); c.sendall(b'x'); time.sleep(0.8); run('nft delete table ip t'); d.recv(1)
lose(f'tcp sport {port}')
e = socket.socket(); e.setblocking(False); e.connect_ex(s.getsockname())
time.sleep(1.5); run('nft delete table ip t')
e.setblocking(True); e.sendall(b'x'); s.accept()[0].recv(1)
lines = [line.split() for line in open('/proc/self/net/snmp') if line.startswith('Tcp:')]
says = dict(zip(*lines))['RetransSegs']
";

#[test]
#[ignore = "needs: root, eBPF, python3, ip, nft"]
fn vm_as_many_segments_are_told_of_as_the_kernel_counted_with_their_state_and_process() {
    let _alone = alone();
    if !ready() || !has(&[Need::Tool("ip"), Need::Tool("nft")]) {
        return;
    }
    let (mut script, mut says) = (script(RESENT), String::new());
    let pid = script.pid().to_string();
    let readings = probed(&["tcpretrans"], || says = script.work());
    assert_nothing_lost(&readings);
    let all = rows(&readings, "events", "retransmissions");
    let own: Vec<_> = all.iter().filter(|line| line["pid"] == pid.as_str()).collect();
    let truth: f64 = says.parse().unwrap();
    assert!(truth >= 3.0, "{truth}");
    assert_eq!(own.iter().map(|line| number(line, "segments")).sum::<f64>(), truth, "{all:#?}");
    for state in ["ESTABLISHED", "SYN_SENT", "SYN_RECV"] {
        assert!(own.iter().any(|line| text(line, "state") == state), "{state}: {own:#?}");
    }
    let after_timer = own.iter().filter(|line| text(line, "congestion") == "loss").count();
    assert!(after_timer >= 2, "{own:#?}");
    let peers = rows(&readings, "table", "peers");
    let sums = peers.iter().filter(|row| row["pid"] == pid.as_str());
    let sums: Vec<(&str, f64)> = sums.map(|row| (text(row, "name"), number(row, "segments"))).collect();
    assert!(sums.iter().all(|(name, _)| *name == "python3 to 127.0.0.1"), "{sums:?}");
    assert_eq!(sums.iter().map(|(_, segments)| segments).sum::<f64>(), truth);
}

/// 300 datagrams into a small buffer, 70 to a port that nobody has, and 500 that are read. The kernel counts in this namespace
/// what found no room.
const DATAGRAMS: &str = "
def udp():
    s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.bind(('127.0.0.1', 0)); return s
small, reader, sender = udp(), udp(), udp()
small.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
for n in range(300): sender.sendto(b'x' * 200, small.getsockname())
for n in range(70): sender.sendto(b'x', ('127.0.0.1', 9))
for n in range(500): sender.sendto(b'x', reader.getsockname()); reader.recv(1)
lines = [line.split() for line in open('/proc/self/net/snmp') if line.startswith('Udp:')]
says = dict(zip(*lines))['RcvbufErrors']
";

#[test]
#[ignore = "needs: root, eBPF, python3, ip"]
fn vm_packets_that_the_kernel_throws_away_are_counted_by_place_and_datagrams_by_socket() {
    let _alone = alone();
    if !ready() || !has(&[Need::Tool("ip")]) {
        return;
    }
    let (mut script, mut says) = (script(DATAGRAMS), String::new());
    let pid = script.pid().to_string();
    let readings = probed(&["drops", "--top", "1000"], || says = script.work());
    assert_nothing_lost(&readings);
    let truth: f64 = says.parse().unwrap();
    assert!(truth > 200.0, "{truth}");
    let receivers = rows(&readings, "table", "receivers");
    let own = receivers.iter().filter(|row| row["pid"] == pid.as_str());
    assert_eq!(own.map(|row| number(row, "datagrams")).sum::<f64>(), truth, "{receivers:#?}");
    let drops = rows(&readings, "table", "drops");
    let udp: Vec<_> = drops.iter().filter(|row| text(row, "function").contains("udp")).collect();
    let packets: f64 = udp.iter().map(|row| number(row, "packets")).sum();
    // Others may lose a few meanwhile; what was read is not among them.
    assert!((truth + 70.0..truth + 170.0).contains(&packets), "{packets} and {truth} + 70: {drops:#?}");
    let types = std::fs::read("/sys/kernel/btf/vmlinux").unwrap();
    let name = b"SKB_DROP_REASON_NO_SOCKET";
    let has_reasons = types.windows(name.len()).any(|bytes| bytes == name);
    assert_eq!(udp.iter().all(|row| row["reason"].is_null()), !has_reasons, "{udp:#?}");
    for (reason, least) in [("NO_SOCKET", 70.0), ("SOCKET_RCVBUFF", truth)] {
        let of_reason = udp.iter().filter(|row| row["reason"] == reason);
        let packets: f64 = of_reason.map(|row| number(row, "packets")).sum();
        assert!(!has_reasons || (least..least + 50.0).contains(&packets), "{reason}: {drops:#?}");
    }
}

/// 100 times 10000 bytes in one direction, 7 times 300 in the other, and 50000 by sendfile.
const BYTES: &str = "
s = listener('127.0.0.1')
a = socket.create_connection(s.getsockname()); b, _ = s.accept()
for n in range(100): a.sendall(b'x' * 10000); b.recv(10000, socket.MSG_WAITALL)
for n in range(7): b.sendall(b'y' * 300); a.recv(300, socket.MSG_PEEK); a.recv(300, socket.MSG_WAITALL)
f = os.memfd_create('rdiag'); os.write(f, bytes(50000))
os.sendfile(a.fileno(), f, 0, 50000); b.recv(50000, socket.MSG_WAITALL)
says = f'{a.getsockname()[1]} {b.getsockname()[1]}'
";

fn bytes_are_those_that_were_sent_and_received() {
    let (mut talks, mut other) = (script(BYTES), script(BYTES));
    let (pid, mut says) = (talks.pid().to_string(), String::new());
    let readings = probed(&["tcptop", "--pid", &pid], || {
        says = talks.work();
        other.work();
    });
    assert_nothing_lost(&readings);
    let (from, to) = says.split_once(' ').unwrap();
    let (from, to) = (format!("127.0.0.1:{from}"), format!("127.0.0.1:{to}"));
    let lines = rows(&readings, "table", "connections");
    let sum = |local: &str, column: &str| -> f64 {
        lines.iter().filter(|row| row["local"] == local).map(|row| number(row, column)).sum()
    };
    assert!(lines.iter().all(|row| row["pid"] == pid.as_str() && row["name"] == "python3"), "{lines:#?}");
    assert_eq!((sum(&from, "sent"), sum(&from, "received")), (1_050_000.0, 2100.0), "{lines:#?}");
    assert_eq!((sum(&to, "sent"), sum(&to, "received")), (2100.0, 1_050_000.0), "{lines:#?}");
    let tasks = rows(&readings, "table", "tasks");
    let whole: f64 = tasks.iter().map(|row| number(row, "sent")).sum();
    assert_eq!(whole, 1_052_100.0, "{tasks:#?}");
}

#[test]
#[ignore = "needs: root, eBPF, python3"]
fn bytes_of_a_connection_are_those_that_were_sent_and_received() {
    let _alone = alone();
    if ready() {
        bytes_are_those_that_were_sent_and_received();
    }
}

#[test]
#[ignore = "needs: root, eBPF, python3, a kernel of the matrix"]
fn vm_bytes_of_a_connection_are_those_that_were_sent_and_received() {
    let _alone = alone();
    if ready() {
        bytes_are_those_that_were_sent_and_received();
    }
}

/// 100 datagrams of 1000 bytes and 3 of 10 over loopback, whose driver has one queue.
const OVER_LOOPBACK: &str = "
r = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); r.bind(('127.0.0.1', 0))
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
for n in range(100): s.sendto(b'x' * 1000, r.getsockname())
for n in range(3): s.sendto(b'x' * 10, r.getsockname())
says = os.stat('/proc/self/ns/net').st_ino
";

fn packets_are_counted_by_device_and_queue() {
    let (mut talks, mut namespace) = (script(OVER_LOOPBACK), String::new());
    let readings = probed(&["netqtop", "--param", "top=4096"], || namespace = talks.work());
    assert_nothing_lost(&readings);
    let queues = rows(&readings, "table", "queues");
    let of = |direction: &str| {
        let mut found =
            queues.iter().filter(|row| row["namespace"] == namespace.as_str() && row["direction"] == direction);
        let row = found.next().unwrap_or_else(|| panic!("{direction} in {namespace}: {queues:#?}"));
        assert!(found.next().is_none() && row["device"] == "lo", "{queues:#?}");
        let figures =
            ["packets", "bytes", "share", "below_64", "below_512", "below_2k"].map(|column| number(row, column));
        (row["queue"].as_str().map(str::to_owned), figures)
    };
    // Ethernet, IP and UDP take 14, 20 and 8 bytes; the first is gone when a packet has arrived.
    let (queue, sent) = of("sent");
    assert_eq!(queue.as_deref(), Some("0"));
    assert_eq!(sent, [103.0, 100.0 * 1042.0 + 3.0 * 52.0, 1.0, 3.0, 0.0, 100.0]);
    let (_, received) = of("received");
    assert_eq!(received, [103.0, 100.0 * 1028.0 + 3.0 * 38.0, 1.0, 3.0, 0.0, 100.0]);
}

#[test]
#[ignore = "needs: root, eBPF, python3"]
fn packets_are_counted_by_device_direction_and_queue_with_their_sizes() {
    let _alone = alone();
    if ready() {
        packets_are_counted_by_device_and_queue();
    }
}

#[test]
#[ignore = "needs: root, eBPF, python3, a kernel of the matrix"]
fn vm_packets_are_counted_by_device_direction_and_queue_with_their_sizes() {
    let _alone = alone();
    if ready() {
        packets_are_counted_by_device_and_queue();
    }
}
