//! Each probe that can be limited to a name or a control group, on two tasks that do the same: only the one that is asked
//! for may be told of.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use serde_json::Value;

use crate::support::{Need, alone, has, rdiag, skip};

/// Something of everything that probes look at: calls, opens, signals, sleeps, waits for the other's CPU, moves.
const WORK: &str = "
import ctypes, os, signal, sys, time
ctypes.CDLL(None).prctl(15, sys.argv[1].encode())
signal.signal(signal.SIGURG, lambda *_: None)
print('ready', flush=True)
end = time.monotonic() + 120
turn = 0
while time.monotonic() < end and os.getppid() != 1:
    turn += 1
    os.sched_setaffinity(0, {turn % os.cpu_count()})
    os.close(os.open('/etc/hostname', os.O_RDONLY))
    os.sync() if turn % 40 == 0 else None
    os.kill(os.getpid(), signal.SIGURG)
    if os.fork() == 0:
        os.execv('/bin/true', ['true'])
    os.wait()
    sum(range(20000))
    time.sleep(0.005)
";

struct Worker(Child);

impl Worker {
    fn start(name: &str, group: Option<&Group>) -> Self {
        let mut command = Command::new("python3");
        let mut child = command.args(["-c", WORK, name]).stdout(Stdio::piped()).spawn().unwrap();
        if let Some(group) = group {
            std::fs::write(group.0.join("cgroup.procs"), child.id().to_string()).unwrap();
        }
        let mut line = String::new();
        std::io::BufRead::read_line(&mut std::io::BufReader::new(child.stdout.take().unwrap()), &mut line).unwrap();
        assert_eq!(line.trim(), "ready");
        Self(child)
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A control group of version 2, gone after the test.
struct Group(PathBuf);

impl Group {
    fn new() -> Option<Self> {
        let mounts = std::fs::read_to_string("/proc/mounts").unwrap_or_default();
        let root = mounts.lines().map(|line| line.split(' ').collect::<Vec<_>>());
        let root = root.filter(|fields| fields.get(2) == Some(&"cgroup2")).find_map(|fields| fields.get(1).copied())?;
        let group = Path::new(root).join("rdiag-test-filter");
        std::fs::create_dir_all(&group).ok()?;
        Some(Self(group))
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir(&self.0);
    }
}

/// Whose events a reading tells of: the tasks in tables, the owners of stacks, the instances of distributions by task.
fn told_of(reading: &Value) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    for output in reading["outputs"].as_array().unwrap() {
        for table in ["table", "events"].iter().filter_map(|kind| output.get(kind)) {
            let columns = table["columns"].as_array().unwrap();
            let Some(name) = columns.iter().position(|column| column["id"] == "name") else { continue };
            // A table by call, not by task, has calls as names.
            if table["dimension"] == "call" {
                continue;
            }
            let rows = table["rows"].as_array().unwrap().iter();
            names.extend(rows.map(|row| row["cells"].get(name).and_then(Value::as_str).unwrap_or("?").to_owned()));
        }
        if let Some(stacks) = output.get("stacks") {
            let stacks = stacks["stacks"].as_array().unwrap().iter();
            names.extend(stacks.map(|stack| stack["owner"].as_str().unwrap().to_owned()));
        }
    }
    names
}

/// Probes that tell of tasks, with what makes them tell of each event, and the names besides its own that an event of the
/// worker may have.
const CASES: &[(&[&str], &[&str])] = &[
    (&["runqlat"], &[]),
    (&["runqslower", "--threshold", "1us"], &[]),
    (&["migrations"], &[]),
    (&["offcputime", "--threshold", "1ms"], &[]),
    (&["syscount"], &[]),
    (&["opensnoop"], &[]),
    (&["syncsnoop"], &[]),
    // Signals to the task count as well, and each child sends one as it ends.
    (&["killsnoop"], &["true"]),
];

fn only_who_is_asked_for(seconds: u32, group: Option<&Group>) {
    let _wanted = Worker::start("rdg_wanted", group);
    let _other = Worker::start("rdg_other", None);
    let limit = match group {
        Some(group) => ["--cgroup".to_owned(), format!("/{}", group.0.file_name().unwrap().display())],
        None => ["--comm".to_owned(), "rdg_wanted".to_owned()],
    };
    for (args, others) in CASES {
        let mut command = rdiag();
        command.arg("probe").args(*args).args(&limit).args(["--duration", &format!("{seconds}s"), "--format", "json"]);
        let output = command.output().unwrap();
        assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
        let text = String::from_utf8(output.stdout).unwrap();
        let names: BTreeSet<String> =
            text.lines().flat_map(|line| told_of(&serde_json::from_str(line).unwrap())).collect();
        println!("{args:?} {limit:?}: {names:?}");
        assert!(names.contains("rdg_wanted"), "{args:?} {limit:?}: {names:?}");
        // What the worker starts is in its group as well, under its name first and then under the program's.
        let in_group = ["true"].iter().filter(|_| group.is_some());
        let allowed: BTreeSet<&str> = ["rdg_wanted"].iter().chain(*others).chain(in_group).copied().collect();
        let strangers: Vec<&String> = names.iter().filter(|name| !allowed.contains(name.as_str())).collect();
        assert!(strangers.is_empty(), "{args:?} {limit:?}: {strangers:?}");
    }
}

const NEEDS: [Need; 3] = [Need::Root, Need::Tool("python3"), Need::Path("/sys/kernel/btf/vmlinux")];

#[test]
#[ignore = "needs: root, eBPF"]
fn a_probe_limited_to_a_name_tells_of_nobody_else() {
    let _alone = alone();
    if has(&NEEDS) {
        only_who_is_asked_for(1, None);
    }
}

#[test]
#[ignore = "needs: root, eBPF, control groups of version 2"]
fn a_probe_limited_to_a_control_group_tells_of_nobody_else() {
    let _alone = alone();
    if !has(&NEEDS) {
        return;
    }
    match Group::new() {
        Some(group) => only_who_is_asked_for(2, Some(&group)),
        None => skip("no control groups of version 2"),
    }
}
