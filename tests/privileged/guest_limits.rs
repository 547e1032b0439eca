//! Limits of a whole host that are reached, in guests: no other machine has to bear them.

use super::guest_log::{KernelLog, Setting};
use crate::support::{Load, Need, alone, assert_nothing_else_fired, finding, has, live_report, wait_until};

fn ready() -> bool {
    has(&[Need::Root, Need::Tool("python3"), Need::Path("/proc/sys/fs/file-max")])
}

/// Root opens files without end, which no limit of the host forbids it, and a user tries to. The kernel reports a refusal when more
/// files are open than at the one before.
const FILES: &str = "
import os, resource, time
resource.setrlimit(resource.RLIMIT_NOFILE, (60000, 60000))
kept = [os.open('/dev/null', 0) for _ in range(200)]
open('/proc/sys/fs/file-max', 'w').write(open('/proc/sys/fs/file-nr').read().split()[0])
if os.fork() == 0:
    os.setgid(4247); os.setuid(4247)
    while True:
        try: kept.append(os.open('/dev/null', 0))
        except OSError: time.sleep(0.1)
while True:
    kept += [os.open('/dev/null', 0) for _ in range(100)]
    time.sleep(0.5)
";

#[test]
#[ignore = "needs: root, a guest, python3"]
fn vm_opens_that_are_refused_at_the_limit_of_the_host_are_critical() {
    let _alone = alone();
    if !ready() {
        return;
    }
    let log = KernelLog::new();
    let before = std::fs::read_to_string("/proc/sys/fs/file-max").unwrap();
    let most = Setting::to("/proc/sys/fs/file-max", before.trim());
    let files = Load::start(1, "python3", &["-c", FILES]);
    let reached = || KernelLog::all_lines().lines().any(|line| line.contains("VFS: file-max limit"));
    assert!(wait_until(60, reached), "an open is refused");
    let report = live_report(5);
    drop((files, most, log));

    let refused = finding(&report, "fd.errors.host", None);
    assert_eq!(refused["status"], "critical", "{refused:#}");
    let open = finding(&report, "fd.utilization", None);
    assert_eq!((&open["status"], &open["culprit"]["name"]), (&"critical".into(), &"python3".into()), "{open:#}");
    // rdiag and the load are much for an emulated CPU.
    assert_nothing_else_fired(&report, &["fd.errors.host", "fd.utilization", "cpu."]);
}
