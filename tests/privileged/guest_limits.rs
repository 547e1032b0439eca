//! Limits of a whole host that are reached, in guests: no other machine has to bear them.

use std::io::Write as _;
use std::process::{Command, Stdio};

use serde_json::Value;

use super::guest_log::{KernelLog, Setting};
use crate::support::{Load, Need, alone, assert_nothing_else_fired, finding, has, live_report, wait_until};

fn ready() -> bool {
    has(&[Need::Root, Need::Tool("python3"), Need::Tool("ip"), Need::Path("/proc/sys/net/ipv4/tcp_mem")])
}

/// So many neighbours of a cable whose other end is here too; they go away with it.
struct Neighbours;

impl Neighbours {
    fn new(count: usize) -> Self {
        let mut lines =
            String::from("link add rdiag0 type veth peer name rdiag1\nlink set rdiag0 up\nlink set rdiag1 up\n");
        for number in 1..=count {
            lines += &format!("neighbour add 10.99.0.{number} lladdr 02:00:00:00:00:01 dev rdiag0 nud stale\n");
        }
        let mut ip = Command::new("ip").args(["-batch", "-"]).stdin(Stdio::piped()).spawn().unwrap();
        ip.stdin.take().unwrap().write_all(lines.as_bytes()).unwrap();
        assert!(ip.wait().unwrap().success(), "ip made the neighbours");
        Self
    }
}

impl Drop for Neighbours {
    fn drop(&mut self) {
        let _ = Command::new("ip").args(["link", "delete", "rdiag0"]).status();
    }
}

/// Connections whose end here is closed before their data was taken, which is more than the peer has room for: no process owns them, and
/// the peer's window stays closed.
const ORPHANS: &str = "
import socket, sys, time
server = socket.socket(); server.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 32768)
server.bind(('127.0.0.1', 7100)); server.listen(64)
kept = []
for _ in range(int(sys.argv[1])):
    client = socket.create_connection(('127.0.0.1', 7100)); kept.append(server.accept())
    client.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 65536)
    client.setblocking(False)
    try:
        while True: client.send(bytes(4096))
    except BlockingIOError: pass
    client.close()
time.sleep(600)
";

/// Fills the buffers of eight connections for two seconds, again and again. The end that was sent to is closed first, which resets
/// the other.
const BUFFERS: &str = "
import socket, time
SO_SNDBUFFORCE, SO_RCVBUFFORCE = 32, 33
server = socket.socket(); server.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, 524288)
server.bind(('127.0.0.1', 7200)); server.listen(64)
block = bytes(65536)
while True:
    pairs = []
    for _ in range(8):
        client = socket.socket(); client.setsockopt(socket.SOL_SOCKET, SO_SNDBUFFORCE, 524288)
        client.connect(('127.0.0.1', 7200)); client.setblocking(False); pairs.append((server.accept()[0], client))
        try:
            while True: client.send(block)
        except BlockingIOError: pass
    time.sleep(2)
    for accepted, client in pairs: accepted.close(); client.close()
    time.sleep(0.1)
";

/// So many threads that sleep.
const THREADS: &str = "
import sys, threading, time
threading.stack_size(131072)
for _ in range(int(sys.argv[1])): threading.Thread(target=time.sleep, args=(600,), daemon=True).start()
time.sleep(600)
";

/// A number of /proc/net/sockstat: `TCP: inuse 5 orphan 0 tw 0 alloc 6 mem 1`.
fn tcp(key: &str) -> u64 {
    let text = std::fs::read_to_string("/proc/net/sockstat").unwrap();
    let line = text.lines().find(|line| line.starts_with("TCP:")).unwrap();
    line.split_whitespace().skip_while(|word| *word != key).nth(1).unwrap().parse().unwrap()
}

/// Processes and threads of the host, as /proc/loadavg counts them.
fn tasks() -> u64 {
    let text = std::fs::read_to_string("/proc/loadavg").unwrap();
    text.split_whitespace().nth(3).unwrap().split_once('/').unwrap().1.parse().unwrap()
}

/// Whether a finding has this status, and a value in this range.
#[track_caller]
fn assert_within(report: &Value, rule: &str, instance: Option<&str>, status: &str, range: std::ops::Range<f64>) {
    let found = finding(report, rule, instance);
    assert_eq!(found["status"], status, "{found:#}");
    assert!(found["value"].as_f64().is_some_and(|value| range.contains(&value)), "{range:?}: {found:#}");
}

#[test]
#[ignore = "needs: root, a guest, python3, ip"]
fn vm_limits_of_the_host_that_are_nearly_reached_are_told_apart() {
    let _alone = alone();
    if !ready() {
        return;
    }
    let log = KernelLog::new();
    let low = (
        Setting::to("/proc/sys/net/ipv4/neigh/default/gc_thresh3", "64"),
        Setting::to("/proc/sys/net/ipv4/tcp_max_orphans", "16"),
        // Pages: below the first there is no pressure any more, from the second on there is.
        Setting::to("/proc/sys/net/ipv4/tcp_mem", "1700 2000 65536"),
    );
    let neighbours = Neighbours::new(56);
    let orphans = Load::start(1, "python3", &["-c", ORPHANS, "14"]);
    let threads = Load::start(1, "python3", &["-c", THREADS, "600"]);
    let many = || std::fs::read_dir(format!("/proc/{}/task", threads.pids().into_iter().next().unwrap()));
    assert!(wait_until(60, || tcp("orphan") == 14), "{} of 14 orphans", tcp("orphan"));
    assert!(wait_until(60, || many().is_ok_and(|all| all.count() > 600)), "the threads are there");
    let buffers = Load::start(1, "python3", &["-c", BUFFERS]);
    assert!(wait_until(60, || tcp("mem") > 2000), "{} pages of buffers", tcp("mem"));
    let fewer = Setting::to("/proc/sys/kernel/threads-max", &(tasks() * 100 / 86).to_string());
    let report = live_report(6);
    drop((fewer, low));
    // The same load below the limits as they were.
    let roomy = live_report(3);
    drop((buffers, orphans, threads, neighbours, log));

    assert_within(&report, "tasks.utilization", None, "warning", 0.8..0.95);
    let culprit = &finding(&report, "tasks.utilization", None)["culprit"];
    assert_eq!(culprit["name"], "python3", "{culprit:#}");
    assert_within(&report, "network.utilization.neighbours", Some("IPv4"), "warning", 0.87..1.0);
    assert_within(&report, "network.utilization.orphans", None, "warning", 0.87..0.88);
    assert_within(&report, "network.utilization.tcp_memory", None, "warning", 0.01..0.2);
    assert_within(&report, "network.saturation.tcp_memory", None, "warning", 1.0..10.0);
    assert_nothing_else_fired(
        &report,
        &[
            "tasks.utilization",
            "network.utilization.neighbours",
            "network.utilization.orphans",
            "network.utilization.tcp_memory",
            "network.saturation.tcp_memory",
        ],
    );
    assert_within(&roomy, "tasks.utilization", None, "ok", 0.01..0.5);
    assert_within(&roomy, "network.utilization.neighbours", Some("IPv4"), "ok", 0.05..0.1);
    assert_within(&roomy, "network.utilization.orphans", None, "ok", 0.0..0.1);
    assert_within(&roomy, "network.utilization.tcp_memory", None, "ok", 0.0..0.5);
    assert_within(&roomy, "network.saturation.tcp_memory", None, "ok", 0.0..1.0);
    assert_nothing_else_fired(&roomy, &[]);
}

/// Root opens files without end, which no limit of the host forbids it, and a user tries to. The kernel reports a refusal when more
/// files are open than at the one before.
const FILES: &str = "
import os, resource, time
resource.setrlimit(resource.RLIMIT_NOFILE, (60000, 60000))
kept = [os.open('/dev/null', 0) for _ in range(200)]
open('/proc/sys/fs/file-max', 'w').write(open('/proc/sys/fs/file-nr').read().split()[0])
if os.fork() == 0:
    os.setgid(4247); os.setuid(4247)
    while True:
        try: kept.append(os.open('/dev/null', 0))
        except OSError: time.sleep(0.1)
while True:
    kept += [os.open('/dev/null', 0) for _ in range(100)]
    time.sleep(0.5)
";

#[test]
#[ignore = "needs: root, a guest, python3"]
fn vm_opens_that_are_refused_at_the_limit_of_the_host_are_critical() {
    let _alone = alone();
    if !ready() {
        return;
    }
    let log = KernelLog::new();
    let before = std::fs::read_to_string("/proc/sys/fs/file-max").unwrap();
    let most = Setting::to("/proc/sys/fs/file-max", before.trim());
    let files = Load::start(1, "python3", &["-c", FILES]);
    let reached = || KernelLog::lines().lines().any(|line| line.contains("VFS: file-max limit"));
    assert!(wait_until(60, reached), "an open is refused");
    let report = live_report(5);
    drop((files, most, log));

    let refused = finding(&report, "fd.errors.host", None);
    assert_eq!(refused["status"], "critical", "{refused:#}");
    let open = finding(&report, "fd.utilization", None);
    assert_eq!((&open["status"], &open["culprit"]["name"]), (&"critical".into(), &"python3".into()), "{open:#}");
    assert_nothing_else_fired(&report, &["fd.errors.host", "fd.utilization"]);
}
