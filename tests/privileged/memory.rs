use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use crate::support::{
    Load, Need, alone, assert_nothing_else_fired, finding, findings, has, live_report, skip, wait_until,
};

/// A memory cgroup with a limit that goes away with everything in it.
pub(super) struct MemoryCgroup(pub(super) PathBuf);

impl MemoryCgroup {
    /// Of whichever version of control groups this host has; none if it offers no memory controller.
    pub(super) fn with_limit(name: &str, bytes: u64) -> Option<Self> {
        let (root, limit) = if Path::new("/sys/fs/cgroup/memory/memory.limit_in_bytes").exists() {
            ("/sys/fs/cgroup/memory", "memory.limit_in_bytes")
        } else {
            let _ = std::fs::write("/sys/fs/cgroup/cgroup.subtree_control", "+memory");
            ("/sys/fs/cgroup", "memory.max")
        };
        let group = Self(Path::new(root).join(name));
        std::fs::create_dir(&group.0).ok()?;
        let swap = group.0.join("memory.swap.max");
        if swap.exists() {
            std::fs::write(swap, "0").ok()?;
        }
        std::fs::write(group.0.join(limit), bytes.to_string()).ok()?;
        Some(group)
    }

    /// Starts a shell command in the group.
    fn start(&self, script: &str) -> Load {
        let script = format!("echo $$ > {}/cgroup.procs; {script}", self.0.display());
        Load::start(1, "sh", &["-c", &script])
    }
}

impl Drop for MemoryCgroup {
    fn drop(&mut self) {
        let pids = std::fs::read_to_string(self.0.join("cgroup.procs")).unwrap_or_default();
        for pid in pids.lines() {
            let _ = Command::new("kill").args(["-9", pid]).stderr(Stdio::null()).status();
        }
        for _ in 0..50 {
            if std::fs::remove_dir(&self.0).is_ok() {
                return;
            }
            std::thread::sleep(Duration::from_millis(100));
        }
    }
}

/// A file of zeros without blocks that goes away with the test.
pub(super) struct SparseFile(pub(super) PathBuf);

impl SparseFile {
    pub(super) fn of(bytes: u64) -> Self {
        let path = std::env::temp_dir().join(format!("rdiag-test-{}", std::process::id()));
        std::fs::File::create(&path).unwrap().set_len(bytes).unwrap();
        Self(path)
    }
}

impl Drop for SparseFile {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

/// Doubles a string until there is no more memory.
const HOG: &str = "exec awk 'BEGIN { s = \"0123456789abcdef\"; while (1) s = s s }'";

#[test]
#[ignore = "needs: root, a memory cgroup"]
fn a_kill_at_the_limit_of_a_cgroup_is_critical_and_no_shortage_of_the_host() {
    let _alone = alone();
    if !has(&[Need::Root]) {
        return;
    }
    let Some(group) = MemoryCgroup::with_limit("rdiag-test-oom", 32 << 20) else {
        return skip("no control group with the memory controller can be made");
    };
    let hog = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_secs(2));
        let load = group.start(HOG);
        std::thread::sleep(Duration::from_secs(4));
        drop(load);
        drop(group);
    });
    let report = live_report(5);
    hog.join().unwrap();
    let oom = finding(&report, "memory.errors.oom", None);
    assert_eq!((&oom["status"], &oom["culprit"]), (&"ok".into(), &serde_json::Value::Null), "{oom:#}");
    assert!(oom["summary"].as_str().unwrap().contains("not because the host ran out"), "{oom:#}");
    let groups = findings(&report, "cgroup.errors.oom");
    assert!(groups.iter().any(|group| group["status"] == "critical"), "the limit is the cause: {groups:#?}");
    assert_nothing_else_fired(&report, &["cpu.", "cgroup."]);
}

#[test]
#[ignore = "needs: root, a memory cgroup"]
fn a_reader_that_does_not_fit_into_its_cgroup_is_no_shortage_of_the_host() {
    let _alone = alone();
    if !has(&[Need::Root]) {
        return;
    }
    let file = SparseFile::of(256 << 20);
    let Some(group) = MemoryCgroup::with_limit("rdiag-test-reader", 64 << 20) else {
        return skip("no control group with the memory controller can be made");
    };
    let load = group.start(&format!("while :; do cat {} > /dev/null; done", file.0.display()));
    let report = live_report(5);
    drop(load);
    // Errors that the kernel told of before, such as those of a test that fails swap space, are no work of the reader's.
    let own = |found: &&serde_json::Value| found["resource"] == "memory" && found["seconds_before"].is_null();
    for found in report["findings"].as_array().unwrap().iter().filter(own) {
        assert!(!["warning", "critical"].contains(&found["status"].as_str().unwrap()), "{found:#}");
    }
}

#[test]
#[ignore = "needs: a quiet machine, 4 GiB of memory"]
fn filling_the_page_cache_raises_nothing() {
    let _alone = alone();
    let file = SparseFile::of(2 << 30);
    let script = format!("sleep 1; cat {} > /dev/null", file.0.display());
    let _load = Load::start(1, "sh", &["-c", &script]);
    let report = live_report(5);
    for id in ["memory.utilization", "memory.saturation", "memory.saturation.direct_reclaim"] {
        assert_eq!(finding(&report, id, None)["status"], "ok", "{id}");
    }
    assert_nothing_else_fired(&report, &["cpu."]);
}

#[test]
#[ignore = "needs: root"]
fn a_line_that_a_program_writes_is_no_failure_of_the_kernel() {
    let _alone = alone();
    if !has(&[Need::Root, Need::Path("/dev/kmsg")]) {
        return;
    }
    let before = finding(&live_report(2), "kernel.errors.crash", None)["evidence"].clone();
    let writer = std::thread::spawn(|| {
        std::thread::sleep(Duration::from_secs(1));
        std::fs::write("/dev/kmsg", "rdiag-test[4242]: segfault at 0 ip 0 sp 0 error 4\n").unwrap();
    });
    let crash = finding(&live_report(2), "kernel.errors.crash", None).clone();
    writer.join().unwrap();
    assert_eq!(crash["value"], 0.0, "{crash:#}");
    assert_eq!(crash["evidence"], before, "{crash:#}");
}

#[test]
#[ignore = "needs: root, python3"]
fn a_crash_within_the_window_is_told_from_older_ones() {
    let _alone = alone();
    if !has(&[Need::Root, Need::Tool("python3")]) {
        return;
    }
    let says = std::fs::read_to_string("/proc/sys/debug/exception-trace").unwrap_or_default();
    if says.trim() != "1" {
        return skip("debug.exception-trace is off: the kernel does not log crashes");
    }
    let _crash = Load::start(1, "sh", &["-c", "sleep 2; exec python3 -c 'import ctypes; ctypes.string_at(0)'"]);
    let report = live_report(4);
    let crash = finding(&report, "kernel.errors.crash", None);
    assert_eq!((&crash["status"], &crash["value"]), (&"info".into(), &1.0.into()), "{crash:#}");
    assert!(crash["culprit"]["name"].as_str().unwrap().starts_with("python3 (pid "), "{crash:#}");
    let again = live_report(2);
    let crash = finding(&again, "kernel.errors.crash", None);
    assert_eq!((&crash["status"], &crash["value"]), (&"info".into(), &0.0.into()), "by now it is old");
    assert!(crash["title"].as_str().unwrap().starts_with("Before the window"), "{crash:#}");
}

#[test]
#[ignore = "needs: python3"]
fn a_process_that_used_up_its_memory_mappings_is_named_although_memory_is_free() {
    let _alone = alone();
    let limit = std::fs::read_to_string("/proc/sys/vm/max_map_count").unwrap().trim().parse::<u64>().unwrap();
    if !has(&[Need::Tool("python3")]) {
        return;
    }
    if limit > 200_000 {
        return skip(&format!("{limit} mappings are too many to make"));
    }
    // Neighbours with the same rights would become one mapping.
    let script = "import mmap, sys, time\n\
        flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS\n\
        rights = [mmap.PROT_READ, mmap.PROT_READ | mmap.PROT_WRITE]\n\
        kept = [mmap.mmap(-1, 4096, flags=flags, prot=rights[i % 2]) for i in range(int(sys.argv[1]))]\n\
        time.sleep(30)";
    for (share, status) in [(0.5, "ok"), (0.97, "critical")] {
        let wanted = (limit as f64 * share) as u64;
        let load = Load::start(1, "python3", &["-c", script, &wanted.to_string()]);
        let pid = load.pids()[0];
        let maps = || std::fs::read(format!("/proc/{pid}/maps")).unwrap_or_default();
        let made = || maps().iter().filter(|byte| **byte == b'\n').count() as u64 >= wanted;
        assert!(wait_until(10, made), "the mappings could not be made");
        let report = live_report(2);
        let all = findings(&report, "memory.utilization.maps");
        let own = format!("{pid}:");
        let found = all.iter().find(|found| found["instance"].as_str().is_some_and(|name| name.starts_with(&own)));
        let found = found.unwrap_or_else(|| panic!("{all:#?}"));
        assert_eq!(found["status"], status, "{found:#}");
        if status == "critical" {
            assert_eq!((&found["culprit"]["name"], &found["culprit"]["pids"][0]), (&"python3".into(), &pid.into()));
        }
        assert_nothing_else_fired(&report, &["memory.utilization.maps", "cpu."]);
    }
}
