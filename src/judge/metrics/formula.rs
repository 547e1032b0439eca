//! Evaluating a formula: sums of series over the sub-windows, then statistics over the window.

use std::collections::{BTreeMap, BTreeSet};

use super::delta::{Delta, delta};
use super::gaps::{explain, gap_of, gap_of_all, missing, owner};
use super::process::RunDelay;
use super::table::{Table, intervals};
use super::throttled;
use rdiag_model::recording::{CollectorRecord, Series};
use rdiag_model::{OfSeries, Per, Reason, Stats, Term, Unavailable};

/// By instance, and which series were used.
pub(super) type Outcome = Result<(BTreeMap<String, Result<Stats, Unavailable>>, String), Unavailable>;

/// One sub-window of a quotient: when, how much changed, per how much.
#[derive(Debug, Clone, Copy)]
pub(super) struct Part {
    pub(super) from: f64,
    pub(super) to: f64,
    pub(super) over: f64,
    pub(super) under: f64,
}

/// `dimension` is that of the metric.
pub(super) fn evaluate(table: &Table<'_>, collector: &str, dimension: Option<&str>, formula: &OfSeries) -> Outcome {
    let first = formula.sum.iter().find(|term| table.series.contains_key(term.series));
    let Some(first) = first else {
        let mut instances = BTreeMap::new();
        add_missing_instances(table, collector, formula, &mut instances);
        return if instances.is_empty() {
            let series = formula.sum.first().map_or("", |term| term.series);
            Err(gap_of_all(table, collector, series, dimension))
        } else {
            Ok((instances, String::new()))
        };
    };
    let divisor = formula.per.terms();
    for term in formula.sum.iter().chain(divisor) {
        if !term.optional && !table.series.contains_key(term.series) {
            return Err(gap_of_all(table, owner(term.series, collector), term.series, dimension));
        }
    }
    let names: BTreeSet<&str> = table
        .series
        .get(first.series)
        .into_iter()
        .flatten()
        .map(|(_, s)| s.instance.as_deref().unwrap_or(""))
        .collect();
    let mut instances = BTreeMap::new();
    for name in names {
        instances.insert(name.to_owned(), instance(table, collector, formula, divisor, name));
    }
    add_missing_instances(table, collector, formula, &mut instances);
    let used = formula.sum.iter().chain(divisor).filter(|term| table.series.contains_key(term.series));
    let source: BTreeSet<&str> = used.map(|term| term.series).collect();
    Ok((instances, source.into_iter().collect::<Vec<_>>().join(", ")))
}

/// Instances that a collector knows only by a gap: they must not vanish from the report.
fn add_missing_instances(
    table: &Table<'_>,
    collector: &str,
    formula: &OfSeries,
    instances: &mut BTreeMap<String, Result<Stats, Unavailable>>,
) {
    let Some(record) = table.window.collectors.get(collector) else { return };
    for (key, gap) in &record.gaps {
        if let Some((prefix, name)) = key.split_once('|')
            && formula.sum.iter().any(|term| term.series.starts_with(prefix))
        {
            instances.entry(name.to_owned()).or_insert_with(|| Err(gap.clone()));
        }
    }
}

fn instance(
    table: &Table<'_>,
    collector: &str,
    formula: &OfSeries,
    divisor: &[Term],
    name: &str,
) -> Result<Stats, Unavailable> {
    let find = |term: &Term| table.one(term.series, name);
    let mut record: Option<&CollectorRecord> = None;
    let mut collect = |terms: &[Term]| -> Result<Vec<(f64, &Series)>, Unavailable> {
        let mut found = Vec::with_capacity(terms.len());
        for term in terms {
            match find(term) {
                Some((owner, series)) => {
                    record.get_or_insert(owner);
                    found.push((term.weight * series.unit.in_base_units(table.facts), series));
                }
                None if term.optional => {}
                None => return Err(gap_of(table, owner(term.series, collector), term.series, name)),
            }
        }
        Ok(found)
    };
    let over = collect(formula.sum)?;
    let under = collect(divisor)?;
    let Some(record) = record else { return Err(missing(table, collector, formula)) };
    match formula.per {
        Per::Level | Per::LevelOf(_) => levels(table, record, &over, &under, matches!(formula.per, Per::LevelOf(_))),
        Per::Slope => slope(table, record, &over),
        Per::Second => changes(table, record, name, &over, &Divisor::Time, Quotient::Rate, formula.floor),
        Per::Nothing => changes(table, record, name, &over, &Divisor::Time, Quotient::Total, formula.floor),
        Per::Waiting(_) => {
            let under = Divisor::Waiting(under, throttled::waits(table));
            changes(table, record, name, &over, &under, Quotient::Rate, formula.floor)
        }
        Per::Capacity(_) => changes(table, record, name, &over, &Divisor::Level(under), Quotient::Rate, formula.floor),
        Per::Change(_) => changes(table, record, name, &over, &Divisor::Change(under), Quotient::Rate, formula.floor),
    }
    .map_err(|gap| explain(table, collector, formula, name, gap))
}

#[derive(Clone, Copy, PartialEq)]
pub(super) enum Quotient {
    Rate,
    Total,
}

/// What the change of a sum is divided by.
enum Divisor<'s> {
    Time,
    Change(Vec<(f64, &'s Series)>),
    /// A level times the time for which it held; the level at the end of a sub-window stands for all of it.
    Level(Vec<(f64, &'s Series)>),
    /// The sum itself, which is time spent waiting, and another change, which is time spent running; the waits of tasks
    /// that a quota stopped are left out of both.
    Waiting(Vec<(f64, &'s Series)>, Vec<RunDelay>),
}

impl<'s> Divisor<'s> {
    fn terms(&self) -> &[(f64, &'s Series)] {
        match self {
            Self::Time => &[],
            Self::Change(terms) | Self::Level(terms) | Self::Waiting(terms, _) => terms,
        }
    }
}

fn changes(
    table: &Table<'_>,
    record: &CollectorRecord,
    name: &str,
    over: &[(f64, &Series)],
    under: &Divisor<'_>,
    quotient: Quotient,
    floor: f64,
) -> Result<Stats, Unavailable> {
    let identity = over.first().and_then(|(_, series)| {
        let (owner, identity) = table.one(&format!("{}.identity", series.name.split('.').next()?), name)?;
        std::ptr::eq(owner, record).then_some(identity)
    });
    let mut parts = Vec::new();
    let mut discarded = 0;
    let mut last_seen: Option<usize> = None;
    for at in 0..record.times.len() {
        let present = over.iter().chain(under.terms()).all(|(_, s)| value(s, at).is_some());
        if !present {
            continue;
        }
        if let Some(before) = last_seen {
            let replaced = identity.is_some_and(|series| value(series, before) != value(series, at));
            let change = |terms: &[(f64, &Series)]| sum_of_changes(terms, before, at);
            let (from, to) = (time(record, before), time(record, at));
            let per = match under {
                Divisor::Time => Some(to - from),
                Divisor::Change(terms) => change(terms),
                Divisor::Waiting(ran, _) => change(ran).zip(change(over)).map(|(ran, waited)| ran + waited),
                Divisor::Level(terms) => sum_of_levels(terms, at).map(|level| level * (to - from)),
            };
            match (replaced, change(over), per) {
                (false, Some(over), Some(per)) if to > from => parts.push(match under {
                    Divisor::Waiting(_, delays) => throttled::less(delays, Part { from, to, over, under: per }),
                    _ => Part { from, to, over, under: per },
                }),
                _ => discarded += 1,
            }
        }
        last_seen = Some(at);
    }
    if parts.is_empty() && discarded > 0 {
        return Err(Unavailable::new(Reason::Reset, "the counter was reset, or the thing replaced, within the window"));
    }
    let mut stats = statistics(&parts, quotient, intervals(table.window), table.window.interval_seconds, floor)?;
    stats.discarded = discarded;
    Ok(stats)
}

fn sum_of_changes(terms: &[(f64, &Series)], before: usize, at: usize) -> Option<f64> {
    let mut sum = 0.0;
    for (weight, series) in terms {
        match delta(series.kind, value(series, before)?, value(series, at)?) {
            Delta::Grew(change) => sum += weight * change,
            Delta::Reset => return None,
        }
    }
    Some(sum)
}

fn sum_of_levels(terms: &[(f64, &Series)], at: usize) -> Option<f64> {
    terms.iter().try_fold(0.0, |sum, (weight, series)| Some(sum + weight * value(series, at)?.as_f64()))
}

/// Statistics of a quotient over its parts.
pub(super) fn statistics(
    parts: &[Part],
    quotient: Quotient,
    intervals: usize,
    interval_seconds: f64,
    floor: f64,
) -> Result<Stats, Unavailable> {
    if parts.is_empty() {
        return Err(Unavailable::new(Reason::ShortWindow, "fewer than two samples were taken"));
    }
    let over: f64 = parts.iter().map(|part| part.over).sum();
    let under: f64 = parts.iter().map(|part| part.under).sum();
    if under < floor {
        let why = format!("too little happened to judge: {under:.0} of the {floor:.0} that the ratio needs");
        return Err(Unavailable::new(Reason::NotApplicable, why));
    }
    if quotient == Quotient::Rate && under <= 0.0 {
        return Err(Unavailable::new(Reason::NotApplicable, "nothing of the kind happened in the window"));
    }
    let mut spread = vec![None; intervals];
    let mut values = Vec::with_capacity(parts.len());
    for part in parts {
        let covered = covered_intervals(part, intervals, interval_seconds);
        let value = match quotient {
            Quotient::Total => part.over,
            Quotient::Rate if part.under > 0.0 => part.over / part.under,
            Quotient::Rate => continue,
        };
        values.push(value);
        let share = if quotient == Quotient::Total { value / covered.len().max(1) as f64 } else { value };
        for slot in spread.get_mut(covered).into_iter().flatten() {
            *slot = Some(share);
        }
    }
    let mean = if quotient == Quotient::Total { over / values.len().max(1) as f64 } else { over / under };
    Ok(describe(mean, over, &values, spread))
}

/// The intervals whose middle lies within the part, or the one nearest to the part's middle.
pub(super) fn covered_intervals(part: &Part, intervals: usize, seconds: f64) -> std::ops::Range<usize> {
    if seconds <= 0.0 {
        return 0..intervals;
    }
    let first = (part.from / seconds).round().max(0.0) as usize;
    let end = (part.to / seconds).round().max(0.0) as usize;
    let first = first.min(intervals.saturating_sub(1));
    first..end.clamp(first + 1, intervals.max(first + 1))
}

/// How fast a level rises; below 0 it falls.
fn slope(table: &Table<'_>, record: &CollectorRecord, over: &[(f64, &Series)]) -> Result<Stats, Unavailable> {
    let known = (0..record.times.len()).filter_map(|at| Some((time(record, at), sum_of_levels(over, at)?)));
    let known: Vec<(f64, f64)> = known.collect();
    let steps = known.iter().zip(known.iter().skip(1));
    let parts: Vec<Part> = steps
        .filter(|((from, _), (to, _))| to > from)
        .map(|((from, before), (to, after))| Part { from: *from, to: *to, over: after - before, under: to - from })
        .collect();
    statistics(&parts, Quotient::Rate, intervals(table.window), table.window.interval_seconds, 0.0)
}

fn levels(
    table: &Table<'_>,
    record: &CollectorRecord,
    over: &[(f64, &Series)],
    under: &[(f64, &Series)],
    divided: bool,
) -> Result<Stats, Unavailable> {
    let count = intervals(table.window);
    let mut values = Vec::new();
    let mut sums = vec![(0.0, 0_u32); count];
    let mut capacity_is_zero = false;
    for at in 0..record.times.len() {
        let Some(mut level_now) = sum_of_levels(over, at) else { continue };
        if divided {
            match sum_of_levels(under, at) {
                Some(capacity) if capacity > 0.0 => level_now /= capacity,
                Some(_) => {
                    capacity_is_zero = true;
                    continue;
                }
                None => continue,
            }
        }
        values.push(level_now);
        let index = (time(record, at) / table.window.interval_seconds.max(1e-9)) as usize;
        if let Some(slot) = sums.get_mut(index.min(count.saturating_sub(1))) {
            *slot = (slot.0 + level_now, slot.1 + 1);
        }
    }
    if values.is_empty() && capacity_is_zero {
        return Err(Unavailable::new(Reason::NotApplicable, "there is none of it: the capacity is 0"));
    }
    if values.is_empty() {
        return Err(Unavailable::new(Reason::ShortWindow, "no sample was taken"));
    }
    // A level read only at the ends of the window is taken to hold between them.
    let mut known = None;
    let mut spread: Vec<Option<f64>> = Vec::with_capacity(count);
    for (sum, n) in sums {
        known = if n > 0 { Some(sum / f64::from(n)) } else { known };
        spread.push(known);
    }
    let mean = values.iter().sum::<f64>() / values.len() as f64;
    let last = values.last().copied().unwrap_or(mean);
    Ok(describe(mean, last, &values, spread))
}

/// Fills in what follows from the values.
pub(super) fn describe(mean: f64, total: f64, values: &[f64], intervals: Vec<Option<f64>>) -> Stats {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let rank = ((sorted.len() as f64 * 0.95).ceil() as usize).max(1) - 1;
    let pick = |at: usize| sorted.get(at).copied().unwrap_or(mean);
    Stats {
        mean,
        min: pick(0),
        max: pick(sorted.len().saturating_sub(1)),
        p95: pick(rank),
        last: values.last().copied().unwrap_or(mean),
        total,
        intervals,
        discarded: 0,
    }
}

fn value(series: &Series, at: usize) -> Option<rdiag_model::Number> {
    series.values.get(at).copied().flatten()
}

fn time(record: &CollectorRecord, at: usize) -> f64 {
    record.times.get(at).copied().unwrap_or(0.0)
}
