//! Semaphores that are used as locks: those whose waits are ended by the thread that was let in last.

use std::collections::HashMap;

use super::kind::Type;
use super::record::{Cell, Record};

/// How the programs say that waits ended (semaphores.h).
const HANDED_ON: u64 = 1;
const COUNTS: u64 = 2;
const ACROSS: u64 = 4;
/// Fewer waits prove nothing.
const LEAST: u64 = 3;

/// What all waits for a semaphore say, in ns.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Evidence {
    /// All waits that ended.
    waited: u64,
    /// Those that the thread ended which had been let in last, and their number.
    handed_on: u64,
    count: u64,
    /// For how long of these that thread may have had it, times those who waited meanwhile.
    held: u64,
    /// Its value was more than 1.
    counts: bool,
    /// A thread of another process ended some.
    across: bool,
}

impl Evidence {
    /// By process and futex. What processes share is at the same address in all of them.
    pub(super) fn of(records: &[Record]) -> HashMap<(u32, u64), Self> {
        let mut all: HashMap<(u32, u64), Self> = HashMap::new();
        for record in records {
            for cell in record.cells.iter().filter(|cell| cell.kind.of() == Type::Semaphore) {
                let [futex, ended, _] = cell.object;
                all.entry((record.pid, futex)).or_default().add(cell, ended);
            }
        }
        let mut shared: HashMap<u64, Self> = HashMap::new();
        for ((_, futex), evidence) in all.iter().filter(|(_, evidence)| evidence.across) {
            let sum = shared.entry(*futex).or_default();
            *sum = sum.and(*evidence);
        }
        for ((_, futex), evidence) in all.iter_mut().filter(|(_, evidence)| evidence.across) {
            *evidence = shared.get(futex).copied().unwrap_or(*evidence);
        }
        all
    }

    fn add(&mut self, cell: &Cell, ended: u64) {
        let handed_on = ended & HANDED_ON != 0;
        *self = self.and(Self {
            waited: cell.ns,
            handed_on: if handed_on { cell.ns } else { 0 },
            count: if handed_on { cell.count } else { 0 },
            held: cell.within,
            counts: ended & COUNTS != 0,
            across: ended & ACROSS != 0,
        });
    }

    fn and(self, other: Self) -> Self {
        Self {
            waited: self.waited.saturating_add(other.waited),
            handed_on: self.handed_on.saturating_add(other.handed_on),
            count: self.count.saturating_add(other.count),
            held: self.held.saturating_add(other.held),
            counts: self.counts || other.counts,
            across: self.across || other.across,
        }
    }

    /// Whether it is a lock: most of the time that was waited for it ended by its being handed on, and those who did that can have had it
    /// all the while, if each that waited had its turn. (In a barrier of semaphores each lets the next one pass and has it for an instant;
    /// what all wait for is the last to arrive.)
    pub(super) fn is_lock(&self) -> bool {
        let mostly = self.handed_on >= self.waited / 4 * 3;
        !self.counts && self.count >= LEAST && mostly && self.held >= self.handed_on / 2
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;
    const LOCK: Evidence =
        Evidence { waited: 300 * MS, handed_on: 290 * MS, count: 6, held: 280 * MS, counts: false, across: false };

    #[test]
    fn a_semaphore_is_a_lock_if_most_waits_end_by_its_being_handed_on() {
        assert!(LOCK.is_lock());
        assert!(Evidence { handed_on: 225 * MS, ..LOCK }.is_lock());
        assert!(
            !Evidence { handed_on: 224 * MS, ..LOCK }.is_lock(),
            "a quarter of the time ended by threads that bring work"
        );
        assert!(Evidence { count: 3, ..LOCK }.is_lock());
        assert!(!Evidence { count: 2, ..LOCK }.is_lock(), "twice may be chance");
        assert!(!Evidence { counts: true, ..LOCK }.is_lock(), "no lock has room for two");
        assert!(!Evidence::default().is_lock());
    }

    #[test]
    fn who_lets_the_next_one_pass_at_once_has_had_no_lock() {
        let least = 145 * MS;
        assert!(Evidence { held: least, ..LOCK }.is_lock());
        assert!(!Evidence { held: least - 1, ..LOCK }.is_lock());
    }
}
