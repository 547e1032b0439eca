//! What the file of a CPython says of where its state lies, and of its layout.

use std::fs::File;
use std::os::unix::fs::FileExt as _;

use object::read::elf::{ElfFile64, FileHeader as _, ProgramHeader as _};
use object::{Endianness, Object as _, ObjectSection as _, ObjectSymbol as _, ReadCache, elf};

use super::layout::STATE_BYTES;
use super::{Layout, Python};

/// The section of its own that the state has in most versions, and the variable that it is.
const SECTION: &str = ".PyRuntime";
const VARIABLE: &str = "_PyRuntime";

/// That of a minor version of CPython 3, from a copy of the file's tables and from the file; none if there is none.
pub(in super::super) fn read(tables: &File, file: &File, minor: u8) -> Option<Python> {
    let cache = ReadCache::new(tables);
    let parsed = ElfFile64::<Endianness, _>::parse(&cache).ok()?;
    let variable = || {
        let mut symbols = parsed.dynamic_symbols().chain(parsed.symbols());
        symbols.find(|symbol| symbol.is_definition() && symbol.name() == Ok(VARIABLE)).map(|symbol| symbol.address())
    };
    let state = parsed.section_by_name(SECTION).map(|section| section.address()).or_else(variable)?;
    let endian = parsed.elf_header().endian().ok()?;
    let loaded = || parsed.elf_program_headers().iter().filter(|header| header.p_type(endian) == elf::PT_LOAD);
    let code = loaded().find(|header| header.p_flags(endian) & elf::PF_X != 0)?;
    let place = loaded().find_map(|header| {
        let into = state.checked_sub(header.p_vaddr(endian)).filter(|into| *into < header.p_filesz(endian))?;
        header.p_offset(endian).checked_add(into)
    });
    let mut bytes = [0; STATE_BYTES];
    // What has no beginning value is not in the file, and needs no look.
    let begins = place.is_some_and(|place| file.read_exact_at(&mut bytes, place).is_ok());
    let layout = Layout::of(minor, if begins { &bytes } else { &[] });
    Some(Python { state, code: (code.p_offset(endian), code.p_vaddr(endian)), layout })
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "the test reads its own program")]
mod tests {
    use super::*;

    #[test]
    fn a_program_that_is_no_interpreter_has_none() {
        let own = File::open(std::env::current_exe().unwrap()).unwrap();
        assert_eq!(read(&own, &own, 11), None);
        let text = File::open("/proc/self/maps").unwrap();
        assert_eq!(read(&text, &text, 11), None);
    }
}
