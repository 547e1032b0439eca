//! Metrics from what probes measured. A probe gives one figure for the whole window, not one for each interval.

use std::collections::BTreeMap;

use super::Table;
use super::formula::Outcome;
use crate::model::metric::Pick;
use crate::model::probe::{Cell, Histogram, HistogramRow, Output, ProbeResult, ProbeTable};
use crate::model::recording::Window;
use crate::model::{Metrics, Reason, Stats, Unavailable};

/// The figure for every instance that the output has.
pub(super) fn figure(table: &Table<'_>, probe: &str, pick: Pick) -> Outcome {
    let result = match table.window.probes.get(probe) {
        Some(Ok(result)) => result,
        Some(Err(gap)) => return Err(gap.clone()),
        None => return Err(Unavailable::new(Reason::Absent, format!("{probe} did not run in this window"))),
    };
    let (instances, output) = match pick {
        Pick::Percentile(id, share) => (rows(result, id, |row| row.percentile(share))?, id),
        Pick::Mean(id) => (rows(result, id, HistogramRow::mean)?, id),
        Pick::Max(id) => (rows(result, id, |row| (row.count > 0).then_some(row.max))?, id),
        Pick::Sum(id) => (rows(result, id, |row| Some(row.sum))?, id),
        Pick::Count(id) => (rows(result, id, |row| Some(row.count as f64))?, id),
        Pick::Column(id, column) => (cells(of_table(result, id)?, column), id),
        Pick::ColumnSum(id, column) => {
            let table = of_table(result, id)?;
            let rest = table.others_sum.get(column).copied().unwrap_or(0.0);
            let sum: f64 = cells(table, column).values().flatten().map(|stats| stats.total).sum();
            (single(sum + rest), id)
        }
        Pick::Rows(id) => {
            let table = of_table(result, id)?;
            (single(table.rows.len() as f64 + table.others as f64), id)
        }
    };
    Ok((instances, format!("{probe}.{output}")))
}

type Instances = BTreeMap<String, Result<Stats, Unavailable>>;

fn single(value: f64) -> Instances {
    [(String::new(), Ok(Stats::constant(value)))].into()
}

fn rows(result: &ProbeResult, id: &str, of: impl Fn(&HistogramRow) -> Option<f64>) -> Result<Instances, Unavailable> {
    let histogram: &Histogram = result
        .outputs
        .iter()
        .find_map(|output| match output {
            Output::Histogram(histogram) if histogram.id == id => Some(histogram),
            _ => None,
        })
        .ok_or_else(|| missing(result, id))?;
    let nothing = || Unavailable::new(Reason::NotApplicable, "nothing of the kind happened in the window");
    let value = |row: &HistogramRow| of(row).map(Stats::constant).ok_or_else(nothing);
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
    lost.map(|(reason, count)| format!("{count} events were lost: {reason}")).collect()
}
