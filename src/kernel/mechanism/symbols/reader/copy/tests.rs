use std::io::Write as _;

use super::*;

const SYMTAB: u32 = 2;
const PROGBITS: u32 = 1;
const NOTE: u32 = 7;
const STRTAB: u32 = 3;
const ALLOC: u64 = 2;
const COMPRESSED: u64 = 0x800;

/// A file with these sections: name, type, flags, contents.
fn elf(sections: &[(&str, u32, u64, &[u8])]) -> Vec<u8> {
    let mut names = vec![0];
    let mut body = vec![0_u8; 64];
    let mut headers = vec![0_u8; 64];
    let mut header = |names: &mut Vec<u8>, name: &str, kind: u32, flags: u64, offset: usize, size: usize| {
        headers.extend((names.len() as u32).to_le_bytes());
        names.extend(name.bytes().chain([0]));
        headers.extend(kind.to_le_bytes());
        for number in [flags, 0, offset as u64, size as u64] {
            headers.extend(number.to_le_bytes());
        }
        headers.extend([0; 8]);
        headers.extend([4_u64.to_le_bytes(), 0_u64.to_le_bytes()].concat());
    };
    for (name, kind, flags, bytes) in sections {
        header(&mut names, name, *kind, *flags, body.len(), bytes.len());
        body.extend(*bytes);
    }
    let at = body.len();
    header(&mut names, ".shstrtab", STRTAB, 0, at, 0);
    let size = headers.len() - 32;
    headers[size..size + 8].copy_from_slice(&(names.len() as u64).to_le_bytes());
    body.extend(&names);
    let table = body.len() as u64;
    body.extend(&headers);
    body[..16].copy_from_slice(b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0");
    body[16..20].copy_from_slice(&[2, 0, 62, 0]);
    body[40..48].copy_from_slice(&table.to_le_bytes());
    for (at, number) in
        [(52, 64_u16), (54, 56), (58, 64), (60, sections.len() as u16 + 2), (62, sections.len() as u16 + 1)]
    {
        body[at..at + 2].copy_from_slice(&number.to_le_bytes());
    }
    body
}

fn file(bytes: &[u8]) -> File {
    let mut file = tempfile::tempfile().unwrap();
    file.write_all(bytes).unwrap();
    file
}

/// The copy of a file, and whether it holds a text.
fn holds(bytes: &[u8], extent: Extent, text: &[u8]) -> bool {
    let copy = copy(&file(bytes), extent).unwrap();
    let copied = File::from(copy.memory);
    let mut whole = vec![0; bytes.len()];
    assert_eq!(copied.metadata().unwrap().len(), bytes.len() as u64, "offsets are those of the file");
    copied.read_exact_at(&mut whole, 0).unwrap();
    whole.windows(text.len()).any(|part| part == text)
}

#[test]
fn tables_are_copied_and_debug_information_where_it_is_wanted_and_code_never() {
    let program = elf(&[
        (".text", PROGBITS, ALLOC | 4, b"machine code"),
        (".symtab", SYMTAB, 0, b"table of symbols"),
        (".strtab", STRTAB, 0, b"names"),
        (".debug_info", PROGBITS, 0, b"debug information"),
        (".gnu_debuglink", PROGBITS, 0, b"program.debug\0"),
        (".gnu_debugaltlink", PROGBITS, 0, b"/tmp/pipe\0"),
    ]);
    for (text, symbols, debug) in [
        ("machine code", false, false),
        ("table of symbols", true, true),
        ("names", true, true),
        ("debug information", false, true),
        ("program.debug", false, true),
        ("/tmp/pipe", false, false),
    ] {
        assert_eq!(holds(&program, Extent::Symbols, text.as_bytes()), symbols, "{text}");
        assert_eq!(holds(&program, Extent::Debug, text.as_bytes()), debug, "{text}");
    }
    let elsewhere = elf(&[(".gnu_debuglink", PROGBITS, 0, b"../../tmp/pipe\0")]);
    assert!(!holds(&elsewhere, Extent::Debug, b"/tmp/pipe"));
}

#[test]
fn the_build_id_is_that_of_the_note() {
    let mut note = [4_u32, 3, 3].map(u32::to_le_bytes).concat();
    note.extend(b"GNU\0\x0a\xff\x10\0");
    let program = elf(&[(".note.gnu.build-id", NOTE, ALLOC, &note)]);
    assert_eq!(copy(&file(&program), Extent::Symbols).unwrap().build_id.as_deref(), Some(&[0x0a, 0xff, 0x10][..]));
    assert_eq!(copy(&file(&elf(&[])), Extent::Symbols).unwrap().build_id, None);
}

#[test]
fn sections_that_claim_to_unpack_to_more_than_there_may_be_are_refused() {
    let claim =
        |size: u64| [[1_u32, 0].map(u32::to_le_bytes).concat(), size.to_le_bytes().to_vec(), vec![0; 8]].concat();
    let old = |size: u64| [b"ZLIB".to_vec(), size.to_be_bytes().to_vec()].concat();
    let debug =
        |sections: &[(&str, u32, u64, &[u8])]| copy(&file(&elf(sections)), Extent::Debug).map(|copy| copy.bytes);
    let half = MAX_BYTES / 2;
    assert!(debug(&[(".debug_info", PROGBITS, COMPRESSED, &claim(half))]).is_ok());
    let twice: &[(&str, u32, u64, &[u8])] =
        &[(".debug_info", PROGBITS, COMPRESSED, &claim(half)), (".debug_str", PROGBITS, COMPRESSED, &claim(half + 1))];
    assert!(debug(twice).unwrap_err().to_string().contains("claims to unpack"));
    assert!(debug(&[(".zdebug_info", PROGBITS, 0, &old(u64::MAX))]).is_err());
    assert!(debug(&[(".zdebug_info", PROGBITS, 0, &old(1))]).is_ok());
    // Whatever kind it is of, it is unpacked for its flag; another section may have its bytes copied.
    assert!(debug(&[(".debug_abbrev", 0, COMPRESSED, &claim(MAX_BYTES + 1))]).is_err());
    // Symbols are there all the same.
    assert!(copy(&file(&elf(twice)), Extent::Symbols).is_ok());
}

#[test]
fn what_is_cut_short_or_no_program_is_refused() {
    let program = elf(&[(".symtab", SYMTAB, 0, b"table of symbols")]);
    for bytes in [&b"#!/bin/sh\n"[..], b"", b"\x7fELF", &program[..60], &program[..program.len() - 70]] {
        assert!(copy(&file(bytes), Extent::Debug).is_err());
    }
    let sparse = file(&program);
    sparse.set_len(MAX_FILE + 1).unwrap_or_default();
    let is_as_large = sparse.metadata().unwrap().len() > MAX_FILE;
    assert!(!is_as_large || copy(&sparse, Extent::Symbols).is_err());
}

proptest::proptest! {
    #[test]
    fn no_change_of_a_file_panics_or_has_more_copied_than_there_is(
        changes in proptest::collection::vec((0_usize..800, proptest::prelude::any::<u8>()), 0..12),
        cut in 0_usize..800,
    ) {
        let mut note = [4_u32, 3, 3].map(u32::to_le_bytes).concat();
        note.extend(b"GNU\0abc\0");
        let mut program = elf(&[
            (".note.gnu.build-id", NOTE, ALLOC, &note),
            (".symtab", SYMTAB, 0, b"table of symbols"),
            (".debug_info", PROGBITS, COMPRESSED, &[1; 40]),
            (".gnu_debuglink", PROGBITS, 0, b"program.debug\0"),
        ]);
        for (at, byte) in changes {
            let length = program.len();
            program[at % length] = byte;
        }
        program.truncate(program.len().max(cut));
        for extent in [Extent::Symbols, Extent::Debug] {
            if let Ok(copy) = copy(&file(&program), extent) {
                proptest::prop_assert!(copy.bytes <= program.len() as u64);
            }
        }
    }
}

#[test]
fn a_program_of_go_is_known_by_its_table_of_functions() {
    let has_go = |name: &str| {
        let bytes = elf(&[(".text", PROGBITS, ALLOC, b"code"), (name, PROGBITS, ALLOC, b"table")]);
        copy(&file(&bytes), Extent::Symbols).unwrap().has_go
    };
    assert!(has_go(".gopclntab") && has_go(".data.rel.ro.gopclntab"));
    assert!(!has_go(".gopclntab.not") && !has_go(".rodata"));
}
