//! Why a figure is not there: what the collector said of it, or what follows from what it did.

use super::table::Table;
use rdiag_model::{OfSeries, Reason, Unavailable};

/// A gap that the collector explained itself says more than what is seen from here.
pub(super) fn explain(
    table: &Table<'_>,
    collector: &str,
    formula: &OfSeries,
    name: &str,
    gap: Unavailable,
) -> Unavailable {
    let told = formula.sum.first().and_then(|term| told_gap(table, collector, term.series, name));
    told.unwrap_or(gap)
}

pub(super) fn owner<'s>(series: &'s str, fallback: &'s str) -> &'s str {
    series.split_once('.').map_or(fallback, |(collector, _)| collector)
}

pub(super) fn missing(table: &Table<'_>, collector: &str, formula: &OfSeries) -> Unavailable {
    let series = formula.sum.first().map_or("", |term| term.series);
    gap_of(table, collector, series, "")
}

fn told_gap(table: &Table<'_>, collector: &str, series: &str, instance: &str) -> Option<Unavailable> {
    let record = table.window.collectors.get(collector)?;
    let narrow = record.gaps.iter().find(|(key, _)| {
        key.split_once('|').is_some_and(|(prefix, name)| name == instance && series.starts_with(prefix))
    });
    let wide = || record.gaps.iter().find(|(key, _)| !key.contains('|') && series.starts_with(key.as_str()));
    narrow.or_else(wide).map(|(_, gap)| gap.clone())
}

/// Why a series is not there for any instance of a metric. Where a collector ran and found nothing of its kind, no kernel is to blame.
pub(super) fn gap_of_all(table: &Table<'_>, collector: &str, series: &str, dimension: Option<&str>) -> Unavailable {
    let gap = gap_of(table, collector, series, "");
    let (Some(dimension), Some(record)) = (dimension, table.window.collectors.get(collector)) else { return gap };
    let found_none = !record.times.is_empty() && record.series.iter().all(|series| series.instance.is_none());
    if gap != unreported(series) || !found_none {
        return gap;
    }
    // What it said of another of its series holds for this one.
    match (record.gaps.len(), record.gaps.values().next()) {
        (0, _) => {
            Unavailable::new(Reason::NotApplicable, format!("no {} here has any of this", dimension.replace('_', " ")))
        }
        (1, Some(told)) => told.clone(),
        _ => gap,
    }
}

/// Why a collector gave none of a series and said nothing of it.
fn unreported(series: &str) -> Unavailable {
    let why = format!("this kernel does not report {series}, or the rdiag that made the recording did not read it yet");
    Unavailable::new(Reason::Absent, why)
}

/// Why a series is not there.
pub(super) fn gap_of(table: &Table<'_>, collector: &str, series: &str, instance: &str) -> Unavailable {
    if let Some(gap) = told_gap(table, collector, series, instance) {
        return gap;
    }
    match table.window.collectors.get(collector) {
        None => Unavailable::new(Reason::Absent, format!("{collector} was not collected in this window")),
        Some(record) => record.unavailable.clone().unwrap_or_else(|| unreported(series)),
    }
}
