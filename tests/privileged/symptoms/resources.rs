//! CPUs, memory and the network: `slow-container`, `high-latency`, `slow-system`, `memory-pressure`, `network-loss`.

use super::{Group, assert_verdict, found, outcome, report, report_within, run};
use crate::support::{Load, Need, alone, has, skip, wait_until};

#[test]
#[ignore = "needs: root, the cpu controller, bash"]
fn a_group_at_its_quota_is_slow_and_one_below_it_is_not() {
    let _alone = alone();
    if !has(&[Need::Root, Need::Tool("bash")]) {
        return;
    }
    for (quota, script, expected) in [
        ("20000", "while :; do :; done", "found"),
        ("80000", "while :; do for i in {1..2000}; do :; done; sleep 0.05; done", "ruled_out"),
    ] {
        let files = [[("cpu.cfs_quota_us", quota), ("cpu.max", quota)]];
        let Some(group) = Group::new("cpu", "rdiag-quota", &files) else { return skip("no cpu controller") };
        let _load = group.run(script);
        for playbook in ["slow-container", "high-latency"] {
            let report = report(playbook, 4);
            assert_eq!(outcome(&report, "throttled"), expected, "{playbook}: {:#}", report["answer"]);
            if expected == "found" {
                assert_verdict(&report, "throttled", "rdiag-quota");
            }
        }
    }
}

#[test]
#[ignore = "needs: a quiet machine"]
fn loops_make_a_system_slow_and_niced_ones_do_not() {
    let _alone = alone();
    let count = 6 * std::thread::available_parallelism().unwrap().get();
    let loops = Load::start(count, "sh", &["-c", "while :; do :; done"]);
    let slow = report("slow-system", 5);
    drop(loops);
    assert!(found(&slow, "cpu").contains("CPU"), "{:#}", slow["answer"]);
    let _niced = Load::start(count, "nice", &["-n", "19", "sh", "-c", "while :; do :; done"]);
    let fine = report("slow-system", 5);
    assert_ne!(outcome(&fine, "cpu"), "found", "{:#}", fine["answer"]);
}

/// Takes more memory than the group may have, and is killed.
const GREEDY: &str = "sleep 1; python3 -c 'x = bytearray(200 << 20)'; sleep 30";

#[test]
#[ignore = "needs: root, the memory controller, bash, python3"]
fn a_kill_at_the_limit_of_a_group_is_told_from_memory_full_of_page_cache() {
    let _alone = alone();
    if !has(&[Need::Root, Need::Tool("bash"), Need::Tool("python3"), Need::Path("/dev/kmsg")]) {
        return;
    }
    let files = [[("memory.limit_in_bytes", "50M"), ("memory.max", "50M")]];
    let Some(group) = Group::new("memory", "rdiag-oom", &files) else { return skip("no memory controller") };
    let load = group.run(GREEDY);
    let killed = report("memory-pressure", 5);
    drop(load);
    drop(group);
    assert_verdict(&killed, "cgroup", "rdiag-oom");
    assert_eq!(outcome(&killed, "oom"), "ruled_out", "{:#}", killed["answer"]);
    let file = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let written = format!("head -c 300M /dev/zero > {}/file; cat {0}/file > /dev/null", file.path().display());
    assert!(run("bash", &["-c", &written]));
    let cached = report("memory-pressure", 3);
    for id in ["cgroup", "oom", "thrashing", "reclaim", "used"] {
        assert_eq!(outcome(&cached, id), "ruled_out", "{:#}", cached["answer"]);
    }
}

/// A network namespace with a neighbour, 10.9.7.2, that answers nothing.
struct Cell(String);

impl Cell {
    fn new() -> Self {
        let cell = Self(format!("rdiag-symptom-{}", std::process::id()));
        let name = cell.0.as_str();
        for args in [
            &["netns", "add", name][..],
            &["-n", name, "link", "set", "lo", "up"],
            &["-n", name, "link", "add", "v0", "type", "veth", "peer", "name", "v1"],
            &["-n", name, "address", "add", "10.9.7.1/24", "dev", "v0"],
            &["-n", name, "link", "set", "v0", "up"],
            &["-n", name, "link", "set", "v1", "up"],
            &[
                "-n",
                name,
                "neighbour",
                "add",
                "10.9.7.2",
                "lladdr",
                "02:00:00:00:00:02",
                "dev",
                "v0",
                "nud",
                "permanent",
            ],
        ] {
            assert!(run("ip", args), "ip {args:?}");
        }
        cell
    }
}

impl Drop for Cell {
    fn drop(&mut self) {
        run("ip", &["netns", "delete", &self.0]);
    }
}

/// Forty connections to a peer that answers none.
const UNANSWERED: &str = "
import socket, time
waiting = []
for _ in range(40):
    c = socket.socket(); c.setblocking(False); waiting.append(c)
    try: c.connect(('10.9.7.2', 81))
    except BlockingIOError: pass
time.sleep(60)
";

/// Connections that are refused, twenty a second.
const REFUSED: &str = "
import socket, time
while True:
    try: socket.create_connection(('127.0.0.1', 81))
    except ConnectionRefusedError: time.sleep(0.05)
";

#[test]
#[ignore = "needs: root, ip, python3"]
fn connections_that_nobody_answers_are_told_from_refused_ones() {
    let _alone = alone();
    if !has(&[Need::Root, Need::Tool("ip"), Need::Tool("python3")]) {
        return;
    }
    let cell = Cell::new();
    let within = ["ip", "netns", "exec", &cell.0];
    let waiting = Load::start(1, within[0], &[&within[1..], &["python3", "-c", UNANSWERED]].concat());
    assert!(wait_until(10, || {
        let sockets =
            std::process::Command::new("ip").args(&within[1..]).args(["cat", "/proc/net/tcp"]).output().unwrap();
        String::from_utf8_lossy(&sockets.stdout).matches(" 02 ").count() >= 40
    }));
    let lost = report_within(&within, "network-loss", 5);
    drop(waiting);
    assert_verdict(&lost, "unanswered", "python3 to 10.9.7.2:81");
    let _refused = Load::start(1, within[0], &[&within[1..], &["python3", "-c", REFUSED]].concat());
    // What was sent before is given up.
    std::thread::sleep(std::time::Duration::from_secs(1));
    let refused = report_within(&within, "network-loss", 4);
    for id in ["unanswered", "path", "listen"] {
        assert_eq!(outcome(&refused, id), "ruled_out", "{:#}", refused["answer"]);
    }
}
