//! What the kernel keeps of files: names that are looked up in the cache of directory entries, pages that are read ahead.
#![expect(clippy::indexing_slicing, reason = "a test may panic, in its helpers too")]

use std::path::Path;

use super::probes_files::DiskMount;
use super::probing::{Script, ready, rows, watched};
use crate::support::{Need, alone, has, rdiag, skip};

/// A hundred names that are not there, three times, and one that is, and a new folder; whoever looks is where they are. What was
/// there before is in the cache.
const NAMES: &str = "
os.chdir(path)
open('here', 'w').close()
done(); go()
def absent(name):
    try: os.stat(name)
    except FileNotFoundError: return
    raise SystemExit(name)
for turn in range(3):
    for i in range(100): absent(f'gone-{i}')
for i in range(50): os.stat('here')
os.mkdir('folder')
";

fn names_that_are_not_in_the_cache_are_told(folder: &str, file_system: &str) {
    let mut script = Script::start(&format!("path = {folder:?}\n{NAMES}"));
    script.work();
    let (readings, _) = watched(&mut script, &["dcsnoop", "--param", "known=true"]);
    let events = rows(&readings, "events", "lookups");
    let of = |name: &str, result: &str| {
        events.iter().filter(|row| row["file"].as_str().unwrap().ends_with(name) && row["result"] == result).count()
    };
    for name in ["/gone-0", "/gone-99"] {
        assert_eq!((of(name, "no such file"), of(name, "known to be absent")), (1, 2), "{events:#?}");
    }
    assert_eq!((of("/folder", "no such file"), of("/here", "found")), (1, 0), "{events:#?}");
    let asked: Vec<_> = events.iter().filter(|row| row["result"] == "no such file").collect();
    assert_eq!(asked.len(), 101, "{asked:#?}");
    assert!(asked.iter().all(|row| row["type"] == file_system && row["took"].as_f64().unwrap() > 0.0), "{asked:#?}");
    let processes = rows(&readings, "table", "processes");
    let [row] = &processes[..] else { panic!("{processes:#?}") };
    let numbers = ["known", "found", "absent"].map(|column| row[column].as_f64().unwrap());
    assert_eq!(numbers, [200.0, 0.0, 101.0], "{row:#?}");
    // What the interpreter looks up besides is nothing, but a path may be begun anew.
    let lookups = row["lookups"].as_f64().unwrap();
    assert!((350.0..=360.0).contains(&lookups), "{row:#?}");
}

#[test]
#[ignore = "needs: root, a kernel of the matrix with its modules, mkfs.ext4"]
fn vm_names_that_are_not_in_the_cache_of_directory_entries_are_told_with_the_answer_of_the_file_system() {
    let _alone = alone();
    if !ready() || !has(&[Need::Tool("modprobe"), Need::Tool("mkfs.ext4")]) {
        return;
    }
    let mount = DiskMount::new("1000");
    names_that_are_not_in_the_cache_are_told(DiskMount::PLACE, "ext4");
    drop(mount);
}

#[test]
#[ignore = "needs: root, eBPF, python3; a kernel without kprobes"]
fn lookups_of_names_cannot_be_seen_where_functions_cannot_be_hooked_and_the_refusal_says_what_can() {
    let _alone = alone();
    if !ready() {
        return;
    }
    if Path::new("/sys/bus/event_source/devices/kprobe/type").exists() {
        return skip("this kernel lets functions be hooked");
    }
    let output = rdiag().args(["probe", "dcsnoop", "--duration", "1s"]).output().unwrap();
    let told = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(3), "{told}");
    assert!(told.contains("fentry") && told.contains("opensnoop --param failed=true"), "{told}");
}

/// A hundred pages are read ahead by order, few at a time since a disk may have a limit, 42 are read, the others are dropped; 30 more are read ahead and stay. Reading at random
/// reads nothing ahead by itself.
const AHEAD: &str = "
fd = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
os.write(fd, b'x' * (4 << 20))
os.fsync(fd)
os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_RANDOM)
os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
done(); go()
def ahead(first, pages):
    for i in range(first, first + pages, 10): os.posix_fadvise(fd, i * 4096, 10 * 4096, os.POSIX_FADV_WILLNEED)
ahead(0, 100)
for i in range(60, 100): os.pread(fd, 4096, i * 4096)
os.pread(fd, 4096, 0), os.pread(fd, 4096, 3 * 4096)
os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
ahead(256, 30)
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
