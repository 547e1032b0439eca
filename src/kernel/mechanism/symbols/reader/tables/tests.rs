#![expect(clippy::disallowed_methods, reason = "the test's own program, and what it makes of it")]

use std::io::Write as _;

use object::{Object as _, ObjectSection as _};
use proptest::prelude::*;

use super::*;

fn file(bytes: &[u8]) -> File {
    let mut file = tempfile::tempfile().unwrap();
    file.write_all(bytes).unwrap();
    file
}

/// The C library that this program uses.
fn c_library() -> Vec<u8> {
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    let path =
        maps.lines().find_map(|line| line.split(' ').next_back().filter(|path| path.contains("libc.so"))).unwrap();
    std::fs::read(path).unwrap()
}

fn row(tables: &Tables, offset: u64) -> Option<Row> {
    tables.rows(&[offset]).pop().flatten()
}

/// Offsets all over the code of a file.
fn code(bytes: &[u8]) -> Vec<u64> {
    let parsed = object::File::parse(bytes).unwrap();
    let (from, size) = parsed.section_by_name(".text").unwrap().file_range().unwrap();
    (from..from + size).step_by(61).collect()
}

#[test]
fn the_c_library_tells_the_callers_of_nearly_all_of_its_code_and_which_is_called_by_signals() {
    let bytes = c_library();
    let tables = Tables::read(&file(&bytes)).unwrap();
    let offsets = code(&bytes);
    let rows: Vec<Row> = tables.rows(&offsets).into_iter().flatten().collect();
    assert!(rows.len() * 100 > offsets.len() * 95, "{} of {}", rows.len(), offsets.len());
    let (from, to) = (offsets[0], offsets[offsets.len() - 1]);
    let all: Vec<u64> = (from..to).step_by(8).collect();
    let signal = tables.rows(&all).into_iter().flatten().find(|row| row.is_signal).unwrap();
    // All registers of what was interrupted are on the stack.
    assert!(signal.rules.len() > 15 && signal.rules.iter().all(|(_, rule)| matches!(rule, Rule::At(_))), "{signal:?}");
    assert!(signal.frame.loaded.is_some(), "{signal:?}");
}

#[test]
#[cfg(target_arch = "x86_64")]
fn a_row_holds_for_its_range_and_says_where_the_address_to_return_to_is() {
    let bytes = c_library();
    let tables = Tables::read(&file(&bytes)).unwrap();
    for offset in code(&bytes).into_iter().step_by(97) {
        let Some(found) = row(&tables, offset) else { continue };
        let at_edges = [offset - found.before, offset + found.after - 1].map(|offset| row(&tables, offset).unwrap());
        let what = |row: &Row| (row.frame, row.rules.clone(), row.returns);
        assert!(at_edges.iter().all(|edge| what(edge) == what(&found)), "{found:?} {at_edges:?}");
        assert_eq!(found.returns, PC);
    }
}

#[test]
#[cfg(target_arch = "x86_64")]
fn the_frame_in_a_table_of_jumps_hangs_on_the_place() {
    let frames = EhFrame::new(&[], NativeEndian);
    let encoding = Encoding { address_size: 8, format: gimli::Format::Dwarf32, version: 1 };
    // As linkers write it: rsp + 8 + (((rip & 15) >= 11) << 3).
    let code = [0x77, 8, 0x80, 0, 0x3f, 0x1a, 0x3b, 0x2a, 0x33, 0x24, 0x22];
    for (address, offset) in [(0x1030, 8), (0x103a, 8), (0x103b, 16), (0x103f, 16)] {
        let section = EhFrame::new(&code, NativeEndian);
        let mut expressions = Expressions { frames: section, encoding, address, is_local: false };
        let value = expressions.value(&UnwindExpression { offset: 0, length: code.len() }, None);
        assert_eq!(value, Some(Value { base: Base::Register(7), offset, loaded: None }), "{address:#x}");
        assert!(expressions.is_local);
    }
    let mut nothing = Expressions { frames, encoding, address: 0, is_local: false };
    assert_eq!(nothing.value(&UnwindExpression { offset: 0, length: 4 }, None), None);
}

#[test]
fn what_is_no_program_or_has_no_tables_or_those_of_another_machine_is_refused() {
    let bytes = c_library();
    let mut other = bytes.clone();
    other[18..20].copy_from_slice(&[40, 0]);
    for bytes in [&b"#!/bin/sh\n"[..], &[], &bytes[..100], &other] {
        assert!(Tables::read(&file(bytes)).is_err());
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    /// The header with its search table, and the tables themselves, are whatever their owner likes.
    #[test]
    fn no_bytes_in_tables_make_it_panic(
        changes in proptest::collection::vec((0.0..1.0_f64, any::<u8>()), 1..40),
        in_header in any::<bool>(),
    ) {
        let bytes = std::fs::read("/proc/self/exe").unwrap();
        let tables = Tables::read(&file(&bytes)).unwrap();
        let mut tables = Tables {
            segments: tables.segments,
            header: Part { bytes: tables.header.bytes.into_iter().take(4096).collect(), ..tables.header },
            frames: Part { bytes: tables.frames.bytes.into_iter().take(65_536).collect(), ..tables.frames },
        };
        let part = if in_header { &mut tables.header.bytes } else { &mut tables.frames.bytes };
        for (place, byte) in changes {
            // What lies in front leads to all else.
            let at = (place * place * part.len() as f64) as usize;
            part[at] = byte;
        }
        let offsets = code(&bytes);
        let some: Vec<u64> = offsets.iter().step_by(offsets.len() / 200 + 1).copied().collect();
        prop_assert_eq!(tables.rows(&some).len(), some.len());
    }
}
