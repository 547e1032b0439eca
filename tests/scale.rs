//! Hosts far larger than any that tests run on: made-up trees, read by the shipped binary. Bounds are ratios of CPU time within one
//! run, so that a slow machine passes and a cost that grows with the square of the host does not.

mod worlds;

use std::path::Path;
use std::process::Stdio;

use rustix::process::{Pid, WaitId, WaitIdOptions};
use serde_json::Value;

use crate::support::{finding, findings};
use worlds::{add_cpus, add_disks, add_groups, add_interfaces, add_nodes, add_processes, tree};

/// A host four times as large may cost so many times as much: 4 if the cost is linear, 16 if it is quadratic.
const FOURFOLD: f64 = 6.0;

/// Runs the shipped binary over a tree; the CPU seconds that it took, and its report.
fn measured(root: &Path) -> (f64, Value) {
    let binary = assert_cmd::cargo::cargo_bin!("rdiag").to_path_buf();
    let place = root.join("report.json");
    let mut command = std::process::Command::new(std::env::var_os("RDIAG_BINARY").map_or(binary, Into::into));
    command.env("XDG_CONFIG_HOME", "/nonexistent").stderr(Stdio::null());
    command.args(["run", "use-method", "--format", "json", "--out", "-", "--root"]).arg(root);
    let mut child = command.stdout(std::fs::File::create(&place).unwrap()).spawn().unwrap();
    let pid = Pid::from_raw(child.id().cast_signed()).unwrap();
    // Until it is waited for, what it used stands in its stat, threads that ended included.
    rustix::process::waitid(WaitId::Pid(pid), WaitIdOptions::EXITED | WaitIdOptions::NOWAIT).unwrap();
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", child.id())).unwrap();
    assert!(child.wait().unwrap().success());
    let fields: Vec<&str> = stat.rsplit_once(')').unwrap().1.split_whitespace().collect();
    let ticks: u32 = fields.iter().skip(11).take(2).map(|field| field.parse::<u32>().unwrap()).sum();
    let seconds = f64::from(ticks) / rustix::param::clock_ticks_per_second() as f64;
    (seconds, serde_json::from_slice(&std::fs::read(place).unwrap()).unwrap())
}

/// How often each host is measured at most. Other load takes caches away and shares cores, which adds CPU time and never saves any: so the
/// least of what was measured is the nearest to what a host costs.
const ROUNDS: usize = 4;

/// The report on the large host, after comparing what it cost with one of a quarter of its size and with a tiny one.
#[track_caller]
fn fourfold(what: &str, large: usize, add: fn(&Path, usize)) -> Value {
    let host = |size: usize| {
        let dir = tree();
        if what != "CPUs" {
            add_cpus(dir.path(), 4);
        }
        add(dir.path(), size);
        dir
    };
    let cost = |dir: &tempfile::TempDir| {
        // Where others take the CPUs, a source of an unoptimised build may take longer than the three seconds that each has.
        let mut tries = (0..5).map(|_| measured(dir.path()));
        let complete = |(_, report): &(f64, Value)| {
            let findings = report["findings"].as_array().unwrap();
            findings.iter().all(|finding| finding.pointer("/unavailable/reason").is_none_or(|reason| reason != "hung"))
        };
        tries.find(complete).expect("this machine is too busy to read its own files within three seconds")
    };
    let hosts = [2, large / 4, large].map(host);
    // A disturbed quarter would hide a cost that grows too fast, and is quickly measured again.
    let mut least = [f64::MAX, cost(&hosts[1]).0, f64::MAX];
    for round in 1..=ROUNDS {
        let seen = hosts.each_ref().map(cost);
        for (least, (seconds, _)) in least.iter_mut().zip(&seen) {
            *least = least.min(*seconds);
        }
        let [none, quarter, whole] = least;
        // CPU time comes in ticks of a hundredth of a second: of less than a few, no ratio can be told.
        let (small, big) = ((quarter - none).max(0.04), whole - none);
        println!("{what}: {none:.2} s of CPU time by itself, {small:.2} s for {}, {big:.2} s for {large}", large / 4);
        let [_, _, (_, report)] = seen;
        if big <= FOURFOLD * small {
            return report;
        }
        assert!(round < ROUNDS, "{big:.2} s for {large} {what}, {small:.2} s for a quarter of them: more than linear");
    }
    unreachable!("the last round returns or fails")
}

/// Rules that raised a warning or worse, with their instances.
fn fired(report: &Value) -> Vec<String> {
    let all = report["findings"].as_array().unwrap().iter();
    let raised = all.filter(|finding| ["warning", "critical"].iter().any(|status| finding["status"] == *status));
    raised.map(|finding| format!("{} {}", finding["id"], finding["instance"]).replace('"', "")).collect()
}

#[test]
fn a_host_with_20_000_processes_costs_in_proportion() {
    let report = fourfold("processes", 20_000, add_processes);
    let busiest = finding(&report, "cpu.utilization.process", None);
    assert_eq!(busiest["value"], 1.0, "{busiest:#}");
    let most = report["top"].as_array().unwrap().iter().find(|top| top["metric"] == "process.cpu.seconds").unwrap();
    let spinner = &most["rows"][0];
    assert_eq!((&spinner["name"], &spinner["value"]), (&"spinner".into(), &5.0.into()), "{spinner:#}");
    let share = spinner["share"].as_f64().unwrap();
    assert!((share - 5.0 / (5.0 + 1000.0 * 0.5)).abs() < 1e-6, "of all twenty thousand, not of those listed: {share}");
}

#[test]
fn a_host_with_1000_disks_costs_in_proportion() {
    let report = fourfold("disks", 1000, add_disks);
    let busy = findings(&report, "disk.utilization");
    assert_eq!(busy.len(), 1000);
    assert!(busy.iter().all(|found| found["value"] == 0.04), "each is busy for 200 ms of 5 s: {:#}", busy[0]);
    assert_eq!(fired(&report), [""; 0]);
}

#[test]
fn a_host_with_512_cpus_and_8_memory_nodes_costs_in_proportion() {
    let report = fourfold("CPUs", 512, |root, cpus| {
        add_cpus(root, cpus);
        add_nodes(root, 8, cpus);
    });
    assert_eq!(findings(&report, "cpu.utilization.core").len(), 512);
    assert_eq!(finding(&report, "cpu.utilization.core", Some("510"))["value"], 0.0);
    assert_eq!(finding(&report, "cpu.utilization.core", Some("509"))["value"], 0.5);
    assert_eq!(findings(&report, "memory.saturation.numa").len(), 8);
    assert_eq!(finding(&report, "memory.saturation.numa", Some("node5"))["value"], 0.25);
    assert_eq!(fired(&report), ["memory.saturation.numa node5"]);
}

#[test]
fn a_host_with_2000_control_groups_costs_in_proportion() {
    let report = fourfold("control groups", 2000, add_groups);
    let throttled = finding(&report, "cgroup.saturation.throttling", Some("/pod1999"));
    assert_eq!(throttled["value"], 1.0, "{throttled:#}");
    for rule in ["cgroup.saturation.throttling", "cgroup.utilization.memory", "cgroup.utilization.pids"] {
        assert_eq!(findings(&report, rule).len(), 30, "{rule}: the nearest to their limits");
    }
    assert_eq!(fired(&report), ["cgroup.saturation.throttling /pod1999"]);
}

#[test]
fn a_host_with_500_interfaces_costs_in_proportion() {
    let report = fourfold("interfaces", 500, add_interfaces);
    assert_eq!(findings(&report, "network.utilization").len(), 64, "of so many devices the links are read");
    let last = finding(&report, "network.utilization", Some("eth63"));
    // Each frame takes the link as long as 24 bytes more.
    let share = (63e6 + 63e3 * 24.0) / 1.25e9;
    assert!((last["value"].as_f64().unwrap() - share).abs() < 1e-9, "{last:#}");
    assert_eq!(fired(&report), [""; 0]);
}
