//! A program keeps its headers: numbers in them change, sections change their kinds and contents, and their tables other numbers.

use libfuzzer_sys::fuzzer_mutate;

use super::{Chance, put};

/// Bytes of the header of a section, and of a file, with 64 bits.
const SECTION: usize = 64;
const HEADER: usize = 64;

/// One file.
pub fn mutate(data: &mut [u8], size: usize, most: usize, seed: u32) -> usize {
    let mut chance = Chance::new(seed);
    let mut bytes = data[..size].to_vec();
    if chance.below(3) == 0 || bytes.len() < HEADER || !bytes.starts_with(b"\x7fELF") {
        return fuzzer_mutate(data, size, most);
    }
    for _ in 0..=chance.below(4) {
        let table = field(&bytes, 40, 8) as usize;
        let count = field(&bytes, 60, 2) as usize;
        let section = table.saturating_add(chance.below(count) * SECTION);
        let Some(header) = bytes.get(section..section.saturating_add(SECTION)) else {
            return fuzzer_mutate(data, size, most);
        };
        let (from, length) = (field(header, 24, 8) as usize, field(header, 32, 8) as usize);
        match chance.below(8) {
            0 => {
                let (at, width) = *chance.of(&[
                    (16, 2),
                    (18, 2),
                    (24, 8),
                    (32, 8),
                    (40, 8),
                    (48, 4),
                    (54, 2),
                    (56, 2),
                    (58, 2),
                    (60, 2),
                    (62, 2),
                ]);
                set(&mut bytes, at, width, &mut chance);
            }
            1 | 2 => {
                let (at, width) = *chance.of(&[
                    (0, 4),
                    (4, 4),
                    (8, 8),
                    (16, 8),
                    (24, 8),
                    (32, 8),
                    (40, 4),
                    (44, 4),
                    (48, 8),
                    (56, 8),
                ]);
                set(&mut bytes, section + at, width, &mut chance);
            }
            3 => {
                // The header of what is compressed.
                let at = from.saturating_add(*chance.of(&[0, 8, 16]));
                set(&mut bytes, at, 8, &mut chance);
            }
            _ => {
                let width = *chance.of(&[1, 1, 1, 2, 4, 8]);
                let end = length.min(bytes.len().saturating_sub(from));
                let at = from.saturating_add(chance.below(end));
                set(&mut bytes, at, width, &mut chance);
            }
        }
    }
    put(&bytes, data, most)
}

fn field(bytes: &[u8], at: usize, width: usize) -> u64 {
    let mut whole = [0; 8];
    if let Some(field) = bytes.get(at..at + width) {
        whole[..width].copy_from_slice(field);
    }
    u64::from_le_bytes(whole)
}

fn set(bytes: &mut [u8], at: usize, width: usize, chance: &mut Chance) {
    if at.checked_add(width).is_some_and(|end| end <= bytes.len()) {
        let new = chance.number(field(bytes, at, width)).to_le_bytes();
        bytes[at..at + width].copy_from_slice(&new[..width]);
    }
}
