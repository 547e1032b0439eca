//! The table of processes while a window runs: what was seen of each, and where to find it by its id.

use std::collections::HashMap;

use crate::sink::Size;
use rdiag_kernel::host::Present;
use rdiag_model::{Process, ProcessPoint};
use rdiag_proc::process::Stat;

/// Threads whose waiting is followed, over all processes; beyond that a process is known by its main thread.
const MAX_THREADS: usize = 40_000;
/// More processes than this are not recorded, whatever the host shows (a storm of forks in a long window).
const MAX_PROCESSES: usize = 100_000;
/// More points than this are not kept: the last one of a process is then replaced, so that totals stay true.
const MAX_POINTS: usize = 100_000;

/// What the scheduler said about a thread at the last reading.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Thread {
    /// 0 before the first reading.
    pub(super) tid: u32,
    pub(super) run: u64,
    pub(super) wait: u64,
    pub(super) slices: u64,
}

/// A process at work.
#[derive(Debug, Default)]
pub(crate) struct Entry {
    pub(crate) process: Process,
    /// What stat showed at the last sample.
    pub(super) shown: Option<Stat>,
    pub(super) real_uid: Option<u32>,
    /// Over all threads, those included that ended since they were first seen.
    pub(super) run_ns: u64,
    pub(super) wait_ns: u64,
    pub(super) leader: Thread,
    /// Threads besides the main one, by id.
    pub(super) others: Vec<Thread>,
    pub(super) leader_only: bool,
    pub(super) io_denied: bool,
}

impl Entry {
    /// Counts what a thread did between two readings.
    pub(super) fn add(&mut self, before: Thread, now: Thread) {
        self.run_ns = self.run_ns.saturating_add(now.run.saturating_sub(before.run));
        self.wait_ns = self.wait_ns.saturating_add(now.wait.saturating_sub(before.wait));
    }

    pub(super) fn other(&self, tid: u32) -> Option<Thread> {
        let at = self.others.binary_search_by_key(&tid, |thread| thread.tid).ok()?;
        self.others.get(at).copied()
    }

    /// How much the process mattered, in each of the ways in which one can.
    pub(super) fn weights(&self) -> [u64; 8] {
        let points = &self.process.points;
        let Some(last) = points.last() else { return [0; 8] };
        let born = ProcessPoint::default();
        let first = if self.process.first > 0 { &born } else { points.first().unwrap_or(&born) };
        let change = |field: fn(&ProcessPoint) -> Option<u64>| {
            let newest = points.iter().rev().find_map(field).unwrap_or(0);
            newest.saturating_sub(field(first).unwrap_or(0))
        };
        [
            change(|point| Some(point.utime.saturating_add(point.stime))),
            change(|point| point.wait_ns),
            change(|point| point.read_bytes),
            change(|point| point.write_bytes),
            change(|point| Some(point.resident_pages)),
            change(|point| Some(point.major_faults)),
            last.resident_pages,
            last.swap_kb.unwrap_or(0),
        ]
    }
}

/// All processes seen in the window.
#[derive(Debug, Default)]
pub(crate) struct Table {
    pub(crate) entries: Vec<Entry>,
    index: HashMap<u32, usize>,
    /// /proc is listed in the same order each time, so the next process is most often the next entry.
    next: usize,
    points: usize,
    threads: usize,
    /// Something was left out to bound the memory.
    pub(super) full: bool,
}

impl Table {
    /// The process of this id and start time, new if need be; none when there are too many.
    pub(super) fn entry(&mut self, pid: u32, name: &[u8], stat: &Stat, at: u16) -> Option<&mut Entry> {
        let is_it = |at: &usize| {
            let process = self.entries.get(*at).map(|entry| &entry.process);
            process.is_some_and(|process| (process.pid, process.start_ticks) == (pid, stat.start_ticks))
        };
        let known = Some(self.next).filter(is_it).or_else(|| self.index.get(&pid).copied().filter(is_it));
        if let Some(found) = known {
            self.next = found + 1;
            return self.entries.get_mut(found);
        }
        if self.entries.len() >= MAX_PROCESSES {
            self.full = true;
            return None;
        }
        let process = Process {
            pid,
            ppid: stat.ppid,
            start_ticks: stat.start_ticks,
            comm: String::from_utf8_lossy(name).into_owned(),
            first: at,
            ..Process::default()
        };
        let threads = if stat.threads > 1 { stat.threads as usize } else { 0 };
        let leader_only = self.threads.saturating_add(threads) > MAX_THREADS;
        self.threads = if leader_only { self.threads } else { self.threads.saturating_add(threads) };
        self.index.insert(pid, self.entries.len());
        self.entries.push(Entry { process, leader_only, ..Entry::default() });
        self.entries.last_mut()
    }

    /// A known process.
    pub(super) fn of(&self, pid: u32) -> Option<&Entry> {
        self.entries.get(*self.index.get(&pid)?)
    }

    /// The memory of each, as it was last seen.
    pub(super) fn sizes(&self, page_size: u64) -> Vec<Size> {
        let size = |entry: &Entry| {
            let shown = entry.shown?;
            let all = shown.virtual_bytes / page_size.max(1);
            Some(Size { pid: entry.process.pid, all, resident: shown.resident_pages })
        };
        self.entries.iter().filter_map(size).collect()
    }

    /// Those seen at a sample.
    pub(super) fn present(&self, at: u16) -> Vec<Present> {
        let present = |entry: &Entry| {
            let shown = entry.shown?;
            Some(Present {
                pid: entry.process.pid,
                start_ticks: shown.start_ticks,
                cpu_ticks: shown.utime.saturating_add(shown.stime),
                state: shown.state,
                threads: shown.threads,
                uid: entry.process.uid,
            })
        };
        self.entries.iter().filter(|entry| entry.process.last == at).filter_map(present).collect()
    }

    /// Begins a sample.
    pub(super) fn rewind(&mut self) {
        self.next = 0;
    }

    /// Whether there is room for another point.
    pub(super) fn has_room(&self) -> bool {
        self.points < MAX_POINTS
    }

    /// Takes note of a point that was added, or that took the place of another.
    pub(super) fn count_point(&mut self) {
        self.full |= !self.has_room();
        self.points += 1;
    }
}

/// Adds a point, or replaces the last one where there is no room.
pub(super) fn push(points: &mut Vec<ProcessPoint>, point: ProcessPoint, room: bool) {
    match points.last_mut() {
        Some(last) if !room => *last = point,
        _ => {
            // Most processes have one or two points: doubling would waste more memory than growing costs.
            points.reserve_exact(1);
            points.push(point);
        }
    }
}

/// What stat says, as a point without details.
pub(super) fn point(stat: &Stat, at: u16) -> ProcessPoint {
    ProcessPoint {
        at,
        state: stat.state,
        utime: stat.utime,
        stime: stat.stime,
        minor_faults: stat.minor_faults,
        major_faults: stat.major_faults,
        threads: stat.threads,
        resident_pages: stat.resident_pages,
        ..ProcessPoint::default()
    }
}
