//! The programs' records, word by word as response.h lays them out, taken over and given free.

use std::collections::BTreeMap;

use rdiag_kernel::mechanism::ebpf::{Object, words};
use rdiag_kernel::mechanism::symbols::Process;
use rdiag_model::Unavailable;
use rdiag_model::ledger::{Bucket, Durations};

use super::kind::{Kind, Type};
use super::open::{Gap, Why};

/// Words of `struct thread`, `struct cell`, `struct spread`.
pub(super) type ThreadWords = [u64; THREAD_WORDS];
/// As many as `struct thread` has.
pub(super) const THREAD_WORDS: usize = 192 + 5 + 1 + KEY_WORDS;
/// Of what a request is called by: room for text.
pub(super) const KEY_WORDS: usize = 8;
/// Whether it was read, and what.
pub(super) type RawKey = [u64; 1 + KEY_WORDS];
type CellWords = [u64; 24];
const BUCKETS: usize = 241;
type SpreadWords = [u64; 2 * BUCKETS];

/// The lowest power of two that has buckets of its own.
const LOWEST: u32 = 8;
/// Places of threads, a power of two.
const PLACES: u32 = 65_536;
/// Element of `control`: whether any thread has found no room.
const PASSED_BY: u32 = 3;
/// Cells of one thread: a list that is longer has lost its end.
const MAX_CELLS: usize = 100_000;

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
    /// Time in which no thread had it.
    pub(super) gaps: BTreeMap<Why, Gap>,
    /// What the kernel's own counters grew by.
    pub(super) change: Account,
    pub(super) cells: Vec<Cell>,
    pub(super) first: u64,
    pub(super) closed: bool,
}

impl Record {
    /// Its process, for looking up addresses.
    pub(super) fn process(&self) -> Process {
        Process { pid: self.pid, born: self.process_born }
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
    fn new(thread: &ThreadWords, stop: u64) -> Self {
        const ENDED: u64 = 6;
        let [mode, _, began, ended, edge, unknown, unkept, user, kernel, _, runq, _, rest @ ..] = thread;
        let [user_0, system_0, run_0, delay_0, minor_0, major_0, rest @ ..] = rest;
        let [user_1, system_1, run_1, delay_1, minor_1, major_1, ids, process_born, parent, flags, comm @ ..] = rest;
        let [comm_0, comm_1, first, stolen, interrupted, .., request, reason, parked, ready, _, _, _, _, _, _, _, _, _] =
            comm;
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

    fn new(cell: &CellWords, spread: Option<&SpreadWords>) -> Self {
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

/// How many of each kind of record there is room for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Room {
    pub(super) threads: u32,
    pub(super) cells: u32,
    pub(super) spreads: u32,
}

/// Room for so many threads. A cell takes 200 bytes, a spread 4 KB, a thread 1.6 KB; each that is free costs a call at the start.
pub(super) fn room(threads: u32) -> Room {
    let threads = threads.saturating_mul(4).clamp(512, 8192);
    Room {
        threads,
        cells: threads.saturating_mul(16).clamp(16_384, 65_536),
        spreads: threads.saturating_mul(2).clamp(2048, 8192),
    }
}

/// Says what is free; cell and spread 0 stand for none.
pub(super) fn fill_free_lists(object: &mut Object, room: Room) -> Result<(), Unavailable> {
    object.push("free_threads", 0..room.threads)?;
    object.push("free_cells", 1..room.cells)?;
    object.push("free_spreads", 1..room.spreads)
}

/// Whether any thread was taken in since the start: places are given in ascending order.
pub(super) fn is_any_observed(object: &Object) -> Result<bool, Unavailable> {
    let first: ThreadWords = object.element("threads", 0)?;
    Ok(first.first() != Some(&0))
}

/// Takes the record at a slot with all its cells, and gives their places free; none if no thread is there.
pub(super) fn take(object: &mut Object, slot: u32, stop: u64) -> Result<Option<Record>, Unavailable> {
    let thread: ThreadWords = object.element("threads", slot)?;
    if thread.first() == Some(&0) {
        return Ok(None);
    }
    let mut record = Record::new(&thread, stop);
    let (mut at, mut cells, mut spreads) = (record.first as u32, Vec::new(), Vec::new());
    while at != 0 && cells.len() < MAX_CELLS {
        let cell: CellWords = object.element("cells", at)?;
        let [owner, tag, .., spread, next, _, _, _, _] = cell;
        let taken = if spread == 0 { None } else { Some(object.element("spreads", spread as u32)?) };
        record.cells.push(Cell::new(&cell, taken.as_ref()));
        object.forget::<[u64; 2], u32>("names", &[owner, tag])?;
        object.set_element("cells", at, [0_u64; 24])?;
        cells.push(at);
        if spread != 0 {
            object.set_element("spreads", spread as u32, [0_u64; 2 * BUCKETS])?;
            spreads.push(spread as u32);
        }
        at = next as u32;
    }
    let place = record.tid % PLACES;
    let there: u64 = object.element("places", place)?;
    if there == u64::from(record.tid) | u64::from(slot) << 32 {
        object.set_element("places", place, 0_u64)?;
    }
    object.set_element("threads", slot, [0_u64; THREAD_WORDS])?;
    object.push("free_cells", cells)?;
    object.push("free_spreads", spreads)?;
    object.push("free_threads", [slot])?;
    Ok(Some(record))
}

/// Threads that found no room: how many, and their time until the observation stopped.
pub(super) fn passed_by(object: &mut Object, stop: u64) -> Result<(u64, u64), Unavailable> {
    let ended = object.take_counts("passed_by_ended")?;
    let [count, ns] = ended.as_slice() else { return Ok((0, 0)) };
    let there = object.take_hash::<u32, u64>("passed_by")?;
    let lives = there.iter().fold(*ns, |sum, (_, since)| sum.saturating_add(stop.saturating_sub(*since)));
    object.set_element("control", PASSED_BY, 0_u64)?;
    Ok((count.saturating_add(there.len() as u64), lives))
}

/// What a thread has met so far that only its process can tell the names of.
#[derive(Debug, Default)]
pub(super) struct Met {
    /// Names of user stacks.
    pub(super) stacks: Vec<u64>,
    /// Addresses of futexes, and names of the tops of stacks that waited for them.
    pub(super) futexes: Vec<u64>,
    pub(super) tops: Vec<u64>,
}

impl Met {
    pub(super) fn add(&mut self, kind: Kind, object: u64, top: u64) {
        match kind.of() {
            Type::Stack => self.stacks.push(object),
            Type::Wait if kind.unknown_futex() => {
                self.futexes.push(object);
                self.tops.extend((top != 0).then_some(top));
            }
            _ => {}
        }
    }
}

/// What a live thread has met, with its process; nothing is changed.
pub(super) fn met(object: &Object, slot: u32) -> Result<Option<(Process, Met)>, Unavailable> {
    let thread: ThreadWords = object.element("threads", slot)?;
    if thread.first() == Some(&0) {
        return Ok(None);
    }
    let record = Record::new(&thread, 0);
    let (mut at, mut met, mut seen) = (record.first as u32, Met::default(), 0);
    while at != 0 && seen < MAX_CELLS {
        let cell: CellWords = object.element("cells", at)?;
        let [_, _, kind, _, of, top, .., next, _, _, _, _] = cell;
        met.add(Kind(kind), of, top);
        at = next as u32;
        seen += 1;
    }
    Ok(Some((record.process(), met)))
}

/// The time in each of a live thread's cells, by kind; none if they are more than `most`. Nothing is changed.
pub(super) fn cells_of(object: &Object, first: u64, most: usize) -> Result<Option<Vec<(Kind, u64)>>, Unavailable> {
    let (mut at, mut sums) = (first as u32, Vec::new());
    while at != 0 {
        if sums.len() >= most {
            return Ok(None);
        }
        let cell: CellWords = object.element("cells", at)?;
        let [_, _, kind, _, _, _, _, _, ns, _, _, _, _, open_ns, _, _, _, _, _, next, ..] = cell;
        sums.push((Kind(kind), ns.saturating_add(open_ns)));
        at = next as u32;
    }
    Ok(Some(sums))
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
