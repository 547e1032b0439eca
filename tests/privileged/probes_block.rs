//! Probes of block requests, against /proc/diskstats, a disk whose latency is known, and fio's own figures. On the host the
//! disk is a loop device over a file; on a kernel of the matrix it is null_blk with a set completion time.

use std::io::{BufRead as _, BufReader, Read as _};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use serde_json::Value;

use crate::support::{Need, alone, has, rdiag};

/// A probe that is attached, until it is told to end.
pub(super) struct Running(Child);

impl Running {
    pub(super) fn start(args: &[&str]) -> Self {
        let binary = std::env::var_os("RDIAG_BINARY")
            .map_or_else(|| assert_cmd::cargo::cargo_bin!("rdiag").to_path_buf(), PathBuf::from);
        let mut command = Command::new(binary);
        command.args(["probe", "--format", "json"]).args(args).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut said = String::new();
        let mut stderr = BufReader::new(child.stderr.take().unwrap());
        while !said.contains("measuring") {
            assert!(stderr.read_line(&mut said).unwrap() > 0, "the probe did not start: {said}");
        }
        std::thread::spawn(move || stderr.read_to_string(&mut said));
        Self(child)
    }

    /// Ends it as Ctrl-C does; all readings.
    pub(super) fn stop(mut self) -> Vec<Value> {
        let pid = rustix::process::Pid::from_raw(self.0.id().cast_signed()).unwrap();
        rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
        let mut text = String::new();
        self.0.stdout.take().unwrap().read_to_string(&mut text).unwrap();
        assert!(self.0.wait().unwrap().success());
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }
}

/// What a probe without a stream measures while something is done.
pub(super) fn measured(args: &[&str], work: impl FnOnce()) -> Value {
    let running = Running::start(args);
    work();
    running.stop().pop().unwrap()
}

pub(super) fn output<'r>(reading: &'r Value, id: &str) -> &'r Value {
    let outputs = reading["outputs"].as_array().unwrap();
    let inner = |output: &'r Value| output.as_object().unwrap().values().next().unwrap();
    outputs.iter().map(inner).find(|output| output["id"] == id).unwrap_or_else(|| panic!("no {id} in {reading:#}"))
}

/// The cells of a table or of events, row by row, by column id.
pub(super) fn rows(table: &Value) -> Vec<Value> {
    let columns: Vec<&str> = table["columns"].as_array().unwrap().iter().map(|c| c["id"].as_str().unwrap()).collect();
    let cells = |row: &Value| {
        let cells = row["cells"].as_array().unwrap();
        columns.iter().map(|id| (*id).to_owned()).zip(cells.iter().cloned()).collect()
    };
    table["rows"].as_array().unwrap().iter().map(cells).map(Value::Object).collect()
}

pub(super) fn number(row: &Value, column: &str) -> f64 {
    row[column].as_f64().unwrap_or_else(|| panic!("{column} is no number: {row:?}"))
}

pub(super) fn run(program: &str, args: &[&str]) -> String {
    let output = Command::new(program).args(args).output().unwrap_or_else(|error| panic!("{program}: {error}"));
    assert!(output.status.success(), "{program} {args:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// A disk that nobody else uses, and that goes away with the test.
pub(super) enum Disk {
    Loop { node: String, file: PathBuf },
    Null,
}

impl Disk {
    pub(super) fn looped() -> Self {
        Self::over(env!("CARGO_TARGET_TMPDIR"), &["--partscan", "--direct-io=on"])
    }

    /// The same where only /tmp can be written to, in memory. (The null_blk of 5.10 keeps nothing.)
    pub(super) fn in_memory() -> Self {
        run("modprobe", &["loop"]);
        Self::over("/tmp", &[])
    }

    fn over(folder: &str, options: &[&str]) -> Self {
        let file = PathBuf::from(folder).join(format!("rdiag-disk-{}", std::process::id()));
        run("dd", &["if=/dev/zero", &format!("of={}", file.display()), "bs=1M", "count=64", "conv=fsync"]);
        let path = file.display().to_string();
        let node = run("losetup", &[&["--find", "--show"], options, &[&path]].concat());
        Self::Loop { node: node.trim().to_owned(), file }
    }

    /// Every request takes this long.
    pub(super) fn null(milliseconds: u32) -> Self {
        let time = format!("completion_nsec={}", milliseconds * 1_000_000);
        run("modprobe", &["null_blk", "nr_devices=1", "gb=1", "irqmode=2", &time]);
        Self::Null
    }

    pub(super) fn node(&self) -> &str {
        match self {
            Self::Loop { node, .. } => node,
            Self::Null => "/dev/nullb0",
        }
    }

    pub(super) fn name(&self) -> &str {
        self.node().trim_start_matches("/dev/")
    }

    /// Direct reads or writes, one after the other.
    pub(super) fn transfer(&self, write: bool, size: &str, count: u32) {
        let count = format!("count={count}");
        let size = format!("bs={size}");
        let node = self.node();
        if write {
            run("dd", &["if=/dev/zero", &format!("of={node}"), &size, &count, "oflag=direct", "conv=notrunc"]);
        } else {
            run("dd", &[&format!("if={node}"), "of=/dev/null", &size, &count, "iflag=direct"]);
        }
    }

    /// The fields of its line in /proc/diskstats, the number of reads being the first.
    pub(super) fn statistics(&self) -> Vec<f64> {
        let text = std::fs::read_to_string("/proc/diskstats").unwrap();
        let line = text.lines().find(|line| line.split_whitespace().nth(2) == Some(self.name())).unwrap();
        line.split_whitespace().skip(3).map(|field| field.parse().unwrap()).collect()
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        match self {
            Self::Loop { node, file } => {
                let _ = Command::new("losetup").args(["--detach", node]).status();
                let _ = std::fs::remove_file(file);
            }
            Self::Null => {
                let _ = Command::new("modprobe").args(["--remove", "null_blk"]).status();
            }
        }
    }
}

const BTF: Need = Need::Path("/sys/kernel/btf/vmlinux");

pub(super) fn ready_here() -> bool {
    has(&[Need::Root, BTF, Need::Tool("losetup"), Need::Tool("dd"), Need::Path("/dev/loop-control")])
}

pub(super) fn ready_in_guest() -> bool {
    // The host, whose control groups are not those of a guest, has no such module.
    let guest = Need::Path("/sys/fs/cgroup/cgroup.controllers");
    has(&[Need::Root, BTF, guest, Need::Tool("modprobe"), Need::Tool("dd")])
}

/// I/Os and bytes of one of the groups of operations of /proc/diskstats.
fn group(reading: &Value, operations: &[&str]) -> (f64, f64) {
    let all = rows(output(reading, "totals"));
    let of_group = all.iter().filter(|row| operations.contains(&row["operation"].as_str().unwrap()));
    of_group.fold((0.0, 0.0), |sum, row| (sum.0 + number(row, "ios"), sum.1 + number(row, "bytes")))
}

/// Some virtual machines' kernels run no programs on the time of tasks that they protect, so an I/O that ends in an
/// interrupt of such a task is not seen, and a check of every I/O may need more than one try.
pub(super) fn within_three_tries(check: impl Fn()) {
    let holds = || std::panic::catch_unwind(std::panic::AssertUnwindSafe(&check)).is_ok();
    if !holds() && !holds() {
        check();
    }
}

fn every_io_and_byte_is_counted(disk: &Disk) {
    for queued in ["queued=false", "queued=true"] {
        let before = disk.statistics();
        let device = format!("device={}", disk.name());
        let reading = measured(&["biolatency", "--param", &device, "--param", queued], || {
            // Larger than one request may be, so that they are split; and more than one at a time.
            disk.transfer(true, "4M", 4);
            disk.transfer(false, "16k", 50);
            // Without O_DIRECT, with a flush at the end: a write of nothing and a flush in the eyes of the kernel.
            let to = format!("of={}", disk.node());
            run("dd", &["if=/dev/zero", &to, "bs=64k", "count=10", "conv=notrunc,fsync"]);
        });
        let after = disk.statistics();
        let change =
            |field: usize| after.get(field).zip(before.get(field)).map_or(0.0, |(after, before)| after - before);
        let kernel = [
            (change(0), change(2) * 512.0),
            (change(4), change(6) * 512.0),
            (change(11), change(13) * 512.0),
            (change(15), 0.0),
        ];
        let groups = [&["read"][..], &["write", "write zeroes"], &["discard"], &["flush"]];
        let counted = groups.map(|operations| group(&reading, operations));
        let ios = |groups: &[(f64, f64)]| groups.iter().map(|group| group.0).sum::<f64>();
        let told = reading.get("lost");
        let lost: f64 =
            told.and_then(Value::as_object).into_iter().flatten().filter_map(|(_, count)| count.as_f64()).sum();
        assert_eq!(ios(&counted) + lost, ios(&kernel), "what is not counted is told: {told:?}");
        assert_eq!(counted, kernel, "{queued}: reads, writes, discards, flushes, with bytes");
        assert_eq!(group(&reading, &["read"]), (50.0, 50.0 * 16384.0));
        if queued == "queued=true" {
            let all = output(&reading, "latency")["rows"].as_array().unwrap().first().unwrap();
            let milliseconds = change(3) + change(7) + change(14) + change(16);
            let sum = all["sum"].as_f64().unwrap() * 1e3;
            // The kernel rounds each of the four down.
            assert!((sum - milliseconds).abs() < 4.0 + 0.01 * sum, "{sum} ms, the kernel has {milliseconds} ms");
            assert_eq!(all["count"].as_f64().unwrap(), kernel.iter().map(|group| group.0).sum::<f64>());
        }
    }
}

#[test]
#[ignore = "needs: root, eBPF, a loop device"]
fn every_io_and_byte_of_a_disk_is_counted_and_the_time_in_queue_and_device_is_the_kernels() {
    let _alone = alone();
    if ready_here() {
        within_three_tries(|| every_io_and_byte_is_counted(&Disk::looped()));
    }
}

#[test]
#[ignore = "needs: root, eBPF, a kernel of the matrix with its modules"]
fn vm_every_io_and_byte_of_a_disk_is_counted_and_the_time_in_queue_and_device_is_the_kernels() {
    let _alone = alone();
    if ready_in_guest() {
        every_io_and_byte_is_counted(&Disk::null(2));
    }
}

#[test]
#[ignore = "needs: root, eBPF, fio, a kernel of the matrix with its modules"]
fn vm_fio_and_biolatency_agree_on_how_long_reads_take() {
    let _alone = alone();
    if !ready_in_guest() || !has(&[Need::Tool("fio")]) {
        return;
    }
    let disk = Disk::null(80);
    let mut told = String::new();
    let reading = measured(&["biolatency", "--param", "device=nullb0"], || {
        // One request at a time: fio's own work between two of them is not part of either figure.
        let job = ["--name=job", "--rw=randread", "--bs=4k", "--direct=1", "--ioengine=psync", "--number_ios=30"];
        let file = format!("--filename={}", disk.node());
        told = run("fio", &[&job[..], &[&file, "--size=64M", "--output-format=json"]].concat());
    });
    let fio: Value = serde_json::from_str(&told[told.find('{').unwrap()..]).unwrap();
    let latency = &fio["jobs"][0]["read"]["clat_ns"];
    let row = &output(&reading, "latency")["rows"][0];
    // fio opens the device and may read its size; what it counts are the requests of the job.
    assert_eq!(latency["N"], 30, "{latency:#}");
    assert!(row["count"].as_u64().unwrap() >= 30, "{row:#}");
    let mean = row["sum"].as_f64().unwrap() / row["count"].as_f64().unwrap();
    let fio = latency["mean"].as_f64().unwrap() / 1e9;
    println!("mean latency {mean:.5} s, fio says {fio:.5} s");
    assert!((mean / fio - 1.0).abs() < 0.05, "{mean} s, fio says {fio} s");
}

#[test]
#[ignore = "needs: root, eBPF, a kernel of the matrix with its modules"]
fn vm_the_latency_of_a_disk_whose_requests_take_100_ms_is_100_ms() {
    let _alone = alone();
    if !ready_in_guest() {
        return;
    }
    let disk = Disk::null(100);
    for queued in ["queued=false", "queued=true"] {
        let reading = measured(&["biolatency", "--param", queued, "--param", "flags=true"], || {
            disk.transfer(false, "4k", 12);
            disk.transfer(true, "4k", 8);
        });
        let all = output(&reading, "latency")["rows"].as_array().unwrap();
        let row = all.iter().find(|row| row["instance"] == "nullb0").unwrap();
        assert_eq!(row["count"], 20, "{row:#}");
        let mean = row["sum"].as_f64().unwrap() / 20.0;
        assert!((0.1..0.105).contains(&mean), "{mean} s with {queued}");
        let kinds = output(&reading, "kinds")["rows"].as_array().unwrap();
        let count = |kind: &str| {
            let of_kind = kinds.iter().filter(|row| row["instance"].as_str().unwrap().starts_with(kind));
            of_kind.map(|row| row["count"].as_u64().unwrap()).sum::<u64>()
        };
        // Whether direct reads are marked as awaited depends on the kernel; writes are.
        assert_eq!((count("nullb0 read"), count("nullb0 write sync")), (12, 8), "{kinds:#?}");
    }
    let reading = measured(&["biolatpcts"], || disk.transfer(false, "4k", 10));
    let all = rows(output(&reading, "percentiles"));
    let row = all.iter().find(|row| row["device"] == "nullb0" && row["operation"] == "read").unwrap();
    // Emulated CPUs are late now and then; the bounds of buckets are 12.5 % apart.
    for (column, most) in [("p1", 0.113), ("p50", 0.113), ("mean", 0.115), ("p99.9", 0.2), ("max", 0.2)] {
        assert!((0.1..most).contains(&number(row, column)), "{row:?}");
    }
}

#[test]
#[ignore = "needs: root, eBPF, a loop device"]
fn only_the_device_or_partition_that_is_asked_for_is_measured() {
    let _alone = alone();
    if !ready_here() {
        return;
    }
    within_three_tries(only_what_is_asked_for_is_measured);
}

fn only_what_is_asked_for_is_measured() {
    let one = Disk::looped();
    run("addpart", &[one.node(), "1", "2048", "4096"]);
    run("addpart", &[one.node(), "2", "8192", "4096"]);
    let reads = |partition: &str| {
        let device = format!("device={}{partition}", one.name());
        let reading = measured(&["biolatency", "--param", &device], || {
            let node = one.node();
            for (part, count) in [("p1", "3"), ("p2", "5")] {
                let (from, count) = (format!("if={node}{part}"), format!("count={count}"));
                run("dd", &[&from, "of=/dev/null", "bs=4k", &count, "iflag=direct"]);
            }
        });
        group(&reading, &["read"]).0
    };
    let found = (reads("p1"), reads("p2"), reads(""));
    run("delpart", &[one.node(), "1"]);
    run("delpart", &[one.node(), "2"]);
    assert_eq!(found, (3.0, 5.0, 8.0));
}

#[test]
#[ignore = "needs: root, eBPF"]
fn a_device_that_does_not_exist_is_refused_with_those_that_do() {
    let _alone = alone();
    if !has(&[Need::Root, BTF]) {
        return;
    }
    for probe in ["biolatency", "biolatpcts", "biosnoop", "biotop"] {
        let output = rdiag().args(["probe", probe, "--duration", "1s", "--param", "device=../vdz"]).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(3), "{said}");
        assert!(said.contains("there is no block device") && said.contains("there are "), "{said}");
    }
}
