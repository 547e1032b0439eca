//! The report as a trace for ui.perfetto.dev and chrome://tracing, in the trace event format that both read: JSON objects, whose
//! definition is <https://docs.google.com/document/d/1CvAClvFfyA5R-PhYUmn5OOQtYMH4h6I0nSsKchNAySU>.
//!
//! Times are microseconds since the first window began. A "process" of the format is a group of tracks here, and a "thread" a track: real
//! numbers of processes stand in the arguments. Every text is made visible as for people, who read it there; it then has no escape such as
//! `\u202e` either, which Perfetto takes for an error in some places.
//!
//! A curve has no gap in this format and goes on at its last value. Where that would be wrong, a slice says "not measured".

mod findings;
mod host;
mod schedule;
mod task;
#[cfg(test)]
mod tests;
mod trace;

use serde::Serialize;

use self::trace::{Args, Event, Trace, text};
use super::exported::Exported;
use super::shown::{self, Json, Shown};
use crate::error::ReportError;

/// The file. Perfetto looks for the unit at its beginning.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct File {
    display_time_unit: &'static str,
    other_data: Args,
    trace_events: Vec<Event>,
}

/// The trace of a report.
///
/// # Errors
///
/// When it cannot be serialised.
pub fn perfetto(of: &Exported<'_>) -> Result<Shown<Json>, ReportError> {
    let mut trace = Trace::default();
    host::draw(&mut trace, of);
    findings::draw(&mut trace, of);
    task::draw(&mut trace, of);
    schedule::draw(&mut trace, of);
    let report = of.report;
    let mut about = Args::new();
    for (name, value) in [
        ("host", &report.host.hostname),
        ("playbook", &report.playbook.name),
        ("started", &report.window.started),
        ("rdiag", &report.tool.version),
        ("verdict", &report.verdict.headline.to_string()),
    ] {
        about.insert(name.to_owned(), text(value));
    }
    let clock =
        "microseconds since the first window began, by CLOCK_MONOTONIC; `started` is the wall clock, to the second";
    about.insert("clock".to_owned(), clock.into());
    if of.recording.is_some() {
        about.insert("first window begins (s after started)".to_owned(), of.first_begins().into());
    }
    Ok(shown::json_line(&File { display_time_unit: "ms", other_data: about, trace_events: trace.events })?)
}
