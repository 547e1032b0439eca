//! Figures that were worked out by hand: a host whose counters differ from each other, so that no two can be mixed up.

use std::fmt::Write as _;
use std::path::Path;

use serde_json::Value;

use crate::support::{finding, rdiag, recorded_report, report_of_tree};

/// Uneven on purpose: a rate over the nominal interval is another one.
const TIMES: [f64; 6] = [0.0, 0.8, 2.0, 3.0, 4.2, 5.0];

fn write(root: &Path, path: &str, text: &str) {
    let place = root.join(path);
    std::fs::create_dir_all(place.parent().unwrap()).unwrap();
    std::fs::write(place, text).unwrap();
}

/// Two CPUs, of which the first does most. Of each CPU's 100 ticks a second the first spends, in the order of the file, 46 in user
/// mode, 4 niced, 20 in the kernel, 20 idle, 3 waiting for I/O, 1 and 6 in interrupts; the second 10, 0, 2, 87, 1, 0, 0.
/// Together: 28 %, 2 %, 11 %, 53.5 %, 2 %, 0.5 %, 3 %, so 44.5 % busy.
const CORES: [[f64; 8]; 2] = [[46.0, 4.0, 20.0, 20.0, 3.0, 1.0, 6.0, 0.0], [10.0, 0.0, 2.0, 87.0, 1.0, 0.0, 0.0, 0.0]];

/// Three processes of one name that use 30 %, 5 % and 15 % of a CPU, and another with 10 %. The largest has not the smallest id.
const PROCESSES: [(u32, &str, f64); 4] = [(30, "web", 5.0), (40, "web", 30.0), (50, "web", 15.0), (60, "other", 10.0)];

fn host() -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path();
    write(root, "host.yaml", &format!("story: made for a test\ntimes: {TIMES:?}\n"));
    write(root, "t0/sys/devices/system/cpu/online", "0-1\n");
    write(root, "t0/sys/devices/system/cpu/present", "0-1\n");
    for (at, time) in TIMES.into_iter().enumerate() {
        let after = |per_second: f64| 100_000 + (per_second * time).round() as u64;
        let line = |rates: [f64; 8]| rates.map(|rate| after(rate).to_string()).join(" ");
        let [first, second] = CORES;
        let both = std::array::from_fn(|field| first.get(field).zip(second.get(field)).map_or(0.0, |(a, b)| a + b));
        let mut stat = format!("cpu  {}\n", line(both));
        for (cpu, rates) in CORES.into_iter().enumerate() {
            writeln!(stat, "cpu{cpu} {}", line(rates)).unwrap();
        }
        writeln!(stat, "intr {}\nctxt {}\nprocesses {}", after(5000.0), after(3000.0), after(10.0)).unwrap();
        write(root, &format!("t{at}/proc/stat"), &stat);
        let pressure = |some: f64, full: f64| {
            let averages = "avg10=0.00 avg60=0.00 avg300=0.00";
            format!("some {averages} total={}\nfull {averages} total={}\n", after(some * 1e6), after(full * 1e6))
        };
        write(root, &format!("t{at}/proc/pressure/cpu"), &pressure(0.07, 0.0));
        write(root, &format!("t{at}/proc/pressure/io"), &pressure(0.40, 0.30));
        write(root, &format!("t{at}/proc/loadavg"), &format!("0.00 0.00 0.00 1/300 {}\n", 900 + at));
        for (pid, name, percent) in PROCESSES {
            let rest = format!("1 1 0 -1 0 7 0 0 0 {} 0 0 0 20 0 1 0 {pid} 9 5 1", after(percent));
            write(root, &format!("t{at}/proc/{pid}/stat"), &format!("{pid} ({name}) S 1 {rest}\n"));
            let run = after(percent * 1e7);
            write(root, &format!("t{at}/proc/{pid}/schedstat"), &format!("{run} 5 5\n"));
        }
    }
    dir
}

/// What a finding cites of a metric: its mean and its largest interval.
#[track_caller]
fn cited(report: &Value, id: &str, instance: Option<&str>, metric: &str) -> (f64, f64) {
    let found = finding(report, id, instance);
    let evidence = found["evidence"].as_array().unwrap().iter().find(|evidence| evidence["metric"] == metric);
    let evidence = evidence.unwrap_or_else(|| panic!("{id} does not cite {metric}: {found:#}"));
    (evidence["mean"].as_f64().unwrap(), evidence["max"].as_f64().unwrap())
}

#[track_caller]
fn near(figure: f64, expected: f64) {
    assert!((figure - expected).abs() <= 0.01 * expected.abs(), "{figure} is not {expected}");
}

#[test]
fn each_kind_of_cpu_time_is_its_own() {
    let host = host();
    let report = report_of_tree(host.path());
    let of = |metric| cited(&report, "cpu.utilization", None, metric).0;
    near(of("cpu.busy.ratio"), 0.445);
    near(of("cpu.system.ratio"), 0.11);
    near(of("cpu.nice.ratio"), 0.02);
    near(finding(&report, "cpu.utilization.system", None)["value"].as_f64().unwrap(), 11.0 / 44.5);
    near(finding(&report, "cpu.utilization.core", Some("0"))["value"].as_f64().unwrap(), 0.73);
    near(finding(&report, "cpu.utilization.core", Some("1"))["value"].as_f64().unwrap(), 0.12);
}

#[test]
fn some_and_full_stalls_are_told_apart() {
    let host = host();
    let report = report_of_tree(host.path());
    near(cited(&report, "disk.saturation.pressure", None, "psi.io.some.ratio").0, 0.40);
    near(cited(&report, "disk.saturation.pressure", None, "psi.io.full.ratio").0, 0.30);
    let found = finding(&report, "disk.saturation.pressure", None);
    assert_eq!(found["status"], "warning", "{found:#}");
}

#[test]
fn rates_are_over_the_time_between_two_readings_and_not_over_the_nominal_interval() {
    let host = host();
    let report = report_of_tree(host.path());
    let (mean, max) = cited(&report, "tasks.saturation.forks", None, "tasks.forks.per_second");
    near(mean, 10.0);
    near(max, 10.0);
}

#[test]
fn the_culprit_is_the_largest_its_processes_come_largest_first_and_its_share_is_of_all() {
    let host = host();
    let report = report_of_tree(host.path());
    let rows = report["top"].as_array().unwrap().iter().find(|top| top["metric"] == "process.cpu.seconds").unwrap();
    let rows: Vec<(&str, &str)> = rows["rows"]
        .as_array()
        .unwrap()
        .iter()
        // Those without a process id are what no process can be charged with.
        .filter_map(|row| Some((row["name"].as_str().unwrap(), row["labels"]["pid"].as_str()?)))
        .collect();
    assert_eq!(rows, [("web", "40"), ("web", "50"), ("other", "60"), ("web", "30")]);
    let one = recorded_report("cpu-one-core");
    let pinned = &finding(&one, "cpu.saturation.core", Some("0"))["culprit"];
    assert_eq!(pinned["pids"], serde_json::json!([2000, 2001, 2002, 2003]));
    // 5 s of the 5.45 s for which the CPUs were busy; the processes have 5.05 s.
    near(pinned["share"].as_f64().unwrap(), 5.0 / 5.45);
}

#[test]
fn the_idlest_cpu_is_cited_and_no_mean_of_all() {
    let report = recorded_report("cpu-one-core");
    let found = finding(&report, "cpu.saturation.core", Some("0"));
    let summary = found["summary"].as_str().unwrap();
    assert!(summary.contains("another CPU was 97.0% idle"), "the mean of all CPUs is 72.8%: {summary}");
}

#[test]
fn a_gap_names_its_reason() {
    for (story, id, instance, reason) in [
        ("kernel-log-denied", "kernel.errors.bug", None, "denied"),
        ("kernel-log-denied", "cpu.saturation", None, "absent"),
        ("filesystem-troubles", "filesystem.utilization", Some("/mnt/old server"), "hung"),
        ("disk-oddities", "disk.utilization", Some("sdc"), "disabled"),
        ("memory-truncated", "kernel.errors.bug", None, "malformed"),
        ("cpu-hot-unplug", "interrupts.utilization.rate", None, "reset"),
        ("network-container", "network.errors.neighbour", None, "not_visible"),
        ("idle", "cpu.saturation.steal", None, "not_applicable"),
    ] {
        let report = recorded_report(story);
        let found = finding(&report, id, instance);
        assert_eq!(found["unavailable"]["reason"], reason, "{story}: {found:#}");
        let status = if reason == "not_applicable" { "skipped" } else { "unknown" };
        assert_eq!((&found["status"], &found["value"]), (&status.into(), &Value::Null), "{story}");
    }
}

#[test]
fn the_exit_code_follows_fail_on() {
    let code = |story: &str, fail_on: &[&str]| {
        let root = crate::support::path("tests/fixtures/hosts").join(story);
        let mut command = rdiag();
        command.args(["run", "use-method", "--format", "json", "--out", "-", "--root"]).arg(root).args(fail_on);
        command.output().unwrap().status.code()
    };
    assert_eq!(code("cpu-saturated", &[]), Some(0), "findings are no failure unless they are asked to be");
    assert_eq!(code("cpu-saturated", &["--fail-on", "critical"]), Some(1));
    assert_eq!(code("cpu-one-core", &["--fail-on", "warning"]), Some(1));
    assert_eq!(code("cpu-one-core", &["--fail-on", "critical"]), Some(0), "its worst is a warning");
    assert_eq!(code("whole-host-quiet", &["--fail-on", "warning"]), Some(0));
}
