//! Disks that fail, stand still or are slow, in guests: those of null_blk, scsi_debug, zram and md, which take their faults as parameters.

use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

use super::guest_devices::{NullDisks, ScsiDisk, settle, unload};
use super::guest_log::{KernelLog, Setting};
use super::kernels::modprobe;
use crate::support::{Load, Need, alone, assert_nothing_else_fired, finding, has, live_report_every, wait_until};

fn ready() -> bool {
    has(&[Need::Root, Need::Path("/proc/pressure/io"), Need::Tool("modprobe"), Need::Tool("python3"), Need::Tool("dd")])
}

/// Arrays of two RAM disks each, which keep no metadata.
struct Arrays;

impl Arrays {
    const NAMES: [&str; 2] = ["md126", "md127"];

    fn set(name: &str, file: &str, value: &str) {
        let path = format!("/sys/block/{name}/md/{file}");
        std::fs::write(&path, value).unwrap_or_else(|error| panic!("{value} > {path}: {error}"));
    }

    fn new() -> Self {
        modprobe(&["brd", "rd_nr=4", "rd_size=16384"]);
        modprobe(&["raid1"]);
        settle();
        let arrays = Self;
        for (at, name) in Self::NAMES.iter().enumerate() {
            std::fs::write("/sys/module/md_mod/parameters/new_array", name).unwrap();
            for (file, value) in
                [("level", "raid1"), ("raid_disks", "2"), ("component_size", "8192"), ("resync_start", "none")]
            {
                Self::set(name, file, value);
            }
            for slot in 0..2 {
                let disk = 2 * at + slot;
                // RAM disks have the major number 1.
                Self::set(name, "new_dev", &format!("1:{disk}"));
                Self::set(name, &format!("dev-ram{disk}/size"), "8192");
                Self::set(name, &format!("dev-ram{disk}/slot"), &slot.to_string());
            }
            Self::set(name, "array_state", "active");
        }
        settle();
        arrays
    }
}

impl Drop for Arrays {
    fn drop(&mut self) {
        for name in Self::NAMES {
            let state = format!("/sys/block/{name}/md/array_state");
            wait_until(30, || std::fs::write(&state, "clear").is_ok() || !PathBuf::from(&state).exists());
        }
        unload("raid1");
        unload("brd");
    }
}

/// Compressed memory that may take 1 MiB.
struct SmallZram;

impl SmallZram {
    fn new() -> Self {
        modprobe(&["zram", "num_devices=1"]);
        std::fs::write("/sys/block/zram0/disksize", "16M").unwrap();
        std::fs::write("/sys/block/zram0/mem_limit", "1M").unwrap();
        settle();
        Self
    }
}

impl Drop for SmallZram {
    fn drop(&mut self) {
        unload("zram");
    }
}

/// Writes what does not compress, until the disk refuses it and beyond.
const FILL: &str = "
import mmap, os, time
page = mmap.mmap(-1, 4096)
disk, at = os.open('/dev/zram0', os.O_WRONLY | os.O_DIRECT), 0
while True:
    page[:] = os.urandom(4096)
    try: os.pwrite(disk, page, at)
    except OSError: time.sleep(0.1)
    at = (at + 4096) % (8 << 20)
";

#[test]
#[ignore = "needs: root, a kernel of the matrix with its modules, python3"]
fn vm_disks_that_fail_an_array_that_lacks_a_member_and_a_slow_disk_are_told_apart() {
    let _alone = alone();
    if !ready() {
        return;
    }
    let log = KernelLog::new();
    // Every request takes 100 ms.
    let slow = NullDisks::new(&[&[("size", "1024"), ("irqmode", "2"), ("completion_nsec", "100000000")]]);
    let scsi = ScsiDisk::new();
    let arrays = Arrays::new();
    let zram = SmallZram::new();
    Arrays::set("md127", "dev-ram3/state", "faulty");
    let write = Load::start(1, "dd", &["if=/dev/zero", "of=/dev/nullb0", "bs=64k", "oflag=direct"]);
    let read =
        format!("while :; do dd if=/dev/{} of=/dev/null bs=4k skip=256 count=1 iflag=direct; sleep 1; done", scsi.name);
    let read = Load::start(1, "sh", &["-c", &read]);
    let fill = Load::start(1, "python3", &["-c", FILL]);
    let report = live_report_every("2s", 10);
    let name = scsi.name.clone();
    drop((write, read, fill));
    drop((slow, scsi, arrays, zram));
    drop(log);

    let failed = finding(&report, "disk.errors", None);
    assert_eq!(
        (&failed["status"], &failed["culprit"]["name"]),
        (&"critical".into(), &name.as_str().into()),
        "{failed:#}"
    );
    let commands = finding(&report, "disk.errors.scsi", Some(&name));
    assert_eq!(commands["status"], "info", "{commands:#}");
    assert!(commands["value"].as_f64().is_some_and(|count| count >= 1.0), "{commands:#}");
    let degraded = finding(&report, "disk.errors.degraded_array", Some("md127"));
    assert_eq!((&degraded["status"], &degraded["value"]), (&"critical".into(), &1.0.into()), "{degraded:#}");
    let said = degraded["summary"].as_str().unwrap();
    assert!(said.contains("(raid1) is degraded") && said.contains("(ram3 failed)"), "{said}");
    // The same with all its members, and a disk that is slow, but fails nothing.
    assert_eq!(finding(&report, "disk.errors.degraded_array", Some("md126"))["status"], "ok");
    let latency = finding(&report, "disk.saturation.write_latency", Some("nullb0"));
    assert_eq!((&latency["status"], &latency["culprit"]["name"]), (&"warning".into(), &"dd".into()), "{latency:#}");
    assert!(latency["value"].as_f64().is_some_and(|took| (0.1..0.3).contains(&took)), "{latency:#}");
    assert_eq!(finding(&report, "disk.saturation", Some("nullb0"))["status"], "ok", "one write at a time is no queue");
    for rule in ["memory.errors.zram", "memory.utilization.zram"] {
        let full = finding(&report, rule, Some("zram0"));
        assert_eq!((&full["status"], &full["culprit"]["name"]), (&"warning".into(), &"zram0".into()), "{full:#}");
    }
    assert_nothing_else_fired(
        &report,
        &[
            "disk.errors",
            "disk.errors.degraded_array",
            "disk.saturation.write_latency",
            "disk.saturation.pressure",
            "memory.errors.zram",
            "memory.utilization.zram",
            // rdiag and the loads are much for an emulated CPU.
            "cpu.",
        ],
    );
}

/// Swap space on a disk that can write nothing but its first page.
struct BadSwap {
    disk: String,
}

impl BadSwap {
    fn new(number: usize) -> Self {
        let disk = format!("/dev/nullb{number}");
        for program in ["mkswap", "swapon"] {
            let output = Command::new(program).arg(&disk).output().unwrap();
            assert!(output.status.success(), "{program}: {}", String::from_utf8_lossy(&output.stderr));
        }
        settle();
        // As many as the kernel keeps in one entry: of a longer range, 5.10 keeps the entries in the wrong order, and finds none of them.
        for first in (8..65536).step_by(512) {
            let bad = format!("+{first}-{}", (first + 511).min(65535));
            std::fs::write(NullDisks::folder(number).join("badblocks"), bad).unwrap();
        }
        Self { disk }
    }
}

impl Drop for BadSwap {
    fn drop(&mut self) {
        let _ = Command::new("swapoff").arg(&self.disk).status();
    }
}

/// Sends a few pages to swap space, again and again.
const SEND_AWAY: &str = "
import mmap, time
size = 32 * 4096
region = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
region.madvise(15) # MADV_NOHUGEPAGE
while True:
    for page in range(0, size, 4096): region[page] = 1
    region.madvise(21) # MADV_PAGEOUT
    time.sleep(0.2)
";

/// Writes a page, waits for the disk to have it, and keeps the disk open.
const WRITE: &str = "
import os, sys, time
disk = os.open(sys.argv[1], os.O_WRONLY)
os.write(disk, bytes(4096))
os.fsync(disk)
time.sleep(600)
";

/// Little memory may be dirty: programs are slowed down from 12 MiB on.
struct LittleDirty {
    ratios: [(&'static str, String); 2],
}

impl LittleDirty {
    fn new() -> Self {
        let ratios = ["/proc/sys/vm/dirty_background_ratio", "/proc/sys/vm/dirty_ratio"];
        // A number of bytes takes the place of a ratio, and the other way round.
        let ratios = ratios.map(|path| (path, std::fs::read_to_string(path).unwrap()));
        std::fs::write("/proc/sys/vm/dirty_background_bytes", "8388608").unwrap();
        std::fs::write("/proc/sys/vm/dirty_bytes", "16777216").unwrap();
        Self { ratios }
    }
}

impl Drop for LittleDirty {
    fn drop(&mut self) {
        for (path, before) in &self.ratios {
            let _ = std::fs::write(path, before.trim());
        }
    }
}

#[test]
#[ignore = "needs: root, a kernel of the matrix with its modules, python3"]
fn vm_a_disk_that_stands_still_swap_that_fails_and_dirty_memory_that_is_written_too_slowly_are_named() {
    let _alone = alone();
    if !ready() || !has(&[Need::Tool("mkswap"), Need::Tool("swapon")]) {
        return;
    }
    let log = KernelLog::new();
    // The first takes four writes at a time, 100 ms each. The second remembers what is written.
    let disks = NullDisks::new(&[
        &[("size", "4096"), ("irqmode", "2"), ("completion_nsec", "100000000"), ("hw_queue_depth", "4")],
        &[("size", "32"), ("memory_backed", "1")],
    ]);
    let swap = BadSwap::new(1);
    let scsi = ScsiDisk::new();
    scsi.be_patient();
    let little = LittleDirty::new();
    let hung = Setting::to("/proc/sys/kernel/hung_task_timeout_secs", "5");
    let send = Load::start(1, "python3", &["-c", SEND_AWAY]);
    let dirty = Load::start(1, "sh", &["-c", "exec cat /dev/zero >/dev/nullb0"]);
    // A minute for a write.
    assert!(ScsiDisk::slow_down(15_000), "the SCSI disk is idle");
    let began = Instant::now();
    let stuck = Load::start(1, "python3", &["-c", WRITE, &format!("/dev/{}", scsi.name)]);
    // The kernel looks for hung tasks every 5 s, and reports one that it finds for the second time.
    std::thread::sleep(Duration::from_secs(6));
    let report = live_report_every("2s", 10);
    println!("the report was there {:?} after the write began", began.elapsed());
    let name = scsi.name.clone();
    drop((send, dirty, hung));
    // The write is over before the disk is closed, which would have udev read it.
    ScsiDisk::slow_down(1);
    drop((stuck, little, swap, disks, scsi));
    drop(log);

    let still = finding(&report, "disk.saturation.stuck", Some(&name));
    assert_eq!((&still["status"], &still["culprit"]["name"]), (&"critical".into(), &name.as_str().into()), "{still:#}");
    // The others are slow, or fail at once.
    for other in ["nullb0", "nullb1"] {
        assert_eq!(finding(&report, "disk.saturation.stuck", Some(other))["status"], "ok");
    }
    let task = finding(&report, "kernel.errors.hung_task", None);
    assert_eq!(task["status"], "warning", "{task:#}");
    assert!(task["log"].to_string().contains("task python3:"), "{task:#}");
    let writers = finding(&report, "disk.saturation.writeback", None);
    assert_eq!((&writers["status"], &writers["culprit"]["name"]), (&"warning".into(), &"cat".into()), "{writers:#}");
    let swapped = finding(&report, "memory.errors.swap", None);
    assert_eq!(
        (&swapped["status"], &swapped["culprit"]["name"]),
        (&"critical".into(), &"nullb1".into()),
        "{swapped:#}"
    );
    let failed = finding(&report, "disk.errors", None);
    assert_eq!((&failed["status"], &failed["culprit"]["name"]), (&"critical".into(), &"nullb1".into()), "{failed:#}");
    assert_nothing_else_fired(
        &report,
        &[
            "disk.errors",
            "disk.saturation",
            "disk.saturation.depth",
            "disk.saturation.io_latency",
            "disk.saturation.pressure",
            "disk.saturation.stuck",
            "disk.saturation.write_latency",
            "disk.saturation.writeback",
            "kernel.errors.hung_task",
            "memory.errors.swap",
            "tasks.saturation.blocked",
            // rdiag and the loads are much for an emulated CPU.
            "cpu.",
        ],
    );
}

#[test]
#[ignore = "needs: root, a kernel of the matrix with its modules, python3"]
fn vm_disk_errors_of_seconds_before_the_window_are_critical_and_their_age_is_said() {
    let _alone = alone();
    if !ready() {
        return;
    }
    // What the kernel says in its first minute is about what it found at boot.
    let uptime = || std::fs::read_to_string("/proc/uptime").unwrap().split('.').next().unwrap().parse::<u32>().unwrap();
    assert!(wait_until(120, || uptime() > 62), "the guest runs");
    let log = KernelLog::new();
    let scsi = ScsiDisk::new();
    let read = format!("dd if=/dev/{} of=/dev/null bs=4k skip=256 count=1 iflag=direct", scsi.name);
    let read = std::process::Command::new("sh").args(["-c", &read]).output().unwrap();
    let is_logged = || KernelLog::all_lines().contains(&format!("error, dev {}", scsi.name));
    let was_logged = wait_until(20, is_logged);
    std::thread::sleep(std::time::Duration::from_secs(3));
    let report = live_report_every("1s", 5);
    let name = scsi.name.clone();
    drop((scsi, log));

    assert!(!read.status.success() && was_logged, "the disk cannot read this sector");
    let failed = finding(&report, "disk.errors", None);
    assert_eq!(
        (&failed["status"], &failed["culprit"]["name"]),
        (&"critical".into(), &name.as_str().into()),
        "{failed:#}"
    );
    // The disk answered everything within the window: the finding is of before it, and says when.
    assert!(failed["seconds_before"].as_f64().is_some_and(|before| (2.0..60.0).contains(&before)), "{failed:#}");
    assert!(failed["title"].as_str().unwrap().contains("before"), "{failed:#}");
    assert!(failed["summary"].as_str().unwrap().contains("The newest is from "), "{failed:#}");
    let headline = report["verdict"]["headline"].as_str().unwrap();
    assert!(headline.contains("before the window"), "{headline}");
    assert_nothing_else_fired(&report, &["disk.errors", "cpu."]);
}

/// So many threads read from a disk, past the page cache.
const MANY_READ: &str = "
import mmap, os, random, sys, threading
disk = os.open(sys.argv[1], os.O_RDONLY | os.O_DIRECT)
def read():
    page = mmap.mmap(-1, 1 << 18)
    while True: os.preadv(disk, [page], random.randrange(1000) << 18)
for _ in range(int(sys.argv[2])): threading.Thread(target=read).start()
";

#[test]
#[ignore = "needs: root, a kernel of the matrix with its modules, python3"]
fn vm_a_disk_with_more_requests_than_it_takes_at_once_is_overloaded_and_who_asks_is_named() {
    let _alone = alone();
    if !ready() {
        return;
    }
    // Of the slow one one thread reads, of the other one 24.
    let disks = NullDisks::new(&[&[("size", "256"), ("mbps", "1")], &[("size", "256"), ("mbps", "16")]]);
    let few = Load::start(1, "dd", &["if=/dev/nullb0", "of=/dev/null", "bs=4k", "iflag=direct"]);
    let many = Load::start(1, "python3", &["-c", MANY_READ, "/dev/nullb1", "24"]);
    let report = live_report_every("2s", 12);
    drop((few, many, disks));
    let full = finding(&report, "disk.saturation", Some("nullb1"));
    assert_eq!((&full["status"], &full["culprit"]["name"]), (&"critical".into(), &"python3".into()), "{full:#}");
    assert_eq!(finding(&report, "disk.saturation", Some("nullb0"))["status"], "ok");
    // rdiag and the loads are much for an emulated CPU.
    assert_nothing_else_fired(&report, &["disk.saturation.", "disk.saturation", "tasks.saturation.blocked", "cpu."]);
}
