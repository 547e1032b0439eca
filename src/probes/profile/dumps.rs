//! Samples that come with registers and the top of the stack (`dumps.h`): their callers are found by unwind tables, outside of the kernel.
//!
//! Where no table leads further than frame pointers do, the stack is the one that these gave.

use std::collections::{BTreeMap, HashMap};
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
/// How often the ring is emptied in a second.
const EMPTIED: u64 = 4;
/// Of the largest so many in a second for each CPU, however many CPUs there are.
const LEAST: u64 = 16;
/// The program's key, what the sample stands for, the start of its process, where its bytes begin; then the registers, then the bytes.
const KEY: usize = 6;
const REGISTERS_AT: usize = (KEY + 3) * 8;
const BYTES_AT: usize = REGISTERS_AT + 34 * 8;
/// What is not worth a word.
const WORTH: f64 = 0.005;

/// Whether stacks are to be walked by unwind tables, and can be.
pub(super) fn are_taken(wanted: &Wanted) -> bool {
    SUPPORTED && wanted.user && wanted.tables
}

/// Bytes of the ring: room for two seconds, as far as there may be.
pub(super) fn ring(samples: u64) -> u32 {
    samples.saturating_mul(2 * LARGEST).clamp(RING.0, RING.1).next_power_of_two() as u32
}

/// Bytes that each CPU may send in a second, so that the ring is mostly emptied before it is full. What finds no room all the same is
/// counted.
pub(super) fn rate(ring: u32, cpus: u64) -> u64 {
    (u64::from(ring) * EMPTIED / 2 / cpus.max(1)).max(LEAST * LARGEST)
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
        let dump = registers.map(|registers| Dump {
            ticket: 0,
            registers,
            is_called: false,
            is_asleep: false,
            follows_pointers: false,
            base,
            bytes,
            pointers: Vec::new(),
            functions: BTreeMap::new(),
        });
        Some(Self { key, weight: word(KEY), dump })
    }
}

/// Samples with user stacks, by how these were walked.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Means {
    /// Unwind tables are asked.
    pub(super) is_asked: bool,
    /// All of them.
    pub(super) all: u64,
    /// By unwind tables: these led to a caller, or said that there is none.
    pub(super) tables: u64,
    /// Copied, but tables were of no use.
    pub(super) pointers: u64,
    /// Not copied, as there were too many bytes.
    pub(super) undumped: u64,
}

impl Means {
    /// As sentences, with shares of all samples with user stacks.
    pub(super) fn told(self) -> Vec<String> {
        if !self.is_asked || self.all == 0 {
            return Vec::new();
        }
        let share = |count: u64| count as f64 / self.all as f64;
        let mut note =
            format!("user stacks by unwind tables: {} of the samples that have one", percent(share(self.tables)));
        let mut before = "; without tables: ";
        let others = self.all.saturating_sub(self.tables).saturating_sub(self.pointers).saturating_sub(self.undumped);
        for (count, why) in [
            (self.pointers, "tables led no further or could not be used"),
            (self.undumped, "over the limit of bytes that are copied"),
            (others, "registers or stack could not be copied"),
        ] {
            if share(count) >= WORTH {
                note.push_str(&format!("{before}{} ({why})", percent(share(count))));
                before = ", ";
            }
        }
        let mut notes = vec![note];
        if share(self.undumped) >= WORTH {
            notes.push(
                "take fewer samples per second (`--param hz=`) to stay below the limit of bytes that are copied"
                    .to_owned(),
            );
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
            let by_tables = Key { user: hasher.finish() | 2, ..key };
            let has_row = stack.is_whole || stack.addresses.len() > 1;
            if self.is_full(&by_tables) {
                // Their frame pointers are known already.
                self.add_by_pointers(key, sum);
                continue;
            }
            self.keep_walked(by_tables.user, stack.addresses, stack.is_whole);
            let means = if has_row { &mut self.means.tables } else { &mut self.means.pointers };
            *means = means.saturating_add(sum.count);
            self.add(by_tables, sum);
        }
    }

    /// Waits for those that are being walked no longer.
    pub(super) fn stop_waiting(&mut self) {
        for (key, sum) in std::mem::take(&mut self.waiting).into_values() {
            self.add_by_pointers(key, sum);
        }
    }

    fn add_by_pointers(&mut self, key: Key, sum: Sum) {
        self.means.pointers = self.means.pointers.saturating_add(sum.count);
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
        assert_eq!(tally.means, Means { all: 2, pointers: 2, ..Means::default() });
        assert!(tally.waiting.is_empty() && tally.dumped.is_empty());
    }

    #[test]
    fn the_means_are_told_with_their_shares_of_all_samples_with_user_stacks() {
        let means = Means { is_asked: true, all: 1000, tables: 900, pointers: 50, undumped: 30 };
        let told = means.told();
        assert_eq!(
            told[0],
            "user stacks by unwind tables: 90.0% of the samples that have one; without tables: 5.0% (tables led no further or could \
             not be used), 3.0% (over the limit of bytes that are copied), 2.0% (registers or stack could not be copied)"
        );
        assert!(told[1].starts_with("take fewer samples per second"), "{told:?}");
        let all = Means { is_asked: true, all: 7, tables: 7, ..Means::default() };
        assert_eq!(all.told(), ["user stacks by unwind tables: 100% of the samples that have one"]);
        assert!(Means { is_asked: false, ..means }.told().is_empty());
        assert!(Means { is_asked: true, ..Means::default() }.told().is_empty());
    }

    #[test]
    fn each_cpu_may_send_what_the_ring_has_room_for_when_it_is_emptied_several_times_a_second() {
        assert_eq!((ring(1), ring(200), ring(u64::MAX)), (1 << 20, 1 << 23, 1 << 24));
        assert_eq!(rate(1 << 24, 2), 1 << 24);
        assert_eq!(rate(1 << 24, 64), 1 << 19);
        assert_eq!(rate(1 << 24, 100_000), 16 << 14);
        // The program lets nothing through below its largest.
        assert!(rate(ring(0), u64::MAX) >= LARGEST);
    }
}
