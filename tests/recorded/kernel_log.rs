//! What the kernel log alone tells: lines of the window are findings, older ones are information, and what a program wrote is neither.
//! The hosts are made up of lines that kernels print.

use serde_json::Value;

use crate::support::{assert_nothing_else_fired, finding, recorded_report};

#[track_caller]
fn check<'r>(report: &'r Value, id: &str, instance: Option<&str>, status: &str, value: f64) -> &'r Value {
    let found = finding(report, id, instance);
    assert_eq!(found["status"], status, "{found:#}");
    assert!((found["value"].as_f64().unwrap() - value).abs() < 1e-6, "{id} is not {value}: {found:#}");
    found
}

#[test]
fn an_interrupt_that_nobody_handles_locks_up_a_cpu_and_floods_the_log() {
    let report = recorded_report("kernel-lockup");
    assert_nothing_else_fired(
        &report,
        &[
            "cpu.errors.lockup",
            "cpu.errors.real_time",
            "interrupts.errors.log",
            "interrupts.saturation.pressure",
            "kernel.saturation.log",
        ],
    );
    // A soft lockup and an RCU stall, which names nobody.
    let lockup = check(&report, "cpu.errors.lockup", None, "critical", 2.0);
    assert_eq!(lockup["culprit"]["name"], "kworker/2:1 (pid 345)");
    let headline = report["verdict"]["headline"].as_str().unwrap();
    assert!(headline.starts_with("Errors: CPU — ") && !headline.contains("Bottleneck"), "{headline}");
    let throttled = check(&report, "cpu.errors.real_time", None, "warning", 1.0);
    assert!(throttled["culprit"].is_null(), "the kernel does not say which task: {throttled:#}");
    let interrupt = check(&report, "interrupts.errors.log", None, "warning", 1.0);
    assert_eq!(interrupt["culprit"]["name"], "irq 16");
    check(&report, "interrupts.saturation.pressure", None, "warning", 0.2);
    let lost = check(&report, "kernel.saturation.log", None, "warning", 1500.0);
    assert!(lost["summary"].as_str().unwrap().ends_with("lost, 6 read."), "{lost:#}");
    assert_eq!(finding(&report, "kernel.utilization.clocksource", Some("tsc"))["status"], "ok");
    // What was overwritten may have held other lines: that none was seen rules nothing out.
    let hardware = finding(&report, "hardware.errors.log", None);
    assert_eq!((&hardware["status"], &hardware["confidence"]), (&"ok".into(), &"medium".into()), "{hardware:#}");
    let why = "records of the kernel log that were overwritten before they could be read: 1500";
    assert_eq!(hardware["confidence_reasons"][0], why);
    assert_eq!(lost["confidence"], "high", "{lost:#}");
    let said = report["verdict"]["ruled_out"].to_string();
    assert!(!said.contains("The kernel log has no"), "{said}");
}

#[test]
fn the_same_lines_from_an_hour_before_or_from_a_program_are_no_finding() {
    let report = recorded_report("kernel-log-old");
    assert_nothing_else_fired(&report, &[]);
    for id in [
        "cpu.errors.lockup",
        "cpu.errors.real_time",
        "interrupts.errors.log",
        "power.errors.thermal",
        "fd.errors.host",
        "filesystem.errors.server",
        "network.errors.device_log",
        "memory.errors.page_allocation",
    ] {
        let found = check(&report, id, None, "info", 0.0);
        assert!(found["culprit"].is_null(), "{id} accuses somebody: {found:#}");
    }
    check(&report, "interrupts.saturation.pressure", None, "ok", 0.09);
    check(&report, "kernel.saturation.log", None, "ok", 0.0);
    check(&report, "kernel.saturation.random", None, "ok", 1.0);
    check(&report, "kernel.utilization.clocksource", Some("kvm-clock"), "ok", 0.0);
    check(&report, "disk.errors.scsi", Some("sda"), "ok", 0.0);
}

#[test]
fn a_machine_soon_after_boot_is_hot_has_a_slow_clock_and_no_random_numbers() {
    let report = recorded_report("power-hot-after-boot");
    assert_nothing_else_fired(
        &report,
        &[
            "power.errors.thermal",
            "kernel.errors.clocksource",
            "kernel.utilization.clocksource",
            "kernel.saturation.random",
        ],
    );
    let hot = check(&report, "power.errors.thermal", None, "warning", 2.0);
    assert_eq!(hot["culprit"]["name"], "CPU1");
    let clock = check(&report, "kernel.utilization.clocksource", Some("hpet"), "info", 1.0);
    assert_eq!(clock["culprit"]["name"], "hpet");
    assert_eq!(finding(&report, "kernel.errors.clocksource", None)["culprit"]["name"], "tsc", "the one given up");
    // 64 of 256 bits.
    check(&report, "kernel.saturation.random", None, "warning", 0.25);
}

#[test]
fn a_file_server_that_is_silent_is_named_and_so_is_the_limit_that_it_leads_to() {
    let report = recorded_report("filesystem-server-silent");
    assert_nothing_else_fired(&report, &["filesystem.errors.server", "fd.errors.host"]);
    let server = check(&report, "filesystem.errors.server", None, "warning", 2.0);
    assert_eq!(server["culprit"]["name"], "filer2", "filer1 answers again");
    check(&report, "fd.errors.host", None, "critical", 1.0);
    // 0x1e to 0x21 failed, 0x1 to 0x2 timed out.
    let disk = check(&report, "disk.errors.scsi", Some("sdb"), "info", 4.0);
    assert_eq!(disk["culprit"]["name"], "sdb");
    check(&report, "disk.errors.scsi", Some("sda"), "ok", 0.0);
}

#[test]
fn a_kill_at_the_limit_of_a_group_above_a_container_is_seen_in_the_log_alone() {
    let report = recorded_report("container-killed-above");
    assert_nothing_else_fired(&report, &["cgroup.errors.oom_unseen"]);
    let kill = check(&report, "cgroup.errors.oom_unseen", None, "critical", 1.0);
    assert!(kill["log"][0].as_str().unwrap().contains("limit of the memory cgroup /kubepods/pod7"), "{kill:#}");
    assert_eq!(finding(&report, "cgroup.errors.oom", Some("/"))["status"], "ok", "its own group counts none");
}
