//! Findings and recording → Report → HTML, Markdown, JSON or terminal text.
//!
//! [`build()`] decides everything that needs deciding: the verdict, the order, what was ruled out, which curves to draw.
//! The renderers only lay it out. Names in a report are not trusted; [`escape`] makes them harmless.

// The accounts of time that the tests of src/judge are about are those that reports are drawn of.
#[cfg(test)]
#[path = "../judge/profile/testing.rs"]
mod accounts;
mod allotted;
mod answer;
#[cfg(test)]
mod answer_tests;
mod around;
mod bars;
mod build;
mod calls;
mod causes;
mod changes;
mod consumers;
mod context;
mod coverage;
pub mod deeds;
pub mod diff;
#[cfg(test)]
mod doubt_tests;
mod error;
pub mod escape;
mod exported;
pub mod flame;
pub mod fleet;
mod gist;
#[cfg(test)]
mod golden_tests;
mod groups;
mod headline;
mod heat;
#[cfg(test)]
mod hostile_tests;
pub mod hot;
mod hot_words;
mod html;
#[cfg(test)]
mod html_tests;
mod io_limit;
mod lesson;
pub mod live;
mod markdown;
mod matrix;
mod next;
mod order;
mod otlp;
mod parts;
mod past;
mod perfetto;
mod plain;
mod plots;
pub mod probe;
#[cfg(test)]
mod probe_tests;
mod probe_words;
mod probed;
#[cfg(test)]
mod profile_testing;
#[cfg(test)]
mod profile_tests;
mod profile_words;
mod quality;
mod quiet;
mod rows;
#[cfg(test)]
mod run_tests;
mod run_words;
#[cfg(test)]
mod sample;
#[cfg(test)]
mod sample_probes;
mod schedule;
mod sentence;
mod shade;
mod shapes;
pub mod shown;
pub mod speedscope;
mod spread;
mod svg;
mod task_verdict;
mod terminal;
mod timeline;
mod top;
mod usual;
mod verdict;
#[cfg(test)]
mod verdict_tests;
mod wait_words;
mod words;
mod worth;

use self::shown::{Json, Shown};
use rdiag_model::comparison::Comparison;
use rdiag_model::{ProbeResult, Report};

pub use build::build;
pub use causes::is_same_shortage;
pub use error::ReportError;
pub use exported::Exported;
pub use html::{comparison as comparison_html, html, profile as profile_html};
pub use markdown::{brief as markdown_brief, markdown, profile as profile_markdown};
pub use otlp::otlp;
pub use parts::{Parts, ProbeTexts};
pub use perfetto::perfetto;
pub use plain::plain;
pub use terminal::{Style, brief, compared, so_far, so_far_line, summary, terminal, verdict_alone};

/// The report as JSON, indented, ending with a newline.
///
/// # Errors
///
/// When the report cannot be serialised.
pub fn json(report: &Report) -> Result<Shown<Json>, ReportError> {
    Ok(shown::json(report)?)
}

/// A comparison as JSON, as [`json`].
///
/// # Errors
///
/// When it cannot be serialised.
pub fn comparison_json(comparison: &Comparison) -> Result<Shown<Json>, ReportError> {
    Ok(shown::json(comparison)?)
}

/// One result of a probe as JSON, as [`json`].
///
/// # Errors
///
/// When it cannot be serialised.
pub fn result_json(result: &ProbeResult) -> Result<Shown<Json>, ReportError> {
    Ok(shown::json(result)?)
}
