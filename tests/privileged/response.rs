//! Where the time of programs goes whose time is known: the probe `response` against what they say of themselves.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::support::ledger::{Ledger, ON_ONE_CPU, Truth};
use crate::support::{Need, alone, has, rdiag};

pub(super) const NEEDS: &[Need] = &[Need::Root, Need::Path("/sys/kernel/btf/vmlinux")];
/// What a component may differ by, as a share of elapsed time.
pub(super) const TOLERANCE: f64 = 0.03;

/// What rdiag said, and what the program it started said of itself.
pub(super) fn observed_command(name: &str, seconds: f64, params: &[(&str, &str)]) -> (Value, Truth) {
    observed_with(&[], name, seconds, params)
}

/// All calls are watched, to the end.
pub(super) const ALL_CALLS: [&str; 2] = ["--param", "calls_for=24h"];

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
pub(super) fn row(result: &Value, table: &str, column: &str, text: &str) -> Value {
    let all = rows(result, table);
    let found = all.iter().find(|row| row[column] == text).cloned();
    found.unwrap_or_else(|| panic!("no {text} in {table}: {all:#?}"))
}

/// Shares of the components; `cpu` and `runnable` as programs tell them.
pub(super) fn shares(result: &Value) -> BTreeMap<String, f64> {
    let mut shares = BTreeMap::new();
    for row in &rows(result, "components") {
        let (id, share) = (row["component"].as_str().unwrap(), row["share"].as_f64().unwrap());
        shares.insert(id.to_owned(), share);
        let group = match id {
            "cpu.user" | "cpu.sys" => "cpu",
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
    assert_like_within(TOLERANCE, result, truth, what);
}

/// The same on an emulated CPU, where the start of a program takes long, which its own account leaves out: by as much more they may differ.
pub(super) fn assert_like_but_for_its_start(result: &Value, truth: &Truth, what: &str) {
    let (whole, lives) = lengths(result, truth);
    assert_like_within(0.05 + (whole / lives - 1.0).max(0.0), result, truth, what);
}

/// Seconds for which the threads were observed, and seconds for which they measured themselves.
fn lengths(result: &Value, truth: &Truth) -> (f64, f64) {
    let whole = rows(result, "threads").iter().map(|thread| thread["observed"].as_f64().unwrap()).sum();
    (whole, truth.threads.iter().map(|thread| thread.ended - thread.began).sum())
}

fn assert_like_within(tolerance: f64, result: &Value, truth: &Truth, what: &str) {
    assert_whole(result, what);
    let (whole, lives) = lengths(result, truth);
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
            "cpu" => truth.unsure(),
            "runnable" => wakeups * 1e-6 / lives,
            _ => truth.share("runnable") + truth.unsure(),
        };
        assert!(
            (is - should).abs() < tolerance + unsure,
            "{what}: {component} is {is}, should be {should}: {shares:#?} {truth:#?}"
        );
        if is_wait {
            (waits, waits_should) = (waits + is, waits_should + should);
        }
    }
    assert!(
        (waits - waits_should).abs() < tolerance + truth.unsure() + wakeups * 1e-6 / lives,
        "{what}: waits {waits}, should be {waits_should}: {shares:#?}"
    );
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
