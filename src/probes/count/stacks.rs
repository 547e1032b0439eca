//! Sums by stack: stacks are read, and their addresses looked up, while the processes live.

use std::collections::HashMap;

use super::Key;
use super::counting::Watched;
use super::names::Names;
use super::tables::Sum;
use crate::def::Context;
use crate::stack_table::{DEPTH, StackTable};
use crate::totals::Totals;
use rdiag_kernel::host::Host;
use rdiag_kernel::mechanism::symbols::{Process, Summary, summarize};
use rdiag_model::probe::Output;
use rdiag_model::{Unavailable, Unit};

/// The kernel's tables, of twice as many, are emptied in time.
const STACKS_KEPT: usize = 8192;

/// What is known of stacks.
pub(super) struct Stacks {
    table: StackTable,
    /// By place among the points, and key.
    sums: HashMap<(usize, Key), Sum>,
}

impl Stacks {
    pub(super) fn new(context: &Context<'_>) -> Self {
        Self { table: StackTable::new(context, STACKS_KEPT), sums: HashMap::new() }
    }

    pub(super) fn notes(&self) -> impl Iterator<Item = &str> {
        self.table.symbols.notes()
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
                    self.table.learn(host, (at, &point.object), process, id);
                }
            }
        }
        self.table.make_room(points.iter_mut().map(|point| &mut point.object))
    }

    /// All that was gathered since the last time, which it forgets; `each` is what every point has counted meanwhile.
    pub(super) fn output(
        &mut self,
        host: &Host,
        points: &[Watched],
        each: &[Totals],
        names: &mut Names,
        top: usize,
    ) -> Vec<Output> {
        let Some(query) = points.first().map(|point| &point.query) else { return Vec::new() };
        let sums = std::mem::take(&mut self.sums);
        for (at, point) in points.iter().enumerate() {
            let keys = sums.keys().filter(|(of, _)| *of == at).map(|(_, key)| key.as_slice());
            names.learn(host, &point.query, &point.object, keys);
        }
        let sample = |((at, key), sum): (&(usize, Key), &Sum)| {
            points.get(*at).map(|point| point.query.sample(key, *sum, &self.table.addresses, names))
        };
        let samples: Vec<_> = sums.iter().filter_map(sample).collect();
        let unit = query.value.as_ref().map_or(Unit::Count, |value| value.unit().0);
        let title = query.heading("");
        let of = Summary { id: "stacks", title: &title, unit, top, depth: DEPTH };
        let mut summed = summarize(host, &mut self.table.symbols, &samples, of);
        drop(samples);
        // The whole is exact, whatever came while it was read.
        for (at, (point, totals)) in points.iter().zip(each).enumerate() {
            let own = sums.iter().filter(|((of, _), _)| *of == at);
            let told = own.fold(Sum::default(), |all, (_, sum)| all.plus(*sum));
            summed.others += match &point.query.value {
                Some(value) => value.sum(totals.sum.wrapping_sub(told.sum)),
                None => totals.events.saturating_sub(told.count) as f64,
            };
        }
        self.table.forget();
        vec![Output::Stacks(summed)]
    }
}
