//! Where the time of programs goes whose time is known: the probe `response` against what they say of themselves.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::support::ledger::{Ledger, ON_ONE_CPU, Truth};
use crate::support::{Need, alone, has, rdiag};

pub(super) const NEEDS: &[Need] = &[Need::Root, Need::Path("/sys/kernel/btf/vmlinux")];
/// What a component may differ by, as a share of elapsed time.
const TOLERANCE: f64 = 0.03;

/// What rdiag said, and what the program it started said of itself.
fn observed_command(name: &str, seconds: f64, params: &[(&str, &str)]) -> (Value, Truth) {
    observed_with(&[], name, seconds, params)
}

/// All calls are watched, to the end.
const ALL_CALLS: [&str; 2] = ["--param", "calls_for=24h"];

fn observed_with(args: &[&str], name: &str, seconds: f64, params: &[(&str, &str)]) -> (Value, Truth) {
    let command = Ledger::command_line(name, seconds, params);
    let output = rdiag()
        .args(["probe", "response", "--budget", "100%", "--format", "json", "--param", "top=1000"])
        .args(args)
        .arg("--")
        .args(command)
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{text}{}", String::from_utf8_lossy(&output.stderr));
    let result = text.lines().find_map(|line| {
        let value: Value = serde_json::from_str(line).ok()?;
        value.get("outputs").is_some().then_some(value)
    });
    (result.expect("a result"), Ledger::read(&mut text.as_bytes()))
}

fn observed(pid: u32, seconds: u32, args: &[&str]) -> Value {
    let (pid, duration) = (pid.to_string(), format!("{seconds}s"));
    let output = rdiag()
        .args(["probe", "response", "--budget", "100%", "--format", "json", "--param", "top=1000"])
        .args(["-p", &pid, "-d", &duration])
        .args(args)
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

/// A table's rows by column id.
pub(super) fn rows(result: &Value, table: &str) -> Vec<Value> {
    let tables = result["outputs"].as_array().unwrap();
    let Some(table) = tables.iter().map(|output| &output["table"]).find(|found| found["id"] == table) else {
        return Vec::new();
    };
    let ids: Vec<&str> =
        table["columns"].as_array().unwrap().iter().map(|column| column["id"].as_str().unwrap()).collect();
    let row = |row: &Value| {
        let cells = row["cells"].as_array().unwrap().iter().cloned();
        Value::Object(ids.iter().map(|id| (*id).to_owned()).zip(cells).collect())
    };
    table["rows"].as_array().unwrap().iter().map(row).collect()
}

/// The row whose column holds this text.
fn row(result: &Value, table: &str, column: &str, text: &str) -> Value {
    let all = rows(result, table);
    let found = all.iter().find(|row| row[column] == text).cloned();
    found.unwrap_or_else(|| panic!("no {text} in {table}: {all:#?}"))
}

/// Shares of the components; `cpu` and `runnable` as programs tell them.
fn shares(result: &Value) -> BTreeMap<String, f64> {
    let mut shares = BTreeMap::new();
    for row in &rows(result, "components") {
        let (id, share) = (row["component"].as_str().unwrap(), row["share"].as_f64().unwrap());
        shares.insert(id.to_owned(), share);
        let group = match id {
            _ if id.starts_with("cpu.") => "cpu",
            "runq.preempt" | "runq.wakeup" | "throttled" => "runnable",
            _ => continue,
        };
        *shares.entry(group.to_owned()).or_default() += share;
    }
    shares
}

/// All of the time is accounted for, each second once.
pub(super) fn assert_whole(result: &Value, what: &str) {
    let shares = shares(result);
    let whole: f64 =
        shares.iter().filter(|(id, _)| !["cpu", "runnable"].contains(&id.as_str())).map(|(_, share)| share).sum();
    let missing = shares.get("unaccounted").copied().unwrap_or(0.0);
    assert!(missing < 0.005 && (whole - 1.0).abs() < 0.005, "{what}: {shares:#?} {}", result["lost"]);
}

fn assert_like(result: &Value, truth: &Truth, what: &str) {
    assert_whole(result, what);
    let whole: f64 = rows(result, "threads").iter().map(|thread| thread["observed"].as_f64().unwrap()).sum();
    let lives: f64 = truth.threads.iter().map(|thread| thread.ended - thread.began).sum();
    let shares = shares(result);
    let wakeups: u64 = truth.components().iter().map(|component| truth.count(component)).sum();
    let wakeups = wakeups as f64;
    let (mut waits, mut waits_should) = (0.0, 0.0);
    for component in truth.components() {
        let is = shares.get(&component).copied().unwrap_or(0.0) * whole / lives;
        let should = truth.share(&component);
        let is_wait = !["cpu", "runnable"].contains(&component.as_str());
        // A program cannot tell a wait from the wait for a CPU after it: it divides the rest of its time by the sums of both.
        // And the kernel counts a wake-up that pre-empts at once as no wait, which are some hundred nanoseconds each.
        let unsure = match component.as_str() {
            "cpu" => 0.0,
            "runnable" => wakeups * 1e-6 / lives,
            _ => truth.share("runnable"),
        };
        assert!(
            (is - should).abs() < TOLERANCE + unsure,
            "{what}: {component} is {is}, should be {should}: {shares:#?} {truth:#?}"
        );
        if is_wait {
            (waits, waits_should) = (waits + is, waits_should + should);
        }
    }
    assert!(
        (waits - waits_should).abs() < TOLERANCE + wakeups * 1e-6 / lives,
        "{what}: waits {waits}, should be {waits_should}: {shares:#?}"
    );
}

/// A program that does the same all the time, observed for a part of its life.
fn agrees_while_it_runs(name: &str, seconds: u32, tolerance: f64) {
    let program = Ledger::start(name, &[(ON_ONE_CPU, "yes")]);
    let result = observed(program.pid(), seconds, &[]);
    assert_whole(&result, name);
    let (truth, shares) = (program.truth(), shares(&result));
    for component in truth.components() {
        let (is, should) = (shares.get(&component).copied().unwrap_or(0.0), truth.share(&component));
        assert!(
            (is - should).abs() < tolerance + truth.share("runnable"),
            "{name}: {component} is {is}, should be {should}: {shares:#?} {truth:#?}"
        );
    }
}

fn agrees(name: &str, seconds: f64) -> (Value, Truth) {
    let (result, truth) = observed_command(name, seconds, &[(ON_ONE_CPU, "yes")]);
    assert_like(&result, &truth, name);
    (result, truth)
}

#[test]
#[ignore = "needs: root, eBPF"]
fn the_time_of_programs_is_divided_as_they_say_themselves() {
    let _alone = alone();
    if !has(NEEDS) {
        return;
    }
    for name in [
        "spin",
        "getpid",
        "sleep",
        "futex-convoy",
        "condvar-pool",
        "pipe-ping-pong",
        "epoll-server",
        "tcp-client",
        "fault-anonymous",
        "births",
        "mix",
    ] {
        agrees(name, 2.0);
    }
}

/// Where the threads run is up to the kernel, and what they say of themselves less sure than what is measured.
#[test]
#[ignore = "needs: root, eBPF"]
fn the_time_of_threads_that_wake_each_other_is_whole() {
    let _alone = alone();
    if !has(NEEDS) {
        return;
    }
    for name in ["futex-convoy", "condvar-pool", "pipe-ping-pong", "epoll-server", "tcp-client", "births"] {
        let (result, truth) = observed_command(name, 1.0, &[]);
        assert_whole(&result, name);
        let observed: f64 = rows(&result, "threads").iter().map(|row| row["observed"].as_f64().unwrap()).sum();
        let lives: f64 = truth.threads.iter().map(|thread| thread.ended - thread.began).sum();
        assert!(observed >= lives * 0.99, "{name}: {observed} of {lives}");
    }
}

#[test]
#[ignore = "needs: root, eBPF, a disk below /var/tmp"]
fn waits_for_a_disk_are_divided_by_what_was_done_and_name_the_file() {
    let _alone = alone();
    if !has(NEEDS) {
        return;
    }
    for (program, component, call) in [
        ("direct-read", "io.block.read", "pread64"),
        ("fsync", "io.block.sync", "fsync"),
        ("fault-file", "fault.file", "page fault"),
    ] {
        let running = Ledger::start(program, &[("folder", "/var/tmp")]);
        let result = observed(running.pid(), 2, &[]);
        assert_whole(&result, program);
        let truth = running.truth();
        let (is, should) = (shares(&result).get(component).copied().unwrap_or(0.0), truth.share(component));
        // The program runs on beside the observation, and others share the disk.
        assert!(
            (is - should).abs() < TOLERANCE + truth.share("runnable") + 0.05,
            "{program}: {is}, should be {should}: {result:#}"
        );
        if should < 0.1 {
            continue;
        }
        let wait = row(&result, "waits", "component", component);
        assert_eq!(wait["call"], call, "{result:#}");
        if call != "page fault" {
            assert!(wait["key"].as_str().unwrap().starts_with("rdiag-ledger-"), "{wait:#?}");
        }
    }
}

#[test]
#[ignore = "needs: root, eBPF"]
fn a_thread_that_has_no_event_at_all_is_accounted_for() {
    let _alone = alone();
    if !has(NEEDS) {
        return;
    }
    let program = Ledger::start("blocked", &[]);
    let result = observed(program.pid(), 1, &[]);
    assert_whole(&result, "blocked");
    assert!(shares(&result)["ipc.pipe"] > 0.45, "{result:#}");
}

#[test]
#[ignore = "needs: root, eBPF"]
fn two_hundred_threads_are_observed_and_the_busy_one_stands_first() {
    let _alone = alone();
    if !has(NEEDS) {
        return;
    }
    let program = Ledger::start("threads", &[]);
    let result = observed(program.pid(), 2, &[]);
    assert_whole(&result, "threads");
    let threads = rows(&result, "threads");
    assert!(threads.len() >= 200, "{}", threads.len());
    assert_eq!(threads[0]["name"], "main", "{:#?}", threads[0]);
    assert!(shares(&result)["wait.futex"] > 0.97, "{result:#}");
}

#[test]
#[ignore = "needs: root, eBPF"]
fn children_are_observed_only_when_that_was_asked_for() {
    let _alone = alone();
    if !has(NEEDS) {
        return;
    }
    let program = Ledger::start("children", &[]);
    let alone = observed(program.pid(), 1, &[]);
    assert_whole(&alone, "children");
    assert!(shares(&alone)["wait.child"] > 0.8, "{alone:#}");
    assert!(!shares(&alone).contains_key("wait.sleep"), "{alone:#}");
    let all = observed(program.pid(), 1, &["--param", "children=true"]);
    assert_whole(&all, "children with their parent");
    assert!(shares(&all)["wait.sleep"] > 0.2, "{all:#}");
    let (threads, pid) = (rows(&all, "threads"), program.pid().to_string());
    assert!(threads.iter().any(|thread| thread["pid"].as_str() != Some(&pid)), "{threads:#?}");
}

#[test]
#[ignore = "needs: root, eBPF"]
fn calls_are_counted_as_the_program_makes_them_and_one_slow_wait_is_seen() {
    let _alone = alone();
    if !has(NEEDS) {
        return;
    }
    let (result, truth) = observed_with(&ALL_CALLS, "skewed-sleep", 2.0, &[(ON_ONE_CPU, "yes")]);
    assert_like(&result, &truth, "skewed-sleep");
    let sleeps = row(&result, "calls", "call", "clock_nanosleep");
    assert_eq!(
        sleeps["count"].as_u64().or(sleeps["count"].as_f64().map(|count| count as u64)),
        Some(truth.count("wait.sleep"))
    );
    let longest = sleeps["longest"].as_f64().unwrap();
    assert!(longest > 0.2 && longest < 0.5, "{sleeps:#?}");
    let timer = row(&result, "wakers", "component", "wait.sleep");
    assert!(timer["name"].as_str().unwrap().starts_with("interrupt"), "{timer:#?}");
}

#[test]
#[ignore = "needs: root, eBPF"]
fn calls_of_a_process_that_changes_its_ways_are_told_by_parts_of_all_of_its_time() {
    let _alone = alone();
    if !has(NEEDS) {
        return;
    }
    // Many reads for some seconds, then nothing but one sleep, which lasts beyond the end.
    let text = "import os, time\nnull = os.open('/dev/null', os.O_RDONLY)\nprint('begun', flush=True)\n\
                end = time.monotonic() + 5\nwhile time.monotonic() < end: os.read(null, 1)\ntime.sleep(60)\n";
    let mut program = std::process::Command::new("python3")
        .args(["-c", text])
        .stdout(std::process::Stdio::piped())
        .spawn()
        .expect("python3");
    std::io::Read::read_exact(program.stdout.as_mut().unwrap(), &mut [0; 5]).unwrap();
    let result = observed(program.id(), 8, &[]);
    let whole = observed(program.id(), 1, &ALL_CALLS);
    program.kill().unwrap();
    program.wait().unwrap();
    let title = result["outputs"].as_array().unwrap().iter().find(|output| output["table"]["id"] == "calls").unwrap();
    let title = title["table"]["title"].as_str().unwrap();
    assert!(["as 3.", "as 4.", "as 5."].iter().any(|share| title.contains(share)), "{title}");
    assert!(rows(&whole, "calls").len() == 1, "{whole:#}");
    let (read, sleep) =
        (row(&result, "calls", "call", "read(device)"), row(&result, "calls", "call", "clock_nanosleep"));
    // How many they are, nobody knows who does not watch all the time; on a busy machine it may do little.
    assert!(read["count"].as_f64().unwrap() > 10_000.0, "{read}");
    // It never ended, and is there with its time.
    let (slept, waited) = (sleep["time"].as_f64().unwrap(), shares(&result)["wait.sleep"] * 8.0);
    assert!(sleep["count"] == 0 || sleep["count"] == 0.0, "{sleep}");
    assert!((slept - waited).abs() < 1.5, "{sleep}, and it slept {waited} s");
}

#[test]
#[ignore = "needs: root, eBPF"]
fn without_a_target_or_with_one_that_is_gone_it_says_so() {
    let _alone = alone();
    if !has(NEEDS) {
        return;
    }
    let output = rdiag().args(["probe", "response", "-d", "1s"]).output().unwrap();
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success() && text.contains("--pid, --comm or --cgroup"), "{text}");
    let output = rdiag().args(["probe", "response", "-d", "1s", "-p", "4194303"]).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
}

/// A control group with a fifth of one CPU; none where none can be made.
struct Fifth(std::path::PathBuf);

impl Fifth {
    fn new() -> Option<Self> {
        let v2 = std::path::Path::new("/sys/fs/cgroup");
        let (tree, files): (_, &[(&str, &str)]) = if v2.join("cgroup.controllers").exists() {
            let _ = std::fs::write(v2.join("cgroup.subtree_control"), "+cpu");
            (v2.to_owned(), &[("cpu.max", "20000 100000")])
        } else {
            (v2.join("cpu"), &[("cpu.cfs_period_us", "100000"), ("cpu.cfs_quota_us", "20000")])
        };
        let group = tree.join(format!("rdiag-response-{}", std::process::id()));
        std::fs::create_dir(&group).ok()?;
        let group = Self(group);
        for (file, value) in files {
            std::fs::write(group.0.join(file), value).ok()?;
        }
        Some(group)
    }
}

impl Fifth {
    /// Seconds for which the group was throttled so far.
    fn throttled(&self) -> f64 {
        let text = std::fs::read_to_string(self.0.join("cpu.stat")).unwrap();
        let field = |name: &str| {
            let line = text.lines().find_map(|line| line.strip_prefix(name));
            line.and_then(|value| value.trim().parse::<f64>().ok())
        };
        field("throttled_usec ").map_or_else(|| field("throttled_time ").unwrap() * 1e-9, |value| value * 1e-6)
    }
}

impl Drop for Fifth {
    fn drop(&mut self) {
        std::thread::sleep(std::time::Duration::from_millis(300));
        let _ = std::fs::remove_dir(&self.0);
    }
}

fn throttling_is_told_from_waiting_for_a_cpu() {
    let Some(group) = Fifth::new() else {
        println!("SKIPPED: no control group with the cpu controller can be made");
        return;
    };
    let program = Ledger::start_in(&group.0.join("cgroup.procs"), "spin", &[]);
    let before = group.throttled();
    let result = observed(program.pid(), 3, &[]);
    assert!(group.throttled() > before, "the group was never throttled");
    assert_whole(&result, "throttled");
    let shares = shares(&result);
    let share = |id: &str| shares.get(id).copied().unwrap_or(0.0);
    // What others take of the CPU meanwhile is no throttling.
    assert!(share("throttled") > 0.3, "{shares:#?}");
    assert!((share("cpu") - 0.2).abs() < 0.05 && (share("runnable") - 0.8).abs() < 0.05, "{shares:#?}");
    drop(program);
}

#[test]
#[ignore = "needs: root, eBPF, a control group with the cpu controller"]
fn a_spinner_with_a_fifth_of_a_cpu_is_throttled_for_the_rest() {
    let _alone = alone();
    if has(NEEDS) {
        throttling_is_told_from_waiting_for_a_cpu();
    }
}

#[test]
#[ignore = "needs: root, a kernel of the matrix"]
fn vm_the_time_of_programs_is_divided_as_they_say_themselves() {
    let _alone = alone();
    if !has(NEEDS) {
        return;
    }
    // On an emulated CPU the start of a program takes long, and its own account misses that. How much of its time a program
    // computes that also sleeps depends on what else is emulated meanwhile, such as the start of rdiag.
    for name in ["spin", "sleep", "pipe-ping-pong", "futex-convoy"] {
        agrees_while_it_runs(name, 5, 0.05);
    }
    let program = Ledger::start("blocked", &[]);
    let result = observed(program.pid(), 3, &[]);
    assert_whole(&result, "blocked");
    assert!(shares(&result)["ipc.pipe"] > 0.45, "{result:#}");
    throttling_is_told_from_waiting_for_a_cpu();
}
