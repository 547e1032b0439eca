use serde_json::Value;

use crate::support::{assert_nothing_else_fired, finding, recorded_report};

fn status<'r>(report: &'r Value, id: &str) -> &'r str {
    finding(report, id, None)["status"].as_str().unwrap()
}

fn summary<'r>(report: &'r Value, id: &str) -> &'r str {
    finding(report, id, None)["summary"].as_str().unwrap()
}

#[test]
fn memory_full_of_cache_raises_nothing_however_busy_the_reclaim_threads_are() {
    let report = recorded_report("memory-full-of-cache");
    assert_nothing_else_fired(&report, &[]);
    for id in
        ["memory.utilization", "memory.saturation", "memory.saturation.direct_reclaim", "memory.saturation.kswapd"]
    {
        assert_eq!(status(&report, id), "ok", "{id}");
    }
    assert_eq!(
        status(&report, "memory.saturation.thrashing"),
        "ok",
        "files larger than the memory come back by nature"
    );
    for id in ["memory.saturation.swap_in", "memory.utilization.swap", "memory.utilization.overcommit"] {
        assert_eq!(status(&report, id), "skipped", "{id}: there is no swap, and overcommitting is allowed");
    }
}

#[test]
fn swapping_to_compressed_memory_says_so_and_names_who_waits() {
    let report = recorded_report("memory-zram-swap");
    assert_nothing_else_fired(&report, &["memory.saturation", "memory.saturation."]);
    let found = finding(&report, "memory.saturation.swap_in", None);
    assert_eq!((&found["status"], &found["culprit"]["name"]), (&"critical".into(), &"firefox".into()));
    assert!(summary(&report, "memory.saturation.swap_in").contains("zram"));
    assert_eq!(status(&report, "memory.saturation"), "critical");
    assert_eq!(finding(&report, "memory.utilization.zram", None)["unavailable"]["reason"], "not_applicable");
    assert_eq!(finding(&report, "memory.errors.zram", Some("zram0"))["status"], "ok");
}

#[test]
fn a_5_4_kernel_without_pressure_accounting_still_tells_a_shortage() {
    let report = recorded_report("memory-thrashing-5.4");
    assert_nothing_else_fired(&report, &["memory."]);
    let pressure = finding(&report, "memory.saturation", None);
    assert_eq!(pressure["status"], "unknown");
    assert!(pressure["unavailable"]["remedy"].as_str().unwrap().contains("psi=1"));
    assert_eq!(status(&report, "memory.utilization"), "critical");
    assert_eq!(status(&report, "memory.saturation.direct_reclaim"), "critical");
    let thrashing = finding(&report, "memory.saturation.thrashing", None);
    assert_eq!((&thrashing["status"], &thrashing["culprit"]["name"]), (&"warning".into(), &"postgres".into()));
    assert_eq!(status(&report, "memory.saturation.kswapd"), "warning");
    assert_ne!(thrashing["confidence"], "high", "nobody could check how long tasks waited");
}

#[test]
fn files_cut_short_are_unknown_and_never_ok() {
    let report = recorded_report("memory-truncated");
    assert_nothing_else_fired(&report, &[]);
    let files = ["memory.utilization", "memory.saturation", "memory.errors.oom", "memory.errors.huge_pages"];
    for found in report["findings"].as_array().unwrap() {
        let read_from_a_cut_file = files.iter().any(|id| found["id"].as_str().unwrap().starts_with(id));
        assert!(!read_from_a_cut_file || found["status"] != "ok", "{}: {}", found["id"], found["summary"]);
    }
    assert_eq!(status(&report, "memory.utilization"), "unknown");
    assert_eq!(status(&report, "memory.errors.oom"), "unknown");
    assert_eq!(finding(&report, "kernel.errors.bug", None)["unavailable"]["reason"], "malformed");
}

#[test]
fn a_kill_names_its_victim_and_that_the_host_ran_out() {
    let report = recorded_report("memory-oom-killed");
    assert_nothing_else_fired(&report, &["memory.errors.oom"]);
    let oom = finding(&report, "memory.errors.oom", None);
    assert_eq!((&oom["status"], &oom["value"]), (&"critical".into(), &1.0.into()));
    assert_eq!(oom["culprit"]["name"], "me (a) b (pid 2001)");
    assert!(oom["log"][0].as_str().unwrap().contains("the whole host was out of memory"));
    assert!(
        oom["log"][1].as_str().unwrap().contains("limit of the memory cgroup /kubepods/pod1"),
        "the old one follows"
    );
    assert!(oom["summary"].as_str().unwrap().contains("not because of a memory cgroup"), "{}", oom["summary"]);
    assert_eq!(status(&report, "kernel.errors.crash"), "info", "the crash was long before the window");
}

#[test]
fn parked_swap_and_old_lines_of_the_log_are_only_worth_knowing() {
    let report = recorded_report("memory-swap-parked");
    assert_nothing_else_fired(&report, &[]);
    let worth_knowing = [
        "memory.utilization.swap",
        "memory.errors.oom",
        "memory.errors.swap",
        "kernel.errors.bug",
        "kernel.errors.warning",
        "kernel.errors.hung_task",
        "kernel.errors.clocksource",
        "hardware.errors.log",
    ];
    for id in worth_knowing {
        assert_eq!(status(&report, id), "info", "{id}");
        assert!(finding(&report, id, None)["culprit"].is_null() || id.ends_with(".swap"), "{id} accuses somebody");
    }
    assert_eq!(status(&report, "memory.saturation.swap_in"), "ok");
    assert_eq!(status(&report, "kernel.errors.crash"), "ok");
}

#[test]
fn a_log_that_may_not_be_read_is_unknown_with_the_least_remedy() {
    let report = recorded_report("kernel-log-denied");
    for id in ["kernel.errors.bug", "kernel.errors.crash", "hardware.errors.log", "memory.errors.swap"] {
        let found = finding(&report, id, None);
        assert_eq!((&found["status"], &found["unavailable"]["reason"]), (&"unknown".into(), &"denied".into()), "{id}");
        assert!(found["unavailable"]["remedy"].as_str().unwrap().contains("CAP_SYSLOG"));
    }
    assert_eq!(status(&report, "memory.errors.oom"), "ok", "kills are counted elsewhere too");
    assert_eq!(status(&report, "memory.utilization.overcommit"), "warning", "overcommitting is forbidden there");
}

#[test]
fn a_program_that_writes_faster_than_the_disk_is_slowed_down_and_named() {
    let report = recorded_report("disk-writers-paced");
    assert_nothing_else_fired(&report, &["disk.saturation.writeback"]);
    let found = finding(&report, "disk.saturation.writeback", None);
    assert_eq!((&found["status"], &found["culprit"]["name"]), (&"warning".into(), &"copy".into()));
}
