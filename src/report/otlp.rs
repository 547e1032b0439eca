//! The report as OTLP, the protocol of OpenTelemetry, in JSON lines: what the collector's receiver `otlpjsonfile` reads, and each line what
//! `/v1/metrics`, `/v1/logs` and `/v1/traces` take.
//!
//! The mapping is that of <https://opentelemetry.io/docs/specs/otlp/#json-protobuf-encoding>: keys in lowerCamelCase, 64-bit integers as
//! decimal strings, enumerations as numbers, ids of traces and spans in hexadecimal. Readings are gauges, findings log records, and runs
//! spans; what a document does not hold has no line. Without the wall clock there are log records alone, which may have no time.

mod line;
mod logs;
mod metrics;
mod spans;
#[cfg(test)]
mod tests;
mod value;

use sha2::Digest as _;

use self::line::{Head, Resource, push};
use self::value::{attributes, text};
use super::exported::Exported;
use super::shown::{Json, Shown};
use crate::error::ReportError;
use rdiag_model::Report;
use rdiag_model::report::Span;

/// Hexadecimal digits of the id of a document.
const DIGITS: usize = 16;

/// The wall clock on the report's axis.
#[derive(Debug, Clone, Copy)]
struct Clock {
    /// Nanoseconds since 1970 at its beginning.
    origin: u64,
}

impl Clock {
    /// Nanoseconds since 1970, as JSON has a 64-bit integer.
    fn at(self, seconds: f64) -> String {
        // A number that is none, or too large, becomes the nearest that can be.
        self.origin.saturating_add((seconds * 1e9).round() as u64).to_string()
    }

    fn ends(self, span: Span) -> [String; 2] {
        [self.at(span.from), self.at(span.until)]
    }
}

/// The lines of a report.
///
/// # Errors
///
/// When they cannot be serialised.
pub fn otlp(of: &Exported<'_>) -> Result<Shown<Json>, ReportError> {
    let head = Head::new(resource(of), &id(&format!("rdiag document {}", document(of.report)), DIGITS));
    let clock = of.origin().map(|origin| Clock { origin });
    let mut lines = Shown::<Json>::new();
    if let Some(clock) = clock {
        push(&mut lines, metrics::KIND, &head, &metrics::of(of, clock))?;
    }
    push(&mut lines, logs::KIND, &head, &logs::of(of, clock))?;
    if let Some(clock) = clock {
        push(&mut lines, spans::KIND, &head, &spans::of(of, clock))?;
    }
    Ok(lines)
}

/// The host, by the names of OpenTelemetry's conventions for resources.
fn resource(of: &Exported<'_>) -> Resource {
    let host = &of.report.host;
    let machine = of.recording.and_then(|recording| recording.setup.machine.as_deref());
    Resource {
        attributes: attributes([
            ("service.name", Some(text("rdiag"))),
            ("service.version", Some(text(&of.report.tool.version))),
            ("host.name", Some(text(&host.hostname)).filter(|_| !matches!(host.hostname.as_str(), "" | "unknown"))),
            ("host.id", machine.map(text)),
            ("os.type", Some(text("linux"))),
        ]),
    }
}

/// What no other document has in common with this one: when it was recorded, where, by which process.
fn document(report: &Report) -> String {
    let host = &report.host;
    format!(
        "{:?} {} {} {} {:?}",
        host.hostname, host.uptime_seconds, host.pid, report.window.started, report.playbook.name
    )
}

/// The beginning of the SHA-256 of a text, in hexadecimal digits.
fn id(text: &str, digits: usize) -> String {
    let all = sha2::Sha256::digest(text.as_bytes()).iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    all.chars().take(digits).collect()
}
