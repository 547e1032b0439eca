//! What fuzzing reaches: the readers of files that other users make, without the process and the files around them.

use std::fs::File;
use std::io;

use super::interpreted::Language;
use super::maps::Maps;
use super::perf_map::PerfMap;
use super::reader;

/// The functions at one place, outermost first, each with its line.
pub type Functions = Vec<(String, Option<String>)>;

/// The functions at some places of a file, as the process that reads symbols answers.
///
/// # Errors
///
/// When it is no file with symbols.
pub fn names(file: &File, offsets: &[u64], lines: bool) -> io::Result<Vec<Functions>> {
    reader::names(file, offsets, lines)
}

/// For how many of some places of a file its unwind tables tell the caller, as the process that reads symbols answers.
///
/// # Errors
///
/// When it has no such tables.
pub fn rows(file: &File, offsets: &[u64]) -> io::Result<usize> {
    Ok(reader::rows(file, offsets)?.iter().flatten().count())
}

/// Whether a file has an interpreter of which the process that reads symbols can tell where it has what: V8, HotSpot, or CPython of one
/// of these minor versions of 3.
pub fn interpreter(file: &File, minors: impl IntoIterator<Item = u8>) -> bool {
    let languages = minors.into_iter().map(Language::Python).chain([Language::JavaScript, Language::Java]);
    languages.filter_map(|language| reader::interpreter(file, language)).any(|found| found.has_layout())
}

/// Asks everything of what a process has mapped (`/proc/PID/maps`): at these addresses, and at every edge of a mapping.
pub fn maps(text: &str, addresses: &[u64]) {
    let maps = Maps::parse(text);
    for address in addresses.iter().copied().chain(maps.edges()) {
        let _ = (maps.settles(address), maps.kind(address), maps.is_deleted(address), maps.object(address));
        let _ = maps.has_variables(address);
        let _ = (maps.place(address), maps.in_file(address, 1));
    }
}

/// Asks for the functions that a process says to have compiled (`perf-PID.map`).
pub fn compiled(text: &str, addresses: &[u64]) {
    let map = PerfMap::parse(text.to_owned());
    for address in addresses.iter().copied().chain(map.starts()) {
        let _ = map.name(address);
    }
}
