//! The thread that reads symbols.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, SyncSender};
use std::time::Duration;

use blazesym::symbolize::source::{Elf, Kernel, Process as UserProcess, Source};
use blazesym::symbolize::{CodeInfo, Input, Sym, Symbolized, Symbolizer};
use blazesym::{MaybeDefault, Pid};

use super::Process;
use super::debug_file::{self, Segments};
use super::maps::{InFile, Maps};
use crate::mechanism::descriptors;

/// Questions that may wait.
const QUEUE: usize = 4096;
/// After so many processes what was read of their files is dropped: each file keeps a descriptor and memory.
const PROCESSES: usize = 128;
/// Longest name that is kept, in characters; templates of C++ can be longer than any page.
pub(super) const MAX_NAME: usize = 500;

pub(super) const TOO_MANY_FILES: &str =
    "names are missing, as no more files can be opened (raise the limit with `ulimit -n`)";

/// Whose addresses.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Of {
    Kernel,
    Process {
        pid: u32,
        through_map_files: bool,
    },
    /// Places in a file, by their offsets; the file must have this build id, if one is known.
    File {
        path: PathBuf,
        build_id: Option<Vec<u8>>,
    },
}

struct Question {
    of: Of,
    process: Option<Process>,
    addresses: Vec<u64>,
    maps: Maps,
    detail: Detail,
}

/// How much is wanted of an address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Detail {
    /// Its function: the table of symbols tells, and debug information is read only where that does not.
    Name,
    /// Inlined functions and lines too, for which debug information is read.
    Line,
}

/// The answer to a question, for each of its addresses: the functions there, outermost first; none if it has no name.
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) process: Option<Process>,
    pub(super) addresses: Vec<u64>,
    pub(super) names: Vec<Vec<Named>>,
    pub(super) maps: Maps,
    /// Why the file was not believed.
    pub(super) refused: Option<String>,
}

/// A function.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Named {
    pub(super) name: String,
    /// Module of the kernel that it belongs to.
    pub(super) module: Option<String>,
    pub(super) line: Option<String>,
}

/// Why there is no answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum End {
    /// Not yet.
    Empty,
    /// Never more.
    Gone,
}

/// A thread that answers questions in order. It ends when it is dropped and has answered what it has begun.
#[derive(Debug)]
pub(super) struct Worker {
    questions: SyncSender<Question>,
    answers: Receiver<Answer>,
    pub(super) outstanding: usize,
}

impl std::fmt::Debug for Question {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} addresses of {:?}", self.addresses.len(), self.of)
    }
}

impl Worker {
    pub(super) fn start() -> Option<Self> {
        let (questions, asked) = mpsc::sync_channel::<Question>(QUEUE);
        let (answer, answers) = mpsc::channel();
        let run = move || {
            let mut symbolizer = Symbolizer::new();
            let mut processes = 0;
            for question in asked {
                processes += usize::from(question.process.is_some());
                if processes > PROCESSES {
                    processes = 0;
                    symbolizer = Symbolizer::new();
                }
                let Question { of, process, addresses, maps, detail } = question;
                let mut refused = refused(&of);
                let look_up = |symbolizer: &Symbolizer| match detail {
                    Detail::Line => names(symbolizer, &of, &addresses, true),
                    Detail::Name => plain_names(symbolizer, &of, &addresses, &maps),
                };
                let mut names = vec![Vec::new(); addresses.len()];
                if refused.is_none() {
                    names = look_up(&symbolizer);
                    // Each file that was looked at is still open.
                    if names.iter().any(Vec::is_empty) && descriptors::are_exhausted() {
                        descriptors::make_room(u64::MAX);
                        symbolizer = Symbolizer::new();
                        names = look_up(&symbolizer);
                        refused = descriptors::are_exhausted().then(|| TOO_MANY_FILES.to_owned());
                    }
                }
                if answer.send(Answer { process, addresses, names, maps, refused }).is_err() {
                    return;
                }
            }
        };
        std::thread::Builder::new().name("symbols".into()).spawn(run).ok()?;
        Some(Self { questions, answers, outstanding: 0 })
    }

    /// Whether the question was taken.
    pub(super) fn ask(
        &mut self,
        of: Of,
        process: Option<Process>,
        addresses: Vec<u64>,
        maps: Maps,
        detail: Detail,
    ) -> bool {
        let asked = self.questions.try_send(Question { of, process, addresses, maps, detail }).is_ok();
        self.outstanding += usize::from(asked);
        asked
    }

    /// The next answer, within so many seconds.
    pub(super) fn answer(&mut self, seconds: f64) -> Result<Answer, End> {
        match self.answers.recv_timeout(Duration::from_secs_f64(seconds)) {
            Ok(answer) => {
                self.outstanding = self.outstanding.saturating_sub(1);
                Ok(answer)
            }
            Err(RecvTimeoutError::Timeout) => Err(End::Empty),
            Err(RecvTimeoutError::Disconnected) => Err(End::Gone),
        }
    }
}

/// Why the names in a file are not those of what ran: it is not the file that it was.
fn refused(of: &Of) -> Option<String> {
    let Of::File { path, build_id } = of else { return None };
    match (blazesym::helper::read_elf_build_id(path), build_id) {
        (Err(error), _) => Some(format!("it cannot be read ({error})")),
        (Ok(Some(found)), Some(wanted)) if found.as_ref() != wanted.as_slice() => {
            Some("it has been replaced since (another build id)".to_owned())
        }
        (Ok(None), Some(_)) => Some("it has been replaced since (no build id)".to_owned()),
        (Ok(_), _) => None,
    }
}

/// Looks functions up. A file whose own table of symbols was stripped may have another one beside its debug information.
fn plain_names(symbolizer: &Symbolizer, of: &Of, addresses: &[u64], maps: &Maps) -> Vec<Vec<Named>> {
    let mut found = names(symbolizer, of, addresses, false);
    let nameless = |found: &[Vec<Named>], at: usize| found.get(at).is_some_and(Vec::is_empty);
    let Of::Process { pid, through_map_files } = of else { return found };
    let mut stripped: BTreeMap<PathBuf, Vec<(usize, u64)>> = BTreeMap::new();
    for (at, address) in addresses.iter().enumerate().filter(|(at, _)| nameless(&found, *at)) {
        if let Some(InFile { path, offset }) = maps.in_file(*address, *pid, *through_map_files) {
            stripped.entry(path).or_default().push((at, offset));
        }
    }
    let mut rest: BTreeSet<usize> = (0..addresses.len()).filter(|at| nameless(&found, *at)).collect();
    for (path, places) in stripped {
        let Some(debug_file) = debug_file::of(&path) else { continue };
        let segments = Segments::read(&path);
        let source = Source::Elf(Elf { debug_syms: false, ..Elf::new(debug_file) });
        for (at, offset) in places {
            let address = segments.address(offset);
            let symbol = address.map(|address| symbolizer.symbolize_single(&source, Input::VirtOffset(address)));
            if let (Some(Ok(symbol)), Some(place)) = (symbol, found.get_mut(at)) {
                *place = functions(&symbol, false);
                rest.remove(&at);
            }
        }
    }
    // Debug information that is found in other ways.
    let again: Vec<u64> = rest.iter().filter_map(|at| addresses.get(*at).copied()).collect();
    if again.is_empty() {
        return found;
    }
    for (at, names) in rest.into_iter().zip(names(symbolizer, of, &again, true)) {
        if let Some(place) = found.get_mut(at) {
            *place = names;
        }
    }
    found
}

/// Looks addresses up. One file that cannot be read must cost its own addresses only.
fn names(symbolizer: &Symbolizer, of: &Of, addresses: &[u64], debug: bool) -> Vec<Vec<Named>> {
    let source = |debug| match of {
        Of::Kernel => {
            // The list of the running kernel alone: an image on disk may be another kernel's, and takes long.
            Source::Kernel(Kernel { vmlinux: MaybeDefault::None, debug_syms: false, ..Kernel::default() })
        }
        Of::Process { pid, through_map_files } => {
            let mut process = UserProcess::new(Pid::from(*pid));
            process.debug_syms = debug;
            process.perf_map = false;
            process.map_files = *through_map_files;
            Source::Process(process)
        }
        Of::File { path, .. } => {
            let mut file = Elf::new(path);
            file.debug_syms = debug;
            Source::Elf(file)
        }
    };
    let kernel = *of == Of::Kernel;
    let in_file = matches!(of, Of::File { .. });
    // An empty question makes the kernel's list be read ahead.
    let first = if kernel && addresses.is_empty() { &[u64::MAX] } else { addresses };
    let all = if in_file { Input::FileOffset(first) } else { Input::AbsAddr(first) };
    match symbolizer.symbolize(&source(debug), all) {
        Ok(found) => found.iter().zip(addresses).map(|(found, _)| functions(found, kernel)).collect(),
        Err(_) => addresses
            .iter()
            .map(|address| {
                let one = || if in_file { Input::FileOffset(*address) } else { Input::AbsAddr(*address) };
                let single = |debug| symbolizer.symbolize_single(&source(debug), one());
                // Debug information that cannot be read does not take the name away.
                single(debug).or_else(|_| single(false)).map_or_else(|_| Vec::new(), |found| functions(&found, kernel))
            })
            .collect(),
    }
}

fn functions(found: &Symbolized<'_>, kernel: bool) -> Vec<Named> {
    let Symbolized::Sym(symbol) = found else { return Vec::new() };
    let line = |info: Option<&CodeInfo<'_>>| {
        info.and_then(|info| Some(format!("{}:{}", info.to_path().display(), info.line?)))
    };
    let short = |name: &str| name.chars().take(MAX_NAME).collect::<String>();
    let module = symbol.module.as_ref().filter(|_| kernel).and_then(|module| module_name(&module.to_string_lossy()));
    // The place of the function that holds the others is where it calls the first of them.
    let Sym { name, code_info, inlined, .. } = symbol;
    let mut functions = vec![Named { name: short(name), module: module.clone(), line: line(code_info.as_deref()) }];
    // Aliases of one function come as if one were inlined into the other.
    functions.extend(inlined.iter().filter(|inner| inner.name != *name).map(|inner| Named {
        name: short(&inner.name),
        module: module.clone(),
        line: line(inner.code_info.as_ref()),
    }));
    functions
}

/// `[ext4]` for a module; none for the kernel itself.
pub(super) fn module_name(module: &str) -> Option<String> {
    let name = module.trim_matches(['[', ']']).rsplit('/').next().unwrap_or_default();
    (!name.is_empty() && name != "kallsyms" && name != "vmlinux").then(|| format!("[{name}]"))
}
