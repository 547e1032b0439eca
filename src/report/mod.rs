//! Findings and recording → Report → HTML, Markdown, JSON or terminal text.
//!
//! [`build()`] decides everything that needs deciding: the verdict, the order, what was ruled out, which curves to draw.
//! The renderers only lay it out. Names in a report are not trusted; [`escape`] makes them harmless.

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
pub mod diff;
#[cfg(test)]
mod doubt_tests;
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

use std::collections::BTreeMap;

use self::shown::{Json, Shown};
use rdiag_model::comparison::Comparison;
use rdiag_model::finding::Levels;
use rdiag_model::report::{PlaybookInfo, StepOutcome};
use rdiag_model::{Answer, Finding, MetricDef, Metrics, ProbeResult, Profile, Recording, Report, Unavailable};

pub use build::build;
pub use exported::Exported;
pub use html::{comparison as comparison_html, html, profile as profile_html};
pub use markdown::{brief as markdown_brief, markdown, profile as profile_markdown};
pub use otlp::otlp;
pub use perfetto::perfetto;
pub use plain::plain;
pub use terminal::{Style, brief, compared, so_far, so_far_line, summary, terminal, verdict_alone};

/// What a report is built from.
pub struct Parts<'p> {
    /// The recording that was judged.
    pub recording: &'p Recording,
    /// The readings of its windows, in order.
    pub metrics: &'p [Metrics],
    /// What the rules concluded, in any order.
    pub findings: Vec<Finding>,
    /// Where the observed task's time went, for playbooks of Method R; or why that could not be told.
    pub profile: Option<Result<Profile, Unavailable>>,
    /// What the symptom comes from, for playbooks that start from one.
    pub answer: Option<Answer>,
    /// The steps of the playbook.
    pub steps: Vec<StepOutcome>,
    /// Which playbook.
    pub playbook: PlaybookInfo,
    /// The definition of a metric, by its id.
    pub titles: &'p dyn Fn(&str) -> Option<&'static MetricDef>,
    /// What a probe is about, by its id.
    pub probes: &'p dyn Fn(&str) -> Option<ProbeTexts>,
    /// The levels of a rule's conditions, by its id.
    pub levels: &'p BTreeMap<String, Levels>,
}

/// What a probe is about.
#[derive(Debug, Clone, Copy)]
pub struct ProbeTexts {
    /// The question it answers.
    pub question: &'static str,
    /// What its figures do not mean.
    pub caveats: &'static str,
    /// Metrics derived from it.
    pub metrics: &'static [MetricDef],
}

/// A report could not be written down.
#[derive(Debug, thiserror::Error)]
pub enum ReportError {
    /// A template of ours failed; its name and place are in the source.
    #[error("the template of the report failed")]
    Template(#[from] minijinja::Error),
    /// The report could not be serialised.
    #[error("the report has no JSON form")]
    Json(#[from] serde_json::Error),
}

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
