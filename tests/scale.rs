//! Hosts far larger than any that tests run on: made-up trees, read by the shipped binary. Bounds are ratios of CPU time within one
//! run, so that a slow machine passes and a cost that grows with the square of the host does not.

use std::fmt::Write as _;
use std::path::Path;
use std::process::Stdio;

use rustix::process::{Pid, WaitId, WaitIdOptions};
use serde_json::Value;

use crate::support::{finding, findings};

/// A host four times as large may cost so many times as much: 4 if the cost is linear, 16 if it is quadratic.
const FOURFOLD: f64 = 8.0;

fn write(root: &Path, path: &str, text: &str) {
    let place = root.join(path);
    std::fs::create_dir_all(place.parent().unwrap()).unwrap();
    std::fs::write(place, text).unwrap();
}

/// A tree with two instants, five seconds apart.
fn tree() -> tempfile::TempDir {
    // Tens of thousands of files: in memory where that can be.
    let dir = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap();
    write(dir.path(), "host.yaml", "story: made for a test\ntimes: [0.0, 5.0]\n");
    dir
}

/// What CPUs show: each is busy for as many hundredths as its number says, at most 50.
fn add_cpus(root: &Path, cpus: usize) {
    for folder in ["online", "present", "possible"] {
        write(root, &format!("t0/sys/devices/system/cpu/{folder}"), &format!("0-{}\n", cpus - 1));
    }
    for at in [0, 1] {
        let (mut cores, mut waits) = (String::new(), String::from("version 15\ntimestamp 4300000000\n"));
        let (mut all_busy, mut all_idle) = (0, 0);
        for cpu in 0..cpus {
            let busy = 1000 + at * 5 * (cpu % 51);
            let idle = 1000 + at * (500 - 5 * (cpu % 51));
            (all_busy, all_idle) = (all_busy + busy, all_idle + idle);
            writeln!(cores, "cpu{cpu} {busy} 0 0 {idle} 0 0 0 0 0 0").unwrap();
            writeln!(waits, "cpu{cpu} 0 0 0 0 0 0 {busy}0000000 1000000 100").unwrap();
        }
        let rest = format!("intr {}\nctxt {}\nprocesses {}\n", 1000 + at * 500, 1000 + at * 500, 1000 + at * 5);
        write(root, &format!("t{at}/proc/stat"), &format!("cpu  {all_busy} 0 0 {all_idle} 0 0 0 0 0 0\n{cores}{rest}"));
        write(root, &format!("t{at}/proc/schedstat"), &waits);
        let mut lines = String::from("     ");
        (0..cpus).for_each(|cpu| write!(lines, " CPU{cpu}").unwrap());
        lines.push('\n');
        for line in 0..400 {
            write!(lines, "{line}:").unwrap();
            (0..cpus).for_each(|cpu| write!(lines, " {}", 1000 + at * ((cpu + line) % 7)).unwrap());
            writeln!(lines, " PCI-MSI {line}-edge queue{line}").unwrap();
        }
        write(root, &format!("t{at}/proc/interrupts"), &lines);
    }
}

/// Disks with twenty reads a second of 2 ms each.
fn add_disks(root: &Path, disks: usize) {
    for at in [0, 1] {
        let mut lines = String::new();
        for disk in 0..disks {
            let (reads, milliseconds) = (1000 + at * 100, 1000 + at * 200);
            let moved = format!("{reads} 0 {} {milliseconds} 0 0 0 0 0 {milliseconds} {milliseconds}", reads * 8);
            writeln!(lines, " 259 {disk} nvme{disk}n1 {moved}").unwrap();
        }
        write(root, &format!("t{at}/proc/diskstats"), &lines);
    }
    for disk in 0..disks {
        let below = format!("t0/sys/block/nvme{disk}n1");
        write(root, &format!("{below}/size"), "2000000\n");
        write(root, &format!("{below}/queue/rotational"), "0\n");
        write(root, &format!("{below}/queue/iostats"), "1\n");
    }
}

/// Processes of which one in twenty used a tenth of a CPU; the first used all of one. The files of most are shared: making sixty
/// thousand would take longer than reading them.
fn add_processes(root: &Path, processes: usize) {
    for at in [0, 1] {
        let look = |place: &str, name: &str, ticks: usize| {
            let rest = format!("1 1 0 -1 0 7 0 0 0 {ticks} 0 0 0 20 0 1 0 100 900000 50 1");
            write(root, &format!("t{at}/{place}/stat"), &format!("7 ({name}) S 1 {rest}\n"));
            write(root, &format!("t{at}/{place}/schedstat"), &format!("{ticks}0000000 5 5\n"));
        };
        for kind in 0..100 {
            look(&format!("idle{kind}"), &format!("idle{kind}"), 100);
            look(&format!("busy{kind}"), &format!("busy{kind}"), 100 + at * 50);
        }
        look("proc/1", "spinner", 100 + at * 500);
        for pid in 2..=processes {
            let kind = if pid % 20 == 0 { "busy" } else { "idle" };
            let (files, place) = (format!("../{kind}{}", pid % 100), root.join(format!("t{at}/proc/{pid}")));
            std::os::unix::fs::symlink(files, place).unwrap();
        }
        write(root, &format!("t{at}/proc/loadavg"), &format!("0.00 0.00 0.00 1/{processes} {}\n", processes + at));
    }
}

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

/// The report on the large host, after comparing what it cost with one of a quarter of its size and with a tiny one.
#[track_caller]
fn fourfold(what: &str, large: usize, add: fn(&Path, usize)) -> Value {
    let cost = |size: usize| {
        let dir = tree();
        if what != "CPUs" {
            add_cpus(dir.path(), 4);
        }
        add(dir.path(), size);
        // Where others take the CPUs, a source of an unoptimised build may take longer than the three seconds that each has.
        let mut tries = (0..5).map(|_| measured(dir.path()));
        let complete = |(_, report): &(f64, Value)| {
            let findings = report["findings"].as_array().unwrap();
            findings.iter().all(|finding| finding.pointer("/unavailable/reason").is_none_or(|reason| reason != "hung"))
        };
        tries.find(complete).expect("this machine is too busy to read its own files within three seconds")
    };
    let ((none, _), (quarter, _), (whole, report)) = (cost(2), cost(large / 4), cost(large));
    // CPU time comes in ticks of a hundredth of a second: of less than a few, no ratio can be told.
    let (small, big) = ((quarter - none).max(0.04), whole - none);
    println!("{what}: {none:.2} s of CPU time by itself, {small:.2} s for {}, {big:.2} s for {large}", large / 4);
    assert!(
        big <= FOURFOLD * small,
        "{big:.2} s for {large} {what}, {small:.2} s for a quarter of them: more than linear"
    );
    report
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
}

#[test]
fn a_host_with_256_cpus_costs_in_proportion() {
    let report = fourfold("CPUs", 256, add_cpus);
    let cores = findings(&report, "cpu.utilization.core");
    assert_eq!(cores.len(), 256);
    assert_eq!(finding(&report, "cpu.utilization.core", Some("255"))["value"], 0.0);
    assert_eq!(finding(&report, "cpu.utilization.core", Some("203"))["value"], 0.5);
}
