//! What tests share: running the shipped binary, reading its report, and saying what a test needs.

mod disturbance;
mod full_before;
pub mod ledger;
mod series;
mod skip;

pub use disturbance::{Disturbance, Figures};
use full_before::FullBefore;
pub use series::{Lateness, Series};
use skip::is_listed;
pub(crate) use skip::{kind, skip};

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::time::{Duration, Instant};

use assert_cmd::Command;
use serde_json::Value;

/// The shipped binary, in an environment without the user's own playbooks.
pub fn rdiag() -> Command {
    // A guest of the kernel matrix has the binary elsewhere than where it was built.
    let built = assert_cmd::cargo::cargo_bin!("rdiag").to_path_buf();
    let mut command = Command::new(std::env::var_os("RDIAG_BINARY").map_or(built, PathBuf::from));
    command.env("XDG_CONFIG_HOME", "/nonexistent").env("NO_COLOR", "1").env_remove("RUST_BACKTRACE");
    command.timeout(Duration::from_secs(120));
    command
}

/// Adds all files below a folder, as paths from the package's root.
pub fn files_below(folder: &str, found: &mut BTreeSet<String>) {
    for entry in std::fs::read_dir(path(folder)).unwrap() {
        let entry = entry.unwrap();
        let name = format!("{folder}/{}", entry.file_name().to_str().unwrap());
        if entry.file_type().unwrap().is_dir() {
            files_below(&name, found);
        } else {
            found.insert(name);
        }
    }
}

/// A path below the package's root.
pub fn path(below: &str) -> PathBuf {
    // A guest of the kernel matrix has a copy elsewhere than where the tests were built.
    let built = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    std::env::var_os("RDIAG_SOURCE").map_or(built, PathBuf::from).join(below)
}

thread_local! {
    /// What others had of the CPUs during the live run of this test.
    static DURING: std::cell::Cell<Option<Figures>> = const { std::cell::Cell::new(None) };
}

/// The report of use-method on this machine.
pub fn live_report(seconds: u32) -> Value {
    live_report_every("1s", seconds)
}

/// The same, with samples further apart.
pub fn live_report_every(interval: &str, seconds: u32) -> Value {
    let duration = format!("{seconds}s");
    let times = ["--duration", &duration, "--interval", interval];
    let disturbance = Disturbance::begin();
    let report = report_of(&[&["run", "use-method", "--format", "json", "--out", "-"], &times[..]].concat());
    let figures = disturbance.so_far();
    // On an emulated CPU rdiag itself is a load.
    let is_guest = kind().starts_with("guest-");
    DURING.set(Some(if is_guest { Figures { others: figures.busy, ..figures } } else { figures }));
    tell_judged(&report);
    report
}

/// What a run of use-method that was started elsewhere, as in a network namespace, wrote to stdout.
pub fn report_told(output: &std::process::Output) -> Value {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let report = serde_json::from_slice(&output.stdout).expect("stdout holds JSON and nothing else");
    tell_judged(&report);
    report
}

/// Says what fired: each rule with its status, and who is blamed. The ledger of proofs keeps it.
fn tell_judged(report: &Value) {
    let findings = report["findings"].as_array().unwrap().iter();
    let fired = findings.filter(|one| ["info", "warning", "critical"].iter().any(|status| one["status"] == *status));
    let word = |one: &Value, at: &str| one.pointer(at).and_then(Value::as_str).unwrap_or_default().to_owned();
    let told: Vec<_> = fired.map(|one| ["/id", "/status", "/culprit/name"].map(|at| word(one, at))).collect();
    println!("JUDGED {}", serde_json::to_string(&told).unwrap());
}

/// The report of use-method on a recorded host tree.
pub fn recorded_report(story: &str) -> Value {
    report_of_tree(&path("tests/fixtures/hosts").join(story))
}

/// The report of use-method on a recorded host tree anywhere.
pub fn report_of_tree(root: &Path) -> Value {
    report_of(&["run", "use-method", "--root", &root.display().to_string(), "--format", "json", "--out", "-"])
}

fn report_of(args: &[&str]) -> Value {
    let output = rdiag().args(args).output().unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "rdiag {args:?} failed: {stderr}");
    serde_json::from_slice(&output.stdout).expect("stdout holds JSON and nothing else")
}

/// The findings of a rule.
pub fn findings<'r>(report: &'r Value, id: &str) -> Vec<&'r Value> {
    report["findings"].as_array().unwrap().iter().filter(|finding| finding["id"] == id).collect()
}

/// The finding of a rule for one instance (or the whole host).
pub fn finding<'r>(report: &'r Value, id: &str, instance: Option<&str>) -> &'r Value {
    let all = findings(report, id);
    let found = all.iter().find(|finding| finding["instance"].as_str() == instance);
    found.unwrap_or_else(|| panic!("no finding {id} for {instance:?}; there are {all:#?}"))
}

/// The warnings and worse of rules that are not named, one on each line. Use `resource.` to name a whole resource.
/// What others did to the CPUs during the live run is no false alarm, as far as it was measured to be as much as rdiag says; nor is a file
/// system that was as full before.
pub fn report_fired(report: &Value, allowed: &[&str]) -> String {
    let fired = report["findings"].as_array().unwrap().iter().filter(|finding| {
        let id = finding["id"].as_str().unwrap();
        let bad = ["warning", "critical"].contains(&finding["status"].as_str().unwrap());
        bad && !allowed.iter().any(|name| *name == id || (name.ends_with('.') && id.starts_with(name)))
    });
    let line = |finding: &Value| format!("{} {}: {}", finding["id"], finding["status"], finding["summary"]);
    let others = DURING.get();
    let (excused, blamed): (Vec<&Value>, Vec<&Value>) =
        fired.partition(|finding| others.is_some_and(|figures| figures.explain(finding)));
    let (full, blamed): (Vec<&Value>, Vec<&Value>) =
        blamed.into_iter().partition(|finding| FullBefore::explains(finding));
    for finding in full {
        println!("it was so before: {}", line(finding));
    }
    for finding in excused {
        println!("others are to blame ({}) for {}", others.unwrap(), line(finding));
    }
    blamed.into_iter().map(line).collect::<Vec<_>>().join("\n")
}

/// Fails if any rule but those named raised a warning or worse.
pub fn assert_nothing_else_fired(report: &Value, allowed: &[&str]) {
    let fired = report_fired(report, allowed);
    assert!(fired.is_empty(), "false alarms:\n{fired}");
}

/// Which rules may give no answer where.
const UNKNOWN: &str = include_str!("../unknown.txt");

/// Fails if a rule has no answer that is not expected to have none on this kind of host: where nothing was judged, nothing fires.
pub fn assert_judged(report: &Value) {
    let kind = kind();
    let findings = report["findings"].as_array().unwrap();
    let unknown = findings.iter().filter(|finding| finding["status"] == "unknown").filter(|finding| {
        let why = finding.pointer("/unavailable/why").and_then(Value::as_str).unwrap_or_default();
        !is_listed(UNKNOWN, &kind, finding["id"].as_str().unwrap(), why)
    });
    let line = |finding: &Value| format!("{}: {}", finding["id"], finding["unavailable"]);
    let unknown: Vec<String> = unknown.map(line).collect();
    assert!(unknown.is_empty(), "no answer, and not in tests/unknown.txt for {kind}:\n{}", unknown.join("\n"));
    let judged = findings.iter().filter(|finding| ["ok", "info"].iter().any(|status| finding["status"] == *status));
    assert!(judged.count() >= 50, "too little was judged: {:#}", report["coverage"]);
}

/// What a test needs beyond an ordinary user's laptop.
pub enum Need {
    /// Effective user id 0.
    Root,
    /// A program on PATH.
    Tool(&'static str),
    /// A file or directory that must exist.
    Path(&'static str),
}

/// Whether all needs are met; where one is not, the test is skipped for it.
#[must_use]
#[track_caller]
pub fn has(needs: &[Need]) -> bool {
    let missing = needs.iter().find_map(|need| match need {
        Need::Root => (!is_root()).then(|| "root".to_owned()),
        Need::Tool(name) => (!on_path(name)).then(|| format!("the program {name}")),
        Need::Path(path) => (!Path::new(path).exists()).then(|| (*path).to_owned()),
    });
    if let Some(missing) = &missing {
        skip(&format!("needs {missing}"));
    }
    missing.is_none()
}

pub fn is_root() -> bool {
    std::fs::read_to_string("/proc/self/status").unwrap_or_default().lines().any(|line| line.starts_with("Uid:\t0\t0"))
}

fn on_path(name: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|folder| folder.join(name).exists())
}

/// Whoever induces a fault writes, so to say; whoever only looks at its own programs reads.
static HOST: RwLock<()> = RwLock::new(());

/// The lock of the host, and what others had of it while it was held. A test that fails says so.
pub struct Held<G> {
    disturbance: Disturbance,
    _guard: G,
}

impl<G> Held<G> {
    fn by(guard: G) -> Self {
        Self { disturbance: Disturbance::begin(), _guard: guard }
    }

    /// What others had of the CPUs since the test began.
    pub fn disturbance(&self) -> Figures {
        self.disturbance.so_far()
    }
}

/// Faults are induced one at a time: each would be another's false alarm.
pub fn alone() -> Held<RwLockWriteGuard<'static, ()>> {
    Held::by(HOST.write().unwrap_or_else(PoisonError::into_inner))
}

/// For a test whose answer does not depend on what else runs: it counts what a process of its own does.
pub fn beside_others() -> Held<RwLockReadGuard<'static, ()>> {
    Held::by(HOST.read().unwrap_or_else(PoisonError::into_inner))
}

/// A load that ends with the test, whatever happens in it.
pub struct Load(Vec<std::process::Child>);

impl Load {
    /// Starts `count` processes of one command line.
    pub fn start(count: usize, program: &str, args: &[&str]) -> Self {
        let child = || {
            // The load dies with the test even when the test is killed: setpriv becomes the program, under its own pid.
            let mut command = std::process::Command::new("setpriv");
            command.args(["--pdeathsig", "KILL", program]);
            command.args(args).stdin(std::process::Stdio::null());
            command.stdout(std::process::Stdio::null()).stderr(std::process::Stdio::null());
            std::os::unix::process::CommandExt::process_group(&mut command, 0);
            command.spawn().unwrap_or_else(|error| panic!("starting {program}: {error}"))
        };
        Self((0..count).map(|_| child()).collect())
    }

    /// The process ids.
    pub fn pids(&self) -> Vec<u32> {
        self.0.iter().map(std::process::Child::id).collect()
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        for child in &mut self.0 {
            // Its children too: `timeout sh -c …` would leave an endless loop behind.
            if let Some(group) = rustix::process::Pid::from_raw(child.id().cast_signed()) {
                let _ = rustix::process::kill_process_group(group, rustix::process::Signal::KILL);
            }
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// Waits until something holds, at most `seconds`.
pub fn wait_until(seconds: u64, mut holds: impl FnMut() -> bool) -> bool {
    let end = Instant::now() + Duration::from_secs(seconds);
    while Instant::now() < end {
        if holds() {
            return true;
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    false
}
