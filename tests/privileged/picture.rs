//! What a report shows of a task beside its sums: its threads over time, and who waited for whom.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::support::{Need, alone, has, rdiag};

const NEEDS: &[Need] = &[Need::Root, Need::Path("/sys/kernel/btf/vmlinux")];

/// A shell that waits for a child for a second, and then computes.
const SLEEPS_THEN_RUNS: &str = "sleep 1; i=0; while [ $i -lt 1500000 ]; do i=$((i + 1)); done";

fn profile(interval: &str, script: &str) -> Value {
    let output = rdiag()
        .args(["run", "method-r", "--format", "json", "--out", "-", "--budget", "100%", "--interval", interval])
        .args(["--", "sh", "-c", script])
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    let profile = report.get("profile").cloned().expect("a profile");
    assert_eq!(profile.get("level").and_then(Value::as_str), Some("L3"), "{profile:#}");
    profile
}

fn figure(value: &Value) -> f64 {
    value.as_f64().unwrap_or_else(|| panic!("{value} is no number"))
}

/// Pairs of component and seconds.
fn parts(value: &Value) -> BTreeMap<String, f64> {
    let pairs = value.as_array().unwrap().iter();
    pairs.map(|pair| (pair[0].as_str().unwrap().to_owned(), figure(&pair[1]))).collect()
}

/// The row of the first thread with this name, and its timeline.
fn thread<'p>(profile: &'p Value, name: &str) -> (&'p Value, &'p Value) {
    let rows = profile["threads"].as_array().unwrap();
    let row = rows.iter().find(|row| row["comm"] == name).unwrap_or_else(|| panic!("no {name}: {rows:#?}"));
    let timelines = profile["timelines"].as_array().unwrap();
    (row, timelines.iter().find(|timeline| timeline["tid"] == row["tid"]).expect("a timeline"))
}

#[test]
#[ignore = "needs: root, eBPF"]
fn a_timeline_tells_when_a_thread_waited_and_when_it_ran_and_adds_up_to_its_parts() {
    if !has(NEEDS) {
        return;
    }
    let _alone = alone();
    let profile = profile("200ms", SLEEPS_THEN_RUNS);
    let (row, timeline) = thread(&profile, "sh");
    let slices = timeline["slices"].as_array().unwrap();
    assert!(slices.len() > 12, "four in 200 ms: {slices:#?}");
    let born = figure(&slices[0]["from"]);
    let mut sums: BTreeMap<String, f64> = BTreeMap::new();
    let mut seen = (0, 0);
    for slice in slices {
        let (from, until) = (figure(&slice["from"]) - born, figure(&slice["until"]) - born);
        let parts = parts(&slice["parts"]);
        for (component, seconds) in &parts {
            *sums.entry(component.clone()).or_default() += seconds;
        }
        let whole: f64 = parts.values().sum();
        assert!((whole - (until - from)).abs() < 0.002, "{slice:#}");
        let waits = parts.get("wait.child").copied().unwrap_or(0.0) / whole;
        // It takes some time to start, and the child to end.
        if from > 0.2 && until < 0.95 {
            assert!(waits > 0.9, "it waits from {from} to {until}: {slice:#}");
            seen.0 += 1;
        } else if from > 1.3 {
            assert!(waits < 0.1, "it runs from {from} to {until}: {slice:#}");
            seen.1 += 1;
        }
    }
    assert!(seen.0 > 5 && seen.1 > 2, "{seen:?} {slices:#?}");
    for (component, seconds) in parts(&row["parts"]) {
        let drawn = sums.get(&component).copied().unwrap_or(0.0);
        assert!((drawn - seconds).abs() < 0.001, "{component}: {drawn} drawn, {seconds} in all: {profile:#}");
    }
}

#[test]
#[ignore = "needs: root, eBPF"]
fn a_chain_leads_from_a_shell_to_its_child_and_to_what_the_child_waited_for() {
    if !has(NEEDS) {
        return;
    }
    let _alone = alone();
    let profile = profile("500ms", "sleep 1; true");
    let (shell, _) = thread(&profile, "sh");
    let chain = &profile["chains"][0];
    let links = chain["links"].as_array().unwrap_or_else(|| panic!("{profile:#}"));
    let [first, second] = links.as_slice() else { panic!("{chain:#}") };
    assert_eq!(first["waiter"], format!("sh (thread {})", shell["tid"]));
    assert!(first["waker"].as_str().unwrap().starts_with("sleep (thread "), "{chain:#}");
    assert_eq!((&first["component"], &second["component"]), (&"wait.child".into(), &"wait.sleep".into()), "{chain:#}");
    assert!(second["waker"].as_str().unwrap().contains("interrupt"), "{chain:#}");
    // The shell waits for as long as its child sleeps, and that is nearly all of the window.
    let [least, most] = [0, 1].map(|at| figure(&second["together"][at]));
    assert!((0.99..1.05).contains(&most) && least <= most, "{chain:#}");
    assert!(figure(&first["seconds"]) >= most, "{chain:#}");
}
