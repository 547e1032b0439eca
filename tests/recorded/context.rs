//! What a finding says and advises beside the others of its run, on recordings of faults that were induced.

use serde_json::Value;

use crate::support::{finding, path, rdiag};

/// The report of a recording below tests/captures.
fn capture_report(name: &str) -> Value {
    let file = path("tests/captures").join(format!("{name}.1.json.gz"));
    let output = rdiag().arg("analyze").arg(&file).args(["--format", "json", "--out", "-"]).output().unwrap();
    assert!(output.status.success(), "{name}: {}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

/// The sentence of a finding, and its steps in one line.
fn sentence_and_steps(report: &Value, id: &str, instance: Option<&str>) -> (String, String) {
    let found = finding(report, id, instance);
    let steps = found["next"].as_array().unwrap().iter().map(|step| step["do"].as_str().unwrap());
    (found["summary"].as_str().unwrap().to_owned(), steps.collect::<Vec<_>>().join(" | "))
}

#[test]
fn a_cpu_full_of_niced_loops_is_busy_and_no_step_raises_their_priority() {
    let report = capture_report("host/cpu.a_queue_of_niced_loops_is_only_worth_knowing");
    let (busy, _) = sentence_and_steps(&report, "cpu.utilization.core", Some("1"));
    assert_eq!(busy, "CPU 1 was 99.8% busy (6.8% without niced work).");
    let (_, steps) = sentence_and_steps(&report, "cpu.saturation", None);
    assert!(steps.contains("Move the largest consumer") && !steps.contains("renice"), "{steps}");
}

#[test]
fn the_limit_that_slowed_a_group_down_is_the_one_to_raise() {
    let report = capture_report("6.12/kernels.vm_a_group_that_grows_beyond_memory_high_stalls_and_nobody_is_killed");
    for id in ["cgroup.saturation.memory", "cgroup.utilization.memory"] {
        let (_, steps) = sentence_and_steps(&report, id, Some("/rdiag-high"));
        assert!(steps.contains("UNIT MemoryHigh=") && !steps.contains("MemoryMax"), "{id}: {steps}");
        assert!(!steps.contains("(cgroup."), "the report answers it: {steps}");
    }
    let (stalls, _) = sentence_and_steps(&report, "memory.saturation.stalls", None);
    assert!(stalls.ends_with("; the sleep of tasks above memory.high is not counted."), "{stalls}");
}

#[test]
fn a_file_system_full_of_deleted_files_names_who_holds_them() {
    let name = "host/filesystem.deleted_files_that_fill_a_file_system_name_the_process_that_holds_them";
    let report = capture_report(name);
    let (told, steps) = sentence_and_steps(&report, "filesystem.utilization", Some("/var/tmp/x"));
    assert!(told.ends_with("left; deleted but open files hold 50.0 MiB."), "{told}");
    assert!(steps.starts_with("List these files") && !steps.contains("du -xh") && !steps.contains("lsof"), "{steps}");
    let headline = report["verdict"]["headline"].as_str().unwrap();
    assert!(headline.ends_with("; sleep (pid 12523) held 100% of the space of deleted files"), "{headline}");
}

#[test]
fn a_reader_of_a_sparse_file_is_not_said_to_have_read_from_storage() {
    let report = capture_report("host/memory.a_reader_that_does_not_fit_into_its_cgroup_is_no_shortage_of_the_host");
    let culprit = &finding(&report, "cgroup.saturation.refaults", Some("/rdiag-test-reader"))["culprit"];
    assert_eq!((&culprit["kind"], &culprit["name"]), (&"cgroup".into(), &"/rdiag-test-reader".into()), "{culprit}");
}

#[test]
fn writers_of_a_frozen_file_system_are_told_to_thaw_it() {
    let name = "host/filesystem.writers_of_a_frozen_file_system_are_blocked_tasks_named_with_their_place_in_the_kernel";
    let (told, steps) = sentence_and_steps(&capture_report(name), "tasks.saturation.blocked", None);
    let frozen = "Writers wait for a frozen file system to be thawed, as their kernel stacks show: touch. ";
    assert!(told.starts_with(frozen), "{told}");
    assert!(steps.contains("fsfreeze -u MOUNT") && !steps.contains("nfs"), "{steps}");
}

#[test]
fn a_slow_clock_is_worth_knowing_and_its_log_line_is_not_asked_for() {
    let report = capture_report("5.10/kernels.vm_an_idle_guest_raises_nothing_and_its_sources_are_understood");
    assert_eq!(report["verdict"]["status"], "info", "{:#}", report["verdict"]);
    let (_, steps) = sentence_and_steps(&report, "kernel.utilization.clocksource", Some("hpet"));
    assert!(steps.contains("available_clocksource") && !steps.contains("kernel log"), "{steps}");
}
