//! Counters of hardware that fails, and of the same hardware that is well: errors of memory, CPUs, PCI Express links and ports of a fabric,
//! temperatures, throttling and the limit of power.

use serde_json::Value;

use crate::support::{assert_nothing_else_fired, finding, recorded_report};

const RULES: [(&str, Option<&str>); 10] = [
    ("hardware.errors.memory", Some("mc0")),
    ("hardware.errors.memory", Some("mc1")),
    ("hardware.errors.machine_check", None),
    ("hardware.errors.pcie", None),
    ("hardware.errors.fabric", Some("host3")),
    ("hardware.utilization.pcie_links", None),
    ("power.saturation.throttling", Some("package 0")),
    ("power.saturation.limit", Some("intel-rapl:0 package-0")),
    ("power.utilization.temperature", Some("hwmon1 coretemp")),
    ("power.utilization.temperature", Some("thermal_zone0 acpitz")),
];

#[track_caller]
fn check<'r>(report: &'r Value, id: &str, instance: Option<&str>, status: &str, value: f64) -> &'r Value {
    let found = finding(report, id, instance);
    assert_eq!(found["status"], status, "{found:#}");
    assert!((found["value"].as_f64().unwrap() - value).abs() < 1e-6, "{id} is not {value}: {found:#}");
    found
}

#[test]
fn hardware_that_fails_is_found_by_its_own_counters() {
    let report = recorded_report("hardware-failing");
    let ids: Vec<&str> = RULES.iter().map(|(id, _)| *id).collect();
    assert_nothing_else_fired(&report, &ids);
    let corrected = check(&report, "hardware.errors.memory", Some("mc0"), "warning", 3.0);
    assert_eq!(corrected["culprit"]["name"], "mc0");
    check(&report, "hardware.errors.memory", Some("mc1"), "critical", 1.0);
    check(&report, "hardware.errors.memory", Some("mc2"), "ok", 0.0);
    check(&report, "hardware.errors.machine_check", None, "critical", 2.0);
    // 28 in five seconds.
    let link = check(&report, "hardware.errors.pcie", None, "warning", 28.0);
    assert_eq!(link["culprit"]["name"], "0000:01:00.0");
    // Two lost links and seven words in error.
    check(&report, "hardware.errors.fabric", Some("host3"), "warning", 9.0);
    check(&report, "hardware.errors.fabric", Some("mlx5_0/1"), "ok", 0.0);
    let narrow = check(&report, "hardware.utilization.pcie_links", None, "info", 1.0);
    assert_eq!(narrow["culprit"]["name"], "0000:01:00.0");
    // Two of a core and one of the package.
    check(&report, "power.saturation.throttling", Some("package 0"), "warning", 3.0);
    // 122.5 of 125 W, though the counter wraps.
    check(&report, "power.saturation.limit", Some("intel-rapl:0 package-0"), "info", 0.98);
    check(&report, "power.utilization.temperature", Some("hwmon1 coretemp"), "warning", 3.0);
    check(&report, "power.utilization.temperature", Some("thermal_zone0 acpitz"), "ok", 31.0);
}

#[test]
fn the_same_hardware_is_well_whatever_it_counted_long_ago() {
    let report = recorded_report("hardware-well");
    assert_nothing_else_fired(&report, &[]);
    for (id, instance) in RULES {
        assert_eq!(finding(&report, id, instance)["status"], "ok", "{id} {instance:?}");
    }
}
