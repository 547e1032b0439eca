//! Times that below recorded.

use serde_json::Value;

use super::{assert_names_the_job, told_elsewhere};

/// Sixteen seconds of below 0.9.0, six tables one behind the other: on a host with 2 CPUs four processes compute from the fourth second to the last
/// but one. below was in a PID namespace, so what ran outside of it has no rows. Some columns and processes that had ended are left out.
fn dump_of_below() -> String {
    std::fs::read_to_string(crate::support::path("tests/fixtures/below/below-0.9.0.json")).unwrap()
}

#[test]
fn a_dump_of_below_gives_a_verdict_with_the_culprit_and_knows_no_wait_for_a_cpu() {
    let (code, report, said) = told_elsewhere("--from", "10s", dump_of_below().as_bytes(), "2026-03-10T03:00:13Z");
    assert_eq!(code, Some(0), "{said}");
    assert!(said.contains("Source: below, a sample every 2 s"), "{said}");
    assert!(said.contains("below records no busy time and no queue of disks"), "{said}");
    assert!(!said.contains("tables that are not read") && !said.contains("is not known"), "{said}");
    let host = &report["host"];
    assert_eq!(
        (&host["hostname"], &host["cpus"], &host["kernel"]),
        (&"web-03".into(), &2.into(), &"6.1.0-18-amd64".into())
    );
    assert_eq!((&report["window"]["seconds"], &report["window"]["interval_seconds"]), (&10.0.into(), &2.0.into()));
    let of = |rule: &str| crate::support::finding(&report, rule, None).clone();
    for rule in ["cpu.utilization", "cpu.saturation.runnable"] {
        assert_names_the_job(&of(rule));
    }
    let saturation = of("cpu.saturation");
    assert_eq!(saturation["status"], "unknown", "{saturation:#}");
    for rule in ["disk.utilization", "disk.saturation", "kernel.errors.bug", "filesystem.utilization"] {
        let finding = of(rule);
        assert_eq!(finding["status"], "unknown", "{finding:#}");
        assert!(finding["unavailable"]["why"].as_str().unwrap().contains("below does not record it"), "{finding:#}");
    }
    assert_eq!(of("memory.errors.oom")["status"], "ok");
    assert!(!report.to_string().contains("hunter2"), "a password of a command line");
    // Before the fourth second it was quiet.
    let (_, report, said) = told_elsewhere("--from", "2s", dump_of_below().as_bytes(), "2026-03-10T03:00:01Z");
    let finding = crate::support::finding(&report, "cpu.utilization", None);
    assert_eq!(finding["status"], "ok", "{said}{finding:#}");
}

#[test]
fn a_dump_of_below_with_units_or_without_a_table_says_what_to_type() {
    let dump = dump_of_below();
    let refused = |text: &str, wanted: &str| {
        let (code, _, said) = told_elsewhere("--from", "10s", text.as_bytes(), "2026-03-10T03:00:13Z");
        let typed =
            "`for table in system process cgroup disk iface transport; do below dump $table --everything --raw -O json";
        assert!(code == Some(2) && said.contains(wanted) && said.contains(typed), "{said}");
    };
    refused(&dump.replace("\"Total\":\"25276510208\"", "\"Total\":\"23.5 GB\""), "have units (Total: \"23.5 GB\")");
    let (system, others) = dump.split_once("][[").unwrap();
    refused(&format!("[[{others}"), "does not have two samples");
    let (code, report, said) = told_elsewhere("--from", "10s", format!("{system}]").as_bytes(), "2026-03-10T03:00:13Z");
    assert!(code == Some(0) && said.contains("who is behind it is not known"), "{said}");
    let busy = crate::support::finding(&report, "cpu.utilization", None);
    assert_eq!(busy["culprit"], Value::Null, "{busy:#}");
}
