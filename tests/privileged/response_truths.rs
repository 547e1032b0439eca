//! The probe `response` against programs of benches/ledgers.c, each of which waits for one thing and takes the clock around it.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::Command;

use serde_json::Value;

use super::response::{NEEDS, TOLERANCE, assert_whole, rows, shares};
use crate::support::{Need, alone, has, path, rdiag, skip};

/// The programs, compiled.
pub(super) struct Programs {
    _folder: tempfile::TempDir,
    file: PathBuf,
}

impl Programs {
    pub(super) fn compiled() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("ledgers");
        let mut compiler = Command::new("cc");
        compiler.args(["-O1", "-pthread", "-w", "-o"]).arg(&file).arg(path("benches/ledgers.c"));
        assert!(compiler.status().unwrap().success());
        Self { _folder: folder, file }
    }

    /// What rdiag says of a program, and what that says of itself: seconds by component, and `seconds` in all.
    fn observed(&self, name: &str) -> (Value, BTreeMap<String, f64>) {
        observed(Command::new(&self.file).args([name, "2"]), name)
    }
}

/// The same of any command that says TRUTH.
pub(super) fn observed(command: &Command, name: &str) -> (Value, BTreeMap<String, f64>) {
    let output = rdiag()
        .args(["probe", "response", "--budget", "100%", "--format", "json", "--param", "top=1000", "--"])
        .arg(command.get_program())
        .args(command.get_args())
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let values = || text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let result = values().find(|value| value.get("outputs").is_some());
    let truth = text.lines().find_map(|line| serde_json::from_str(line.strip_prefix("TRUTH ")?).ok());
    let (result, truth) = result.zip(truth).expect("a result and an account");
    assert_whole(&result, name);
    (result, truth)
}

/// Seconds of a component.
pub(super) fn told(result: &Value, component: &str) -> f64 {
    let all = rows(result, "components");
    all.iter().filter(|row| row["component"] == component).filter_map(|row| row["time"].as_f64()).sum()
}

/// The program waits for this, and rdiag says so. A program cannot tell the wait for a CPU that follows from the wait.
pub(super) fn agrees(programs: &Programs, name: &str, component: &str) -> (Value, f64) {
    let (result, truth) = programs.observed(name);
    let of = |name: &str| truth.get(name).copied().unwrap_or(0.0);
    let (whole, should, is) = (of("seconds"), of(component), told(&result, component));
    let unsure = TOLERANCE * whole + of("runnable") * should / (whole - of("runnable")).max(1e-3);
    assert!(
        (is - should).abs() < unsure,
        "{name}: {component} {is} s, should be {should} s: {truth:#?} {:#?}",
        shares(&result)
    );
    (result, should / whole)
}

/// The largest wait of a component: its call, and what it was for.
pub(super) fn largest(result: &Value, component: &str) -> (String, String) {
    let all = rows(result, "waits");
    let row = all.iter().find(|row| row["component"] == component).unwrap_or_else(|| panic!("{component}: {all:#?}"));
    let text = |column: &str| row[column].as_str().unwrap().to_owned();
    (text("call"), text("key"))
}

#[test]
#[ignore = "needs: root, eBPF, cc"]
fn sockets_that_linger_or_are_full_wait_to_send_whatever_the_call_was() {
    let _alone = alone();
    if !has(NEEDS) || !has(&[Need::Tool("cc")]) {
        return;
    }
    let programs = Programs::compiled();
    for (name, call) in [("close-linger", "close"), ("splice-socket", "splice"), ("sendfile-socket", "sendfile")] {
        let (result, share) = agrees(&programs, name, "net.send");
        assert!(share > 0.8, "{name}: {share}");
        let (in_call, key) = largest(&result, "net.send");
        assert_eq!(in_call, call, "{result:#}");
        // What is closed has no descriptor any more; a pipe is no peer.
        assert!(if call == "sendfile" { key.starts_with("127.0.0.1") } else { key.is_empty() }, "{name}: {key}");
    }
}

#[test]
#[ignore = "needs: root, eBPF, cc, a disk below /var/tmp"]
fn a_sendfile_from_a_disk_waits_for_what_it_reads_and_then_to_be_woken() {
    let _alone = alone();
    if !has(NEEDS) || !has(&[Need::Tool("cc")]) {
        return;
    }
    let (result, truth) = Programs::compiled().observed("sendfile-cold");
    let wakeup = shares(&result).get("runnable").copied().unwrap_or(0.0) * truth["seconds"];
    // A disk that answers wakes an idle CPU, which takes a while on a virtual machine. The kernel's own count, which the program takes, has that
    // as part of the wait for the disk; where the task was woken from, it can run already.
    let whole = truth["seconds"];
    let should = ["io.block.read", "runnable"].map(|name| truth.get(name).copied().unwrap_or(0.0));
    let is = [told(&result, "io.block.read"), wakeup];
    assert!(
        (is[0] + is[1] - should[0] - should[1]).abs() < TOLERANCE * whole,
        "{is:?}, should be {should:?}: {result:#}"
    );
    assert!(is[1] < should[1] + 0.1 * whole, "more than waking an idle CPU takes: {is:?}, {should:?}");
    let share = should[0] / whole;
    assert!(told(&result, "io.block.write") < 0.01, "{result:#}");
    if share < 0.1 {
        return skip("in part: this disk is too fast for sendfile");
    }
    let (call, key) = largest(&result, "io.block.read");
    assert!(call == "sendfile" && !key.contains(':') && !key.is_empty(), "{call} {key}");
}

#[test]
#[ignore = "needs: root, eBPF, cc, control groups"]
fn a_move_between_control_groups_waits_until_the_kernel_has_settled_it() {
    let _alone = alone();
    if !has(NEEDS) || !has(&[Need::Tool("cc")]) {
        return;
    }
    let (result, share) = agrees(&Programs::compiled(), "cgroup-procs", "kernel.sync");
    assert!(told(&result, "io.block.write") < 0.01, "{result:#}");
    if share < 0.05 {
        return skip("in part: this kernel moves tasks at once");
    }
    assert_eq!(largest(&result, "kernel.sync"), ("pwrite64".to_owned(), "cgroup.procs".to_owned()));
}

#[test]
#[ignore = "needs: root, eBPF, cc, a disk below /var/tmp"]
fn faults_that_read_a_mapping_are_system_time() {
    let _alone = alone();
    if !has(NEEDS) || !has(&[Need::Tool("cc")]) {
        return;
    }
    let (result, truth) = Programs::compiled().observed("cold-mapping");
    // The kernel divides both accounts by ticks: one or two of them may be in the other.
    let (user, whole) = (told(&result, "cpu.user"), truth["seconds"]);
    assert!((user - truth["cpu.user"]).abs() < TOLERANCE * whole, "{user} s: {truth:#?} {result:#}");
}

#[test]
#[ignore = "needs: root, eBPF, cc"]
fn threads_that_change_one_address_space_or_write_one_file_wait_for_its_lock() {
    let _alone = alone();
    if !has(NEEDS) || !has(&[Need::Tool("cc"), Need::Path("/sys/kernel/tracing/events/lock/contention_begin")]) {
        return;
    }
    let programs = Programs::compiled();
    for (name, of) in [("mmap-lock", "mmap_lock"), ("inode-lock", "ledgers.data")] {
        let (result, share) = agrees(&programs, name, "lock.kernel");
        assert!(share > 0.05, "{name}: {share}");
        let (_, key) = largest(&result, "lock.kernel");
        assert!(key.starts_with(of), "{name}: {key}: {result:#}");
    }
}

#[test]
#[ignore = "needs: root, eBPF, cc"]
fn a_thousand_threads_of_a_command_are_followed_and_those_that_find_no_room_are_a_line() {
    let _alone = alone();
    if !has(NEEDS) || !has(&[Need::Tool("cc")]) {
        return;
    }
    let programs = Programs::compiled();
    let (result, _) = agrees(&programs, "1000-threads", "wait.sleep");
    assert!(told(&result, "not followed") < 1e-3, "{:#?}", shares(&result));
    let (result, truth) = programs.observed("3000-threads");
    let (beyond, slept) = (told(&result, "not followed"), told(&result, "wait.sleep"));
    let should = truth["wait.sleep"];
    assert!(beyond > 0.2 * should && slept > 0.5 * should, "{:#?}", shares(&result));
    assert!((beyond + slept - should).abs() < 0.1 * should, "{beyond} s + {slept} s of {should} s");
}

#[test]
#[ignore = "needs: root, eBPF, cc"]
fn threads_that_find_no_room_are_in_headline_grade_and_limits_of_the_account() {
    let _alone = alone();
    if !has(NEEDS) || !has(&[Need::Tool("cc")]) {
        return;
    }
    let programs = Programs::compiled();
    let report = report_of(Command::new(&programs.file).args(["3000-threads", "2"]));
    let profile = &report["profile"];
    let beyond = &profile["population"]["not_followed"];
    let (threads, seconds) = (beyond["threads"].as_u64().unwrap(), beyond["seconds"].as_f64().unwrap());
    assert!((900..1100).contains(&threads) && (1.0..2.5).contains(&(seconds / threads as f64)), "{beyond:#}");
    let unaccounted = profile["unaccounted_seconds"].as_f64().unwrap();
    assert!(unaccounted >= seconds && unaccounted < 1.1 * seconds, "{unaccounted} s: {beyond:#}");
    assert_eq!(profile["quality"]["grade"], "D", "{:#}", profile["quality"]);
    let size = format!("{threads} threads, ");
    for text in [&profile["quality"]["words"], &report["verdict"]["headline"], &report["verdict"]["limits"]] {
        let text = text.to_string();
        assert!(text.contains("ot followed") && text.contains(&size), "{text}");
    }
    let few = report_of(Command::new(&programs.file).args(["1000-threads", "1"]));
    assert!(few["profile"]["population"].get("not_followed").is_none(), "{:#}", few["profile"]["population"]);
}

#[test]
#[ignore = "needs: root, eBPF"]
fn processes_that_a_command_leaves_behind_are_listed_and_those_that_ended_before_it_are_not() {
    let _alone = alone();
    if !has(NEEDS) {
        return;
    }
    let lives_on = "sleep 20 >/dev/null 2>&1 </dev/null &";
    let script = format!("({lives_on}); {lives_on} (sleep 0.1 &); true & sleep 0.4");
    let report = report_of(Command::new("sh").args(["-c", &script]));
    let left = &report["profile"]["left_behind"];
    let pids: Vec<String> = left[0]["pids"].as_array().unwrap().iter().map(ToString::to_string).collect();
    let run = pids
        .iter()
        .filter(|pid| std::fs::read_to_string(format!("/proc/{pid}/comm")).is_ok_and(|comm| comm == "sleep\n"));
    assert_eq!(run.count(), 2, "{left:#}");
    Command::new("kill").args(&pids).status().unwrap();
    assert_eq!(
        (left.as_array().unwrap().len(), &left[0]["comm"], &left[0]["processes"]),
        (1, &"sleep".into(), &2.into())
    );
    let told = format!("Still running when the command had ended: sleep (2 processes: {}).", pids.join(", "));
    assert!(report["verdict"]["limits"].to_string().contains(&told), "{:#}", report["verdict"]);
    let alone = report_of(Command::new("sh").args(["-c", "sleep 0.3 & sleep 0.2; wait"]));
    assert!(alone["profile"].get("left_behind").is_none(), "{:#}", alone["profile"]["left_behind"]);
}

/// What `rdiag run method-r` says of a command, which may say something before.
fn report_of(command: &Command) -> Value {
    let output = rdiag()
        .args(["run", "method-r", "--no-guided", "--budget", "100%", "--format", "json", "--out", "-", "--"])
        .arg(command.get_program())
        .args(command.get_args())
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let report: Value = serde_json::from_str(&text[text.find("{\n").expect("a report")..]).unwrap();
    assert_eq!(report.pointer("/profile/level").and_then(Value::as_str), Some("L3"), "{:?}", report.get("verdict"));
    report
}

#[test]
#[ignore = "needs: root, eBPF, cc"]
fn a_command_that_joins_its_threads_is_forecast_from_what_they_did() {
    let _alone = alone();
    if !has(NEEDS) || !has(&[Need::Tool("cc")]) {
        return;
    }
    let programs = Programs::compiled();
    let report = report_of(Command::new(&programs.file).args(["fork-join", "1"]));
    let forecast = &report["profile"]["forecast"];
    let whole = forecast["response_seconds"].as_f64().unwrap();
    let rows = forecast["rows"].as_array().unwrap();
    let seconds =
        |id: &str| rows.iter().find(|row| row["id"] == id).map_or(0.0, |row| row["seconds"].as_f64().unwrap());
    assert!(seconds("wait.futex") < 0.1 * whole, "{forecast:#}");
    let work: f64 = ["cpu.user", "cpu.sys", "runq.preempt", "runq.wakeup"].map(seconds).iter().sum();
    assert!(work > 0.85 * whole, "{forecast:#}");
    assert!(forecast["basis"].as_str().unwrap().contains("threads that ended one of its waits"), "{forecast:#}");
    let [least, most] = [0, 1].map(|at| rows[0]["vanished"][at].as_f64().unwrap());
    assert!(
        most < 0.9 * whole && least < most,
        "all threads do the same, so none would hold it up as long: {forecast:#}"
    );
}
