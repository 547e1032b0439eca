//! Tasks in D state: `high-load`, `io-stall`. Sleepers, busy loops and frozen tasks look alike in one figure or another. Stopped ones:
//! `high-latency`.

use super::{Group, Mounted, assert_verdict, found, outcome, report, run};
use crate::support::{Load, Need, alone, finding, has, skip, wait_until};

/// Enough to be more than what others run meanwhile.
const MANY: usize = 60;

#[test]
#[ignore = "needs: root, loop devices, mkfs.ext4, fsfreeze"]
fn writers_of_a_frozen_file_system_are_what_load_and_stall_come_from() {
    let _alone = alone();
    if !has(&[Need::Root, Need::Tool("mkfs.ext4"), Need::Tool("fsfreeze"), Need::Path("/proc/self/stack")]) {
        return;
    }
    let Some(mounted) = Mounted::ext4("symptom-frozen", &[]) else {
        return skip("an ext4 cannot be mounted from a file here");
    };
    assert!(run("fsfreeze", &["-f", &mounted.point]));
    let writers = Load::start(MANY, "touch", &[&format!("{}/file", mounted.point)]);
    let state = |pid: &u32| std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default().contains(") D ");
    assert!(wait_until(10, || writers.pids().iter().all(state)), "the writers do not wait");
    let load = report("high-load", 5);
    // The drill-down begins when three intervals are over, and what never ran in 5 s is a warning.
    let stall = report("io-stall", 9);
    run("fsfreeze", &["-u", &mounted.point]);
    drop(writers);
    let said = found(&load, "blocked");
    assert!(said.starts_with("Tasks in D state (uninterruptible sleep): 60") && said.contains("; CPUs "), "{said}");
    assert_verdict(&load, "blocked", "(touch waited the most, in percpu_rwsem_wait)");
    let said = found(&stall, "blocked");
    assert!(said.contains("tasks were in D state (uninterruptible sleep), 60 of them never ran"), "{said}");
    assert_eq!(outcome(&stall, "stuck"), "ruled_out", "{:#}", stall["answer"]);
}

#[test]
#[ignore = "needs: root, the freezer of version 1"]
fn tasks_that_are_frozen_on_purpose_are_told_from_tasks_that_hang() {
    let _alone = alone();
    if !has(&[
        Need::Root,
        Need::Tool("bash"),
        Need::Path("/sys/fs/cgroup/freezer/cgroup.procs"),
        Need::Path("/proc/self/stack"),
    ]) {
        return;
    }
    let Some(group) = Group::new("freezer", "rdiag-frozen", &[]) else { return skip("no freezer") };
    let state = group.directory.join("freezer.state");
    let load = group.run(&format!("for n in {{1..{MANY}}}; do sleep 60 & done; wait"));
    let all =
        || std::fs::read_to_string(group.directory.join("cgroup.procs")).unwrap_or_default().lines().count() > MANY;
    assert!(wait_until(10, all), "the processes could not be started");
    std::fs::write(&state, "FROZEN").unwrap();
    let frozen = || std::fs::read_to_string(&state).is_ok_and(|state| state.trim() == "FROZEN");
    let is_frozen = wait_until(10, frozen);
    let reports = [report("high-load", 5), report("io-stall", 5)];
    std::fs::write(&state, "THAWED").unwrap();
    drop(load);
    assert!(is_frozen, "the group could not be frozen");
    for report in &reports {
        assert_ne!(outcome(report, "blocked"), "found", "{:#}", report["answer"]);
    }
    let said = found(&reports[1], "frozen");
    assert!(said.starts_with("61 tasks frozen on purpose, by the freezer of control groups (/rdiag-frozen"), "{said}");
}

#[test]
#[ignore = "needs: a quiet machine"]
fn runnable_tasks_and_sleepers_are_no_tasks_in_d_state() {
    let _alone = alone();
    let sleepers = Load::start(MANY, "sleep", &["60"]);
    let asleep = report("high-load", 3);
    // Where the load is low, too, nothing points to it, and no step looks for it.
    assert_ne!(outcome(&asleep, "blocked"), "found", "{:#}", asleep["answer"]);
    drop(sleepers);
    let count = 8 * std::thread::available_parallelism().unwrap().get();
    let loops = Load::start(count, "sh", &["-c", "while :; do :; done"]);
    let (busy, stall) = (report("high-load", 5), report("io-stall", 3));
    drop(loops);
    assert_verdict(&busy, "runnable", &format!("sh ({count} processes) used "));
    for id in ["blocked", "disk"] {
        assert_ne!(outcome(&busy, id), "found", "{:#}", busy["answer"]);
    }
    assert_ne!(outcome(&stall, "blocked"), "found", "{:#}", stall["answer"]);
}

/// A server that stops while a client waits for its answer; its queue has room for 63 more.
const STOPS: &str = "import os, signal, socket, time
server = socket.create_server(('127.0.0.1', 0), backlog=64)
if os.fork() == 0:
    address = server.getsockname()
    server.close()
    client = socket.create_connection(address, timeout=60)
    client.sendall(b'ping')
    client.recv(1)
    os._exit(0)
time.sleep(0.5)
os.kill(os.getpid(), signal.SIGSTOP)
server.accept()";

#[test]
#[ignore = "needs: root, python3"]
fn a_stopped_server_is_what_requests_wait_for_and_a_suspended_job_is_not() {
    let _alone = alone();
    if !has(&[Need::Root, Need::Tool("python3")]) {
        return;
    }
    let is_stopped =
        |pid: &u32| std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default().contains(") T ");
    let job = Load::start(1, "sh", &["-c", "kill -STOP $$"]);
    assert!(wait_until(10, || job.pids().iter().all(is_stopped)), "the job is not stopped");
    let suspended = report("high-latency", 5);
    assert_eq!(outcome(&suspended, "stopped"), "beside", "{:#}", suspended["answer"]);
    let of_job = finding(&suspended, "tasks.saturation.stopped", None);
    assert_eq!(
        (of_job["status"].as_str(), of_job["culprit"]["name"].as_str()),
        (Some("info"), Some("sh")),
        "{of_job:#}"
    );
    let server = Load::start(1, "python3", &["-c", STOPS]);
    assert!(wait_until(10, || server.pids().iter().all(is_stopped)), "the server does not stop");
    let waiting = report("high-latency", 5);
    drop((server, job));
    assert_verdict(
        &waiting,
        "stopped",
        "2 processes stopped by a signal (state T): python3 accepts nothing on 127.0.0.1:",
    );
    let found = finding(&waiting, "tasks.saturation.stopped", None);
    assert_eq!(
        (found["status"].as_str(), found["culprit"]["name"].as_str()),
        (Some("warning"), Some("python3")),
        "{found:#}"
    );
}
