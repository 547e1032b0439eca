//! The table of symbols that was stripped from a file into another one, with the debug information (`libc6-dbg`).
//!
//! That table is small and lies open; the debug information beside it is mostly compressed, and unpacking that of a C library
//! alone takes 40 ms of CPU time. So names are looked up here first.

use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

/// Below the folder of debug information: where files are by the build id of the program that they were stripped from.
const BY_BUILD_ID: &str = ".build-id";
/// Program headers that are looked at; more has no file that a linker made.
const MAX_HEADERS: u16 = 256;
const HEADER: usize = 56;
const LOAD: u64 = 1;
/// `PT_GNU_EH_FRAME`: the table of unwind tables.
const UNWIND: u64 = 0x6474_e550;

/// The file with the symbols of a program; none if it is not here.
pub(super) fn debug_file(folder: &Path, build_id: &[u8]) -> Option<PathBuf> {
    let hex: Vec<String> = build_id.iter().map(|byte| format!("{byte:02x}")).collect();
    let (first, rest) = hex.split_first()?;
    let file = folder.join(BY_BUILD_ID).join(first).join(format!("{}.debug", rest.concat()));
    file.exists().then_some(file)
}

/// Where the parts of a file are in memory, relative to each other. Those of its debug file have lost their offsets.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Segments {
    loaded: Vec<Segment>,
    /// Where unwind tables are looked up.
    pub(super) unwind: Option<Segment>,
    /// For which machine its code is, as ELF numbers it.
    pub(super) machine: u16,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Segment {
    pub(super) offset: u64,
    pub(super) address: u64,
    pub(super) size: u64,
}

impl Segments {
    /// Those of a file; none of what is no 64-bit ELF file of this machine's byte order.
    pub(super) fn of(file: &std::fs::File) -> Self {
        let mut header = [0; 64];
        let Ok(()) = file.read_exact_at(&mut header, 0) else { return Self::default() };
        let Some((at, count)) = headers(&header) else { return Self::default() };
        let mut bytes = vec![0; usize::from(count.min(MAX_HEADERS)) * HEADER];
        let Ok(()) = file.read_exact_at(&mut bytes, at) else { return Self::default() };
        let of = |kind| bytes.chunks_exact(HEADER).filter_map(move |bytes| segment(bytes, kind));
        let machine = number(&header, 18, 2).unwrap_or_default() as u16;
        Self { loaded: of(LOAD).collect(), unwind: of(UNWIND).next(), machine }
    }

    /// The rest of the part that an address lies in, from there on.
    pub(super) fn rest_from(&self, address: u64) -> Option<Segment> {
        let rest = |segment: &Segment| {
            let into = address.checked_sub(segment.address).filter(|into| *into < segment.size)?;
            Some(Segment { offset: segment.offset.checked_add(into)?, address, size: segment.size - into })
        };
        self.loaded.iter().find_map(rest)
    }

    /// The address that symbols have, of a place in the file.
    pub(super) fn address(&self, offset: u64) -> Option<u64> {
        let within = |segment: &Segment| {
            let into = offset.checked_sub(segment.offset).filter(|into| *into < segment.size)?;
            segment.address.checked_add(into)
        };
        self.loaded.iter().find_map(within)
    }
}

/// Where the program headers are, and how many.
fn headers(header: &[u8]) -> Option<(u64, u16)> {
    let class_and_order = [2, if cfg!(target_endian = "little") { 1 } else { 2 }];
    let is_ours = header.starts_with(b"\x7fELF") && header.get(4..6)? == class_and_order;
    let (size, count) = (number(header, 54, 2)?, number(header, 56, 2)?);
    (is_ours && size == HEADER as u64).then_some((number(header, 32, 8)?, count as u16))
}

fn segment(bytes: &[u8], kind: u64) -> Option<Segment> {
    let is_wanted = number(bytes, 0, 4)? == kind;
    let segment = Segment { offset: number(bytes, 8, 8)?, address: number(bytes, 16, 8)?, size: number(bytes, 32, 8)? };
    is_wanted.then_some(segment)
}

fn number(bytes: &[u8], at: usize, size: usize) -> Option<u64> {
    let field = bytes.get(at..at + size)?;
    let mut whole = [0; 8];
    if cfg!(target_endian = "little") {
        whole.get_mut(..size)?.copy_from_slice(field);
    } else {
        whole.get_mut(8 - size..)?.copy_from_slice(field);
    }
    Some(u64::from_ne_bytes(whole))
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "the test makes the files")]
mod tests {
    use super::*;

    #[test]
    fn a_place_in_a_file_has_the_address_that_its_segment_gives_it() {
        let own = std::fs::File::open(std::env::current_exe().unwrap()).unwrap();
        let segments = Segments::of(&own);
        assert!(segments.loaded.len() >= 2, "{segments:?}");
        for segment in &segments.loaded {
            assert_eq!(segments.address(segment.offset + 1), Some(segment.address + 1));
            let rest = Segment { offset: segment.offset + 1, address: segment.address + 1, size: segment.size - 1 };
            assert_eq!(segments.rest_from(segment.address + 1), Some(rest));
        }
        assert_eq!(segments.rest_from(u64::MAX), None);
        assert_eq!(segments.address(u64::MAX), None);
    }

    #[test]
    fn debug_information_is_found_by_the_build_id() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join(".build-id/0a/ff10.debug");
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        std::fs::write(&file, "").unwrap();
        assert_eq!(debug_file(folder.path(), &[0x0a, 0xff, 0x10]), Some(file));
        assert_eq!(debug_file(folder.path(), &[0x0a, 0xff, 0x11]), None);
        assert_eq!(debug_file(folder.path(), &[]), None);
    }

    #[test]
    fn what_is_no_program_or_cut_short_has_no_segments() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x");
        let own = std::fs::read(std::env::current_exe().unwrap()).unwrap();
        let mut far = own[..64].to_vec();
        far[32..40].copy_from_slice(&u64::MAX.to_ne_bytes());
        for bytes in [&b"#!/bin/sh\n"[..], &own[..40], &own[..70], &far, &[]] {
            std::fs::write(&path, bytes).unwrap();
            assert_eq!(Segments::of(&std::fs::File::open(&path).unwrap()), Segments::default());
        }
    }
}
