//! `perf.data`: what `perf record` wrote, as stacks. Both layouts are read, files and streams; memory grows with the distinct
//! stacks and addresses, and not with the samples; nothing that a file may say makes reading fail beyond an error.
//!
//! There are crates for this format. The one that was looked at (linux-perf-data 0.13) makes room for as many bytes as a damaged
//! file claims, and brings a compiler for protocol buffers for the files of another program.

mod attributes;
mod bytes;
mod header;
mod names;
mod order;
mod process;
mod sample;
mod tasks;

use std::collections::{BTreeMap, HashMap};
use std::io::{self, Read, Seek};

use attributes::{Event, MAX_EVENTS, MAX_IDS};
use bytes::Bytes;
use header::Layout;
use order::Order;
use tasks::Tasks;
use thiserror::Error;

pub use names::{Functions, Symbols, stacks};

/// Distinct stacks that are kept, counted in frames; more are summed up without a stack.
const MAX_FRAMES: usize = 16 << 20;
/// Distinct addresses, files and names.
const MAX_PLACES: usize = 1 << 20;
const MAX_NAMES: usize = 1 << 18;

/// A `perf.data` that cannot be used.
#[derive(Debug, Error)]
pub enum PerfDataError {
    /// It is something else, or damaged where nothing can be read without.
    #[error("it cannot be read as perf.data: {0}")]
    Foreign(String),
    /// Its records are compressed.
    #[error(
        "its records are compressed (perf record -z), which rdiag does not unpack; `perf script -i FILE` does, and rdiag reads \
         folded text"
    )]
    Compressed,
    /// It would take more memory or time than a profile may.
    #[error("{0}: more than a profile has; record for a shorter time, or fewer events, and try again")]
    TooLarge(String),
    /// The disk or the system failed.
    #[error(transparent)]
    Io(#[from] io::Error),
}

/// What a file says of events and files, beside its records.
#[derive(Debug, Default)]
struct Known {
    events: Vec<Event>,
    /// By path.
    build_ids: BTreeMap<String, Vec<u8>>,
    /// Whether the descriptions at its end were there.
    has_end: bool,
}

/// A file that was mapped into memory.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
struct Object {
    path: String,
    build_id: Option<Vec<u8>>,
}

/// Numbers of objects that are no files.
const KERNEL: u32 = 0;
const NOWHERE: u32 = 1;

/// The sums of equal stacks.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
struct Sum {
    value: f64,
    count: u64,
}

/// Distinct things, by number.
#[derive(Debug)]
struct Numbered<T> {
    numbers: HashMap<T, u32>,
    most: usize,
}

impl<T: std::hash::Hash + Eq> Numbered<T> {
    fn new(most: usize) -> Self {
        Self { numbers: HashMap::new(), most }
    }

    /// The number of a thing; none if it is new and there are too many.
    fn number(&mut self, thing: T) -> Option<u32> {
        let next = self.numbers.len();
        if next >= self.most {
            return self.numbers.get(&thing).copied();
        }
        Some(*self.numbers.entry(thing).or_insert(next as u32))
    }

    /// The things in order of their numbers.
    fn into_list(self) -> Vec<T> {
        let mut things: Vec<_> = self.numbers.into_iter().collect();
        things.sort_unstable_by_key(|(_, number)| *number);
        things.into_iter().map(|(thing, _)| thing).collect()
    }
}

/// Samples, summed up by addresses.
#[derive(Debug)]
pub struct Recorded {
    known: Known,
    by_id: HashMap<u64, usize>,
    many_ids: usize,
    tasks: Tasks,
    names: Numbered<String>,
    objects: Numbered<Object>,
    /// Object and place in it; of the kernel and of memory without a file, the address itself.
    places: Numbered<(u32, u64)>,
    /// Event, name, then places from the innermost.
    sums: HashMap<Box<[u32]>, Sum>,
    frames: usize,
    /// By event: what found no room.
    crowded: Vec<Sum>,
    /// By event: of stacks that were cut where an address is in no file.
    cut: Vec<f64>,
    /// Where a function of the kernel was, by its name.
    landmark: Option<(String, u64)>,
    first: u64,
    last: u64,
    samples: u64,
    /// Events that perf itself lost.
    lost: u64,
    damaged: u64,
    /// What the reader must know.
    notes: Vec<String>,
    scratch: Vec<u32>,
}

impl Recorded {
    /// Reads a file from its beginning.
    ///
    /// # Errors
    ///
    /// When it is no `perf.data`, or none that can be read here. One that ends early gives what it has, and a note.
    pub fn read<R: Read + Seek>(input: &mut R) -> Result<Self, PerfDataError> {
        let mut objects = Numbered::new(MAX_NAMES);
        for path in ["[kernel]", ""] {
            objects.number(Object { path: path.into(), build_id: None });
        }
        let mut recorded = Self {
            known: Known::default(),
            by_id: HashMap::new(),
            many_ids: 0,
            tasks: Tasks::default(),
            names: Numbered::new(MAX_NAMES),
            objects,
            places: Numbered::new(MAX_PLACES),
            sums: HashMap::new(),
            frames: 0,
            crowded: Vec::new(),
            cut: Vec::new(),
            landmark: None,
            first: u64::MAX,
            last: 0,
            samples: 0,
            lost: 0,
            damaged: 0,
            notes: Vec::new(),
            scratch: Vec::new(),
        };
        let layout = header::read(input, &mut recorded.known)?;
        for event in std::mem::take(&mut recorded.known.events) {
            recorded.add(event)?;
        }
        recorded.records(input, layout)?;
        if recorded.known.events.is_empty() {
            return Err(PerfDataError::Foreign("it does not say what was sampled".into()));
        }
        Ok(recorded)
    }

    /// Seconds from the first sample to the last.
    #[must_use]
    pub fn seconds(&self) -> f64 {
        self.last.saturating_sub(self.first) as f64 * 1e-9
    }

    /// Events that perf lost while it recorded.
    #[must_use]
    pub fn lost(&self) -> u64 {
        self.lost
    }

    /// Samples that were read.
    #[must_use]
    pub fn samples(&self) -> u64 {
        self.samples
    }

    /// One more event, described among the records.
    fn add(&mut self, event: Event) -> Result<(), PerfDataError> {
        let at = self.known.events.len();
        self.many_ids = self.many_ids.saturating_add(event.ids.len());
        if self.many_ids > MAX_IDS {
            return Err(PerfDataError::TooLarge(format!("its events have more than {MAX_IDS} ids")));
        }
        let is_told_apart = self.known.events.first().is_none_or(|first| places(first) == places(&event));
        if !is_told_apart {
            return Err(PerfDataError::Foreign("its samples do not say to which event they belong".into()));
        }
        self.by_id.extend(event.ids.iter().map(|id| (*id, at)));
        self.known.events.push(event);
        self.crowded.push(Sum::default());
        self.cut.push(0.0);
        Ok(())
    }

    fn records<R: Read>(&mut self, input: &mut R, layout: Layout) -> Result<(), PerfDataError> {
        let mut order = Order::default();
        let mut at = 0_u64;
        let size = match layout {
            Layout::File(size) => size,
            Layout::Stream => None,
        };
        let mut record = Vec::new();
        let mut ends = None;
        while size.is_none_or(|size| at < size) {
            let length = match read_record(input, &mut record) {
                Ok(0) if size.is_none() => break,
                Ok(length) => length,
                Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => 0,
                Err(error) => return Err(error.into()),
            };
            if length == 0 {
                ends = Some(at);
                break;
            }
            at = at.saturating_add(length as u64);
            at = at.saturating_add(self.take(&record, &mut order, input)?);
        }
        order.flush(true, |record| self.process(record));
        if let Some(at) = ends {
            let what = "the file is cut off or damaged";
            self.notes.push(format!("{what} {at} bytes into its records: what comes after is missing"));
        } else if layout == Layout::File(None) {
            self.notes.push("perf record was killed before it finished the file".into());
        } else if matches!(layout, Layout::File(_)) && !self.known.has_end {
            self.notes.push("the end of the file, with names of events and build ids, is missing or damaged".into());
        }
        Ok(())
    }

    /// Takes one record in. Gives back how many bytes of data that follow it were skipped.
    fn take<R: Read>(&mut self, record: &[u8], order: &mut Order, input: &mut R) -> Result<u64, PerfDataError> {
        let mut bytes = Bytes(record);
        let (Some(kind), Some(_misc), Some(_size)) = (bytes.u32(), bytes.u16(), bytes.u16()) else { return Ok(0) };
        let body = bytes.0;
        let mut skipped = 0;
        match kind {
            1..=63 => {
                let time = self.time(kind, body);
                order.add(time, record);
                if order.is_full() {
                    order.flush(false, |record| self.process(record));
                }
            }
            64 if self.known.events.len() < MAX_EVENTS => {
                let size = body.get(4..8).and_then(|size| Bytes(size).u32()).map_or(0, |size| size as usize);
                let parsed =
                    body.split_at_checked(size).and_then(|(attr, ids)| Some((Event::parse(attr)?, Bytes(ids))));
                if let Some((event, ids)) = parsed {
                    self.add(Event { ids: ids.words().collect(), ..event })?;
                }
            }
            // Data of its own length follows.
            66 => skipped = u64::from(bytes.u32().unwrap_or(0)).next_multiple_of(8),
            71 => skipped = bytes.u64().unwrap_or(0),
            67 => self.known.build_ids.extend(attributes::build_id(body)),
            68 => order.flush(false, |record| self.process(record)),
            80 => {
                let number = bytes.u64().and_then(|number| u32::try_from(number).ok());
                number.into_iter().for_each(|number| header::description(&mut self.known, number, bytes.0));
            }
            81 | 83 => return Err(PerfDataError::Compressed),
            _ => {}
        }
        if skipped > 0 {
            io::copy(&mut input.by_ref().take(skipped), &mut io::sink())?;
        }
        Ok(skipped)
    }

    fn event_of(&self, body: &[u8]) -> usize {
        let Some(first) = self.known.events.first().filter(|_| self.known.events.len() > 1) else { return 0 };
        sample::event_id(first, body).and_then(|id| self.by_id.get(&id)).copied().unwrap_or(0)
    }

    fn time(&self, kind: u32, body: &[u8]) -> u64 {
        let Some(first) = self.known.events.first() else { return 0 };
        match kind {
            9 => self.known.events.get(self.event_of(body)).map_or(0, |event| sample::sample_time(event, body)),
            _ => sample::other_time(first, body),
        }
    }
}

/// What a sample of an event begins with, as far as it says to which event it belongs.
fn places(event: &Event) -> u64 {
    use attributes::{ADDR, ID, IDENTIFIER, IP, TID, TIME};
    let all = IP | TID | TIME | ADDR | ID;
    event.sample_type & if event.sample_type & IDENTIFIER != 0 { IDENTIFIER } else { all }
}

/// One record with its header. 0 at a clean end.
fn read_record<R: Read>(input: &mut R, record: &mut Vec<u8>) -> io::Result<usize> {
    record.clear();
    input.by_ref().take(8).read_to_end(record)?;
    if record.is_empty() {
        return Ok(0);
    }
    let eof = || io::Error::from(io::ErrorKind::UnexpectedEof);
    let size = record.get(6..8).and_then(|size| Bytes(size).u16()).map_or(0, usize::from);
    let rest = size.checked_sub(8).ok_or_else(eof)?;
    let read = input.by_ref().take(rest as u64).read_to_end(record)?;
    if read == rest { Ok(size) } else { Err(eof()) }
}

#[cfg(test)]
mod tests;
