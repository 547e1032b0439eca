//! Functions of programs and libraries: finding the file, and where in it a function begins.

use std::collections::BTreeSet;
use std::io::Read as _;

use object::{Object as _, ObjectSection as _, ObjectSymbol as _, SymbolFlags};

use super::PointError;
use crate::host::Host;
use crate::model::Reason;

/// Larger files are not searched: they are read whole.
const MAX_FILE: u64 = 512 << 20;
/// `STT_FUNC` and `STT_GNU_IFUNC` of ELF.
const FUNCTION: u8 = 2;
const INDIRECT: u8 = 10;

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

/// The file that is meant: a path, or a name that is searched for (`libc`, `libc.so.6`, `bash`), as a process sees it.
pub(super) fn find(host: &Host, file: &str, process: Option<u32>) -> Result<String, PointError> {
    let roots = process.map(|pid| format!("proc/{pid}/root/")).into_iter().chain([String::new()]);
    let is_path = file.contains('/');
    let mut known = Vec::new();
    for root in roots {
        if is_path {
            let path = format!("{root}{}", file.trim_start_matches('/'));
            if host.is_file(&path) {
                return Ok(format!("/{path}"));
            }
            continue;
        }
        for folder in FOLDERS {
            let names = host.list(&format!("{root}{folder}")).unwrap_or_default();
            if let Some(name) = best(&names, file) {
                let path = format!("{root}{folder}/{name}");
                if host.is_file(&path) {
                    return Ok(format!("/{path}"));
                }
            }
            known.extend(names);
        }
    }
    if is_path {
        return Err(PointError::plain(Reason::Absent, format!("there is no file {file:?}")));
    }
    Err(PointError::absent(format!("there is no library or program {file:?} in the usual folders"), file, known))
}

/// `libc` means `libc`, else `libc.so`, else the first `libc.so.…`.
fn best<'n>(names: &'n [String], wanted: &str) -> Option<&'n String> {
    let library = format!("{wanted}.so.");
    let exact = |name: &&String| **name == wanted;
    // A file `libc.so` is a script for the linker where development packages are installed.
    names.iter().find(exact).or_else(|| names.iter().find(|name| name.starts_with(&library)))
}

/// Where the functions of this name begin, as offsets in the file. There is more than one where a library keeps old versions, or
/// where several source files have one of their own.
pub(super) fn offsets(host: &Host, path: &str, name: &str) -> Result<Vec<u64>, PointError> {
    let wrong = |problem: String| PointError::plain(Reason::Malformed, format!("{path} cannot be searched: {problem}"));
    let file = host
        .open(path.trim_start_matches('/'))
        .map_err(|error| PointError::plain(error.reason, format!("{path} cannot be opened: {error}")))?;
    let mut bytes = Vec::new();
    let read = file.take(MAX_FILE + 1).read_to_end(&mut bytes).map_err(|error| wrong(error.to_string()))?;
    if read as u64 > MAX_FILE {
        return Err(wrong("it is larger than 512 MiB".into()));
    }
    let elf = object::File::parse(&*bytes).map_err(|error| wrong(error.to_string()))?;
    let mut known = BTreeSet::new();
    let mut found = BTreeSet::new();
    let mut is_indirect = false;
    for symbol in elf.symbols().chain(elf.dynamic_symbols()) {
        let SymbolFlags::Elf { st_info, .. } = symbol.flags() else { continue };
        let (Ok(own), kind) = (symbol.name(), st_info & 0xf) else { continue };
        if symbol.is_undefined() || !matches!(kind, FUNCTION | INDIRECT) {
            continue;
        }
        if own != name {
            known.insert(own);
            continue;
        }
        if kind == INDIRECT {
            is_indirect = true;
            continue;
        }
        let section = symbol.section_index().and_then(|index| elf.section_by_index(index).ok());
        let offset = section.and_then(|section| {
            let (start, _) = section.file_range()?;
            symbol.address().checked_sub(section.address())?.checked_add(start)
        });
        found.extend(offset);
    }
    if !found.is_empty() {
        return Ok(found.into_iter().collect());
    }
    if is_indirect {
        let message = format!(
            "{name} of {path} is chosen among several functions when a program starts (an indirect function), so there is no \
             single place to attach to"
        );
        return Err(PointError::plain(Reason::NotApplicable, message));
    }
    let stripped =
        if elf.symbols().next().is_none() { "; it is stripped, so only what it exports has a name" } else { "" };
    let message = format!("{path} has no function {name:?}{stripped}");
    Err(PointError::absent(message, name, known.into_iter().map(str::to_owned).collect()))
}
