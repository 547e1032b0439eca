//! What tests of the kernel's own tracing share: its instances, and the probes that use one.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

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
