//! What holds for all probes: they end as they are told, stop at their budget, and leave nothing behind.

use std::process::{Child, Command, Stdio};
use std::time::Duration;

use serde_json::Value;

use crate::support::{Load, Need, alone, has, rdiag, wait_until};

/// Ids of the programs that a process holds, directly or by a link.
fn programs_of(pid: u32) -> Vec<String> {
    let folder = format!("/proc/{pid}/fdinfo");
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let texts = entries.filter_map(|entry| std::fs::read_to_string(entry.path()).ok());
    let id = |text: String| text.lines().find_map(|line| line.strip_prefix("prog_id:").map(|id| id.trim().to_owned()));
    texts.filter_map(id).collect()
}

fn is_loaded(program: &str) -> bool {
    let shown = Command::new("bpftool").args(["prog", "show", "id", program]).output().unwrap();
    shown.status.success()
}

fn start(args: &[&str]) -> Child {
    let binary = assert_cmd::cargo::cargo_bin!("rdiag");
    Command::new(binary).arg("probe").args(args).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

fn signal(child: &Child, name: &str) {
    assert!(Command::new("kill").args([name, &child.id().to_string()]).status().unwrap().success());
}

#[test]
#[ignore = "needs: root, eBPF, bpftool"]
fn nothing_is_left_in_the_kernel_however_a_probe_ends() {
    let _alone = alone();
    if !has(&[Need::Root, Need::Tool("bpftool"), Need::Path("/sys/kernel/btf/vmlinux")]) {
        return;
    }
    for end in ["-INT", "-TERM", "-KILL"] {
        let mut child = start(&["runqlat", "--duration", "60s"]);
        let mut programs = Vec::new();
        let began = wait_until(30, || {
            programs = programs_of(child.id());
            !programs.is_empty()
        });
        assert!(began, "it never began");
        signal(&child, end);
        let _ = child.wait().unwrap();
        for program in programs {
            assert!(wait_until(10, || !is_loaded(&program)), "{end} left program {program} behind");
        }
    }
}

#[test]
#[ignore = "needs: root, eBPF"]
fn what_was_measured_until_ctrl_c_is_shown() {
    let _alone = alone();
    if !has(&[Need::Root, Need::Path("/sys/kernel/btf/vmlinux")]) {
        return;
    }
    let child = start(&["runqlat"]);
    std::thread::sleep(Duration::from_secs(3));
    signal(&child, "-INT");
    let output = child.wait_with_output().unwrap();
    let shown = String::from_utf8_lossy(&output.stdout).into_owned();
    assert_eq!(output.status.code(), Some(0), "without a duration, Ctrl-C is the regular end");
    assert!(shown.contains("Time from being able to run to running") && shown.contains("sched_switch"), "{shown}");
}

#[test]
#[ignore = "needs: root, eBPF"]
fn a_probe_that_costs_more_than_its_budget_stops_itself_and_says_so() {
    let _alone = alone();
    if !has(&[Need::Root, Need::Path("/sys/kernel/btf/vmlinux")]) {
        return;
    }
    // Two tasks that wake each other all the time.
    let _load = Load::start(2, "sh", &["-c", "ulimit -t 20; while :; do sleep 0.001; done"]);
    let args = ["probe", "runqlat", "--duration", "20s", "--budget", "0.0001%", "--format", "json"];
    let output = rdiag().args(args).output().unwrap();
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.code() == Some(5) && told.contains("stopped by its budget"), "{told}");
    let result: Value = serde_json::from_slice(&output.stdout).unwrap();
    let notes = result["notes"].to_string();
    assert!(notes.contains("stopped itself"), "{result:#}");
    assert!(result["seconds"].as_f64().unwrap() < 10.0);
    assert!(result["cost"]["runs"].as_u64().unwrap() > 0);
}

#[test]
#[ignore = "needs: root, eBPF"]
fn every_reading_of_an_interval_begins_anew() {
    let _alone = alone();
    if !has(&[Need::Root, Need::Path("/sys/kernel/btf/vmlinux")]) {
        return;
    }
    let args = ["probe", "runqlat", "--duration", "2s", "--interval", "500ms", "--format", "json"];
    let output = rdiag().args(args).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let lengths: Vec<f64> =
        text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap()["seconds"].as_f64().unwrap()).collect();
    assert!(lengths.len() >= 3, "{lengths:?}");
    let sum: f64 = lengths.iter().sum();
    assert!((1.8..4.0).contains(&sum), "{lengths:?}");
}
