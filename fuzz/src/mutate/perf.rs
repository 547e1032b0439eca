//! `perf.data` keeps its frame: records come twice, go, change places and kinds, and have other numbers; sizes fit again afterwards.

use libfuzzer_sys::fuzzer_mutate;

use super::{Chance, put};

/// Kinds of records that are read, and some that are not.
const KINDS: &[u32] = &[1, 2, 3, 4, 5, 7, 9, 10, 14, 17, 18, 64, 65, 66, 67, 68, 69, 71, 79, 80, 81, 83];
/// Bytes of the head of a file, and of a stream.
const FILE: usize = 104;
const STREAM: usize = 16;
/// Where the head says at which place its records begin, and how many bytes they take.
const AT: usize = 40;

/// One file or stream.
pub fn mutate(data: &mut [u8], size: usize, most: usize, seed: u32) -> usize {
    let mut chance = Chance::new(seed);
    let bytes = data[..size].to_vec();
    let head = if word(&bytes, 8) == STREAM as u64 { STREAM } else { FILE };
    if chance.below(4) == 0 || bytes.len() < head || !bytes.starts_with(b"PERFILE2") {
        return fuzzer_mutate(data, size, most);
    }
    let (from, length) = if head == STREAM {
        (STREAM, bytes.len() - STREAM)
    } else {
        (word(&bytes, AT) as usize, word(&bytes, AT + 8) as usize)
    };
    let end = from.saturating_add(length).min(bytes.len());
    if from > end {
        return fuzzer_mutate(data, size, most);
    }
    let mut before = bytes[..from].to_vec();
    let mut records = records(&bytes[from..end]);
    let after = &bytes[end..];
    for _ in 0..=chance.below(3) {
        if chance.below(5) == 0 || records.is_empty() {
            // Its head, and the descriptions of events.
            number(&mut before, &mut chance);
        } else {
            record(&mut records, &mut chance);
        }
    }
    let body = records.concat();
    // What follows the records is found from where they end.
    if head == FILE && before.len() >= FILE && chance.below(10) != 0 {
        before[AT..AT + 8].copy_from_slice(&(from as u64).to_le_bytes());
        before[AT + 8..AT + 16].copy_from_slice(&(body.len() as u64).to_le_bytes());
    }
    put(&[&before, &body, after].concat(), data, most)
}

fn word(bytes: &[u8], at: usize) -> u64 {
    bytes.get(at..at + 8).and_then(|word| word.try_into().ok()).map_or(0, u64::from_le_bytes)
}

fn records(mut bytes: &[u8]) -> Vec<Vec<u8>> {
    let mut all = Vec::new();
    while bytes.len() >= 8 {
        let size = usize::from(u16::from_le_bytes([bytes[6], bytes[7]])).clamp(8, bytes.len());
        let (record, rest) = bytes.split_at(size);
        all.push(record.to_vec());
        bytes = rest;
    }
    all
}

/// Another number in one of the words, or one of its bytes.
fn number(bytes: &mut [u8], chance: &mut Chance) {
    let width = *chance.of(&[1, 2, 4, 8]);
    let places = bytes.len() / width;
    if places == 0 {
        return;
    }
    let place = chance.below(places) * width;
    let mut old = [0; 8];
    old[..width].copy_from_slice(&bytes[place..place + width]);
    let new = chance.number(u64::from_le_bytes(old)).to_le_bytes();
    bytes[place..place + width].copy_from_slice(&new[..width]);
}

fn record(records: &mut Vec<Vec<u8>>, chance: &mut Chance) {
    let (at, other) = (chance.below(records.len()), chance.below(records.len()));
    match chance.below(8) {
        0 => drop(records.remove(at)),
        1 => records.swap(at, other),
        2 => {
            let again = records[at].clone();
            records.insert(other, again);
        }
        3 => records[at][..4].copy_from_slice(&chance.of(KINDS).to_le_bytes()),
        4 => {
            // Longer or shorter, by words.
            let size = (8 + 8 * chance.below(24)).min(65528);
            records[at].resize(size, 0);
            records[at][6..8].copy_from_slice(&(size as u16).to_le_bytes());
        }
        _ => number(&mut records[at][8..], chance),
    }
}
