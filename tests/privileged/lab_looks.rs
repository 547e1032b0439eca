//! Looking at the exercises changes nothing on the host, and a load holds nothing of whoever started rdiag.

use std::fs::File;
use std::io::Read as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::inotify;

use crate::support::{Need, alone, beside_others, has, rdiag, wait_until};

/// A file of /proc that tells by poll(2) when it changes: what it held before and when it had changed.
fn watched(file: &str, stop: &AtomicBool) -> Vec<String> {
    let mut open = File::open(file).unwrap();
    let mut text = String::new();
    open.read_to_string(&mut text).unwrap();
    let mut seen = Vec::new();
    while !stop.load(Ordering::Relaxed) {
        let mut polled = [PollFd::new(&open, PollFlags::PRI)];
        let soon = Timespec { tv_sec: 0, tv_nsec: 50_000_000 };
        let changed = poll(&mut polled, Some(&soon)).unwrap_or(0) > 0
            && polled[0].revents().intersects(PollFlags::PRI | PollFlags::ERR);
        if changed {
            seen.push(format!("{file} changed: {}", std::fs::read_to_string(file).unwrap_or_default()));
        }
    }
    seen
}

/// The topmost groups of all hierarchies of control groups.
fn hierarchies() -> Vec<PathBuf> {
    let text = std::fs::read_to_string("/proc/self/mounts").unwrap();
    let groups = text.lines().filter_map(|line| {
        let mut words = line.split(' ');
        let (_, place, kind) = (words.next()?, words.next()?, words.next()?);
        kind.starts_with("cgroup").then(|| PathBuf::from(place))
    });
    groups.collect()
}

/// Names that were created in some folders while `work` was done.
fn created_while(folders: &[PathBuf], work: impl FnOnce()) -> Vec<String> {
    let watch = inotify::init(inotify::CreateFlags::NONBLOCK | inotify::CreateFlags::CLOEXEC).unwrap();
    for folder in folders {
        inotify::add_watch(&watch, folder, inotify::WatchFlags::CREATE | inotify::WatchFlags::MOVED_TO).unwrap();
    }
    work();
    let mut room = [std::mem::MaybeUninit::uninit(); 1 << 16];
    let mut events = inotify::Reader::new(&watch, &mut room);
    let mut names = Vec::new();
    while let Ok(event) = events.next() {
        names.extend(event.file_name().map(|name| name.to_string_lossy().into_owned()));
    }
    names
}

#[test]
#[ignore = "needs: root"]
fn to_list_the_exercises_mounts_nothing_swaps_nowhere_and_makes_no_control_group() {
    let _alone = alone();
    if !has(&[Need::Root]) {
        return;
    }
    // On a disk, where swap space could be.
    let state = tempfile::tempdir_in("/var/tmp").unwrap();
    let lab = state.path().join("rdiag/lab");
    rdiag().env("XDG_STATE_HOME", state.path()).args(["lab", "progress"]).output().unwrap();
    let folders = [&hierarchies()[..], &[lab]].concat();
    let stop = AtomicBool::new(false);
    let (changes, created) = std::thread::scope(|scope| {
        let watchers = ["/proc/self/mounts", "/proc/swaps"].map(|file| scope.spawn(|| watched(file, &stop)));
        std::thread::sleep(Duration::from_millis(100));
        let created = created_while(&folders, || {
            let output = rdiag().env("XDG_STATE_HOME", state.path()).args(["lab", "list"]).output().unwrap();
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        });
        stop.store(true, Ordering::Relaxed);
        (watchers.map(|watcher| watcher.join().unwrap()).concat(), created)
    });
    assert!(changes.is_empty(), "{}", changes.join("\n"));
    // That it may write to its own folder, it proves with a file that it removes at once.
    let own = |name: &&String| name.starts_with("rdiag-") || name.starts_with("try-");
    let tried: Vec<_> = created.iter().filter(own).collect();
    assert!(tried.is_empty(), "{tried:?}");
}

/// What the open files of a process are.
fn open_files(pid: u32) -> Vec<(String, PathBuf)> {
    let entries = std::fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
    let one = |entry: std::fs::DirEntry| {
        Some((entry.file_name().to_string_lossy().into_owned(), std::fs::read_link(entry.path()).ok()?))
    };
    entries.filter_map(one).collect()
}

#[test]
#[ignore = "needs: root"]
fn a_load_holds_no_file_of_whoever_called_rdiag() {
    let _beside = beside_others();
    // It waits for its order meanwhile.
    for role in ["--serve", "lab-keeper"] {
        let built = assert_cmd::cargo::cargo_bin!("rdiag").to_path_buf();
        let binary = std::env::var_os("RDIAG_BINARY").map_or(built, PathBuf::from);
        let (reader, writer) = std::io::pipe().unwrap();
        let mut command = std::process::Command::new("bash");
        // A shell has it open as 7, and what it becomes inherits it.
        command.args(["-c", "exec 7</etc/passwd; exec \"$0\" \"$1\""]).arg(&binary).arg(role);
        command.stdin(reader).stdout(Stdio::null()).stderr(Stdio::null()).process_group(0);
        let mut child = command.spawn().unwrap();
        let name = || std::fs::read_to_string(format!("/proc/{}/cmdline", child.id())).unwrap_or_default();
        assert!(wait_until(10, || name().contains(role)));
        let is_clean = wait_until(5, || open_files(child.id()).len() == 3);
        let left = open_files(child.id());
        drop(writer);
        let _ = child.kill();
        let _ = child.wait();
        assert!(is_clean, "{role}: {left:?}");
        assert!(left.iter().all(|(_, file)| file != Path::new("/etc/passwd")), "{role}: {left:?}");
    }
}
