//! A lack of CPUs by the kernel's own account (PSI), and CPU time of processes that no sample sees; beside each the load that looks
//! like it.

use std::path::PathBuf;

use crate::support::{Load, Need, alone, assert_nothing_else_fired, finding, has, live_report_every, skip, wait_until};

fn all_cpus() -> usize {
    std::thread::available_parallelism().unwrap().get()
}

const BUSY_LOOP: &str = "ulimit -t 20; while :; do :; done";

/// Children that compute for some milliseconds, one after the other.
const SHORT_LIVED: &str = "ulimit -t 60; while :; do sh -c 'i=0; while [ $i -lt 3000 ]; do i=$((i+1)); done'; done";

#[test]
#[ignore = "needs: a quiet machine, PSI"]
fn loops_that_wait_for_each_other_are_critical_by_the_kernels_own_account() {
    let _alone = alone();
    if !has(&[Need::Path("/proc/pressure/cpu")]) {
        return;
    }
    let _load = Load::start(4 * all_cpus(), "sh", &["-c", BUSY_LOOP]);
    let report = live_report_every("400ms", 2);
    let pressure = finding(&report, "cpu.saturation.pressure", None);
    assert_eq!(pressure["status"], "critical", "{pressure:#}");
    assert_eq!(pressure["culprit"]["name"], "sh", "{pressure:#}");
    assert_nothing_else_fired(&report, &["cpu."]);
}

/// A control group that may use a fifth of a CPU.
struct Fifth(PathBuf);

impl Fifth {
    fn new() -> Option<Self> {
        let old = PathBuf::from("/sys/fs/cgroup/cpu");
        let is_old = old.join("cgroup.procs").exists();
        let root = if is_old { old } else { PathBuf::from("/sys/fs/cgroup") };
        let group = Self(root.join("rdiag-test-fifth"));
        std::fs::create_dir_all(&group.0).ok()?;
        let (file, value) = if is_old { ("cpu.cfs_quota_us", "20000") } else { ("cpu.max", "20000 100000") };
        std::fs::write(group.0.join(file), value).ok()?;
        Some(group)
    }
}

impl Drop for Fifth {
    fn drop(&mut self) {
        wait_until(10, || std::fs::remove_dir(&self.0).is_ok());
    }
}

#[test]
#[ignore = "needs: root, a quiet machine, PSI, the cpu controller"]
fn loops_that_wait_for_their_quota_are_no_lack_of_cpus() {
    let alone = alone();
    if !has(&[Need::Root, Need::Path("/proc/pressure/cpu"), Need::Path("/sys/fs/cgroup")]) {
        return;
    }
    let Some(group) = Fifth::new() else { return skip("no control group with the cpu controller can be made") };
    let load = Load::start(4, "sh", &["-c", BUSY_LOOP]);
    for pid in load.pids() {
        std::fs::write(group.0.join("cgroup.procs"), pid.to_string()).unwrap();
    }
    let report = live_report_every("400ms", 2);
    drop(load);
    let pressure = finding(&report, "cpu.saturation.pressure", None);
    // Others may be short of CPUs at the same time; the loops never are.
    let is_disturbed = alone.disturbance().share() > 0.4 && pressure["culprit"]["name"] != "sh";
    assert!(pressure["status"] == "ok" || is_disturbed, "{pressure:#}");
    assert!(pressure["value"].as_f64().unwrap() > 0.6, "some task waits most of the time: {pressure:#}");
    assert_nothing_else_fired(&report, &["cgroup."]);
}

#[test]
#[ignore = "needs: a quiet machine"]
fn cpu_time_of_processes_that_no_sample_sees_is_put_down_to_them() {
    let _alone = alone();
    let _load = Load::start(all_cpus(), "sh", &["-c", SHORT_LIVED]);
    let report = live_report_every("400ms", 2);
    let unseen = finding(&report, "cpu.utilization.unseen", None);
    assert_eq!(unseen["status"], "warning", "{unseen:#}");
    let name = unseen["culprit"]["name"].as_str().unwrap();
    assert!(name.starts_with("short-lived"), "no process that a sample saw is to blame: {unseen:#}");
    assert_nothing_else_fired(&report, &["cpu."]);
}

#[test]
#[ignore = "needs: a quiet machine"]
fn the_same_cpu_time_of_processes_that_live_is_theirs() {
    let _alone = alone();
    let _load = Load::start(all_cpus(), "sh", &["-c", BUSY_LOOP]);
    let report = live_report_every("400ms", 2);
    let unseen = finding(&report, "cpu.utilization.unseen", None);
    assert_eq!(unseen["status"], "ok", "{unseen:#}");
    assert_nothing_else_fired(&report, &["cpu."]);
}
