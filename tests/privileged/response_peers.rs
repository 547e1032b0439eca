//! The probe `response` beside the tools that tell the same of the same program: strace, perf trace, time.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use serde_json::Value;

use super::response::{NEEDS, assert_whole, rows};
use crate::support::{Need, alone, has, rdiag, skip};

/// Of the calls of this name: how many, and their seconds.
fn calls(result: &Value, call: &str) -> (f64, f64) {
    let all = rows(result, "calls");
    let named = all.iter().filter(|row| row["call"].as_str().is_some_and(|name| name.split('(').next() == Some(call)));
    named.fold((0.0, 0.0), |(count, seconds), row| {
        (count + row["count"].as_f64().unwrap(), seconds + row["time"].as_f64().unwrap())
    })
}

/// Calls by name as strace counts them, of `program -- arguments`.
fn counted_by_strace(command: &[&str]) -> BTreeMap<String, u64> {
    let output = Command::new("strace").args(["-f", "-c", "-w", "-o", "/dev/stdout"]).args(command).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let line = |line: &str| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let calls = fields.get(3)?.parse().ok()?;
        Some(((*fields.last()?).to_owned(), calls))
    };
    text.lines().filter_map(line).collect()
}

#[test]
#[ignore = "needs: root, eBPF, strace"]
fn calls_are_counted_as_strace_counts_them() {
    let _alone = alone();
    if !has(NEEDS) || !has(&[Need::Tool("strace")]) {
        return;
    }
    let command = ["dd", "if=/dev/zero", "of=/dev/null", "bs=4096", "count=5000"];
    let output = rdiag()
        .args(["probe", "response", "--budget", "100%", "--format", "json", "--param", "top=1000", "--"])
        .args(command)
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let result: Value = text.lines().find_map(|line| serde_json::from_str(line).ok()).expect("a result");
    assert_whole(&result, "dd");
    let strace = counted_by_strace(&command);
    for call in ["read", "write", "openat", "close"] {
        let (ours, _) = calls(&result, call);
        let theirs = strace.get(call).copied().unwrap_or(0) as f64;
        // What rdiag's own stub does between the moment it is let go and the program's first instruction is in ours.
        assert!(ours >= theirs && ours - theirs <= 20.0, "{call}: {ours}, strace has {theirs}: {strace:#?}");
    }
}

/// A program that sleeps a thousand times, makes many short calls and computes.
const PROGRAM: &str = r#"
#include <time.h>
#include <unistd.h>
static long ms(void) { struct timespec now; clock_gettime(CLOCK_MONOTONIC, &now); return now.tv_sec * 1000 + now.tv_nsec / 1000000; }
int main(void)
{
    struct timespec nap = { 0, 400000 };
    for (int i = 0; i < 1000; i++) nanosleep(&nap, 0);
    for (int i = 0; i < 20000; i++) getppid();
    for (long end = ms() + 400; ms() < end;) ;
}
"#;

/// Where it is, once compiled.
fn compiled(folder: &Path) -> String {
    let path = |name: &str| folder.join(name).display().to_string();
    let (source, program) = (path("known.c"), path("rdiag-known"));
    std::fs::write(&source, PROGRAM).unwrap();
    assert!(Command::new("cc").args(["-O1", "-o", &program, &source]).status().unwrap().success());
    program
}

fn observed(command: &[&str]) -> Value {
    let all = ["--param", "calls_for=24h", "--param", "top=1000", "--"];
    let output =
        rdiag().args(["probe", "response", "--budget", "100%", "--format", "json"]).args(all).args(command).output();
    serde_json::from_slice(&output.unwrap().stdout).unwrap()
}

#[test]
#[ignore = "needs: root, eBPF, time, cc"]
fn a_program_takes_as_long_and_as_much_cpu_as_time_says() {
    let _alone = alone();
    if !has(NEEDS) || !has(&[Need::Tool("cc"), Need::Path("/usr/bin/time")]) {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let timed = folder.path().join("time").display().to_string();
    let program = compiled(folder.path());
    let result = observed(&["/usr/bin/time", "-o", &timed, "-f", "%e %U %S", &program]);
    let text = std::fs::read_to_string(&timed).unwrap();
    let figures: Vec<f64> = text.split_whitespace().map(|field| field.parse().unwrap()).collect();
    let [elapsed, user, system] = figures[..] else { panic!("{text}") };
    let threads = rows(&result, "threads");
    let of = |row: &&Value| row["name"].as_str().is_some_and(|name| name.contains("rdiag-known"));
    let thread = threads.iter().find(of).expect("the program");
    let (whole, cpu) = (thread["observed"].as_f64().unwrap(), thread["cpu"].as_f64().unwrap());
    // time(1) tells hundredths of a second, and its clock runs from before the fork until after the end.
    assert!((elapsed - whole).abs() < 0.04, "{elapsed} s by time, {whole} s here: {threads:#?}");
    assert!((user + system - cpu).abs() < 0.03 + 0.02 * cpu, "{user} + {system} s by time, {cpu} s here: {threads:#?}");
}

/// Calls of a program as `perf trace -s` sums them up: how many, and their seconds.
fn summed_by_perf(text: &str, call: &str) -> (f64, f64) {
    let line = text.lines().find(|line| line.split_whitespace().next() == Some(call)).expect("the call");
    let fields: Vec<f64> = line.split_whitespace().filter_map(|field| field.parse().ok()).collect();
    let [count, _, milliseconds, ..] = fields[..] else { panic!("{line}") };
    (count, milliseconds * 1e-3)
}

#[test]
#[ignore = "needs: root, eBPF, perf, cc"]
fn calls_take_as_long_as_perf_trace_says_of_the_same_run() {
    let _alone = alone();
    if !has(NEEDS) || !has(&[Need::Tool("cc"), Need::Tool("perf")]) {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let traced = folder.path().join("trace").display().to_string();
    let program = compiled(folder.path());
    let works = Command::new("perf").args(["trace", "-s", "-o", &traced, "true"]).output();
    if !works.is_ok_and(|output| output.status.success()) {
        return skip("perf trace cannot run here");
    }
    let result = observed(&["perf", "trace", "-s", "-o", &traced, &program]);
    let trace = std::fs::read_to_string(&traced).unwrap();
    // perf itself makes neither of these.
    for call in ["clock_nanosleep", "getppid"] {
        let ((count, time), (theirs, their_time)) = (calls(&result, call), summed_by_perf(&trace, call));
        // perf loses some where it is not quick enough, and then has not their time either.
        assert!(theirs <= count && theirs > 0.99 * count, "{call}: {count} here: {trace}");
        // What each of the two adds to a call is within the other's, or not.
        let allowed = 0.05 * their_time + count * 3e-6;
        assert!((time - their_time).abs() < allowed, "{call}: {time} s here, {their_time} s there");
    }
}
