use std::path::PathBuf;
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::support::{Load, Need, alone, assert_nothing_else_fired, finding, findings, has, live_report};

/// A file on a real disk, read by fio past the page cache, that goes away with the test.
struct TestFile(PathBuf);

impl TestFile {
    const SIZE: &str = "--size=128M";

    fn new() -> Self {
        let file = Self(PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("rdiag-fio-{}", std::process::id())));
        let made = file.fio(&["--rw=write", "--bs=1M", "--end_fsync=1"]).status().unwrap();
        assert!(made.success(), "fio could not write {}", file.0.display());
        file
    }

    fn arguments(&self) -> [String; 5] {
        let name = format!("--filename={}", self.0.display());
        ["--name=test".into(), name, Self::SIZE.into(), "--direct=1".into(), "--output=/dev/null".into()]
    }

    fn fio(&self, more: &[&str]) -> Command {
        let mut command = Command::new("fio");
        command.args(self.arguments()).args(more).stdout(Stdio::null()).stderr(Stdio::null());
        command
    }

    /// Random reads of 4 KiB until the test ends.
    fn read(&self, more: &[&str]) -> Load {
        let arguments = self.arguments();
        let mut all: Vec<&str> = arguments.iter().map(String::as_str).collect();
        // As threads: job processes make sessions of their own, and would outlive the test.
        all.extend(["--rw=randread", "--bs=4k", "--time_based", "--runtime=20", "--thread"]);
        all.extend(more);
        let load = Load::start(1, "fio", &all);
        // It begins with reading its own options, checking the file and starting its workers.
        std::thread::sleep(std::time::Duration::from_millis(1500));
        load
    }
}

impl Drop for TestFile {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

/// The device that served the most reads.
fn busiest(report: &Value) -> &Value {
    let all = findings(report, "disk.utilization");
    let busy = |found: &&Value| found["value"].as_f64().unwrap_or(0.0);
    all.into_iter().max_by(|a, b| busy(a).total_cmp(&busy(b))).expect("a device was busy")
}

#[test]
#[ignore = "needs: a quiet machine, fio, a disk below the target folder"]
fn a_program_that_waits_for_one_read_after_the_other_is_named_and_the_disk_is_not_blamed() {
    let _alone = alone();
    if !has(&[Need::Tool("fio"), Need::Path("/proc/pressure/io")]) {
        return;
    }
    let file = TestFile::new();
    let load = file.read(&["--ioengine=psync"]);
    let report = live_report(5);
    drop(load);
    let waits = finding(&report, "disk.utilization.one_by_one", None);
    assert_eq!(waits["status"], "info", "{waits:#}");
    assert_eq!(waits["culprit"]["name"], "fio", "{waits:#}");
    assert!(waits["culprit"]["share"].as_f64().unwrap() > 0.9, "{waits:#}");
    // One request at a time is no saturation.
    assert_eq!(finding(&report, "disk.saturation.pressure", None)["status"], "ok");
    let headline = report["verdict"]["headline"].as_str().unwrap();
    assert!(!headline.contains("Bottleneck: disk"), "{headline}");
    assert_nothing_else_fired(&report, &[]);
}

#[test]
#[ignore = "needs: a quiet machine, fio, a disk below the target folder"]
fn a_fast_disk_busy_with_many_reads_at_once_is_not_saturated() {
    let _alone = alone();
    if !has(&[Need::Tool("fio")]) {
        return;
    }
    let file = TestFile::new();
    let load = file.read(&["--ioengine=libaio", "--iodepth=32"]);
    let report = live_report(5);
    drop(load);
    let device = busiest(&report);
    assert!(device["value"].as_f64().unwrap() > 0.5, "{device:#}");
    assert_eq!(device["status"], "ok", "{device:#}");
    let queue = finding(&report, "disk.saturation", device["instance"].as_str());
    assert!(queue["value"].as_f64().unwrap() > 4.0, "{queue:#}");
    // fio itself keeps half of a small machine's CPUs busy.
    assert_nothing_else_fired(&report, &["cpu."]);
}

#[test]
#[ignore = "needs: a quiet machine, fio, a disk below the target folder"]
fn a_queue_of_256_asynchronous_reads_is_saturation_and_names_who_fills_it() {
    let _alone = alone();
    if !has(&[Need::Tool("fio")]) {
        return;
    }
    let file = TestFile::new();
    let load = file.read(&["--ioengine=libaio", "--iodepth=256"]);
    let report = live_report(6);
    drop(load);
    let deep = deep_queue(&report);
    // The queue was there from the first interval to the last.
    let summary = deep["summary"].as_str().unwrap();
    assert!(summary.contains("unloaded latency unknown"), "{summary}");
    let headline = report["verdict"]["headline"].as_str().unwrap();
    assert!(headline.starts_with("Bottleneck: ") && headline.contains("disk saturation"), "{headline}");
    // fio itself keeps half of a small machine's CPUs busy.
    assert_nothing_else_fired(&report, &["cpu.", "disk.saturation."]);
}

#[test]
#[ignore = "needs: a quiet machine, fio, a disk below the target folder"]
fn a_queue_that_begins_within_the_run_is_compared_with_the_latency_before_it() {
    let _alone = alone();
    if !has(&[Need::Tool("fio")]) {
        return;
    }
    let file = TestFile::new();
    let light = file.read(&["--ioengine=psync", "--rate_iops=400"]);
    let load = file.read(&["--ioengine=libaio", "--iodepth=256", "--startdelay=5"]);
    let report = live_report(9);
    drop((light, load));
    let deep = deep_queue(&report);
    let summary = deep["summary"].as_str().unwrap();
    let times = summary.split(" × unloaded").next().and_then(|text| text.rsplit(' ').next()).unwrap_or_default();
    assert!(times.parse::<f64>().is_ok_and(|times| times > 3.0), "{summary}");
    assert!(summary.contains("least-loaded interval"), "{summary}");
}

/// The finding about the queue of 256 that fio keeps full.
fn deep_queue(report: &Value) -> &Value {
    let busy = busiest(report).get("instance").and_then(Value::as_str);
    let deep = finding(report, "disk.saturation.depth", busy);
    let text = |key: &str| deep.pointer(key).and_then(Value::as_str).unwrap_or_default();
    assert_eq!((text("/status"), text("/culprit/name")), ("warning", "fio"), "{deep:#}");
    let summary = text("/summary");
    assert!(summary.contains(" slots, await ") && summary.contains("async I/O"), "{summary}");
    deep
}

#[test]
#[ignore = "needs: a quiet machine, fio, a disk below the target folder"]
fn a_disk_that_is_busy_with_one_large_read_at_a_time_is_not_saturated() {
    let _alone = alone();
    if !has(&[Need::Tool("fio")]) {
        return;
    }
    let file = TestFile::new();
    let load = file.read(&["--ioengine=psync", "--bs=2m"]);
    let report = live_report(5);
    drop(load);
    let device = busiest(&report);
    assert!(device["value"].as_f64().unwrap() > 0.8, "{device:#}");
    for id in ["disk.saturation", "disk.saturation.depth"] {
        let quiet = finding(&report, id, device["instance"].as_str());
        assert_eq!(quiet["status"], "ok", "{quiet:#}");
    }
    let headline = report["verdict"]["headline"].as_str().unwrap();
    assert!(!headline.contains("Bottleneck: disk"), "{headline}");
}

#[test]
#[ignore = "needs: root, eBPF, a quiet machine, fio, a disk below the target folder"]
fn whose_requests_a_disk_serves_is_measured_inside_the_kernel() {
    let _alone = alone();
    if !has(&[Need::Root, Need::Tool("fio"), Need::Path("/sys/kernel/btf/vmlinux")]) {
        return;
    }
    let file = TestFile::new();
    let _load = file.read(&["--iodepth=1"]);
    let report = live_report(5);
    let all = findings(&report, "disk.saturation.io_latency");
    // The sentence of one that is fast enough, the culprit of another.
    let name = file.0.file_name().unwrap().to_str().unwrap();
    let named = |found: &Value| {
        let told = format!("{} {}", found["summary"], found["culprit"]);
        ["ok", "info", "warning"].contains(&found["status"].as_str().unwrap())
            && told.contains("fio")
            && told.contains(name)
    };
    assert!(all.iter().any(|found| named(found)), "no device was timed whose time is fio's, for its file: {all:#?}");
    let probe = &report["probes"].as_array().unwrap().iter().find(|probe| probe["probe"] == "biotop");
    assert!(probe.expect("biotop ran").to_string().contains("fio"), "{probe:#?}");
}
