//! Tasks that were frozen on purpose, which look like hung ones.

use std::path::{Path, PathBuf};

use crate::support::{
    Load, Need, alone, assert_nothing_else_fired, finding, findings, has, live_report, skip, wait_until,
};

const FREEZER: &str = "/sys/fs/cgroup/freezer";
const NEEDS: &[Need] = &[Need::Root, Need::Path("/sys/fs/cgroup/freezer/tasks")];

/// A group of the freezer with some tasks, which goes with the test.
struct Frozen {
    folder: PathBuf,
    load: Load,
}

impl Frozen {
    fn new(count: usize) -> Self {
        let folder = Path::new(FREEZER).join(format!("rdiag-frozen-{}", std::process::id()));
        std::fs::create_dir(&folder).unwrap();
        let frozen = Self { folder, load: Load::start(count, "sleep", &["600"]) };
        for pid in frozen.load.pids() {
            std::fs::write(frozen.folder.join("cgroup.procs"), pid.to_string()).unwrap();
        }
        assert!(frozen.becomes("FROZEN"), "the freezer freezes");
        frozen
    }

    fn becomes(&self, state: &str) -> bool {
        let place = self.folder.join("freezer.state");
        std::fs::write(&place, state).is_ok()
            && wait_until(10, || std::fs::read_to_string(&place).is_ok_and(|now| now.trim() == state))
    }
}

impl Drop for Frozen {
    fn drop(&mut self) {
        self.becomes("THAWED");
        self.load = Load::start(0, "sleep", &[]);
        let folder = self.folder.clone();
        wait_until(10, || std::fs::remove_dir(&folder).is_ok());
    }
}

#[test]
#[ignore = "needs: root, the freezer of control groups (version 1)"]
fn frozen_tasks_are_told_from_hung_ones() {
    let _alone = alone();
    if !has(NEEDS) {
        return;
    }
    let frozen = Frozen::new(3);
    let report = live_report(6);
    drop(frozen);
    let found = finding(&report, "tasks.utilization.frozen", None);
    assert_eq!((found["status"].as_str(), found["value"].as_f64()), (Some("info"), Some(3.0)), "{found:#}");
    let blocked = findings(&report, "tasks.saturation.blocked");
    assert!(blocked.iter().all(|finding| finding["status"] != "warning"), "{blocked:#?}");
    assert_nothing_else_fired(&report, &["cpu."]);
}

/// Where the unified tree is: by itself, or beside those of version 1.
fn unified() -> Option<&'static Path> {
    ["/sys/fs/cgroup", "/sys/fs/cgroup/unified"]
        .into_iter()
        .map(Path::new)
        .find(|at| at.join("cgroup.controllers").exists())
}

#[test]
#[ignore = "needs: root, control groups of version 2"]
fn frozen_tasks_of_version_2_look_idle_and_are_told_too() {
    let _alone = alone();
    let (true, Some(unified)) = (has(&[Need::Root]), unified()) else {
        return skip("no control groups of version 2");
    };
    let folder = unified.join(format!("rdiag-frozen-{}", std::process::id()));
    std::fs::create_dir(&folder).unwrap();
    let load = Load::start(30, "sleep", &["600"]);
    for pid in load.pids() {
        std::fs::write(folder.join("cgroup.procs"), pid.to_string()).unwrap();
    }
    std::fs::write(folder.join("cgroup.freeze"), "1").unwrap();
    let events = || std::fs::read_to_string(folder.join("cgroup.events")).unwrap_or_default();
    let is_frozen = wait_until(10, || events().contains("frozen 1"));
    let states: Vec<String> =
        load.pids().iter().map(|pid| std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap()).collect();
    let report = live_report(3);
    std::fs::write(folder.join("cgroup.freeze"), "0").unwrap();
    drop(load);
    wait_until(10, || std::fs::remove_dir(&folder).is_ok());
    assert!(is_frozen && states.iter().all(|stat| stat.contains(") S ")), "version 2 shows them asleep: {states:?}");
    let found = finding(&report, "tasks.utilization.frozen", None);
    assert_eq!((found["status"].as_str(), found["value"].as_f64()), (Some("info"), Some(30.0)), "{found:#}");
    assert!(found["summary"].as_str().unwrap().contains("(/rdiag-frozen-"), "{found:#}");
    assert_nothing_else_fired(&report, &["cpu."]);
}

#[test]
#[ignore = "needs: root, the freezer of control groups (version 1)"]
fn stopped_tasks_are_not_frozen() {
    let _alone = alone();
    if !has(NEEDS) {
        return;
    }
    let load = Load::start(3, "sleep", &["600"]);
    for pid in load.pids() {
        let pid = rustix::process::Pid::from_raw(pid.cast_signed()).unwrap();
        rustix::process::kill_process(pid, rustix::process::Signal::STOP).unwrap();
    }
    let report = live_report(3);
    let found = findings(&report, "tasks.utilization.frozen");
    assert!(found.iter().all(|finding| finding["status"] != "info"), "{found:#?}");
    // They listen on nothing: jobs that a shell suspended look the same.
    let stopped = finding(&report, "tasks.saturation.stopped", None);
    assert_eq!((stopped["status"].as_str(), stopped["value"].as_f64()), (Some("info"), Some(3.0)), "{stopped:#}");
    assert_nothing_else_fired(&report, &["cpu."]);
}
