//! Files that are deleted but still open: their space stays taken until the last process closes them, and no walk through the directories
//! finds it.
//!
//! They are looked for in a drill-down window only, where a file system is nearly full: looking at 32 000 open files of 1600 processes took
//! 50 ms of CPU time.

use rdiag_proc::process;

mod places;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, HashSet};

use places::Places;

use super::processes::reader::Reader;
use crate::def::{Cadence, Collect, CollectorDef, Sink, untraceable};
use rdiag_kernel::host::{Host, SourceError};
use rdiag_model::metric::{Formula, MetricDef, SeriesDef, term};
use rdiag_model::{Deed, Facts, RawUnit, Reason, Unavailable, Unit};

pub(super) static COLLECTOR: CollectorDef = CollectorDef {
    id: "deleted_files",
    help: "Space held by files that are deleted but still open, by file system and by process, from /proc/PID/fd.",
    cadence: Cadence::Ends,
    series: SERIES,
    metrics: METRICS,
    overhead: "once, at the beginning of a window: 10 µs per process and 1.2 µs per open file; ends after 100 000 open files or \
               half a second",
    start: |_| Box::new(DeletedFiles),
};

const SERIES: &[SeriesDef] = &[
    SeriesDef::gauge("deleted_files.space", RawUnit::Sectors, "/proc/PID/fd, stat(2) st_blocks where st_nlink is 0"),
    SeriesDef::gauge("deleted_files.held", RawUnit::Sectors, "/proc/PID/fd, stat(2) st_blocks where st_nlink is 0"),
];

const METRICS: &[MetricDef] = &[
    MetricDef {
        id: "filesystem.deleted.bytes",
        unit: Unit::Bytes,
        dimension: Some("mount"),
        help: "Space of a file system that is held by files which are deleted but still open.",
        sources: &[Formula::level(&[term("deleted_files.space")])],
        caveat: "Files that are only mapped into memory, or that the kernel itself holds (loop devices, swap), are not \
                 seen; neither are those on network file systems.",
        manual: "lsof +L1",
        ..MetricDef::EMPTY
    },
    MetricDef {
        id: "filesystem.deleted_held.bytes",
        unit: Unit::Bytes,
        dimension: Some("process"),
        help: "Space that a process holds with files which are deleted but still open.",
        sources: &[Formula::level(&[term("deleted_files.held")])],
        caveat: "A file that several processes have open is counted for the one with the lowest id.",
        manual: "ls -l /proc/PID/fd | grep deleted",
        deed: Some(Deed { verb: "held", of: "the space of deleted files", ..Deed::USUAL }),
    },
];

/// What the kernel writes behind the name of an open file that has none any more.
const MARK: &[u8] = b" (deleted)";
/// Memory that looks like a deleted file: it is on no file system that can fill up.
const MEMORY: [&[u8]; 4] = [b"/memfd:", b"/dev/zero", b"/SYSV", b"/anon_hugepage"];
/// Open files that are looked at.
const MAX_DESCRIPTORS: usize = 100_000;
/// How long the search may take.
const BUDGET_SECONDS: f64 = 0.5;
/// Processes that are recorded: those that hold the most.
const LARGEST: usize = 50;

struct DeletedFiles;

impl Collect for DeletedFiles {
    fn sample(&mut self, host: &Host, out: &Sink) -> Result<(), Unavailable> {
        // Files that fill a disk stay open for longer than a window; once is enough.
        if out.current() > 0 {
            return Ok(());
        }
        let mut search = Search {
            reader: Reader::new(host.processes()?),
            places: Places::read(host)?,
            counted: HashSet::new(),
            held: BTreeMap::new(),
            left: MAX_DESCRIPTORS,
        };
        let mut pids = Vec::new();
        search.reader.pids(&mut pids)?;
        pids.sort_unstable();
        let until = host.now() + BUDGET_SECONDS;
        let (mut denied, mut late) = (0, 0);
        for pid in pids.iter().copied() {
            if search.left == 0 || host.now() > until {
                late += 1;
                continue;
            }
            if let Err(error) = search.process(pid) {
                // A process that ends meanwhile may be refused in the same way.
                denied += usize::from(error.reason == Reason::Denied && search.reader.file(pid, "stat").is_ok());
            }
        }
        search.record(unseen(host.facts(), pids.len(), denied, late).as_ref(), out);
        Ok(())
    }
}

/// Why not all is known, if it is not.
fn unseen(facts: &Facts, all: usize, denied: usize, late: usize) -> Option<Unavailable> {
    if denied > 0 {
        return Some(untraceable(facts, &format!("the open files of {denied} of {all} processes")));
    }
    let why = format!("there are so many open files that {late} of {all} processes were left out");
    (late > 0).then(|| Unavailable::new(Reason::ShortWindow, why))
}

struct Search {
    reader: Reader,
    places: Places,
    /// Device and inode: a file may be open many times.
    counted: HashSet<(u64, u64)>,
    /// By mount and process: blocks.
    held: BTreeMap<(usize, u32), u64>,
    /// Open files that may still be looked at.
    left: usize,
}

impl Search {
    fn process(&mut self, pid: u32) -> Result<(), SourceError> {
        let mut descriptors = Vec::new();
        self.reader.descriptors(pid, &mut descriptors)?;
        for descriptor in descriptors {
            if self.left == 0 {
                break;
            }
            self.left -= 1;
            match self.reader.open_name(pid, descriptor) {
                Ok(name) if is_deleted(name) => self.file(pid, descriptor),
                Ok(_) => {}
                Err(error) if error.reason == Reason::Denied => return Err(error),
                // Closed since.
                Err(_) => {}
            }
        }
        Ok(())
    }

    /// Counts a file that seems to be deleted, unless asking about it could hang.
    fn file(&mut self, pid: u32, descriptor: u32) {
        let Some(place) = self.places.of(pid, descriptor, &mut self.reader) else { return };
        let Ok(file) = self.reader.open_file(pid, descriptor) else { return };
        // A file may really be named so, or have another link left.
        if file.regular && file.deleted && self.counted.insert((file.device, file.inode)) {
            *self.held.entry((place, pid)).or_default() += file.blocks;
        }
    }

    fn record(&mut self, unseen: Option<&Unavailable>, out: &Sink) {
        let mut of_mounts: BTreeMap<usize, u64> = BTreeMap::new();
        for ((place, _), blocks) in &self.held {
            *of_mounts.entry(*place).or_default() += blocks;
        }
        for (place, name) in self.places.names() {
            match (of_mounts.get(&place), unseen) {
                // What was found is there, however much more there may be.
                (Some(blocks), _) => out.level("deleted_files.space", &name, *blocks as f64),
                (None, Some(gap)) => out.gap("deleted_files.space", &name, gap.clone()),
                (None, None) => out.level("deleted_files.space", &name, 0.0),
            }
        }
        if let Some(gap) = unseen {
            out.gap("deleted_files.", "(others)", gap.clone());
        }
        let mut holders: Vec<_> = std::mem::take(&mut self.held).into_iter().collect();
        holders.sort_by_key(|(_, blocks)| std::cmp::Reverse(*blocks));
        for ((place, pid), blocks) in holders.into_iter().take(LARGEST) {
            let Some(mount) = self.places.name(place) else { continue };
            let Some((name, _)) = self.reader.file(pid, "stat").ok().and_then(process::stat) else { continue };
            let instance = format!("{pid} {mount}");
            out.level("deleted_files.held", &instance, blocks as f64);
            out.label(&instance, "name", String::from_utf8_lossy(name));
            out.label(&instance, "pid", pid.to_string());
            out.label(&instance, "mount", mount);
        }
        if out.with_record(|record| record.series.iter().all(|series| series.name != "deleted_files.held")) {
            let why = "no process holds deleted files on a local file system";
            let none = unseen.cloned().unwrap_or_else(|| Unavailable::new(Reason::NotApplicable, why));
            out.gap("deleted_files.held", "", none);
        }
    }
}

/// Whether the name of an open file is that of a deleted one, on a file system.
fn is_deleted(name: &[u8]) -> bool {
    name.starts_with(b"/") && name.ends_with(MARK) && !MEMORY.iter().any(|prefix| name.starts_with(prefix))
}
