//! Objects of the kernel whose use up makes calls fail: inotify instances and watches, keys, System V IPC, mounts, pseudo-terminals,
//! contexts of asynchronous I/O.

use std::path::Path;
use std::process::Command;

use serde_json::Value;

use crate::support::{
    Load, Need, alone, assert_nothing_else_fired, finding, findings, has, live_report, rdiag, wait_until,
};

/// A limit of the host that is lower while the test runs.
struct Lowered {
    path: &'static str,
    before: String,
}

impl Lowered {
    fn to(path: &'static str, value: u64) -> Self {
        let before = std::fs::read_to_string(path).unwrap();
        std::fs::write(path, value.to_string()).unwrap();
        Self { path, before }
    }
}

impl Drop for Lowered {
    fn drop(&mut self) {
        let _ = std::fs::write(self.path, self.before.trim());
    }
}

const NEEDS: &[Need] = &[Need::Root, Need::Tool("python3"), Need::Path("/proc/sys/fs/inotify/max_user_instances")];

/// As user 4245: all inotify instances that may be had, or so many, and children that inherit them.
const INSTANCES: &str = "
import ctypes, os, sys, time
c = ctypes.CDLL(None)
os.setgid(4245); os.setuid(4245)
most, children = int(sys.argv[1]), int(sys.argv[2])
n = 0
while n < most and c.inotify_init() >= 0: n += 1
for _ in range(children):
    if os.fork() == 0: break
time.sleep(60)
";

/// How many inotify instances a process has open.
fn instances(pid: u32) -> usize {
    let descriptors = std::fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
    let links = descriptors.filter_map(|entry| std::fs::read_link(entry.path()).ok());
    links.filter(|target| target == Path::new("anon_inode:inotify")).count()
}

fn of_user<'r>(report: &'r Value, rule: &str) -> &'r Value {
    findings(report, rule).into_iter().find(|finding| finding["instance"] == "4245").unwrap()
}

#[test]
#[ignore = "needs: root, a quiet machine, python3"]
fn all_inotify_instances_of_a_user_name_the_process_that_holds_them() {
    let _alone = alone();
    if !has(NEEDS) {
        return;
    }
    let most: usize =
        std::fs::read_to_string("/proc/sys/fs/inotify/max_user_instances").unwrap().trim().parse().unwrap();
    let load = Load::start(1, "python3", &["-c", INSTANCES, "100000", "0"]);
    let pid = load.pids()[0];
    assert!(wait_until(20, || instances(pid) == most), "{} of {most} instances", instances(pid));
    let report = live_report(3);
    let own = of_user(&report, "fd.utilization.inotify");
    assert_eq!((own["status"].as_str(), own["value"].as_f64()), (Some("critical"), Some(1.0)), "{own:#}");
    assert_eq!((&own["culprit"]["name"], &own["culprit"]["pids"][0]), (&"python3".into(), &pid.into()), "{own:#}");
    let said = own["summary"].as_str().unwrap();
    assert!(said.starts_with(&format!("User 4245 has {most} of {most} inotify instances ({most} python3)")), "{said}");
    assert_nothing_else_fired(&report, &["fd.utilization.inotify", "cpu."]);
}

#[test]
#[ignore = "needs: root, a quiet machine, python3"]
fn inotify_instances_that_children_inherit_count_once() {
    let _alone = alone();
    if !has(NEEDS) {
        return;
    }
    let load = Load::start(1, "python3", &["-c", INSTANCES, "60", "3"]);
    let pid = load.pids()[0];
    let children = format!("/proc/{pid}/task/{pid}/children");
    let ready = || std::fs::read_to_string(&children).is_ok_and(|all| all.split_whitespace().count() == 3);
    assert!(wait_until(20, ready), "the children are there");
    let report = live_report(2);
    let own = of_user(&report, "fd.utilization.inotify");
    assert_eq!((own["status"].as_str(), own["value"].as_f64()), (Some("ok"), Some(60.0 / 128.0)), "{own:#}");
    assert_nothing_else_fired(&report, &["cpu."]);
}

/// As user 4245: watches on so many files of its own, in a folder that is given.
const WATCHES: &str = "
import ctypes, os, sys, time
c = ctypes.CDLL(None)
folder, count = sys.argv[1], int(sys.argv[2])
for n in range(count): open(f'{folder}/{n}', 'w')
os.setgid(4245); os.setuid(4245)
one = c.inotify_init()
for n in range(count): c.inotify_add_watch(one, f'{folder}/{n}'.encode(), 2)
c.prctl(15, b'watcher')
time.sleep(60)
";

/// Waits until a load has given itself this name, when it is ready.
fn is_called(load: &Load, name: &str) -> bool {
    let pid = load.pids().into_iter().next().unwrap();
    wait_until(30, || std::fs::read_to_string(format!("/proc/{pid}/comm")).is_ok_and(|own| own.trim_end() == name))
}

/// What rdiag says of a user with so many watches where 1000 may be had.
fn with_watches(count: usize) -> Value {
    let folder = tempfile::tempdir().unwrap();
    std::fs::set_permissions(folder.path(), std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let _lowered = Lowered::to("/proc/sys/fs/inotify/max_user_watches", 1000);
    let path = folder.path().to_str().unwrap();
    let load = Load::start(1, "python3", &["-c", WATCHES, path, &count.to_string()]);
    assert!(is_called(&load, "watcher"), "the watches are there");
    live_report(2)
}

#[test]
#[ignore = "needs: root, a quiet machine, python3"]
fn inotify_watches_are_counted_and_the_process_that_holds_them_is_named() {
    let _alone = alone();
    if !has(NEEDS) {
        return;
    }
    // More are asked for than may be had.
    let report = with_watches(1100);
    let own = of_user(&report, "fd.utilization.inotify_watches");
    assert_eq!((own["status"].as_str(), own["value"].as_f64()), (Some("critical"), Some(1.0)), "{own:#}");
    assert_eq!(own["culprit"]["name"], "watcher", "{own:#}");
    assert_nothing_else_fired(&report, &["fd.utilization.inotify_watches", "cpu."]);
    let report = with_watches(700);
    let own = of_user(&report, "fd.utilization.inotify_watches");
    assert_eq!((own["status"].as_str(), own["value"].as_f64()), (Some("ok"), Some(0.7)), "{own:#}");
    assert_nothing_else_fired(&report, &["cpu."]);
}

/// Fills tables of the kernel up to a share of their limit, in an IPC and a mount namespace of its own. The terminals come last.
const FILL: &str = "
import ctypes, os, platform, resource, sys, time
share = float(sys.argv[1])
c = ctypes.CDLL(None)
IO_SETUP, ADD_KEY, KEYCTL = (206, 248, 250) if platform.machine() == 'x86_64' else (0, 217, 219)
number = lambda path: int(open(path).read().split()[0])
open('/proc/sys/kernel/msgmni', 'w').write('20')
for _ in range(int(20 * share)): assert c.msgget(0, 0o1600) >= 0
while len(open('/proc/self/mountinfo').readlines()) < share * number('/proc/sys/fs/mount-max') - 2:
    assert c.mount(b'none', b'/mnt', b'tmpfs', 0, None) == 0
free = number('/proc/sys/fs/aio-max-nr') - number('/proc/sys/fs/aio-nr')
assert c.syscall(IO_SETUP, int(0.95 * share * free), ctypes.byref(ctypes.c_ulong(0))) == 0
if os.fork() == 0:
    os.setgid(4246); os.setuid(4246)
    # A session of its own (KEYCTL_JOIN_SESSION_KEYRING), whose keys go with it.
    c.syscall(KEYCTL, 1, None)
    n = 0
    while n < 199 * share and c.syscall(ADD_KEY, b'user', b'rdiag %d' % n, b'x', 1, -3) > 0: n += 1
    while True: time.sleep(60)
resource.setrlimit(resource.RLIMIT_NOFILE, (5000, 5000))
kept = []
while number('/proc/sys/kernel/pty/nr') < 0.97 * share * number('/proc/sys/kernel/pty/max'):
    kept.append(os.open('/dev/ptmx', os.O_RDWR | os.O_NOCTTY))
c.prctl(15, b'filler')
time.sleep(60)
";

/// How many keys count against the limit of a user (/proc/key-users: USER: USES KEYS/ACTIVE COUNTED/LIMIT BYTES/LIMIT).
fn keys_of(user: u32) -> u64 {
    let all = std::fs::read_to_string("/proc/key-users").unwrap();
    let counted = |line: &str| -> Option<u64> {
        let (own, fields) = line.trim_start().split_once(':')?;
        if own != user.to_string() {
            return None;
        }
        fields.split_whitespace().nth(2)?.split('/').next()?.parse().ok()
    };
    all.lines().find_map(counted).unwrap_or(0)
}

/// What rdiag says within those namespaces.
fn filled(share: &str) -> (u32, Value) {
    let lowered = Lowered::to("/proc/sys/fs/mount-max", 300);
    let load = Load::start(1, "unshare", &["--ipc", "--mount", "python3", "-c", FILL, share]);
    assert!(is_called(&load, "filler"), "the tables are filled");
    let pid = load.pids().into_iter().next().unwrap();
    let program = rdiag().get_program().to_owned();
    let output = Command::new("nsenter")
        .args(["--ipc", "--mount", "--target", &pid.to_string()])
        .arg(program)
        .args(["run", "use-method", "--format", "json", "--out", "-", "--duration", "3s"])
        .output()
        .unwrap();
    drop((lowered, load));
    assert!(wait_until(60, || keys_of(4246) < 20), "the kernel collects the keys of a session that is over");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    (pid, serde_json::from_slice(&output.stdout).unwrap())
}

const FULL: [(&str, Option<&str>, &str); 4] = [
    ("kernel.utilization.keys", Some("4246"), "4246"),
    ("kernel.utilization.ipc", Some("message queues"), "user 0"),
    ("filesystem.utilization.mounts", None, "tmpfs"),
    ("tasks.utilization.ptys", None, "filler"),
];

#[test]
#[ignore = "needs: root, a quiet machine, python3, unshare, nsenter"]
fn full_tables_of_the_kernel_are_named_with_who_fills_them() {
    let _alone = alone();
    if !has(NEEDS) || !has(&[Need::Tool("unshare"), Need::Tool("nsenter"), Need::Path("/proc/key-users")]) {
        return;
    }
    let (pid, report) = filled("1");
    for (rule, instance, culprit) in FULL {
        let full = finding(&report, rule, instance);
        assert_eq!(full["status"], "critical", "{full:#}");
        let named = full["culprit"]["name"].as_str().unwrap();
        assert!(named == culprit || named == culprit.replace('0', "root"), "{full:#}");
    }
    let aio = finding(&report, "fd.utilization.aio", None);
    assert_eq!((&aio["status"], &aio["culprit"]["pids"][0]), (&"warning".into(), &pid.into()), "{aio:#}");
    let allowed: Vec<&str> = FULL.iter().map(|(rule, _, _)| *rule).chain(["fd.utilization.aio", "cpu."]).collect();
    assert_nothing_else_fired(&report, &allowed);
}

#[test]
#[ignore = "needs: root, a quiet machine, python3, unshare, nsenter"]
fn tables_of_the_kernel_that_are_used_by_half_are_no_finding() {
    let _alone = alone();
    if !has(NEEDS) || !has(&[Need::Tool("unshare"), Need::Tool("nsenter"), Need::Path("/proc/key-users")]) {
        return;
    }
    let (_, report) = filled("0.5");
    for (rule, instance, _) in FULL {
        let half = finding(&report, rule, instance);
        assert_eq!(half["status"], "ok", "{half:#}");
        assert!((0.4..0.55).contains(&half["value"].as_f64().unwrap()), "{half:#}");
    }
    assert_nothing_else_fired(&report, &["cpu."]);
}
