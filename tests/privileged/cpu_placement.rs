//! Tasks that wait though the host has CPUs to spare: pinned to full CPUs, or behind a real-time task.

use serde_json::Value;

use crate::support::{Load, Need, alone, assert_nothing_else_fired, finding, findings, has, live_report, skip};

const LOOP: &str = "ulimit -t 40; while :; do :; done";

fn ready() -> bool {
    if std::thread::available_parallelism().unwrap().get() < 2 {
        skip("a single CPU");
        return false;
    }
    has(&[Need::Root, Need::Tool("taskset"), Need::Tool("chrt")])
}

fn pinned(count: usize, nice: &str) -> Load {
    Load::start(count, "taskset", &["-c", "0", "nice", "-n", nice, "sh", "-c", LOOP])
}

/// Niced work for all CPUs, as compilers in the background are.
fn niced_compilers() -> Load {
    Load::start(4, "nice", &["-n", "19", "sh", "-c", LOOP])
}

fn assert_pinned(report: &Value) {
    let found = finding(report, "cpu.saturation.pinned", Some("0"));
    let of = |path: &str| found.pointer(path).and_then(Value::as_str).unwrap_or_default();
    assert_eq!((of("/status"), of("/culprit/name")), ("warning", "sh"), "{found:#}");
    let share = found.get("value").and_then(Value::as_f64).unwrap();
    assert!((0.6..=0.95).contains(&share), "four on one CPU wait three quarters of their time: {found:#}");
    assert!(of("/summary").starts_with("4 tasks pinned to CPU 0 waited"), "{found:#}");
}

#[test]
#[ignore = "needs: root, a quiet machine, two CPUs, taskset, chrt"]
fn loops_pinned_to_one_cpu_wait_while_another_idles() {
    let _alone = alone();
    if !ready() {
        return;
    }
    let _load = pinned(4, "0");
    let report = live_report(5);
    assert_pinned(&report);
    assert_nothing_else_fired(&report, &["cpu.saturation.pinned", "cpu.utilization.core", "cpu.saturation.core"]);
}

#[test]
#[ignore = "needs: root, a quiet machine, two CPUs, taskset, chrt"]
fn niced_work_on_the_other_cpus_hides_no_pinned_victim() {
    let _alone = alone();
    if !ready() {
        return;
    }
    let _load = pinned(4, "0");
    let _compilers = niced_compilers();
    assert_pinned(&live_report(5));
}

#[test]
#[ignore = "needs: root, a quiet machine, two CPUs, taskset, chrt"]
fn one_pinned_loop_and_niced_pinned_loops_are_nobodys_victims() {
    let _alone = alone();
    if !ready() {
        return;
    }
    let _one = pinned(1, "0");
    let _niced = pinned(3, "19");
    let report = live_report(5);
    let waiting = findings(&report, "cpu.saturation.pinned");
    assert!(!waiting.is_empty() && waiting.iter().all(|finding| finding["status"] != "warning"), "{waiting:#?}");
}

#[test]
#[ignore = "needs: root, a quiet machine, two CPUs, taskset, chrt"]
fn a_real_time_loop_that_starves_an_ordinary_one_is_the_culprit() {
    let _alone = alone();
    if !ready() {
        return;
    }
    let _victim = Load::start(1, "taskset", &["-c", "0", "sh", "-c", LOOP]);
    let hog = Load::start(1, "taskset", &["-c", "0", "chrt", "--fifo", "10", "dash", "-c", LOOP]);
    let report = live_report(5);
    let starved = finding(&report, "cpu.saturation.real_time", Some("CPU 0"));
    assert_eq!(
        (&starved["status"], &starved["culprit"]["pids"][0]),
        (&"warning".into(), &hog.pids()[0].into()),
        "{starved:#}"
    );
    assert!(starved["summary"].as_str().unwrap().contains("(most of all sh)"), "{starved:#}");
}

#[test]
#[ignore = "needs: root, a quiet machine, two CPUs, taskset, chrt"]
fn real_time_work_that_is_short_starves_nobody() {
    let _alone = alone();
    if !ready() {
        return;
    }
    let _ordinary = Load::start(1, "taskset", &["-c", "0", "sh", "-c", LOOP]);
    let short = "ulimit -t 40; while :; do for n in 1 2 3 4 5 6 7 8 9; do :; done; sleep 0.01; done";
    let _load = Load::start(1, "taskset", &["-c", "0", "chrt", "--fifo", "10", "dash", "-c", short]);
    let report = live_report(5);
    let starved = findings(&report, "cpu.saturation.real_time");
    assert!(starved.iter().all(|finding| finding["status"] != "warning"), "{starved:#?}");
}
