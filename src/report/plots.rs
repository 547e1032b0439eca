//! The curves behind what fired.

use std::collections::{BTreeMap, BTreeSet};

use super::order::judged_by;
use rdiag_model::finding::Levels;
use rdiag_model::report::Plot;
use rdiag_model::{Evidence, Finding, MetricDef, Metrics, Reading, Status};

/// Curves in a report.
const MAX_PLOTS: usize = 12;
/// Curves of the first finding of a cell; its first readings are those that it was judged by.
const MAX_PER_LEAD: usize = 3;
/// Curves of every further finding of the same cell, which tells much the same.
const MAX_PER_OTHER: usize = 1;
/// Points of a curve; a longer one is thinned by taking the largest of neighbours, so that no peak is lost.
const MAX_POINTS: usize = 240;

/// The curves of the readings that fired findings cite, in the order of the findings.
pub(super) fn plots(
    metrics: &[Metrics],
    findings: &[Finding],
    titles: &dyn Fn(&str) -> Option<&'static MetricDef>,
    levels: &BTreeMap<String, Levels>,
) -> Vec<Plot> {
    let mut seen = BTreeSet::new();
    let mut cells = BTreeSet::new();
    let mut plots = Vec::new();
    for finding in findings.iter().filter(|finding| finding.status.fired()) {
        let first = cells.insert((finding.resource, finding.kind));
        let most = if first { MAX_PER_LEAD } else { MAX_PER_OTHER };
        let mut own = 0;
        for evidence in &finding.evidence {
            if plots.len() == MAX_PLOTS {
                return plots;
            }
            if own == most {
                break;
            }
            if !seen.insert((evidence.window, evidence.metric.as_str(), evidence.instance.as_deref())) {
                continue;
            }
            if let Some(mut plot) = metrics.get(evidence.window).and_then(|window| curve(window, evidence)) {
                plot.title = titles(&evidence.metric).map(|def| def.help.to_owned()).unwrap_or_default();
                // Only the first reading is what the finding was judged by, if any is.
                if own == 0 && judged_by(finding, evidence) {
                    let of_rule = levels.get(&finding.id).map(|levels| &levels.by_status);
                    let serious = of_rule.into_iter().flat_map(|of| of.range(Status::Warning..));
                    plot.thresholds = serious.map(|(status, level)| (*status, *level)).collect();
                }
                plots.push(plot);
                own += 1;
            }
        }
    }
    plots
}

fn curve(metrics: &Metrics, evidence: &Evidence) -> Option<Plot> {
    let Some(Reading::Measured { unit, instances, .. }) = metrics.readings.get(&evidence.metric) else { return None };
    let instance = evidence.instance.as_deref().unwrap_or_default();
    let stats = instances.get(instance)?.as_ref().ok()?;
    let count = stats.intervals.len();
    if count < 3 || stats.intervals.iter().flatten().count() < 3 || metrics.seconds <= 0.0 {
        return None;
    }
    // A line along the bottom says less than the sentence of the finding.
    if stats.intervals.iter().flatten().all(|value| *value == 0.0) {
        return None;
    }
    let width = metrics.seconds / count as f64;
    let step = count.div_ceil(MAX_POINTS);
    let points = stats
        .intervals
        .chunks(step)
        .enumerate()
        .map(|(at, values)| {
            let middle = (at * step) as f64 * width + values.len() as f64 * width / 2.0;
            (middle, values.iter().flatten().copied().max_by(f64::total_cmp))
        })
        .collect();
    Some(Plot {
        metric: evidence.metric.clone(),
        instance: evidence.instance.clone(),
        window: evidence.window,
        unit: *unit,
        title: String::new(),
        points,
        thresholds: Vec::new(),
    })
}
