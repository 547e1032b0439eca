use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::support::{Load, Need, alone, assert_nothing_else_fired, finding, has, live_report, skip};

const NO_CPU: &str = "no control group with the cpu controller can be made";
const NO_MEMORY: &str = "no control group with the memory controller can be made";

/// A control group of one controller, wherever this host has it, that is removed after the test.
struct Group {
    directory: PathBuf,
    name: &'static str,
}

impl Group {
    /// `files` are pairs of a v1 and a v2 file, with the values for each. None where the host has no such hierarchy.
    fn new(controller: &str, name: &'static str, files: &[[(&str, &str); 2]]) -> Option<Self> {
        let v1 = Path::new("/sys/fs/cgroup").join(controller);
        let is_v1 = v1.join("cgroup.procs").exists();
        let root = if is_v1 { v1 } else { PathBuf::from("/sys/fs/cgroup") };
        let directory = root.join(name);
        std::fs::create_dir_all(&directory).ok()?;
        let group = Self { directory, name };
        for [old, new] in files {
            let (file, value) = if is_v1 { old } else { new };
            std::fs::write(group.directory.join(file), value).ok()?;
        }
        Some(group)
    }

    /// The group's path within its hierarchy.
    fn path(&self) -> String {
        format!("/{}", self.name)
    }

    /// A shell that enters the group and then becomes this script.
    fn run(&self, script: &str) -> Load {
        let procs = self.directory.join("cgroup.procs");
        let script = format!("echo $$ > {} && {script}", procs.display());
        Load::start(1, "bash", &["-c", &script])
    }

    /// What the group holds is ended, so that it can be removed.
    fn end(&self) {
        for _ in 0..40 {
            let pids = std::fs::read_to_string(self.directory.join("cgroup.procs")).unwrap_or_default();
            if pids.trim().is_empty() {
                break;
            }
            for pid in pids.lines() {
                let _ = std::process::Command::new("kill").args(["-9", pid]).status();
            }
            std::thread::sleep(std::time::Duration::from_millis(50));
        }
        let _ = std::fs::remove_dir(&self.directory);
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        self.end();
    }
}

fn status<'r>(report: &'r Value, id: &str, instance: Option<&str>) -> &'r str {
    finding(report, id, instance)["status"].as_str().unwrap()
}

fn memory(name: &'static str, bytes: &str) -> Option<Group> {
    Group::new("memory", name, &[[("memory.limit_in_bytes", bytes), ("memory.max", bytes)]])
}

#[test]
#[ignore = "needs: root, a quiet machine, the cpu controller"]
fn a_loop_in_a_group_with_a_small_quota_is_throttled_and_the_host_is_not_short_of_cpus() {
    let _alone = alone();
    if !has(&[Need::Root, Need::Path("/sys/fs/cgroup")]) {
        return;
    }
    let files = [[("cpu.cfs_quota_us", "20000"), ("cpu.max", "20000 100000")]];
    let Some(group) = Group::new("cpu", "rdiag-test-quota", &files) else { return skip(NO_CPU) };
    let _load = group.run("while :; do :; done");
    let report = live_report(5);
    let found = finding(&report, "cgroup.saturation.throttling", Some(&group.path()));
    assert_eq!(found["status"], "critical", "{found:#}");
    assert!(found["value"].as_f64().unwrap() > 0.9, "{found:#}");
    assert_eq!(found["culprit"]["name"], "bash", "{found:#}");
    // What the loop waits for is its quota: no rule of the host may take that for a lack of CPUs.
    assert_nothing_else_fired(&report, &["cgroup.saturation.throttling", "cgroup.utilization.cpu"]);
}

#[test]
#[ignore = "needs: root, a quiet machine, the cpu controller"]
fn a_group_that_stays_below_its_quota_raises_nothing() {
    let _alone = alone();
    if !has(&[Need::Root, Need::Path("/sys/fs/cgroup")]) {
        return;
    }
    let files = [[("cpu.cfs_quota_us", "80000"), ("cpu.max", "80000 100000")]];
    let Some(group) = Group::new("cpu", "rdiag-test-below", &files) else { return skip(NO_CPU) };
    let _load = group.run("while :; do for i in {1..2000}; do :; done; sleep 0.05; done");
    let report = live_report(5);
    assert_eq!(status(&report, "cgroup.saturation.throttling", Some(&group.path())), "ok");
    assert_nothing_else_fired(&report, &[]);
}

#[test]
#[ignore = "needs: root, a quiet machine, the pids controller"]
fn a_refused_fork_names_the_group_and_no_limit_of_the_host() {
    let _alone = alone();
    if !has(&[Need::Root, Need::Path("/sys/fs/cgroup")]) {
        return;
    }
    let Some(group) = Group::new("pids", "rdiag-test-tasks", &[[("pids.max", "20"), ("pids.max", "20")]]) else {
        return skip("no control group with the pids controller can be made");
    };
    let _load =
        group.run("for i in {1..18}; do sleep 30 & done; while :; do (:) 2>/dev/null & sleep 0.5; sleep 30 & done");
    let report = live_report(5);
    let found = finding(&report, "cgroup.errors.pids", Some(&group.path()));
    assert_eq!(found["status"], "critical", "{found:#}");
    assert!(found["culprit"]["labels"]["processes"].as_str().unwrap().starts_with("sleep ×"), "{found:#}");
    assert_eq!(status(&report, "cgroup.utilization.pids", Some(&group.path())), "critical");
    assert_nothing_else_fired(&report, &["cgroup.errors.pids", "cgroup.utilization.pids"]);
}

#[test]
#[ignore = "needs: root, a quiet machine, the memory controller, python3"]
fn a_kill_at_a_groups_limit_names_the_group_and_raises_no_shortage_of_the_host() {
    let _alone = alone();
    if !has(&[Need::Root, Need::Tool("python3"), Need::Path("/sys/fs/cgroup")]) {
        return;
    }
    let Some(group) = memory("rdiag-test-kill", "67108864") else { return skip(NO_MEMORY) };
    let _load = group.run("sleep 3; exec python3 -c 'x = bytearray(200 << 20)'");
    let report = live_report(6);
    let found = finding(&report, "cgroup.errors.oom", Some(&group.path()));
    assert_eq!(found["status"], "critical", "{found:#}");
    assert_nothing_else_fired(&report, &["cgroup.errors.oom", "memory.errors.oom"]);
}

#[test]
#[ignore = "needs: root, a quiet machine, the memory controller, python3"]
fn a_group_that_fills_most_of_its_memory_limit_is_only_worth_knowing() {
    let _alone = alone();
    if !has(&[Need::Root, Need::Tool("python3"), Need::Path("/sys/fs/cgroup")]) {
        return;
    }
    let Some(group) = memory("rdiag-test-full", "268435456") else { return skip(NO_MEMORY) };
    let _load = group.run("exec python3 -c 'import time; x = bytearray(220 << 20); time.sleep(60)'");
    std::thread::sleep(std::time::Duration::from_secs(2));
    let report = live_report(4);
    let found = finding(&report, "cgroup.utilization.memory", Some(&group.path()));
    assert_eq!(found["status"], "info", "{found:#}");
    assert_nothing_else_fired(&report, &[]);
}

#[test]
#[ignore = "needs: root, a quiet machine, the memory controller, 300 MB of disk space"]
fn a_file_that_does_not_fit_into_a_groups_limit_is_read_again_and_again() {
    let _alone = alone();
    if !has(&[Need::Root, Need::Tool("dd"), Need::Path("/sys/fs/cgroup")]) {
        return;
    }
    let Some(group) = memory("rdiag-test-refaults", "67108864") else { return skip(NO_MEMORY) };
    let folder = tempfile::tempdir_in("/var/tmp").unwrap();
    let file = folder.path().join("file");
    // Written inside the group, so that its pages are charged to it.
    let file = file.display();
    let _load = group.run(&format!(
        "dd if=/dev/zero of={file} bs=1M count=256 conv=fsync status=none; \
         while :; do dd if={file} of=/dev/null bs=1M status=none; done"
    ));
    std::thread::sleep(std::time::Duration::from_secs(5));
    let report = live_report(5);
    let found = finding(&report, "cgroup.saturation.refaults", Some(&group.path()));
    // Where the kernel keeps stall times for the group, they may show that the reading did not hurt.
    assert!(found["value"].as_f64().unwrap() > 1000.0, "{found:#}");
    if found["status"] == "warning" {
        let stalls = finding(&report, "memory.saturation.stalls", None);
        // How long it stalls is for the disk to say: half as fast a disk, and the wait for it hides the wait for memory.
        let value = stalls["value"].as_f64().unwrap();
        let is_told = stalls["summary"].as_str().unwrap().contains("dd stalled the most");
        let said = (stalls["status"].as_str(), is_told);
        assert_eq!(said, if value > 0.01 { (Some("info"), true) } else { (Some("ok"), false) }, "{stalls:#}");
        assert!(value > 0.001, "a reader at the limit reclaims what it reads: {stalls:#}");
    }
    let expected = ["cgroup.saturation.refaults", "cgroup.saturation.memory", "memory.saturation.stalls", "disk."];
    assert_nothing_else_fired(&report, &expected);
}

#[test]
#[ignore = "needs: root, a quiet machine, the io controller, /var/tmp on a whole disk"]
fn a_reader_at_a_groups_io_limit_is_told_from_a_slow_disk() {
    use std::os::unix::fs::MetadataExt as _;
    let _alone = alone();
    if !has(&[Need::Root, Need::Tool("dd"), Need::Path("/sys/fs/cgroup")]) {
        return;
    }
    let folder = tempfile::tempdir_in("/var/tmp").unwrap();
    let number = folder.path().metadata().unwrap().dev();
    let device = format!("{}:{}", rustix::fs::major(number), rustix::fs::minor(number));
    let place = format!("/sys/dev/block/{device}");
    if !Path::new(&place).exists() || Path::new(&place).join("partition").exists() {
        return skip("/var/tmp is on no whole disk");
    }
    let (v1, v2) = (format!("{device} 100"), format!("{device} riops=100"));
    let files = [[("blkio.throttle.read_iops_device", v1.as_str()), ("io.max", v2.as_str())]];
    let name = if Path::new("/sys/fs/cgroup/blkio").exists() { "blkio" } else { "io" };
    let Some(group) = Group::new(name, "rdiag-test-io", &files) else {
        return skip("no control group with the io controller can be made");
    };
    let file = folder.path().join("file");
    std::fs::write(&file, vec![7; 32 << 20]).unwrap();
    let _load = group.run(&format!("exec dd if={} of=/dev/null bs=4k iflag=direct status=none", file.display()));
    std::thread::sleep(std::time::Duration::from_secs(1));
    let report = live_report(5);
    let found = finding(&report, "cgroup.utilization.io", Some(&format!("{} {device} riops", group.path())));
    assert_eq!(found["status"], "warning", "{found:#}");
    assert_eq!(found["culprit"]["name"], "dd", "{found:#}");
    assert_nothing_else_fired(&report, &["cgroup.utilization.io"]);
}
