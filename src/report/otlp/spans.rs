//! Runs as spans, each a trace of its own. Its ids come from the document alone, so that the same document gives the same ids, and what was
//! read twice is known as such.

use serde::Serialize;

use super::line::Kind;
use super::value::{AnyValue, Attribute, attributes, whole};
use super::{Clock, document, id};
use crate::exported::Exported;
use rdiag_model::Profile;
use rdiag_model::runs::Run;

/// SPAN_KIND_INTERNAL: no remote side is known.
const INTERNAL: u8 = 1;
/// Hexadecimal digits of a trace's id, and of a span's.
const OF_TRACE: usize = 32;
const OF_SPAN: usize = 16;

pub(super) const KIND: Kind = Kind { resources: "resourceSpans", scopes: "scopeSpans", records: "spans" };

/// A run.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct RunSpan {
    trace_id: String,
    span_id: String,
    name: String,
    kind: u8,
    start_time_unix_nano: String,
    end_time_unix_nano: String,
    attributes: Vec<Attribute>,
}

/// The runs of the task, where single ones were measured.
pub(super) fn of(of: &Exported<'_>, clock: Clock) -> Vec<RunSpan> {
    let Some(profile) = &of.report.profile else { return Vec::new() };
    let Some(window) = of.window(profile.window) else { return Vec::new() };
    let (document, name) = (document(of.report), name(profile));
    let count = profile.runs.as_ref().map_or(0, |runs| runs.count);
    let span = |run: &Run| {
        let from = window.from + run.at;
        let mut about = attributes([
            ("rdiag.run", Some(AnyValue::Whole(run.number.to_string()))),
            ("rdiag.runs", Some(AnyValue::Whole(count.to_string()))),
            ("process.pid", Some(whole(run.pid))),
            ("rdiag.key", run.key.clone().map(AnyValue::Text)),
        ]);
        let parts = run.parts.iter().filter(|(_, seconds)| seconds.is_finite());
        about.extend(parts.map(|(component, seconds)| Attribute {
            key: format!("rdiag.seconds.{}", component.id()),
            value: AnyValue::Number(*seconds),
        }));
        RunSpan {
            trace_id: id(&format!("rdiag trace {document} {}", run.number), OF_TRACE),
            span_id: id(&format!("rdiag span {document} {}", run.number), OF_SPAN),
            name: name.clone(),
            kind: INTERNAL,
            start_time_unix_nano: clock.at(from),
            end_time_unix_nano: clock.at(from + run.seconds),
            attributes: about,
        }
    };
    of.runs().iter().map(span).collect()
}

/// What all runs are of: spans of one name are taken together.
fn name(profile: &Profile) -> String {
    let target = &profile.target;
    match (&target.marks, target.words.first(), &target.comm) {
        (Some(_), ..) => "request".to_owned(),
        (None, Some(program), _) => program.rsplit('/').next().unwrap_or(program).to_owned(),
        (None, None, Some(comm)) => comm.clone(),
        (None, None, None) => "run".to_owned(),
    }
}
