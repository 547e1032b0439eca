//! The files of the recorder: `tail` for the block in the making, and one file for each block, named by its number and the second it
//! begins; beside them the list of incidents, and what their drill-downs recorded. What goes when the folder is full, `pins.rs` says.

use std::fs::File;
use std::io::{self, Write as _};
use std::path::Path;
use std::sync::mpsc::Receiver;
use std::sync::{Arc, Mutex, PoisonError};

use super::keeper::Job;
use super::pins;
use super::thin::thin;
use super::tiers::{ThinningCost, Tiers};
use rdiag_history::{
    INCIDENTS, Incident, MAX_FILE, MOST_INCIDENTS, header_of, read_tail, write_block, write_incidents,
};
use rdiag_kernel::host::Zone;
use rdiag_kernel::host::files::Folder;
use rdiag_model::quantity;

/// Name of the tail.
pub const TAIL: &str = "tail";
const ENDING: &str = ".rdh";
/// What [`Folder::write`] calls a file that is to replace one.
const UNNAMED: &str = ".rdiag-";
/// A header is shorter packed.
pub(super) const HEADER: u64 = 64 << 10;
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
pub(super) fn number(name: &str) -> Option<u64> {
    begins(name)?;
    name.split_once('-')?.0.parse().ok()
}

/// The folder, as the thread has it.
pub(super) struct Files {
    folder: Folder,
    keep: u64,
    incidents: Vec<Incident>,
    tiers: Tiers,
    tail: Option<File>,
    /// Bytes that the tail may still take.
    room: u64,
    said: Arc<Mutex<Vec<String>>>,
    /// What was said last: the same is not said again until something went well.
    last: String,
}

impl Files {
    /// With the most bytes, the seconds from sample to sample of old blocks, and where the cost of thinning these is told.
    pub(super) fn new(
        folder: Folder,
        (keep, tier, cost): (u64, f64, ThinningCost),
        incidents: Vec<Incident>,
        said: Arc<Mutex<Vec<String>>>,
    ) -> Self {
        let tiers = Tiers::new(tier, cost);
        Self { folder, keep, incidents, tiers, tail: None, room: 0, said, last: String::new() }
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

    /// Thins and removes what must be so that so many more bytes fit.
    fn make_room(&mut self, taken: u64, size: u64, limit: u64) -> io::Result<()> {
        let taken = taken.saturating_sub(self.thin(taken, size, limit));
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
        if plan.unpinned.is_empty() {
            return Ok(());
        }
        self.tiers.again();
        self.save()
    }

    /// The bytes that thinning gave: what cannot be thinned goes as it is.
    fn thin(&mut self, taken: u64, size: u64, limit: u64) -> u64 {
        match self.tiers.thin(&self.folder, &self.incidents, (taken, size, limit)) {
            Ok((saved, wrong)) => {
                wrong.into_iter().for_each(|why| self.tell("thinning an old block", Err(io::Error::other(why))));
                saved
            }
            Err(error) => {
                self.tell("thinning old blocks", Err(error));
                0
            }
        }
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
        // A kill between the two steps of replacing a file leaves the new one under a name of its own.
        let unnamed = files.iter().filter(|file| file.name.starts_with(UNNAMED));
        unnamed.into_iter().try_for_each(|file| self.folder.remove(&file.name))?;
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
mod tests;
