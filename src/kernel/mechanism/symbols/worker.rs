//! The thread that asks for symbols, so that a measurement never waits for a file.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, SyncSender};
use std::time::Duration;

use super::interpreted::{HotSpot, Interpreter, Parked};
use super::lookup::Lookup;
use super::maps::Maps;
use super::named::Named;
use super::process::Process;
use super::unwind::{Dump, Walked};
use crate::host::rights::{Phase, narrow};
use crate::mechanism::descriptors;

/// Questions that may wait, and as many of all when no more stacks are taken: names find room behind them.
const QUEUE: usize = 4096;
const WITH_STACKS: usize = QUEUE / 4;

pub(super) const TOO_MANY_FILES: &str =
    "names are missing, as no more files can be opened (raise the limit with `ulimit -n`)";

/// Whose addresses.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Of {
    Kernel,
    Process {
        pid: u32,
        /// Whether files can be opened by the kernel's links to what it has mapped.
        by_link: bool,
        /// Whether paths lead it to the same files as rdiag.
        by_path: bool,
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
    maps: Arc<Maps>,
    detail: Detail,
    /// Stacks to be walked, in place of addresses.
    dumps: Vec<Dump>,
    /// Code of files of which one may be the interpreter that is looked for, in place of both.
    interpreter: Vec<u64>,
    /// A machine of Java, whose threads are wanted that are parked.
    parked_by: Option<HotSpot>,
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
pub(super) struct Symbolized {
    pub(super) process: Option<Process>,
    pub(super) addresses: Vec<u64>,
    pub(super) names: Vec<Vec<Named>>,
    pub(super) maps: Arc<Maps>,
    /// Why names are missing.
    pub(super) notes: Vec<String>,
    /// Stacks that were to be walked, and the bytes that they were.
    pub(super) walked: (Vec<Walked>, usize),
    /// The interpreter that was found.
    pub(super) interpreter: Option<Interpreter>,
    /// The threads that are parked.
    pub(super) parked: Vec<Parked>,
    /// Whether the process runs a program of Go, if its program was asked about.
    pub(super) is_go: Option<bool>,
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
    answers: Receiver<Symbolized>,
    pub(super) outstanding: usize,
}

impl Question {
    /// One that asks for nothing.
    fn about(of: Of) -> Self {
        Self {
            of,
            process: None,
            addresses: Vec::new(),
            maps: Arc::default(),
            detail: Detail::Name,
            dumps: Vec::new(),
            interpreter: Vec::new(),
            parked_by: None,
        }
    }
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
            narrow(Phase::Naming);
            let mut lookup = Lookup::default();
            for Question { of, process, addresses, maps, detail, dumps, interpreter, parked_by } in asked {
                let bytes = dumps.iter().map(|dump| dump.bytes.len()).sum();
                let (walked, of_walks) = lookup.walk(&of, dumps, &maps);
                let (mut names, mut notes) = lookup.names(&of, &addresses, &maps, detail);
                if names.iter().any(Vec::is_empty) && descriptors::are_exhausted() {
                    descriptors::make_room(u64::MAX);
                    (names, notes) = lookup.names(&of, &addresses, &maps, detail);
                    if descriptors::are_exhausted() {
                        notes.push(TOO_MANY_FILES.to_owned());
                    }
                }
                notes.extend(of_walks);
                let walked = (walked, bytes);
                let interpreter = lookup.interpreter(&of, &interpreter, &maps);
                let interpreter = interpreter.map_err(|why| notes.extend(why)).ok();
                let parked = parked_by.map(|java| lookup.parked(&of, java)).unwrap_or_default();
                let is_go = lookup.is_go.take();
                let answered =
                    Symbolized { process, addresses, names, maps, notes, walked, interpreter, parked, is_go };
                if answer.send(answered).is_err() {
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
        maps: Arc<Maps>,
        detail: Detail,
    ) -> bool {
        self.put(Question { process, addresses, maps, detail, ..Question::about(of) })
    }

    /// Whether these stacks will be walked.
    pub(super) fn ask_stacks(&mut self, of: Of, process: Process, dumps: Vec<Dump>, maps: Arc<Maps>) -> bool {
        self.outstanding <= WITH_STACKS
            && self.put(Question { process: Some(process), maps, dumps, ..Question::about(of) })
    }

    /// Whether the interpreter that has code at one of these addresses will be looked for.
    pub(super) fn ask_interpreter(&mut self, of: Of, process: Process, code: Vec<u64>, maps: Arc<Maps>) -> bool {
        self.put(Question { process: Some(process), maps, interpreter: code, ..Question::about(of) })
    }

    /// Whether it will be looked what threads of a machine of Java are parked for.
    pub(super) fn ask_parked(&mut self, of: Of, process: Process, java: HotSpot) -> bool {
        self.put(Question { process: Some(process), parked_by: Some(java), ..Question::about(of) })
    }

    fn put(&mut self, question: Question) -> bool {
        let asked = self.questions.try_send(question).is_ok();
        self.outstanding += usize::from(asked);
        asked
    }

    /// The next answer, within so many seconds.
    pub(super) fn answer(&mut self, seconds: f64) -> Result<Symbolized, End> {
        match self.answers.recv_timeout(Duration::from_secs_f64(seconds.max(0.0))) {
            Ok(answer) => {
                self.outstanding = self.outstanding.saturating_sub(1);
                Ok(answer)
            }
            Err(RecvTimeoutError::Timeout) => Err(End::Empty),
            Err(RecvTimeoutError::Disconnected) => Err(End::Gone),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stacks_leave_room_for_names() {
        let (questions, asked) = mpsc::sync_channel(QUEUE);
        let (_answer, answers) = mpsc::channel();
        let mut worker = Worker { questions, answers, outstanding: 0 };
        let process = Process { pid: 1, born: 1 };
        let taken = (0..QUEUE).filter(|_| worker.ask_stacks(Of::Kernel, process, Vec::new(), Arc::default())).count();
        assert_eq!(taken, WITH_STACKS + 1);
        assert!(worker.ask(Of::Kernel, None, Vec::new(), Arc::default(), Detail::Name));
        drop(asked);
    }
}
