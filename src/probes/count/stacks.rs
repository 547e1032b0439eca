//! Sums by stack: stacks are read, and their addresses looked up, while the processes live.

use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet};

use super::Key;
use super::counting::Watched;
use super::tables::Sum;
use crate::host::Host;
use crate::mechanism::ebpf::{Kernel, Object};
use crate::mechanism::symbols::{Process, Summary, Symbols, calls, summarize};
use crate::model::probe::Output;
use crate::model::{Unavailable, Unit};
use crate::probes::reads::Totals;

/// The kernel's tables are emptied in time.
const STACKS_KEPT: usize = 8192;
/// Frames that the program takes at most.
pub(super) const DEPTH: usize = 127;
/// What stands in place of a stack's name when it could not be taken.
const MISSING: u64 = 1;

/// What is known of stacks.
pub(super) struct Stacks {
    symbols: Symbols,
    /// By place among the points, and key.
    sums: HashMap<(usize, Key), Sum>,
    /// Stacks have the same name at every point.
    addresses: HashMap<u64, Vec<u64>>,
    /// Stacks that the kernel's tables hold, as far as we have seen them.
    kept: HashSet<(usize, u64)>,
}

impl Stacks {
    pub(super) fn new(host: &Host, kernel: Option<&Kernel>) -> Self {
        let (sums, addresses, kept) = (HashMap::new(), HashMap::new(), HashSet::new());
        Self { symbols: Symbols::new(host, kernel), sums, addresses, kept }
    }

    pub(super) fn notes(&self) -> impl Iterator<Item = &str> {
        self.symbols.notes()
    }

    /// Takes over sums by stack, and has new addresses looked up while their processes live.
    pub(super) fn gather(&mut self, host: &Host, points: &mut [Watched]) -> Result<(), Unavailable> {
        for (at, point) in points.iter_mut().enumerate() {
            for (key, copies) in point.object.take_per_cpu_hash::<Key, [u64; 2]>("point_sums")? {
                let fresh = Sum::of_all_cpus(&copies);
                let sum = self.sums.entry((at, key)).or_default();
                *sum = sum.plus(fresh);
                let [.., kernel, user, tgid, born] = key;
                let process = Process { pid: tgid as u32, born };
                for (process, id) in [(None, kernel), (Some(process), user)] {
                    self.learn(host, (at, &point.object), process, id);
                }
            }
        }
        // Each point has its part of the room.
        if self.kept.len() > STACKS_KEPT / points.len().max(1) {
            self.kept.clear();
            for point in points {
                point.object.take_hash::<u64, [u64; DEPTH]>("point_stacks")?;
            }
        }
        Ok(())
    }

    /// Reads a stack that is new, and has its addresses looked up.
    fn learn(&mut self, host: &Host, (at, object): (usize, &Object), process: Option<Process>, id: u64) {
        if id <= MISSING {
            return;
        }
        self.kept.insert((at, id));
        let stack = match self.addresses.entry(id) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(vacant) => match object.hash_value::<u64, [u64; DEPTH]>("point_stacks", &id) {
                Some(stack) => vacant.insert(taken(&stack)),
                None => return,
            },
        };
        self.symbols.learn(host, process, calls(process, stack));
    }

    /// All that was gathered since the last time, which it forgets; `each` is what every point has counted meanwhile.
    pub(super) fn output(&mut self, host: &Host, points: &[Watched], each: &[Totals], top: usize) -> Vec<Output> {
        let Some(plan) = points.first().map(|point| &point.plan) else { return Vec::new() };
        let sums = std::mem::take(&mut self.sums);
        let sample = |((at, key), sum): (&(usize, Key), &Sum)| {
            points.get(*at).map(|point| point.plan.sample(key, *sum, &self.addresses))
        };
        let samples: Vec<_> = sums.iter().filter_map(sample).collect();
        let unit = plan.value.as_ref().map_or(Unit::Count, |value| value.unit().0);
        let title = plan.heading("");
        let of = Summary { id: "stacks", title: &title, unit, top, depth: DEPTH };
        let mut summed = summarize(host, &mut self.symbols, &samples, of);
        drop(samples);
        // The whole is exact, whatever came while it was read.
        for (at, (point, totals)) in points.iter().zip(each).enumerate() {
            let own = sums.iter().filter(|((of, _), _)| *of == at);
            let told = own.fold(Sum::default(), |all, (_, sum)| all.plus(*sum));
            summed.others += match &point.plan.value {
                Some(value) => value.sum(totals.sum.wrapping_sub(told.sum)),
                None => totals.events.saturating_sub(told.count) as f64,
            };
        }
        if self.addresses.len() > STACKS_KEPT {
            self.addresses.clear();
        }
        vec![Output::Stacks(summed)]
    }
}

/// The addresses of a stack, innermost first. The first place is empty where the kernel knew the caller itself.
pub(super) fn taken(stack: &[u64; DEPTH]) -> Vec<u64> {
    let skip = usize::from(stack.first() == Some(&0));
    stack.iter().skip(skip).take_while(|address| **address != 0).copied().collect()
}
