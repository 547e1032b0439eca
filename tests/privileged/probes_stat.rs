//! Counters: the same figures as `perf stat` has for the same work, for commands, processes, groups and whole CPUs.

use std::path::PathBuf;
use std::process::Command;

use serde_json::Value;

use crate::support::{Load, Need, alone, has, rdiag, skip, wait_until};

/// What `rdiag probe stat` measured last.
fn stat(args: &[&str]) -> Value {
    let output = rdiag().args(["probe", "stat", "--format", "json"]).args(args).output().unwrap();
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "stat {args:?}: {told}");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    serde_json::from_str(text.lines().last().unwrap_or_default()).expect("a line of JSON")
}

fn table<'r>(result: &'r Value, id: &str) -> &'r Value {
    let tables = result["outputs"].as_array().unwrap().iter().filter_map(|output| output.get("table"));
    tables.into_iter().find(|table| table["id"] == id).unwrap_or_else(|| panic!("no table {id}: {result:#}"))
}

/// A cell by its table, row and column; none if it is unknown.
fn cell(result: &Value, id: &str, row: &str, column: &str) -> Option<f64> {
    let table = table(result, id);
    let at = table["columns"].as_array().unwrap().iter().position(|known| known["id"] == column).unwrap();
    let found = table["rows"].as_array().unwrap().iter().find(|known| known["instance"] == row);
    found.unwrap_or_else(|| panic!("no row {row}: {table:#}"))["cells"].get(at)?.as_f64()
}

fn count(result: &Value, event: &str) -> f64 {
    cell(result, "events", event, "value").unwrap_or_else(|| panic!("{event} was not counted: {result:#}"))
}

/// Equal within 1 % or two events.
fn agrees(ours: f64, theirs: f64) -> bool {
    (ours - theirs).abs() <= (theirs * 0.01).max(2.0)
}

/// What `perf stat -x,` says of an event.
fn perf_count(text: &str, event: &str) -> f64 {
    let line = text.lines().find(|line| line.contains(event)).unwrap_or_else(|| panic!("no {event}: {text}"));
    line.split(',').next().unwrap().parse().unwrap_or_else(|_| panic!("{line}"))
}

/// Touches 3000 pages, sleeps 200 times, and moves to another CPU and back 50 times.
const KNOWN: &str = "
import mmap, os, time
pages = mmap.mmap(-1, 3000 * 4096)
for at in range(3000):
    pages[at * 4096] = 1
for _ in range(200):
    time.sleep(0.0005)
cpus = sorted(os.sched_getaffinity(0))
for at in range(100):
    os.sched_setaffinity(0, {cpus[at % 2 if len(cpus) > 1 else 0]})
";

const EVENTS: &str = "context-switches,page-faults,cpu-migrations,task-clock";

#[test]
#[ignore = "needs: root, perf, python3"]
fn a_known_program_has_the_counts_that_perf_has() {
    let _alone = alone();
    if !has(&[Need::Root, Need::Tool("perf"), Need::Tool("python3")]) {
        return;
    }
    // Both look at the same run: perf counts the shell that waits for rdiag to look at the process, so it attaches too.
    let script = format!("import sys\nprint('ready', flush=True)\nsys.stdin.readline()\n{KNOWN}");
    let mut work = Command::new("python3");
    work.args(["-c", &script]).stdin(std::process::Stdio::piped()).stdout(std::process::Stdio::piped());
    let mut work = work.spawn().unwrap();
    // What it does before it waits would be seen by whoever looks first, and not by the other.
    let mut said = [0; 6];
    std::io::Read::read_exact(work.stdout.as_mut().unwrap(), &mut said).unwrap();
    let pid = work.id().to_string();
    let binary = assert_cmd::cargo::cargo_bin!("rdiag");
    let events = format!("events={EVENTS}");
    let perf = Command::new("perf")
        .args(["stat", "-x,", "-e", EVENTS, "-p", &pid])
        .stderr(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let ours = Command::new(binary)
        .args(["probe", "stat", "--format", "json", "--pid", &pid, "--param", &events])
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::null())
        .spawn()
        .unwrap();
    let counters = |pid: u32| {
        let folder = std::fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
        folder
            .filter(|fd| std::fs::read_link(fd.path()).is_ok_and(|to| to.to_string_lossy().contains("perf_event")))
            .count()
    };
    assert!(wait_until(20, || counters(perf.id()) >= 4 && counters(ours.id()) >= 4), "both look");
    std::thread::sleep(std::time::Duration::from_millis(200));
    drop(work.stdin.take());
    work.wait().unwrap();
    assert!(Command::new("kill").args(["-INT", &ours.id().to_string()]).status().unwrap().success());
    let ours: Value = serde_json::from_slice(&ours.wait_with_output().unwrap().stdout).unwrap();
    let theirs = String::from_utf8_lossy(&perf.wait_with_output().unwrap().stderr).into_owned();
    for event in ["context-switches", "page-faults", "cpu-migrations"] {
        let (mine, perfs) = (count(&ours, event), perf_count(&theirs, event));
        assert!(agrees(mine, perfs), "{event}: {mine} here, {perfs} by perf");
    }
    assert!(count(&ours, "page-faults") >= 3000.0 && count(&ours, "context-switches") >= 200.0);
    let (mine, perfs) = (count(&ours, "task-clock"), perf_count(&theirs, "task-clock"));
    assert!((mine - perfs).abs() < perfs * 0.02, "task-clock: {mine} here, {perfs} by perf");
}

#[test]
#[ignore = "needs: root, perf, python3"]
fn a_command_has_the_counts_that_perf_has_for_the_same_command() {
    let _alone = alone();
    if !has(&[Need::Root, Need::Tool("perf"), Need::Tool("python3")]) {
        return;
    }
    let touch = "import mmap; m = mmap.mmap(-1, 5000 * 4096)\nfor i in range(5000): m[i * 4096] = 1";
    let ours = stat(&["--param", "events=page-faults,task-clock", "--", "python3", "-c", touch]);
    let theirs =
        Command::new("perf").args(["stat", "-x,", "-e", "page-faults", "python3", "-c", touch]).output().unwrap();
    let theirs = perf_count(&String::from_utf8_lossy(&theirs.stderr), "page-faults");
    let mine = count(&ours, "page-faults");
    assert!((mine - theirs).abs() <= theirs * 0.01, "{mine} here, {theirs} by perf");
    let used = cell(&ours, "figures", "cpus", "value").unwrap();
    assert!((0.05..=1.05).contains(&used), "{used} CPUs");
}

#[test]
#[ignore = "needs: root, tracefs"]
fn vm_tracepoints_and_faults_of_a_command_are_counted_exactly() {
    if !has(&[Need::Root, Need::Path("/sys/kernel/tracing/events/syscalls/sys_enter_chdir/id")]) {
        return;
    }
    let events =
        "events=syscalls:sys_enter_chdir,sched:sched_process_exec,sched:sched_process_fork,page-faults,task-clock";
    let script = "cd /proc; cd /sys; cd /; (cd /tmp; cd /); /bin/true; exec /bin/true";
    let result = stat(&["--param", events, "--", "sh", "-c", script]);
    assert_eq!(count(&result, "syscalls:sys_enter_chdir"), 5.0, "children count too");
    let execs = count(&result, "sched:sched_process_exec");
    assert!((2.0..=3.0).contains(&execs), "{execs}");
    assert_eq!(count(&result, "sched:sched_process_fork"), 2.0);
    assert!(count(&result, "page-faults") > 20.0 && count(&result, "task-clock") > 0.0);
    assert_eq!(cell(&result, "events", "page-faults", "counted"), Some(1.0));
}

#[test]
#[ignore = "needs: root"]
fn whole_cpus_are_counted_each_and_their_sum_is_the_whole() {
    let _alone = alone();
    if !has(&[Need::Root]) {
        return;
    }
    let _load = Load::start(1, "sh", &["-c", "while :; do sleep 0.002; done"]);
    let result = stat(&["--duration", "2s", "--param", "events=cpu-clock,context-switches", "--param", "per_cpu=true"]);
    let cpus = table(&result, "cpus")["rows"].as_array().unwrap();
    let sum: f64 = cpus
        .iter()
        .filter(|row| row["cells"][3] == "context-switches")
        .filter_map(|row| row["cells"][1].as_f64())
        .sum();
    assert!((sum - count(&result, "context-switches")).abs() < 0.5);
    let online = std::thread::available_parallelism().unwrap().get();
    let clock = count(&result, "cpu-clock");
    let expected = result["seconds"].as_f64().unwrap() * 1000.0 * online as f64;
    assert!((clock - expected).abs() < expected * 0.05, "{clock} of {expected} ms");
    assert!(count(&result, "context-switches") > 500.0);
}

#[test]
#[ignore = "needs: root"]
fn another_process_is_not_counted_and_intervals_begin_anew() {
    let _alone = alone();
    if !has(&[Need::Root]) {
        return;
    }
    let quiet = Load::start(1, "sleep", &["60"]);
    let busy = Load::start(1, "sh", &["-c", "while :; do sleep 0.01; done"]);
    let wchan = format!("/proc/{}/wchan", quiet.pids()[0]);
    let sleeps = || std::fs::read_to_string(&wchan).is_ok_and(|place| place.contains("nanosleep"));
    assert!(wait_until(5, sleeps), "it starts before it sleeps");
    let of = |pid: u32| {
        let pid = pid.to_string();
        let args = ["--pid", &pid, "--duration", "1s", "--param", "events={context-switches,page-faults}"];
        let result = stat(&args);
        cell(&result, "events", "context-switches", "value")
    };
    assert_eq!(of(quiet.pids()[0]), None, "it never ran, so nothing was counted, which is not 0");
    assert!(of(busy.pids()[0]).unwrap() > 50.0);
    let pid = busy.pids()[0].to_string();
    let args = [
        "probe",
        "stat",
        "--pid",
        &pid,
        "-d",
        "2s",
        "-i",
        "500ms",
        "--format",
        "json",
        "--param",
        "events=context-switches",
    ];
    let output = rdiag().args(args).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let counts: Vec<f64> =
        text.lines().map(|line| count(&serde_json::from_str(line).unwrap(), "context-switches")).collect();
    assert!(counts.len() >= 3, "{counts:?}");
    let (least, most) = counts.iter().take(3).fold((f64::MAX, 0.0_f64), |(a, b), c| (a.min(*c), b.max(*c)));
    assert!(most < least * 4.0, "no interval holds the ones before it: {counts:?}");
}

/// A control group in the tree that knows counters, removed with its processes.
struct Group(PathBuf);

impl Group {
    fn new(name: &str) -> Option<Self> {
        let trees = ["/sys/fs/cgroup", "/sys/fs/cgroup/unified"];
        let tree = trees.iter().map(PathBuf::from).find(|tree| tree.join("cgroup.controllers").exists())?;
        let path = tree.join(name);
        std::fs::create_dir_all(&path).ok()?;
        Some(Self(path))
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        wait_until(10, || std::fs::remove_dir(&self.0).is_ok());
    }
}

#[test]
#[ignore = "needs: root, cgroup v2"]
fn a_control_group_is_counted_and_nobody_else() {
    let _alone = alone();
    if !has(&[Need::Root]) {
        return;
    }
    let Some(group) = Group::new("rdiag-test-stat") else { return skip("no control group can be made") };
    let args = ["--cgroup", "rdiag-test-stat", "--duration", "1500ms", "--param", "events=context-switches,task-clock"];
    {
        let inside = Load::start(1, "sh", &["-c", "while :; do sleep 0.01; done"]);
        let _outside = Load::start(1, "sh", &["-c", "while :; do :; done"]);
        std::fs::write(group.0.join("cgroup.procs"), inside.pids()[0].to_string()).unwrap();
        let result = stat(&args);
        let clock = count(&result, "task-clock");
        assert!(count(&result, "context-switches") > 50.0, "{result:#}");
        assert!(clock < 1200.0, "a loop outside is not in it: {clock} ms");
    }
    let output = rdiag().args(["probe", "stat", "--cgroup", "no/such/group", "-d", "1s"]).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("no control group"));
}

#[test]
#[ignore = "needs: root, setpriv"]
fn an_ordinary_user_counts_own_commands_as_far_as_the_kernel_allows() {
    let _alone = alone();
    if !has(&[Need::Root, Need::Tool("setpriv")]) {
        return;
    }
    let paranoid: i64 =
        std::fs::read_to_string("/proc/sys/kernel/perf_event_paranoid").unwrap().trim().parse().unwrap();
    // Another user may not reach the folder of the build.
    let folder =
        tempfile::Builder::new().permissions(std::os::unix::fs::PermissionsExt::from_mode(0o755)).tempdir().unwrap();
    let binary = folder.path().join("rdiag");
    std::fs::copy(assert_cmd::cargo::cargo_bin!("rdiag"), &binary).unwrap();
    let run = |args: &[&str]| {
        let mut command = Command::new("setpriv");
        command.args(["--bounding-set=-all", "--inh-caps=-all", "--no-new-privs", "--reuid=65534", "--clear-groups"]);
        let output = command.arg(&binary).args(["probe", "stat"]).args(args).output().unwrap();
        let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
        (output.status.code(), text(output.stdout), text(output.stderr))
    };
    let (code, _, told) = run(&["--duration", "1s"]);
    if paranoid > 0 {
        assert_eq!(code, Some(3), "whole CPUs are not for everybody: {told}");
        assert!(told.contains("CAP_PERFMON") && told.contains("perf_event_paranoid to 0"), "{told}");
    }
    let touch = "import mmap; m = mmap.mmap(-1, 2000 * 4096)\nfor i in range(2000): m[i * 4096] = 1";
    let events = "events=page-faults,context-switches,task-clock";
    let (code, text, told) = run(&["--format", "json", "--param", events, "--", "python3", "-c", touch]);
    match paranoid {
        ..=1 => assert_eq!(code, Some(0), "{told}"),
        2 => {
            assert_eq!(code, Some(0), "{told}");
            let result: Value = serde_json::from_str(&text).unwrap();
            assert!(count(&result, "page-faults:u") >= 2000.0, "{result:#}");
            assert_eq!(cell(&result, "events", "context-switches", "value"), None, "0 would be wrong");
            assert!(
                result["gaps"]["context-switches"]["remedy"].as_str().unwrap().contains("perf_event_paranoid to 1")
            );
            assert!(result["notes"].to_string().contains("leave out what happened in the kernel"), "{result:#}");
        }
        _ => assert_eq!(code, Some(3), "{told}"),
    }
}

#[test]
#[ignore = "needs: root"]
fn hardware_events_are_counted_or_unknown_with_the_reason_and_never_zero() {
    let _alone = alone();
    if !has(&[Need::Root]) {
        return;
    }
    let result = stat(&[
        "--param",
        "events=task-clock,cycles,instructions",
        "--",
        "sh",
        "-c",
        "i=0; while [ $i -lt 50000 ]; do i=$((i+1)); done",
    ]);
    match cell(&result, "events", "cycles", "value") {
        Some(cycles) => {
            assert!(cycles > 1e6);
            assert!((0.05..10.0).contains(&cell(&result, "figures", "ipc", "value").unwrap()));
        }
        None => {
            let why = result["gaps"]["cycles"]["why"].as_str().unwrap();
            assert!(why.contains("hardware counters") || why.contains("does not count"), "{why}");
            assert!(result["gaps"]["ipc"]["why"].is_string(), "{result:#}");
        }
    }
}

#[test]
#[ignore = "needs: root"]
fn too_many_descriptors_are_told() {
    let _alone = alone();
    if !has(&[Need::Root]) {
        return;
    }
    let events = vec!["context-switches"; 60].join(",");
    let binary = assert_cmd::cargo::cargo_bin!("rdiag");
    let line = format!("ulimit -n 40; exec {} probe stat -d 1s --param events={events}", binary.display());
    let output = Command::new("sh").args(["-c", &line]).output().unwrap();
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(3), "{told}");
    assert!(told.contains("too many files are open") && told.contains("ulimit -n"), "{told}");
}

#[test]
#[ignore = "needs: root"]
fn the_playbook_says_what_it_could_not_measure() {
    let _alone = alone();
    if !has(&[Need::Root]) {
        return;
    }
    let output = rdiag()
        .args(["run", "cpu-efficiency", "--duration", "2s", "--no-guided", "--format", "json", "--out", "-"])
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    let findings = report["findings"].as_array().unwrap();
    let finding = findings.iter().find(|finding| finding["id"] == "memory.utilization.bandwidth").unwrap();
    if !std::path::Path::new("/sys/bus/event_source/devices/uncore_imc_0").exists() {
        assert_eq!(finding["status"], "unknown", "{finding:#}");
    }
}
