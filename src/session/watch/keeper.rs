//! The files of the recorder, on a thread of its own: `tail` for the block in the making, and one file for each block, named by its number and
//! the second it begins. The oldest go when the folder is full.

use std::fs::File;
use std::io::{self, Write as _};
use std::path::Path;
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use super::thin::thin;
use crate::history::{MAX_FILE, header_of, read_tail, write_block};
use rdiag_kernel::host::files::Folder;
use rdiag_model::quantity;

/// Name of the tail.
pub const TAIL: &str = "tail";
const ENDING: &str = ".rdh";
/// A header is shorter packed.
const HEADER: u64 = 64 << 10;
/// Samples that wait for the disk; when there are more, the disk is what is ill, and they are left out.
const WAITING: usize = 64;
/// Part of the free space that the folder may take.
const FREE_SHARE: u64 = 100;

/// The second since 1970 at which a block begins, by its name; none if it is no block.
#[must_use]
pub fn begins(name: &str) -> Option<i64> {
    name.strip_suffix(ENDING)?.split_once('-')?.1.parse().ok()
}

/// The number of a block, by its name.
fn number(name: &str) -> Option<u64> {
    begins(name)?;
    name.split_once('-')?.0.parse().ok()
}

enum Job {
    Begin(Vec<u8>),
    Append(Vec<u8>),
    Block(i64, Vec<u8>),
}

/// The way to the thread.
pub(super) struct Keeper {
    jobs: Option<SyncSender<Job>>,
    thread: Option<JoinHandle<()>>,
    said: Arc<Mutex<Vec<String>>>,
    left_out: u64,
}

impl Keeper {
    pub(super) fn start(folder: Folder, keep: u64) -> io::Result<Self> {
        let (jobs, to_do) = sync_channel(WAITING);
        let said = Arc::new(Mutex::new(Vec::new()));
        let mut files = Files { folder, keep, tail: None, room: 0, said: Arc::clone(&said), last: String::new() };
        let thread = std::thread::Builder::new().name("rdiag-keep".into()).spawn(move || files.work(&to_do))?;
        Ok(Self { jobs: Some(jobs), thread: Some(thread), said, left_out: 0 })
    }

    /// Begins a new tail.
    pub(super) fn begin(&mut self, bytes: Vec<u8>) {
        self.send(Job::Begin(bytes));
    }

    /// Adds a sample to it.
    pub(super) fn append(&mut self, bytes: Vec<u8>) {
        self.send(Job::Append(bytes));
    }

    /// Keeps a block, which makes the tail superfluous.
    pub(super) fn block(&mut self, wall_micros: i64, bytes: Vec<u8>) {
        self.send(Job::Block(wall_micros.div_euclid(1_000_000), bytes));
    }

    fn send(&mut self, job: Job) {
        let Some(jobs) = &self.jobs else { return };
        match jobs.try_send(job) {
            Ok(()) if self.left_out > 0 => {
                let told = format!("the disk answers again; {} samples or blocks were not written", self.left_out);
                self.said.lock().unwrap_or_else(PoisonError::into_inner).push(told);
                self.left_out = 0;
            }
            Ok(()) => {}
            Err(TrySendError::Full(_) | TrySendError::Disconnected(_)) => self.left_out += 1,
        }
    }

    /// What went wrong since it was asked last.
    pub(super) fn problems(&self) -> Vec<String> {
        std::mem::take(&mut *self.said.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Waits until all is written.
    pub(super) fn end(mut self) -> Vec<String> {
        drop(self.jobs.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
        self.problems()
    }
}

struct Files {
    folder: Folder,
    keep: u64,
    tail: Option<File>,
    /// Bytes that the tail may still take.
    room: u64,
    said: Arc<Mutex<Vec<String>>>,
    /// What was said last: the same is not said again until something went well.
    last: String,
}

impl Files {
    fn work(&mut self, jobs: &Receiver<Job>) {
        let recovered = self.recover();
        self.tell("keeping what an earlier recorder left", recovered);
        while let Ok(job) = jobs.recv() {
            match job {
                Job::Begin(bytes) => {
                    let begun = self.begin(&bytes);
                    self.tell("beginning the tail", begun);
                }
                Job::Append(bytes) => {
                    let appended = self.append(&bytes);
                    self.tell("writing a sample", appended);
                }
                Job::Block(second, bytes) => {
                    let kept = self.block(second, &bytes);
                    self.tell("writing a block", kept);
                }
            }
        }
    }

    /// Says what went wrong, once.
    fn tell(&mut self, attempt: &str, outcome: io::Result<()>) {
        let Err(error) = outcome else { return };
        let told = format!("{attempt}: {error}");
        if told != self.last {
            self.said.lock().unwrap_or_else(PoisonError::into_inner).push(told.clone());
            self.last = told;
        }
    }

    /// What the folder may take, and what its files take now.
    fn limit(&self) -> io::Result<(u64, u64)> {
        let own: u64 = self.folder.list()?.iter().map(|file| file.bytes).sum();
        Ok((self.keep.min(self.folder.free()?.saturating_add(own) / FREE_SHARE), own))
    }

    fn begin(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.tail = None;
        self.tail = Some(self.folder.begin(TAIL)?);
        let (limit, own) = self.limit()?;
        // Blocks make room for it; it may take a tenth at least.
        self.room = limit.saturating_sub(own).max(limit / 10);
        self.append(bytes)
    }

    fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        let Some(mut file) = self.tail.take() else { return Ok(()) };
        let left = self.room.checked_sub(bytes.len() as u64);
        self.room = left.ok_or_else(|| {
            io::Error::other("the folder is full: it may take 1 % of the free space, and what --keep says")
        })?;
        let written = file.write_all(bytes);
        self.tail = Some(file);
        written
    }

    /// Removes the oldest blocks until one of this size fits, and writes it.
    fn block(&mut self, second: i64, bytes: &[u8]) -> io::Result<()> {
        // The tail goes as soon as the block is there.
        let tail = self.folder.list()?.iter().find(|file| file.name == TAIL).map_or(0, |file| file.bytes);
        let (limit, own) = self.limit()?;
        let size = bytes.len() as u64;
        if size > limit {
            return Err(io::Error::other(format!(
                "it has {}, and the folder may take {}: 1 % of the free space, and what --keep says",
                quantity::bytes(size as f64),
                quantity::bytes(limit as f64)
            )));
        }
        let blocks: Vec<_> = self.folder.list()?.into_iter().filter(|file| begins(&file.name).is_some()).collect();
        let mut taken = own.saturating_sub(tail);
        for oldest in &blocks {
            if taken + size <= limit {
                break;
            }
            self.folder.remove(&oldest.name)?;
            taken = taken.saturating_sub(oldest.bytes);
        }
        let next = blocks.iter().filter_map(|file| number(&file.name)).max().map_or(1, |last| last.saturating_add(1));
        self.folder.write(Path::new(&format!("{next:010}-{second}{ENDING}")), |out| out.write_all(bytes))?;
        self.tail = None;
        self.folder.remove(TAIL)?;
        self.last.clear();
        Ok(())
    }

    /// Makes a block of the tail of a recorder that was killed.
    fn recover(&mut self) -> io::Result<()> {
        let files = self.folder.list()?;
        if files.iter().all(|file| file.name != TAIL) {
            return Ok(());
        }
        let bytes = self.folder.read(TAIL, MAX_FILE)?;
        let (mut block, damage) = match read_tail(&bytes) {
            Ok(read) => read,
            Err(why) => {
                self.folder.remove(TAIL)?;
                return Err(io::Error::other(format!("the tail is lost: {why}")));
            }
        };
        let newest = files.iter().rev().find(|file| begins(&file.name).is_some());
        let same = |name: &str| {
            let header = header_of(&self.folder.read_start(name, HEADER).unwrap_or_default());
            header.is_ok_and(|header| header.boot == block.header.boot && header.monotonic == block.header.monotonic)
        };
        // It was killed between writing the block and removing the tail.
        if newest.is_some_and(|file| same(&file.name)) || block.collectors.is_empty() {
            return self.folder.remove(TAIL);
        }
        thin(&mut block);
        self.block(block.header.wall_micros.div_euclid(1_000_000), &write_block(&block))?;
        if damage.is_empty() { Ok(()) } else { Err(io::Error::other(damage.join("; "))) }
    }
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "the test's own files")]
mod tests {
    use super::*;

    fn files(place: &Path, keep: u64) -> Files {
        let folder = Folder::keeping(place).unwrap();
        Files { folder, keep, tail: None, room: 0, said: Arc::default(), last: String::new() }
    }

    fn names(place: &Path) -> Vec<String> {
        let mut names: Vec<String> =
            std::fs::read_dir(place).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    #[test]
    fn the_oldest_blocks_go_before_a_new_one_is_written() {
        let place = tempfile::tempdir().unwrap();
        let mut files = files(place.path(), 1000);
        for second in 0..7 {
            files.begin(b"head").unwrap();
            files.append(b"sample").unwrap();
            files.block(1000 + second, &[7; 300]).unwrap();
            let total: u64 = files.folder.list().unwrap().iter().map(|file| file.bytes).sum();
            assert!(total <= 1000, "{total}");
        }
        assert_eq!(names(place.path()), ["0000000005-1004.rdh", "0000000006-1005.rdh", "0000000007-1006.rdh"]);
        let refused = files.block(2000, &[0; 1001]).unwrap_err().to_string();
        assert!(refused.contains("the folder may take 1000 B"), "{refused}");
        assert_eq!(names(place.path()).len(), 3, "nothing is removed for what does not fit");
    }

    #[test]
    fn names_tell_when_a_block_begins() {
        assert_eq!(begins("0000000005-1004.rdh"), Some(1004));
        assert_eq!(begins("0000000005--7.rdh"), Some(-7));
        for other in ["tail", "lock", "x.rdh", "5-x.rdh", "5-7", ""] {
            assert_eq!(begins(other), None, "{other}");
        }
    }

    #[test]
    fn a_tail_that_takes_more_than_its_room_ends_and_says_so_once() {
        let place = tempfile::tempdir().unwrap();
        let mut files = files(place.path(), 100);
        files.begin(&[1; 60]).unwrap();
        assert!(files.append(&[1; 60]).unwrap_err().to_string().contains("1 % of the free space"));
        assert!(files.append(&[1; 60]).is_ok(), "it is said once");
        assert_eq!(files.folder.read(TAIL, 1000).unwrap().len(), 60);
    }

    #[test]
    fn what_an_earlier_recorder_left_becomes_a_block_or_is_named() {
        let place = tempfile::tempdir().unwrap();
        let mut files = files(place.path(), 1 << 20);
        std::fs::write(place.path().join(TAIL), "no tail").unwrap();
        assert!(files.recover().unwrap_err().to_string().contains("the tail is lost: it has no header"));
        assert!(names(place.path()).is_empty());
        assert!(files.recover().is_ok(), "there is nothing");
    }
}
