//! How far a verdict is trusted: what lowers the confidence, by how much, and what the report says of it.

use crate::support::{finding, path, recorded_report};

/// Trees that last less than the 4.5 s below which a window counts as short, on purpose.
const SHORT: [&str; 2] = ["cpu-niced-short", "disk-slow-layer-short"];

#[test]
fn every_tree_lasts_five_seconds_but_those_that_are_short_on_purpose() {
    let mut short = Vec::new();
    for entry in std::fs::read_dir(path("tests/fixtures/hosts")).unwrap() {
        let folder = entry.unwrap().path();
        let text = std::fs::read_to_string(folder.join("host.yaml")).unwrap();
        let spec: serde_yaml::Value = serde_yaml::from_str(&text).unwrap();
        let times = spec["times"].as_sequence().unwrap();
        let seconds = times.last().unwrap().as_f64().unwrap() - times[0].as_f64().unwrap();
        let folders = std::fs::read_dir(&folder).unwrap().count() - 1;
        assert!(folders <= times.len(), "{}: a folder without an instant", folder.display());
        if seconds < 5.0 {
            short.push(folder.file_name().unwrap().to_str().unwrap().to_owned());
        }
    }
    short.sort_unstable();
    assert_eq!(short, SHORT);
}

#[test]
fn a_short_window_costs_one_step_of_confidence_and_the_report_says_why() {
    for (story, id, instance, status) in [
        ("disk-slow-layer-short", "disk.saturation.read_latency", Some("dm-0"), "warning"),
        ("cpu-niced-short", "cpu.utilization", None, "info"),
    ] {
        let report = recorded_report(story);
        let found = finding(&report, id, instance);
        assert_eq!(found["status"], status, "{story}");
        assert_eq!(found["confidence"], "medium", "{story}");
        assert_eq!(found["confidence_reasons"], serde_json::json!(["the window was only 4.0 s long"]), "{story}");
    }
}

#[test]
fn the_verdict_says_once_that_the_whole_run_was_short() {
    // Its drill-down covers the same seconds.
    let report = recorded_report("disk-slow-layer-short");
    assert_eq!((&report["window"]["windows"], &report["window"]["seconds"]), (&2.into(), &4.0.into()));
    let limits = report["verdict"]["limits"].to_string();
    assert!(limits.contains("The run was only 4.0 s long: short bursts weigh much in it."), "{limits}");
    assert!(!limits.contains("the window was only"), "{limits}");
}

#[test]
fn a_window_that_is_long_enough_costs_none() {
    for (story, id, instance) in [
        ("cpu-one-core", "cpu.saturation.core", Some("0")),
        ("disk-overloaded-4.15", "disk.saturation", Some("sda")),
        ("network-link-full", "network.saturation.ring", Some("eth0")),
        ("memory-full-of-cache", "memory.utilization", None),
    ] {
        let report = recorded_report(story);
        let found = finding(&report, id, instance);
        assert_eq!(found["confidence"], "high", "{story}: {found:#}");
        assert_eq!(found["confidence_reasons"], serde_json::json!([]), "{story}");
        assert!(!report["verdict"]["limits"].to_string().contains("was only"), "{story}");
    }
}

#[test]
fn counters_that_were_reset_cost_confidence_where_they_are_cited_and_nowhere_else() {
    let report = recorded_report("disk-oddities");
    let exchanged = finding(&report, "disk.utilization", Some("sdd"));
    assert_eq!(exchanged["confidence"], "low", "three of its counters were reset");
    let reasons: Vec<&str> =
        exchanged["confidence_reasons"].as_array().unwrap().iter().flat_map(|r| r.as_str()).collect();
    assert_eq!(reasons[0], "disk.busy.ratio leaves out 1 interval: the counter was reset");
    assert_eq!(reasons.len(), 3, "{reasons:#?}");
    let wrapped = finding(&report, "disk.utilization", Some("sda"));
    assert_eq!(wrapped["confidence"], "high", "a counter that wraps is no reset: {wrapped:#}");
}

#[test]
fn a_second_best_source_costs_one_step() {
    let report = recorded_report("cpu-saturated");
    let found = finding(&report, "cpu.saturation", None);
    assert_eq!(found["confidence"], "medium");
    let reason = found["confidence_reasons"][0].as_str().unwrap();
    assert!(reason.starts_with("cpu.runqueue.wait.ratio was taken from /proc/PID/schedstat"), "{reason}");
    assert_eq!(finding(&report, "cpu.utilization", None)["confidence"], "high", "it needs no fallback");
}
