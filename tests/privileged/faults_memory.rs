//! Memory that is short in a place that the figures of the whole host do not show: a full device of compressed memory, swap space that is
//! full or fails, page tables, transparent huge pages in a control group at its limit. Beside each, what looks like it.
#![expect(clippy::indexing_slicing, reason = "a test may panic, in its helpers too")]

use std::path::PathBuf;
use std::process::Command;

use super::induced::has_said_begun;
use super::memory::MemoryCgroup;
use crate::support::{
    Load, Need, alone, assert_nothing_else_fired, finding, findings, has, live_report_every, skip, wait_until,
};

const ADD: &str = "/sys/class/zram-control/hot_add";
const NEEDS: &[Need] =
    &[Need::Root, Need::Tool("python3"), Need::Tool("dd"), Need::Tool("mkswap"), Need::Tool("swapon"), Need::Path(ADD)];

/// A device of compressed memory with 64 MiB, which may take so much memory; it goes with the test, as does the swap space on it.
struct Compressed {
    number: String,
    is_swap: bool,
}

impl Compressed {
    fn new(limit: &str) -> Self {
        let number = std::fs::read_to_string(ADD).unwrap().trim().to_owned();
        let device = Self { number, is_swap: false };
        std::fs::write(device.file("disksize"), "64M").unwrap();
        std::fs::write(device.file("mem_limit"), limit).unwrap();
        assert!(wait_until(5, || PathBuf::from(device.node()).exists()), "{} appears", device.node());
        device
    }

    fn swap(limit: &str) -> Self {
        let mut device = Self::new("0");
        must_run("mkswap", &device.node());
        must_run("swapon", &device.node());
        device.is_swap = true;
        std::fs::write(device.file("mem_limit"), limit).unwrap();
        device
    }

    fn name(&self) -> String {
        format!("zram{}", self.number)
    }

    fn node(&self) -> String {
        format!("/dev/zram{}", self.number)
    }

    fn file(&self, name: &str) -> String {
        format!("/sys/block/zram{}/{name}", self.number)
    }

    /// A program that writes so many pages that do not compress, in a row, and the last one again and again.
    fn writer(&self, pages: u32) -> Load {
        let script = "dd if=/dev/urandom of=$1 bs=4096 count=$2 oflag=direct; \
                      while sleep 0.1; do dd if=/dev/urandom of=$1 bs=4096 seek=$2 count=1 oflag=direct; done";
        Load::start(1, "sh", &["-c", script, "sh", &self.node(), &pages.to_string()])
    }

    /// How many pages it holds.
    fn pages(&self) -> u32 {
        let text = std::fs::read_to_string(self.file("mm_stat")).unwrap();
        text.split_whitespace().next().unwrap().parse::<u32>().unwrap() / 4096
    }
}

impl Drop for Compressed {
    fn drop(&mut self) {
        if self.is_swap {
            let _ = Command::new("swapoff").arg(self.node()).status();
        }
        let _ = std::fs::write(self.file("reset"), "1");
        let _ = std::fs::write("/sys/class/zram-control/hot_remove", &self.number);
    }
}

fn must_run(program: &str, argument: &str) {
    let output = Command::new(program).arg(argument).output().unwrap();
    assert!(output.status.success(), "{program} {argument}: {}", String::from_utf8_lossy(&output.stderr));
}

#[test]
#[ignore = "needs: root, a quiet machine, zram, dd"]
fn compressed_memory_at_its_limit_is_full_and_refuses_what_is_written() {
    let _alone = alone();
    if !has(NEEDS) {
        return;
    }
    let device = Compressed::new("8M");
    let load = device.writer(4096);
    assert!(wait_until(20, || device.pages() > 1900), "8 MiB are written");
    let report = live_report_every("400ms", 2);
    let name = device.name();
    drop((load, device));
    let full = finding(&report, "memory.utilization.zram", Some(&name));
    assert_eq!((&full["status"], &full["culprit"]["name"]), (&"warning".into(), &name.as_str().into()), "{full:#}");
    let failed = finding(&report, "memory.errors.zram", Some(&name));
    assert_eq!((&failed["status"], &failed["culprit"]["name"]), (&"warning".into(), &name.as_str().into()));
    assert!((5.0..=25.0).contains(&failed["value"].as_f64().unwrap()), "up to ten each second: {failed:#}");
    assert_nothing_else_fired(&report, &["memory.utilization.zram", "memory.errors.zram", "cpu."]);
}

#[test]
#[ignore = "needs: root, a quiet machine, zram, dd"]
fn compressed_memory_at_half_of_its_limit_is_no_finding() {
    let _alone = alone();
    if !has(NEEDS) {
        return;
    }
    let device = Compressed::new("8M");
    let load = device.writer(1000);
    assert!(wait_until(20, || device.pages() > 1000), "4 MiB are written");
    let report = live_report_every("400ms", 2);
    let name = device.name();
    drop((load, device));
    let half = finding(&report, "memory.utilization.zram", Some(&name));
    assert_eq!(half["status"], "ok", "{half:#}");
    assert!((0.4..0.6).contains(&half["value"].as_f64().unwrap()), "{half:#}");
    let failed = finding(&report, "memory.errors.zram", Some(&name));
    assert_eq!((failed["status"].as_str(), failed["value"].as_f64()), (Some("ok"), Some(0.0)), "{failed:#}");
    assert_nothing_else_fired(&report, &["cpu."]);
}

/// Memory of so many KiB that does not compress is sent to swap, what stays again and again. Then it rests, or brings the first 256 KiB
/// back and sends them away again.
const SWAPPED: &str = "
import ctypes, mmap, os, sys, time
size = int(sys.argv[1]) * 1024
region = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
for at in range(0, size, 1 << 20): region[at:min(at + (1 << 20), size)] = os.urandom(min(1 << 20, size - at))
def swapped(): return [int(line.split()[1]) for line in open('/proc/self/status') if line.startswith('VmSwap:')][0]
for _ in range(50):
    region.madvise(21)
    if swapped() * 1024 >= size: break
    time.sleep(0.02)
ctypes.CDLL(None).prctl(15, b'begun')
while True:
    time.sleep(0.05)
    if sys.argv[2] == 'fails':
        # What could not be written is not mapped any more.
        for at in range(0, size, 4096): region[at]
        region.madvise(21)
    if sys.argv[2] == 'works':
        for at in range(0, 256 << 10, 4096): region[at]
        region.madvise(21, 0, 256 << 10)
";

fn swapped_out(kibibytes: u32, then: &str) -> Load {
    let load = Load::start(1, "python3", &["-c", SWAPPED, &kibibytes.to_string(), then]);
    assert!(has_said_begun(&load), "the memory is swapped");
    load
}

#[test]
#[ignore = "needs: root, a quiet machine, zram, mkswap, python3"]
fn full_swap_space_is_a_warning_while_it_is_used_and_worth_knowing_while_it_rests() {
    let _alone = alone();
    if !has(NEEDS) {
        return;
    }
    let device = Compressed::swap("0");
    for (then, status) in [("rests", "info"), ("works", "warning")] {
        let load = swapped_out(64_200, then);
        let pid = load.pids()[0];
        let report = live_report_every("400ms", 2);
        drop(load);
        let full = finding(&report, "memory.utilization.swap", None);
        assert_eq!(full["status"], status, "{full:#}");
        assert!((0.95..=1.0).contains(&full["value"].as_f64().unwrap()), "63 MiB of 64: {full:#}");
        assert_eq!(full["culprit"]["pids"][0], pid, "{full:#}");
        assert_nothing_else_fired(&report, &["memory.utilization.swap", "memory.saturation.swap_in", "cpu."]);
    }
    drop(device);
}

#[test]
#[ignore = "needs: root, a quiet machine, zram, mkswap, python3"]
fn writes_to_swap_space_that_fail_are_critical() {
    let _alone = alone();
    if !has(NEEDS) {
        return;
    }
    let device = Compressed::swap("4M");
    let name = device.name();
    let load = swapped_out(32_768, "fails");
    let report = live_report_every("400ms", 2);
    drop((load, device));
    let failed = finding(&report, "memory.errors.swap", None);
    assert_eq!(failed["status"], "critical", "{failed:#}");
    assert_eq!(failed["culprit"]["name"], name.as_str(), "the device, whichever sector: {failed:#}");
    assert_eq!(finding(&report, "memory.errors.zram", Some(&name))["status"], "warning");
    assert_nothing_else_fired(
        &report,
        &["memory.errors.", "memory.utilization.zram", "memory.saturation.swap_in", "cpu."],
    );
}

/// So much of the address space is mapped, and so many places in it are read, each in a page table of its own.
const SPARSE: &str = "
import ctypes, mmap, sys, time
tables = int(sys.argv[1])
region = mmap.mmap(-1, int(sys.argv[2]) << 21, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | 0x4000, prot=mmap.PROT_READ)
for number in range(tables): region[number << 21]
ctypes.CDLL(None).prctl(15, b'begun')
time.sleep(60)
";

/// A field of /proc/meminfo in kB.
fn kibibytes_in_meminfo(name: &str) -> f64 {
    let text = std::fs::read_to_string("/proc/meminfo").unwrap();
    let line = text.lines().find(|line| line.starts_with(name)).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

/// The share of memory that page tables take in the report, and its status, with tables of so much of the memory.
fn tables_of(share: f64) -> (f64, String) {
    let total = kibibytes_in_meminfo("MemTotal:");
    let tables = |share: f64| ((total * share / 4.0) as u64).to_string();
    let load = Load::start(1, "python3", &["-c", SPARSE, &tables(share), &tables(0.11)]);
    assert!(has_said_begun(&load), "the memory is mapped");
    let report = live_report_every("400ms", 2);
    drop(load);
    assert_nothing_else_fired(&report, &["memory.utilization.page_tables", "cpu."]);
    let found = finding(&report, "memory.utilization.page_tables", None);
    (found["value"].as_f64().unwrap(), found["status"].as_str().unwrap().to_owned())
}

#[test]
#[ignore = "needs: root, a quiet machine, python3"]
fn page_tables_of_a_tenth_of_the_memory_are_a_warning_and_a_large_address_space_is_not() {
    let _alone = alone();
    if !has(&[Need::Root, Need::Tool("python3")]) {
        return;
    }
    if kibibytes_in_meminfo("MemAvailable:") < 0.4 * kibibytes_in_meminfo("MemTotal:") {
        return skip("too little memory is available to have a tenth of it in page tables");
    }
    let (value, status) = tables_of(0.0001);
    assert!(value < 0.02 && status == "ok", "{value} {status}: much is mapped, and little of it used");
    let (value, status) = tables_of(0.11);
    assert!((0.1..0.13).contains(&value) && status == "warning", "{value} {status}");
}

/// Twenty times a second: memory for sixteen huge pages, touched and given back. Before, so many KiB of small pages.
const HUGE: &str = "
import ctypes, mmap, os, sys, time
ctypes.CDLL(None).prctl(15, b'waits')
while not os.path.exists(sys.argv[2]): time.sleep(0.01)
kept = mmap.mmap(-1, max(int(sys.argv[1]) * 1024, 4096), flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
kept.madvise(15)
for at in range(0, int(sys.argv[1]) * 1024, 4096): kept[at] = 1
region = mmap.mmap(-1, 17 << 21, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
region.madvise(14)
ctypes.CDLL(None).prctl(15, b'begun')
while True:
    for at in range(0, 17 << 21, 2 << 20): region[at] = 1
    region.madvise(4)
    time.sleep(0.05)
";

const THP: &str = "/sys/kernel/mm/transparent_hugepage/enabled";

/// That program, in a group or in none.
fn huge_faults(group: Option<&MemoryCgroup>, kibibytes: u32) -> Load {
    let folder = tempfile::tempdir().unwrap();
    let sign = folder.path().join("go");
    let load = Load::start(1, "python3", &["-c", HUGE, &kibibytes.to_string(), sign.to_str().unwrap()]);
    let comm = format!("/proc/{}/comm", load.pids()[0]);
    assert!(wait_until(20, || std::fs::read_to_string(&comm).is_ok_and(|name| name == "waits\n")));
    // What the interpreter took for itself is charged to another group.
    if let Some(group) = group {
        std::fs::write(group.0.join("cgroup.procs"), load.pids()[0].to_string()).unwrap();
    }
    std::fs::write(&sign, "").unwrap();
    assert!(has_said_begun(&load), "the memory is there");
    load
}

#[test]
#[ignore = "needs: root, a quiet machine, transparent huge pages, the memory controller, python3"]
fn huge_pages_for_which_a_group_has_no_room_are_replaced_by_small_ones() {
    let _alone = alone();
    if !has(&[Need::Root, Need::Tool("python3"), Need::Path(THP)]) {
        return;
    }
    if std::fs::read_to_string(THP).unwrap().contains("[never]") {
        return skip("this host uses no transparent huge pages");
    }
    let fallback = |report: &serde_json::Value| {
        let found = finding(report, "memory.saturation.huge_page_fallback", None);
        (found["status"].as_str().unwrap().to_owned(), found["value"].as_f64().unwrap())
    };
    let load = huge_faults(None, 0);
    let report = live_report_every("400ms", 2);
    drop(load);
    let (status, value) = fallback(&report);
    assert!(status == "ok" && value < 0.1, "the host has huge pages: {status} {value}");
    assert_nothing_else_fired(&report, &["cpu."]);
    let Some(group) = MemoryCgroup::with_limit("rdiag-test-huge", 64 << 20) else {
        return skip("no control group with the memory controller can be made");
    };
    let load = huge_faults(Some(&group), (64 << 10) - 1700);
    let report = live_report_every("400ms", 2);
    drop((load, group));
    let (status, value) = fallback(&report);
    assert!(status == "info" && value > 0.9, "less than a huge page is left: {status} {value}");
    let full = findings(&report, "cgroup.utilization.memory");
    assert!(full.iter().any(|group| group["status"] == "warning"), "and the group is full: {full:#?}");
    assert_nothing_else_fired(&report, &["cgroup.", "memory.saturation.stalls", "cpu."]);
}
