//! Hosts that look alarming in a list and have nothing wrong with them: thousands of processes that sleep, a flood of connections in
//! TIME_WAIT, a program that is deadlocked, half of the memory in heaps.

use super::limits::Cell;
use crate::support::{
    Load, Need, alone, assert_judged, assert_nothing_else_fired, finding, has, live_report, skip, wait_until,
};

const SLEEPERS: usize = 3000;

/// The processes that a process started.
fn children(pid: u32) -> usize {
    let text = std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap_or_default();
    text.split_whitespace().count()
}

#[test]
#[ignore = "needs: a quiet machine, bash"]
fn three_thousand_processes_that_sleep_raise_nothing() {
    let _alone = alone();
    if !has(&[Need::Tool("bash")]) {
        return;
    }
    let script = format!("for n in {{1..{SLEEPERS}}}; do sleep 300 & done; wait");
    let load = Load::start(1, "bash", &["-c", &script]);
    assert!(wait_until(60, || children(load.pids()[0]) == SLEEPERS), "the processes could not be started");
    // The last ones still become another program.
    std::thread::sleep(std::time::Duration::from_secs(1));
    let report = live_report(5);
    assert_eq!(children(load.pids()[0]), SLEEPERS, "they sleep to the end");
    assert_nothing_else_fired(&report, &[]);
    assert_judged(&report);
}

/// So many connections that were closed here, to eight addresses, then five hundred a second.
const FLOOD: &str = "
import socket, time
server = socket.socket(); server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
server.bind(('0.0.0.0', 7000)); server.listen(64)
def one(number):
    client = socket.create_connection((f'127.0.0.{1 + number % 8}', 7000))
    accepted, _ = server.accept()
    client.close(); accepted.close()
for number in range(COUNT): one(number)
while True:
    for number in range(50): one(number)
    time.sleep(0.1)
";

#[test]
#[ignore = "needs: root, a quiet machine, ip, python3"]
fn a_flood_of_connections_in_time_wait_raises_nothing() {
    let _alone = alone();
    if !has(&[Need::Root, Need::Tool("ip"), Need::Tool("python3")]) {
        return;
    }
    let limit = std::fs::read_to_string("/proc/sys/net/ipv4/tcp_max_tw_buckets").unwrap();
    let count = (limit.trim().parse::<usize>().unwrap() / 3).min(20_000);
    let cell = Cell::new();
    let _load = cell.load(&FLOOD.replace("COUNT", &count.to_string()));
    assert!(wait_until(40, || cell.sockets("06") >= count), "the connections are in TIME_WAIT");
    let report = cell.report(5);
    let flood = finding(&report, "network.utilization.time_wait", None);
    assert!(flood["value"].as_f64().unwrap() * limit.trim().parse::<f64>().unwrap() >= count as f64, "{flood:#}");
    assert_nothing_else_fired(&report, &["cpu."]);
}

/// Two threads, each of which holds what the other one waits for.
const DEADLOCK: &str = "
import threading
first, second, both = threading.Lock(), threading.Lock(), threading.Barrier(2)
def work(one, other):
    with one:
        both.wait()
        with other: pass
threads = [threading.Thread(target=work, args=pair) for pair in ((first, second), (second, first))]
for thread in threads: thread.start()
for thread in threads: thread.join()
";

/// Threads of a process that wait for a lock of the program.
fn waiting(pid: u32) -> usize {
    let threads = std::fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    let place = |thread: std::fs::DirEntry| std::fs::read_to_string(thread.path().join("wchan")).unwrap_or_default();
    threads.map(place).filter(|place| place.contains("futex")).count()
}

#[test]
#[ignore = "needs: root, a quiet machine, python3"]
fn a_program_whose_threads_wait_for_each_other_forever_raises_nothing() {
    let _alone = alone();
    if !has(&[Need::Root, Need::Tool("python3")]) {
        return;
    }
    let load = Load::start(1, "python3", &["-c", DEADLOCK]);
    // The first thread waits for the two.
    assert!(wait_until(10, || waiting(load.pids()[0]) == 3), "the program is deadlocked");
    let report = live_report(5);
    assert_eq!(waiting(load.pids()[0]), 3, "and stays so");
    assert_nothing_else_fired(&report, &[]);
    assert_judged(&report);
}

/// Takes so many bytes at once, and keeps them.
const KEEP: &str = "
import mmap, sys, time
kept = mmap.mmap(-1, int(sys.argv[1]), flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | mmap.MAP_POPULATE)
time.sleep(300)
";

/// A line of /proc/meminfo, in bytes.
fn meminfo(field: &str) -> f64 {
    let text = std::fs::read_to_string("/proc/meminfo").unwrap();
    let line = text.lines().find_map(|line| line.strip_prefix(field)?.strip_prefix(':')).unwrap();
    line.trim().trim_end_matches(" kB").parse::<f64>().unwrap() * 1024.0
}

#[test]
#[ignore = "needs: a quiet machine, three quarters of the memory available, python3"]
fn half_of_the_memory_in_heaps_raises_nothing() {
    let _alone = alone();
    if !has(&[Need::Tool("python3")]) {
        return;
    }
    let total = meminfo("MemTotal");
    let wanted = 0.55 * total - meminfo("AnonPages");
    if meminfo("MemAvailable") - wanted < 0.2 * total {
        return skip("too little memory is available to have 55 % of it in heaps");
    }
    let _load = Load::start(1, "python3", &["-c", KEEP, &(wanted.max(0.0) as u64).to_string()]);
    assert!(wait_until(60, || meminfo("AnonPages") >= 0.54 * total), "the memory could not be taken");
    // The kernel may still be making room.
    std::thread::sleep(std::time::Duration::from_secs(2));
    let report = live_report(5);
    let used = finding(&report, "memory.utilization", None);
    assert_eq!(used["status"], "ok", "{used:#}");
    assert!(used["value"].as_f64().unwrap() > 0.5, "{used:#}");
    assert_nothing_else_fired(&report, &[]);
    assert_judged(&report);
}
