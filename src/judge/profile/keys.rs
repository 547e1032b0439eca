//! Requests by what they are called by (`--each-key`): which keys the slow ones have, and what makes each key's own requests slow.

use std::collections::BTreeMap;

use rdiag_model::Component;
use rdiag_model::quantity::percent;
use rdiag_model::runs::{Keyed, KeyedRuns};

use super::account::share;
use super::each::{One, difference, spread};
use super::names::cut;
use super::percentile::at_least;

/// Rows of keys.
const MAX_ROWS: usize = 16;
/// Components of a key.
const MAX_PARTS: usize = 4;
/// A key is named where it would have so many of the slow runs by chance this seldom.
const DOUBT: f64 = 0.01;
/// Fewer slow runs of one key than this say nothing of it.
const LEAST_SLOW: usize = 3;

/// How runs are to be looked at.
#[derive(Clone, Copy)]
pub(super) struct Look {
    /// How many of them are the slow ones; 0 where they do not differ.
    pub(super) slow: usize,
    /// Seconds that none should take longer than.
    pub(super) goal: Option<f64>,
    /// Growth of less than this share of a difference has no row.
    pub(super) growth: f64,
}

/// The runs, the fastest first, by the key that was read in `field`.
pub(super) fn keyed(all: &[One<'_, '_>], field: &str, look: Look) -> Keyed {
    let mut of: BTreeMap<&str, Vec<&One<'_, '_>>> = BTreeMap::new();
    for one in all {
        if let Some(key) = one.key() {
            of.entry(key).or_default().push(one);
        }
    }
    let read: usize = of.values().map(Vec::len).sum();
    let count = of.len();
    // Keys that are all different are names of single runs, which are listed as such.
    let groups = if count == read { BTreeMap::new() } else { of };
    let found = stands_out(all, &groups, look.slow);
    let slow = found.as_ref().map_or(look.slow, |found| found.tail);
    let slow_of = in_tail(all, slow);
    let whole: f64 = all.iter().map(One::seconds).sum();
    let row = |(key, runs): (&str, Vec<&One<'_, '_>>)| {
        let times: Vec<f64> = runs.iter().map(|one| one.seconds()).collect();
        Some(KeyedRuns {
            key: key.to_owned(),
            runs: runs.len() as u64,
            share: share(times.iter().sum(), whole),
            slow: slow_of.get(key).map_or(0, |slow| *slow as u64),
            missed: look.goal.map(|goal| times.iter().filter(|time| **time > goal).count() as u64),
            spread: spread(&times)?,
            parts: parts(&runs),
            growth: difference(&runs, look.growth).and_then(|own| own.rows.into_iter().next()),
        })
    };
    let headline = found.map(|found| {
        let part = percent(share(found.of_all as f64, all.len() as f64));
        let (key, count) = (cut(found.key), all.len());
        let Found { of_tail, tail, of_all, .. } = found;
        format!("The key {key:?} has {of_tail} of the {tail} slowest runs, and {of_all} ({part}) of all {count}.")
    });
    let mut rows: Vec<KeyedRuns> = groups.into_iter().filter_map(row).collect();
    rows.sort_by(|a, b| b.slow.cmp(&a.slow).then(b.spread.mean.total_cmp(&a.spread.mean)));
    rows.truncate(MAX_ROWS);
    Keyed {
        field: field.to_owned(),
        count: count as u64,
        unread: (all.len() - read) as u64,
        slow: slow as u64,
        rows,
        headline: headline.unwrap_or_default(),
    }
}

/// How many of the slowest runs have which key.
fn in_tail<'k>(all: &'k [One<'_, '_>], tail: usize) -> BTreeMap<&'k str, usize> {
    let mut of: BTreeMap<&str, usize> = BTreeMap::new();
    let (_, slow) = all.split_at(all.len().saturating_sub(tail));
    for key in slow.iter().filter_map(One::key) {
        *of.entry(key).or_default() += 1;
    }
    of
}

/// A key that has more of the slowest runs than chance would give it.
struct Found<'k> {
    key: &'k str,
    of_tail: usize,
    tail: usize,
    of_all: usize,
}

/// That of the most unlikely; none if it could be chance. What is slow may be a tenth of the runs, or 1 %.
fn stands_out<'k>(
    all: &'k [One<'_, '_>],
    groups: &BTreeMap<&'k str, Vec<&One<'_, '_>>>,
    slow: usize,
) -> Option<Found<'k>> {
    let mut best: Option<(f64, Found<'k>)> = None;
    let tails = [slow, all.len() / 50, all.len() / 100];
    for tail in tails.into_iter().filter(|tail| slow > 0 && *tail >= LEAST_SLOW) {
        for (key, of_tail) in in_tail(all, tail) {
            let of_all = groups.get(key).map_or(0, Vec::len);
            let part = share(of_all as f64, all.len() as f64);
            if of_tail < LEAST_SLOW || of_all == 0 || part >= 1.0 {
                continue;
            }
            // So many had the chance to stand out.
            let chance = at_least(tail, of_tail, part) * (groups.len() * tails.len()) as f64;
            if chance < DOUBT && best.as_ref().is_none_or(|(least, _)| chance < *least) {
                best = Some((chance, Found { key, of_tail, tail, of_all }));
            }
        }
    }
    best.map(|(_, found)| found)
}

/// The largest components of a run on average.
fn parts(runs: &[&One<'_, '_>]) -> Vec<(Component, f64)> {
    let mut sums: BTreeMap<Component, f64> = BTreeMap::new();
    for (key, seconds) in runs.iter().flat_map(|one| &one.parts) {
        *sums.entry(key.component).or_default() += seconds / runs.len() as f64;
    }
    let mut parts: Vec<(Component, f64)> = sums.into_iter().filter(|(_, seconds)| *seconds > 0.0).collect();
    parts.sort_by(|a, b| b.1.total_cmp(&a.1));
    parts.truncate(MAX_PARTS);
    parts
}
