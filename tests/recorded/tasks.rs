//! Processes that no ordinary host shows: odd names, reused ids, files that are gone or hold garbage.

use std::path::Path;

use crate::support::{assert_nothing_else_fired, finding, findings, report_of_tree};

fn write(root: &Path, path: &str, text: &str) {
    let place = root.join(path);
    std::fs::create_dir_all(place.parent().unwrap()).unwrap();
    std::fs::write(place, text).unwrap();
}

/// A process in state `state`, with its parent, its start time and its CPU time in ticks.
fn process(instant: &Path, pid: u32, name: &str, state: char, parent: u32, start: u64, ticks: u64) {
    let rest = format!("1 1 0 -1 0 7 0 0 0 {ticks} 0 0 0 20 0 1 0 {start} 9 5 1");
    write(instant, &format!("proc/{pid}/stat"), &format!("{pid} ({name}) {state} {parent} {rest}\n"));
    write(instant, &format!("proc/{pid}/schedstat"), &format!("{ticks}0000000 5 5\n"));
}

fn host(seconds: usize) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    let times: Vec<String> = (0..=seconds).map(|second| format!("{second}.0")).collect();
    write(dir.path(), "host.yaml", &format!("story: made for a test\ntimes: [{}]\n", times.join(", ")));
    write(dir.path(), "t0/sys/devices/system/cpu/online", "0-3\n");
    for at in 0..=seconds {
        process(&dir.path().join(format!("t{at}")), 1, "init", 'S', 0, 1, 100);
        write(dir.path(), &format!("t{at}/proc/loadavg"), "0.00 0.00 0.00 1/300 900\n");
        let jiffies = 1000 + 300 * at;
        let cpu = format!("{} 0 0 {jiffies} 0 0 0 0", 100 * at);
        write(
            dir.path(),
            &format!("t{at}/proc/stat"),
            &format!("cpu  {cpu}\ncpu0 {cpu}\nprocesses {}\n", 500 + 20 * at),
        );
    }
    write(dir.path(), "t0/proc/sys/kernel/pid_max", "32768\n");
    write(dir.path(), "t0/proc/sys/kernel/threads-max", "192730\n");
    dir
}

#[test]
fn odd_names_reused_ids_and_garbage_do_not_disturb_the_reading_of_others() {
    let host = host(4);
    let root = host.path();
    for at in 0..=4 {
        let ticks = 50 + 30 * at as u64;
        process(&root.join(format!("t{at}")), 40, "(a) b) R 1 1", 'R', 1, 900, ticks);
        // One id, two processes: the second has less CPU time than the first had.
        process(
            &root.join(format!("t{at}")),
            60,
            "twice",
            'S',
            1,
            if at < 2 { 500 } else { 1100 },
            if at < 2 { 5000 } else { 10 },
        );
        write(root, &format!("t{at}/proc/70/stat"), "70 (broken) S");
        write(root, &format!("t{at}/proc/71/stat"), "");
    }
    process(&root.join("t1"), 50, "gone", 'R', 1, 1050, 3);
    let report = report_of_tree(root);
    assert_nothing_else_fired(&report, &[]);
    let process = finding(&report, "cpu.utilization.process", None);
    assert!((process["value"].as_f64().unwrap() - 0.3).abs() < 0.01, "{process:#}");
    assert_eq!(finding(&report, "tasks.errors.zombies", None)["status"], "ok");
    let tasks = finding(&report, "tasks.utilization", None);
    assert_eq!(tasks["status"], "ok");
    assert!(tasks["summary"].as_str().unwrap().contains("kernel.pid_max"), "the nearer limit is named");
    assert_eq!(finding(&report, "tasks.saturation.forks", None)["value"].as_f64().unwrap().round(), 20.0);
}

#[test]
fn zombies_are_counted_and_their_parent_is_named() {
    let host = host(2);
    for at in 0..=2 {
        process(&host.path().join(format!("t{at}")), 80, "careless", 'S', 1, 900, 5);
        for pid in 1000..1150 {
            process(&host.path().join(format!("t{at}")), pid, "child", 'Z', 80, 950, 1);
        }
    }
    let report = report_of_tree(host.path());
    assert_nothing_else_fired(&report, &[]);
    let zombies = finding(&report, "tasks.errors.zombies", None);
    assert_eq!((&zombies["status"], &zombies["value"]), (&"info".into(), &150.0.into()));
    assert_eq!(zombies["culprit"]["name"], "careless");
    assert_eq!(zombies["summary"], "150 zombies (ended, not reaped by their parent; careless has the most).");
    assert_eq!(zombies["culprit"]["pids"], serde_json::json!([80]));
}

#[test]
fn a_process_at_its_limit_of_open_files_is_named_and_one_far_from_it_is_not() {
    let host = host(1);
    for at in 0..=1 {
        for (pid, name, open, limit) in [(90, "leaky", 63, 64), (91, "large", 100, 100_000)] {
            process(&host.path().join(format!("t{at}")), pid, name, 'S', 1, 900, 5);
            let limits = format!("Limit  Soft Limit  Hard Limit  Units\nMax open files  {limit}  {limit}  files\n");
            write(host.path(), &format!("t{at}/proc/{pid}/limits"), &limits);
            for number in 0..open {
                write(host.path(), &format!("t{at}/proc/{pid}/fd/{number}"), "");
            }
        }
    }
    let report = report_of_tree(host.path());
    assert_nothing_else_fired(&report, &["fd.utilization.process"]);
    let leaky = finding(&report, "fd.utilization.process", Some("90:900"));
    assert_eq!(leaky["status"], "critical");
    assert_eq!((&leaky["culprit"]["name"], &leaky["culprit"]["pids"]), (&"leaky".into(), &serde_json::json!([90])));
    assert_eq!(finding(&report, "fd.utilization.process", Some("91:900"))["status"], "ok");
}

#[test]
fn one_thread_that_fills_a_cpu_of_a_host_with_idle_ones_is_found_in_the_drill_down() {
    let host = host(6);
    let root = host.path();
    for at in 0..=6 {
        let ticks = 100 * at as u64;
        process(&root.join(format!("t{at}")), 40, "server", 'R', 1, 900, ticks + 5);
        process(&root.join(format!("t{at}")), 41, "niced", 'R', 1, 900, ticks);
        for (pid, tid, name, nice, ticks) in
            [(40, 40, "server", 0, 5), (40, 42, "worker", 0, ticks), (41, 41, "niced", 19, ticks)]
        {
            let rest = format!("1 1 0 -1 0 7 0 0 0 {ticks} 0 0 0 20 {nice} 2 0 900 9 5 1");
            write(root, &format!("t{at}/proc/{pid}/task/{tid}/stat"), &format!("{tid} ({name}) R 1 {rest}\n"));
            write(root, &format!("t{at}/proc/{pid}/task/{tid}/schedstat"), &format!("{ticks}0000000 5 5\n"));
        }
    }
    let report = report_of_tree(root);
    assert_nothing_else_fired(&report, &["cpu.utilization.single_thread"]);
    let worker = finding(&report, "cpu.utilization.single_thread", Some("42:900"));
    assert_eq!(worker["status"], "warning", "{worker:#}");
    assert_eq!((&worker["culprit"]["name"], &worker["culprit"]["pids"]), (&"worker".into(), &serde_json::json!([40])));
    assert_eq!(finding(&report, "cpu.utilization.single_thread", Some("41:900"))["status"], "info");
    assert_eq!(findings(&report, "cpu.utilization.single_thread").len(), 2);
}
