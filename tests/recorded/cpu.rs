use crate::support::{assert_nothing_else_fired, finding, findings, recorded_report};

#[test]
fn an_idle_host_raises_nothing() {
    let report = recorded_report("idle");
    assert_nothing_else_fired(&report, &[]);
    for id in ["cpu.utilization", "cpu.saturation", "cpu.saturation.runnable", "cpu.saturation.pressure"] {
        assert_eq!(finding(&report, id, None)["status"], "ok", "{id}");
    }
    assert_eq!(finding(&report, "interrupts.saturation", None)["status"], "ok");
    assert_eq!(finding(&report, "interrupts.errors", None)["status"], "ok");
    assert_eq!(finding(&report, "cpu.saturation.steal", None)["status"], "skipped", "there is no hypervisor");
}

#[test]
fn without_pressure_accounting_the_other_signs_still_give_a_verdict() {
    let report = recorded_report("psi-off");
    assert_nothing_else_fired(&report, &[]);
    let pressure = finding(&report, "cpu.saturation.pressure", None);
    assert_eq!(pressure["status"], "unknown");
    assert_eq!(pressure["unavailable"]["reason"], "absent");
    assert!(pressure["unavailable"]["remedy"].as_str().unwrap().contains("psi=1"));
    assert_eq!(finding(&report, "cpu.saturation", None)["status"], "ok");
}

#[test]
fn a_cpu_that_goes_away_within_the_window_makes_no_spike() {
    let report = recorded_report("cpu-hot-unplug");
    assert_nothing_else_fired(&report, &[]);
    let offline = finding(&report, "cpu.utilization.offline", None);
    assert_eq!((&offline["status"], &offline["value"]), (&"info".into(), &1.0.into()));
    let saturation = finding(&report, "cpu.saturation", None);
    assert_eq!(saturation["status"], "ok");
    assert!(saturation["value"].as_f64().unwrap() < 0.05, "the sums of two sets of CPUs were compared");
    let rate = finding(&report, "interrupts.utilization.rate", None);
    assert_eq!(rate["unavailable"]["reason"], "reset");
    assert_eq!(finding(&report, "cpu.utilization.core", Some("3"))["status"], "ok", "it is judged while it was there");
}

#[test]
fn four_spinners_for_each_cpu_are_critical_and_named() {
    let report = recorded_report("cpu-saturated");
    assert_nothing_else_fired(&report, &["cpu."]);
    for id in ["cpu.saturation", "cpu.saturation.runnable", "cpu.saturation.pressure"] {
        let found = finding(&report, id, None);
        assert_eq!(found["status"], "critical", "{id}");
        assert_eq!(found["culprit"]["name"], "spinner", "{id}");
    }
    let share = finding(&report, "cpu.saturation", None)["value"].as_f64().unwrap();
    assert!((share - 0.75).abs() < 0.02, "four tasks for each CPU wait three quarters of the time, not {share}");
    assert_eq!(finding(&report, "cpu.utilization", None)["status"], "warning");
    let core = finding(&report, "cpu.saturation.core", None);
    assert_eq!(core["status"], "unknown", "without /proc/schedstat nobody knows who waits for which CPU");
    assert!(core["unavailable"]["remedy"].as_str().unwrap().contains("CONFIG_SCHEDSTATS"));
}

#[test]
fn niced_work_is_only_worth_knowing() {
    let report = recorded_report("cpu-niced-short");
    assert_nothing_else_fired(&report, &[]);
    let busy = finding(&report, "cpu.utilization", None);
    assert_eq!(busy["status"], "info");
    assert_eq!(busy["culprit"]["name"], "batch");
}

#[test]
fn one_full_cpu_among_idle_ones_is_told_from_a_lack_of_cpus() {
    let report = recorded_report("cpu-one-core");
    assert_nothing_else_fired(&report, &["cpu.utilization.core", "cpu.saturation.core"]);
    assert_eq!(finding(&report, "cpu.utilization.core", Some("0"))["status"], "warning");
    assert_eq!(finding(&report, "cpu.saturation.core", Some("0"))["status"], "warning");
    assert_eq!(finding(&report, "cpu.saturation.core", Some("1"))["status"], "ok");
    assert_eq!(finding(&report, "cpu.saturation", None)["status"], "ok");
}

#[test]
fn stolen_time_is_blamed_on_the_hypervisor_and_on_no_process() {
    let report = recorded_report("cpu-stolen");
    let steal = finding(&report, "cpu.saturation.steal", None);
    assert_eq!(steal["status"], "critical");
    assert!(steal["culprit"].is_null());
    assert!(findings(&report, "cpu.saturation.steal_burst").iter().all(|found| found["status"] == "warning"));
    assert_nothing_else_fired(&report, &["cpu.saturation.steal", "cpu.saturation.steal_burst", "cpu.utilization"]);
}

#[test]
fn a_storm_of_packets_on_one_cpu_names_that_cpu() {
    let report = recorded_report("interrupt-storm");
    let saturation = finding(&report, "interrupts.saturation", None);
    assert_eq!(saturation["status"], "critical");
    assert_eq!((&saturation["culprit"]["kind"], &saturation["culprit"]["name"]), (&"cpu".into(), &"0".into()));
    assert_eq!(finding(&report, "interrupts.utilization", None)["status"], "info");
    assert_eq!(finding(&report, "interrupts.utilization.rate", None)["status"], "info");
    assert_eq!(finding(&report, "interrupts.errors", None)["status"], "warning");
    assert_nothing_else_fired(&report, &["interrupts.", "cpu.utilization.core"]);
}

#[test]
fn cpu_time_of_processes_that_no_sample_saw_is_charged_to_them_and_to_no_visible_process() {
    let report = recorded_report("cpu-short-lived-processes");
    assert_nothing_else_fired(&report, &["cpu.utilization", "cpu.utilization.unseen"]);
    // make and sh used 56 of 320 ticks each second.
    let unseen = finding(&report, "cpu.utilization.unseen", None);
    assert_eq!(unseen["status"], "warning", "{unseen:#}");
    assert!((unseen["value"].as_f64().unwrap() - 264.0 / 320.0).abs() < 1e-6, "{unseen:#}");
    assert_eq!(unseen["culprit"]["name"], "short-lived processes");
    assert!(unseen["summary"].as_str().unwrap().contains("fork rate 400/s"), "{unseen:#}");
}

#[test]
fn the_same_load_of_processes_that_live_is_charged_to_them() {
    let report = recorded_report("cpu-visible-processes");
    assert_nothing_else_fired(&report, &["cpu.utilization"]);
    // Four compilers used 1148 ticks, make and sh 280, of 1600.
    let unseen = finding(&report, "cpu.utilization.unseen", None);
    assert_eq!(unseen["status"], "ok", "{unseen:#}");
    assert!((unseen["value"].as_f64().unwrap() - 172.0 / 1600.0).abs() < 1e-6, "{unseen:#}");
}
