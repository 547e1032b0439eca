//! Which rules are critical over the last minute: what is in memory of it becomes a recording by the path of `--at`, and use-method judges
//! that. The table of processes is left out: no condition for `critical` asks for it, and the drill-down of the incident names the culprit.
//!
//! A rule is news if it was not critical at the last judgement. One that is critical from the beginning on, such as that of a file system
//! that is always full, is none until it fell below. Judging takes what recording leaves of the budget.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::super::analyze::analyze;
use super::super::past::{Piece, Span, past_of};
use super::super::record::Slot;
use rdiag_history::{Block, Header, Resource, of_samples};
use rdiag_kernel::host::release_memory;
use rdiag_kernel::host::{Zone, thread_usage};
use rdiag_model::{CollectorRecord, Finding, Series, Status, quantity};
use rdiag_playbook::Plan;

/// At least so many intervals are judged: many rules ask for three in a row.
const LEAST_INTERVALS: f64 = 6.0;
/// CPU seconds that the first judgement is taken to cost.
const FIRST_COST: f64 = 0.02;
/// Judgements in a row after which it is said anew that one is left out.
const CALM: u32 = 10;

/// Of a plan what judges the last minute: the rules of its first window that have a condition for `critical`, without what only people
/// read.
#[must_use]
pub fn critical_only(mut plan: Plan) -> Plan {
    plan.windows.truncate(1);
    // Each minute is judged: what was before it was news then.
    plan.recent = 0.0;
    for planned in plan.windows.iter_mut().flatten() {
        planned.rules.retain(|(rule, _)| rule.critical.is_some());
        for (rule, _) in &mut planned.rules {
            (rule.tests, rule.equivalent) = (Vec::new(), BTreeMap::new());
        }
    }
    plan
}

/// A rule, and the instance of which it is critical.
pub(super) type Key = (String, Option<String>);

/// A rule that was not critical before.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Critical {
    pub(super) key: Key,
    pub(super) resource: Resource,
    pub(super) says: String,
    /// Length of the time that was judged.
    pub(super) seconds: f64,
}

/// The block in the making.
pub(super) struct InMaking<'r> {
    pub(super) header: &'r Header,
    pub(super) slots: &'r [Slot],
    /// Intervals of it that are over.
    pub(super) intervals: usize,
}

/// Judges each minute that is over.
pub(super) struct MinuteJudge {
    plan: Arc<Plan>,
    /// Length of what is judged.
    seconds: f64,
    interval: f64,
    /// Such times of this block that are over.
    over: u32,
    /// What was critical at the last judgement; none before the first.
    known: Option<BTreeSet<Key>>,
    purse: Purse,
    cpu_seconds: f64,
}

impl MinuteJudge {
    /// By a plan of [`critical_only`]; `minute` and `interval` are in seconds.
    pub(super) fn new(plan: Arc<Plan>, minute: f64, interval: f64) -> Self {
        let seconds = minute.max(LEAST_INTERVALS * interval);
        Self { plan, seconds, interval, over: 0, known: None, purse: Purse::new(), cpu_seconds: 0.0 }
    }

    /// CPU seconds that judging took so far.
    pub(super) fn cpu_seconds(&self) -> f64 {
        self.cpu_seconds
    }

    /// To be called after each sample, with the share of a CPU that recording leaves of the budget, none as long as that is not known:
    /// which rules became critical, and what a person should know.
    pub(super) fn judge(&mut self, block: &InMaking<'_>, spare: Option<f64>) -> (Vec<Critical>, Option<String>) {
        let over = (block.intervals as f64 * self.interval / self.seconds + 1e-9).floor() as u32;
        let before = std::mem::replace(&mut self.over, over);
        let Some(spare) = spare.filter(|_| over > 0 && over != before) else { return (Vec::new(), None) };
        if let Err(told) = self.purse.take_in(spare * self.seconds) {
            return (Vec::new(), told);
        }
        let began = thread_usage();
        let newest = |slot: &Slot| slot.sink.with_record(|record| record.times.last().copied());
        let last = block.slots.iter().filter_map(newest).fold(0.0, f64::max);
        // A sample may have been late by half an interval.
        let from = last - self.seconds - self.interval / 2.0;
        let cut = |slot: &Slot| (slot.id.to_owned(), slot.sink.with_record(|record| since(record, from)));
        let findings = self.findings(block.header, block.slots.iter().map(cut).collect(), (from, last));
        // As much code as recording takes, and it is not run again for a minute.
        release_memory();
        let cost = thread_usage() - began;
        self.cpu_seconds += cost;
        self.purse.pay(cost);
        (findings.map(|findings| self.news(&findings)).unwrap_or_default(), None)
    }

    /// What the rules say of a part of a block, in seconds of its own; none if nothing was recorded.
    fn findings(
        &self,
        header: &Header,
        collectors: BTreeMap<String, CollectorRecord>,
        (from, last): (f64, f64),
    ) -> Option<Vec<Finding>> {
        let header = Header { seconds: last, settings: BTreeMap::new(), ..header.clone() };
        let wall = |seconds: f64| header.wall_micros.saturating_add((seconds * 1e6) as i64);
        let span = Span { from: wall(from), to: wall(last + self.interval) };
        let piece = Piece {
            name: super::TAIL.to_owned(),
            block: Block { header, collectors, idle: Vec::new() },
            damage: Vec::new(),
        };
        let past = past_of(vec![piece], span, &self.plan, &Zone::utc()).ok()?;
        Some(analyze(&past.recording, &self.plan).findings)
    }

    /// What is critical now and was not before.
    fn news(&mut self, findings: &[Finding]) -> Vec<Critical> {
        let is_first = self.known.is_none();
        let known = self.known.get_or_insert_default();
        known.retain(|(rule, instance)| {
            let mut own = findings.iter().filter(|finding| finding.id == *rule);
            match own.clone().find(|finding| finding.instance == *instance) {
                Some(finding) => finding.status == Status::Critical || !is_judged(finding),
                // A device that is gone is not critical any more, unless none of its kind could be judged.
                None => !own.any(is_judged),
            }
        });
        let mut news = Vec::new();
        for finding in findings.iter().filter(|finding| finding.status == Status::Critical) {
            let key = (finding.id.clone(), finding.instance.clone());
            if known.insert(key.clone()) && !is_first {
                news.push(Critical {
                    key,
                    resource: finding.resource.into(),
                    says: finding.summary.clone(),
                    seconds: finding.window_seconds,
                });
            }
        }
        news
    }

    /// What was news is no incident now: if it lasts, it is news at the next judgement.
    pub(super) fn forget(&mut self, key: &Key) {
        self.known.iter_mut().for_each(|known| {
            known.remove(key);
        });
    }
}

fn is_judged(finding: &Finding) -> bool {
    !matches!(finding.status, Status::Unknown | Status::Skipped)
}

/// What a record has from some second on, without processes.
fn since(record: &CollectorRecord, from: f64) -> CollectorRecord {
    let low = record.times.partition_point(|time| *time < from);
    let times = record.times.get(low..).unwrap_or_default().to_vec();
    let series = |series: &Series| {
        let mut values = series.values.get(low..).unwrap_or_default().to_vec();
        // Those that were not there at the newest samples end before.
        values.resize(times.len(), None);
        values.iter().any(Option::is_some).then(|| Series {
            name: series.name.clone(),
            instance: series.instance.clone(),
            kind: series.kind,
            unit: series.unit,
            values,
        })
    };
    let mut labels = record.labels.clone();
    labels.values_mut().for_each(|own| drop(own.remove(CollectorRecord::MEMBERS)));
    CollectorRecord {
        series: record.series.iter().filter_map(series).collect(),
        jittered: of_samples(record.jittered, times.len(), record.times.len()),
        missed: record.missed,
        unavailable: record.unavailable.clone(),
        gaps: record.gaps.clone(),
        labels,
        log: record.log.clone(),
        processes: Vec::new(),
        times,
    }
}

/// What recording leaves of the budget is saved up until it pays for a judgement.
#[derive(Debug)]
struct Purse {
    saved: f64,
    /// CPU seconds of the last judgement.
    cost: f64,
    in_a_row: u32,
    was_told: bool,
}

impl Purse {
    fn new() -> Self {
        Self { saved: 0.0, cost: FIRST_COST, in_a_row: 0, was_told: false }
    }

    /// Takes in what was left since it was asked last, in CPU seconds; if a judgement cannot be paid, what to say of that.
    fn take_in(&mut self, left: f64) -> Result<(), Option<String>> {
        self.saved = (self.saved + left.max(0.0)).min(self.cost.max(left));
        if left > 0.0 && self.saved >= self.cost {
            self.in_a_row += 1;
            self.was_told &= self.in_a_row < CALM;
            return Ok(());
        }
        self.in_a_row = 0;
        let told = format!(
            "rules do not judge what was recorded just now: that takes {} of CPU time, and recording leaves {} of --budget",
            quantity::seconds(self.cost),
            quantity::seconds(left.max(0.0))
        );
        Err((!std::mem::replace(&mut self.was_told, true)).then_some(told))
    }

    fn pay(&mut self, cost: f64) {
        self.saved -= cost;
        self.cost = cost;
    }
}

#[cfg(test)]
mod tests;
