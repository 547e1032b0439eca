//! The programs' records, taken over and given free.

use rdiag_kernel::mechanism::ebpf::{Kernel, Object};
use rdiag_model::{Reason, Unavailable};

use super::kind::{Kind, Type};
use super::record::{BUCKETS, Cell, CellWords, Record, THREAD_WORDS, ThreadWords};

/// Places of threads, a power of two.
const PLACES: u32 = 65_536;
/// Element of `control`: whether any thread has found no room.
const PASSED_BY: u32 = 3;
/// Cells of one thread: a list that is longer has lost its end.
const MAX_CELLS: usize = 100_000;

/// How many of each kind of record there is room for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Room {
    pub(super) threads: u32,
    pub(super) cells: u32,
    pub(super) spreads: u32,
}

/// Room for so many threads, at most as many cells as there are places. A cell takes 200 bytes, a spread 4 KB, a thread 1.8 KB.
pub(super) fn room(threads: u32) -> Room {
    let threads = threads.saturating_mul(4).clamp(512, 8192);
    Room {
        threads,
        // A thread that begins, works and ends makes a dozen calls of different kinds, and has sums of waits and their stacks beside.
        cells: threads.saturating_mul(24).clamp(16_384, PLACES),
        spreads: threads.saturating_mul(2).clamp(2048, 8192),
    }
}

/// Has a program inside the kernel say what is free.
pub(super) fn fill_free_lists(object: &mut Object, kernel: &Kernel) -> Result<(), Unavailable> {
    object.load_iterator(kernel, "fill_free_lists", "bpf_map")?;
    object.iterate("fill_free_lists", &mut Vec::new()).map_err(|error| {
        Unavailable::new(Reason::Malformed, format!("the list of BPF maps could not be read: {error}"))
    })
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
    /// Words that stand for the classes of what machines of Java parked it for.
    pub(super) parked_for: Vec<u64>,
}

impl Met {
    pub(super) fn add(&mut self, kind: Kind, object: u64, top: u64) {
        match kind.of() {
            Type::Stack => self.stacks.push(object),
            Type::Wait if kind.parked() => self.parked_for.push(object),
            Type::Wait if kind.unknown_futex() => {
                self.futexes.push(object);
                self.tops.extend((top != 0).then_some(top));
            }
            _ => {}
        }
    }
}

/// What a live thread has met, with its record so far; nothing is changed.
pub(super) fn met(object: &Object, slot: u32) -> Result<Option<(Record, Met)>, Unavailable> {
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
    Ok(Some((record, met)))
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
