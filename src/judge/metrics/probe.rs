//! Metrics from what probes measured. A probe gives one figure for the whole window, not one for each interval.

use std::collections::BTreeMap;

use super::formula::Outcome;
use super::table::Table;
use rdiag_model::metric::Pick;
use rdiag_model::probe::{Cell, Histogram, HistogramRow, Output, ProbeResult, ProbeTable, Stacks};
use rdiag_model::quantity::percent;
use rdiag_model::recording::Window;
use rdiag_model::{Metrics, Reason, Stats, Unavailable};

/// The figure for every instance that the output has.
pub(super) fn figure(table: &Table<'_>, probe: &str, pick: Pick) -> Outcome {
    let result = match table.window.probes.get(probe) {
        Some(Ok(result)) => result,
        Some(Err(gap)) => return Err(gap.clone()),
        None => return Err(Unavailable::new(Reason::Absent, format!("{probe} did not run in this window"))),
    };
    let instances = match pick {
        Pick::Percentile(id, share) => rows(result, id, |histogram, row| histogram.percentile(row, share))?,
        Pick::Mean(id) => rows(result, id, |_, row| row.mean())?,
        Pick::Max(id) => rows(result, id, |_, row| (row.count > 0).then_some(row.max))?,
        Pick::Sum(id) => rows(result, id, |_, row| Some(row.sum))?,
        Pick::Count(id) => rows(result, id, |_, row| Some(row.count as f64))?,
        Pick::Column(id, column) => cells(of_table(result, id)?, column),
        Pick::Cell(id, row, column) => {
            let found = of_table(result, id).ok().and_then(|table| cells(table, column).remove(row));
            let missing = || result.gaps.get(row).cloned().unwrap_or_else(|| missing(result, row));
            [(String::new(), Ok(found.ok_or_else(missing)??))].into()
        }
        Pick::ColumnSum(id, column) => {
            // Those that have no row of their own are one of the cells.
            // The sum of nothing is -0 in floating point.
            single(cells(of_table(result, id)?, column).values().flatten().fold(0.0, |sum, stats| sum + stats.total))
        }
        Pick::Rows(id) => {
            let table = of_table(result, id)?;
            single(table.rows.len() as f64 + table.others as f64)
        }
    };
    Ok((instances, format!("the probe {probe}, {}", pick.words())))
}

type Instances = BTreeMap<String, Result<Stats, Unavailable>>;

fn single(value: f64) -> Instances {
    [(String::new(), Ok(Stats::constant(value)))].into()
}

fn rows(
    result: &ProbeResult,
    id: &str,
    of: impl Fn(&Histogram, &HistogramRow) -> Option<f64>,
) -> Result<Instances, Unavailable> {
    let histogram: &Histogram = result
        .outputs
        .iter()
        .find_map(|output| match output {
            Output::Histogram(histogram) if histogram.id == id => Some(histogram),
            _ => None,
        })
        .ok_or_else(|| missing(result, id))?;
    let nothing = || Unavailable::new(Reason::NotApplicable, "nothing of the kind happened in the window");
    let value = |row: &HistogramRow| of(histogram, row).map(Stats::constant).ok_or_else(nothing);
    Ok(histogram.rows.iter().map(|row| (row.instance.clone(), value(row))).collect())
}

fn of_table<'r>(result: &'r ProbeResult, id: &str) -> Result<&'r ProbeTable, Unavailable> {
    let table = result.outputs.iter().find_map(|output| match output {
        Output::Table(table) | Output::Events(table) if table.id == id => Some(table),
        _ => None,
    });
    table.ok_or_else(|| missing(result, id))
}

fn missing(result: &ProbeResult, id: &str) -> Unavailable {
    Unavailable::new(Reason::Absent, format!("{} gave no {id}", result.probe))
}

fn cells(table: &ProbeTable, column: &str) -> Instances {
    let Some(at) = table.columns.iter().position(|known| known.id == column) else { return Instances::new() };
    let value = |cells: &[Cell]| match cells.get(at) {
        Some(Cell::Number(value)) => Some(Stats::constant(*value)),
        _ => None,
    };
    let mut instances: Instances =
        table.rows.iter().filter_map(|row| Some((row.instance.clone(), Ok(value(&row.cells)?)))).collect();
    if let Some(rest) = table.others_sum.get(column).filter(|_| table.others > 0) {
        instances.insert("(others)".into(), Ok(Stats::constant(*rest)));
    }
    instances
}

/// Text columns name the instances of their table's dimension.
pub(super) fn add_labels(window: &Window, metrics: &mut Metrics) {
    for result in window.probes.values().flatten() {
        for output in &result.outputs {
            let Output::Table(table) = output else { continue };
            let Some(dimension) = &table.dimension else { continue };
            let names = metrics.labels.entry(dimension.clone()).or_default();
            for row in &table.rows {
                let labels = names.entry(row.instance.clone()).or_default();
                for (column, cell) in table.columns.iter().zip(&row.cells) {
                    if let Cell::Text(text) = cell {
                        labels.insert(column.id.clone(), text.clone());
                    }
                }
            }
        }
    }
}

/// What speaks against trusting a probe's figures.
pub(super) fn disturbances(window: &Window, probe: &str) -> Vec<String> {
    let Some(Ok(result)) = window.probes.get(probe) else { return Vec::new() };
    let lost = result.lost.iter().filter(|(_, count)| **count > 0);
    let events = |count: u64| if count == 1 { "event was" } else { "events were" };
    let mut notes: Vec<String> =
        lost.map(|(reason, count)| format!("{count} {} lost: {reason}", events(*count))).collect();
    for output in &result.outputs {
        match output {
            Output::Stacks(stacks) => notes.extend(weak_stacks(stacks)),
            Output::Table(table) => notes.extend(seldom_counted(table)),
            _ => {}
        }
    }
    notes
}

/// A counter that had to be shared and counted less than this of the time says little about the rest.
const SELDOM_SHARE: f64 = 0.25;

/// The events of a table that were counted for a small share of the time (column `counted`).
fn seldom_counted(table: &ProbeTable) -> Vec<String> {
    let shares = cells(table, "counted").into_iter().filter_map(|(name, share)| Some((name, share.ok()?.mean)));
    let seldom = shares.filter(|(_, share)| *share < SELDOM_SHARE);
    seldom.map(|(name, share)| format!("{name} was counted for {} of the time", percent(share))).collect()
}

/// Above this share, what stacks leave open may be as large as what they show.
const WEAK_SHARE: f64 = 0.25;

/// How much of what was summed by stack has no stack that can be read to its end.
fn weak_stacks(stacks: &Stacks) -> Vec<String> {
    let whole: f64 = stacks.stacks.iter().map(|stack| stack.value).sum::<f64>() + stacks.others;
    let weak = |part: f64, of: f64, what: &str| {
        let share = part / of;
        (of > 0.0 && share > WEAK_SHARE).then(|| format!("{} of {} {what}", percent(share.min(1.0)), stacks.title))
    };
    [
        weak(stacks.unresolved, whole, "is in stacks with a frame that has no name"),
        weak(stacks.truncated, whole, "is in stacks that seem cut short"),
        weak(stacks.missing, whole + stacks.missing, "has no stack"),
    ]
    .into_iter()
    .flatten()
    .collect()
}
