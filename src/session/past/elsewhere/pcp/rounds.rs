//! Records of an archive, put together to rounds: a logger writes what it logs at once in records of their own, some milliseconds apart.

use std::collections::BTreeMap;

use super::super::intervals::Interval;
use super::PCP2JSON;
use super::entries::{Entries, HOST, Value};
use super::metrics::{Kind, METRICS};

/// Between two samples is at least so much, in microseconds.
const SHORTEST: i64 = 100_000;

/// What was logged in a round.
#[derive(Debug, Default)]
pub(super) struct Round {
    /// Of the host: by metric and instance.
    pub(super) host: BTreeMap<(usize, u32), f64>,
    /// Of processes: by pid, then by metric.
    pub(super) tasks: BTreeMap<u32, BTreeMap<usize, Value>>,
}

/// When they were, and what of them is needed.
#[derive(Debug)]
pub(super) struct Rounds {
    /// The metric that says when.
    reference: usize,
    /// In microseconds since 1970, in order.
    times: Vec<i64>,
    /// Between two of them, mostly.
    step: i64,
    rounds: BTreeMap<usize, Round>,
}

impl Rounds {
    /// Finds them by the metric that matters most of those that are there.
    pub(super) fn new(entries: &Entries) -> Result<Self, String> {
        let mut seen = vec![0_usize; METRICS.len()];
        for entry in &entries.list {
            let mut last = None;
            for reading in &entry.readings {
                if let Some(count) = seen.get_mut(reading.metric).filter(|_| last != Some(reading.metric)) {
                    *count += 1;
                }
                last = Some(reading.metric);
            }
        }
        let is_counted =
            |(at, count): &(usize, &usize)| **count > 1 && matches!(METRICS.get(*at), Some((_, Kind::Counter(..))));
        let Some((reference, _)) = seen.iter().enumerate().find(is_counted) else {
            return Err(match seen.iter().any(|count| *count > 1) {
                true => {
                    format!("it has no counters: as rates (without -r) pcp2json loses them; print it with {PCP2JSON}")
                }
                false => format!("it does not have two samples of a metric that is read; print it with {PCP2JSON}"),
            });
        };
        let is_reference =
            |entry: &&super::entries::Entry| entry.readings.iter().any(|reading| reading.metric == reference);
        let mut times: Vec<i64> = entries.list.iter().filter(is_reference).map(|entry| entry.at).collect();
        times.sort_unstable();
        times.dedup_by(|next, last| next.saturating_sub(*last) < SHORTEST);
        let mut steps: Vec<i64> = pairs(&times).map(|(from, to)| to.saturating_sub(from)).collect();
        steps.sort_unstable();
        let step = steps.get(steps.len() / 2).copied().ok_or("all of its samples are of one time")?;
        Ok(Self { reference, times, step, rounds: BTreeMap::new() })
    }

    /// From round to round, by the number of the later one. Where a round is missing, nothing was recorded.
    pub(super) fn intervals(&self) -> impl Iterator<Item = Interval<usize>> {
        let longest = self.step.saturating_add(self.step / 2);
        let near = pairs(&self.times).enumerate().filter(move |(_, (from, to))| to.saturating_sub(*from) <= longest);
        near.filter_map(|(at, (from, to))| Interval::new(to, to.saturating_sub(from) as f64 * 1e-6, at + 1))
    }

    /// With what was logged in those rounds that are needed.
    pub(super) fn filled(mut self, entries: &Entries, picked: &[Interval<usize>]) -> Self {
        for interval in picked {
            for round in [interval.sample.saturating_sub(1), interval.sample] {
                self.rounds.entry(round).or_default();
            }
        }
        for entry in &entries.list {
            let Some(round) = self.nearest(entry.at).and_then(|round| self.rounds.get_mut(&round)) else { continue };
            for reading in &entry.readings {
                let (metric, instance) = (reading.metric, reading.instance);
                match (METRICS.get(metric), reading.value) {
                    (Some((_, Kind::Task(_) | Kind::TaskText)), value) if instance != HOST => {
                        round.tasks.entry(instance).or_default().insert(metric, value);
                    }
                    (Some((_, Kind::Counter(..) | Kind::Level(..))), Value::Number(value)) => {
                        round.host.insert((metric, instance), value);
                    }
                    _ => {}
                }
            }
        }
        self
    }

    /// The round that a time belongs to; none where it is further from all of them than they are from one another.
    fn nearest(&self, at: i64) -> Option<usize> {
        let after = self.times.partition_point(|time| *time < at);
        let far =
            |round: usize| self.times.get(round).map_or(i64::MAX, |time| time.saturating_sub(at).saturating_abs());
        let before = after.saturating_sub(1);
        let nearest = if far(before) <= far(after) { before } else { after };
        (far(nearest) <= self.step / 2).then_some(nearest)
    }

    /// A round and the one before it; none where the host was booted in between.
    pub(super) fn around(&self, round: usize) -> Option<(&Round, &Round)> {
        let (before, now) = (self.rounds.get(&round.checked_sub(1)?)?, self.rounds.get(&round)?);
        let of = |round: &Round| -> f64 {
            round.host.range((self.reference, 0)..=(self.reference, HOST)).map(|(_, value)| value).sum()
        };
        (of(now) >= of(before)).then_some((before, now))
    }

    /// Seconds from one to the next.
    pub(super) fn seconds(&self) -> f64 {
        self.step as f64 * 1e-6
    }

    /// Those that are needed.
    pub(super) fn all(&self) -> impl Iterator<Item = &Round> {
        self.rounds.values()
    }
}

fn pairs(times: &[i64]) -> impl Iterator<Item = (i64, i64)> {
    times.iter().copied().zip(times.iter().skip(1).copied())
}
