//! What a collector counts from the beginning of its window, which in a block of the recorder is the beginning of the block.
//!
//! Datagrams that a socket dropped are those since then: of a time within the block, those that came before are left out. How long tasks waited is
//! known between the first and the last look of a block alone: that of whole blocks is taken, and the findings say how far these reach beyond the time.

use std::collections::BTreeMap;

use super::pick::{Part, Picked};
use rdiag_model::recording::{CollectorRecord, Number, Series};
use rdiag_model::{Reason, SeriesKind, Unavailable, Window};

const COMPARED: &str = "waiting_tasks";
/// The collector, and its series.
const DROPS: (&str, &str) = ("udp_sockets", "udp_sockets.drops");

/// Whether a collector is one of these.
pub(super) fn is_counted(id: &str) -> bool {
    [COMPARED, DROPS.0].contains(&id)
}

/// Counts anew what such collectors have.
pub(super) fn count(window: &mut Window, picked: &Picked<'_>) {
    let begin = picked.parts.first().map_or(0.0, |part| part.piece.block.header.monotonic + part.from);
    if let Some(record) = window.collectors.get_mut(COMPARED) {
        whole_blocks(record, picked, begin);
    }
    if let Some(record) = window.collectors.get_mut(DROPS.0) {
        drops(record, picked, begin);
    }
}

/// Of each block of the time, its first and its last look.
fn whole_blocks(record: &mut CollectorRecord, picked: &Picked<'_>, begin: f64) {
    record.times.clear();
    let mut joined: BTreeMap<(String, Option<String>), Series> = BTreeMap::new();
    for part in &picked.parts {
        let Some(own) = part.piece.block.collectors.get(COMPARED) else { continue };
        let Some(last) = own.times.len().checked_sub(1).filter(|last| *last > 0) else { continue };
        let before = record.times.len();
        let shift = part.piece.block.header.monotonic - begin;
        record.times.extend([0, last].iter().filter_map(|at| own.times.get(*at)).map(|time| time + shift));
        for series in &own.series {
            let [first, second] = [0, last].map(|at| series.values.get(at).copied().flatten());
            let key = (series.name.clone(), series.instance.clone());
            let known = joined.entry(key).or_insert_with(|| Series { values: Vec::new(), ..series.clone() });
            // Each block begins with 0: what earlier ones counted goes before it.
            let so_far =
                known.values.iter().flatten().next_back().copied().filter(|_| series.kind != SeriesKind::Gauge);
            known.values.resize(before, None);
            known.values.extend([first, second].map(|value| value.map(|value| more(value, so_far))));
        }
    }
    let samples = record.times.len();
    let resized = |mut series: Series| {
        series.values.resize(samples, None);
        series
    };
    record.series = joined.into_values().map(resized).collect();
    if record.series.is_empty() && record.gaps.is_empty() && record.unavailable.is_none() {
        record.unavailable = Some(uncompared("which tasks wait is known when a block of the recorder has ended"));
    }
}

fn uncompared(why: &str) -> Unavailable {
    Unavailable::new(Reason::ShortWindow, why)
        .with_remedy("ask again some minutes later, or for a longer time with --last")
}

fn more(value: Number, so_far: Option<Number>) -> Number {
    match (value, so_far) {
        (value, None) => value,
        (Number::Whole(value), Some(Number::Whole(so_far))) => Number::Whole(value.saturating_add(so_far)),
        (value, Some(so_far)) => Number::Real(value.as_f64() + so_far.as_f64()),
    }
}

/// The drops of each socket in the time; where no sample lies in it, those between the samples on either side.
fn drops(record: &mut CollectorRecord, picked: &Picked<'_>, begin: f64) {
    let mut sums: BTreeMap<Option<String>, f64> = BTreeMap::new();
    let (mut template, mut is_known) = (None, false);
    for part in &picked.parts {
        let Some(own) = part.piece.block.collectors.get(DROPS.0) else { continue };
        let Some((low, high)) = samples(part, own, record.times.is_empty()) else { continue };
        is_known = true;
        if record.times.is_empty() {
            let shift = part.piece.block.header.monotonic - begin;
            record.times.extend(own.times.get(high - 1).map(|time| time + shift));
        }
        for series in own.series.iter().filter(|series| series.name == DROPS.1) {
            let value = |at: usize| series.values.get(at).copied().flatten().map(Number::as_f64);
            let before = (0..low).rev().find_map(value).unwrap_or(0.0);
            let dropped = (low..high).rev().find_map(value).unwrap_or(before) - before;
            *sums.entry(series.instance.clone()).or_default() += dropped.max(0.0);
            template.get_or_insert(series);
        }
    }
    record.series.retain(|series| series.name != DROPS.1);
    sums.retain(|_, dropped| *dropped > 0.0);
    let samples = record.times.len();
    for (instance, dropped) in sums {
        let Some(template) = template else { continue };
        let mut values = vec![None; samples.saturating_sub(1)];
        values.push(Some(Number::Real(dropped)));
        record.series.push(Series { instance, values, ..template.clone() });
    }
    record.gaps.remove(DROPS.1);
    if record.series.is_empty() {
        let none = || Unavailable::new(Reason::NotApplicable, "no UDP socket dropped a datagram within the window");
        let gap = if is_known { none() } else { uncompared("the recorder has not compared the sockets of this time") };
        record.gaps.insert(DROPS.1.to_owned(), gap);
    }
}

/// The first of the samples of a block that count, and one past the last.
fn samples(part: &Part<'_>, own: &CollectorRecord, is_bracketed: bool) -> Option<(usize, usize)> {
    let inside = |time: &f64| part.holds(*time);
    let has_begun = own.series.iter().any(|series| series.values.first().is_some_and(Option::is_some));
    match (own.times.iter().position(inside), own.times.iter().rposition(inside)) {
        // The first sample of a block only begins to count.
        (Some(0), Some(0)) if !has_begun => (own.times.len() > 1).then_some((1, 2)),
        (Some(low), Some(high)) => Some((low, high + 1)),
        _ if is_bracketed => {
            let after = own.times.iter().position(|time| *time > part.to)?;
            Some((after, after + 1))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests;
