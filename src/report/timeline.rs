//! The host over the run: what the lanes show, of which device, on which scale, and when findings held.

mod bands;
mod cpu;

use std::collections::BTreeMap;

use super::causes::Problem;
use rdiag_model::finding::Levels;
use rdiag_model::report::{Curve, Lane, Span, Timeline};
use rdiag_model::{Finding, Metrics, Reading, Recording, Resource, Stats, Unavailable, Unit, Window};

/// Values of a curve within a window; more are thinned by taking the largest of neighbours, so that no peak is lost.
const MAX_VALUES: usize = 120;
/// What sums up instances that are not kept.
const OTHERS: &str = "(others)";

/// A lane of metrics: its title, and the name and metric of each curve.
type Metered = (&'static str, &'static [(&'static str, &'static str)]);

const PRESSURE: Metered = (
    "Pressure (PSI some)",
    &[("cpu", "psi.cpu.some.ratio"), ("memory", "psi.memory.some.ratio"), ("io", "psi.io.some.ratio")],
);
const IOPS: Metered = ("IOPS", &[("reads", "disk.reads.per_second"), ("writes", "disk.writes.per_second")]);
const AWAIT: Metered = ("await", &[("reads", "disk.read_await.seconds"), ("writes", "disk.write_await.seconds")]);
const NETWORK: Metered = (
    "Network",
    &[
        ("received", "network.interface.receive.bytes_per_second"),
        ("sent", "network.interface.transmit.bytes_per_second"),
    ],
);

/// Which seconds each window covers.
pub(super) fn spans(recording: &Recording) -> Vec<Span> {
    let begins = recording.windows.iter().map(|window| window.begins).fold(f64::INFINITY, f64::min);
    let span = |window: &Window| Span { from: window.begins - begins, until: window.begins - begins + window.seconds };
    recording.windows.iter().map(span).collect()
}

/// Leaves out what is known of a window that lies within an earlier one of which the same is known: each second is drawn and counted once.
fn apart<T>(windows: &[Span], known: &mut [Option<T>]) {
    for at in 1..known.len().min(windows.len()) {
        let (before, own) = known.split_at_mut(at);
        let (Some(own), Some(window)) = (own.first_mut(), windows.get(at)) else { continue };
        let is_within =
            |(span, known): (&Span, &Option<T>)| known.is_some() && (span.from..span.until).contains(&window.from);
        if windows.iter().zip(before.iter()).any(is_within) {
            *own = None;
        }
    }
}

/// The timeline of a run; none where nothing was measured.
pub(super) fn timeline(
    recording: &Recording,
    metrics: &[Metrics],
    findings: &[Finding],
    problems: &[Problem<'_>],
    levels: &BTreeMap<String, Levels>,
) -> Option<Timeline> {
    let windows = spans(recording);
    let seconds = windows.iter().map(|window| window.until).fold(0.0, f64::max);
    if seconds <= 0.0 || metrics.is_empty() {
        return None;
    }
    let device = named(problems, Resource::Disk, metrics, IOPS)
        .or_else(|| busiest(metrics, &["disk.queue.count"], |_| true))
        .or_else(|| busiest(metrics, &["disk.reads.per_second", "disk.writes.per_second"], |_| true));
    let traffic: Vec<&str> = NETWORK.1.iter().map(|(_, metric)| *metric).collect();
    let interface = named(problems, Resource::Network, metrics, NETWORK)
        .or_else(|| busiest(metrics, &traffic, |name| name != "lo"))
        .or_else(|| busiest(metrics, &traffic, |_| true));
    let lanes = vec![
        cpu::lane(recording, &windows),
        lane(metrics, &windows, PRESSURE, Some(""), false),
        lane(metrics, &windows, IOPS, device.as_deref(), true),
        lane(metrics, &windows, AWAIT, device.as_deref(), false),
        lane(metrics, &windows, NETWORK, interface.as_deref(), false),
    ];
    Some(Timeline { seconds, bands: bands::bands(&windows, metrics, findings, problems, levels), windows, lanes })
}

/// The device or interface that the first problem of a resource is about, if the lane has it.
fn named(problems: &[Problem<'_>], resource: Resource, metrics: &[Metrics], lane: Metered) -> Option<String> {
    let mut leads = problems.iter().flat_map(Problem::leads).filter(|lead| lead.resource == resource);
    let instance = leads.find_map(|lead| lead.instance.clone())?;
    let has = |(_, metric): &(&str, &str)| metrics.iter().any(|window| window.measured(metric, &instance).is_some());
    lane.1.iter().any(has).then_some(instance)
}

/// The instance with the largest sum of these metrics over the run.
fn busiest(metrics: &[Metrics], ids: &[&str], wanted: impl Fn(&str) -> bool) -> Option<String> {
    let mut sums: BTreeMap<&str, f64> = BTreeMap::new();
    for window in metrics {
        for id in ids {
            let Some(Reading::Measured { instances, .. }) = window.readings.get(*id) else { continue };
            for (name, stats) in instances.iter().filter(|(name, _)| *name != OTHERS && wanted(name)) {
                let Ok(stats) = stats else { continue };
                *sums.entry(name).or_default() += stats.mean * window.seconds;
            }
        }
    }
    // Of equal ones the first by name.
    let best = sums.into_iter().rev().max_by(|(_, one), (_, other)| one.total_cmp(other));
    best.map(|(name, _)| name.to_owned())
}

/// The lane of one instance; where no curve of it was measured, why.
fn lane(
    metrics: &[Metrics],
    windows: &[Span],
    (title, wanted): Metered,
    instance: Option<&str>,
    stacked: bool,
) -> Lane {
    let name = instance.unwrap_or_default();
    let curves: Vec<(Unit, Curve)> =
        wanted.iter().filter_map(|(word, metric)| curve(metrics, windows, word, metric, name)).collect();
    let unit = curves.first().map(|(unit, _)| *unit).unwrap_or_default();
    let curves: Vec<Curve> = curves.into_iter().map(|(_, curve)| curve).collect();
    let missing = if curves.is_empty() { Some(why(metrics, wanted, name)) } else { None };
    Lane {
        title: title.to_owned(),
        instance: (!name.is_empty()).then(|| name.to_owned()),
        unit,
        top: top(unit, highest(&curves, stacked)),
        stacked,
        curves,
        missing,
    }
}

fn curve(metrics: &[Metrics], windows: &[Span], name: &str, metric: &str, instance: &str) -> Option<(Unit, Curve)> {
    let unit = metrics.iter().find_map(|window| match window.readings.get(metric) {
        Some(Reading::Measured { unit, .. }) => Some(*unit),
        _ => None,
    })?;
    let mut measured: Vec<Option<&Stats>> = metrics.iter().map(|window| window.measured(metric, instance)).collect();
    apart(windows, &mut measured);
    let known = || metrics.iter().zip(&measured).filter_map(|(window, stats)| Some((window.seconds, (*stats)?)));
    let seconds: f64 = known().map(|(seconds, _)| seconds).sum();
    if seconds <= 0.0 {
        return None;
    }
    let values = measured.iter().map(|stats| stats.map(|stats| thinned(&stats.intervals)).unwrap_or_default());
    Some((
        unit,
        Curve {
            name: name.to_owned(),
            source: metric.to_owned(),
            mean: known().map(|(seconds, stats)| stats.mean * seconds).sum::<f64>() / seconds,
            max: known().map(|(_, stats)| stats.max).fold(0.0, f64::max),
            values: values.collect(),
        },
    ))
}

/// At most so many values, evenly spaced: of several that fall together the largest.
pub(super) fn thinned(values: &[Option<f64>]) -> Vec<Option<f64>> {
    if values.len() <= MAX_VALUES {
        return values.to_vec();
    }
    let part = |at: usize| at * values.len() / MAX_VALUES;
    let largest = |at: usize| {
        let between = values.get(part(at)..part(at + 1).max(part(at) + 1)).unwrap_or_default();
        between.iter().flatten().copied().max_by(f64::total_cmp)
    };
    (0..MAX_VALUES).map(largest).collect()
}

/// The highest point of a lane.
fn highest(curves: &[Curve], stacked: bool) -> f64 {
    let maxima = curves.iter().map(|curve| curve.max).filter(|max| max.is_finite());
    if !stacked {
        return maxima.fold(0.0, f64::max);
    }
    let windows = curves.iter().map(|curve| curve.values.len()).max().unwrap_or(0);
    let mut highest: f64 = 0.0;
    for window in 0..windows {
        let mut sums: Vec<f64> = Vec::new();
        for values in curves.iter().filter_map(|curve| curve.values.get(window)) {
            sums.resize(sums.len().max(values.len()), 0.0);
            for (sum, value) in sums.iter_mut().zip(values) {
                *sum += value.filter(|value| value.is_finite()).unwrap_or(0.0);
            }
        }
        highest = sums.into_iter().fold(highest, f64::max);
    }
    highest
}

/// A round number above the highest point: shares have one whole, so that two pages can be compared at a glance.
fn top(unit: Unit, highest: f64) -> f64 {
    if unit == Unit::Ratio {
        return 1.0;
    }
    if highest <= 0.0 {
        return 1.0;
    }
    let base: f64 = if matches!(unit, Unit::Bytes | Unit::BytesPerSecond) { 1024.0 } else { 1000.0 };
    let scale = base.powf(highest.log(base).floor());
    let steps = [1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0, 200.0, 500.0];
    steps.into_iter().map(|step| step * scale).find(|top| *top >= highest).unwrap_or(base * scale)
}

/// Why a lane has no curve.
fn why(metrics: &[Metrics], wanted: &[(&str, &str)], instance: &str) -> String {
    let gap = |(_, metric): &(&str, &str)| -> Option<&Unavailable> {
        metrics.iter().find_map(|window| match window.readings.get(*metric)? {
            Reading::Unavailable(gap) => Some(gap),
            Reading::Measured { instances, .. } => match instances.get(instance) {
                Some(Err(gap)) => Some(gap),
                _ => instances.values().find_map(|stats| stats.as_ref().err()),
            },
        })
    };
    let why = wanted.iter().find_map(gap).map(|gap| gap.why.trim_end_matches('.').to_owned());
    why.unwrap_or_else(|| "not measured by this playbook".to_owned())
}

#[cfg(test)]
mod tests;
