//! Where the time of programs goes that run already, for a part of their lives: their threads and children, waits for a
//! disk, and the quota of a control group.

use serde_json::Value;

use super::response::{
    ALL_CALLS, NEEDS, TOLERANCE, assert_like_but_for_its_start, assert_whole, observed_command, row, rows, shares,
};
use crate::support::ledger::{Ledger, ON_ONE_CPU};
use crate::support::{Disturbance, Series, alone, has, rdiag, skip};

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

/// A program that does the same all the time, observed for a part of its life.
fn agrees_while_it_runs(name: &str, seconds: u32, tolerance: f64) {
    let program = Ledger::start(name, &[(ON_ONE_CPU, "yes")]);
    let result = observed(program.pid(), seconds, &[]);
    assert_whole(&result, name);
    let (truth, shares) = (program.truth(), shares(&result));
    for component in truth.components() {
        let (is, should) = (shares.get(&component).copied().unwrap_or(0.0), truth.share(&component));
        assert!(
            (is - should).abs() < tolerance + truth.share("runnable") + truth.unsure(),
            "{name}: {component} is {is}, should be {should}: {shares:#?} {truth:#?}"
        );
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
            (is - should).abs() < TOLERANCE + truth.share("runnable") + truth.unsure() + 0.05,
            "{program}: {is}, should be {should}: {result:#}"
        );
        if should < 0.1 {
            skip(&format!("in part: this disk is too fast for {program}"));
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

/// Seconds for which a group was throttled so far, by its file cpu.stat.
fn throttled(file: &std::path::Path) -> f64 {
    let text = std::fs::read_to_string(file).unwrap();
    let field = |name: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(name));
        line.and_then(|value| value.trim().parse::<f64>().ok())
    };
    field("throttled_usec ").map_or_else(|| field("throttled_time ").unwrap() * 1e-9, |value| value * 1e-6)
}

impl Drop for Fifth {
    fn drop(&mut self) {
        std::thread::sleep(std::time::Duration::from_millis(300));
        let _ = std::fs::remove_dir(&self.0);
    }
}

fn throttling_is_told_from_waiting_for_a_cpu() {
    let Some(group) = Fifth::new() else {
        return skip("no control group with the cpu controller can be made");
    };
    let program = Ledger::start_in(&group.0.join("cgroup.procs"), "spin", &[]);
    let account = {
        let file = group.0.join("cpu.stat");
        Series::of(move || throttled(&file))
    };
    let disturbance = Disturbance::begin();
    let result = observed(program.pid(), 3, &[]);
    let figures = disturbance.so_far();
    let seconds = result.get("seconds").and_then(Value::as_f64).unwrap();
    let (least, most) = account.within(seconds);
    assert_whole(&result, "throttled");
    let shares = shares(&result);
    let share = |id: &str| shares.get(id).copied().unwrap_or(0.0);
    // The group's own account of any three seconds of the run: one pause of 80 ms at either end may be in the other account. What others take
    // of the CPU meanwhile is no throttling, and the less of it is left the seldomer the group comes to its limit.
    let (least, most) = ((least - 0.16) / seconds, (most + 0.16) / seconds);
    let expected = 0.3 * (1.0 - 2.0 * figures.share());
    assert!((least + most) / 2.0 > expected, "the group was throttled for {least} to {most} of the time, {figures}");
    assert!((least..=most).contains(&share("throttled")), "{least} to {most}, {figures}: {shares:#?}");
    let (cpu, runnable) = (share("cpu"), share("runnable"));
    assert!((0.15 * (1.0 - figures.share())..0.25).contains(&cpu), "{figures}: {shares:#?}");
    assert!((cpu + runnable - 1.0).abs() < 0.05, "{shares:#?}");
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
    // On an emulated CPU the start of a program takes long, and its own account misses that.
    for name in ["spin", "sleep", "pipe-ping-pong", "futex-convoy"] {
        agrees_while_it_runs(name, 5, 0.05);
    }
    // How much of its time a program computes that also sleeps depends on what else is emulated meanwhile, such as the start of rdiag: both
    // must have the same time in view, which is all of its life.
    let (result, truth) = observed_command("mix", 8.0, &[(ON_ONE_CPU, "yes")]);
    assert_like_but_for_its_start(&result, &truth, "mix");
    let program = Ledger::start("blocked", &[]);
    let result = observed(program.pid(), 3, &[]);
    assert_whole(&result, "blocked");
    assert!(shares(&result)["ipc.pipe"] > 0.45, "{result:#}");
    throttling_is_told_from_waiting_for_a_cpu();
}
