use serde_json::Value;

use crate::support::{assert_nothing_else_fired, finding, findings, recorded_report};

const API: &str = "/system.slice/api.service";

fn status<'r>(report: &'r Value, id: &str, instance: Option<&str>) -> &'r str {
    finding(report, id, instance)["status"].as_str().unwrap()
}

#[test]
fn a_throttled_service_on_an_idle_host_is_named_and_the_host_is_not_short_of_cpus() {
    let report = recorded_report("cgroup-v2-throttled");
    let found = finding(&report, "cgroup.saturation.throttling", Some(API));
    assert_eq!(found["status"], "critical");
    assert_eq!(found["culprit"]["name"], "api-server");
    assert!(found["summary"].as_str().unwrap().contains("85.0% idle"), "{found:#}");
    assert_eq!(status(&report, "cgroup.utilization.cpu", Some(API)), "warning");
    // The kernel counts being stopped as waiting for a CPU: 85 % in /proc/schedstat. The host is not to blame for it.
    let waits = finding(&report, "cpu.saturation", None);
    assert_eq!(waits["status"], "ok");
    assert!(waits["value"].as_f64().unwrap() < 0.05, "{waits:#}");
    assert_nothing_else_fired(&report, &["cgroup.saturation.throttling", "cgroup.utilization.cpu"]);
    assert_eq!(status(&report, "cgroup.utilization.memory", Some(API)), "ok", "page cache is no use of the limit");
}

#[test]
fn a_container_of_version_1_is_judged_by_the_same_rules() {
    let report = recorded_report("cgroup-v1-joined");
    let id = format!("/docker/{}", "5f2c".repeat(16));
    let throttled = finding(&report, "cgroup.saturation.throttling", Some(&id));
    assert_eq!((&throttled["status"], &throttled["culprit"]["name"]), (&"critical".into(), &"cc1plus".into()));
    let waits = finding(&report, "cpu.saturation", None);
    assert_eq!(waits["status"], "ok", "without /proc/schedstat the tasks tell, but for those that the quota stops");
    let refused = finding(&report, "cgroup.errors.pids", Some(&id));
    assert_eq!((&refused["status"], &refused["value"]), (&"critical".into(), &1.0.into()));
    assert_eq!(refused["culprit"]["labels"]["container"], "5f2c5f2c5f2c");
    assert_eq!(status(&report, "cgroup.utilization.cpu", Some(&id)), "ok", "78 % on average");
    assert_eq!(status(&report, "cgroup.utilization.memory", Some(&id)), "ok", "it is full of page cache");
    assert_eq!(status(&report, "cgroup.saturation.refaults", Some(&id)), "ok", "hits of the limit alone are cheap");
    let stalls = finding(&report, "cgroup.saturation.memory", None);
    assert_eq!((&stalls["status"], &stalls["unavailable"]["reason"]), (&"unknown".into(), &"absent".into()));
    assert_eq!(finding(&report, "cgroup.saturation.dying", None)["value"], 5.0);
    assert_nothing_else_fired(
        &report,
        &["cgroup.saturation.throttling", "cgroup.errors.pids", "cgroup.utilization.pids"],
    );
}

#[test]
fn on_a_hybrid_host_limits_come_from_version_1_and_stall_times_from_the_unified_tree() {
    let report = recorded_report("cgroup-hybrid");
    let group = Some("/system.slice/search.service");
    assert_eq!(status(&report, "cgroup.errors.oom", group), "critical");
    let stalls = finding(&report, "cgroup.saturation.memory", group);
    assert_eq!((&stalls["status"], &stalls["culprit"]["name"]), (&"critical".into(), &"searchd".into()));
    assert_eq!(status(&report, "cgroup.saturation.refaults", group), "warning");
    assert_eq!(status(&report, "cgroup.utilization.memory", group), "info");
    assert_nothing_else_fired(
        &report,
        &["cgroup.errors.oom", "cgroup.saturation.memory", "cgroup.saturation.refaults"],
    );
}

#[test]
fn in_a_container_what_lies_above_is_unknown_and_its_effect_is_seen() {
    let report = recorded_report("container-cgroup-namespace");
    assert_eq!(status(&report, "cgroup.saturation.above", Some("/")), "critical");
    assert_eq!(status(&report, "cgroup.saturation.throttling", Some("/")), "ok", "its own quota does not stop it");
    for id in ["cgroup.utilization.cpu", "cgroup.utilization.memory", "cgroup.utilization.pids"] {
        assert_eq!(status(&report, id, Some("/")), "ok", "{id}");
        let above = finding(&report, id, Some("(groups above)"));
        assert_eq!(above["unavailable"]["reason"], "not_visible", "{id}");
        assert_eq!(above["unavailable"]["remedy"], "run rdiag on the host", "{id}");
    }
    assert_nothing_else_fired(&report, &["cgroup.saturation.above"]);
}

#[test]
fn a_host_without_control_groups_has_nothing_to_judge() {
    let report = recorded_report("idle");
    for id in ["cgroup.saturation.throttling", "cgroup.errors.oom", "cgroup.errors.pids"] {
        let all = findings(&report, id);
        assert_eq!((all.len(), &all[0]["status"]), (1, &"skipped".into()), "{id}");
    }
}
