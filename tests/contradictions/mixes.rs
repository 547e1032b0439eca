//! Recordings put together at random: the sources of one window from two recordings, and figures moved around the thresholds of rules.

use std::io::Read as _;
use std::path::PathBuf;

use rdiag_model::{Formula, MetricDef, Metrics, Number, OfSeries, Per, Recording, Series, SeriesKind, Stats, Window};
use rdiag_playbook::Library;
use rdiag_session as session;

/// Numbers that a seed decides.
pub(super) struct Random(pub(super) u64);

impl Random {
    pub(super) fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % bound
    }

    pub(super) fn pick<'s, T>(&mut self, among: &'s [T]) -> &'s T {
        &among[self.below(among.len())]
    }
}

/// A recording, and what is measured in its first window.
pub(super) struct Source {
    pub(super) recording: Recording,
    metrics: Metrics,
}

pub(super) fn read(file: &PathBuf) -> Source {
    let mut text = Vec::new();
    flate2::read::GzDecoder::new(std::fs::File::open(file).unwrap()).read_to_end(&mut text).unwrap();
    let recording: Recording = serde_json::from_slice(&text).unwrap();
    let window = &recording.windows[0];
    let known = session::all_metrics().filter(|(owner, _)| window.collectors.contains_key(*owner));
    let catalogue: Vec<(&str, &MetricDef)> = known.collect();
    let metrics = rdiag_judge::metrics::evaluate(window, &recording.host, &catalogue);
    Source { recording, metrics }
}

/// A number with which a condition of a rule compares a metric.
pub(super) struct Threshold {
    metric: &'static MetricDef,
    field: String,
    level: f64,
}

/// All of them: where `value` is a metric, what it is compared with, and the other metrics of each condition.
pub(super) fn thresholds(library: &Library) -> Vec<Threshold> {
    let mut all = Vec::new();
    for rule in library.rules.values().map(|loaded| &loaded.rule) {
        for (_, condition) in rule.conditions() {
            let words: Vec<&str> = condition.split_whitespace().collect();
            for words in words.windows(3) {
                let is_comparison = [">", ">=", "<", "<=", "=="].contains(&words[1]);
                let level = match words[2].trim_matches(['(', ')', ',']) {
                    text if text.starts_with("knee") => Some(0.577),
                    text => text.parse().ok(),
                };
                let left = words[0].trim_matches(['(', ')']);
                let left = if left == "value" { rule.value.trim() } else { left };
                let metric = left.rsplit_once('.').and_then(|(id, field)| Some((session::metric(id)?, field)));
                if let (true, Some(level), Some((metric, field))) = (is_comparison, level, metric)
                    && Stats::FIELDS.contains(&field)
                {
                    all.push(Threshold { metric, field: field.to_owned(), level });
                }
            }
        }
    }
    all
}

/// The first window of `base` with some of its sources taken from `other`, and some figures moved to a threshold; which ones.
pub(super) fn mixed(base: &Source, other: &Source, all: &[Threshold], random: &mut Random) -> (Recording, Vec<String>) {
    let mut recording = base.recording.clone();
    let mut told = Vec::new();
    let mut taken = Vec::new();
    for (name, record) in &other.recording.windows[0].collectors {
        if random.below(2) == 0 {
            recording.windows[0].collectors.insert(name.clone(), record.clone());
            taken.push(name.clone());
        }
    }
    for _ in 0..random.below(12) {
        let threshold = random.pick(all);
        // Just missed, just met, and well beyond.
        let factor = *random.pick(&[0.8, 0.95, 1.0, 1.05, 1.2, 2.0]);
        let owner = session::all_metrics().find(|(_, metric)| metric.id == threshold.metric.id);
        let source = if owner.is_some_and(|(owner, _)| taken.iter().any(|name| name == owner)) { other } else { base };
        let facts = &recording.host;
        let per_unit = |series: &Series| series.unit.in_base_units(facts);
        let moved = move_to(&mut recording.windows[0].clone(), source, threshold, factor, &per_unit);
        if let Some(window) = moved {
            recording.windows[0] = window;
            told.push(format!("{}.{} at {factor} × {}", threshold.metric.id, threshold.field, threshold.level));
        }
    }
    (recording, told)
}

/// Moves what the metric is made of so that it has about this value: the series of the first term of its formula.
fn move_to(
    window: &mut Window,
    source: &Source,
    threshold: &Threshold,
    factor: f64,
    per_unit: &dyn Fn(&Series) -> f64,
) -> Option<Window> {
    let target = threshold.level * factor;
    let Formula::Series(OfSeries { sum, per, .. }) = threshold.metric.sources.first()? else { return None };
    let term = sum.first()?;
    let seconds = window.seconds;
    let record = window.collectors.values_mut().find(|record| record.series.iter().any(|s| s.name == term.series))?;
    for series in record.series.iter_mut().filter(|series| series.name == term.series) {
        let instance = series.instance.as_deref().unwrap_or_default();
        let now = source.metrics.measured(threshold.metric.id, instance).and_then(|now| now.field(&threshold.field));
        let now = now.filter(|now| *now > 0.0);
        let unit = per_unit(series) * term.weight;
        let is_level = matches!(series.kind, SeriesKind::Gauge);
        let first = series.values.iter().flatten().next()?.as_f64();
        let last = series.values.len().saturating_sub(1).max(1) as f64;
        let write = |value: f64| if is_level { Number::Real(value) } else { Number::Whole(value.max(0.0) as u64) };
        for (at, value) in series.values.iter_mut().enumerate() {
            let Some(known) = value.as_mut() else { continue };
            let moved = match (now, is_level, per) {
                (Some(now), true, _) => known.as_f64() * target / now,
                (Some(now), false, _) => first + (known.as_f64() - first) * target / now,
                (None, true, Per::Level) => target / unit,
                // It counts evenly.
                (None, false, Per::Second) => first + target * seconds * at as f64 / last / unit,
                (None, false, Per::Nothing) => first + target * at as f64 / last / unit,
                _ => return None,
            };
            *known = write(moved);
        }
    }
    Some(window.clone())
}
