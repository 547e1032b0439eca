//! Readings as gauges: what findings cite, over their window; the curves of the page, by interval; the busiest processes; and the
//! components of a task's time.
//!
//! A metric has the name that `rdiag explain` knows. `rdiag.over` distinguishes the figure of a window from that of an interval. Of a curve
//! with more than 120 intervals in a window a point is the largest of neighbours, as on the page.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use super::Clock;
use super::line::Kind;
use super::value::{AnyValue, Attribute, attributes, count, text, whole};
use crate::exported::Exported;
use rdiag_model::report::{Lane, Report, Span};
use rdiag_model::{Evidence, Unit};

pub(super) const KIND: Kind = Kind { resources: "resourceMetrics", scopes: "scopeMetrics", records: "metrics" };

/// A metric with its points.
#[derive(Debug, Serialize)]
pub(super) struct Metric {
    name: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    description: String,
    unit: &'static str,
    gauge: Gauge,
}

#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
struct Gauge {
    data_points: Vec<Point>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Point {
    attributes: Vec<Attribute>,
    start_time_unix_nano: String,
    time_unix_nano: String,
    as_double: f64,
}

/// The metrics so far, by name.
struct Gauges<'r> {
    report: &'r Report,
    clock: Clock,
    by_name: BTreeMap<String, Metric>,
}

/// All metrics of a report.
pub(super) fn of(of: &Exported<'_>, clock: Clock) -> Vec<Metric> {
    let mut gauges = Gauges { report: of.report, clock, by_name: BTreeMap::new() };
    gauges.cited(of);
    for lane in of.report.timeline.iter().flat_map(|timeline| &timeline.lanes) {
        (0..of.windows().len()).for_each(|at| gauges.lane(lane, at, of));
    }
    gauges.top(of);
    gauges.components(of);
    gauges.by_name.into_values().collect()
}

impl Gauges<'_> {
    fn put(&mut self, name: &str, unit: Unit, span: Span, value: f64, attributes: Vec<Attribute>) {
        if !value.is_finite() {
            return;
        }
        let help = || self.report.metrics.get(name).map(|note| note.help.clone()).unwrap_or_default();
        let metric = self.by_name.entry(name.to_owned()).or_insert_with(|| Metric {
            name: name.to_owned(),
            description: help(),
            unit: ucum(unit),
            gauge: Gauge::default(),
        });
        let [start_time_unix_nano, time_unix_nano] = self.clock.ends(span);
        metric.gauge.data_points.push(Point { attributes, start_time_unix_nano, time_unix_nano, as_double: value });
    }

    /// What findings cite, each reading once.
    fn cited(&mut self, of: &Exported<'_>) {
        let mut seen: BTreeSet<(&str, Option<&str>, usize)> = BTreeSet::new();
        for evidence in of.report.findings.iter().flat_map(|finding| &finding.evidence) {
            let is_new = seen.insert((&evidence.metric, evidence.instance.as_deref(), evidence.window));
            let (Some(span), Some(value), true) = (of.window(evidence.window), figure(of.report, evidence), is_new)
            else {
                continue;
            };
            let dimension = of.report.metrics.get(&evidence.metric).and_then(|note| note.dimension.as_deref());
            let about = attributes([
                ("rdiag.over", Some(text("window"))),
                ("rdiag.window", Some(count(evidence.window))),
                ("rdiag.dimension", dimension.map(text).filter(|_| evidence.instance.is_some())),
                ("rdiag.instance", evidence.instance.as_deref().map(text)),
            ]);
            self.put(&evidence.metric, evidence.unit, span, value, about);
        }
    }

    /// The curves of a lane in one window.
    fn lane(&mut self, lane: &Lane, at: usize, of: &Exported<'_>) {
        let Some(window) = of.window(at) else { return };
        for curve in &lane.curves {
            let values = curve.values.get(at).map(Vec::as_slice).unwrap_or_default();
            let width = (window.until - window.from) / values.len().max(1) as f64;
            // The parts of CPU time are of counters, and no metric.
            let is_metric = self.report.metrics.contains_key(&curve.source);
            let name = if is_metric { curve.source.clone() } else { format!("timeline.{}", lane.title.to_lowercase()) };
            for (slot, value) in values.iter().enumerate() {
                let Some(value) = value else { continue };
                let from = window.from + slot as f64 * width;
                let about = attributes([
                    ("rdiag.over", Some(text("interval"))),
                    ("rdiag.window", Some(count(at))),
                    ("rdiag.instance", lane.instance.as_deref().map(text)),
                    ("rdiag.part", Some(text(&curve.name)).filter(|_| !is_metric)),
                ]);
                self.put(&name, lane.unit, Span { from, until: from + width }, *value, about);
            }
        }
    }

    /// The busiest processes.
    fn top(&mut self, of: &Exported<'_>) {
        let Some((at, window)) = of.with_processes() else { return };
        for (table, row) in of.report.top.iter().flat_map(|table| table.rows.iter().map(move |row| (table, row))) {
            let pid = row.labels.get("pid").and_then(|pid| pid.parse::<u32>().ok());
            let about = attributes([
                ("rdiag.over", Some(text("window"))),
                ("rdiag.window", Some(count(at))),
                ("rdiag.instance", Some(text(&row.instance))),
                ("process.executable.name", Some(text(&row.name))),
                ("process.pid", pid.map(whole)),
            ]);
            self.put(&table.metric, table.unit, window, row.value, about);
        }
    }

    /// Where a task's time went.
    fn components(&mut self, of: &Exported<'_>) {
        let Some(profile) = &of.report.profile else { return };
        let Some(window) = of.window(profile.window) else { return };
        let span = Span { from: window.from, until: window.from + profile.elapsed_seconds };
        for row in &profile.components {
            let part: Option<AnyValue> = Some(text(row.id.id()));
            let about = attributes([("rdiag.over", Some(text("window"))), ("rdiag.component", part)]);
            self.put("task.component.seconds", Unit::Seconds, span, row.seconds, about);
        }
    }
}

/// The figure of a reading for its window: the change of what is counted, the mean of what is not.
fn figure(report: &Report, evidence: &Evidence) -> Option<f64> {
    let sums = report.metrics.get(&evidence.metric).is_some_and(|note| note.sums);
    if sums { evidence.total } else { evidence.mean }
}

/// The unit by UCUM, as OpenTelemetry writes it: what is in braces is a remark.
fn ucum(unit: Unit) -> &'static str {
    match unit {
        Unit::Ratio => "1",
        Unit::Seconds => "s",
        Unit::Bytes => "By",
        Unit::Count => "{count}",
        Unit::PerSecond => "{count}/s",
        Unit::BytesPerSecond => "By/s",
    }
}
