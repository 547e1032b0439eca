//! Memory of a whole guest that is nearly full, or broken, and what looks like it: other machines need not bear it.
#![expect(clippy::indexing_slicing, reason = "a test may panic, in its helpers too")]

use serde_json::Value;

use super::guest_devices::NullDisks;
use super::guest_log::KernelLog;
use crate::support::{Load, Need, alone, assert_nothing_else_fired, finding, has, live_report_every, wait_until};

pub(super) fn ready() -> bool {
    has(&[
        Need::Root,
        Need::Path("/proc/pressure/memory"),
        Need::Tool("modprobe"),
        Need::Tool("python3"),
        Need::Tool("dd"),
    ])
}

/// A field of /proc/meminfo in MiB.
pub(super) fn mebibytes(name: &str) -> u64 {
    let text = std::fs::read_to_string("/proc/meminfo").unwrap();
    let line = text.lines().find(|line| line.starts_with(name)).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() / 1024
}

pub(super) fn assert_status(report: &Value, status: &str, rules: &[&str]) {
    for rule in rules {
        let found = finding(report, rule, None);
        assert_eq!(found["status"], status, "{found:#}");
    }
}

/// Holds so many MiB, which the kernel takes from no other than it.
const HOLDS: &str = "
import ctypes, mmap, sys, time
open('/proc/self/oom_score_adj', 'w').write('-1000')
region = mmap.mmap(-1, int(sys.argv[1]) << 20, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | 0x8000)
ctypes.CDLL(None).prctl(15, b'begun')
time.sleep(3000)
";

/// Waits until a program calls itself so; an emulated CPU is slow.
pub(super) fn has_begun(load: &Load) -> bool {
    let comm = format!("/proc/{}/comm", load.pids()[0]);
    wait_until(200, || std::fs::read_to_string(&comm).is_ok_and(|name| name == "begun\n"))
}

/// A program that holds all that is available but so many MiB.
fn all_but(left: u64) -> Load {
    let size = (mebibytes("MemAvailable:") - left).to_string();
    let load = Load::start(1, "python3", &["-c", HOLDS, &size]);
    assert!(wait_until(120, || mebibytes("MemAvailable:") < left + 40), "the memory is taken");
    assert!(has_begun(&load), "the memory is held");
    load
}

#[test]
#[ignore = "needs: root, a kernel of the matrix, python3"]
fn vm_memory_that_a_program_holds_to_the_brim_is_nearly_full_and_its_holder_is_named() {
    let _alone = alone();
    if !ready() {
        return;
    }
    let holder = all_but(170);
    let pid = holder.pids()[0];
    let report = live_report_every("2s", 10);
    drop(holder);
    let full = finding(&report, "memory.utilization", None);
    assert!(["info", "warning"].contains(&full["status"].as_str().unwrap()), "{full:#}");
    assert_eq!(full["culprit"]["pids"][0], pid, "{full:#}");
    // rdiag itself has to have its pages read again, and is much for an emulated CPU.
    assert_nothing_else_fired(&report, &["memory.utilization", "memory.saturation.", "memory.saturation", "cpu."]);
}

#[test]
#[ignore = "needs: root, a kernel of the matrix with its modules, dd"]
fn vm_a_page_cache_that_fills_memory_is_no_shortage() {
    let _alone = alone();
    if !ready() {
        return;
    }
    let disk = NullDisks::new(&[&[("size", "262144")]]);
    let reader = Load::start(1, "dd", &["if=/dev/nullb0", "of=/dev/null", "bs=1M"]);
    assert!(wait_until(120, || mebibytes("MemFree:") < 200), "the page cache is full");
    let report = live_report_every("2s", 10);
    let is_full = mebibytes("MemFree:") < 300;
    drop((reader, disk));
    assert!(is_full, "the page cache is full to the end");
    assert_status(&report, "ok", &["memory.utilization"]);
    assert_nothing_else_fired(&report, &["cpu."]);
}

/// Twice a second, a page of its own is told to be broken.
const BROKEN: &str = "while :; do python3 -c \"
import mmap
page = mmap.mmap(-1, 4096, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
page[0] = 1
page.madvise(100) # MADV_HWPOISON
\"; sleep 0.5; done";

/// A module that asks for more memory than there is.
const TOO_LARGE: &str = "while :; do modprobe scsi_debug dev_size_mb=999999; sleep 0.5; done";

#[test]
#[ignore = "needs: root, a kernel of the matrix with its modules, python3"]
fn vm_pages_that_are_broken_and_an_allocation_of_the_kernel_that_fails_are_told_apart() {
    let _alone = alone();
    if !ready() {
        return;
    }
    let log = KernelLog::new();
    let broken = Load::start(1, "sh", &["-c", BROKEN]);
    assert!(wait_until(120, || KernelLog::all_lines().contains("Memory failure: ")), "a page is broken");
    let one = live_report_every("2s", 8);
    drop(broken);
    drop(log);
    let log = KernelLog::new();
    let large = Load::start(1, "sh", &["-c", TOO_LARGE]);
    // The kernel tells of one such failure in ten seconds, so that a shorter window may have none.
    let other = live_report_every("2s", 14);
    drop((large, log));

    let hardware = finding(&one, "hardware.errors.log", None);
    assert_eq!(hardware["status"], "critical", "{hardware:#}");
    assert!(hardware["summary"].as_str().unwrap().contains("uncorrected"), "{hardware:#}");
    assert_status(&one, "ok", &["memory.errors.page_allocation"]);
    // Programs are read from the disk of the host.
    assert_nothing_else_fired(&one, &["hardware.errors.log", "disk.saturation.pressure", "cpu."]);
    let failed = finding(&other, "memory.errors.page_allocation", None);
    assert_eq!((&failed["status"], &failed["culprit"]["name"]), (&"warning".into(), &"modprobe".into()), "{failed:#}");
    assert_status(&other, "ok", &["hardware.errors.log"]);
    assert_nothing_else_fired(&other, &["memory.errors.page_allocation", "disk.saturation.pressure", "cpu."]);
}
