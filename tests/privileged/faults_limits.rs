//! Limits of the whole host, each of which is low while its test runs, and what reaches them. Beside each, the same where the limit is
//! as usual.

use super::induced::{Setting, Space, has_said_begun};
use crate::support::{Load, Need, alone, assert_nothing_else_fired, finding, has, live_report_every};

const NEEDS: &[Need] = &[Need::Root, Need::Tool("python3")];

fn begun_python(script: &str, args: &[&str]) -> Load {
    let load = Load::start(1, "python3", &[&["-c", script], args].concat());
    assert!(has_said_begun(&load), "the load has begun");
    load
}

/// Two thousand threads that sleep.
const THREADS: &str = "
import ctypes, threading, time
for _ in range(2000): threading.Thread(target=time.sleep, args=(60,), daemon=True).start()
ctypes.CDLL(None).prctl(15, b'begun')
time.sleep(60)
";

#[test]
#[ignore = "needs: root, a quiet machine, python3"]
fn threads_near_the_limit_of_the_host_name_who_has_them() {
    let _alone = alone();
    if !has(NEEDS) {
        return;
    }
    let load = begun_python(THREADS, &[]);
    let usual = live_report_every("400ms", 2);
    assert_eq!(finding(&usual, "tasks.utilization", None)["status"], "ok");
    assert_nothing_else_fired(&usual, &["cpu."]);
    let text = std::fs::read_to_string("/proc/loadavg").unwrap();
    let tasks: f64 = text.split_whitespace().nth(3).unwrap().split('/').nth(1).unwrap().parse().unwrap();
    let limit = Setting::put("/proc/sys/kernel/threads-max", &format!("{:.0}", tasks / 0.88));
    let report = live_report_every("400ms", 2);
    drop(limit);
    let found = finding(&report, "tasks.utilization", None);
    assert_eq!(found["status"], "warning", "{found:#}");
    assert!((0.85..0.93).contains(&found["value"].as_f64().unwrap()), "{found:#}");
    assert_eq!(found["culprit"]["pids"][0], load.pids()[0], "{found:#}");
    assert!(found["summary"].as_str().unwrap().contains("kernel.threads-max"), "{found:#}");
    assert_nothing_else_fired(&report, &["tasks.utilization", "cpu."]);
}

/// Memory that is promised and never used, until so much of the commit limit is.
const PROMISED: &str = "
import ctypes, mmap, sys, time
def field(name): return [int(line.split()[1]) for line in open('/proc/meminfo') if line.startswith(name)][0]
wanted = int(field('CommitLimit:') * float(sys.argv[1])) - field('Committed_AS:')
region = mmap.mmap(-1, wanted * 1024, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
ctypes.CDLL(None).prctl(15, b'begun')
time.sleep(60)
";

#[test]
#[ignore = "needs: root, a quiet machine, python3"]
fn memory_that_is_promised_is_short_only_where_promises_are_kept() {
    let _alone = alone();
    if !has(NEEDS) {
        return;
    }
    let ratio = Setting::put("/proc/sys/vm/overcommit_ratio", "100");
    let load = begun_python(PROMISED, &["0.94"]);
    let usual = live_report_every("400ms", 2);
    assert_eq!(finding(&usual, "memory.utilization.overcommit", None)["status"], "skipped");
    let strict = Setting::put("/proc/sys/vm/overcommit_memory", "2");
    let report = live_report_every("400ms", 2);
    drop((load, strict, ratio));
    let found = finding(&report, "memory.utilization.overcommit", None);
    assert_eq!(found["status"], "warning", "{found:#}");
    assert!((0.92..0.97).contains(&found["value"].as_f64().unwrap()), "{found:#}");
    assert!(found["culprit"].is_null(), "who committed the most is not measured: {found:#}");
    assert_nothing_else_fired(&report, &["memory.utilization.overcommit", "cpu."]);
}

/// Again and again: sixteen connections whose server reads nothing are filled, stay for a while, and are closed.
const FILLED: &str = "
import ctypes, socket, time
server = socket.socket(); server.bind(('127.0.0.1', 0)); server.listen(256)
while True:
    pairs = []
    for _ in range(16):
        client = socket.create_connection(server.getsockname()); client.setblocking(False)
        pairs.append((client, server.accept()[0]))
    for client, _ in pairs:
        try:
            while client.send(bytes(65536)): pass
        except BlockingIOError: pass
    ctypes.CDLL(None).prctl(15, b'begun')
    time.sleep(0.5)
    for client, served in pairs: served.close(); client.close()
    time.sleep(0.1)
";

#[test]
#[ignore = "needs: root, a quiet machine, python3"]
fn buffers_of_tcp_above_the_pressure_limit_are_a_warning_and_below_it_are_not() {
    let _alone = alone();
    if !has(NEEDS) {
        return;
    }
    let rules = ["network.utilization.tcp_memory", "network.saturation.tcp_memory"];
    let load = begun_python(FILLED, &[]);
    let usual = live_report_every("400ms", 2);
    for rule in rules {
        assert_eq!(finding(&usual, rule, None)["status"], "ok", "{rule}");
    }
    assert_nothing_else_fired(&usual, &["cpu."]);
    let low = Setting::put("/proc/sys/net/ipv4/tcp_mem", "4000 8000 1000000");
    let report = live_report_every("400ms", 2);
    drop((load, low));
    for rule in rules {
        let found = finding(&report, rule, None);
        assert_eq!(found["status"], "warning", "{found:#}");
    }
    assert_nothing_else_fired(&report, &[rules[0], rules[1], "network.saturation.receive_buffer", "cpu."]);
}

/// Ninety connections that were closed while a filter drops all that is sent on them.
const ORPHANS: &str = "
import ctypes, socket, subprocess, time
server = socket.socket(); server.bind(('127.0.0.1', 7000)); server.listen(128)
pairs = []
for _ in range(90):
    client = socket.create_connection(('127.0.0.1', 7000)); pairs.append((client, server.accept()[0]))
subprocess.run(['nft', 'table ip cut { chain in { type filter hook input priority 0; tcp dport 7000 drop; }; }'], check=True)
for client, _ in pairs:
    client.send(bytes(100)); client.close()
ctypes.CDLL(None).prctl(15, b'begun')
time.sleep(60)
";

#[test]
#[ignore = "needs: root, a quiet machine, ip, nft, python3"]
fn closed_connections_near_the_limit_of_orphans_are_a_warning() {
    let _alone = alone();
    if !has(NEEDS) || !has(&[Need::Tool("ip"), Need::Tool("nft")]) {
        return;
    }
    let space = Space::new("orphans");
    let load = space.load(ORPHANS, &[]);
    let usual = live_report_every("400ms", 2);
    assert_eq!(finding(&usual, "network.utilization.orphans", None)["status"], "ok");
    assert_nothing_else_fired(&usual, &["cpu."]);
    let low = Setting::put("/proc/sys/net/ipv4/tcp_max_orphans", "100");
    let report = live_report_every("400ms", 2);
    drop((load, space, low));
    let found = finding(&report, "network.utilization.orphans", None);
    assert_eq!(found["status"], "warning", "{found:#}");
    assert!((0.85..0.97).contains(&found["value"].as_f64().unwrap()), "90 of 100: {found:#}");
    assert_nothing_else_fired(&report, &["network.utilization.orphans", "cpu."]);
}

/// A hundred broadcasts a second, each of which a bridge hands to thirty interfaces at once.
const BROADCAST: &str = "
import ctypes, socket, time
sender = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); sender.setsockopt(socket.SOL_SOCKET, socket.SO_BROADCAST, 1)
ctypes.CDLL(None).prctl(15, b'begun')
while True:
    sender.sendto(bytes(100), ('10.9.8.255', 9))
    time.sleep(0.01)
";

#[test]
#[ignore = "needs: root, a quiet machine, ip, python3"]
fn bursts_beyond_the_backlog_of_a_cpu_are_dropped_and_beyond_its_budget_wait() {
    let _alone = alone();
    if !has(NEEDS) || !has(&[Need::Tool("ip")]) {
        return;
    }
    let space = Space::new("bursts");
    space.ip("link add bridge type bridge");
    space.ip("address add 10.9.8.1/24 broadcast 10.9.8.255 dev bridge");
    for number in 0..30 {
        space.ip(&format!("link add v{number} type veth peer name w{number}"));
        space.ip(&format!("link set w{number} up"));
        space.ip(&format!("link set v{number} master bridge up"));
    }
    space.ip("link set bridge up");
    let load = space.load(BROADCAST, &[]);
    let budget = Setting::put("/proc/sys/net/core/netdev_budget", "10");
    let late = live_report_every("400ms", 2);
    drop(budget);
    let squeezed = finding(&late, "network.saturation.softnet_squeeze", None);
    assert_eq!(squeezed["status"], "info", "{squeezed:#}");
    assert_eq!(finding(&late, "network.saturation.softnet", None)["status"], "ok", "what waits is not lost");
    assert_nothing_else_fired(&late, &["cpu."]);
    let backlog = Setting::put("/proc/sys/net/core/netdev_max_backlog", "10");
    let lost = live_report_every("400ms", 2);
    drop((backlog, load, space));
    let dropped = finding(&lost, "network.saturation.softnet", None);
    assert_eq!(dropped["status"], "critical", "{dropped:#}");
    assert!(dropped["culprit"]["name"].is_string(), "{dropped:#}");
    assert_eq!(finding(&lost, "network.saturation.softnet_squeeze", None)["status"], "ok");
    assert_nothing_else_fired(&lost, &["network.saturation.softnet", "cpu."]);
}
