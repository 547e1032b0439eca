//! Processes that lived for a short time only, summed up by who started them: a thousand of them are one line.

use std::collections::{BTreeMap, HashMap};

use crate::table::TableSpec;
use rdiag_model::Unit;
use rdiag_model::probe::ProbeTable;

/// Ended processes whose CPU time is not known yet, and distinct kinds.
const MOST: usize = 10_000;

/// A process and when it started.
type Process = (u64, u64);
/// Parent, its name, and the name of what it started.
type Kind = (u64, String, String);

#[derive(Debug, Default)]
struct Sum {
    count: u64,
    lifetime: u64,
    cpu: u64,
}

/// Short-lived processes since the last reading.
#[derive(Debug, Default)]
pub(super) struct ShortLived {
    threshold: u64,
    kinds: BTreeMap<Kind, Sum>,
    /// Of kinds that found no room.
    rest: Sum,
    waiting: HashMap<Process, Kind>,
}

impl ShortLived {
    pub(super) fn new(threshold: u64) -> Self {
        Self { threshold, ..Self::default() }
    }

    /// A process has ended.
    pub(super) fn ended(&mut self, process: Process, lived: u64, parent: (u64, String), name: String) {
        if lived >= self.threshold {
            return;
        }
        let kind = (parent.0, parent.1, name);
        let sum = self.sum(&kind);
        sum.count += 1;
        sum.lifetime += lived;
        if self.waiting.len() < MOST {
            self.waiting.insert(process, kind);
        }
    }

    /// The CPU time of a process that has ended before.
    pub(super) fn used(&mut self, process: Process, cpu: u64) {
        if let Some(kind) = self.waiting.remove(&process) {
            self.sum(&kind).cpu += cpu;
        }
    }

    fn sum(&mut self, kind: &Kind) -> &mut Sum {
        if self.kinds.len() >= MOST && !self.kinds.contains_key(kind) {
            return &mut self.rest;
        }
        self.kinds.entry(kind.clone()).or_default()
    }

    /// The sums, most processes first, and forgets them.
    pub(super) fn take(&mut self, top: usize, seconds: f64) -> ProbeTable {
        let mut kinds: Vec<(Kind, Sum)> = std::mem::take(&mut self.kinds).into_iter().collect();
        let rest = std::mem::take(&mut self.rest);
        kinds.sort_by_key(|(_, sum)| std::cmp::Reverse(sum.count));
        let is_more = rest.count > 0;
        TableSpec::<(Kind, Sum)>::new("short_lived", "Short-lived processes by who started them")
            .rows("process", |((ppid, _, name), _)| format!("{ppid}:{name}"))
            .text("name", "parent", |((_, parent, _), _)| parent.clone())
            .text("pid", "pid", |((ppid, ..), _)| ppid.to_string())
            .text("command", "started", |((.., name), _)| name.clone())
            .sum("count", "ended", Unit::Count, |(_, sum)| sum.count as f64)
            .sum("per_second", "rate", Unit::PerSecond, |(_, sum)| sum.count as f64 / seconds)
            .sum("lifetime", "lived", Unit::Seconds, |(_, sum)| sum.lifetime as f64 * 1e-9)
            .sum("cpu", "CPU time", Unit::Seconds, |(_, sum)| sum.cpu as f64 * 1e-9)
            .top_with_rest(kinds, top, (rest, is_more), |rest, sum| {
                rest.count += sum.count;
                rest.lifetime += sum.lifetime;
                rest.cpu += sum.cpu;
            })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn end(short: &mut ShortLived, pid: u64, lived: u64, name: &str) {
        short.ended((pid, 1), lived, (5, "bash".into()), name.into());
    }

    #[test]
    fn short_lived_processes_are_summed_up_by_parent_and_name_with_the_cpu_time_that_comes_later() {
        let mut short = ShortLived::new(1_000_000_000);
        for pid in 10..13 {
            end(&mut short, pid, 2_000_000, "true");
        }
        end(&mut short, 20, 1_000_000_000, "sleep");
        short.used((10, 1), 500_000);
        short.used((11, 1), 500_000);
        short.used((11, 1), 500_000);
        short.used((99, 1), 500_000);
        let table = short.take(20, 2.0);
        assert_eq!(table.rows.len(), 1, "who lived as long as the threshold is no short-lived one");
        let row = &table.rows[0];
        assert_eq!(row.instance, "5:true");
        assert_eq!(row.cells[..3], ["bash".into(), "5".into(), "true".into()]);
        assert_eq!(row.cells[3..5], [3.0.into(), 1.5.into()]);
        let rdiag_model::probe::Cell::Number(cpu) = row.cells[6] else { panic!("{row:?}") };
        assert!((cpu - 0.001).abs() < 1e-12);
        assert!(short.take(20, 2.0).rows.is_empty());
    }

    #[test]
    fn kinds_beyond_what_is_shown_or_kept_are_summed_up() {
        let mut short = ShortLived::new(1000);
        for pid in 0..MOST as u64 + 2 {
            end(&mut short, pid, 1, &format!("n{pid}"));
        }
        let table = short.take(1, 1.0);
        assert_eq!((table.rows.len(), table.others), (1, MOST as u64));
        assert_eq!(table.others_sum["count"], MOST as f64 + 1.0);
    }
}
