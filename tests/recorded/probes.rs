//! What a probe measured, from a recording to the report: figures of a real run, judged by rules made for the test.

use serde_json::Value;

use crate::support::{finding, path, rdiag};

const PLAYBOOK: &str = "
format_version: 1
name: waits
title: Which tasks wait for a CPU?
params:
  duration: {type: duration, default: 5s, help: the measurement window}
  interval: {type: duration, default: 1s, help: the distance of two samples}
steps:
  - id: cpu-waits
    question: Which tasks wait for a CPU, and for how long?
    collect: [runqlat]
    rules: [cpu.saturation.latency]
";

const RULES: &str = "
- id: cpu.saturation.latency
  title: Tasks wait long for a CPU
  value: runqlat.p99.seconds.mean
  unit: seconds
  warning: value > 0.05
  says: \"99 % of the waits were shorter than {{ value|seconds }}.\"
  quiet: Tasks get a CPU soon.
  why: A task that waits does nothing else.
  verify: perf sched latency
  next: [Look at who runs.]
  tests:
    - {given: {runqlat.p99.seconds.mean: 0.1}, expect: warning}
    - {given: {runqlat.p99.seconds.mean: 0.001}, expect: ok}
";

/// The report on the fixture, after a change.
fn judged(change: impl Fn(&mut Value), format: &str) -> String {
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir(folder.path().join("rules")).unwrap();
    std::fs::write(folder.path().join("rules/latency.yaml"), RULES).unwrap();
    let playbook = folder.path().join("waits.yaml");
    std::fs::write(&playbook, PLAYBOOK).unwrap();
    let text = std::fs::read_to_string(path("tests/fixtures/recordings/run-queue-waits.json")).unwrap();
    let mut recording: Value = serde_json::from_str(&text).unwrap();
    change(recording.pointer_mut("/windows/0/probes/runqlat").unwrap());
    crate::schema::validate("recording", &recording);
    let file = folder.path().join("recording.json");
    std::fs::write(&file, recording.to_string()).unwrap();
    let output = rdiag()
        .arg("analyze")
        .arg(&file)
        .arg("--playbook")
        .arg(&playbook)
        .args(["-v", "--format", format, "--out", "-"])
        .output()
        .unwrap();
    // 3: nothing could be judged.
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(matches!(output.status.code(), Some(0 | 3)), "{stderr}");
    String::from_utf8(output.stdout).unwrap()
}

fn report(change: impl Fn(&mut Value)) -> Value {
    let report = serde_json::from_str(&judged(change, "json")).unwrap();
    crate::schema::validate("report", &report);
    report
}

#[test]
fn what_a_probe_measured_is_in_the_report_with_its_question_and_step() {
    let report = report(|_| {});
    let probe = &report["probes"][0];
    assert_eq!(probe["steps"][0], "cpu-waits");
    assert!(probe["question"].as_str().unwrap().ends_with('?'), "{probe}");
    assert_eq!(probe["metrics"]["runqlat.p99.seconds"], "wait");
    let finding = finding(&report, "cpu.saturation.latency", None);
    assert_eq!((finding["status"].as_str(), finding["confidence"].as_str()), (Some("warning"), Some("high")));
    assert_eq!(finding["value"], probe["outputs"][0]["histogram"]["rows"][0]["p99"]);
    let source = finding["evidence"][0]["source"].as_str().unwrap();
    assert_eq!(source, "the probe runqlat, 99th percentile of its distribution “wait”");
}

#[test]
fn a_finding_trusts_a_probe_that_lost_events_less_and_says_why() {
    let report = report(|probe| probe["Ok"]["lost"] = serde_json::json!({"the table of tasks was full": 512}));
    let finding = finding(&report, "cpu.saturation.latency", None);
    assert_eq!(finding["confidence"], "medium");
    let reason = finding["confidence_reasons"][0].as_str().unwrap();
    assert_eq!(reason, "512 events were lost: the table of tasks was full");
}

#[test]
fn a_finding_trusts_stacks_that_cannot_be_read_less() {
    let stacks = |truncated: f64| {
        let stack = serde_json::json!({"owner": "a", "frames": [], "value": 10.0, "count": 1});
        report(move |probe| {
            let stacks = serde_json::json!({"id": "s", "title": "time off CPU", "unit": "seconds", "frames": [],
                "stacks": [stack], "others": 0.0, "unresolved": 0.0, "truncated": truncated, "missing": 0.0});
            probe["Ok"]["outputs"].as_array_mut().unwrap().push(serde_json::json!({"stacks": stacks}));
        })
    };
    let (good, weak) = (stacks(2.0), stacks(4.0));
    assert_eq!(finding(&good, "cpu.saturation.latency", None)["confidence"], "high");
    let weak = finding(&weak, "cpu.saturation.latency", None);
    assert_eq!(weak["confidence"], "medium");
    assert_eq!(weak["confidence_reasons"][0], "40.0% of time off CPU is in stacks that seem cut short");
}

#[test]
fn a_probe_that_could_not_run_leaves_its_checks_unknown_and_is_told_once() {
    let why = "this user may not load programs into the kernel";
    let report = report(|probe| {
        *probe = serde_json::json!({"Err": {"reason": "denied", "why": why, "remedy": "run rdiag as root"}});
    });
    assert_eq!(report["probes"], serde_json::json!([]));
    assert_eq!(finding(&report, "cpu.saturation.latency", None)["status"], "unknown");
    let groups = report["coverage"]["groups"].as_array().unwrap();
    let [only] = groups.as_slice() else { panic!("{groups:#?}") };
    assert_eq!(
        (&only["why"], &only["probes"][0], &only["remedy"]),
        (&why.into(), &"runqlat".into(), &"run rdiag as root".into())
    );
}

#[test]
fn the_page_and_the_comment_show_who_waited() {
    let page = judged(|_| {}, "html");
    assert!(page.contains("<a href=\"#probe-1\">runqlat</a>") && page.contains("id=\"probe-1\""), "{page}");
    let comment = judged(|_| {}, "md");
    assert!(comment.contains("## Inside the kernel") && comment.contains("| rustc "), "{comment}");
}
