//! What the kernel keeps of files: pages that are read ahead.

use std::path::Path;

use super::probes_files::DiskMount;
use super::probing::{Script, ready, rows, watched};
use crate::support::{Need, alone, has};

/// A hundred pages are read ahead by order, 40 are read, the others are dropped; 30 more are read ahead and stay. Reading at random
/// reads nothing ahead by itself.
const AHEAD: &str = "
fd = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
os.write(fd, b'x' * (4 << 20))
os.fsync(fd)
os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_RANDOM)
os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
done(); go()
os.posix_fadvise(fd, 0, 100 * 4096, os.POSIX_FADV_WILLNEED)
for i in range(60, 100): os.pread(fd, 4096, i * 4096)
os.pread(fd, 4096, 0), os.pread(fd, 4096, 3 * 4096)
os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
os.posix_fadvise(fd, 1 << 20, 30 * 4096, os.POSIX_FADV_WILLNEED)
";

fn pages_that_are_read_ahead_and_not_used_are_counted(folder: &Path) {
    let file = folder.join("rdiag-ahead");
    let mut script = Script::start(&format!("path = {file:?}\n{AHEAD}"));
    script.work();
    let (readings, _) = watched(&mut script, &["readahead"]);
    std::fs::remove_file(file).unwrap();
    let all = rows(&readings, "table", "processes");
    let [row] = &all[..] else { panic!("one row: {all:#?}") };
    let numbers = ["ahead", "used", "dropped", "unused"].map(|column| row[column].as_f64().unwrap());
    assert_eq!(numbers, [130.0, 42.0, 58.0, 30.0], "{row:#?}");
    assert!((row["vain"].as_f64().unwrap() - 0.58).abs() < 1e-9, "{row:#?}");
    let outputs = readings.iter().flat_map(|reading| reading["outputs"].as_array().unwrap());
    let ages: Vec<_> = outputs.filter_map(|output| output.get("histogram")).collect();
    assert_eq!(ages[0]["rows"][0]["count"], 42, "{ages:#?}");
}

#[test]
#[ignore = "needs: root, eBPF, python3, a disk below the target folder"]
fn pages_that_are_read_ahead_in_vain_are_told_from_those_that_are_used() {
    let _alone = alone();
    if ready() {
        pages_that_are_read_ahead_and_not_used_are_counted(Path::new(env!("CARGO_TARGET_TMPDIR")));
    }
}

#[test]
#[ignore = "needs: root, a kernel of the matrix with its modules, mkfs.ext4"]
fn vm_pages_that_are_read_ahead_in_vain_are_told_from_those_that_are_used() {
    let _alone = alone();
    if !ready() || !has(&[Need::Tool("modprobe"), Need::Tool("mkfs.ext4")]) {
        return;
    }
    let mount = DiskMount::new("1000");
    pages_that_are_read_ahead_and_not_used_are_counted(Path::new(DiskMount::PLACE));
    drop(mount);
}
