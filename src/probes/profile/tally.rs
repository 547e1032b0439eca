//! Samples as they are kept until they are read: by process, name and stacks.

use std::collections::{BTreeMap, HashMap};

use super::dumps::{Dumped, Means};
use rdiag_kernel::host::Host;
use rdiag_kernel::mechanism::symbols::{Part, Piece, Process, Sample, Symbols, calls};

/// Addresses of a stack at most.
pub(super) const DEPTH: usize = 127;
/// What stands in place of a stack's name when it could not be taken.
pub(super) const MISSING: u64 = 1;
/// Distinct sums of one reading; more are summed without their stacks.
const MAX_SUMS: usize = 50_000;
/// Lines are listed of functions that were hit so often, and by one sample of so many.
const HOT_SAMPLES: u64 = 10;
const HOT_SHARE: u64 = 25;
/// Stacks of one reading beyond which none is kept that was walked by tables.
const MAX_WALKED: usize = MAX_SUMS;
/// Stacks that are remembered from one reading to the next.
const MAX_STACKS: usize = 20_000;

/// Functions by which the kernel takes up an interrupt, or what interrupts have left to do; how their names begin.
const OF_INTERRUPTS: [&str; 8] = [
    "handle_softirqs",
    "__do_softirq",
    "__softirqentry_text_start",
    "asm_sysvec_",
    "asm_common_interrupt",
    "handle_irq_event",
    "el1h_64_irq",
    "el1_irq",
];

/// What is summed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Key {
    pub(super) process: Process,
    /// Name of the task.
    pub(super) comm: [u64; 2],
    /// Names of stacks; 0 is none.
    pub(super) kernel: u64,
    pub(super) user: u64,
    /// Whether the kernel ran.
    pub(super) in_kernel: bool,
}

/// A sum.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Sum {
    /// Samples.
    pub(super) count: u64,
    /// What they stand for: events, or nanoseconds of a clock.
    pub(super) weight: u64,
}

/// All samples since the last reading.
#[derive(Debug, Default)]
pub(super) struct Tally {
    pub(super) sums: HashMap<Key, Sum>,
    stacks: HashMap<u64, KnownStack>,
    /// Of the sums those whose addresses were not looked up yet.
    fresh: Vec<Key>,
    /// Samples of idling.
    pub(super) idle: u64,
    /// Of sums that were too many to be kept apart.
    pub(super) crowded: Sum,
    /// Samples and stacks that are missing, by reason.
    pub(super) lost: HashMap<&'static str, u64>,
    /// What happened meanwhile that the reader must know.
    pub(super) notes: Vec<String>,
    /// Samples whose stacks are to be walked, and those that are being walked.
    pub(super) dumped: Vec<Dumped>,
    pub(super) waiting: HashMap<u64, (Key, Sum)>,
    pub(super) ticket: u64,
    /// Samples by how their user stacks were walked.
    pub(super) means: Means,
}

/// A stack.
#[derive(Debug)]
struct KnownStack {
    /// Innermost first.
    addresses: Vec<u64>,
    /// An unwind table says that the outermost function has no caller.
    is_whole: bool,
}

impl Tally {
    /// Adds samples.
    pub(super) fn add(&mut self, key: Key, sum: Sum) {
        if key.user != 0 {
            self.means.all = self.means.all.saturating_add(sum.count);
        }
        let crowded = self.sums.len() >= MAX_SUMS && !self.sums.contains_key(&key);
        let known = if crowded {
            &mut self.crowded
        } else {
            self.sums.entry(key).or_insert_with(|| {
                self.fresh.push(key);
                Sum::default()
            })
        };
        known.count = known.count.saturating_add(sum.count);
        known.weight = known.weight.saturating_add(sum.weight);
    }

    /// Counts what is missing.
    pub(super) fn lose(&mut self, reason: &'static str, count: u64) {
        *self.lost.entry(reason).or_default() += count;
    }

    /// Adds what the reader must know, once.
    pub(super) fn note(&mut self, text: &str) {
        if !self.notes.iter().any(|known| known == text) {
            self.notes.push(text.to_owned());
        }
    }

    pub(super) fn has_stack(&self, name: u64) -> bool {
        name <= MISSING || self.stacks.contains_key(&name)
    }

    /// Remembers a stack, innermost address first.
    pub(super) fn keep(&mut self, name: u64, kernel: bool, mut addresses: Vec<u64>) {
        addresses.truncate(DEPTH);
        // In the kernel a stack mostly begins with an address to return to, and `calls` goes back to the call before it. Here
        // it begins with the very place.
        if let Some(first) = addresses.first_mut().filter(|_| kernel) {
            *first = first.saturating_add(1);
        }
        self.stacks.insert(name, KnownStack { addresses, is_whole: false });
    }

    /// Whether there is no room for a sum with another user stack.
    pub(super) fn is_full(&self, key: &Key) -> bool {
        let no_sum = self.sums.len() >= MAX_SUMS && !self.sums.contains_key(key);
        no_sum || (self.stacks.len() >= MAX_WALKED && !self.stacks.contains_key(&key.user))
    }

    /// Remembers a user stack that was walked by unwind tables.
    pub(super) fn keep_walked(&mut self, name: u64, addresses: Vec<u64>, is_whole: bool) {
        self.stacks.insert(name, KnownStack { addresses, is_whole });
    }

    /// The addresses of a user stack, innermost first.
    pub(super) fn addresses(&self, name: u64) -> &[u64] {
        self.stacks.get(&name).map_or(&[], |kept| &kept.addresses)
    }

    /// Has the addresses of new stacks looked up, while their processes live.
    pub(super) fn learn(&mut self, host: &Host, symbols: &mut Symbols) {
        let mut addresses: HashMap<Option<Process>, Vec<u64>> = HashMap::new();
        for key in std::mem::take(&mut self.fresh) {
            for (process, name) in [(None, key.kernel), (Some(key.process), key.user)] {
                if let Part::Taken(stack) | Part::Whole(stack) = self.part(name) {
                    addresses.entry(process).or_default().extend(calls(process, stack));
                }
            }
        }
        for (process, addresses) in addresses {
            symbols.learn_functions(host, process, addresses);
        }
    }

    /// Has the lines of the hottest functions looked up, as far as the functions are known. Debug information takes longer to read
    /// than all else together.
    pub(super) fn learn_lines(&self, host: &Host, symbols: &mut Symbols) {
        symbols.catch_up(host);
        for (process, addresses) in self.hot(symbols) {
            symbols.learn_lines(host, process, addresses);
        }
    }

    /// Counts as idle what the idle task was seen at, but for its time in interrupts: much of the work of a network is done there, and
    /// by timers. Whether it was one tells the stack, if the names in it are known.
    pub(super) fn set_idle_apart(&mut self, symbols: &Symbols) {
        let of_idle_task = self.sums.keys().filter(|key| key.process.pid == 0);
        let idle: Vec<Key> = of_idle_task.filter(|key| !self.is_in_interrupt(key, symbols)).copied().collect();
        for sum in idle.iter().filter_map(|key| self.sums.remove(key)).collect::<Vec<_>>() {
            self.idle += sum.count;
        }
    }

    fn is_in_interrupt(&self, key: &Key, symbols: &Symbols) -> bool {
        let Part::Taken(stack) = self.part(key.kernel) else { return false };
        let mut names = calls(None, stack).filter_map(|address| symbols.name(None, address));
        names.any(|name| OF_INTERRUPTS.iter().any(|known| name.starts_with(known)))
    }

    /// The places that were executed of the functions that took most.
    fn hot(&self, symbols: &Symbols) -> BTreeMap<Process, Vec<u64>> {
        let mut functions: HashMap<(Process, &str), (u64, Vec<u64>)> = HashMap::new();
        let mut samples = 0;
        for (key, sum) in &self.sums {
            // Most of these are idling, as it will turn out.
            if key.process.pid == 0 {
                continue;
            }
            samples += sum.count;
            // The kernel's functions have no lines.
            if key.kernel != 0 {
                continue;
            }
            let Some((Some(process), address)) = self.leaf(key) else { continue };
            let Some(name) = symbols.name(Some(process), address) else { continue };
            let (count, addresses) = functions.entry((process, name)).or_default();
            *count += sum.count;
            addresses.push(address);
        }
        let mut hot: BTreeMap<Process, Vec<u64>> = BTreeMap::new();
        for ((process, _), (count, addresses)) in functions {
            if count >= HOT_SAMPLES && count.saturating_mul(HOT_SHARE) >= samples {
                hot.entry(process).or_default().extend(addresses);
            }
        }
        hot
    }

    fn part(&self, name: u64) -> Part<'_> {
        match (name, self.stacks.get(&name)) {
            (0, _) => Part::None,
            (_, Some(kept)) if kept.is_whole => Part::Whole(&kept.addresses),
            (_, Some(kept)) => Part::Taken(&kept.addresses),
            (_, None) => Part::Missing,
        }
    }

    /// The sum as a stack to be named; `scale` makes values of weights.
    pub(super) fn sample(&self, key: &Key, sum: &Sum, scale: f64) -> Sample<'_> {
        let frames = |process, name| Piece::Frames { process, part: self.part(name), reversed: false };
        Sample {
            owner: key.name(),
            pid: Some(key.process.pid),
            pieces: vec![frames(Some(key.process), key.user), frames(None, key.kernel)],
            value: sum.weight as f64 * scale,
            count: sum.count,
        }
    }

    /// The place that was executed: whose, and where.
    pub(super) fn leaf(&self, key: &Key) -> Option<(Option<Process>, u64)> {
        for (process, name) in [(None, key.kernel), (Some(key.process), key.user)] {
            match self.part(name) {
                Part::Taken(stack) | Part::Whole(stack) => {
                    return calls(process, stack).next().map(|address| (process, address));
                }
                Part::Missing => return None,
                Part::None => {}
            }
        }
        None
    }

    /// Begins anew. Stacks are remembered.
    pub(super) fn clear(&mut self) {
        let stacks = std::mem::take(&mut self.stacks);
        let stacks = if stacks.len() > MAX_STACKS { HashMap::new() } else { stacks };
        *self = Self { stacks, ticket: self.ticket, ..Self::default() };
    }
}

impl Key {
    /// As the program in the kernel writes it.
    pub(super) fn of_words([tgid, kernel, user, in_kernel, comm @ ..]: [u64; 6], born: u64) -> Self {
        let comm = if tgid == 0 { Self::IDLE_TASK } else { comm };
        Self { process: Process { pid: tgid as u32, born }, comm, kernel, user, in_kernel: in_kernel != 0 }
    }

    /// The name of the idle task of each CPU, as perf has it; the kernel adds the CPU's number.
    pub(super) const IDLE_TASK: [u64; 2] = [u64::from_ne_bytes(*b"swapper\0"), 0];

    /// What stands for all tasks that had ended before their names were asked for. Those that are just ending have this id.
    pub(super) const ENDED: Process = Process { pid: u32::MAX, born: 0 };

    /// Nothing is known of a task that is gone; one that lives may have an empty name, too.
    fn has_ended(&self) -> bool {
        self.comm == [0; 2] && self.process.born == 0 && self.process.pid != 0
    }

    /// The process, or what stands for those that had ended.
    pub(super) fn process(&self) -> Process {
        if self.has_ended() { Self::ENDED } else { self.process }
    }

    /// The name of the task.
    pub(super) fn name(&self) -> String {
        if self.has_ended() {
            return "(ended tasks)".to_owned();
        }
        rdiag_kernel::mechanism::ebpf::words::text_of_words(&self.comm)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(kernel: u64, user: u64) -> Key {
        Key { process: Process { pid: 7, born: 9 }, comm: [0x61, 0], kernel, user, in_kernel: kernel != 0 }
    }

    #[test]
    fn the_innermost_place_is_that_of_the_kernel_where_it_ran_and_stands_as_it_was_sampled() {
        let mut tally = Tally::default();
        tally.keep(10, true, vec![0xffff_0000, 0xffff_1000]);
        tally.keep(20, false, vec![0x4000, 0x5000]);
        let process = Some(Process { pid: 7, born: 9 });
        assert_eq!(tally.leaf(&key(10, 20)), Some((None, 0xffff_0000)));
        assert_eq!(tally.leaf(&key(0, 20)), Some((process, 0x4000)));
        assert_eq!(tally.leaf(&key(MISSING, 20)), None, "the kernel's part is unknown");
        assert_eq!(tally.leaf(&key(0, 0)), None);
    }

    #[test]
    fn tasks_that_had_ended_before_they_were_asked_for_are_one_and_others_have_their_names() {
        let of = |pid: u32, born: u64, comm: [u64; 2]| {
            let key = Key { process: Process { pid, born }, comm, ..key(0, 20) };
            (key.process(), key.name())
        };
        let ended = (Key::ENDED, "(ended tasks)".to_owned());
        assert_eq!([of(36_566, 0, [0; 2]), of(u32::MAX, 0, [0; 2])], [ended.clone(), ended]);
        assert_eq!(of(7, 9, [0; 2]), (Process { pid: 7, born: 9 }, String::new()), "it named itself so");
        assert_eq!(of(7, 0, [0x61, 0]), (Process { pid: 7, born: 0 }, "a".to_owned()), "its name was told in time");
        assert_eq!(of(0, 0, Key::IDLE_TASK).1, "swapper");
    }

    #[test]
    fn no_more_stacks_are_kept_than_there_is_room_for() {
        let mut tally = Tally::default();
        (2..MAX_WALKED as u64 + 1).for_each(|name| tally.keep_walked(name, Vec::new(), false));
        assert!(!tally.is_full(&key(0, 1 << 40)));
        tally.keep_walked(1 << 40, Vec::new(), false);
        assert!(tally.is_full(&key(0, 1 << 41)) && !tally.is_full(&key(0, 1 << 40)));
        let mut tally = Tally::default();
        (0..MAX_SUMS as u64).for_each(|name| tally.add(key(name, 20), Sum { count: 1, weight: 1 }));
        assert!(tally.is_full(&key(MAX_SUMS as u64, 20)) && !tally.is_full(&key(0, 20)));
    }

    #[test]
    fn samples_add_up_and_a_reading_begins_anew() {
        let mut tally = Tally::default();
        tally.add(key(0, 20), Sum { count: 1, weight: 10 });
        tally.add(key(0, 20), Sum { count: 2, weight: u64::MAX });
        tally.lose("x", 3);
        assert_eq!(tally.sums[&key(0, 20)], Sum { count: 3, weight: u64::MAX });
        tally.clear();
        assert!(tally.sums.is_empty() && tally.lost.is_empty());
    }
}
