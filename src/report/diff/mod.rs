//! Two measurements → their comparison.

mod markdown;
mod stacks;
mod task;
mod text;

use std::collections::BTreeMap;

pub use markdown::markdown;
pub use stacks::{compare_stacks, picture};
pub(super) use task::{cells as task_cells, heads as task_heads};
pub use text::{in_one_line, text};
pub(super) use text::{lead, shares, statuses, values, word};

use super::order::judged_by;
use super::words;

use rdiag_model::comparison::{Change, Comparison, FORMAT_VERSION, FindingChange, MetricChange, Side};
use rdiag_model::probe::Stacks;
use rdiag_model::{Evidence, Finding, Kind, Metrics, Reading, Report, Stats, Status, Unit};

/// Metrics that are listed.
const MAX_METRICS: usize = 40;
/// A change below so many standard errors is noise; intervals follow each other and are not independent, hence so many.
const ERRORS: f64 = 4.0;
/// A change below this share of the larger figure does not matter.
const SHARE: f64 = 0.1;
/// The same where nothing is known of the noise.
const SHARE_BLIND: f64 = 0.5;
/// How the metrics that moved were chosen.
pub(super) const MOVED: &str = "moved by more than their noise, or by half where it is not known";
/// Intervals that differ by less than this part of their mean do not differ: what is left is rounding.
const ROUNDING: f64 = 1e-6;
/// Intervals from which noise can be told.
const INTERVALS: usize = 4;
/// Things that come and go: the same name is not the same thing.
const FLEETING: [&str; 4] = ["process", "task", "thread", "socket"];

/// One of the two, with as much as its file has.
#[derive(Debug, Default)]
pub struct Input {
    /// What it is.
    pub side: Side,
    /// The report, unless it is a profile.
    pub report: Option<Report>,
    /// The readings by window; a report has none.
    pub metrics: Vec<Metrics>,
    /// Stacks, each with its probe.
    pub stacks: Vec<(String, Stacks)>,
}

/// Compares two of them.
#[must_use]
pub fn compare(before: &Input, after: &Input) -> Comparison {
    let mut comparison = Comparison {
        format_version: FORMAT_VERSION,
        before: before.side.clone(),
        after: after.side.clone(),
        notes: notes(&before.side, &after.side),
        ..Comparison::default()
    };
    if let (Some(one), Some(other)) = (&before.report, &after.report) {
        if let (Some(one), Some(other)) = (&one.profile, &other.profile) {
            comparison.task = Some(task::compare(one, other));
        } else {
            comparison.notes.extend(lengths(&before.side, &after.side));
        }
        let figures = [figures(before), figures(after)];
        findings(&mut comparison, &one.findings, &other.findings, &figures);
        let [before, after] = &figures;
        metrics(&mut comparison, before, after);
    } else if before.report.is_some() || after.report.is_some() {
        comparison.notes.push("one of them is a profile: only stacks are compared".into());
    } else {
        comparison.notes.extend(lengths(&before.side, &after.side));
    }
    for (probe, one, other) in pairs(before, after) {
        comparison.stacks.push(compare_stacks(probe, one, other));
    }
    comparison
}

/// The stacks that both have: of the same probe and name, in the same order.
pub fn pairs<'i>(before: &'i Input, after: &'i Input) -> impl Iterator<Item = (&'i str, &'i Stacks, &'i Stacks)> {
    let mut free: Vec<&(String, Stacks)> = after.stacks.iter().collect();
    let only_one = before.stacks.len() == 1 && after.stacks.len() == 1;
    before.stacks.iter().filter_map(move |(probe, one)| {
        // Profiles of two programs may have other names for the same thing.
        let same = |(name, other): &&(String, Stacks)| (name == probe && other.id == one.id) || only_one;
        let at = free.iter().position(same)?;
        let (_, other) = free.remove(at);
        Some((probe.as_str(), one, other))
    })
}

fn notes(before: &Side, after: &Side) -> Vec<String> {
    let mut notes = Vec::new();
    for (what, one, other) in
        [("hosts or kernels", &before.host, &after.host), ("playbooks", &before.playbook, &after.playbook)]
    {
        if one != other && !one.is_empty() && !other.is_empty() {
            notes.push(format!("different {what}: {one}, and {other}"));
        }
    }
    notes
}

/// That one is much longer than the other. Of a task's executions that is no weakness but the point.
fn lengths(before: &Side, after: &Side) -> Option<String> {
    let (short, long) = (before.seconds.min(after.seconds), before.seconds.max(after.seconds));
    (short > 0.0 && long > 2.0 * short).then(|| format!("one covers {long:.0} s, the other {short:.0} s"))
}

fn findings(comparison: &mut Comparison, before: &[Finding], after: &[Finding], figures: &[Figures; 2]) {
    let key = |finding: &Finding| (finding.id.clone(), finding.instance.clone());
    let mut all: BTreeMap<_, (Option<&Finding>, Option<&Finding>)> = BTreeMap::new();
    for finding in before {
        all.entry(key(finding)).or_default().0.get_or_insert(finding);
    }
    for finding in after {
        all.entry(key(finding)).or_default().1.get_or_insert(finding);
    }
    for ((id, instance), (one, other)) in all {
        let status = |finding: Option<&Finding>| finding.map(|finding| finding.status);
        let fires = |finding: Option<&Finding>| status(finding).is_some_and(Status::fired);
        let change = match (fires(one), fires(other)) {
            (false, false) => continue,
            (false, true) => Change::Appeared,
            (true, true) if status(one) == status(other) => {
                comparison.findings_same += 1;
                continue;
            }
            (true, true) if status(one) < status(other) => Change::Worse,
            (true, true) => Change::Better,
            // A rule that has no instance any more may have lost its device.
            (true, false) if status(other) == Some(Status::Ok) => Change::Gone,
            (true, false) => Change::NotSeen,
        };
        if let (Some(one), Some(other)) = (one, other)
            && is_in_noise(one, other, figures)
        {
            comparison.findings_in_noise.push(words::full_id(other));
            continue;
        }
        let Some(told) = other.filter(|_| fires(other)).or(one) else { continue };
        comparison.findings.push(FindingChange {
            id,
            instance,
            title: told.title.clone(),
            change,
            before: status(one),
            after: status(other),
            value_before: one.and_then(|finding| finding.value),
            value_after: other.and_then(|finding| finding.value),
            unit: told.unit,
            summary: told.summary.clone(),
        });
    }
    comparison.findings.sort_by_key(|finding| (finding.change, std::cmp::Reverse(finding.after.max(finding.before))));
}

/// Whether the figure that a finding was judged by moved by no more than it varies from one interval to the next: then it only happened
/// to fall on the other side of its threshold. What is not known is no noise, and neither is an event: a process was killed, or it was not.
fn is_in_noise(before: &Finding, after: &Finding, figures: &[Figures; 2]) -> bool {
    if after.kind == Kind::Errors && after.unit == Unit::Count {
        return false;
    }
    let figure = |finding: &Finding, figures: &Figures| {
        let evidence = finding.evidence.iter().find(|evidence| judged_by(finding, evidence))?;
        let key = (evidence.window, evidence.metric.clone(), evidence.instance.clone().unwrap_or_default());
        figures.get(&key).map(|figure| (figure.mean, spread(&figure.intervals)))
    };
    let [of_before, of_after] = figures;
    match (figure(before, of_before), figure(after, of_after)) {
        (Some((one, Some(a))), Some((other, Some(b)))) if a + b > 0.0 => (other - one).abs() < ERRORS * (a + b).sqrt(),
        _ => false,
    }
}

/// A figure, with its intervals where they are known.
struct Figure {
    unit: Unit,
    mean: f64,
    intervals: Vec<f64>,
}

type Figures = BTreeMap<(usize, String, String), Figure>;

/// What is known of an input's metrics: all readings of a recording, or what the findings of a report cite, with the intervals of those
/// that it has curves of.
fn figures(input: &Input) -> Figures {
    let mut figures = Figures::new();
    for (window, metrics) in input.metrics.iter().enumerate() {
        for (id, reading) in &metrics.readings {
            let Reading::Measured { unit, dimension, instances, .. } = reading else { continue };
            if dimension.as_deref().is_some_and(|dimension| FLEETING.contains(&dimension)) {
                continue;
            }
            for (instance, stats) in instances {
                let Ok(stats) = stats else { continue };
                figures.insert((window, id.clone(), instance.clone()), figure(*unit, stats));
            }
        }
    }
    let findings = input.report.iter().flat_map(|report| &report.findings);
    let cited = findings.flat_map(|finding| &finding.evidence).filter(|_| input.metrics.is_empty());
    for evidence in cited {
        let Some(mean) = evidence.mean else { continue };
        let instance = evidence.instance.clone().unwrap_or_default();
        let key = (evidence.window, evidence.metric.clone(), instance);
        figures.insert(key, Figure { unit: evidence.unit, mean, intervals: drawn(input, evidence) });
    }
    figures
}

/// The intervals of a reading that a report draws.
fn drawn(input: &Input, evidence: &Evidence) -> Vec<f64> {
    let plots = input.report.iter().flat_map(|report| &report.plots);
    let mut of = plots.filter(|plot| {
        plot.metric == evidence.metric && plot.instance == evidence.instance && plot.window == evidence.window
    });
    of.next().map(|plot| plot.points.iter().filter_map(|(_, value)| *value).collect()).unwrap_or_default()
}

fn figure(unit: Unit, stats: &Stats) -> Figure {
    Figure { unit, mean: stats.mean, intervals: stats.intervals.iter().flatten().copied().collect() }
}

/// Mean and squared standard error of intervals; none where there are too few.
fn spread(intervals: &[f64]) -> Option<f64> {
    let count = intervals.len() as f64;
    let mean = intervals.iter().sum::<f64>() / count;
    let squares: f64 = intervals.iter().map(|value| (value - mean).powi(2)).sum();
    (intervals.len() >= INTERVALS).then(|| squares / (count - 1.0) / count)
}

fn metrics(comparison: &mut Comparison, before: &Figures, after: &Figures) {
    let mut moved = Vec::new();
    for ((window, id, instance), one) in before {
        let Some(other) = after.get(&(*window, id.clone(), instance.clone())) else { continue };
        comparison.metrics_compared += 1;
        let change = (other.mean - one.mean).abs();
        let share = change / one.mean.abs().max(other.mean.abs());
        let errors = match (spread(&one.intervals), spread(&other.intervals)) {
            (Some(a), Some(b)) => {
                Some((a + b).sqrt()).filter(|error| *error > ROUNDING * change).map(|error| change / error)
            }
            _ => None,
        };
        let is_clear = match errors {
            Some(errors) => errors >= ERRORS && share >= SHARE,
            None => share >= SHARE_BLIND,
        };
        if is_clear {
            moved.push(MetricChange {
                id: id.clone(),
                instance: instance.clone(),
                window: *window,
                unit: one.unit,
                before: one.mean,
                after: other.mean,
                errors,
            });
        }
    }
    let share = |moved: &MetricChange| (moved.after - moved.before).abs() / moved.before.abs().max(moved.after.abs());
    moved.sort_by(|a, b| share(b).total_cmp(&share(a)).then_with(|| (&a.id, &a.instance).cmp(&(&b.id, &b.instance))));
    comparison.metrics_others = moved.len().saturating_sub(MAX_METRICS);
    moved.truncate(MAX_METRICS);
    comparison.metrics = moved;
}

#[cfg(test)]
mod task_tests;
#[cfg(test)]
mod tests;
