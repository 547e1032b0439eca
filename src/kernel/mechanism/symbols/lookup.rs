//! Which file an address lies in, and who knows its name: the process that reads symbols for files, the kernel's own list for the kernel.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::Arc;

use blazesym::MaybeDefault;
use blazesym::symbolize::source::{Kernel, Source as List};
use blazesym::symbolize::{Input, Symbolized, Symbolizer};

use super::bounded::Bounded;
use super::interpreted::{HotSpot, Interpreter, Language, Parked, parked};
use super::maps::{InFile, Maps};
use super::named::{MAX_NAME, Named, module_name};
use super::open::{self, Found, Identity};
use super::reader::{Client, Source};
use super::unwind::Rows;
use super::vdso;
use super::worker::{Detail, Of};

/// Files that are named for having no symbols: a reason for each of a thousand would not help.
const MAX_NOTES: usize = 8;

/// What looks names up.
#[derive(Debug, Default)]
pub(super) struct Lookup {
    client: Client,
    pub(super) bounded: Bounded,
    /// For the kernel's list, which is the kernel's word.
    kernel: Symbolizer,
    noted: BTreeSet<String>,
    /// Whether the program that was asked about since this was taken last is one of Go; none if none was.
    pub(super) is_go: Option<bool>,
    /// What unwind tables have said.
    pub(super) rows: Rows,
}

/// A file that a process has mapped, as it was found.
#[derive(Debug)]
pub(super) enum Located {
    /// The kernel's own library.
    Vdso(Identity),
    File(Arc<Found>),
}

impl Located {
    pub(super) fn identity(&self) -> &Identity {
        match self {
            Self::Vdso(identity) => identity,
            Self::File(found) => &found.identity,
        }
    }
}

/// The functions at each of some addresses, outermost first, and why names are missing.
pub(super) type Names = (Vec<Vec<Named>>, Vec<String>);

impl Lookup {
    /// The functions at some addresses.
    pub(super) fn names(&mut self, of: &Of, addresses: &[u64], maps: &Maps, detail: Detail) -> Names {
        let (names, mut notes) = self.found(of, addresses, maps, detail);
        notes.extend(self.client.less_confined().and_then(|why| self.note(why)));
        (names, notes)
    }

    fn found(&mut self, of: &Of, addresses: &[u64], maps: &Maps, detail: Detail) -> Names {
        match of {
            Of::Kernel => (self.kernel(addresses), Vec::new()),
            Of::File { path, build_id } => {
                let found = open::find_named(None, path).map_err(|error| error.to_string());
                let names = found.and_then(|found| {
                    let open = || found.open(None);
                    let source = Source {
                        identity: found.identity.clone(),
                        owner: found.owner,
                        open: &open,
                        build_id: build_id.as_deref(),
                    };
                    self.client.names(&source, addresses, detail == Detail::Line)
                });
                match names {
                    Ok((names, _)) => (names, Vec::new()),
                    Err(why) => (vec![Vec::new(); addresses.len()], vec![why]),
                }
            }
            Of::Process { pid, by_link, by_path } => {
                let mut files: BTreeMap<InFile, Vec<(usize, u64)>> = BTreeMap::new();
                for (at, address) in addresses.iter().enumerate() {
                    if let Some((file, offset)) = maps.in_file(*address, *pid) {
                        files.entry(file).or_default().push((at, offset));
                    }
                }
                let mut names = vec![Vec::new(); addresses.len()];
                let mut notes = Vec::new();
                for (file, places) in files {
                    let (places, offsets): (Vec<usize>, Vec<u64>) = places.into_iter().unzip();
                    let (found, why) = match self.mapped(&file, *pid, (*by_link, *by_path), &offsets, detail) {
                        Ok((found, why)) => (found, why.map(|why| format!("{} has no lines: {why}", file.object))),
                        Err(why) => (Vec::new(), Some(format!("{} has no names: {why}", file.object))),
                    };
                    notes.extend(why.and_then(|why| self.note(why)));
                    for (at, found) in places.into_iter().zip(found) {
                        names.get_mut(at).into_iter().for_each(|names| names.clone_from(&found));
                    }
                }
                (names, notes)
            }
        }
    }

    /// The functions at these offsets of what a process has mapped, or why there are none; with what of it could not be read.
    fn mapped(
        &mut self,
        file: &InFile,
        pid: u32,
        (by_link, by_path): (bool, bool),
        offsets: &[u64],
        detail: Detail,
    ) -> Result<(Vec<Vec<Named>>, Option<String>), String> {
        let lines = detail == Detail::Line;
        let located = self.locate(file, pid, (by_link, by_path))?;
        let names = self.ask(&located, pid, |client, source| client.names(source, offsets, lines));
        if file.is_program && names.is_ok() {
            self.is_go = Some(self.client.has_go(located.identity()));
        }
        names
    }

    /// The interpreter in one of the files that code of a process at these addresses is from, and what is to be said if it is
    /// in none.
    pub(super) fn interpreter(&mut self, of: &Of, code: &[u64], maps: &Maps) -> Result<Interpreter, Option<String>> {
        let mut found = Err(None);
        for code in code {
            found = found.or_else(|_| self.interpreter_at(of, *code, maps));
        }
        found.map_err(|why: Option<String>| why.and_then(|why| self.note(why)))
    }

    fn interpreter_at(&mut self, of: &Of, code: u64, maps: &Maps) -> Result<Interpreter, Option<String>> {
        let Of::Process { pid, by_link, by_path } = of else { return Err(None) };
        let (file, _) = maps.in_file(code, *pid).ok_or(None)?;
        let language = Language::of(&file.object).ok_or(None)?;
        let located = self.locate(&file, *pid, (*by_link, *by_path));
        let found =
            located.and_then(|located| self.ask(&located, *pid, |client, source| client.interpreter(source, language)));
        match found.and_then(|found| found.map(|found| found.in_memory(maps, &file.object)).transpose()) {
            Ok(interpreter) => interpreter.ok_or(None),
            Err(why) => Err(Some(format!("{}: {why}", language.gap(&file.object)))),
        }
    }

    /// The threads of a machine of Java that are parked.
    pub(super) fn parked(&self, of: &Of, java: HotSpot) -> Vec<Parked> {
        let Of::Process { pid, .. } = *of else { return Vec::new() };
        self.bounded.ask(pid, move || parked::read(pid, &java)).ok().and_then(Result::ok).unwrap_or_default()
    }

    /// Finds what a process has mapped, without opening it.
    pub(super) fn locate(&self, file: &InFile, pid: u32, (by_link, by_path): (bool, bool)) -> Result<Located, String> {
        let Some(link) = &file.link else { return Ok(Located::Vdso(Identity::default())) };
        // Both are asked of the kernel under the eyes of the process, and of the file's server.
        let (link, path, device) = (link.clone(), file.path.clone(), file.device);
        let found = self.bounded.ask(pid, move || {
            let mut found =
                if by_link { open::find_mapped(&link) } else { Err(io::ErrorKind::PermissionDenied.into()) };
            // In a container the kernel may refuse its links to a root who seems to have the right.
            if let (Err(_), true, Some(path)) = (&found, by_path, &path) {
                found = open::find_named(Some(device), path);
            }
            found.map(Arc::new)
        })?;
        found.map(Located::File).map_err(|error| error.to_string())
    }

    /// Asks the process that reads symbols about a file, which it is handed if it has not seen it yet.
    fn ask<T>(&mut self, located: &Located, pid: u32, question: impl FnOnce(&mut Client, &Source<'_>) -> T) -> T {
        let Self { client, bounded, .. } = self;
        let identity = located.identity().clone();
        match located {
            Located::Vdso(_) => question(client, &Source { identity, owner: 0, open: &vdso::copy, build_id: None }),
            Located::File(found) => {
                let open = || {
                    let found = found.clone();
                    bounded.ask(pid, move || found.open(Some(pid))).map_err(io::Error::other)?
                };
                question(client, &Source { identity, owner: found.owner, open: &open, build_id: None })
            }
        }
    }

    /// Has the rows of unwind tables for these offsets of a file looked up, and remembers them: that there is none, too. Nothing is
    /// remembered where the file could not be asked: another process may be luckier.
    pub(super) fn learn_rows(&mut self, located: &Located, pid: u32, offsets: &[u64]) -> Result<(), String> {
        let rows = self.ask(located, pid, |client, source| client.rows(source, offsets))?;
        for (offset, row) in offsets.iter().zip(rows) {
            self.rows.keep(located.identity(), *offset, row);
        }
        Ok(())
    }

    /// What is to be said of a file, the first time.
    pub(super) fn note(&mut self, note: String) -> Option<String> {
        let is_new = self.noted.len() < MAX_NOTES && self.noted.insert(note.clone());
        is_new.then_some(note)
    }

    /// The list of the running kernel alone: an image on disk may be another kernel's, and takes long.
    fn kernel(&self, addresses: &[u64]) -> Vec<Vec<Named>> {
        let source = List::Kernel(Kernel { vmlinux: MaybeDefault::None, debug_syms: false, ..Kernel::default() });
        // An empty question makes the list be read ahead.
        let asked = if addresses.is_empty() { &[u64::MAX] } else { addresses };
        match self.kernel.symbolize(&source, Input::AbsAddr(asked)) {
            Ok(found) => found.iter().zip(addresses).map(|(found, _)| function(found)).collect(),
            Err(_) => vec![Vec::new(); addresses.len()],
        }
    }
}

fn function(found: &Symbolized<'_>) -> Vec<Named> {
    let Symbolized::Sym(symbol) = found else { return Vec::new() };
    let name = symbol.name.chars().take(MAX_NAME).collect();
    let module = symbol.module.as_ref().and_then(|module| module_name(&module.to_string_lossy()));
    vec![Named { name, module, line: None }]
}
