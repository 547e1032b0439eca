//! Faults of control groups that no counter of their own shows, or only together: a group near its quota, one that a hidden parent throttles,
//! a kill in a group that is gone, groups that are gone and stay in the kernel. Beside each, what looks like it.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use super::induced::has_said_begun;
use super::memory::MemoryCgroup;
use crate::support::{
    Load, Need, alone, assert_nothing_else_fired, finding, findings, has, live_report_every, rdiag, skip, wait_until,
};

const NO_CPU: &str = "no control group with the cpu controller can be made";
const NO_MEMORY: &str = "no control group with the memory controller can be made";

/// Folders of control groups that go with the test, the last one first.
struct Folders(Vec<PathBuf>);

impl Folders {
    fn new(paths: &[PathBuf]) -> Option<Self> {
        let mut folders = Self(Vec::new());
        for path in paths {
            std::fs::create_dir_all(path).ok()?;
            folders.0.push(path.clone());
        }
        Some(folders)
    }

    fn enter(&self, pid: u32) {
        for folder in &self.0 {
            std::fs::write(folder.join("cgroup.procs"), pid.to_string()).unwrap();
        }
    }
}

impl Drop for Folders {
    fn drop(&mut self) {
        for folder in self.0.iter().rev() {
            wait_until(10, || !folder.exists() || std::fs::remove_dir(folder).is_ok());
        }
    }
}

/// Uses so many milliseconds of CPU time in each hundredth of a second, on average.
const PORTION: &str = "
import ctypes, sys, time
ctypes.CDLL(None).prctl(15, b'begun')
part, due, spent = float(sys.argv[1]) / 1000, time.monotonic(), time.process_time()
while True:
    due += 0.01
    spent += part
    while time.process_time() < spent: pass
    time.sleep(max(0, due - time.monotonic()))
";

/// What rdiag says of a process with so many milliseconds in each hundredth of a second in a group that may use four, and its pid.
fn with_portion(milliseconds: &str) -> Option<(Value, u32)> {
    let root = Path::new("/sys/fs/cgroup");
    let is_old = root.join("cpu/cgroup.procs").exists();
    // Where the two controllers of version 1 are mounted apart, one has the quota and the other one counts the use.
    let parents = if is_old { vec![root.join("cpu"), root.join("cpuacct")] } else { vec![root.to_owned()] };
    let groups: Vec<PathBuf> = parents.iter().map(|parent| parent.join("rdiag-test-near")).collect();
    let folders = Folders::new(&groups)?;
    let files = if is_old {
        [("cpu.cfs_quota_us", "40000"), ("cpu.shares", "16384")]
    } else {
        [("cpu.max", "40000 100000"), ("cpu.weight", "1600")]
    };
    for (file, value) in files {
        std::fs::write(groups.first()?.join(file), value).ok()?;
    }
    let load = Load::start(1, "python3", &["-c", PORTION, milliseconds]);
    assert!(has_said_begun(&load), "the load has begun");
    let pid = load.pids().into_iter().next()?;
    folders.enter(pid);
    let report = live_report_every("400ms", 2);
    drop(load);
    Some((report, pid))
}

#[test]
#[ignore = "needs: root, a quiet machine, the cpu controller, python3"]
fn a_group_near_its_quota_is_a_warning_before_it_is_throttled() {
    let _alone = alone();
    if !has(&[Need::Root, Need::Tool("python3"), Need::Path("/sys/fs/cgroup")]) {
        return;
    }
    let Some((report, pid)) = with_portion("3.6") else { return skip(NO_CPU) };
    let found = finding(&report, "cgroup.utilization.cpu", Some("/rdiag-test-near"));
    assert_eq!(found["status"], "warning", "{found:#}");
    assert!((0.85..1.0).contains(&found["value"].as_f64().unwrap()), "36 ms of 40: {found:#}");
    assert_eq!(found["culprit"]["pids"][0], pid, "{found:#}");
    assert_nothing_else_fired(&report, &["cgroup.utilization.cpu", "cpu."]);
}

#[test]
#[ignore = "needs: root, a quiet machine, the cpu controller, python3"]
fn a_group_at_half_of_its_quota_is_no_finding() {
    let _alone = alone();
    if !has(&[Need::Root, Need::Tool("python3"), Need::Path("/sys/fs/cgroup")]) {
        return;
    }
    let Some((report, _)) = with_portion("2") else { return skip(NO_CPU) };
    let found = finding(&report, "cgroup.utilization.cpu", Some("/rdiag-test-near"));
    assert_eq!(found["status"], "ok", "{found:#}");
    assert!((0.4..0.6).contains(&found["value"].as_f64().unwrap()), "20 ms of 40: {found:#}");
    assert_nothing_else_fired(&report, &["cpu."]);
}

const CONTAINED: &[Need] = &[Need::Root, Need::Tool("unshare"), Need::Path("/sys/fs/cgroup/cpu/cpu.stat.local")];

/// Enters a group, takes it for the root of a cgroup namespace, leaves it again, and becomes a program that sees nothing above it.
const WITHIN: &str = r#"
echo $$ > "$1/cgroup.procs" && shift && exec unshare --cgroup --mount sh -c '
cd /sys/fs/cgroup && echo $$ > cpu/cgroup.procs && umount cpu && mount -t cgroup -o cpu none cpu && exec "$@"' sh "$@"
"#;

/// What rdiag says in a container whose load wants a whole CPU, with a quota of a fifth of one, of the container or of the pod around it.
fn in_container(has_quota: &str) -> Option<Value> {
    let pod = PathBuf::from("/sys/fs/cgroup/cpu/rdiag-test-pod");
    let container = pod.join("container");
    let _folders = Folders::new(&[pod.clone(), container.clone()])?;
    let limited = if has_quota == "pod" { &pod } else { &container };
    std::fs::write(limited.join("cpu.cfs_quota_us"), "20000").ok()?;
    let load = Load::start(1, "sh", &["-c", "ulimit -t 20; while :; do :; done"]);
    for pid in load.pids() {
        std::fs::write(container.join("cgroup.procs"), pid.to_string()).ok()?;
    }
    let output = Command::new("sh")
        .args(["-c", WITHIN, "sh", container.to_str()?])
        .arg(rdiag().get_program())
        .args(["run", "use-method", "--format", "json", "--out", "-", "--duration", "2s", "--interval", "400ms"])
        .output()
        .ok()?;
    drop(load);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Some(serde_json::from_slice(&output.stdout).unwrap())
}

#[test]
#[ignore = "needs: root, a quiet machine, the cpu controller of version 1, unshare"]
fn a_container_that_the_quota_of_its_pod_throttles_says_so() {
    let _alone = alone();
    if !has(CONTAINED) {
        return;
    }
    let Some(report) = in_container("pod") else { return skip(NO_CPU) };
    let found = finding(&report, "cgroup.saturation.above", Some("/"));
    assert_eq!(found["status"], "critical", "{found:#}");
    assert!((0.2..0.95).contains(&found["value"].as_f64().unwrap()), "at most four fifths of the time: {found:#}");
    assert_nothing_else_fired(&report, &["cgroup.saturation.above", "cpu."]);
}

#[test]
#[ignore = "needs: root, a quiet machine, the cpu controller of version 1, unshare"]
fn a_container_that_its_own_quota_throttles_is_not_throttled_from_above() {
    let _alone = alone();
    if !has(CONTAINED) {
        return;
    }
    let Some(report) = in_container("container") else { return skip(NO_CPU) };
    let found = finding(&report, "cgroup.saturation.above", Some("/"));
    assert_eq!(found["status"], "ok", "{found:#}");
    assert_eq!(finding(&report, "cgroup.saturation.throttling", Some("/"))["status"], "critical");
    assert_nothing_else_fired(&report, &["cgroup.saturation.throttling", "cgroup.utilization.cpu", "cpu."]);
}

/// Where groups with a limit of their memory can be made, and the name of that limit.
fn memory_root() -> (&'static str, &'static str) {
    if Path::new("/sys/fs/cgroup/memory/memory.limit_in_bytes").exists() {
        ("/sys/fs/cgroup/memory", "memory.limit_in_bytes")
    } else {
        ("/sys/fs/cgroup", "memory.max")
    }
}

const KILLED: &str = "exec awk 'BEGIN { s = \"0123456789abcdef\"; while (1) s = s s }'";

/// Groups of 32 MiB, one after the other, each of which is gone once the program in it was killed.
const GONE: &str = r#"
n=0
while sleep 0.4; do
  n=$((n + 1)); group=$1/rdiag-test-gone-$n
  mkdir $group && echo 33554432 > $group/$2
  sh -c "echo \$\$ > $group/cgroup.procs; $3"
  for i in 1 2 3 4 5 6 7 8 9 10; do rmdir $group 2> /dev/null && break; sleep 0.01; done
done
"#;

/// Removes what the last turn may have left.
struct Gone(&'static str);

impl Drop for Gone {
    fn drop(&mut self) {
        for entry in std::fs::read_dir(self.0).into_iter().flatten().flatten() {
            if entry.file_name().to_string_lossy().starts_with("rdiag-test-gone-") {
                wait_until(5, || std::fs::remove_dir(entry.path()).is_ok());
            }
        }
    }
}

#[test]
#[ignore = "needs: root, a quiet machine, the memory controller"]
fn kills_in_groups_that_are_gone_are_known_from_the_kernel_log() {
    let _alone = alone();
    if !has(&[Need::Root, Need::Path("/dev/kmsg")]) {
        return;
    }
    let (root, limit) = memory_root();
    let Some(probe) = MemoryCgroup::with_limit("rdiag-test-gone-0", 32 << 20) else { return skip(NO_MEMORY) };
    drop(probe);
    let _gone = Gone(root);
    let load = Load::start(1, "sh", &["-c", GONE, "sh", root, limit, KILLED]);
    let report = live_report_every("400ms", 2);
    drop(load);
    let found = finding(&report, "cgroup.errors.oom_unseen", None);
    assert_eq!(found["status"], "critical", "{found:#}");
    assert!(found["value"].as_f64().unwrap() >= 2.0, "{found:#}");
    assert_ne!(finding(&report, "memory.errors.oom", None)["status"], "critical", "the host did not run out");
    assert_nothing_else_fired(&report, &["cgroup.errors.oom_unseen", "cgroup.errors.oom", "cpu."]);
}

#[test]
#[ignore = "needs: root, a quiet machine, the memory controller"]
fn a_kill_in_a_group_that_stays_is_that_groups() {
    let _alone = alone();
    if !has(&[Need::Root, Need::Path("/dev/kmsg")]) {
        return;
    }
    let Some(group) = MemoryCgroup::with_limit("rdiag-test-stays", 32 << 20) else { return skip(NO_MEMORY) };
    // In the middle of the window.
    let script = "sleep 1.8; sh -c \"echo \\$\\$ > $1/cgroup.procs; $2\"; sleep 60";
    let load = Load::start(1, "sh", &["-c", script, "sh", group.0.to_str().unwrap(), KILLED]);
    let report = live_report_every("400ms", 3);
    drop((load, group));
    let found = finding(&report, "cgroup.errors.oom_unseen", None);
    assert_eq!((found["status"].as_str(), found["value"].as_f64()), (Some("ok"), Some(0.0)), "{found:#}");
    let own = findings(&report, "cgroup.errors.oom");
    assert!(own.iter().any(|group| group["status"] == "critical"), "the group that counted it is named: {own:#?}");
    assert_nothing_else_fired(&report, &["cgroup.errors.oom", "cpu."]);
}

/// So many groups below one, each with a page of a file that stays; then they are removed, or not.
const MANY: &str = "
import ctypes, os, sys, time
root, count, fate, file = sys.argv[1], int(sys.argv[2]), sys.argv[3], os.open(sys.argv[4], os.O_RDWR)
lines = [line.rstrip().split(':', 2) for line in open('/proc/self/cgroup')]
own = [path for _, names, path in lines if names == ('memory' if root.endswith('memory') else '')][0]
def enter(group):
    with open(f'{group}/cgroup.procs', 'w') as procs: procs.write('0')
for number in range(count):
    group = f'{root}/rdiag-test-many/{number}'
    os.mkdir(group); enter(group)
    os.pwrite(file, b'x', number * 4096)
enter(root + own)
if fate == 'gone':
    for number in range(count): os.rmdir(f'{root}/rdiag-test-many/{number}')
ctypes.CDLL(None).prctl(15, b'begun')
time.sleep(60)
";

/// The folder of these groups.
struct Many(PathBuf);

impl Drop for Many {
    fn drop(&mut self) {
        for entry in std::fs::read_dir(&self.0).into_iter().flatten().flatten() {
            let _ = std::fs::remove_dir(entry.path());
        }
        wait_until(10, || std::fs::remove_dir(&self.0).is_ok());
    }
}

/// What rdiag says beside so many groups.
fn beside_groups(count: &str, fate: &str) -> Option<Value> {
    let (root, _) = memory_root();
    let many = Many(Path::new(root).join("rdiag-test-many"));
    std::fs::create_dir_all(&many.0).ok()?;
    // On tmpfs a page stays as long as its file does.
    let file = tempfile::NamedTempFile::new_in("/dev/shm").unwrap();
    let load = Load::start(1, "python3", &["-c", MANY, root, count, fate, file.path().to_str().unwrap()]);
    assert!(has_said_begun(&load), "the groups were made");
    let report = live_report_every("400ms", 2);
    drop((load, file, many));
    Some(report)
}

#[test]
#[ignore = "needs: root, a quiet machine, the memory controller, python3"]
fn groups_that_are_gone_and_stay_in_the_kernel_are_counted() {
    let _alone = alone();
    if !has(&[Need::Root, Need::Tool("python3"), Need::Path("/dev/shm")]) {
        return;
    }
    let Some(report) = beside_groups("2300", "gone") else { return skip(NO_MEMORY) };
    let found = finding(&report, "cgroup.saturation.dying", None);
    assert_eq!(found["status"], "info", "{found:#}");
    assert!(found["value"].as_f64().unwrap() >= 2300.0, "{found:#}");
    assert_nothing_else_fired(&report, &["cpu."]);
}

#[test]
#[ignore = "needs: root, a quiet machine, the memory controller, python3"]
fn groups_that_live_are_not_counted_as_dying() {
    let _alone = alone();
    if !has(&[Need::Root, Need::Tool("python3"), Need::Path("/dev/shm")]) {
        return;
    }
    let dying = |report: &Value| finding(report, "cgroup.saturation.dying", None)["value"].as_f64().unwrap();
    let before = dying(&live_report_every("400ms", 2));
    let Some(report) = beside_groups("500", "living") else { return skip(NO_MEMORY) };
    let found = finding(&report, "cgroup.saturation.dying", None);
    assert_eq!(found["status"], "ok", "{found:#}");
    assert!(dying(&report) < before + 100.0, "{before} were dying before: {found:#}");
    assert_nothing_else_fired(&report, &["cpu."]);
}
