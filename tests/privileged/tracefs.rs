//! What tests of the kernel's own tracing share: its instances, and the probes that use one.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};

use serde_json::Value;

use crate::support::{Need, has, rdiag};

pub(super) const TRACING: &str = "/sys/kernel/tracing";
pub(super) const INSTANCES: &str = "/sys/kernel/tracing/instances";

pub(super) fn can_trace() -> bool {
    has(&[Need::Root, Need::Path(INSTANCES), Need::Tool("python3")])
}

pub(super) fn instances() -> BTreeSet<String> {
    let entries = fs::read_dir(INSTANCES).unwrap().flatten();
    entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
}

pub(super) fn instance_of(pid: u32) -> Option<String> {
    instances().into_iter().find(|name| name.starts_with(&format!("rdiag-{pid}-")))
}

/// The process that undoes what this process of rdiag leaves when it is killed.
pub(super) fn helper_of(pid: u32) -> Option<u32> {
    let read = |path: String| fs::read_to_string(path).unwrap_or_default();
    let all = read(format!("/proc/{pid}/task/{pid}/children"));
    let workers = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    let of_threads = workers.map(|task| read(format!("{}/children", task.path().display()))).collect::<Vec<_>>();
    let mut children = all.split_whitespace().chain(of_threads.iter().flat_map(|text| text.split_whitespace()));
    children.find(|child| read(format!("/proc/{child}/cmdline")).contains("undo-helper"))?.parse().ok()
}

/// Kills it so that nobody is left to undo anything.
pub(super) fn kill_with_its_helper(killed: &mut Child) {
    let helper = helper_of(killed.id()).expect("somebody is there to undo what is left");
    assert!(Command::new("kill").args(["-KILL", &helper.to_string()]).status().unwrap().success());
    killed.kill().unwrap();
    killed.wait().unwrap();
}

/// Exit code, last reading, and what was told. What counts is what is seen, not what that costs.
pub(super) fn run(probe: &str, args: &[&str]) -> (i32, Value, String) {
    let fixed = ["probe", probe, "--format", "json"];
    let budget: &[&str] = if args.contains(&"--budget") { &[] } else { &["--budget", "100%"] };
    let output = rdiag().args(fixed).args(budget).args(args).output().unwrap();
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let reading = text.lines().last().and_then(|line| serde_json::from_str(line).ok()).unwrap_or(Value::Null);
    (output.status.code().unwrap(), reading, told)
}

/// An empty instance of the test's own.
pub(super) struct Own(pub(super) PathBuf);

impl Own {
    pub(super) fn new() -> Self {
        let path = Path::new(INSTANCES).join(format!("test-of-graph-{}", std::process::id()));
        fs::create_dir(&path).unwrap();
        Self(path)
    }
}

impl Drop for Own {
    fn drop(&mut self) {
        let _ = fs::remove_dir(&self.0);
    }
}
