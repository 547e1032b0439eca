//! Processes as rdiag's collector would have recorded them, from what each did in an interval.

use std::collections::HashMap;

use rdiag_kernel::host::secrets;
use rdiag_model::recording::{Process, ProcessPoint};

/// Processes that are read.
const MAX_PROCESSES: usize = 50_000;
/// Points of all processes together: about 200 MB. Beyond it a process keeps its first and its last point, so that sums hold.
const MAX_POINTS: usize = 1_000_000;

/// The table in the making.
#[derive(Default)]
pub(super) struct Table {
    processes: Vec<Process>,
    index: HashMap<(u32, u64), usize>,
    points: usize,
    begin: usize,
    parts: usize,
    /// Whether some were left out.
    pub(super) is_crowded: bool,
}

/// A process in an interval: who it is, what it is at the end, and what it did within.
pub(super) struct Seen {
    /// Pid, parent, start, names and owner.
    pub(super) who: Process,
    /// Levels at the end of the interval; counters are what came on top within it.
    pub(super) did: ProcessPoint,
    /// Pages that it has more than at the beginning of the interval; fewer are below zero.
    pub(super) resident_growth: i64,
    /// Whether it began within the interval.
    pub(super) is_new: bool,
}

/// Where one counter or level is in a point.
type Counter = fn(&mut ProcessPoint) -> &mut u64;
type Optional = fn(&mut ProcessPoint) -> &mut Option<u64>;

const COUNTERS: [Counter; 4] = [
    |point| &mut point.utime,
    |point| &mut point.stime,
    |point| &mut point.minor_faults,
    |point| &mut point.major_faults,
];
const OPTIONAL: [Optional; 6] = [
    |point| &mut point.run_ns,
    |point| &mut point.wait_ns,
    |point| &mut point.voluntary_switches,
    |point| &mut point.involuntary_switches,
    |point| &mut point.read_bytes,
    |point| &mut point.write_bytes,
];

impl Table {
    pub(super) fn interval(&mut self, begin: usize, parts: usize) {
        (self.begin, self.parts) = (begin, parts);
    }

    /// Adds what a process did in this interval.
    pub(super) fn see(&mut self, seen: Seen) {
        let (Ok(before), Ok(begin), Ok(end)) = (
            u16::try_from(self.begin.saturating_sub(1)),
            u16::try_from(self.begin),
            u16::try_from((self.begin + self.parts).saturating_sub(1)),
        ) else {
            return;
        };
        let Seen { mut who, mut did, resident_growth, is_new } = seen;
        // Beside it a wait that is not known would be none.
        did.run_ns = did.run_ns.filter(|_| did.wait_ns.is_some());
        let key = (who.pid, who.start_ticks);
        let at = match self.index.get(&key) {
            Some(at) => *at,
            None if self.processes.len() >= MAX_PROCESSES => {
                self.is_crowded = true;
                return;
            }
            None => {
                let mut first = zero(&did);
                first.resident_pages = did.resident_pages.saturating_add_signed(resident_growth.saturating_neg());
                // One that was there before began before the time did, and did nothing that is known of.
                let (first_at, points) = if is_new {
                    (begin, Vec::new())
                } else {
                    let mut points = vec![ProcessPoint { at: 0, ..first.clone() }];
                    points.extend((before > 0).then_some(ProcessPoint { at: before, ..first }));
                    (0, points)
                };
                self.points += points.len();
                self.index.insert(key, self.processes.len());
                who.command = who.command.map(|line| secrets::masked(line.split(' ')).join(" "));
                self.processes.push(Process { first: first_at, last: end, points, ..who.clone() });
                self.processes.len() - 1
            }
        };
        let Some(process) = self.processes.get_mut(at).filter(|process| {
            // Twice in one interval: the first row stands.
            process.points.last().is_none_or(|last| last.at < begin)
        }) else {
            return;
        };
        process.last = end;
        process.ppid = who.ppid;
        process.comm = who.comm;
        let base = process.points.last().cloned().unwrap_or_else(|| zero(&did));
        let parts = self.parts as u64;
        for (at, part) in (begin..=end).zip(1..=parts) {
            let mut point = ProcessPoint { at, ..did.clone() };
            let mut from = base.clone();
            for field in COUNTERS {
                let so_far = share(*field(&mut did), part, parts);
                *field(&mut point) = field(&mut from).saturating_add(so_far);
            }
            for field in OPTIONAL {
                let so_far = field(&mut did).map(|more| share(more, part, parts));
                *field(&mut point) = so_far.map(|so_far| field(&mut from).unwrap_or(0).saturating_add(so_far));
            }
            let same = process.points.last().is_some_and(|last| ProcessPoint { at, ..last.clone() } == point);
            if same {
                continue;
            }
            if self.points >= MAX_POINTS && process.points.len() > 1 {
                process.points.pop();
            } else {
                self.points += 1;
            }
            process.points.push(point);
        }
    }

    pub(super) fn finish(self) -> Vec<Process> {
        self.processes
    }
}

/// A part of what came in an interval.
fn share(more: u64, part: u64, parts: u64) -> u64 {
    u64::try_from(u128::from(more) * u128::from(part) / u128::from(parts.max(1))).unwrap_or(u64::MAX)
}

/// The same process before it did anything.
fn zero(point: &ProcessPoint) -> ProcessPoint {
    let mut zero = point.clone();
    for field in COUNTERS {
        *field(&mut zero) = 0;
    }
    for field in OPTIONAL {
        if let Some(value) = field(&mut zero).as_mut() {
            *value = 0;
        }
    }
    zero
}
