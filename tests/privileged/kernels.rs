//! What must hold on every kernel of the matrix (`tests/vm/run`): the sources are understood, and control groups of a
//! pure v2 tree are judged. The guest's disks and network are not those of a host, so only statuses are compared.

use std::io::Write as _;
use std::path::PathBuf;

use crate::support::{
    Load, Need, alone, assert_judged, finding, has, live_report, live_report_every, report_fired, skip, wait_until,
};

/// A control group that is removed with its processes.
pub(super) struct Group(pub(super) PathBuf);

impl Group {
    pub(super) fn new(name: &str, files: &[(&str, &str)]) -> Self {
        let path = PathBuf::from("/sys/fs/cgroup").join(name);
        std::fs::create_dir_all(&path).unwrap();
        for (file, value) in files {
            std::fs::write(path.join(file), value).unwrap_or_else(|error| panic!("{name}/{file}: {error}"));
        }
        Self(path)
    }

    fn add(&self, pids: &[u32]) {
        for pid in pids {
            let mut file = std::fs::OpenOptions::new().write(true).open(self.0.join("cgroup.procs")).unwrap();
            file.write_all(pid.to_string().as_bytes()).unwrap();
        }
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        let _ = std::fs::write(self.0.join("cgroup.kill"), "1");
        std::thread::sleep(std::time::Duration::from_millis(300));
        let _ = std::fs::remove_dir(&self.0);
    }
}

/// An old kernel takes the emulated TSC for unstable and falls back on the HPET, and rdiag is right to say so.
const CLOCK: &str = "kernel.utilization.clocksource";

/// Wants 200 MB in one piece, is killed for it, and begins anew: nobody knows when a measurement begins on an emulated CPU.
const KILLED_AGAIN_AND_AGAIN: &str = "while :; do dd if=/dev/zero of=/dev/null bs=200M count=1; sleep 0.5; done";

/// Fills a group with sleepers, and goes on trying when it is full.
const FORKS_WHEREVER_IT_MAY: &str = "import os, time
while True:
    try:
        if os.fork() == 0:
            time.sleep(99)
    except OSError:
        time.sleep(0.2)";

const V2: Need = Need::Path("/sys/fs/cgroup/cgroup.controllers");

#[test]
#[ignore = "needs: root, a kernel of the matrix with a pure cgroup v2 tree"]
fn vm_an_idle_guest_raises_nothing_and_its_sources_are_understood() {
    let _alone = alone();
    if !has(&[Need::Root, V2]) {
        return;
    }
    let report = live_report(4);
    let malformed: Vec<_> = report["coverage"]["unavailable"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|gap| gap["reason"] == "malformed")
        .collect();
    assert!(malformed.is_empty(), "{malformed:#?}");
    assert_eq!(report_fired(&report, &[CLOCK]), "", "false alarms");
    assert_judged(&report);
    assert_eq!(report["host"]["cgroup"], "v2");
}

#[test]
#[ignore = "needs: root, a kernel of the matrix with a pure cgroup v2 tree"]
fn vm_a_throttled_group_is_named() {
    let _alone = alone();
    if !has(&[Need::Root, V2]) {
        return;
    }
    let group = Group::new("rdiag-throttled", &[("cpu.max", "20000 100000")]);
    let load = Load::start(1, "sh", &["-c", "while :; do :; done"]);
    group.add(&load.pids());
    let report = live_report(5);
    let found = finding(&report, "cgroup.saturation.throttling", Some("/rdiag-throttled"));
    assert_eq!(found["status"], "critical", "{found:#}");
    assert_eq!(report_fired(&report, &["cgroup.", CLOCK]), "", "false alarms");
}

#[test]
#[ignore = "needs: root, a kernel of the matrix with a pure cgroup v2 tree"]
fn vm_a_kill_at_a_memory_limit_names_the_group() {
    let _alone = alone();
    if !has(&[Need::Root, V2]) {
        return;
    }
    let group = Group::new("rdiag-oom", &[("memory.max", "67108864"), ("memory.oom.group", "0")]);
    let load = Load::start(1, "sh", &["-c", KILLED_AGAIN_AND_AGAIN]);
    group.add(&load.pids());
    let report = live_report(6);
    let found = finding(&report, "cgroup.errors.oom", Some("/rdiag-oom"));
    assert_eq!(found["status"], "critical", "{found:#}");
    assert_eq!(
        finding(&report, "memory.errors.oom", None)["status"],
        "ok",
        "the limit is the cause, not the host's memory"
    );
}

#[test]
#[ignore = "needs: root, a kernel of the matrix with a pure cgroup v2 tree"]
fn vm_four_loops_for_each_cpu_are_a_critical_saturation_by_the_kernels_own_count() {
    let _alone = alone();
    if !has(&[Need::Root, V2, Need::Path("/proc/schedstat")]) {
        return;
    }
    let loops = 4 * std::thread::available_parallelism().unwrap().get();
    let _load = Load::start(loops, "sh", &["-c", "ulimit -t 20; while :; do :; done"]);
    // Samples come late where CPUs are emulated and short; with fewer of them each interval has its readings.
    let report = live_report_every("2s", 8);
    let found = finding(&report, "cpu.saturation", None);
    assert_eq!(found["status"], "critical", "{found:#}");
    let evidence = found["evidence"].as_array().unwrap();
    let wait = evidence.iter().find(|evidence| evidence["metric"] == "cpu.runqueue.wait.ratio").unwrap();
    assert_eq!(wait["source"], "schedstat.run, schedstat.wait");
    assert_eq!(report_fired(&report, &["cpu.", CLOCK]), "", "false alarms");
}

#[test]
#[ignore = "needs: root, a kernel of the matrix with a pure cgroup v2 tree, python3"]
fn vm_what_happens_in_a_group_below_is_put_down_to_the_group_with_the_limit() {
    let _alone = alone();
    if !has(&[Need::Root, V2, Need::Tool("python3")]) {
        return;
    }
    // Before Linux 6.11 a refused fork was counted in the group below, since then in the one with the limit.
    let forks = Group::new("rdiag-forks", &[("pids.max", "12"), ("cgroup.subtree_control", "+pids")]);
    let forks_below = Group::new("rdiag-forks/below", &[]);
    let memory = Group::new("rdiag-memory", &[("memory.max", "67108864"), ("cgroup.subtree_control", "+memory")]);
    let memory_below = Group::new("rdiag-memory/below", &[]);
    let forking = Load::start(1, "python3", &["-c", FORKS_WHEREVER_IT_MAY]);
    let killed = Load::start(1, "sh", &["-c", KILLED_AGAIN_AND_AGAIN]);
    forks_below.add(&forking.pids());
    memory_below.add(&killed.pids());
    let full = || std::fs::read_to_string(forks.0.join("pids.current")).is_ok_and(|text| text.trim() == "12");
    assert!(wait_until(60, full), "the group filled up");
    let report = live_report(6);
    for (id, group) in [("cgroup.errors.pids", "/rdiag-forks"), ("cgroup.errors.oom", "/rdiag-memory")] {
        let found = finding(&report, id, Some(group));
        assert_eq!(found["status"], "critical", "{found:#}");
    }
    drop((forking, killed, forks_below, memory_below, forks, memory));
}

#[test]
#[ignore = "needs: root, a kernel of the matrix with a pure cgroup v2 tree"]
fn vm_a_group_that_grows_beyond_memory_high_stalls_and_nobody_is_killed() {
    let _alone = alone();
    if !has(&[Need::Root, V2, Need::Tool("python3")]) {
        return;
    }
    let group = Group::new("rdiag-high", &[("memory.high", "33554432")]);
    let grow = "import time\nx = []\nwhile True:\n    x.append(bytearray(1 << 18))\n    time.sleep(0.01)";
    let load = Load::start(1, "python3", &["-c", grow]);
    group.add(&load.pids());
    // `low 0`, `high 17` and so on, each on its line.
    let slowed = || {
        let events = std::fs::read_to_string(group.0.join("memory.events")).unwrap();
        events.lines().any(|line| line.strip_prefix("high ").is_some_and(|count| count != "0"))
    };
    assert!(wait_until(60, slowed), "the group grew to its limit");
    let report = live_report(6);
    let found = finding(&report, "cgroup.saturation.memory", Some("/rdiag-high"));
    if found["unavailable"]["reason"] == "absent" {
        skip("in part: this kernel keeps no stall times");
    } else {
        assert_eq!(found["status"], "critical", "{found:#}");
        assert!(found["summary"].as_str().unwrap().contains("memory.high slowed it down"), "{found:#}");
        let stalls = finding(&report, "memory.saturation.stalls", None);
        // It pauses for most of the time; the little that it does itself is seen all the same.
        assert!(stalls["value"].as_f64().is_some_and(|share| share > 0.0), "{stalls:#}");
    }
    assert_eq!(finding(&report, "cgroup.errors.oom", Some("/rdiag-high"))["status"], "ok");
    drop((load, group));
}

/// A disk without a medium, nullb0.
pub(super) struct NullDisk;

impl NullDisk {
    pub(super) fn with(parameters: &[&str]) -> Self {
        modprobe(&[&["null_blk", "nr_devices=1"], parameters].concat());
        Self
    }
}

impl Drop for NullDisk {
    fn drop(&mut self) {
        modprobe(&["--remove", "null_blk"]);
    }
}

pub(super) fn modprobe(args: &[&str]) {
    let output = std::process::Command::new("modprobe").args(args).output().unwrap();
    assert!(output.status.success(), "modprobe {args:?}: {}", String::from_utf8_lossy(&output.stderr));
}

#[test]
#[ignore = "needs: root, a kernel of the matrix with its modules"]
fn vm_a_disk_that_is_slow_with_one_request_at_a_time_is_not_called_overloaded() {
    let _alone = alone();
    if !has(&[Need::Root, V2, Need::Tool("modprobe")]) {
        return;
    }
    // Every request takes 100 ms.
    let disk = NullDisk::with(&["irqmode=2", "completion_nsec=100000000"]);
    // What udev does with a new disk keeps an emulated CPU busy for longer than the second window waits for.
    let _settled = std::process::Command::new("udevadm").args(["settle", "--timeout=60"]).status();
    let load = Load::start(1, "dd", &["if=/dev/nullb0", "of=/dev/null", "bs=4k", "iflag=direct"]);
    let report = live_report(5);
    drop((load, disk));
    let latency = finding(&report, "disk.saturation.read_latency", Some("nullb0"));
    assert_eq!(latency["status"], "critical", "{latency:#}");
    let took = latency["value"].as_f64().unwrap();
    assert!((0.1..0.2).contains(&took), "{took} s");
    assert!(latency["summary"].as_str().unwrap().contains("slow, not overloaded"), "{latency:#}");
    assert_eq!(finding(&report, "disk.saturation", Some("nullb0"))["status"], "ok");
    // The second window, inside the kernel.
    let single = finding(&report, "disk.saturation.io_latency", Some("nullb0"));
    assert_eq!(single["culprit"]["name"], "dd", "{single:#}");
    assert_eq!(report_fired(&report, &["disk.", CLOCK]), "", "false alarms");
}
