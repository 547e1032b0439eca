//! Findings as log records: the verdict first, then what fired and what could not be judged. What was in order is seen in the gauges.

use serde::Serialize;

use super::Clock;
use super::line::Kind;
use super::value::{AnyValue, Attribute, attributes, count, list, number, text, whole, word};
use crate::exported::Exported;
use rdiag_model::{Finding, Status};

pub(super) const KIND: Kind = Kind { resources: "resourceLogs", scopes: "scopeLogs", records: "logRecords" };

/// A record. Both times are none where the document does not say when it was recorded.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct LogRecord {
    /// When it began to hold, or the window over which it was judged; none if that was before the window, or it was not judged.
    #[serde(skip_serializing_if = "Option::is_none")]
    time_unix_nano: Option<String>,
    /// When all of it was seen: the end of the window.
    #[serde(skip_serializing_if = "Option::is_none")]
    observed_time_unix_nano: Option<String>,
    severity_number: u8,
    severity_text: &'static str,
    event_name: &'static str,
    body: AnyValue,
    attributes: Vec<Attribute>,
}

/// All records of a report.
pub(super) fn of(of: &Exported<'_>, clock: Option<Clock>) -> Vec<LogRecord> {
    let is_told = |finding: &Finding| finding.status.fired() || finding.status == Status::Unknown;
    let told = of.report.findings.iter().enumerate().filter(|(_, finding)| is_told(finding));
    std::iter::once(verdict(of, clock)).chain(told.map(|(at, one)| finding(of, clock, at, one))).collect()
}

fn verdict(of: &Exported<'_>, clock: Option<Clock>) -> LogRecord {
    let report = of.report;
    let until = of.windows().iter().map(|span| span.until).fold(0.0, f64::max);
    LogRecord {
        time_unix_nano: clock.map(|clock| clock.at(0.0)),
        observed_time_unix_nano: clock.map(|clock| clock.at(until)),
        severity_number: severity(report.verdict.status),
        severity_text: report.verdict.status.word(),
        event_name: "rdiag.verdict",
        body: text(&report.verdict.headline.to_string()),
        attributes: attributes([
            ("rdiag.status", Some(text(report.verdict.status.word()))),
            ("rdiag.playbook", Some(text(&report.playbook.name))),
            ("rdiag.limits", list(report.verdict.limits.iter().map(|limit| text(limit)))),
        ]),
    }
}

fn finding(of: &Exported<'_>, clock: Option<Clock>, at: usize, finding: &Finding) -> LogRecord {
    // What could not be judged did not hold.
    let held = of.held(at, finding).filter(|_| finding.status.fired());
    let begins = held.as_ref().and_then(|held| held.spans.first()).map(|span| span.from);
    let window = of.judged_over(finding).or_else(|| of.window(0));
    let culprit = finding.culprit.as_ref();
    let share = |share: Option<f64>| share.and_then(number);
    LogRecord {
        time_unix_nano: clock.zip(begins).map(|(clock, begins)| clock.at(begins)),
        observed_time_unix_nano: clock.zip(window).map(|(clock, window)| clock.at(window.until)),
        severity_number: severity(finding.status),
        severity_text: finding.status.word(),
        event_name: "rdiag.finding",
        body: text(&finding.summary),
        attributes: attributes([
            ("rdiag.rule", Some(text(&finding.id))),
            ("rdiag.status", Some(text(finding.status.word()))),
            ("rdiag.resource", Some(text(finding.resource.word()))),
            ("rdiag.kind", Some(text(finding.kind.word()))),
            ("rdiag.instance", finding.instance.as_deref().map(text)),
            ("rdiag.confidence", word(&finding.confidence)),
            ("rdiag.value", finding.value.and_then(number)),
            ("rdiag.unit", word(&finding.unit).filter(|_| finding.value.is_some())),
            ("rdiag.held", held.map(|held| text(if held.exact { "in stretches" } else { "over the window" }))),
            ("rdiag.held_intervals", finding.held_intervals.map(|(held, _)| count(held))),
            ("rdiag.intervals", finding.held_intervals.map(|(_, intervals)| count(intervals))),
            ("rdiag.reason", finding.unavailable.as_ref().map(|gap| text(&gap.why))),
            ("rdiag.culprit", culprit.map(|culprit| text(&culprit.name))),
            ("rdiag.culprit.kind", culprit.map(|culprit| text(&culprit.kind))),
            ("rdiag.culprit.share", share(culprit.and_then(|culprit| culprit.share))),
            ("rdiag.culprit.pids", culprit.and_then(|culprit| list(culprit.pids.iter().copied().map(whole)))),
        ]),
    }
}

/// The number of OpenTelemetry's log model: INFO, WARN and ERROR. What could not be judged is worth knowing, and no warning.
fn severity(status: Status) -> u8 {
    match status {
        Status::Critical => 17,
        Status::Warning => 13,
        Status::Skipped | Status::Ok | Status::Unknown | Status::Info => 9,
    }
}
