//! The parts of requests that move from one thread to another, put together.

use std::collections::{BTreeMap, BTreeSet};

use super::record::{Cell, Record, duration};
use rdiag_kernel::mechanism::symbols::Process;
use rdiag_model::ledger::Durations;

/// Requests of which a part is there, and the next one not yet.
const MOST_OPEN: usize = 10_000;
/// Cells of a request, those of all its parts that are alike being one, and places where it was laid down.
const MOST_CELLS: usize = 1000;
const MOST_GAPS: usize = 200;

/// Why no thread had a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Why {
    /// As the programs have it: the scheduler's number, + 1; 0 is none.
    pub(super) reason: u64,
    /// The name of the user stack.
    pub(super) stack: u64,
    pub(super) process: Process,
}

/// Time in which no thread had a request, for one reason.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Gap {
    pub(super) durations: Durations,
    /// The longest in ns, and when it ended.
    pub(super) max: u64,
    pub(super) max_at: u64,
}

impl Gap {
    pub(super) fn add(&mut self, other: &Self) {
        self.durations.add(&other.durations);
        if other.max > self.max {
            (self.max, self.max_at) = (other.max, other.max_at);
        }
    }
}

/// Parts of requests that are not over, by the request's number: those that began first come first.
#[derive(Debug, Default)]
pub(super) struct Open {
    parts: BTreeMap<u64, Record>,
    dropped: u64,
}

impl Open {
    /// Takes a record of one thread in. Gives it back with all that was before it if its request is over. What lacks a part is dropped,
    /// which
    /// the programs have counted.
    pub(super) fn join(&mut self, record: Record) -> Option<Record> {
        let at = record.request;
        let whole = match (self.parts.remove(&at), record.goes_on) {
            (Some(mut before), true) => {
                before.go_on(record);
                before
            }
            (_, false) => record,
            (None, true) => return None,
        };
        if whole.given_up {
            return None;
        }
        if whole.passed {
            return Some(whole);
        }
        self.parts.insert(at, whole);
        if self.parts.len() > MOST_OPEN && self.parts.pop_first().is_some() {
            self.dropped = self.dropped.saturating_add(1);
        }
        None
    }

    /// Those under way when the observation stopped: of those that the programs still know, the latest.
    pub(super) fn take_all(&mut self, alive: &BTreeSet<u64>, most: usize) -> impl Iterator<Item = Record> + use<> {
        let all = std::mem::take(&mut self.parts);
        let (left, gone): (Vec<_>, Vec<_>) = all.into_iter().partition(|(number, _)| alive.contains(number));
        let skipped = left.len().saturating_sub(most);
        self.dropped = self.dropped.saturating_add((gone.len() + skipped) as u64);
        left.into_iter().skip(skipped).map(|(_, record)| record)
    }

    /// How many were dropped since the last time, which begins anew.
    pub(super) fn take_dropped(&mut self) -> u64 {
        std::mem::take(&mut self.dropped)
    }
}

impl Record {
    /// No thread had it from one moment to another.
    fn add_gap(&mut self, why: Why, from: u64, until: u64) {
        let ns = until.saturating_sub(from);
        self.life = self.life.saturating_add(ns);
        let is_full = self.gaps.len() >= MOST_GAPS && !self.gaps.contains_key(&why);
        let why = if is_full { Why { stack: 0, ..why } } else { why };
        self.gaps.entry(why).or_default().add(&Gap { durations: duration(ns), max: ns, max_at: until });
    }

    /// Its request goes on with another part.
    fn go_on(&mut self, next: Self) {
        let why = Why { reason: self.reason, stack: self.parked, process: self.process() };
        // When it might have gone on is told of some.
        let ready = Some(next.ready).filter(|ready| (self.ended..next.began).contains(ready));
        self.add_gap(why, self.ended, ready.unwrap_or(next.began));
        if let Some(ready) = ready {
            self.add_gap(Why { reason: 0, ..why }, ready, next.began);
        }
        (self.reason, self.parked) = (next.reason, next.parked);
        (self.ended, self.died) = (next.ended, next.died);
        (self.passed, self.given_up, self.closed) = (next.passed, next.given_up, next.closed);
        let [has_key, ..] = next.key;
        if has_key != 0 {
            self.key = next.key;
        }
        for cell in self.add_sums(next) {
            let same = |own: &&mut Cell| {
                (own.kind, own.stack, own.object, &own.name) == (cell.kind, cell.stack, cell.object, &cell.name)
            };
            let is_full = self.cells.len() >= MOST_CELLS;
            match self.cells.iter_mut().find(same) {
                Some(own) => own.absorb(&cell),
                None if !is_full => self.cells.push(cell),
                None => self.unkept = self.unkept.saturating_add(cell.ns.saturating_add(cell.open_ns)),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn part(from: u64, until: u64) -> Record {
        let cells = vec![Cell { ns: until - from, count: 1, ..Cell::default() }];
        Record { pid: 7, tid: 8, request: 3, began: from, ended: until, life: until - from, cells, ..Record::default() }
    }

    fn next(record: Record) -> Record {
        Record { goes_on: true, tid: 9, ..record }
    }

    #[test]
    fn a_request_is_all_its_parts_and_the_time_in_between() {
        let mut open = Open::default();
        assert_eq!(open.join(Record { reason: 5, ..part(100, 200) }), None);
        assert_eq!(open.join(next(Record { reason: 0, ..part(500, 600) })), None);
        let whole = open.join(next(Record { passed: true, died: true, ..part(630, 700) })).unwrap();
        assert_eq!((whole.began, whole.ended, whole.life, whole.tid), (100, 700, 600, 8));
        let gaps: Vec<_> = whole.gaps.iter().map(|(why, gap)| (why.reason, gap.max, gap.max_at)).collect();
        assert_eq!(gaps, [(0, 30, 630), (5, 300, 500)]);
        let [cell] = &whole.cells[..] else { panic!("{:?}", whole.cells) };
        assert_eq!((cell.ns, cell.count), (270, 3), "with the gaps that is its time");
        assert!(whole.passed && whole.died && open.take_all(&BTreeSet::new(), 9).next().is_none());
        assert_eq!(open.take_dropped(), 0);
    }

    #[test]
    fn what_was_ready_before_a_thread_took_it_up_waited_for_that_and_no_longer_for_the_other() {
        let mut open = Open::default();
        open.join(Record { reason: 5, ..part(100, 200) });
        let last = Record { passed: true, ready: 450, ..part(500, 600) };
        let whole = open.join(next(last)).unwrap();
        let gaps: Vec<_> = whole.gaps.iter().map(|(why, gap)| (why.reason, gap.max)).collect();
        assert_eq!((gaps, whole.life), (vec![(0, 50), (5, 250)], 500));
        // A moment that is not in between says nothing.
        open.join(Record { reason: 5, ..part(100, 200) });
        let whole = open.join(next(Record { passed: true, ready: 150, ..part(500, 600) })).unwrap();
        assert_eq!(whole.gaps.values().map(|gap| gap.max).collect::<Vec<_>>(), [300]);
    }

    #[test]
    fn what_the_programs_know_no_more_is_dropped_and_counted() {
        let mut open = Open::default();
        for number in 1..=6 {
            open.join(Record { request: number, ..part(number, number + 1) });
        }
        let left: Vec<u64> = open.take_all(&[1, 2, 4, 5].into(), 3).map(|record| record.request).collect();
        assert_eq!((left, open.take_dropped()), (vec![2, 4, 5], 3), "the latest of those that are known");
        for number in 0..=MOST_OPEN as u64 {
            open.join(Record { request: number, ..part(number, number + 1) });
        }
        assert_eq!((open.parts.len(), open.take_dropped()), (MOST_OPEN, 1));
        assert!(!open.parts.contains_key(&0), "the one that began first made room");
    }

    #[test]
    fn what_lacks_a_part_is_none_and_what_is_not_over_is_under_way() {
        let mut open = Open::default();
        assert_eq!(open.join(next(Record { passed: true, ..part(500, 600) })), None, "the first part is missing");
        open.join(part(0, 10));
        assert_eq!(open.join(next(Record { given_up: true, ..part(20, 30) })), None);
        assert_eq!(open.take_all(&[3].into(), 9).count(), 0, "it was given up");
        open.join(part(0, 10));
        open.join(Record { request: 4, ..part(40, 50) });
        open.join(next(Record { passed: true, ..part(60, 70) })).expect("one that is over");
        let left: Vec<u64> = open.take_all(&[4].into(), 9).map(|record| record.request).collect();
        assert_eq!(left, [4]);
    }
}
