//! Functions of programs and libraries: finding the file, and where in it a function begins.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use object::{Object as _, ObjectSection as _, ObjectSymbol as _, SectionFlags, SymbolFlags};

use super::{PointError, Program, bounds};
use crate::host::way::Tree;
use crate::host::{Host, SourceError};
use crate::mechanism::tracefs::select::fits;
use rdiag_model::Reason;

/// Larger files are not searched: they are read whole.
const MAX_FILE: u64 = 512 << 20;
/// More marked places than these are not looked at: a large program has hundreds.
const MAX_NOTES: usize = 50_000;
/// `STT_FUNC` and `STT_GNU_IFUNC` of ELF.
const FUNCTION: u8 = 2;
const INDIRECT: u8 = 10;
/// `SHF_ALLOC` of ELF.
pub(super) const IN_MEMORY: u64 = 2;

/// Where libraries and programs are without their names telling it.
const FOLDERS: &[&str] = &[
    "lib/x86_64-linux-gnu",
    "usr/lib/x86_64-linux-gnu",
    "lib/aarch64-linux-gnu",
    "usr/lib/aarch64-linux-gnu",
    "lib64",
    "usr/lib64",
    "lib",
    "usr/lib",
    "usr/local/lib",
    "usr/local/bin",
    "usr/bin",
    "bin",
    "usr/sbin",
    "sbin",
];

/// The file that is meant: a path, or a name that is searched for (`libc`, `libc.so.6`, `bash`), as a process sees it. A relative path is
/// one from where rdiag was started.
pub(super) fn find(host: &Host, file: &str, process: Option<u32>) -> Result<Program, PointError> {
    let own = (String::new(), Files::of(host, None));
    if let (Some(path), Files::Live(_)) = (from_here(file), &own.1) {
        let none = || PointError::plain(Reason::Absent, format!("there is no file {file:?} here ({path})"));
        return if own.1.has(&path) { own.1.open(&path, path.clone()) } else { Err(none()) };
    }
    let seen = process.map(|pid| (format!("proc/{pid}/root/"), Files::of(host, Some(pid))));
    let is_path = file.contains('/');
    let mut known = Vec::new();
    for (root, files) in seen.into_iter().chain([own]) {
        if is_path {
            let path = file.trim_start_matches('/');
            if files.has(path) {
                return files.open(path, format!("/{root}{path}"));
            }
            continue;
        }
        for folder in FOLDERS {
            let names = files.list(folder);
            if let Some(name) = best(&names, file)
                && files.has(&format!("{folder}/{name}"))
            {
                return files.open(&format!("{folder}/{name}"), format!("/{root}{folder}/{name}"));
            }
            known.extend(names);
        }
    }
    if is_path {
        return Err(PointError::plain(Reason::Absent, format!("there is no file {file:?}")));
    }
    Err(PointError::absent(format!("there is no library or program {file:?} in the usual folders"), file, known))
}

/// Where a relative path leads from here; none of a name alone, and of a path from the root.
fn from_here(file: &str) -> Option<String> {
    let relative = Path::new(file.strip_prefix("./").unwrap_or(file));
    let is_relative = file.contains('/') && !file.starts_with('/');
    is_relative.then(|| std::env::current_dir().ok()?.join(relative).into_os_string().into_string().ok())?
}

/// Where files are looked for.
enum Files<'h> {
    /// A tree of a live host. A process may see file systems that never answer, so each step is looked at.
    Live(Option<Tree>),
    /// A recorded host, or one that is looked at from outside: `""`, or the root of a process.
    Other(&'h Host, String),
}

impl<'h> Files<'h> {
    fn of(host: &'h Host, process: Option<u32>) -> Self {
        if host.is_recorded() || host.is_seen_from_outside() {
            return Self::Other(host, process.map_or_else(String::new, |pid| format!("proc/{pid}/root/")));
        }
        let tree = process.map_or_else(Tree::own, |pid| Tree::of(host, pid));
        // That of a process that has ended has no files.
        Self::Live(tree.ok())
    }

    fn has(&self, path: &str) -> bool {
        match self {
            Self::Live(tree) => tree.as_ref().is_some_and(|tree| tree.is_file(path)),
            Self::Other(host, root) => host.is_file(&format!("{root}{path}")),
        }
    }

    /// Whatever its path leads to by now, no device or FIFO is opened, and nothing that a FUSE daemon serves.
    fn open(&self, path: &str, shown: String) -> Result<Program, PointError> {
        let opened = match self {
            Self::Live(tree) => {
                let tree = tree.as_ref().ok_or_else(|| std::io::ErrorKind::NotFound.into());
                tree.and_then(|tree| tree.open(path)).map_err(|error| SourceError::io(path, &error))
            }
            Self::Other(host, root) => host.open(&format!("{root}{path}")),
        };
        match opened {
            Ok(file) => Ok(Program::opened(shown, file)),
            Err(error) => Err(PointError::plain(error.reason, format!("{shown} cannot be opened: {error}"))),
        }
    }

    fn list(&self, folder: &str) -> Vec<String> {
        match self {
            Self::Live(tree) => tree.as_ref().map(|tree| tree.list(folder)).unwrap_or_default(),
            Self::Other(host, root) => host.list(&format!("{root}{folder}")).unwrap_or_default(),
        }
    }
}

/// `libc` means `libc`, else `libc.so`, else the first `libc.so.…`.
fn best<'n>(names: &'n [String], wanted: &str) -> Option<&'n String> {
    let library = format!("{wanted}.so.");
    let exact = |name: &&String| **name == wanted;
    // A file `libc.so` is a script for the linker where development packages are installed.
    names.iter().find(exact).or_else(|| names.iter().find(|name| name.starts_with(&library)))
}

fn wrong(path: &str, problem: &str) -> PointError {
    PointError::plain(Reason::Malformed, format!("{path} cannot be searched: {problem}"))
}

/// All of a program or library.
pub(super) fn read(program: &Program) -> Result<Vec<u8>, PointError> {
    let path = program.path();
    let bytes = program.bytes(MAX_FILE).map_err(|error| wrong(path, &error.to_string()))?;
    if bytes.len() as u64 > MAX_FILE {
        return Err(wrong(path, "it is larger than 512 MiB"));
    }
    Ok(bytes)
}

/// A program or library, taken apart, that is no larger in any respect than such a file is.
pub(super) fn parsed<'d>(bytes: &'d [u8], path: &str) -> Result<object::File<'d>, PointError> {
    let elf = object::File::parse(bytes).map_err(|error| wrong(path, &error.to_string()))?;
    match bounds::exceeded(&elf, bytes.len() as u64) {
        Some(problem) => Err(wrong(path, problem)),
        None => Ok(elf),
    }
}

/// Where in a file an address of the program lies.
fn offset_in_file(elf: &object::File<'_>, address: u64) -> Option<u64> {
    elf.sections().find_map(|section| {
        // Others are never in memory, and all begin at address 0.
        let SectionFlags::Elf { sh_flags } = section.flags() else { return None };
        let (start, size) = section.file_range().filter(|_| sh_flags & IN_MEMORY != 0)?;
        let inside = address.checked_sub(section.address()).filter(|inside| *inside < size)?;
        start.checked_add(inside)
    })
}

/// What a file has: where its functions begin, by name, and the names of its indirect functions.
#[derive(Default)]
struct Functions {
    places: BTreeMap<String, BTreeSet<u64>>,
    indirect: BTreeSet<String>,
    is_stripped: bool,
}

fn functions(program: &Program, is_wanted: impl Fn(&str) -> bool) -> Result<Functions, PointError> {
    let bytes = read(program)?;
    let elf = parsed(&bytes, program.path())?;
    let mut found = Functions { is_stripped: elf.symbols().next().is_none(), ..Functions::default() };
    for symbol in elf.symbols().chain(elf.dynamic_symbols()) {
        let SymbolFlags::Elf { st_info, .. } = symbol.flags() else { continue };
        let (Ok(name), kind) = (symbol.name(), st_info & 0xf) else { continue };
        if symbol.is_undefined() || name.is_empty() {
            continue;
        }
        if kind == INDIRECT {
            found.indirect.insert(name.to_owned());
        }
        if kind != FUNCTION {
            continue;
        }
        let places = found.places.entry(name.to_owned()).or_default();
        if is_wanted(name) {
            let section = symbol.section_index().and_then(|index| elf.section_by_index(index).ok());
            places.extend(section.and_then(|section| {
                let (start, _) = section.file_range()?;
                symbol.address().checked_sub(section.address())?.checked_add(start)
            }));
        }
    }
    Ok(found)
}

/// Where the functions of this name begin, as offsets in the file. There is more than one where a library keeps old versions, or
/// where several source files have one of their own.
pub(super) fn offsets(program: &Program, name: &str) -> Result<Vec<u64>, PointError> {
    let path = program.path();
    let mut found = functions(program, |own| own == name)?;
    let places = found.places.remove(name).unwrap_or_default();
    if !places.is_empty() {
        return Ok(places.into_iter().collect());
    }
    if found.indirect.contains(name) {
        let message = format!(
            "{name} of {path} is chosen among several functions when a program starts (an indirect function), so there is no \
             single place to attach to"
        );
        return Err(PointError::plain(Reason::NotApplicable, message));
    }
    let stripped = if found.is_stripped { STRIPPED } else { "" };
    let message = format!("{path} has no function {name:?}{stripped}");
    Err(PointError::absent(message, name, found.places.into_keys().collect()))
}

/// Where those of these functions begin that the file has.
pub(super) fn known(program: &Program, names: &[&str]) -> Result<BTreeMap<String, Vec<u64>>, PointError> {
    let found = functions(program, |name| names.contains(&name))?;
    let is_there = |(_, places): &(String, BTreeSet<u64>)| !places.is_empty();
    Ok(found.places.into_iter().filter(is_there).map(|(name, all)| (name, all.into_iter().collect())).collect())
}

const STRIPPED: &str = "; it is stripped, so only what it exports has a name";

/// The functions whose names fit a pattern, sorted, with where they begin. What has several names is named once, by the plainest.
pub(super) fn matching(program: &Program, pattern: &str) -> Result<Vec<(String, Vec<u64>)>, PointError> {
    let path = program.path();
    let found = functions(program, |name| fits(pattern, name))?;
    let mut named: BTreeMap<BTreeSet<u64>, String> = BTreeMap::new();
    for (name, places) in found.places.into_iter().filter(|(_, places)| !places.is_empty()) {
        let plainness = |name: &str| (name.starts_with('_'), name.len());
        let known = named.entry(places).or_insert_with(|| name.clone());
        if plainness(&name) < plainness(known) {
            *known = name;
        }
    }
    if named.is_empty() {
        let stripped = if found.is_stripped { STRIPPED } else { "" };
        let message = format!("no function of {path} fits {pattern:?}{stripped}");
        return Err(PointError::plain(Reason::Absent, message));
    }
    let mut all: Vec<(String, Vec<u64>)> =
        named.into_iter().map(|(places, name)| (name, places.into_iter().collect())).collect();
    all.sort_unstable();
    Ok(all)
}

/// A note that developers have left (`.note.stapsdt`): 8-byte words and three texts, as they are in the file.
pub(super) struct Note {
    pub(super) provider: String,
    pub(super) name: String,
    pub(super) arguments: String,
    /// Where the place is, in the file.
    pub(super) offset: u64,
    /// Where its counter is, in the file.
    pub(super) semaphore: Option<u64>,
}

/// All notes of a program or library; those that cannot be understood are left out.
pub(super) fn notes(bytes: &[u8], path: &str) -> Result<Vec<Note>, PointError> {
    let elf = parsed(bytes, path)?;
    let Some(section) = elf.section_by_name(".note.stapsdt") else { return Ok(Vec::new()) };
    let data = section.data().map_err(|error| wrong(path, &error.to_string()))?;
    // Tools that move a program afterwards (prelink) leave the notes as they were; this section says by how much.
    let base = elf.section_by_name(".stapsdt.base").map(|section| section.address());
    let mut notes = Vec::new();
    let mut rest = data;
    while let Some((description, next)) = next_note(rest).filter(|_| notes.len() < MAX_NOTES) {
        rest = next;
        notes.extend(description.and_then(|description| note(&elf, base, description)));
    }
    Ok(notes)
}

/// The first note's description, if it is of the wanted kind, and what follows it.
fn next_note(data: &[u8]) -> Option<(Option<&[u8]>, &[u8])> {
    let word = |at: usize| data.get(at..at + 4)?.try_into().ok().map(|bytes| u32::from_ne_bytes(bytes) as usize);
    let (owner, length, kind) = (word(0)?, word(4)?, word(8)?);
    let start = 12_usize.checked_add(owner.checked_next_multiple_of(4)?)?;
    let end = start.checked_add(length)?;
    let next = end.checked_next_multiple_of(4)?.min(data.len());
    let is_ours = data.get(12..12 + owner.min(8)) == Some(b"stapsdt\0") && kind == 3;
    Some((data.get(start..end).filter(|_| is_ours), data.get(next..).filter(|rest| rest.len() < data.len())?))
}

fn note(elf: &object::File<'_>, base: Option<u64>, data: &[u8]) -> Option<Note> {
    let word = |at: usize| data.get(at..at + 8)?.try_into().ok().map(u64::from_ne_bytes);
    let moved = |address: u64| match base {
        Some(base) => address.wrapping_add(base.wrapping_sub(word(8).unwrap_or(base))),
        None => address,
    };
    let mut texts = data.get(24..)?.split(|byte| *byte == 0).map(|text| String::from_utf8_lossy(text).into_owned());
    let (provider, name, arguments) = (texts.next()?, texts.next()?, texts.next()?);
    let offset = offset_in_file(elf, moved(word(0)?))?;
    let semaphore = match word(16)? {
        0 => None,
        address => Some(offset_in_file(elf, moved(address))?),
    };
    Some(Note { provider, name, arguments, offset, semaphore })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A note of this owner and kind, padded as in a file.
    fn noted(owner: &[u8], kind: u32, description: &[u8]) -> Vec<u8> {
        let words = [owner.len() as u32, description.len() as u32, kind];
        let mut bytes: Vec<u8> = words.iter().flat_map(|word| word.to_ne_bytes()).collect();
        for part in [owner, description] {
            bytes.extend(part);
            bytes.resize(bytes.len().next_multiple_of(4), 0);
        }
        bytes
    }

    #[test]
    fn only_notes_of_marked_places_are_taken_and_the_others_passed_over() {
        let all =
            [noted(b"GNU\0", 3, b"12345"), noted(b"stapsdt\0", 3, b"abcde"), noted(b"stapsdt\0", 4, b"x")].concat();
        let (first, rest) = next_note(&all).unwrap();
        let (second, rest) = next_note(rest).unwrap();
        let (third, rest) = next_note(rest).unwrap();
        assert_eq!((first, second, third, rest.len()), (None, Some(&b"abcde"[..]), None, 0));
        assert_eq!(next_note(rest), None);
    }

    #[test]
    fn notes_that_are_cut_short_or_garbled_end_soon_and_harm_nobody() {
        let whole = [noted(b"stapsdt\0", 3, b"abcde"), noted(b"stapsdt\0", 3, b"fghij")].concat();
        let count = |data: &[u8]| std::iter::successors(next_note(data), |(_, rest)| next_note(rest)).count();
        for length in 0..whole.len() {
            assert!(count(&whole[..length]) <= 2);
        }
        for at in 0..whole.len() {
            let mut garbled = whole.clone();
            garbled[at] ^= 0xff;
            assert!(count(&garbled) <= 3);
        }
    }
}
