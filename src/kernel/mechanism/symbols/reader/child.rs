//! The process that reads symbols, from within: a question, an answer, until rdiag hangs up.

use std::collections::HashMap;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd as _, OwnedFd};
use std::panic::AssertUnwindSafe;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use blazesym::symbolize::source::{Elf, Source};
use blazesym::symbolize::{CodeInfo, Input, Sym, Symbolized, Symbolizer};

use super::copy::{Copy, Extent, MAX_BYTES, copy};
use super::message::{Question, Reply};
use super::tables::Tables;
use crate::host::confine::{Confinement, confine};
use crate::host::message::{receive, send};
use crate::mechanism::descriptors;
use crate::mechanism::symbols::debug_file::{Segments, debug_file};
use crate::mechanism::symbols::interpreted::{Described, Language};
use crate::mechanism::symbols::named::{MAX_INLINED, MAX_NAME};
use crate::mechanism::symbols::unwind::Row;

/// Where debug information lies that was stripped from its program: only root can put something there.
pub(super) const DEBUG_FILES: &str = "/usr/lib/debug";
/// What the process may do: look at what it was handed, and at debug information. The largest copies of a file, what is unpacked from
/// them and what is made of that fit into its memory; an answer is not waited for that long.
const CONFINEMENT: Confinement = Confinement { address_space: 2 << 30, cpu_seconds: 120, readable: &[DEBUG_FILES] };
/// All copies together take no more memory; then those that are there are dropped.
const MAX_COPIES: u64 = 2 * MAX_BYTES;

/// The process: its standard input is the socket.
#[must_use]
pub fn main() -> ExitCode {
    // Each file takes three descriptors at most.
    descriptors::make_room(u64::MAX);
    let missing = confine(CONFINEMENT);
    let socket = std::io::stdin();
    match send(&socket, &missing, None).and_then(|()| serve(&socket)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::FAILURE,
    }
}

/// Answers questions until the socket is closed.
pub(super) fn serve(socket: impl AsFd) -> io::Result<()> {
    let mut reader = Reader::default();
    loop {
        let (question, file) = match receive(&socket, None) {
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(()),
            received => received?,
        };
        let answer = match (question, file) {
            (Question::Open { file: number }, Some(file)) => reader.open(number, file),
            (Question::Open { .. }, None) => Reply::Refused("no file came with the question".to_owned()),
            (Question::Names { file, offsets, lines }, _) => reader.names(file, &offsets, lines),
            (Question::Rows { file, offsets }, _) => reader.rows(file, &offsets),
            (Question::Interpreter { file, language }, _) => reader.interpreter(file, language),
        };
        send(&socket, &answer, None)?;
    }
}

/// The functions at some places of one file, without a process around it.
pub(in super::super) fn names(file: &File, offsets: &[u64], lines: bool) -> io::Result<Vec<Names>> {
    let mut reader = Reader::default();
    for answer in [reader.open(0, file.try_clone()?.into()), reader.names(0, offsets, lines)] {
        match answer {
            Reply::Names { names, .. } => return Ok(names),
            Reply::Refused(why) => return Err(io::Error::other(why)),
            Reply::Opened { .. } | Reply::Rows(_) | Reply::Interpreter(_) => {}
        }
    }
    Ok(Vec::new())
}

/// The rows of the unwind tables for some places of one file, without a process around it.
pub(in super::super) fn rows(file: &File, offsets: &[u64]) -> io::Result<Vec<Option<Row>>> {
    Ok(Tables::read(file)?.rows(offsets))
}

/// The interpreter in one file, without a process around it.
pub(in super::super) fn interpreter(file: &File, language: Language) -> Option<Described> {
    let mut reader = Reader::default();
    reader.open(0, file.try_clone().ok()?.into());
    match reader.interpreter(0, language) {
        Reply::Interpreter(found) => found,
        _ => None,
    }
}

/// The files that can be asked about.
#[derive(Debug, Default)]
struct Reader {
    files: HashMap<u32, Program>,
    symbolizer: Option<Symbolizer>,
    copied: u64,
}

#[derive(Debug)]
struct Program {
    file: File,
    build_id: Option<Vec<u8>>,
    has_symbols: bool,
    /// Copies, as far as they were needed; the second is none if debug information is too large.
    symbols: Option<OwnedFd>,
    debug: Option<Result<OwnedFd, String>>,
    /// The file with what was stripped from this one.
    stripped: Option<Option<(PathBuf, Segments)>>,
    /// Unwind tables, if they were needed and can be read.
    tables: Option<Option<Tables>>,
}

impl Reader {
    fn open(&mut self, number: u32, file: OwnedFd) -> Reply {
        let file = File::from(file);
        match copy(&file, Extent::Symbols) {
            Err(error) => Reply::Refused(error.to_string()),
            Ok(Copy { memory, bytes, build_id, has_symbols, has_go }) => {
                self.make_room(bytes);
                let program = Program {
                    file,
                    build_id: build_id.clone(),
                    has_symbols,
                    symbols: Some(memory),
                    debug: None,
                    stripped: None,
                    tables: None,
                };
                self.files.insert(number, program);
                Reply::Opened { build_id, has_go }
            }
        }
    }

    /// Drops all copies if there is no room for one more; a program that is asked about again is copied again.
    fn make_room(&mut self, bytes: u64) {
        self.copied = self.copied.saturating_add(bytes);
        if self.copied > MAX_COPIES {
            self.copied = bytes;
            self.symbolizer = None;
            for program in self.files.values_mut() {
                (program.symbols, program.debug, program.tables) = (None, None, None);
            }
        }
    }

    fn rows(&mut self, number: u32, offsets: &[u64]) -> Reply {
        let Some(mut program) = self.files.remove(&number) else {
            return Reply::Refused("the file was not handed over".to_owned());
        };
        let tables = match program.tables.take() {
            Some(tables) => tables,
            None => Tables::read(&program.file).ok().inspect(|tables| self.make_room(tables.bytes())),
        };
        let rows = tables.as_ref().map_or_else(|| vec![None; offsets.len()], |tables| tables.rows(offsets));
        let answer = Reply::Rows(rows);
        program.tables = Some(tables);
        self.files.insert(number, program);
        answer
    }

    fn interpreter(&mut self, number: u32, language: Language) -> Reply {
        let Some(mut program) = self.files.remove(&number) else {
            return Reply::Refused("the file was not handed over".to_owned());
        };
        let _ = self.symbols_of(&mut program);
        let tables = program.symbols.as_ref().and_then(|copy| copy.try_clone().ok()).map(File::from);
        let answer = Reply::Interpreter(tables.and_then(|tables| Described::read(&tables, &program.file, language)));
        self.files.insert(number, program);
        answer
    }

    fn names(&mut self, number: u32, offsets: &[u64], lines: bool) -> Reply {
        let Some(mut program) = self.files.remove(&number) else {
            return Reply::Refused("the file was not handed over".to_owned());
        };
        let answer = self.names_of(&mut program, offsets, lines);
        self.files.insert(number, program);
        match answer {
            Ok((names, left_out)) => Reply::Names { names, left_out },
            Err(error) => Reply::Refused(error.to_string()),
        }
    }

    fn names_of(
        &mut self,
        program: &mut Program,
        offsets: &[u64],
        lines: bool,
    ) -> io::Result<(Vec<Names>, Option<String>)> {
        let mut names = vec![Names::new(); offsets.len()];
        // The table of symbols is cheap; debug information is asked for lines, and where the table has no name.
        if !lines {
            let path = self.symbols_of(program)?;
            self.fill(&mut names, &path, offsets, Input::FileOffset, false);
            self.fill_from_stripped(program, &mut names, offsets, false);
        }
        let mut left_out = None;
        // A function that is not in the table of a program that was not stripped is in no debug information either.
        if names.iter().any(Vec::is_empty) && (lines || !program.has_symbols) {
            self.fill_from_stripped(program, &mut names, offsets, true);
            // Nothing is copied, or missed, if the stripped information had them all.
            if names.iter().any(Vec::is_empty) {
                left_out = match self.debug_of(program) {
                    Ok(path) if self.fill(&mut names, &path, offsets, Input::FileOffset, true) => {
                        // It is not asked again.
                        let why = "its debug information contradicts itself".to_owned();
                        program.debug = Some(Err(why.clone()));
                        Some(why)
                    }
                    Ok(_) => None,
                    Err(why) => Some(why),
                };
            }
        }
        if lines && names.iter().any(Vec::is_empty) {
            let path = self.symbols_of(program)?;
            self.fill(&mut names, &path, offsets, Input::FileOffset, false);
        }
        Ok((names, left_out))
    }

    fn symbols_of(&mut self, program: &mut Program) -> io::Result<PathBuf> {
        let memory = match program.symbols.take() {
            Some(memory) => memory,
            None => {
                let Copy { memory, bytes, .. } = copy(&program.file, Extent::Symbols)?;
                self.make_room(bytes);
                memory
            }
        };
        Ok(path_of(program.symbols.insert(memory)))
    }

    fn debug_of(&mut self, program: &mut Program) -> Result<PathBuf, String> {
        let memory = match program.debug.take() {
            Some(memory) => memory,
            None => copy(&program.file, Extent::Debug).map_err(|error| error.to_string()).map(|copy| {
                self.make_room(copy.bytes);
                copy.memory
            }),
        };
        program.debug.insert(memory).as_ref().map(path_of).map_err(Clone::clone)
    }

    /// Names from the file with what was stripped from the program.
    fn fill_from_stripped(&mut self, program: &mut Program, names: &mut [Names], offsets: &[u64], debug: bool) {
        if names.iter().all(|names| !names.is_empty()) {
            return;
        }
        let found = program.stripped.get_or_insert_with(|| {
            let path = debug_file(Path::new(DEBUG_FILES), program.build_id.as_deref()?)?;
            Some((path, Segments::of(&program.file)))
        });
        let Some((path, segments)) = found else { return };
        let path = path.clone();
        let addresses: Vec<u64> = offsets.iter().map(|offset| segments.address(*offset).unwrap_or(u64::MAX)).collect();
        if self.fill(names, &path, &addresses, Input::VirtOffset, debug) {
            program.stripped = Some(None);
        }
    }

    /// Looks up what has no name yet. A place that cannot be looked up costs itself only; whether the library gave up on the file.
    fn fill<'a>(
        &mut self,
        names: &mut [Names],
        path: &Path,
        places: &'a [u64],
        input: impl Fn(&'a [u64]) -> Input<&'a [u64]>,
        debug: bool,
    ) -> bool {
        let source = Source::Elf(Elf { debug_syms: debug, ..Elf::new(path) });
        if names.iter().all(Vec::is_empty) {
            match self.look_up(&source, input(places)) {
                Found::Names(found) => {
                    names.iter_mut().zip(found).for_each(|(names, found)| *names = found);
                    return false;
                }
                Found::GaveUp => return true,
                Found::Nothing => {}
            }
        }
        for (names, place) in names.iter_mut().zip(places.chunks(1)).filter(|(names, _)| names.is_empty()) {
            match self.look_up(&source, input(place)) {
                Found::Names(found) => *names = found.into_iter().next().unwrap_or_default(),
                Found::GaveUp => return true,
                Found::Nothing => {}
            }
        }
        false
    }

    /// Asks the library. Debug information that contradicts itself makes it panic (docs/upstream/blazesym.md), which is caught, since the
    /// table of symbols of the same file is as good as before; what it knew then may be half done, and is dropped.
    fn look_up(&mut self, source: &Source<'_>, input: Input<&[u64]>) -> Found {
        let symbolizer = self.symbolizer.get_or_insert_with(symbolizer);
        let asked = || symbolizer.symbolize(source, input).map(|found| found.iter().map(functions).collect());
        match std::panic::catch_unwind(AssertUnwindSafe(asked)) {
            Ok(Ok(found)) => Found::Names(found),
            Ok(Err(_)) => Found::Nothing,
            Err(_) => {
                self.symbolizer = None;
                Found::GaveUp
            }
        }
    }
}

/// What the library said.
enum Found {
    Names(Vec<Names>),
    Nothing,
    GaveUp,
}

fn symbolizer() -> Symbolizer {
    Symbolizer::builder().set_debug_dirs(Some([DEBUG_FILES])).build()
}

fn path_of(memory: &OwnedFd) -> PathBuf {
    PathBuf::from(format!("/proc/self/fd/{}", memory.as_raw_fd()))
}

/// Functions at a place, outermost first, with their lines.
type Names = Vec<(String, Option<String>)>;

fn functions(found: &Symbolized<'_>) -> Names {
    let Symbolized::Sym(symbol) = found else { return Names::new() };
    let short = |name: &str| name.chars().take(MAX_NAME).collect::<String>();
    let line = |info: Option<&CodeInfo<'_>>| {
        info.and_then(|info| Some(short(&format!("{}:{}", info.to_path().display(), info.line?))))
    };
    // The place of the function that holds the others is where it calls the first of them.
    let Sym { name, code_info, inlined, .. } = symbol;
    let mut functions = vec![(short(name), line(code_info.as_deref()))];
    // Aliases of one function come as if one were inlined into the other.
    let inner = inlined.iter().filter(|inner| inner.name != *name).take(MAX_INLINED);
    functions.extend(inner.map(|inner| (short(&inner.name), line(inner.code_info.as_ref()))));
    functions
}
