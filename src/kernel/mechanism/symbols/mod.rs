//! Names for addresses: functions of the kernel, of programs and libraries, and of code that was compiled at run time.
//!
//! Each distinct address of a process is looked up once, on a thread of its own: reading a binary's symbols can take long, and a file on a
//! dead network mount does not answer at all. A process must be looked up while it lives, so a collector of stacks calls
//! [`Symbols::learn`] as soon as it sees them; what came too late stays an address.
//!
//! Files are opened as the process has them mapped (/proc/PID/map_files), so containers and deleted files work; that takes CAP_SYS_ADMIN or
//! CAP_CHECKPOINT_RESTORE. Without it, the path is used, if the process sees the same mounts as rdiag. They are read by a process of its
//! own without privileges, since a local user chooses every byte of them (`reader/`).
//!
//! What names cost decides what a profile costs, since samples are few. Functions of the kernel are asked of the kernel (`running.rs`); its
//! whole list is read only where no program may be in it. A stripped file's symbols come from the open table of its debug file
//! (`debug_file.rs`); the compressed rest is unpacked only for lines of functions that took many samples. A file is read once for all
//! processes that have it mapped, and what a process has mapped is believed for a second (`mapped.rs`).
//!
//! The same process reads the tables by which callers are found in code without frame pointers (`unwind/`).

mod answers;
mod bounded;
mod debug_file;
mod files;
#[doc(hidden)]
pub mod fuzzed;
mod interpreted;
mod kernel;
mod lookup;
mod mapped;
mod maps;
mod memory;
mod named;
mod open;
mod perf_map;
mod process;
pub mod reader;
mod running;
mod stacks;
pub mod unwind;
mod variables;
mod vdso;
mod worker;

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::Arc;

pub use files::Files;
pub use interpreted::{CPython, CUT, HotSpot, INTERPRETED, Interpreter, Language, Layout, Parked, V8};
pub use perf_map::OBJECT as COMPILED;
use perf_map::PerfMaps;
pub use process::Process;
pub use stacks::{Part, Piece, Sample, Summary, calls, functions, is_start, summarize};

use crate::host::Host;
use crate::mechanism::descriptors;
use crate::mechanism::ebpf::Kernel;
use mapped::{Lately, Mapped};
use maps::{Kind, Maps};
use rdiag_model::probe::Frame;
use running::Running;
use worker::{Detail, Of, Worker};

/// Addresses that are remembered at most; each takes some 50 bytes, and its name once.
const MAX_KNOWN: usize = 100_000;
/// How long a reading waits for names that were asked for, in seconds: a large binary, or a slow machine.
const PATIENCE: f64 = 10.0;
const CAP_SYS_ADMIN: u64 = 1 << 21;
const CAP_CHECKPOINT_RESTORE: u64 = 1 << 40;

/// What is known of an address.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Known {
    /// The answer is outstanding.
    Asked,
    /// Frames at this address, outermost first: functions that were inlined stand behind the one that holds them.
    Named(Vec<u32>),
    /// No name; its frame is the address.
    Unnamed(u32),
    /// Nothing is executed there.
    NoCode,
}

/// What stands at an address.
#[derive(Debug, Clone, PartialEq, Eq)]
enum At {
    /// Frames, outermost first, and whether they have names.
    Frames(Vec<u32>, bool),
    /// The process has no code there: no function was called from it.
    NoCode,
}

/// Where an address lies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place<'s> {
    /// The function whose code it is.
    pub function: &'s Frame,
    /// The innermost of the functions that were inlined there, or the same. Its line is the one that was executed.
    pub inner: &'s Frame,
    /// Whether they have names.
    pub named: bool,
}

/// Addresses and their names. `None` as process is the kernel.
#[derive(Debug, Default)]
pub struct Symbols {
    worker: Option<Worker>,
    given_up: bool,
    /// What knows the kernel's functions, where programs may be in the kernel.
    running: Option<Running>,
    known: HashMap<(Option<Process>, u64), Known>,
    frames: Vec<Frame>,
    index: BTreeMap<Frame, u32>,
    notes: BTreeSet<String>,
    /// The kernel shows no addresses of its own.
    no_kernel: bool,
    /// Addresses whose lines were asked for after their functions.
    lines: HashSet<(Process, u64)>,
    /// Addresses of which variables were asked for.
    variables: HashSet<(Process, u64)>,
    /// Bytes of stacks that are being walked, and those that have been.
    dumped: usize,
    walked: Vec<unwind::Walked>,
    /// What looks for interpreters, which names of large binaries would keep waiting.
    finder: Option<Worker>,
    /// Threads that machines of Java have parked.
    parked: HashMap<Process, Vec<Parked>>,
    /// Processes that run programs of Go.
    of_go: HashSet<Process>,
    mapped: Lately,
    compiled: PerfMaps,
}

impl Symbols {
    /// Functions of the kernel are asked of itself, if a program may be in it; else its list is read, which begins at once, so that
    /// it is there when it is needed.
    #[must_use]
    pub fn new(host: &Host, kernel: Option<&Kernel>) -> Self {
        let running = kernel.and_then(|kernel| Running::open(kernel).ok());
        let mut symbols = Self { running, ..Self::default() };
        if symbols.running.is_none() {
            symbols.begin_list(host);
        }
        symbols
    }

    fn begin_list(&mut self, host: &Host) {
        match kernel::hidden(host) {
            Some(why) => {
                self.no_kernel = true;
                self.notes.insert(why);
            }
            None => self.ask(Of::Kernel, None, Vec::new(), Arc::default(), Detail::Name),
        }
    }

    /// Looks up those addresses of a process, or of the kernel, that are new. Names come later.
    pub fn learn(&mut self, host: &Host, process: Option<Process>, addresses: impl IntoIterator<Item = u64>) {
        self.learn_in(host, process, addresses, Detail::Line);
    }

    /// The same for functions alone, without what was inlined into them and without lines, at a part of the cost.
    pub fn learn_functions(&mut self, host: &Host, process: Option<Process>, addresses: impl IntoIterator<Item = u64>) {
        self.learn_in(host, process, addresses, Detail::Name);
    }

    /// Looks up what is inlined at addresses whose functions are known, and their lines.
    pub fn learn_lines(&mut self, host: &Host, process: Process, addresses: impl IntoIterator<Item = u64>) {
        let known = |at: &u64| matches!(self.known.get(&(Some(process), *at)), Some(Known::Named(_)));
        let wanted = |at: &u64| known(at) && !self.lines.contains(&(process, *at)) && self.lines.len() < MAX_KNOWN;
        let fresh: Vec<u64> = addresses.into_iter().filter(wanted).collect();
        if fresh.is_empty() {
            return;
        }
        self.lines.extend(fresh.iter().map(|at| (process, *at)));
        let Some(Mapped { maps, same_mounts, .. }) = self.mapped.of(host, process, &fresh) else { return };
        let by_link = sees_map_files(host);
        if !by_link && !same_mounts {
            return;
        }
        let in_files = |at: &u64| maps.kind(*at) == Some(Kind::File) && (by_link || !maps.is_deleted(*at));
        let fresh: Vec<u64> = fresh.into_iter().filter(in_files).collect();
        if let Some(worker) = &mut self.worker {
            // A question that finds no room costs lines, not names.
            let of = Of::Process { pid: process.pid, by_link, by_path: same_mounts };
            worker.ask(of, Some(process), fresh, maps, Detail::Line);
        }
    }

    fn learn_in(
        &mut self,
        host: &Host,
        process: Option<Process>,
        addresses: impl IntoIterator<Item = u64>,
        detail: Detail,
    ) {
        self.take_answers(host, 0.0);
        let mut fresh: Vec<u64> =
            addresses.into_iter().filter(|at| !self.known.contains_key(&(process, *at))).collect();
        fresh.sort_unstable();
        fresh.dedup();
        if self.known.len().saturating_add(fresh.len()) > MAX_KNOWN {
            self.notes.insert(format!("only the first {MAX_KNOWN} distinct addresses were looked up"));
            fresh.truncate(MAX_KNOWN.saturating_sub(self.known.len()));
        }
        if fresh.is_empty() {
            return;
        }
        let Some(process) = process else {
            self.learn_kernel(host, fresh);
            return;
        };
        let Some(Mapped { maps, same_mounts, .. }) = self.mapped_of(host, process, &fresh) else {
            fresh.iter().for_each(|at| self.unnamed(Some(process), *at, None));
            return;
        };
        let (fresh, elsewhere): (Vec<u64>, Vec<u64>) = fresh.into_iter().partition(|at| maps.kind(*at).is_some());
        self.known.extend(elsewhere.into_iter().map(|at| ((Some(process), at), Known::NoCode)));
        let (in_memory, mut in_files): (Vec<u64>, Vec<u64>) =
            fresh.into_iter().partition(|at| matches!(maps.kind(*at), Some(Kind::Memory | Kind::MemoryFile)));
        if !in_memory.is_empty() {
            in_files.extend(self.compiled_at_run_time(host, process, &in_memory));
        }
        let by_link = sees_map_files(host);
        if by_link || same_mounts {
            if !by_link {
                // Where its path leads now is another file.
                let (gone, there) = in_files.into_iter().partition(|at| maps.is_deleted(*at));
                in_files = there;
                self.unnamed_all(process, gone, &maps);
            }
            let of = Of::Process { pid: process.pid, by_link, by_path: same_mounts };
            self.ask(of, Some(process), in_files, maps, detail);
        } else {
            self.notes.insert("processes in another mount namespace have no names without CAP_SYS_ADMIN".into());
            self.unnamed_all(process, in_files, &maps);
        }
    }

    /// What a process has mapped; none if it has ended, or if no more files can be opened, which is reported.
    fn mapped_of(&mut self, host: &Host, process: Process, addresses: &[u64]) -> Option<Mapped> {
        self.mapped.of(host, process, addresses).or_else(|| {
            if !descriptors::are_exhausted() {
                return None;
            }
            descriptors::make_room(u64::MAX);
            let mapped = self.mapped.of(host, process, addresses);
            if mapped.is_none() && descriptors::are_exhausted() {
                self.notes.insert(worker::TOO_MANY_FILES.to_owned());
            }
            mapped
        })
    }

    fn learn_kernel(&mut self, host: &Host, fresh: Vec<u64>) {
        match self.running.as_mut().map(|running| running.names(&fresh)) {
            Some(Some(names)) => {
                let names = names.into_iter().map(|name| name.into_iter().collect()).collect();
                let maps = Arc::default();
                return self.take(worker::Symbolized {
                    process: None,
                    addresses: fresh,
                    names,
                    maps,
                    notes: Vec::new(),
                    walked: Default::default(),
                    interpreter: None,
                    parked: Vec::new(),
                    is_go: None,
                });
            }
            Some(None) => {
                self.running = None;
                self.begin_list(host);
            }
            None => {}
        }
        if self.no_kernel {
            fresh.iter().for_each(|at| self.unnamed(None, *at, None));
        } else {
            self.ask(Of::Kernel, None, fresh, Arc::default(), Detail::Name);
        }
    }

    fn unnamed_all(&mut self, process: Process, addresses: Vec<u64>, maps: &Maps) {
        addresses.iter().for_each(|at| self.unnamed(Some(process), *at, Some(maps)));
    }

    /// The frames at an address, as indices into [`Self::frames`].
    fn at(&mut self, process: Option<Process>, address: u64) -> At {
        match self.known.get(&(process, address)) {
            Some(Known::Named(frames)) => At::Frames(frames.clone(), true),
            Some(Known::Unnamed(frame)) => At::Frames(vec![*frame], false),
            Some(Known::NoCode) => At::NoCode,
            Some(Known::Asked) | None => {
                let frame = address_frame(address, process.is_none(), None);
                At::Frames(vec![self.intern(frame)], false)
            }
        }
    }

    /// The function that was compiled to the code at an address, and the place in its source; none if the process has no code
    /// there. Functions that were inlined are part of the one that holds them.
    pub fn place(&mut self, process: Option<Process>, address: u64) -> Option<Place<'_>> {
        let At::Frames(frames, named) = self.at(process, address) else { return None };
        let frame = |index: Option<&u32>| index.and_then(|index| self.frames.get(*index as usize));
        Some(Place { function: frame(frames.first())?, inner: frame(frames.last())?, named })
    }

    /// The name of the outermost function at an address, as far as it is known by now.
    #[must_use]
    pub fn name(&self, process: Option<Process>, address: u64) -> Option<&str> {
        self.frame(process, address).map(|frame| frame.name.as_str())
    }

    /// The function and its file, if they are known.
    #[must_use]
    pub fn frame(&self, process: Option<Process>, address: u64) -> Option<&Frame> {
        let Some(Known::Named(frames)) = self.known.get(&(process, address)) else { return None };
        frames.first().and_then(|frame| self.frames.get(*frame as usize))
    }

    /// The distinct frames.
    #[must_use]
    pub fn frames(&self) -> &[Frame] {
        &self.frames
    }

    /// The index of a frame that stands for no address.
    pub fn intern(&mut self, frame: Frame) -> u32 {
        if let Some(index) = self.index.get(&frame) {
            return *index;
        }
        let index = u32::try_from(self.frames.len()).unwrap_or(u32::MAX);
        self.frames.push(frame.clone());
        self.index.insert(frame, index);
        index
    }

    /// Why names are missing.
    pub fn notes(&self) -> impl Iterator<Item = &str> {
        self.notes.iter().map(String::as_str).chain(self.mapped.whys())
    }

    /// Code without a file: the process itself may have written down what is where. Gives back what has no name.
    fn compiled_at_run_time(&mut self, host: &Host, process: Process, addresses: &[u64]) -> Vec<u64> {
        let map = self.compiled.of(host, process);
        let mut nameless = Vec::new();
        for address in addresses {
            let Some(name) = map.as_ref().and_then(|map| map.name(*address)) else {
                nameless.push(*address);
                continue;
            };
            let frame = Frame { name: name.to_owned(), object: Some(perf_map::OBJECT.into()), ..Frame::default() };
            let frame = self.intern(frame);
            self.known.insert((Some(process), *address), Known::Named(vec![frame]));
        }
        nameless
    }

    fn unnamed(&mut self, process: Option<Process>, address: u64, maps: Option<&Maps>) {
        let frame = self.intern(address_frame(address, process.is_none(), maps));
        self.known.insert((process, address), Known::Unnamed(frame));
    }
}

/// Whether files can be opened as a process has them mapped.
fn sees_map_files(host: &Host) -> bool {
    host.facts().capabilities & (CAP_SYS_ADMIN | CAP_CHECKPOINT_RESTORE) != 0
}

/// What stands for an address without a name.
fn address_frame(address: u64, kernel: bool, maps: Option<&Maps>) -> Frame {
    let object = if kernel { Some(kernel::OBJECT) } else { maps.and_then(|maps| maps.object(address)) };
    let compiled = maps.is_some_and(|maps| maps.kind(address) == Some(Kind::Memory));
    let place = maps.and_then(|maps| maps.place(address));
    Frame {
        name: place.unwrap_or_else(|| format!("{address:#x}")),
        object: if compiled { Some(COMPILED.to_owned()) } else { object.map(str::to_owned) },
        line: None,
        kernel,
    }
}

#[cfg(test)]
mod tests;
