//! The formats of a report.

use std::path::Path;

use clap::ValueEnum;

use rdiag_report::shown::{Shown, Whole};
use rdiag_report::{self as report, Exported, ReportError};

/// A report format.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(in crate::cli) enum Format {
    /// One self-contained page.
    Html,
    /// Markdown: a comment for a ticket of at most 60 lines; with -v all of it, at most 30 000 characters.
    #[value(alias = "markdown")]
    Md,
    /// For programs; the schema is reports/schema/report.schema.json.
    Json,
    /// Rows of four tables (runs, readings, findings, facts) as NDJSON; the schema is reports/schema/rows.schema.json.
    Rows,
    /// One line per stack, for programs that draw flame graphs; times in microseconds.
    Folded,
    /// A flame graph for each probe with stacks.
    Svg,
    /// A profile for speedscope.
    Speedscope,
    /// A trace for ui.perfetto.dev and chrome://tracing: the host's curves, when findings held, and what a task and the CPUs did when.
    Perfetto,
    /// OTLP as JSON lines, for the collector of OpenTelemetry: readings as gauges, findings as log records, runs of --each as spans.
    Otlp,
}

impl Format {
    /// The name of the file; of formats that are made of stacks, of which there is a file for each probe, how it ends.
    pub(in crate::cli) fn file(self) -> &'static str {
        match self {
            Self::Html => "report.html",
            Self::Md => "report.md",
            Self::Json => "report.json",
            Self::Rows => "rows.ndjson",
            Self::Folded => "folded",
            Self::Svg => "svg",
            Self::Speedscope => "speedscope.json",
            Self::Perfetto => "report.perfetto.json",
            Self::Otlp => "report.otlp.jsonl",
        }
    }

    /// The format that the name of a file asks for: `report.html`.
    pub(in crate::cli) fn of_name(path: &Path) -> Option<Self> {
        let name = path.file_name()?.to_str()?.to_ascii_lowercase();
        let endings = [
            (".speedscope.json", Self::Speedscope),
            (".perfetto.json", Self::Perfetto),
            (".jsonl", Self::Otlp),
            (".html", Self::Html),
            (".md", Self::Md),
            (".markdown", Self::Md),
            (".json", Self::Json),
            (".ndjson", Self::Rows),
            (".folded", Self::Folded),
            (".svg", Self::Svg),
        ];
        endings.into_iter().find(|(ending, _)| name.len() > ending.len() && name.ends_with(ending)).map(|(_, of)| of)
    }

    /// Whether the name of a file that asks for `by_name` is no contradiction: other programs expect these formats in a `.json`, too.
    pub(super) fn may_be_named(self, by_name: Self) -> bool {
        let is_json = matches!(self, Self::Speedscope | Self::Perfetto | Self::Otlp);
        self == by_name || is_json && by_name == Self::Json || self == Self::Otlp && by_name == Self::Rows
    }

    /// Whether a recording has more of it than a report.
    pub(super) fn is_of_recordings(self) -> bool {
        self.is_of_stacks() || matches!(self, Self::Rows | Self::Perfetto | Self::Otlp)
    }

    /// Whether it holds stacks and nothing else.
    pub(in crate::cli) fn is_of_stacks(self) -> bool {
        matches!(self, Self::Folded | Self::Svg | Self::Speedscope)
    }

    /// The report in this format, where it has a short form the `whole` of it; none for those that are made of more.
    pub(super) fn render(self, of: &Exported<'_>, whole: bool) -> Result<Option<Shown<Whole>>, ReportError> {
        let report = of.report;
        Ok(match self {
            Self::Perfetto => Some(report::perfetto(of)?.whole()),
            Self::Otlp => Some(report::otlp(of)?.whole()),
            Self::Md if !whole => Some(report::markdown_brief(report)?.whole()),
            Self::Html => Some(report::html(report)?.whole()),
            Self::Md => Some(report::markdown(report)?.whole()),
            Self::Json => Some(report::json(report)?.whole()),
            Self::Rows | Self::Folded | Self::Svg | Self::Speedscope => None,
        })
    }
}
