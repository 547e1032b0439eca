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

pub(super) fn script(work: &str) -> Script {
    Script::start(&format!("{SETUP}{work}"))
}

pub(super) fn text<'r>(row: &'r Map<String, Value>, column: &str) -> &'r str {
    row[column].as_str().unwrap_or_else(|| panic!("{column} is no text: {row:?}"))
}

pub(super) fn number(row: &Map<String, Value>, column: &str) -> f64 {
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
