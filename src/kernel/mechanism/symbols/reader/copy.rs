//! The tables of a file's symbols as a copy in memory, at the same offsets, and nothing else of the file.
//!
//! What looks names up maps the file, and trusts its sizes: a file that is truncated meanwhile would end the process (SIGBUS), a
//! compressed section that claims to hold 16 GiB would exhaust it. So sizes are verified here, and no other process can write to a copy.

use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt as _;

use crate::mechanism::points::GO_SECTIONS;
use object::elf;
use object::read::elf::{CompressionHeader as _, FileHeader, NoteIterator, ProgramHeader as _, SectionHeader as _};
use object::{Endianness, FileKind, ReadCache, ReadRef as _};
use rustix::fs::{MemfdFlags, ftruncate, memfd_create};

/// No more is copied of a file, or unpacked from it. The debug information of a large C++ program is larger; its functions have names all
/// the same, from the table of symbols.
pub(super) const MAX_BYTES: u64 = 256 << 20;
/// Sections that are looked at; a program that is compiled with a section for each function has some 100,000.
const MAX_SECTIONS: usize = 1 << 18;
/// A file that claims to be larger is none.
const MAX_FILE: u64 = 1 << 40;
const CHUNK: usize = 1 << 20;

/// How much of a file is copied.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Extent {
    /// Headers and the tables of symbols.
    Symbols,
    /// Debug information too.
    Debug,
}

/// A copy, and what it says of the file.
#[derive(Debug)]
pub(super) struct Copy {
    pub(super) memory: OwnedFd,
    pub(super) bytes: u64,
    pub(super) build_id: Option<Vec<u8>>,
    /// It was not stripped: functions are in its own table.
    pub(super) has_symbols: bool,
    /// It has Go's table of functions.
    pub(super) has_go: bool,
}

/// Copies the tables of an ELF file.
///
/// # Errors
/// When it is no such file, or larger than [`MAX_BYTES`] where it counts.
pub(super) fn copy(file: &File, extent: Extent) -> io::Result<Copy> {
    let length = file.metadata()?.len();
    if length > MAX_FILE {
        return Err(invalid("its size is not that of a file"));
    }
    let Tables { ranges, build_id, has_symbols, has_go } = {
        let cache = ReadCache::new(file);
        match FileKind::parse(&cache).map_err(|_| invalid("it is no ELF file"))? {
            FileKind::Elf32 => tables::<elf::FileHeader32<Endianness>>(&cache, length, extent)?,
            FileKind::Elf64 => tables::<elf::FileHeader64<Endianness>>(&cache, length, extent)?,
            _ => return Err(invalid("it is no ELF file")),
        }
    };
    let bytes = ranges.iter().map(|range| range.end - range.start).sum();
    if bytes > MAX_BYTES {
        return Err(invalid(&format!("its tables take {} MiB, more than {}", bytes >> 20, MAX_BYTES >> 20)));
    }
    let memory = memfd_create("symbols", MemfdFlags::CLOEXEC)?;
    ftruncate(&memory, length)?;
    let memory = File::from(memory);
    let mut chunk = vec![0; CHUNK];
    for range in ranges {
        let mut at = range.start;
        while at < range.end {
            let size = usize::try_from(range.end - at).map_or(CHUNK, |left| left.min(CHUNK));
            let part = chunk.get_mut(..size).unwrap_or_default();
            file.read_exact_at(part, at)?;
            memory.write_all_at(part, at)?;
            at += part.len() as u64;
        }
    }
    Ok(Copy { memory: memory.into(), bytes, build_id, has_symbols, has_go })
}

fn invalid(why: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, why)
}

struct Tables {
    ranges: Vec<Range<u64>>,
    build_id: Option<Vec<u8>>,
    has_symbols: bool,
    has_go: bool,
}

/// Where the tables are, without overlap, and the build id.
fn tables<H: FileHeader<Endian = Endianness>>(
    cache: &ReadCache<&File>,
    length: u64,
    extent: Extent,
) -> io::Result<Tables> {
    let bad = |_| invalid("its headers are damaged");
    let header = H::parse(cache).map_err(bad)?;
    let endian = header.endian().map_err(bad)?;
    let sections = header.sections(endian, cache).map_err(bad)?;
    if sections.len() > MAX_SECTIONS {
        return Err(invalid("it has too many sections"));
    }
    let size_of = |count: usize, each: u16| (count as u64).saturating_mul(each.into());
    let mut ranges = Vec::new();
    ranges.push(0..size_of(1, header.e_ehsize(endian)).max(64));
    let (programs, from) = (header.program_headers(endian, cache).map_err(bad)?, header.e_phoff(endian).into());
    ranges.push(from..from.saturating_add(size_of(programs.len(), header.e_phentsize(endian))));
    let from = header.e_shoff(endian).into();
    ranges.push(from..from.saturating_add(size_of(sections.len(), header.e_shentsize(endian))));
    let mut unpacked = 0_u64;
    let (mut build_id, mut has_symbols, mut has_go) = (None, false, false);
    for section in sections.iter() {
        let name = sections.section_name(endian, section).unwrap_or_default();
        let flags: u64 = section.sh_flags(endian).into();
        has_go |= GO_SECTIONS.iter().any(|table| table.as_bytes() == name);
        // What unpacks one asks for its flag and its name, not for its kind; and what is not copied as its own may be as another's.
        if extent == Extent::Debug {
            unpacked = unpacked.saturating_add(unpacked_size::<H>(endian, section, cache, name));
        }
        let Some((from, size)) = section.file_range(endian) else { continue };
        if !is_wanted(name, section.sh_type(endian), flags, extent) || leads_elsewhere(name, cache, from, size) {
            continue;
        }
        has_symbols |= section.sh_type(endian) == elf::SHT_SYMTAB && size > 0;
        ranges.push(from..from.saturating_add(size));
        build_id = build_id
            .or_else(|| section.notes(endian, cache).ok().flatten().and_then(|notes| build_id_of(endian, notes)));
    }
    if unpacked > MAX_BYTES {
        let most = MAX_BYTES >> 20;
        return Err(invalid(&format!("its debug information claims to unpack to more than {most} MiB")));
    }
    if build_id.is_none() {
        let mut notes = programs.iter().filter_map(|program| program.notes(endian, cache).ok().flatten());
        build_id = notes.find_map(|notes| build_id_of(endian, notes));
    }
    // What lies beyond the end reads as zeros, as in a file that was cut.
    let within = |range: &Range<u64>| range.start.min(length)..range.end.min(length);
    let mut ranges: Vec<Range<u64>> = ranges.iter().map(within).filter(|range| range.start < range.end).collect();
    ranges.sort_by_key(|range| range.start);
    let mut merged: Vec<Range<u64>> = Vec::new();
    for range in ranges {
        match merged.last_mut() {
            Some(last) if range.start <= last.end => last.end = last.end.max(range.end),
            _ => merged.push(range),
        }
    }
    Ok(Tables { ranges: merged, build_id, has_symbols, has_go })
}

fn is_wanted(name: &[u8], kind: u32, flags: u64, extent: Extent) -> bool {
    let is_table = matches!(
        kind,
        elf::SHT_SYMTAB
            | elf::SHT_DYNSYM
            | elf::SHT_SYMTAB_SHNDX
            | elf::SHT_STRTAB
            | elf::SHT_HASH
            | elf::SHT_GNU_HASH
            | elf::SHT_NOTE
    );
    let is_debug = kind == elf::SHT_PROGBITS && flags & u64::from(elf::SHF_ALLOC) == 0;
    // Both name further files, anywhere.
    let is_link = name == b".gnu_debugaltlink" || name == b".debug_sup";
    is_table || (extent == Extent::Debug && is_debug && !is_link)
}

/// Whether the section names a file with debug information that is in another folder than those it belongs in.
fn leads_elsewhere(name: &[u8], cache: &ReadCache<&File>, from: u64, size: u64) -> bool {
    let is_plain = || size < 4096 && cache.read_bytes_at(from, size).is_ok_and(|bytes| !bytes.contains(&b'/'));
    name == b".gnu_debuglink" && !is_plain()
}

/// How much a compressed section claims to hold; 0 for one that is not compressed.
fn unpacked_size<H: FileHeader<Endian = Endianness>>(
    endian: Endianness,
    section: &H::SectionHeader,
    cache: &ReadCache<&File>,
    name: &[u8],
) -> u64 {
    if let Ok(Some((header, ..))) = section.compression(endian, cache) {
        return header.ch_size(endian).into();
    }
    // The older way: `ZLIB`, and eight bytes with the size.
    let old = || {
        let (from, _) = section.file_range(endian)?;
        let bytes = cache.read_bytes_at(from, 12).ok()?;
        let size = bytes.strip_prefix(b"ZLIB")?;
        Some(u64::from_be_bytes(size.try_into().ok()?))
    };
    if name.starts_with(b".zdebug") { old().unwrap_or(0) } else { 0 }
}

fn build_id_of<H: FileHeader<Endian = Endianness>>(
    endian: Endianness,
    mut notes: NoteIterator<'_, H>,
) -> Option<Vec<u8>> {
    while let Ok(Some(note)) = notes.next() {
        if note.name() == elf::ELF_NOTE_GNU && note.n_type(endian) == elf::NT_GNU_BUILD_ID {
            return Some(note.desc().to_vec());
        }
    }
    None
}

#[cfg(test)]
mod tests;
