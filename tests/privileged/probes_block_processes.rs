//! Probes of block requests by whoever wants them: processes, files, and devices that hand on to others.

use std::path::PathBuf;
use std::process::{Command, Stdio};

use serde_json::Value;

use super::probes_block::{
    Disk, Running, measured, number, output, ready_here, ready_in_guest, rows, run, within_three_tries,
};
use crate::support::{Need, alone, has, rdiag};

/// Reads with a process of its own; its id.
fn read_as_somebody(disk: &Disk, count: u32) -> u32 {
    let (from, count) = (format!("if={}", disk.node()), format!("count={count}"));
    let arguments = [&from, "of=/dev/null", "bs=16k", &count, "iflag=direct"];
    let mut child = Command::new("dd").args(arguments).stderr(Stdio::null()).spawn().unwrap();
    assert!(child.wait().unwrap().success());
    child.id()
}

fn every_io_is_put_down_to_its_process(disk: &Disk, latency: std::ops::Range<f64>) {
    let device = format!("device={}", disk.name());
    let mut pid = 0;
    let before = disk.statistics();
    let reading = measured(&["biotop", "--param", &device], || {
        pid = read_as_somebody(disk, 10);
        disk.transfer(true, "4M", 2);
    });
    let after = disk.statistics();
    let all = rows(output(&reading, "processes"));
    let row =
        all.iter().find(|row| row["pid"].as_str() == Some(&pid.to_string())).unwrap_or_else(|| panic!("{all:#?}"));
    assert_eq!((&row["name"], &row["device"]), (&Value::from("dd"), &Value::from(disk.name())));
    assert_eq!((number(row, "ios"), number(row, "bytes"), number(row, "written")), (10.0, 163_840.0, 0.0));
    assert!(latency.contains(&number(row, "mean")), "{row:#}");
    let sum = |column: &str| all.iter().map(|row| number(row, column)).sum::<f64>();
    let change = |field: usize| after.get(field).zip(before.get(field)).map_or(0.0, |(after, before)| after - before);
    assert_eq!(sum("ios"), change(0) + change(4) + change(15), "{all:#?}");
    assert_eq!((sum("bytes"), sum("written")), ((change(2) + change(6)) * 512.0, change(6) * 512.0));

    let readings = {
        let running = Running::start(&["biosnoop", "--param", &device, "--comm", "dd"]);
        pid = read_as_somebody(disk, 10);
        running.stop()
    };
    let ios: Vec<Value> = readings.iter().flat_map(|reading| rows(output(reading, "ios"))).collect();
    let sectors: Vec<&str> = ios.iter().map(|io| io["sector"].as_str().unwrap()).collect();
    let expected: Vec<String> = (0..10).map(|at| (at * 32).to_string()).collect();
    assert_eq!(sectors, expected, "{ios:#?}");
    for io in &ios {
        assert_eq!(io["pid"], Value::from(pid.to_string()), "{io:#}");
        // Whether direct reads are marked as awaited depends on the kernel.
        assert!(io["operation"].as_str().unwrap().starts_with("read"), "{io:#}");
        assert!(number(io, "bytes") == 16384.0 && latency.contains(&number(io, "latency")), "{io:#}");
        assert!(number(io, "queued") >= 0.0);
    }
    let other = {
        let running = Running::start(&["biosnoop", "--param", &device, "--comm", "nobody"]);
        read_as_somebody(disk, 5);
        running.stop()
    };
    assert!(other.iter().all(|reading| rows(output(reading, "ios")).is_empty()), "{other:#?}");
}

#[test]
#[ignore = "needs: root, eBPF, a loop device"]
fn every_io_is_put_down_to_the_process_that_wants_it() {
    let _alone = alone();
    if ready_here() {
        within_three_tries(|| every_io_is_put_down_to_its_process(&Disk::looped(), 1e-6..1.0));
    }
}

#[test]
#[ignore = "needs: root, eBPF, a kernel of the matrix with its modules"]
fn vm_every_io_is_put_down_to_the_process_that_wants_it_with_the_latency_of_the_disk() {
    let _alone = alone();
    if ready_in_guest() {
        // How exact the latency is, biolatency's test says: a single I/O of an emulated CPU may be late.
        every_io_is_put_down_to_its_process(&Disk::null(100), 0.1..0.15);
    }
}

#[test]
#[ignore = "needs: root, eBPF, a kernel of the matrix with its modules, dmsetup"]
fn vm_what_a_mapped_device_hands_on_counts_once_on_the_disk_below_it() {
    let _alone = alone();
    if !ready_in_guest() || !has(&[Need::Tool("dmsetup")]) {
        return;
    }
    run("modprobe", &["dm-mod"]);
    let disk = Disk::null(1);
    let place = format!("0 2048 linear {} 0", disk.node());
    run("dmsetup", &["create", "rdiag", "--noudevsync", "--noudevrules", "--table", &place]);
    let refused = rdiag().args(["probe", "biotop", "--duration", "1s", "--param", "device=dm-0"]).output().unwrap();
    let reading = measured(&["biotop"], || {
        run("dd", &["if=/dev/dm-0", "of=/dev/null", "bs=16k", "count=10", "iflag=direct"]);
    });
    run("dmsetup", &["remove", "--noudevsync", "rdiag"]);
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(refused.status.code() == Some(3) && said.contains("hands on to nullb0"), "{said}");
    let all = rows(output(&reading, "processes"));
    let own: Vec<&Value> = all.iter().filter(|row| row["name"] == "dd").collect();
    assert_eq!(own.len(), 1, "{all:#?}");
    assert_eq!((&own[0]["device"], number(own[0], "ios")), (&Value::from("nullb0"), 10.0), "{all:#?}");
}

/// A file system on a disk, mounted.
struct Mounted<'d>(&'d Disk, PathBuf);

impl<'d> Mounted<'d> {
    fn new(disk: &'d Disk, at: &std::path::Path) -> Self {
        // What the oldest kernels of the matrix know.
        run("mkfs.ext2", &["-q", "-F", disk.node()]);
        run("mount", &["-t", "ext4", disk.node(), at.to_str().unwrap()]);
        Self(disk, at.to_owned())
    }

    fn file(&self, name: &str) -> String {
        self.1.join(name).display().to_string()
    }
}

impl Drop for Mounted<'_> {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(&self.1).status();
    }
}

fn files_have_the_io_of_their_data(disk: &Disk) {
    let folder = tempfile::tempdir().unwrap();
    let mounted = Mounted::new(disk, folder.path());
    let file = mounted.file("orders.db");
    run("dd", &["if=/dev/zero", &format!("of={file}"), "bs=1M", "count=5", "conv=fsync"]);
    let device = format!("device={}", mounted.0.name());
    let reading = measured(&["biotop", "--param", &device], || {
        run("dd", &["if=/dev/zero", &format!("of={}", mounted.file("invoices.db")), "bs=1M", "count=3", "conv=fsync"]);
        // Nothing of it is in memory any more, so it is read from the disk.
        run("dd", &[&format!("if={file}"), "iflag=nocache", "count=0"]);
        run("cat", &[&file]);
        // Past the page cache, and larger than one request may be.
        run("dd", &[&format!("if={file}"), "of=/dev/null", "bs=5M", "iflag=direct"]);
        // The device, not a file, and what is in no page of a file.
        run("dd", &[&format!("if={}", mounted.0.node()), "of=/dev/null", "bs=1M", "count=2", "iflag=direct"]);
    });
    let files = rows(output(&reading, "files"));
    let of_file = |name: &str, by: &str| -> (f64, f64) {
        let own = files.iter().filter(|row| row["file"] == name && (by.is_empty() || row["name"] == by));
        own.fold((0.0, 0.0), |sum, row| (sum.0 + number(row, "bytes"), sum.1 + number(row, "written")))
    };
    let mib = f64::from(1 << 20);
    assert_eq!(of_file("invoices.db", ""), (3.0 * mib, 3.0 * mib), "{files:#?}");
    assert_eq!(of_file("orders.db", "cat"), (5.0 * mib, 0.0), "{files:#?}");
    assert_eq!(of_file("orders.db", ""), (10.0 * mib, 0.0), "past the page cache too: {files:#?}");
    assert!(files.iter().all(|row| row["device"] == mounted.0.name()), "{files:#?}");
    let processes = rows(output(&reading, "processes"));
    assert!(processes.iter().any(|row| row["name"] == "cat" && row["file"] == "orders.db"), "{processes:#?}");
    let all: f64 = processes.iter().map(|row| number(row, "bytes")).sum();
    let known: f64 = files.iter().map(|row| number(row, "bytes")).sum();
    // The rest is of no file: reads of the device itself, and what the file system clears.
    assert!(all - known >= 2.0 * mib, "{files:#?}");
    assert!(reading.get("notes").unwrap().to_string().contains("are known to be of a file"), "{reading:#}");
}

#[test]
#[ignore = "needs: root, eBPF, a loop device, mkfs.ext2"]
fn files_have_the_io_of_their_data_here() {
    let _alone = alone();
    if ready_here() && has(&[Need::Tool("mkfs.ext2")]) {
        within_three_tries(|| files_have_the_io_of_their_data(&Disk::looped()));
    }
}

#[test]
#[ignore = "needs: root, eBPF, a kernel of the matrix with its modules, mkfs.ext2"]
fn vm_files_have_the_io_of_their_data() {
    let _alone = alone();
    if ready_in_guest() && has(&[Need::Tool("mkfs.ext2")]) {
        files_have_the_io_of_their_data(&Disk::in_memory());
    }
}
