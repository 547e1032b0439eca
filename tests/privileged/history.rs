//! The recorder beside faults, and on a disk that is full.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use serde_json::Value;

use crate::history::{Recorder, blocks, files, wait_until};
use crate::support::{Load, Need, alone, beside_others, finding, has, live_report, rdiag};

/// Ends by itself if the test cannot end it.
const LOOP: &str = "ulimit -t 20; while :; do :; done";

/// The report about a time that is over.
fn past_report(history: &Path, at: &str, last: &str) -> Value {
    let mut command = rdiag();
    command.args(["run", "use-method", "--at", at, "--last", last, "--format", "json", "--out", "-", "--history"]);
    let output = command.arg(history).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {said}"))
}

fn verdict(report: &Value, rule: &str) -> [String; 2] {
    let finding = finding(report, rule, None);
    let at = |path: &str| finding.pointer(path).unwrap_or(&Value::Null).to_string();
    [at("/status"), at("/culprit/name")]
}

/// Rules that the recorder may judge otherwise than a run beside it, with the reason.
const OTHERWISE: &[(&str, &str)] = &[
    ("cpu.saturation.runnable", "a run looks at the run queue four times in each interval, the recorder once"),
    ("tasks.saturation.stopped", "it takes two looks at all processes, a minute apart, and the blocks here take 8 s"),
    ("memory.utilization.maps", "mappings are counted when a block is a minute old, and the blocks here take 8 s"),
];

/// Each rule with the worst that was found by it, of whatever; none where only a drill-down could tell. Which processes there are changes.
fn worst(report: &Value) -> BTreeMap<String, Option<usize>> {
    const WORSE: [&str; 4] = ["ok", "info", "warning", "critical"];
    let mut rules: BTreeMap<String, Option<usize>> = BTreeMap::new();
    for finding in report["findings"].as_array().unwrap() {
        let found = WORSE.iter().position(|status| finding["status"] == *status);
        let worst = rules.entry(finding["id"].as_str().unwrap().to_owned()).or_default();
        *worst = found.max(*worst);
    }
    rules
}

/// The rules that a run judged and the report about the past judges otherwise. What only a drill-down could tell is left out.
fn unlike(live: &Value, past: &Value) -> Vec<String> {
    let of_drill_down = |rule: &str| {
        let all = past["findings"].as_array().unwrap().iter().filter(|finding| finding["id"] == *rule);
        all.into_iter().all(|finding| finding.to_string().contains("not recorded then"))
    };
    let judged = worst(past);
    let mut live = worst(live);
    live.retain(|rule, worst| worst.is_some() && OTHERWISE.iter().all(|(known, _)| known != rule));
    live.retain(|rule, worst| judged.get(rule) != Some(worst) && !of_drill_down(rule));
    live.into_keys().map(|rule| format!("{rule}: {:?}", judged.get(&rule))).collect()
}

#[test]
#[ignore = "needs: a quiet machine"]
fn a_fault_that_is_over_is_judged_as_the_run_beside_it_did() {
    let _alone = alone();
    let place = tempfile::tempdir().unwrap();
    let history = place.path().join("history");
    let recorder = Recorder::start(&history, &["--interval", "1s", "--block", "8s"]);
    wait_until("the tail", || files(&history).contains(&"tail".to_owned()));
    let cpus = std::thread::available_parallelism().unwrap().get();
    let load = Load::start(4 * cpus, "sh", &["-c", LOOP]);
    std::thread::sleep(std::time::Duration::from_secs(2));
    let live = live_report(5);
    // The recorder's samples lie between those of the run: a second more on both sides has all of them. The load ends later still:
    // the last moments of a process that ended are of no process.
    std::thread::sleep(std::time::Duration::from_secs(2));
    drop(load);
    wait_until("a block after the fault", || blocks(&history) >= 2);
    assert_eq!(recorder.end().0, Some(0));
    let started: jiff::Timestamp = live["window"]["started"].as_str().unwrap().parse().unwrap();
    let end = started + jiff::SignedDuration::from_secs(6);
    let past = past_report(&history, &end.to_string(), "6s");
    for rule in ["cpu.saturation", "cpu.utilization"] {
        assert_eq!(verdict(&past, rule), verdict(&live, rule), "{rule}: {:#}", finding(&past, rule, None));
    }
    let unlike = unlike(&live, &past);
    assert!(unlike.is_empty(), "{}", unlike.join("\n"));
    assert_eq!(finding(&past, "cpu.saturation", None)["status"], "critical");
    assert_eq!(finding(&past, "cpu.saturation", None)["culprit"]["name"], "sh");
    // What only a probe could tell is no "ok".
    let latency = finding(&past, "cpu.saturation.run_queue_latency", None);
    assert_eq!(latency["status"], "unknown", "{latency:#}");
    assert!(latency.to_string().contains("not recorded then"), "{latency:#}");
}

#[test]
#[ignore = "needs: root"]
fn a_full_disk_costs_history_and_not_the_recorder() {
    if !has(&[Need::Root]) {
        return;
    }
    let _beside = beside_others();
    let place = tempfile::tempdir().unwrap();
    let disk = place.path().join("disk");
    std::fs::create_dir(&disk).unwrap();
    let mounted = |size: &str| {
        Command::new("mount").args(["-t", "tmpfs", "-o", size, "tmpfs"]).arg(&disk).status().unwrap().success()
    };
    let unmount = || assert!(Command::new("umount").arg(&disk).status().unwrap().success());
    let history = disk.join("history");

    // One per cent of a megabyte holds nothing.
    assert!(mounted("size=1m"));
    let recorder = Recorder::start(&history, &[]);
    std::thread::sleep(std::time::Duration::from_secs(5));
    assert_eq!(blocks(&history), 0);
    let (code, said) = recorder.end();
    unmount();
    assert_eq!(code, Some(0), "{said}");
    assert!(said.contains("1 % of the free space"), "{said}");
    assert!(said.lines().count() < 12, "it is said once, and not for each sample: {said}");

    assert!(mounted("size=64m"));
    let recorder = Recorder::start(&history, &[]);
    wait_until("a block", || blocks(&history) >= 1);
    let filler = disk.join("filler");
    let mut file = std::fs::File::create(&filler).unwrap();
    while std::io::Write::write_all(&mut file, &[1; 64 << 10]).is_ok() {}
    std::thread::sleep(std::time::Duration::from_secs(5));
    let kept = blocks(&history);
    std::fs::remove_file(&filler).unwrap();
    drop(file);
    wait_until("a block once there is room", || blocks(&history) > kept);
    let (code, said) = recorder.end();
    unmount();
    assert_eq!(code, Some(0), "{said}");
    assert!(said.contains("writing a"), "{said}");
}

#[test]
#[ignore = "needs: root, a quiet machine"]
fn pressure_pins_the_time_before_it_and_the_drill_down_names_who_made_it() {
    if !has(&[Need::Root]) {
        return;
    }
    let _alone = alone();
    let place = tempfile::tempdir().unwrap();
    let history = place.path().join("history");
    let recorder = Recorder::start(&history, &["--interval", "1s", "--block", "8s", "--trigger", "run"]);
    wait_until("a block before the fault", || blocks(&history) >= 1);
    let cpus = std::thread::available_parallelism().unwrap().get();
    let load = Load::start(4 * cpus, "sh", &["-c", LOOP]);
    let drill_down = || files(&history).into_iter().find(|name| name.starts_with("incident-"));
    // Ten seconds of pressure, and ten of the drill-down.
    wait_until("a drill-down", || drill_down().is_some());
    drop(load);
    let (code, said) = recorder.end();
    assert_eq!(code, Some(0), "{said}");
    assert!(said.contains("incident: PSI cpu some "), "{said}");
    let mut command = rdiag();
    command.args(["analyze", "--format", "json", "--out", "-"]);
    let output = command.arg(history.join(drill_down().unwrap())).output().unwrap();
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(
        verdict(&report, "cpu.saturation"),
        ["\"critical\"", "\"sh\""],
        "{:#}",
        finding(&report, "cpu.saturation", None)
    );
    // The recorder has few rights by then: what takes more was done by the process that was made before.
    let latency = finding(&report, "cpu.saturation.run_queue_latency", None);
    assert_ne!(latency["status"], "unknown", "{latency:#}");
    let listed = rdiag().args(["history", "list", "--history"]).arg(&history).output().unwrap();
    let listed = String::from_utf8(listed.stdout).unwrap();
    assert!(listed.contains("incident: PSI cpu some ") && listed.contains("  pinned  "), "{listed}");
}
