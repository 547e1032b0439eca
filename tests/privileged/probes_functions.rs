//! The tracer of functions: counts by caller. Where a kernel does not have it, rdiag says so.
#![expect(clippy::indexing_slicing, reason = "a test may panic, in its helpers too")]

use std::collections::BTreeMap;
use std::fs;
use std::process::Command;

use serde_json::Value;

use super::probing::{assert_nothing_lost, rows};
use super::tracefs::{Own, TRACING, can_trace, instances, run};
use crate::support::{Load, rdiag, skip};

/// Whether this kernel lets an instance trace functions; otherwise rdiag must say that it does not.
pub(super) fn kernel_has_functions() -> bool {
    let own = Own::new();
    let has = fs::write(own.0.join("current_tracer"), "function").is_ok();
    drop(own);
    if !has {
        let before = instances();
        for args in [&["--function", "vfs_read", "--duration", "1s"][..], &["--", "true"]] {
            let (code, _, told) = run("functions", args);
            assert_eq!(code, 3, "{told}");
            assert!(told.contains("tracer") && told.contains("hint:"), "{told}");
        }
        let (code, told) = list("vfs_*");
        assert_eq!(code, 3, "{told}");
        assert_eq!(instances(), before, "nothing is left");
        skip("this kernel does not trace functions in an instance");
    }
    has
}

/// Exit code and what was told of a list, both ways.
fn list(pattern: &str) -> (i32, String) {
    let output = rdiag().args(["list", "functions", pattern]).output().unwrap();
    let told = [output.stdout, output.stderr].concat();
    (output.status.code().unwrap(), String::from_utf8_lossy(&told).into_owned())
}

pub(super) fn counts(readings: &[Value]) -> BTreeMap<String, f64> {
    let row = |row: serde_json::Map<String, Value>| {
        (row["function"].as_str().unwrap().to_owned(), row["count"].as_f64().unwrap())
    };
    rows(readings, "table", "functions").into_iter().map(row).collect()
}

#[test]
#[ignore = "needs: root, tracefs, the tracer function in an instance"]
fn vm_calls_of_a_function_are_counted_with_their_caller_and_only_of_the_command() {
    if !can_trace() || !kernel_has_functions() {
        return;
    }
    let other = Load::start(1, "sh", &["-c", "while :; do cd /; done"]);
    let program = "import os\nfor _ in range(70): os.chdir('/')";
    let args = ["--function", "__x64_sys_chdir,set_fs_pwd", "--param", "lines=5", "--", "python3", "-c", program];
    let (code, reading, told) = run("functions", &args);
    assert_eq!(code, 0, "{told}");
    let readings = [reading];
    assert_nothing_lost(&readings);
    let expected = [("__x64_sys_chdir", 70.0), ("set_fs_pwd", 70.0)].map(|(name, count)| (name.to_owned(), count));
    assert_eq!(counts(&readings), BTreeMap::from(expected));
    let callers = rows(&readings, "table", "callers");
    assert_eq!(callers.len(), 2, "each has one caller: {callers:?}");
    let first = rows(&readings, "events", "calls");
    assert_eq!(first.len(), 5);
    let times: Vec<f64> = first.iter().map(|call| call["time"].as_f64().unwrap()).collect();
    assert!(times.is_sorted() && times[0] > 0.0, "{times:?}");
    let order: Vec<&Value> = first.iter().map(|call| &call["function"]).collect();
    assert_eq!(order[..4], ["__x64_sys_chdir", "set_fs_pwd", "__x64_sys_chdir", "set_fs_pwd"]);
    assert_eq!(first[4]["name"], "python3");
    drop(other);
    // What is more than the budget stops it, though the program does little, and what was seen is kept.
    let before = instances();
    let program = Load::start(1, "python3", &["-c", "import time\nwhile True: time.sleep(0.01)"]);
    let pid = program.pids()[0].to_string();
    let args = ["--function", "schedule", "--pid", &pid, "--budget", "0.001%", "--duration", "60s"];
    let (code, reading, told) = run("functions", &args);
    assert_eq!(code, 5, "{told}");
    let notes = reading["notes"].to_string();
    assert!(notes.contains("stopped itself after") && notes.contains("events per second"), "{notes}");
    let (seconds, cost) = (reading["seconds"].as_f64().unwrap(), &reading["cost"]);
    assert!(seconds < 50.0 && cost["of"] == "events", "{seconds} s, {cost}: {notes}");
    assert!(counts(&[reading]).get("schedule").is_some_and(|count| *count > 0.0));
    assert_eq!(instances(), before, "nothing is left");
}

#[test]
#[ignore = "needs: root, tracefs, the tracer function in an instance"]
fn vm_functions_are_chosen_by_pattern_and_by_module_and_listed_as_the_kernel_takes_them() {
    if !can_trace() || !kernel_has_functions() {
        return;
    }
    let (code, reading, told) = run("functions", &["--function", "*balance*", "--duration", "3s"]);
    assert_eq!(code, 0, "{told}");
    let seen = counts(&[reading]);
    assert!(!seen.is_empty() && seen.keys().all(|name| name.contains("balance")), "{seen:?}");
    let (code, listed) = list("*balance*");
    assert_eq!(code, 0, "{listed}");
    assert!(
        seen.keys().all(|name| listed.lines().any(|line| line.split_whitespace().next() == Some(name))),
        "{listed}"
    );
    assert!(listed.lines().all(|line| line.contains("balance")), "{listed}");
    assert!(Command::new("modprobe").arg("null_blk").status().unwrap().success());
    let (code, listed) = list(":mod:null_blk");
    assert_eq!(code, 0, "{listed}");
    assert!(listed.lines().count() > 5 && listed.lines().all(|line| line.ends_with("null_blk")), "{listed}");
    // Requests may be handed to the driver by a thread of the kernel, so it is not the reader that is followed.
    let mut reader = Command::new("sh")
        .args([
            "-c",
            "while :; do dd if=/dev/nullb0 of=/dev/null bs=4k count=9 iflag=direct 2>/dev/null; sleep 0.1; done",
        ])
        .spawn()
        .unwrap();
    let (code, reading, told) = run("functions", &["--function", ":mod:null_blk", "--duration", "5s"]);
    let _ = reader.kill();
    let _ = reader.wait();
    assert_eq!(code, 0, "{told}");
    let seen = counts(&[reading]);
    assert!(seen.get("null_queue_rq").is_some_and(|count| *count >= 9.0), "{seen:?}");
    assert!(
        seen.keys().all(|name| listed.lines().any(|line| line.split_whitespace().next() == Some(name))),
        "{seen:?}"
    );
}

#[test]
#[ignore = "needs: root, tracefs, the tracer function in an instance"]
fn vm_what_may_not_be_traced_is_refused_before_anything_is() {
    if !can_trace() || !kernel_has_functions() {
        return;
    }
    let before = instances();
    for (args, expected, says) in [
        (&["--duration", "1s"][..], 3, "slow down the whole host"),
        (&["--function", "*", "--duration", "1s"], 3, "at most 1000"),
        (&["--function", "vfs_reed", "--duration", "1s"], 2, "did you mean `vfs_read`"),
        (&["--function", ":mod:no_such_module", "--duration", "1s"], 2, "lists no function"),
        (&["--function", "vfs_read:traceoff", "--duration", "1s"], 2, "no function of the kernel"),
    ] {
        let (code, _, told) = run("functions", args);
        assert_eq!(code, expected, "{told}");
        assert!(told.contains(says), "{told}");
    }
    let (code, told) = list(":mod:no_such_module");
    assert_eq!(code, 3, "{told}");
    assert!(told.contains("no_such_module"), "{told}");
    assert_eq!(instances(), before);
    assert_eq!(fs::read_to_string(format!("{TRACING}/current_tracer")).unwrap().trim(), "nop");
}
