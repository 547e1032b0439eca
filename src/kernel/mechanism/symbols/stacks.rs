//! Sums by addresses → sums by names, and how far they can be trusted.

use std::collections::{BTreeMap, HashMap};

use super::{At, CUT, INTERPRETED, Process, Symbols, interpreted};
use crate::host::Host;
use rdiag_model::Unit;
use rdiag_model::probe::{Frame, Stack, Stacks};

/// Functions at which a thread begins, in C libraries and run times. A user stack that ends elsewhere was cut.
const STARTS: &[&str] = &[
    "_start",
    "__libc_start_main",
    "__libc_start_main_impl",
    "__libc_start_call_main",
    "_start_c",
    "_dl_start_user",
    "clone",
    "clone3",
    "__clone",
    "__clone3",
    "__clone_internal",
    "start_thread",
    "start",
    "thread_start",
    "runtime.goexit",
    "runtime.goexit.abi0",
    "runtime.rt0_go",
    "runtime.rt0_go.abi0",
    "runtime.mstart",
    "runtime.mstart.abi0",
];

/// Whether a thread begins with a function of this name.
#[must_use]
pub fn is_start(name: &str) -> bool {
    STARTS.contains(&name)
}

/// What the kernel gave for one half of a stack.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part<'a> {
    /// Addresses, innermost first.
    Taken(&'a [u64]),
    /// The same up to the start of its thread, as unwind tables say.
    Whole(&'a [u64]),
    /// There is none, or it was not asked for.
    None,
    /// It could not be taken.
    Missing,
}

/// One piece of a stack that is put together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Piece<'a> {
    /// Frames of a process, or of the kernel (no process). A waker's stack stands `reversed`, so that it begins where the
    /// other ends.
    Frames {
        /// Whose addresses.
        process: Option<Process>,
        /// The addresses.
        part: Part<'a>,
        /// Innermost first.
        reversed: bool,
    },
    /// Frames of the kernel that have their names already, innermost first, and whether there may be more.
    Named(&'a [Frame], bool),
    /// A line that is no function.
    Mark(String),
}

/// A sum as the kernel keeps it.
#[derive(Debug, Clone, PartialEq)]
pub struct Sample<'a> {
    /// Whose it is.
    pub owner: String,
    /// Its process.
    pub pid: Option<u32>,
    /// The stack, outermost piece first.
    pub pieces: Vec<Piece<'a>>,
    /// In the unit of the whole.
    pub value: f64,
    /// How many times.
    pub count: u64,
}

/// What is summed up.
#[derive(Debug, Clone, Copy)]
pub struct Summary<'s> {
    /// Name within the probe.
    pub id: &'s str,
    /// What is summed.
    pub title: &'s str,
    /// Base unit of the values.
    pub unit: Unit,
    /// Stacks that are kept.
    pub top: usize,
    /// As many addresses as the kernel takes at most.
    pub depth: usize,
}

/// What is added up: owner, its process, frames.
type Kind<'k> = (&'k str, Option<u32>, Vec<u32>);

/// Names all addresses, of which `symbols` has been told, and adds up what has the same owner and names. Nothing fails: an address
/// without a name stands for itself, and the shares tell how much of the whole that concerns.
#[must_use]
pub fn summarize(host: &Host, symbols: &mut Symbols, samples: &[Sample<'_>], of: Summary<'_>) -> Stacks {
    symbols.settle(host);
    let mut whole = Stacks { id: of.id.into(), title: of.title.into(), unit: of.unit, ..Stacks::default() };
    let mut sums: BTreeMap<Kind<'_>, (f64, u64)> = BTreeMap::new();
    for sample in samples {
        let stack = put_together(symbols, &sample.pieces, of.depth);
        if stack.missing && stack.frames.is_empty() {
            whole.missing += sample.value;
            continue;
        }
        whole.unresolved += if stack.unresolved { sample.value } else { 0.0 };
        whole.truncated += if stack.truncated || stack.missing { sample.value } else { 0.0 };
        let sum = sums.entry((&sample.owner, sample.pid, stack.frames)).or_default();
        sum.0 += sample.value;
        sum.1 += sample.count;
    }
    let mut sums: Vec<_> = sums.into_iter().collect();
    sums.sort_by(|(_, (a, _)), (_, (b, _))| b.total_cmp(a));
    whole.others = sums.iter().skip(of.top).map(|(_, (value, _))| value).sum();
    sums.truncate(of.top);
    // Only the frames that are left.
    let mut places: HashMap<u32, u32> = HashMap::new();
    for ((owner, pid, frames), (value, count)) in sums {
        let place = |frame: u32| {
            *places.entry(frame).or_insert_with(|| {
                whole.frames.push(symbols.frames().get(frame as usize).cloned().unwrap_or_default());
                u32::try_from(whole.frames.len() - 1).unwrap_or(u32::MAX)
            })
        };
        let frames = frames.into_iter().map(place).collect();
        whole.stacks.push(Stack { owner: owner.to_owned(), pid, frames, value, count });
    }
    whole
}

/// The functions of one stack, innermost first, of whose addresses `symbols` has been told; and whether there are more, which could
/// not be taken or not be believed. At most `depth` addresses can be taken.
#[must_use]
pub fn functions(symbols: &mut Symbols, pieces: &[Piece<'_>], depth: usize) -> (Vec<Frame>, bool) {
    let whole = put_together(symbols, pieces, depth);
    let frame = |frame: &u32| symbols.frames().get(*frame as usize).cloned();
    (whole.frames.iter().rev().filter_map(frame).collect(), whole.truncated || whole.missing)
}

#[derive(Default)]
struct Whole {
    frames: Vec<u32>,
    unresolved: bool,
    truncated: bool,
    missing: bool,
}

fn put_together(symbols: &mut Symbols, pieces: &[Piece<'_>], depth: usize) -> Whole {
    let mut whole = Whole::default();
    for piece in pieces {
        let (process, part, reversed) = match piece {
            Piece::Mark(text) => {
                let frame = symbols.intern(Frame { name: text.clone(), ..Frame::default() });
                whole.frames.push(frame);
                continue;
            }
            Piece::Named(frames, is_cut) => {
                whole.frames.extend(frames.iter().rev().map(|frame| symbols.intern(frame.clone())));
                whole.truncated |= is_cut;
                continue;
            }
            Piece::Frames { process, part, reversed } => (*process, *part, *reversed),
        };
        let addresses = match part {
            Part::Taken(addresses) | Part::Whole(addresses) => addresses,
            Part::None => continue,
            Part::Missing => {
                whole.missing = true;
                continue;
            }
        };
        let mut frames: Vec<u32> = Vec::with_capacity(addresses.len());
        // Where code has no frame pointers, what is taken for the next caller may be anything: from there on outwards
        // nothing can be believed.
        let looked_up: Vec<At> = calls(process, addresses).map(|address| symbols.at(process, address)).collect();
        let believed = looked_up.iter().position(|at| *at == At::NoCode).unwrap_or(looked_up.len());
        whole.truncated |= believed < looked_up.len();
        for at in looked_up.into_iter().take(believed).rev() {
            if let At::Frames(at, named) = at {
                whole.unresolved |= !named;
                frames.extend(at);
            }
        }
        let outermost = frames.first().and_then(|frame| symbols.frames().get(*frame as usize));
        // Of Python; others are among functions of the processor.
        let is_interpreted = addresses.len() > 1 && addresses.iter().skip(1).all(|word| word & INTERPRETED != 0);
        let begins = match process {
            Some(_) if is_interpreted => addresses.last() != Some(&CUT) && addresses.len() < interpreted::DEPTH,
            Some(_) => outermost.is_some_and(|frame| is_start(&frame.name)),
            None => true,
        };
        let is_whole = matches!(part, Part::Whole(_)) || (begins && addresses.len() < depth);
        whole.truncated |= !is_whole;
        if reversed {
            frames.reverse();
        }
        whole.frames.append(&mut frames);
    }
    whole
}

/// The addresses to look up, innermost first. All but the place where a program was interrupted are those to return to,
/// which may belong to the next line, or even the next function; the call stands right before them.
pub fn calls(process: Option<Process>, addresses: &[u64]) -> impl DoubleEndedIterator<Item = u64> {
    let at = move |(place, address): (usize, &u64)| {
        let is_one = process.is_some() && (place == 0 || *address & INTERPRETED != 0);
        if is_one { *address } else { address.saturating_sub(1) }
    };
    addresses.iter().enumerate().map(at)
}
