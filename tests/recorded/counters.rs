//! What hardware counters say about the CPUs. The fixture is a real recording of two busy loops, cut to /proc/stat; the figures of the
//! counters beside it are made up, since few virtual machines have any.

use serde_json::Value;

use crate::support::{finding, path, rdiag};

/// The report on the fixture with other figures.
fn counted_report(per_cycle: f64, misses: f64, mispredicted: f64, busy: bool) -> Value {
    let text = std::fs::read_to_string(path("tests/fixtures/recordings/cpu-counters.json")).unwrap();
    let mut recording: Value = serde_json::from_str(&text).unwrap();
    for (place, value) in [("0/table/rows/0", per_cycle), ("0/table/rows/1", misses), ("1/table/rows/0", mispredicted)]
    {
        let cell = format!("/windows/0/probes/stat/Ok/outputs/{place}/cells/1");
        *recording.pointer_mut(&cell).unwrap() = value.into();
    }
    if !busy {
        // The times of working and of idling exchanged.
        let series = recording.pointer_mut("/windows/0/collectors/cpu_stat/series").unwrap().as_array_mut().unwrap();
        for one in series {
            let name = one["name"].as_str().unwrap();
            one["name"] = match name.rsplit_once('.').unwrap().1 {
                "user" => name.replace("user", "idle"),
                "idle" => name.replace("idle", "user"),
                _ => continue,
            }
            .into();
        }
    }
    crate::schema::validate("recording", &recording);
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("recording.json");
    std::fs::write(&file, recording.to_string()).unwrap();
    let output = rdiag().arg("analyze").arg(&file).args(["--format", "json", "--out", "-"]).output().unwrap();
    assert!(matches!(output.status.code(), Some(0 | 3)), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

#[test]
fn cpus_that_wait_for_memory_need_few_instructions_and_many_misses() {
    for (per_cycle, misses, status) in
        [(0.3, 25.0, "warning"), (0.45, 10.5, "warning"), (0.55, 25.0, "ok"), (0.3, 9.5, "ok"), (2.4, 0.1, "ok")]
    {
        let report = counted_report(per_cycle, misses, 0.01, true);
        let found = finding(&report, "cpu.saturation.memory_stalls", None);
        assert_eq!((&found["status"], found["value"].as_f64()), (&status.into(), Some(per_cycle)), "{found:#}");
    }
    let report = counted_report(0.3, 25.0, 0.01, true);
    let says = finding(&report, "cpu.saturation.memory_stalls", None)["summary"].as_str().unwrap();
    assert!(says.contains("IPC 0.3") && says.contains("25 cache misses per 1000"), "{says}");
}

#[test]
fn many_mispredicted_branches_are_only_worth_knowing() {
    for (share, status) in [(0.08, "info"), (0.055, "info"), (0.045, "ok")] {
        let report = counted_report(2.4, 0.1, share, true);
        let found = finding(&report, "cpu.utilization.branch_misses", None);
        assert_eq!((&found["status"], found["value"].as_f64()), (&status.into(), Some(share)), "{found:#}");
    }
}

#[test]
fn cpus_that_idle_are_not_judged_by_their_counters() {
    let report = counted_report(0.3, 25.0, 0.08, false);
    for id in ["cpu.saturation.memory_stalls", "cpu.utilization.branch_misses"] {
        assert_eq!(finding(&report, id, None)["status"], "skipped", "{id}");
    }
}
