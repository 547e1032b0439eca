//! Names of what is on no stack of the processor: of variables, which the locks and condition variables of programs are part of, of words
//! of which some may be addresses of code, and of functions that an interpreter works on.

use super::interpreted::{HotSpot, Interpreter, Language, Parked};
use super::mapped::Mapped;
use super::maps::Kind;
use super::worker::{Detail, Of, Worker};
use super::{Known, Process, Symbols, sees_map_files};
use crate::host::Host;
use rdiag_model::probe::Frame;

/// As many files of one process are looked into for an interpreter.
const MOST_FILES: usize = 4;
/// Addresses of variables that are looked up at most: most are on a heap, and have no name.
const MAX_VARIABLES: usize = 4096;

impl Symbols {
    /// Looks up the variables of programs and libraries that some addresses of a process are part of, where these are new. Only those with
    /// a beginning value are known: others lie in memory that is no file's. Names come later.
    pub fn learn_variables(&mut self, host: &Host, process: Process, addresses: impl IntoIterator<Item = u64>) {
        self.take_answers(host, 0.0);
        let mut fresh = Vec::new();
        for address in addresses {
            let is_known = self.known.contains_key(&(Some(process), address));
            if !is_known && self.variables.len() < MAX_VARIABLES && self.variables.insert((process, address)) {
                fresh.push(address);
            }
        }
        if fresh.is_empty() {
            return;
        }
        let Some(Mapped { maps, same_mounts, .. }) = self.mapped_of(host, process, &fresh) else { return };
        let by_link = sees_map_files(host);
        fresh.retain(|at| maps.has_variables(*at) && (by_link || same_mounts));
        if !fresh.is_empty() {
            let of = Of::Process { pid: process.pid, by_link, by_path: same_mounts };
            self.ask(of, Some(process), fresh, maps, Detail::Name);
        }
    }

    /// The variable that an address is part of, as far as its name is known by now.
    #[must_use]
    pub fn variable(&self, process: Process, address: u64) -> Option<&str> {
        self.variables.contains(&(process, address)).then(|| self.name(Some(process), address)).flatten()
    }

    /// Whether a process runs a program of Go, as far as its functions were asked for and it is known by now.
    #[must_use]
    pub fn runs_go(&self, process: Process) -> bool {
        self.of_go.contains(&process)
    }

    /// Whether a process has code of a file of this name.
    pub fn has_mapped(&mut self, host: &Host, process: Process, object: &str) -> bool {
        self.mapped_of(host, process, &[]).is_some_and(|mapped| mapped.maps.has_object(object))
    }

    /// Looks up the functions at those words that are addresses of code in files; the others may be anything.
    pub fn learn_code(&mut self, host: &Host, process: Process, words: impl IntoIterator<Item = u64>) {
        let Some(Mapped { maps, .. }) = self.mapped_of(host, process, &[]) else { return };
        let code: Vec<u64> = words.into_iter().filter(|word| maps.kind(*word) == Some(Kind::File)).collect();
        self.learn_functions(host, Some(process), code);
    }
}

impl Symbols {
    /// Looks up what is to be known of the interpreter in a process, if it has one whose layout can be known, and gives its language. The
    /// answer comes later, see [`Symbols::interpreters_within`].
    pub fn learn_interpreter(&mut self, host: &Host, process: Process) -> Option<Language> {
        let Mapped { maps, same_mounts, .. } = self.mapped_of(host, process, &[])?;
        let by_link = sees_map_files(host);
        // A program may have it in itself, or in a library of the same name.
        let code = maps.code_of(|object| Language::of(object).is_some());
        let language = |at: u64| maps.object(at).and_then(Language::of);
        // A program in another language may have a machine of Java in itself, of which other things are known.
        let (java, mut code): (Vec<u64>, Vec<u64>) =
            code.into_iter().partition(|at| language(*at) == Some(Language::Java));
        code.truncate(MOST_FILES);
        let found = code.first().or(java.first()).copied().and_then(language)?;
        if !(by_link || same_mounts) {
            return None;
        }
        let of = Of::Process { pid: process.pid, by_link, by_path: same_mounts };
        if self.finder.is_none() {
            self.finder = Worker::start();
        }
        let worker = self.finder.as_mut()?;
        let questions = [code, java.into_iter().take(1).collect()].into_iter().filter(|code| !code.is_empty());
        let asked = questions.filter(|code| worker.ask_interpreter(of.clone(), process, code.clone(), maps.clone()));
        (asked.count() > 0).then_some(found)
    }

    /// The interpreters that were found meanwhile, or are within so many seconds.
    pub fn interpreters_within(&mut self, host: &Host, seconds: f64) -> Vec<(Process, Interpreter)> {
        let (mut found, until) = (Vec::new(), host.now() + seconds);
        let waiting =
            |worker: &mut Worker| (worker.outstanding > 0).then(|| worker.answer((until - host.now()).max(0.0)));
        while let Some(Ok(answer)) = self.finder.as_mut().and_then(waiting) {
            self.notes.extend(answer.notes);
            found.extend(answer.process.zip(answer.interpreter));
            self.parked.extend(
                answer.process.map(|process| (process, answer.parked)).filter(|(_, parked)| !parked.is_empty()),
            );
        }
        found
    }

    /// Has it looked what threads of a process are parked for by its machine of Java. The answer comes with the interpreters.
    pub fn learn_parked(&mut self, process: Process, java: HotSpot) {
        let of = Of::Process { pid: process.pid, by_link: false, by_path: false };
        if let Some(worker) = &mut self.finder {
            worker.ask_parked(of, process, java);
        }
    }

    /// The thread of a process that is parked on a futex, of those that were looked at.
    #[must_use]
    pub fn parked_on(&self, process: Process, futex: u64) -> Option<&Parked> {
        self.parked.get(&process)?.iter().find(|parked| parked.has(futex))
    }

    /// What a word with [`super::INTERPRETED`] on stacks of a process stands for; none: for no function.
    pub fn name_interpreted(&mut self, process: Process, word: u64, function: Option<Frame>) {
        let known = match function {
            Some(frame) => Known::Named(vec![self.intern(frame)]),
            None => Known::Named(Vec::new()),
        };
        self.known.insert((Some(process), word), known);
    }
}
