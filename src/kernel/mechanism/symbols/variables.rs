//! Names of what is on no stack of the processor: of variables, which the locks and condition variables of programs are part of, of words
//! of which some may be addresses of code, and of functions that an interpreter works on.

use super::interpreted::{Interpreter, Language};
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
    /// answer comes later, see [`Symbols::interpreters`].
    pub fn learn_interpreter(&mut self, host: &Host, process: Process) -> Option<Language> {
        let Mapped { maps, same_mounts, .. } = self.mapped_of(host, process, &[])?;
        let by_link = sees_map_files(host);
        // A program may have it in itself, or in a library of the same name.
        let mut code = maps.code_of(|object| Language::of(object).is_some());
        code.truncate(MOST_FILES);
        let language = code.first().and_then(|at| Language::of(maps.object(*at)?))?;
        if !(by_link || same_mounts) {
            return None;
        }
        let of = Of::Process { pid: process.pid, by_link, by_path: same_mounts };
        if self.finder.is_none() {
            self.finder = Worker::start();
        }
        self.finder.as_mut().is_some_and(|worker| worker.ask_interpreter(of, process, code, maps)).then_some(language)
    }

    /// The interpreters that were found meanwhile.
    pub fn interpreters(&mut self) -> Vec<(Process, Interpreter)> {
        let mut found = Vec::new();
        while let Some(Ok(answer)) = self.finder.as_mut().map(|worker| worker.answer(0.0)) {
            self.notes.extend(answer.notes);
            found.extend(answer.process.zip(answer.interpreter));
        }
        found
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
