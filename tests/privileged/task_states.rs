//! Accounts of time at levels L1 and L2, against programs that know where their time goes.

use std::collections::BTreeMap;
use std::io::Read as _;
use std::path::PathBuf;

use serde_json::Value;

use crate::support::ledger::{Ledger, Truth};
use crate::support::{Need, alone, has, is_root, path, rdiag, skip};

/// What rdiag says of some threads.
pub(super) struct Account(Value);

impl Account {
    /// The account that `rdiag record` makes with these arguments.
    fn record(seconds: &str, target: &[&str]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("recording.json.gz");
        let playbook = path("tests/fixtures/steps/task-states.yaml");
        let mut record = rdiag();
        record.arg("record").arg(playbook).args(["--duration", seconds]).args(target).arg("--out").arg(&file);
        let output = record.output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        Self::read(&file)
    }

    fn read(recording: &std::path::Path) -> Self {
        let mut text = String::new();
        flate2::read::GzDecoder::new(std::fs::File::open(recording).unwrap()).read_to_string(&mut text).unwrap();
        let recording: Value = serde_json::from_str(&text).unwrap();
        Self(recording.pointer("/windows/0/ledgers/task_states").unwrap().clone())
    }

    pub(super) fn of(program: &Ledger) -> Self {
        Self::record("3s", &["--pid", &program.pid().to_string()])
    }

    pub(super) fn ledger(&self) -> &Value {
        self.0.get("Ok").unwrap_or_else(|| panic!("there is no account: {}", self.0))
    }

    pub(super) fn threads(&self) -> &Vec<Value> {
        self.ledger()["threads"].as_array().unwrap()
    }

    /// Shares of the components in the time of the threads whose name begins so; `cpu` and `runnable` as the programs know
    /// them.
    fn shares(&self, name: &str) -> BTreeMap<String, f64> {
        let mut sums: BTreeMap<String, f64> = BTreeMap::new();
        let mut all = 0.0;
        for thread in self.threads().iter().filter(|thread| thread["comm"].as_str().unwrap().starts_with(name)) {
            all += thread["seconds"].as_f64().unwrap();
            for part in thread["parts"].as_array().unwrap() {
                let component = match part["component"].as_str().unwrap() {
                    "cpu.user" | "cpu.sys" => "cpu",
                    "runq" | "throttled" => "runnable",
                    other => other,
                };
                *sums.entry(component.to_owned()).or_default() += part["seconds"].as_f64().unwrap();
            }
        }
        sums.into_iter().map(|(component, seconds)| (component, seconds / all)).collect()
    }

    fn share(&self, component: &str) -> f64 {
        self.shares("").get(component).copied().unwrap_or(0.0)
    }

    fn has_note(&self, part: &str) -> bool {
        self.ledger()["notes"].as_array().unwrap().iter().any(|note| note.as_str().unwrap().contains(part))
    }
}

/// Each component is where the program says, within `points`, and the sum is the whole.
fn agree(name: &str, account: &Account, truth: &Truth, points: f64) {
    let measured = account.shares("");
    let sum: f64 = measured.values().sum();
    assert!((sum - 1.0).abs() < 0.005, "{name}: the parts sum up to {sum}: {measured:?}");
    let mut components = truth.components();
    components.extend(measured.keys().cloned());
    for component in components {
        let (said, is) = (measured.get(&component).copied().unwrap_or(0.0), truth.share(&component));
        let points = points + truth.unsure();
        assert!((said - is).abs() <= points, "{name}: {component} is {is:.3}, and rdiag says {said:.3}: {measured:?}");
    }
}

fn agrees(name: &str, params: &[(&str, &str)], points: f64) -> Account {
    let program = Ledger::start(name, params);
    let account = Account::of(&program);
    agree(name, &account, &program.truth(), points);
    account
}

#[test]
#[ignore = "needs: a quiet machine"]
fn programs_that_wait_are_accounted_for_within_the_error_of_sampling() {
    let _alone = alone();
    for name in ["sleep", "skewed-sleep", "condvar-pool", "tcp-client", "children", "blocked", "threads"] {
        agrees(name, &[], 0.03);
    }
}

#[test]
#[ignore = "needs: a quiet machine"]
fn programs_that_work_are_accounted_for_within_the_error_of_sampling() {
    let _alone = alone();
    for name in ["spin", "getpid", "fault-anonymous", "epoll-server", "mix"] {
        agrees(name, &[], 0.06);
    }
    // Many short waits on few processors: who samples is one more.
    for name in ["pipe-ping-pong", "futex-convoy"] {
        agrees(name, &[], 0.10);
    }
}

#[test]
#[ignore = "needs: a quiet machine, a disk under /var/tmp"]
fn waits_for_a_disk_are_told_by_what_the_program_does() {
    let _alone = alone();
    for name in ["direct-read", "fsync", "fault-file"] {
        let account = agrees(name, &[("folder", "/var/tmp")], 0.10);
        let parts = account.threads()[0]["parts"].as_array().unwrap();
        let disk = parts.iter().find(|part| part["component"].as_str().unwrap().contains(['i', 'f']));
        assert!(disk.is_some(), "{name}: {parts:?}");
    }
}

#[test]
#[ignore = "needs: a quiet machine"]
fn threads_born_and_dying_within_the_window_are_in_the_account() {
    let _alone = alone();
    let account = agrees("births", &[], 0.10);
    let mayflies: Vec<&Value> = account.threads().iter().filter(|thread| thread["comm"] == "mayfly").collect();
    assert!(mayflies.len() >= 15, "{}", mayflies.len());
    assert!(mayflies.iter().filter(|thread| thread["born"] == true && thread["died"] == true).count() >= 13);
    assert!(account.has_note("ended within the window"));
}

#[test]
#[ignore = "needs: a quiet machine"]
fn a_thread_that_waits_for_the_whole_window_is_all_wait() {
    let _alone = alone();
    let program = Ledger::start("blocked", &[]);
    let account = Account::of(&program);
    let shares = account.shares("blocked");
    assert!(shares["ipc.pipe"] > 0.999, "{shares:?}");
}

#[test]
#[ignore = "needs: root, the cpu controller"]
fn a_quota_is_told_from_other_waiting_for_a_cpu() {
    let _alone = alone();
    if !has(&[Need::Root]) {
        return;
    }
    let v1 = PathBuf::from("/sys/fs/cgroup/cpu");
    let is_v1 = v1.join("cgroup.procs").exists();
    let group = if is_v1 { v1 } else { PathBuf::from("/sys/fs/cgroup") }.join("rdiag-test-task-states");
    let _ = std::fs::create_dir(&group);
    let (file, value) = if is_v1 { ("cpu.cfs_quota_us", "20000") } else { ("cpu.max", "20000 100000") };
    if std::fs::write(group.join(file), value).is_err() {
        let _ = std::fs::remove_dir(&group);
        return skip("no control group with the cpu controller can be made");
    }
    let stopped = || -> f64 {
        let text = std::fs::read_to_string(group.join("cpu.stat")).unwrap();
        let value = |key| text.lines().find_map(|line| line.strip_prefix(key)?.trim().parse::<f64>().ok());
        value("throttled_time ").map(|ns| ns * 1e-9).or(value("throttled_usec ").map(|us| us * 1e-6)).unwrap()
    };
    let program = Ledger::start_in(&group.join("cgroup.procs"), "spin", &[]);
    let before = stopped();
    let account = Account::record("4s", &["--cgroup", "/rdiag-test-task-states"]);
    let stopped = stopped() - before;
    let truth = program.truth();
    std::thread::sleep(std::time::Duration::from_millis(100));
    let _ = std::fs::remove_dir(&group);
    agree("spin", &account, &truth, 0.06);
    let parts = account.threads()[0]["parts"].as_array().unwrap();
    let throttled = parts.iter().find(|part| part["component"] == "throttled").unwrap();
    let said = throttled["seconds"].as_f64().unwrap();
    // How much that is depends on who else wants the CPUs; the group itself knows, to a period at both ends.
    assert!(stopped > 0.5 && (said - stopped).abs() < 0.35, "{stopped} {parts:?}");
}

#[test]
#[ignore = "needs: root"]
fn what_another_user_may_not_see_is_said_to_be_unseen() {
    let _alone = alone();
    if !has(&[Need::Root, Need::Tool("setpriv")]) {
        return;
    }
    let program = Ledger::start("condvar-pool", &[]);
    let stage = tempfile::tempdir_in("/var/tmp").unwrap();
    std::fs::set_permissions(stage.path(), std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let binary = stage.path().join("rdiag");
    std::fs::copy(rdiag().get_program(), &binary).unwrap();
    let book = stage.path().join("task-states.yaml");
    std::fs::copy(path("tests/fixtures/steps/task-states.yaml"), &book).unwrap();
    let mut command = assert_cmd::Command::new("setpriv");
    command.args(["--reuid", "65534", "--regid", "65534", "--clear-groups"]).arg(&binary).arg("record").arg(&book);
    command.args(["--duration", "1s", "--pid", &program.pid().to_string(), "--out"]);
    command.current_dir("/").env("NO_COLOR", "1");
    let out = tempfile::tempdir_in("/var/tmp").unwrap();
    std::fs::set_permissions(out.path(), std::os::unix::fs::PermissionsExt::from_mode(0o777)).unwrap();
    let file = out.path().join("recording.json.gz");
    let output = command.arg(&file).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let account = Account::read(&file);
    assert!(account.share("other.off") > 0.9, "{:?}", account.shares(""));
    assert!(account.has_note("run rdiag as root"));
}

#[test]
#[ignore = "needs: a quiet machine"]
fn twenty_threads_cost_less_than_two_percent_of_a_cpu() {
    let _alone = alone();
    // Four convoys of five threads each, which never rest for long.
    let programs: Vec<Ledger> = (0..4).map(|_| Ledger::start("futex-convoy", &[])).collect();
    let pids: Vec<String> = programs.iter().map(|program| program.pid().to_string()).collect();
    let account = Account::record("4s", &["--pid", &pids.join(",")]);
    assert_eq!(account.threads().len(), 20);
    let cost: f64 = account.ledger()["notes"]
        .as_array()
        .unwrap()
        .iter()
        .find_map(|note| note.as_str()?.split_once("took ")?.1.split_once('%')?.0.parse().ok())
        .unwrap();
    assert!(cost < 2.0, "{cost} % of one CPU");
}

#[test]
#[ignore = "needs: a kernel of the matrix"]
fn vm_time_is_accounted_for_from_samples_of_proc() {
    let _alone = alone();
    // An emulated processor is slow: what counts is what the waits are called.
    for (name, thread, component) in [
        ("sleep", "main", "wait.sleep"),
        ("condvar-pool", "worker", "wait.futex"),
        ("blocked", "blocked", "ipc.pipe"),
        ("tcp-client", "main", "net.recv"),
        ("children", "main", "wait.child"),
    ] {
        let program = Ledger::start(name, &[]);
        let account = Account::of(&program);
        let truth = program.truth();
        let shares = account.shares(thread);
        let sum: f64 = shares.values().sum();
        assert!((sum - 1.0).abs() < 0.02, "{name}: {sum}");
        let (said, is) = (shares.get(component).copied().unwrap_or(0.0), truth.share_in(thread, component));
        assert!((said - is).abs() < 0.15, "{name}: {component} is {is:.3}, and rdiag says {said:.3}: {shares:?}");
    }
    let program = Ledger::start("spin", &[]);
    let account = Account::of(&program);
    agree("spin", &account, &program.truth(), 0.15);
    assert!(is_root() || account.share("cpu") > 0.0);
}

/// Delay accounting as it was, when this is dropped.
pub(super) struct Counting(Option<String>);

impl Counting {
    const SWITCH: &str = "/proc/sys/kernel/task_delayacct";

    /// Switches it on for tasks that are born from here on. Old kernels count anyway.
    pub(super) fn on() -> Self {
        let before = std::fs::read_to_string(Self::SWITCH).ok();
        if before.is_some() {
            std::fs::write(Self::SWITCH, "1").unwrap();
        }
        Self(before)
    }
}

impl Drop for Counting {
    fn drop(&mut self) {
        if let Some(before) = &self.0 {
            let _ = std::fs::write(Self::SWITCH, before.trim());
        }
    }
}

#[test]
#[ignore = "needs: root, a quiet machine, a disk under /var/tmp"]
fn waits_for_a_disk_are_exact_where_the_kernel_counts_them() {
    let _alone = alone();
    if !has(&[Need::Root]) {
        return;
    }
    let _counting = Counting::on();
    for name in ["direct-read", "fault-file"] {
        let account = agrees(name, &[("folder", "/var/tmp")], 0.05);
        assert_eq!(account.ledger()["level"], "L2", "{name}: {}", account.ledger()["notes"]);
        let counted = account.ledger()["checks"]["blkio_delay_seconds"].as_f64().unwrap();
        assert!(counted > 0.1, "{name}: {counted} s counted");
    }
    // The kernel counts an fsync's waits for a disk, not those for the journal's commit, which samples must tell.
    for (name, points) in [("fsync", 0.05), ("sleep", 0.05), ("spin", 0.05), ("births", 0.10)] {
        let account = agrees(name, &[("folder", "/var/tmp")], points);
        assert_eq!(account.ledger()["level"], "L2", "{name}: {}", account.ledger()["notes"]);
    }
}

#[test]
#[ignore = "needs: root, a disk under /var/tmp"]
fn a_program_that_was_there_before_counting_began_is_not_said_to_wait_for_no_disk() {
    let _alone = alone();
    if !has(&[Need::Root, Need::Path(Counting::SWITCH)]) {
        return;
    }
    if std::fs::read_to_string(Counting::SWITCH).unwrap().trim() != "0" {
        return skip("somebody else had delays counted already");
    }
    let program = Ledger::start("direct-read", &[("folder", "/var/tmp")]);
    let off = Account::of(&program);
    assert_eq!(off.ledger()["level"], "L1");
    assert!(off.has_note("kernel.task_delayacct=1"), "{}", off.ledger()["notes"]);
    let _counting = Counting::on();
    let on = Account::of(&program);
    assert_eq!(on.ledger()["level"], "L1");
    assert!(on.has_note("born before"), "{}", on.ledger()["notes"]);
    assert!(on.share("io.block.read") > 0.05, "{:?}", on.shares(""));
}

#[test]
#[ignore = "needs: root, a kernel of the matrix"]
fn vm_time_is_accounted_for_with_delays_that_the_kernel_counts() {
    let _alone = alone();
    if !has(&[Need::Root]) {
        return;
    }
    let _counting = Counting::on();
    let program = Ledger::start("sleep", &[]);
    let account = Account::of(&program);
    agree("sleep", &account, &program.truth(), 0.15);
    assert_eq!(account.ledger()["level"], "L2", "{}", account.ledger()["notes"]);
}
