//! Probes of operations on files: a workload with a known answer gives exactly that answer, at the kernel's functions and at
//! system calls.
#![expect(clippy::indexing_slicing, reason = "a test may panic, in its helpers too")]

use std::path::Path;
use std::process::Command;

use serde_json::Value;

use super::probing::{Script, assert_nothing_lost, probed, ready, rows};
use crate::support::{Load, Need, alone, finding, has, live_report, rdiag};

/// A known number of each operation on a file, others on a pipe that are none, and one read that waits for a known time: the
/// kernel's log is a file, whose reader sleeps until somebody writes a line.
const WORK: &str = "
log = os.open('/proc/kmsg', os.O_RDONLY | os.O_NONBLOCK)
try:
    while True: os.read(log, 8192)
except BlockingIOError: pass
os.set_blocking(log, True)
path = f'/tmp/rdiag-files-{os.getpid()}'
fd = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
for i in range(37): os.write(fd, b'x' * 100)
for i in range(3): os.writev(fd, [b'x' * 100])
for i in range(21): os.pread(fd, 100, i * 100)
for i in range(5): os.preadv(fd, [bytearray(10)], i)
for i in range(11): os.fsync(fd)
for i in range(4): os.fdatasync(fd)
for i in range(6): os.close(os.open(path, os.O_RDONLY))
for i in range(9):
    try: os.open('/nonexistent/x', os.O_RDONLY)
    except OSError: pass
r, w = os.pipe()
for i in range(50): os.write(w, b'x'), os.read(r, 1)
os.unlink(path)
child = os.fork()
if child == 0:
    time.sleep(0.3)
    os.write(os.open('/dev/kmsg', os.O_WRONLY), b'rdiag tests its probes\\n')
    os._exit(0)
began = time.perf_counter()
os.read(log, 8192)
says = time.perf_counter() - began
os.waitpid(child, 0)
";

/// The distributions by their names.
fn latencies(readings: &[Value]) -> Vec<(String, f64, f64)> {
    let outputs = readings.iter().flat_map(|reading| reading["outputs"].as_array().unwrap());
    let rows = outputs.flat_map(|output| output["histogram"]["rows"].as_array().unwrap());
    rows.map(|row| {
        (row["instance"].as_str().unwrap().to_owned(), row["count"].as_f64().unwrap(), row["max"].as_f64().unwrap())
    })
    .collect()
}

fn back_ends(reading: &Value) -> String {
    reading["attachments"].to_string()
}

fn times_are_told_by_type_and_operation() {
    let mut type_of_tmp = String::new();
    for at_calls in [false, true] {
        let mut script = Script::start(WORK);
        let mut other = Script::start(WORK);
        let (pid, mut truth) = (script.pid().to_string(), String::new());
        let (calls, only) = (format!("calls={at_calls}"), format!("type={type_of_tmp}"));
        let readings = probed(&["fsdist", "--pid", &pid, "--param", &calls, "--param", &only], || {
            truth = script.work();
            other.work();
        });
        assert_nothing_lost(&readings);
        let by_functions = back_ends(&readings[0]).contains("fentry");
        assert!(!(by_functions && at_calls), "{readings:#?}");
        let found = latencies(&readings);
        let wrote = found.iter().find(|(name, count, _)| name.ends_with(" write") && *count == 40.0);
        let (name, ..) = wrote.unwrap_or_else(|| panic!("40 writes to one file system: {found:#?}"));
        let expected = [("write", 40.0), ("read", 26.0), ("fsync", 15.0), ("open", 7.0)];
        if at_calls {
            // Only the one type that was asked for.
            let names: Vec<String> = expected.iter().map(|(kind, _)| format!("{type_of_tmp} {kind}")).collect();
            assert!(found.iter().all(|(name, ..)| names.contains(name)), "{found:#?}");
        } else {
            type_of_tmp = name.trim_end_matches(" write").to_owned();
            let (_, _, longest) = found.iter().find(|(name, ..)| name == "proc read").unwrap();
            let truth: f64 = truth.parse().unwrap();
            assert!(*longest <= truth && *longest > 0.95 * truth, "{longest} s, and the caller saw {truth} s");
        }
        for (kind, count) in expected {
            let wanted = format!("{type_of_tmp} {kind}");
            let row = found.iter().find(|(name, ..)| *name == wanted);
            assert_eq!(row.map(|(_, count, _)| *count), Some(count), "{wanted}: {found:#?}");
        }
    }
}

fn slow_operations_are_told_with_their_file() {
    let mut script = Script::start(WORK);
    let mut other = Script::start(WORK);
    let (pid, file) = (script.pid().to_string(), format!("/tmp/rdiag-files-{}", script.pid()));
    let readings = probed(&["fileslower", "--pid", &pid, "--threshold", "0s"], || {
        script.work();
        other.work();
    });
    assert_nothing_lost(&readings);
    let all = rows(&readings, "events", "operations");
    assert!(all.iter().all(|row| row["name"] == "python3" && row["pid"] == pid.as_str()), "{all:#?}");
    let ours: Vec<_> = all.iter().filter(|row| row["file"] == file.as_str()).collect();
    let of = |operation: &str, result: &str| -> Vec<&Value> {
        let found = ours.iter().filter(|row| row["operation"] == operation && row["result"] == result);
        found.map(|row| &row["offset"]).collect()
    };
    let (writes, reads) = (of("write", "100"), of("read", "100"));
    assert_eq!(
        (writes.len(), reads.len(), of("fsync", "0").len(), of("open", "0").len()),
        (40, 21, 15, 7),
        "{ours:#?}"
    );
    if back_ends(&readings[0]).contains("fentry") {
        let places = |step: usize, number: usize| (0..number).map(|at| (at * step) as f64).collect::<Vec<_>>();
        let told = |offsets: &[&Value]| offsets.iter().map(|offset| offset.as_f64().unwrap()).collect::<Vec<_>>();
        assert_eq!((told(&writes), told(&reads)), (places(100, 40), places(100, 21)));
    }

    let mut script = Script::start(WORK);
    let mut truth = String::new();
    let readings = probed(&["fileslower", "--threshold", "200ms", "--param", "type=proc"], || truth = script.work());
    let slow = rows(&readings, "events", "operations");
    let pid = script.pid().to_string();
    let ours: Vec<_> = slow.iter().filter(|row| row["pid"] == pid.as_str()).collect();
    let [row] = ours[..] else { panic!("one read was slow: {slow:#?}") };
    assert_eq!((&row["file"], &row["operation"], &row["type"]), (&"/proc/kmsg".into(), &"read".into(), &"proc".into()));
    let (took, truth) = (row["latency"].as_f64().unwrap(), truth.parse::<f64>().unwrap());
    assert!(took <= truth && took > 0.95 * truth, "{took} s, and the caller saw {truth} s");
}

fn uses_are_summed_up_by_file_and_by_directory() {
    for (probe, table, place) in [("filetop", "files", "file"), ("dirtop", "directories", "directory")] {
        let mut script = Script::start(WORK);
        let mut other = Script::start(WORK);
        let pid = script.pid().to_string();
        let readings = probed(&[probe, "--pid", &pid, "--top", "1000"], || {
            script.work();
            other.work();
        });
        assert_nothing_lost(&readings);
        let all = rows(&readings, "table", table);
        let path = if place == "file" { format!("/tmp/rdiag-files-{pid}") } else { "/tmp".to_owned() };
        let ours: Vec<_> = all.iter().filter(|row| row[place] == path.as_str()).collect();
        let [row] = ours[..] else { panic!("one row of {path}: {all:#?}") };
        let numbers = ["reads", "read", "writes", "written"].map(|column| row[column].as_f64().unwrap());
        assert_eq!(numbers, [26.0, 2150.0, 40.0, 4000.0], "{row:#?}");
        if place == "file" {
            assert_eq!((&row["name"], &row["pid"]), (&"python3".into(), &pid.as_str().into()));
        }
        let waited = all.iter().find(|row| row["type"] == "proc" && row["time"].as_f64().unwrap() > 0.29);
        assert!(waited.is_some(), "{all:#?}");
    }
}

/// One check as two tests: on this host, and on the kernels of the matrix.
macro_rules! holds {
    ($here:ident, $vm:ident, $check:expr) => {
        #[test]
        #[ignore = "needs: root, eBPF, python3"]
        fn $here() {
            let _alone = alone();
            if ready() {
                $check();
            }
        }

        #[test]
        #[ignore = "needs: root, eBPF, python3, a kernel of the matrix"]
        fn $vm() {
            let _alone = alone();
            if ready() {
                $check();
            }
        }
    };
}

holds!(
    operations_on_files_are_counted_and_timed_by_type_of_file_system,
    vm_operations_on_files_are_counted_and_timed_by_type_of_file_system,
    times_are_told_by_type_and_operation
);

holds!(
    slow_operations_on_files_are_told_with_place_and_path,
    vm_slow_operations_on_files_are_told_with_place_and_path,
    slow_operations_are_told_with_their_file
);

holds!(
    what_is_read_and_written_is_summed_up_by_file_and_by_directory,
    vm_what_is_read_and_written_is_summed_up_by_file_and_by_directory,
    uses_are_summed_up_by_file_and_by_directory
);

#[test]
#[ignore = "needs: root, eBPF, python3"]
fn a_type_of_file_system_that_the_kernel_does_not_have_is_refused_with_those_that_it_has() {
    let _alone = alone();
    if !ready() {
        return;
    }
    let output = rdiag().args(["probe", "fsdist", "--param", "type=ext5", "--duration", "1s"]).output().unwrap();
    let told = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(3), "{told}");
    assert!(told.contains("\"ext5\"") && told.contains("/proc/filesystems"), "{told}");
}

fn run(program: &str, args: &[&str]) {
    let output = Command::new(program).args(args).output().unwrap();
    assert!(output.status.success(), "{program} {args:?}: {}", String::from_utf8_lossy(&output.stderr));
}

/// A disk in memory, each of whose requests takes a given time.
pub(super) struct SlowDisk;

impl SlowDisk {
    const FOLDER: &str = "/sys/kernel/config/nullb/nullb0";
    /// The first disk has this name, whether the kernel takes it from the folder or counts.
    pub(super) const NODE: &str = "/dev/nullb0";

    pub(super) fn new(nanoseconds: &str) -> Self {
        run("modprobe", &["null_blk", "nr_devices=0"]);
        if !Path::new("/sys/kernel/config/nullb").exists() {
            run("mount", &["-t", "configfs", "none", "/sys/kernel/config"]);
        }
        std::fs::create_dir(Self::FOLDER).unwrap();
        for (name, value) in
            [("size", "64"), ("memory_backed", "1"), ("irqmode", "2"), ("completion_nsec", nanoseconds), ("power", "1")]
        {
            std::fs::write(format!("{}/{name}", Self::FOLDER), value).unwrap();
        }
        Self
    }
}

impl Drop for SlowDisk {
    fn drop(&mut self) {
        let _ = std::fs::write(format!("{}/power", Self::FOLDER), "0");
        let _ = std::fs::remove_dir(Self::FOLDER);
        run("modprobe", &["--remove", "null_blk"]);
    }
}

/// A file system on such a disk.
pub(super) struct DiskMount {
    _disk: SlowDisk,
}

impl DiskMount {
    pub(super) const PLACE: &str = "/tmp/rdiag-disk";

    pub(super) fn new(nanoseconds: &str) -> Self {
        let disk = SlowDisk::new(nanoseconds);
        run("modprobe", &["ext4"]);
        std::fs::create_dir_all(Self::PLACE).unwrap();
        run("mkfs.ext4", &["-q", "-O", "^has_journal", SlowDisk::NODE]);
        run("mount", &[SlowDisk::NODE, Self::PLACE]);
        Self { _disk: disk }
    }
}

impl Drop for DiskMount {
    fn drop(&mut self) {
        run("umount", &[Self::PLACE]);
    }
}

#[test]
#[ignore = "needs: root, a kernel of the matrix with its modules, mkfs.ext4"]
fn vm_who_waits_for_a_slow_file_system_is_named_with_the_file() {
    let _alone = alone();
    if !ready() || !has(&[Need::Tool("modprobe"), Need::Tool("mkfs.ext4")]) {
        return;
    }
    let mount = DiskMount::new("50000000");
    run("dd", &["if=/dev/zero", "of=/tmp/rdiag-disk/orders", "bs=1M", "count=16", "conv=fsync"]);
    let load = Load::start(1, "dd", &["if=/tmp/rdiag-disk/orders", "of=/dev/null", "bs=4k", "iflag=direct"]);
    let report = live_report(4);
    drop((load, mount));
    let found = finding(&report, "filesystem.saturation.slow_operations", None);
    assert_eq!(found["status"], "info", "{found:#}");
    // It is the task that waits: who keeps the disk busy is for the rules of the disk to say.
    assert_eq!(found["culprit"], serde_json::Value::Null, "{found:#}");
    let summary = found["summary"].as_str().unwrap();
    assert!(summary.contains("dd waited the most") && summary.contains("orders"), "{summary}");
    assert!(found["value"].as_f64().unwrap() > 0.5, "{found:#}");
}

/// Reads of pages that are known to be missing, then of the same, which are there, and then of a stretch of three of which one is
/// there; and sixteen new pages.
const CACHED: &str = "
import mmap
def fresh(path):
    fd = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    os.write(fd, b'x' * (4 << 20))
    os.fsync(fd)
    os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_RANDOM)
    os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
    return fd
fd, mapped = fresh(path), fresh(path + '.mapped')
done(); go()
for turn in range(2):
    for i in range(100): os.pread(fd, 4096, i * 5 * 4096)
for i in range(10): os.pread(fd, 8192, i * 5 * 4096 + 2048)
os.lseek(fd, 3 << 20, 0)
for i in range(50): os.read(fd, 4096)
# A page of another file is missing while one that is there is read.
into = mmap.mmap(mapped, 4096, access=mmap.ACCESS_COPY)
open(path, 'rb', buffering=0).readinto(into)
new = os.open(path + '.new', os.O_WRONLY | os.O_CREAT, 0o600)
os.write(new, b'x' * 65536)
r, w = os.pipe()
os.write(w, b'x'), os.read(r, 1)
open('/proc/self/stat').read()
os.unlink(path), os.unlink(path + '.new'), os.unlink(path + '.mapped')
";

fn pages_in_the_cache_and_missing_ones_are_counted(folder: &Path) {
    for (probe, table) in [("cachestat", "cache"), ("cachetop", "processes")] {
        let file = folder.join("rdiag-cached");
        let work = format!("path = {file:?}\n{CACHED}");
        let mut script = Script::start(&work);
        let mut other = Script::start(&work.replace("rdiag-cached", "rdiag-others"));
        // The file is written and dropped from the cache before anybody looks.
        script.work();
        other.work();
        let pid = script.pid().to_string();
        let readings = probed(&[probe, "--pid", &pid], || {
            script.work();
            other.work();
        });
        assert_nothing_lost(&readings);
        let all = rows(&readings, "table", table);
        let [row] = &all[..] else { panic!("one row: {all:#?}") };
        let number = |column: &str| row[column].as_f64().unwrap();
        let read = ["reads", "bytes", "asked", "missed", "dirtied"].map(number);
        assert_eq!(read, [261.0, 1_110_016.0, 281.0, 170.0, 16.0], "{row:#?}");
        assert!((number("hit") - 111.0 / 281.0).abs() < 1e-9, "{row:#?}");
        assert!((187.0..1300.0).contains(&number("added")), "{row:#?}");
        if probe == "cachetop" {
            assert_eq!((&row["name"], &row["pid"]), (&"python3".into(), &pid.as_str().into()));
        }
    }
}

#[test]
#[ignore = "needs: root, eBPF, python3, a disk below the target folder"]
fn pages_that_reads_find_in_the_cache_are_told_from_those_that_are_missing() {
    let _alone = alone();
    if ready() {
        pages_in_the_cache_and_missing_ones_are_counted(Path::new(env!("CARGO_TARGET_TMPDIR")));
    }
}

#[test]
#[ignore = "needs: root, a kernel of the matrix with its modules, mkfs.ext4"]
fn vm_pages_that_reads_find_in_the_cache_are_told_from_those_that_are_missing() {
    let _alone = alone();
    if !ready() || !has(&[Need::Tool("modprobe"), Need::Tool("mkfs.ext4")]) {
        return;
    }
    let mount = DiskMount::new("1000");
    pages_in_the_cache_and_missing_ones_are_counted(Path::new(DiskMount::PLACE));
    drop(mount);
}
