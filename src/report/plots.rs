//! The curves behind what fired.

use std::collections::BTreeSet;

use crate::model::report::Plot;
use crate::model::{Evidence, Finding, MetricDef, Metrics, Reading, Status};

/// Curves in a report.
const MAX_PLOTS: usize = 12;
/// Curves of one finding; its first readings are those that it was judged by.
const MAX_PER_FINDING: usize = 3;
/// Points of a curve; a longer one is thinned by taking the largest of neighbours, so that no peak is lost.
const MAX_POINTS: usize = 240;

/// The curves of the readings that fired findings cite, in the order of the findings.
pub(super) fn plots(
    metrics: &[Metrics],
    findings: &[Finding],
    titles: &dyn Fn(&str) -> Option<&'static MetricDef>,
) -> Vec<Plot> {
    let mut seen = BTreeSet::new();
    let mut plots = Vec::new();
    for finding in findings.iter().filter(|finding| finding.status.fired()) {
        let mut own = 0;
        for evidence in &finding.evidence {
            if plots.len() == MAX_PLOTS {
                return plots;
            }
            if own == MAX_PER_FINDING {
                break;
            }
            if !seen.insert((evidence.window, evidence.metric.as_str(), evidence.instance.as_deref())) {
                continue;
            }
            if let Some(mut plot) = metrics.get(evidence.window).and_then(|window| curve(window, evidence)) {
                plot.title = titles(&evidence.metric).map(|def| def.help.to_owned()).unwrap_or_default();
                if judged_by(finding, evidence) {
                    plot.thresholds = thresholds(finding);
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

/// Whether a finding's value is a figure of this reading, so that its thresholds belong into the same picture.
fn judged_by(finding: &Finding, evidence: &Evidence) -> bool {
    let Some(value) = finding.value else { return false };
    finding.unit == evidence.unit && [evidence.mean, evidence.max].contains(&Some(value))
}

/// The levels of conditions of the form `value > 0.2`; what depends on more than that is no level line.
fn thresholds(finding: &Finding) -> Vec<(Status, f64)> {
    let of = |status: Status| -> Option<(Status, f64)> {
        let condition = finding.threshold.conditions.get(status.word())?;
        let level = condition.trim().strip_prefix("value")?.trim_start().trim_start_matches(['>', '<', '=']).trim();
        Some((status, level.parse().ok()?))
    };
    [Status::Warning, Status::Critical].into_iter().filter_map(of).collect()
}
