//! Memory of a guest that the kernel takes back, or takes for itself: a program that it kills, and objects of its own.

use serde_json::Value;

use super::guest_log::KernelLog;
use super::guest_memory::{has_begun, mebibytes, ready};
use crate::support::{Load, alone, assert_nothing_else_fired, finding, live_report_every};

/// Once a second, a program that is to be killed first, and an order to the kernel to kill one as if memory had run out: a guest that
/// really runs out stands still before (seen on Linux 6.1, where a window of 14 s was not over after two minutes).
const KILLED: &str = "while :; do
    sh -c 'echo 1000 >/proc/self/oom_score_adj; exec sleep 100' &
    sleep 0.5; echo f >/proc/sysrq-trigger; sleep 0.5
done";

#[test]
#[ignore = "needs: root, a kernel of the matrix, SysRq"]
fn vm_a_program_that_the_kernel_kills_for_its_memory_is_named() {
    let _alone = alone();
    if !ready() {
        return;
    }
    let log = KernelLog::new();
    let killed = Load::start(1, "sh", &["-c", KILLED]);
    let report = live_report_every("2s", 8);
    drop((killed, log));
    let kills = finding(&report, "memory.errors.oom", None);
    assert_eq!(kills["status"], "critical", "{kills:#}");
    assert!(kills["culprit"]["name"].as_str().unwrap().starts_with("sleep"), "{kills:#}");
    assert!(kills["summary"].as_str().unwrap().contains("not because of a memory cgroup's limit"), "{kills:#}");
    // Programs are read from the disk of the host.
    assert_nothing_else_fired(&report, &["memory.errors.oom", "disk.saturation.pressure", "cpu."]);
}

/// A queue of so many messages of 1 MiB that no one takes. It goes with the program, in a namespace of its own.
const MESSAGES: &str = "
import ctypes, sys, time
libc = ctypes.CDLL(None)
for name in 'msgmax', 'msgmnb': open('/proc/sys/kernel/' + name, 'w').write('2000000000' if name == 'msgmnb' else '1048576')
class Message(ctypes.Structure): _fields_ = [('kind', ctypes.c_long), ('text', ctypes.c_char * 1048576)]
message, queue = Message(1), libc.msgget(0, 0o600)
for _ in range(int(sys.argv[1])): assert libc.msgsnd(queue, ctypes.byref(message), ctypes.c_size_t(1048576), 0) == 0
libc.prctl(15, b'begun')
time.sleep(3000)
";

#[test]
#[ignore = "needs: root, a kernel of the matrix, python3, unshare"]
fn vm_a_third_of_the_memory_in_objects_of_the_kernel_is_a_warning_and_a_tenth_is_not() {
    let _alone = alone();
    if !ready() {
        return;
    }
    for (share, status) in [(0.1, "ok"), (0.33, "warning")] {
        let messages = ((mebibytes("MemTotal:") as f64 * share) as u64).to_string();
        let load = Load::start(1, "unshare", &["--ipc", "python3", "-c", MESSAGES, &messages]);
        assert!(has_begun(&load), "the messages wait");
        let report = live_report_every("2s", 4);
        drop(load);
        let slab = finding(&report, "memory.utilization.slab", None);
        assert_eq!((&slab["status"], &slab["culprit"]), (&status.into(), &Value::Null), "{slab:#}");
        let value = slab["value"].as_f64().unwrap();
        assert!((share..share + 0.08).contains(&value), "{slab:#}");
        // Programs are read from the disk of the host.
        assert_nothing_else_fired(&report, &["memory.utilization.slab", "disk.saturation.pressure", "cpu."]);
    }
}
