//! The files of the recorder: `tail` for the block in the making, and one file for each block, named by its number and the second it begins;
//! beside them the list of incidents, and what their drill-downs recorded. What goes when the folder is full, `pins.rs` says.

use std::fs::File;
use std::io::{self, Write as _};
use std::path::Path;
use std::sync::mpsc::Receiver;
use std::sync::{Arc, Mutex, PoisonError};

use super::keeper::Job;
use super::pins;
use super::thin::thin;
use crate::history::{
    INCIDENTS, Incident, MAX_FILE, MOST_INCIDENTS, header_of, read_tail, write_block, write_incidents,
};
use rdiag_kernel::host::Zone;
use rdiag_kernel::host::files::Folder;
use rdiag_model::quantity;

/// Name of the tail.
pub const TAIL: &str = "tail";
const ENDING: &str = ".rdh";
/// A header is shorter packed.
const HEADER: u64 = 64 << 10;
/// Part of the free space that the folder may take.
const FREE_SHARE: u64 = 100;
/// Part of the folder that one recording of a drill-down may take.
const DRILL_SHARE: u64 = 4;

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

/// The folder, as the thread has it.
pub(super) struct Files {
    folder: Folder,
    keep: u64,
    incidents: Vec<Incident>,
    tail: Option<File>,
    /// Bytes that the tail may still take.
    room: u64,
    said: Arc<Mutex<Vec<String>>>,
    /// What was said last: the same is not said again until something went well.
    last: String,
}

impl Files {
    pub(super) fn new(folder: Folder, keep: u64, incidents: Vec<Incident>, said: Arc<Mutex<Vec<String>>>) -> Self {
        Self { folder, keep, incidents, tail: None, room: 0, said, last: String::new() }
    }

    /// What is to be done, until there are no more jobs.
    pub(super) fn work(&mut self, jobs: &Receiver<Job>) {
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
                Job::Incident(incident) => {
                    let entered = self.enter(incident);
                    self.tell("entering an incident", entered);
                }
                Job::Drilled(wall_micros, outcome) => {
                    let kept = self.drilled(wall_micros, outcome);
                    self.tell("keeping a drill-down", kept);
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
        self.make_room(own.saturating_sub(tail), size, limit)?;
        let next = blocks.iter().filter_map(|file| number(&file.name)).max().map_or(1, |last| last.saturating_add(1));
        self.folder.write(Path::new(&format!("{next:010}-{second}{ENDING}")), |out| out.write_all(bytes))?;
        self.tail = None;
        self.folder.remove(TAIL)?;
        self.last.clear();
        Ok(())
    }

    /// Removes what must go so that so many more bytes fit.
    fn make_room(&mut self, taken: u64, size: u64, limit: u64) -> io::Result<()> {
        let plan = pins::make_room(&self.folder.list()?, &self.incidents, taken, size, limit);
        plan.remove.iter().try_for_each(|name| self.folder.remove(name))?;
        for at in &plan.unpinned {
            let Some(incident) = self.incidents.get_mut(*at) else { continue };
            incident.pinned = false;
            let told = format!(
                "the incident of {} is pinned no longer: the folder may take {} now, and incidents half of it",
                Zone::utc().instant(incident.wall_micros),
                quantity::bytes(limit as f64)
            );
            self.said.lock().unwrap_or_else(PoisonError::into_inner).push(told);
        }
        if plan.unpinned.is_empty() { Ok(()) } else { self.save() }
    }

    fn enter(&mut self, incident: Incident) -> io::Result<()> {
        self.incidents.push(incident);
        let older = self.incidents.len().saturating_sub(MOST_INCIDENTS);
        self.incidents.drain(..older);
        self.save()
    }

    fn save(&self) -> io::Result<()> {
        self.folder.write(Path::new(INCIDENTS), |out| out.write_all(&write_incidents(&self.incidents)))
    }

    fn drilled(&mut self, wall_micros: i64, outcome: Result<Vec<u8>, String>) -> io::Result<()> {
        let Some(at) = self.incidents.iter().position(|one| one.wall_micros == wall_micros) else { return Ok(()) };
        let Some(incident) = self.incidents.get(at).cloned() else { return Ok(()) };
        let kept = outcome.and_then(|bytes| self.keep_drill(&incident, &bytes).map_err(|error| error.to_string()));
        let Err(why) = kept else {
            let place = self.folder.path().join(incident.file());
            let told = format!("the drill-down has ended: rdiag analyze {}", place.display());
            self.said.lock().unwrap_or_else(PoisonError::into_inner).push(told);
            return Ok(());
        };
        if let Some(entry) = self.incidents.get_mut(at) {
            *entry = incident.noted(&why);
        }
        self.save()?;
        Err(io::Error::other(why))
    }

    fn keep_drill(&mut self, incident: &Incident, bytes: &[u8]) -> io::Result<()> {
        let (limit, own) = self.limit()?;
        let size = bytes.len() as u64;
        if size > limit / DRILL_SHARE {
            let [size, limit] = [size, limit / DRILL_SHARE].map(|bytes| quantity::bytes(bytes as f64));
            return Err(io::Error::other(format!("it has {size}, and one may take {limit}")));
        }
        self.make_room(own, size, limit)?;
        self.folder.write(Path::new(&incident.file()), |out| out.write_all(bytes))
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
    use crate::history::{Resource, read_incidents};

    fn files(place: &Path, keep: u64) -> Files {
        let folder = Folder::keeping(place).unwrap();
        Files::new(folder, keep, Vec::new(), Arc::default())
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

    fn incident(second: i64) -> Incident {
        Incident {
            wall_micros: second * 1_000_000,
            resource: Resource::Memory,
            share: 0.2,
            at_least: false,
            seconds: 5.0,
            pinned: true,
            drilled: true,
            note: None,
        }
    }

    #[test]
    fn an_incident_keeps_its_blocks_and_its_drill_down_within_the_limit_and_its_end_is_said() {
        let place = tempfile::tempdir().unwrap();
        let mut files = files(place.path(), 4000);
        let block = |at: i64, files: &mut Files| files.block(at * 600, &[7; 300]).unwrap();
        (0..3).for_each(|at| block(at, &mut files));
        files.enter(incident(1700)).unwrap();
        files.drilled(1_700_000_000, Ok(vec![1; 200])).unwrap();
        files.drilled(5, Ok(vec![1; 200])).unwrap();
        (3..30).for_each(|at| block(at, &mut files));
        let kept = names(place.path());
        for name in ["0000000002-600.rdh", "0000000003-1200.rdh", "0000000004-1800.rdh", "incident-1700.json.gz"] {
            assert!(kept.contains(&name.to_owned()), "{name}: {kept:?}");
        }
        assert!(!kept.contains(&"0000000001-0.rdh".to_owned()) && !kept.contains(&"incident-0.json.gz".to_owned()));
        let total: u64 = files.folder.list().unwrap().iter().map(|file| file.bytes).sum();
        assert!(total <= 4000 + 300, "{total}");
        // Another one is more than half: the older one loses its pin.
        files.enter(incident(29 * 600)).unwrap();
        files.drilled(17_400_000_000, Ok(vec![1; 200])).unwrap();
        (30..45).for_each(|at| block(at, &mut files));
        let kept = names(place.path());
        assert!(
            !kept.contains(&"0000000003-1200.rdh".to_owned()) && !kept.contains(&"incident-1700.json.gz".to_owned())
        );
        assert!(kept.contains(&"0000000030-17400.rdh".to_owned()), "{kept:?}");
        let said = std::mem::take(&mut *files.said.lock().unwrap());
        let begin = |start: &str| said.iter().filter(|text| text.starts_with(start)).count();
        assert_eq!(
            begin("the incident of 1970-01-01T00:28:20Z is pinned no longer: the folder may take "),
            1,
            "{said:?}"
        );
        assert_eq!((begin("the drill-down has ended: rdiag analyze /"), said.len()), (2, 3), "{said:?}");
        let (list, damage) = read_incidents(&files.folder.read(INCIDENTS, 10_000).unwrap()).unwrap();
        assert!(damage.is_empty());
        assert_eq!(
            list.iter().map(|one| (one.second(), one.pinned)).collect::<Vec<_>>(),
            [(1700, false), (17_400, true)]
        );
    }

    #[test]
    fn a_drill_down_that_failed_or_is_too_large_is_entered_with_the_reason() {
        let place = tempfile::tempdir().unwrap();
        let mut files = files(place.path(), 1000);
        files.enter(incident(100)).unwrap();
        files.enter(incident(200)).unwrap();
        assert_eq!(files.drilled(100_000_000, Err("exit code 3".into())).unwrap_err().to_string(), "exit code 3");
        assert!(files.drilled(200_000_000, Ok(vec![1; 251])).is_err());
        let (list, _) = read_incidents(&files.folder.read(INCIDENTS, 10_000).unwrap()).unwrap();
        assert_eq!(list[0].note.as_deref(), Some("exit code 3"));
        assert_eq!(list[1].note.as_deref(), Some("it has 251 B, and one may take 250 B"));
        assert_eq!(names(place.path()), [INCIDENTS]);
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
