//! Samples that come with registers and the top of the stack (`dumps.h`): their callers are found by unwind tables, outside of the kernel.
//!
//! Where no table leads further than frame pointers do, the stack is the one that these gave.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use super::Wanted;
use super::tally::{Key, Sum, Tally};
use rdiag_kernel::host::Host;
use rdiag_kernel::mechanism::ebpf::words;
use rdiag_kernel::mechanism::symbols::Symbols;
use rdiag_kernel::mechanism::symbols::unwind::{Dump, Registers, SUPPORTED, WORDS};
use rdiag_model::quantity::percent;

/// The ring that they come through.
pub(super) const MAP: &str = "profile_dumps";
/// Bytes of the largest, and of the ring at least and at most; all are powers of two.
const LARGEST: u64 = 1 << 14;
const RING: (u64, u64) = (1 << 20, 1 << 24);
/// The program's key, what the sample stands for, the start of its process, where its bytes begin; then the registers, then the bytes.
const KEY: usize = 6;
const REGISTERS_AT: usize = (KEY + 3) * 8;
const BYTES_AT: usize = REGISTERS_AT + 34 * 8;
/// What is not worth a word.
const WORTH: f64 = 0.005;

/// Bytes of the ring: room for two seconds, as far as there may be.
pub(super) fn ring(wanted: &Wanted, samples: u64) -> u32 {
    let bytes = if is_taken(wanted) { samples.saturating_mul(2 * LARGEST) } else { 0 };
    bytes.clamp(RING.0, RING.1).next_power_of_two() as u32
}

/// Bytes that each CPU may send in a second, so that the ring is emptied before it is full.
pub(super) fn rate(wanted: &Wanted, ring: u32, cpus: u64) -> u64 {
    if is_taken(wanted) { u64::from(ring) / 2 / cpus.max(1) } else { 0 }
}

fn is_taken(wanted: &Wanted) -> bool {
    SUPPORTED && wanted.user && wanted.tables
}

/// A sample.
#[derive(Debug)]
pub(super) struct Dumped {
    pub(super) key: Key,
    weight: u64,
    /// None of a process of 32 bits, which is not walked.
    dump: Option<Dump>,
}

impl Dumped {
    /// As the program in the kernel writes it; none of what is too short.
    pub(super) fn of(record: &[u8]) -> Option<Self> {
        let bytes = record.get(BYTES_AT..)?.to_vec();
        let word = |at: usize| words::word(record, at * 8);
        let key = Key::of_words(std::array::from_fn(word), word(KEY + 1));
        let saved: Vec<u64> = (0..WORDS).map(|at| words::word(record, REGISTERS_AT + at * 8)).collect();
        let registers = Registers::of_saved(&saved);
        let base = word(KEY + 2);
        let dump = registers.map(|registers| Dump { ticket: 0, registers, base, bytes, pointers: Vec::new() });
        Some(Self { key, weight: word(KEY), dump })
    }
}

/// How much was sampled, by how its user stacks were walked.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Means {
    /// By unwind tables.
    pub(super) tables: u64,
    /// By frame pointers, though unwind tables were asked.
    pub(super) pointers: u64,
}

impl Means {
    /// Whether tables were asked at all.
    pub(super) fn has_tables(self) -> bool {
        self.tables + self.pointers > 0
    }

    /// As a sentence, and how many samples could not be walked by tables.
    pub(super) fn told(self, undumped: u64) -> Vec<String> {
        let whole = (self.tables + self.pointers) as f64;
        let mut notes = Vec::new();
        if whole > 0.0 {
            let (tables, pointers) = (self.tables as f64 / whole, self.pointers as f64 / whole);
            let mut note = format!("user stacks by unwind tables: {}", percent(tables));
            if pointers >= WORTH {
                note.push_str(&format!(
                    "; by frame pointers, where these led further: {} (code without tables, or a process that had ended)",
                    percent(pointers)
                ));
            }
            notes.push(note);
        }
        if undumped > 0 {
            notes.push(format!(
                "{undumped} samples have user stacks by frame pointers alone: more stacks were to be copied than the limit lets through \
                 (take fewer samples per second)"
            ));
        }
        notes
    }
}

impl Tally {
    /// Takes a sample whose stack is to be walked.
    pub(super) fn dump(&mut self, sample: Dumped) {
        self.dumped.push(sample);
    }

    /// Has the stacks of new samples walked, while their processes live, and adds those that were walked meanwhile.
    pub(super) fn unwind(&mut self, host: &Host, symbols: &mut Symbols) {
        let mut dumps: HashMap<_, Vec<Dump>> = HashMap::new();
        for Dumped { key, weight, dump } in std::mem::take(&mut self.dumped) {
            let sum = Sum { count: 1, weight };
            let Some(dump) = dump else {
                self.add_by_pointers(key, sum);
                continue;
            };
            self.ticket += 1;
            self.waiting.insert(self.ticket, (key, sum));
            let pointers = self.addresses(key.user).to_vec();
            dumps.entry(key.process).or_default().push(Dump { ticket: self.ticket, pointers, ..dump });
        }
        for (process, dumps) in dumps {
            symbols.unwind(host, process, dumps);
        }
        self.take_walked(host, symbols);
    }

    /// Adds the samples whose stacks were walked meanwhile.
    pub(super) fn take_walked(&mut self, host: &Host, symbols: &mut Symbols) {
        for walked in symbols.walked(host) {
            // What came too late was counted without.
            let Some((key, sum)) = self.waiting.remove(&walked.ticket) else { continue };
            let Some(stack) = walked.stack else {
                self.add_by_pointers(key, sum);
                continue;
            };
            let mut hasher = DefaultHasher::new();
            (&stack.addresses, stack.is_whole).hash(&mut hasher);
            // 0 and 1 have meanings of their own.
            let user = hasher.finish() | 2;
            self.keep_walked(user, stack.addresses, stack.is_whole);
            self.means.tables = self.means.tables.saturating_add(sum.weight);
            self.add(Key { user, ..key }, sum);
        }
    }

    /// Waits for those that are being walked no longer.
    pub(super) fn stop_waiting(&mut self) {
        for (key, sum) in std::mem::take(&mut self.waiting).into_values() {
            self.add_by_pointers(key, sum);
        }
    }

    fn add_by_pointers(&mut self, key: Key, sum: Sum) {
        self.means.pointers = self.means.pointers.saturating_add(sum.weight);
        self.add(key, sum);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::tally::MISSING;

    fn record(words: &[(usize, u64)], bytes: usize) -> Vec<u8> {
        let mut record = vec![0; BYTES_AT + bytes];
        for (at, word) in words {
            record[at * 8..at * 8 + 8].copy_from_slice(&word.to_ne_bytes());
        }
        record
    }

    #[test]
    #[cfg(target_arch = "x86_64")]
    fn a_record_is_a_sample_with_its_registers_and_what_is_cut_is_none() {
        // tgid, user, comm, weight, born, base, segment, place, stack pointer.
        let of = |segment| {
            let words =
                [(0, 7), (2, 20), (4, 0x61), (6, 10), (7, 9), (8, 0x1000), (26, segment), (25, 0x40), (28, 0x1008)];
            record(&words, 2048)
        };
        let sample = Dumped::of(&of(0x33)).unwrap();
        let dump = sample.dump.unwrap();
        assert_eq!((sample.key.process.pid, sample.key.process.born, sample.key.user, sample.weight), (7, 9, 20, 10));
        assert_eq!((dump.registers.pc(), dump.base, dump.bytes.len()), (0x40, 0x1000, 2048));
        assert!(Dumped::of(&of(0x23)).unwrap().dump.is_none(), "32 bits");
        assert!(Dumped::of(&of(0x33)[..BYTES_AT - 1]).is_none());
    }

    #[test]
    fn a_sample_that_cannot_be_walked_counts_once_with_its_frame_pointers() {
        let host = Host::live(std::path::Path::new("/"));
        let mut tally = Tally::default();
        let key = Key::of_words([u64::from(u32::MAX), 0, MISSING, 0, 0x61, 0], 1);
        tally.dump(Dumped { key, weight: 10, dump: None });
        tally.unwind(&host, &mut Symbols::default());
        tally.waiting.insert(5, (key, Sum { count: 1, weight: 10 }));
        tally.stop_waiting();
        assert_eq!(tally.sums[&key], Sum { count: 2, weight: 20 });
        assert_eq!(tally.means, Means { tables: 0, pointers: 20 });
        assert!(tally.waiting.is_empty() && tally.dumped.is_empty());
    }

    #[test]
    fn the_means_are_told_with_their_shares() {
        let told = Means { tables: 95, pointers: 5 }.told(3);
        assert!(
            told[0]
                .starts_with("user stacks by unwind tables: 95.0%; by frame pointers, where these led further: 5.0%")
        );
        assert!(told[1].starts_with("3 samples have user stacks by frame pointers alone"));
        assert_eq!(Means { tables: 7, pointers: 0 }.told(0), ["user stacks by unwind tables: 100%"]);
        assert!(Means::default().told(0).is_empty());
    }
}
