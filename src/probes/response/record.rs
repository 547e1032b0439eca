//! The programs' records, word by word as response.h lays them out.

use std::collections::BTreeMap;

use rdiag_kernel::mechanism::ebpf::words;
use rdiag_kernel::mechanism::symbols::Process;
use rdiag_model::ledger::{Bucket, Durations};

use super::kind::{Kind, Type};
use super::open::{Gap, Why};

/// Words of `struct thread`, `struct cell`, `struct spread`.
pub(super) type ThreadWords = [u64; THREAD_WORDS];
/// As many as `struct thread` has.
pub(super) const THREAD_WORDS: usize = 197 + 10 + 6 + 2 + KEY_WORDS + ASLEEP_WORDS;
/// Where the program of a thread is that was asleep: place, stack pointer, frame pointer, address to return to.
pub(super) const ASLEEP_WORDS: usize = 4;
/// Of what a request is called by: room for text.
pub(super) const KEY_WORDS: usize = 8;
/// Whether it was read, and what.
pub(super) type RawKey = [u64; 1 + KEY_WORDS];
pub(super) type CellWords = [u64; 24];
pub(super) const BUCKETS: usize = 241;
pub(super) type SpreadWords = [u64; 2 * BUCKETS];

/// The lowest power of two that has buckets of its own.
const LOWEST: u32 = 8;

/// A sum that the programs kept.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Cell {
    pub(super) kind: Kind,
    pub(super) stack: u64,
    pub(super) object: [u64; 3],
    pub(super) count: u64,
    pub(super) ns: u64,
    pub(super) max: u64,
    pub(super) max_at: u64,
    pub(super) open: u64,
    pub(super) open_ns: u64,
    pub(super) open_at: u64,
    /// Of calls: on a CPU, and in all, while they were watched.
    pub(super) on_ns: u64,
    pub(super) within: u64,
    pub(super) bytes: u64,
    pub(super) durations: Option<Durations>,
    pub(super) name: String,
}

/// Counters of a task as the kernel keeps them: nanoseconds and numbers.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Account {
    pub(super) user: u64,
    pub(super) system: u64,
    /// Run time by the scheduler's clock; what it divides into the two above by ticks.
    pub(super) run: u64,
    pub(super) run_delay: u64,
    pub(super) faults: u64,
    /// Of these: had to wait for a disk.
    pub(super) majors: u64,
}

/// An observed thread.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Record {
    pub(super) tid: u32,
    pub(super) pid: u32,
    pub(super) process_born: u64,
    pub(super) parent: u32,
    pub(super) comm: String,
    /// CLOCK_MONOTONIC in ns.
    pub(super) began: u64,
    pub(super) ended: u64,
    /// Observed time in ns, and the number of threads behind this record.
    pub(super) life: u64,
    pub(super) stands_for: u32,
    pub(super) edge: u64,
    pub(super) unknown: u64,
    pub(super) unkept: u64,
    pub(super) user: u64,
    pub(super) kernel: u64,
    pub(super) runq: u64,
    /// Of the time on a CPU: it was taken away by a hypervisor, or served interrupts, as far as the kernel tells.
    pub(super) stolen: u64,
    pub(super) interrupted: u64,
    pub(super) kernel_thread: bool,
    pub(super) born: bool,
    pub(super) died: bool,
    pub(super) compat: bool,
    /// Of a request: it never came to its second mark, or has passed it.
    pub(super) given_up: bool,
    pub(super) passed: bool,
    pub(super) key: RawKey,
    /// Of a request that may move: which one, whether there is a part before this one, and why no thread has it afterwards.
    pub(super) request: u64,
    pub(super) goes_on: bool,
    pub(super) reason: u64,
    /// The name of the user stack there.
    pub(super) parked: u64,
    /// Since when a thread might have taken this part up; 0: that is not told.
    pub(super) ready: u64,
    /// Of the first thread of a process: for how long any of its threads ran, and ran or waited for a CPU, in ns; 0 where that was not
    /// kept.
    pub(super) any_ran: u64,
    pub(super) any_able: u64,
    /// Time in which no thread had it.
    pub(super) gaps: BTreeMap<Why, Gap>,
    /// What the kernel's own counters grew by.
    pub(super) change: Account,
    pub(super) cells: Vec<Cell>,
    pub(super) first: u64,
    pub(super) closed: bool,
    /// Where its program is, if it was asleep when it was taken in; or 0.
    pub(super) asleep: [u64; ASLEEP_WORDS],
}

impl Record {
    /// Its process, for looking up addresses.
    pub(super) fn process(&self) -> Process {
        Process { pid: self.pid, born: self.process_born }
    }

    /// Whether it was asleep when the observation began, and has not run since.
    pub(super) fn slept(&self) -> bool {
        self.asleep.first() != Some(&0) && (self.user, self.kernel, self.runq) == (0, 0, 0)
    }

    /// The first of many that are not kept apart.
    pub(super) fn nameless(self) -> Self {
        Self { tid: 0, pid: 0, parent: 0, comm: "(others)".to_owned(), key: RawKey::default(), ..self }
    }

    /// Takes in another thread, where there are too many to keep them apart: only kinds and stacks are left.
    pub(super) fn absorb(&mut self, other: Self) {
        self.began = self.began.min(other.began);
        self.ended = self.ended.max(other.ended);
        self.stands_for = self.stands_for.saturating_add(other.stands_for);
        for mut cell in self.add_sums(other) {
            if cell.kind.of() != Type::Errno {
                (cell.object, cell.name) = ([0; 3], String::new());
            }
            let same = |own: &&mut Cell| (own.kind, own.stack, own.object) == (cell.kind, cell.stack, cell.object);
            match self.cells.iter_mut().find(same) {
                Some(own) => own.absorb(&cell),
                None => self.cells.push(cell),
            }
        }
    }

    /// Adds the time of another record, and gives its cells back.
    pub(super) fn add_sums(&mut self, other: Self) -> Vec<Cell> {
        let sums = [
            (&mut self.life, other.life),
            (&mut self.edge, other.edge),
            (&mut self.unknown, other.unknown),
            (&mut self.unkept, other.unkept),
            (&mut self.user, other.user),
            (&mut self.kernel, other.kernel),
            (&mut self.runq, other.runq),
            (&mut self.stolen, other.stolen),
            (&mut self.interrupted, other.interrupted),
            (&mut self.change.user, other.change.user),
            (&mut self.change.system, other.change.system),
            (&mut self.change.run, other.change.run),
            (&mut self.change.run_delay, other.change.run_delay),
            (&mut self.change.faults, other.change.faults),
            (&mut self.change.majors, other.change.majors),
        ];
        for (sum, value) in sums {
            *sum = sum.saturating_add(value);
        }
        for (why, gap) in other.gaps {
            self.gaps.entry(why).or_default().add(&gap);
        }
        other.cells
    }

    /// `stop` ends a thread that nothing else has ended.
    pub(super) fn new(thread: &ThreadWords, stop: u64) -> Self {
        const ENDED: u64 = 6;
        let [mode, _, began, ended, edge, unknown, unkept, user, kernel, _, runq, _, rest @ ..] = thread;
        let [user_0, system_0, run_0, delay_0, minor_0, major_0, rest @ ..] = rest;
        let [user_1, system_1, run_1, delay_1, minor_1, major_1, ids, process_born, parent, flags, comm @ ..] = rest;
        let [
            comm_0,
            comm_1,
            first,
            stolen,
            interrupted,
            ..,
            any_ran,
            _,
            _,
            any_able,
            _,
            _,
            asleep_0,
            asleep_1,
            asleep_2,
            asleep_3,
            request,
            reason,
            parked,
            ready,
            _,
            _,
            _,
            _,
            _,
            _,
            _,
            _,
            _,
        ] = comm;
        let closed = *mode == ENDED;
        let ended = if closed { *ended } else { stop }.max(*began);
        let change = |before: &u64, after: &u64| if closed { after.saturating_sub(*before) } else { 0 };
        Self {
            tid: *ids as u32,
            pid: (ids >> 32) as u32,
            process_born: *process_born,
            parent: *parent as u32,
            comm: words::text_of_words(&[*comm_0, *comm_1]),
            began: *began,
            ended,
            life: ended - began,
            stands_for: 1,
            edge: *edge,
            unknown: *unknown,
            unkept: *unkept,
            user: *user,
            kernel: *kernel,
            runq: *runq,
            stolen: *stolen,
            interrupted: *interrupted,
            kernel_thread: flags & 1 != 0,
            born: flags & 2 != 0,
            died: flags & 4 != 0,
            compat: flags & 8 != 0,
            given_up: flags & 16 != 0,
            passed: flags & 32 != 0,
            key: thread.last_chunk().copied().unwrap_or_default(),
            request: *request,
            goes_on: flags & 64 != 0,
            reason: *reason,
            parked: *parked,
            ready: *ready,
            any_ran: *any_ran,
            any_able: *any_able,
            gaps: BTreeMap::new(),
            change: Account {
                user: change(user_0, user_1),
                system: change(system_0, system_1),
                run: change(run_0, run_1),
                run_delay: change(delay_0, delay_1),
                faults: change(minor_0, minor_1).saturating_add(change(major_0, major_1)),
                majors: change(major_0, major_1),
            },
            cells: Vec::new(),
            first: *first,
            closed,
            asleep: [*asleep_0, *asleep_1, *asleep_2, *asleep_3],
        }
    }
}

impl Cell {
    pub(super) fn absorb(&mut self, other: &Self) {
        for (sum, value) in [
            (&mut self.count, other.count),
            (&mut self.ns, other.ns),
            (&mut self.open, other.open),
            (&mut self.open_ns, other.open_ns),
            (&mut self.on_ns, other.on_ns),
            (&mut self.within, other.within),
            (&mut self.bytes, other.bytes),
        ] {
            *sum = sum.saturating_add(value);
        }
        if other.max > self.max {
            (self.max, self.max_at) = (other.max, other.max_at);
        }
        match (&mut self.durations, &other.durations) {
            (Some(own), Some(other)) => own.add(other),
            (own, _) => *own = None,
        }
    }

    pub(super) fn new(cell: &CellWords, spread: Option<&SpreadWords>) -> Self {
        let [_, _, kind, stack, a, b, c, count, ns, min, max, max_at, rest @ ..] = cell;
        let [open, open_ns, open_at, on_ns, within, bytes, _, _, name @ ..] = rest;
        Self {
            kind: Kind(*kind),
            stack: *stack,
            object: [*a, *b, *c],
            count: *count,
            ns: *ns,
            max: *max,
            max_at: *max_at,
            open: *open,
            open_ns: *open_ns,
            open_at: *open_at,
            on_ns: *on_ns,
            within: *within,
            bytes: *bytes,
            durations: spread.map(|spread| durations(*count, *ns, *min, *max, spread)),
            name: words::text_of_words(name),
        }
    }
}

fn durations(count: u64, ns: u64, min: u64, max: u64, spread: &SpreadWords) -> Durations {
    let seconds = |ns: u64| ns as f64 * 1e-9;
    let pairs = spread.chunks_exact(2).enumerate();
    let buckets = pairs.filter_map(|(at, pair)| match pair {
        [0, _] => None,
        [count, sum] => Some(Bucket { below: below(at), count: *count, seconds: seconds(*sum) }),
        _ => None,
    });
    Durations { count, seconds: seconds(ns), min: seconds(min), max: seconds(max), buckets: buckets.collect() }
}

/// One duration, as the programs would have kept it.
pub(super) fn duration(ns: u64) -> Durations {
    let bucket = match ns.checked_ilog2() {
        Some(power) if power >= LOWEST => (power - LOWEST) as usize * 8 + (ns >> (power - 3) & 7) as usize + 1,
        _ => 0,
    };
    let seconds = ns as f64 * 1e-9;
    let bucket = Bucket { below: below(bucket.min(BUCKETS - 1)), count: 1, seconds };
    Durations { count: 1, seconds, min: seconds, max: seconds, buckets: vec![bucket] }
}

/// Upper bound of a bucket in seconds: those of a probe's histogram (`hist.rs`), from 256 ns on.
fn below(bucket: usize) -> f64 {
    let Some(at) = bucket.checked_sub(1) else { return f64::from(1_u32 << LOWEST) * 1e-9 };
    let (power, eighth) = (at / 8 + LOWEST as usize - 3, at % 8);
    (eighth + 9) as f64 * (power as f64).exp2() * 1e-9
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_single_duration_is_in_the_bucket_whose_bounds_it_lies_between() {
        for ns in [0, 1, 255, 256, 287, 288, 1_000, 40_000_000, 3_000_000_000] {
            let [bucket] = duration(ns).buckets[..] else { panic!("{ns}") };
            let seconds = ns as f64 * 1e-9;
            assert!(seconds < bucket.below && (ns < 256 || seconds >= bucket.below * 0.88), "{ns}: {bucket:?}");
        }
    }
}
