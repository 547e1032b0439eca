//! The report: the document that every renderer draws and none computes.

mod around;
mod changes;
mod timeline;
mod usual;

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::recording::{Overhead, Tool};
use crate::answer::Answer;
use crate::exercise::Exercise;
use crate::facts::Facts;
use crate::finding::Finding;
use crate::headline::Headline;
use crate::probed::Probed;
use crate::profile::Profile;
use crate::status::Kind;
use crate::status::Resource;
use crate::status::Status;
use crate::status::Unavailable;
use crate::unit::Unit;

pub use around::{Around, ChangeMark, Course, Pressure, TopConsumer, Unrecorded};
pub use changes::{Change, ChangeKind, Changes};
pub use timeline::{Band, Consumer, Consumers, Curve, Lane, Span, Timeline};
pub use usual::{Unlike, Usual};

/// Version of the report format.
pub const FORMAT_VERSION: u32 = 1;

/// The document of one run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Report {
    /// See [`FORMAT_VERSION`].
    pub format_version: u32,
    /// Program that recorded the data.
    pub tool: Tool,
    /// The host.
    pub host: Facts,
    /// The playbook.
    pub playbook: PlaybookInfo,
    /// When and how long.
    pub window: WindowInfo,
    /// The exercise that ran meanwhile, if one did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exercise: Option<Exercise>,
    /// The conclusion.
    pub verdict: Verdict,
    /// What the symptom comes from; only of playbooks that start from one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answer: Option<Answer>,
    /// Where the observed task's time went; only of playbooks of Method R.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub profile: Option<Profile>,
    /// Resources down; utilization, saturation, errors across.
    pub matrix: Vec<MatrixRow>,
    /// One per rule and instance that was evaluated, in order of what to look at first.
    pub findings: Vec<Finding>,
    /// The steps of the playbook, in order.
    pub steps: Vec<StepOutcome>,
    /// What was looked at and is not the bottleneck, by resource.
    pub ruled_out: Vec<RuledOut>,
    /// What was measured and what not.
    pub coverage: Coverage,
    /// What the probes inside the kernel measured, by window.
    #[serde(default)]
    pub probes: Vec<Probed>,
    /// The busiest processes.
    pub top: Vec<TopTable>,
    /// The host over the run; none in reports of older programs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeline: Option<Timeline>,
    /// Who used what, that of the resource that the verdict is about first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub consumers: Vec<Consumers>,
    /// What changed around the time that was judged; only of a time that is over, and as far as it was recorded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub changes: Option<Changes>,
    /// The course of the hour around the time that was judged; only of a time that is over, and as far as it was recorded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub around: Option<Around>,
    /// The same time of earlier days; only of a time that is over, and as far as they were recorded.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub usual: Vec<Usual>,
    /// Curves of what the findings cite.
    pub plots: Vec<Plot>,
    /// What every measured metric tells, how it was read, and how to read it by hand; by metric id.
    pub metrics: BTreeMap<String, MetricNote>,
    /// What rdiag itself cost.
    pub overhead: Overhead,
}

/// Which playbook was run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PlaybookInfo {
    /// Name.
    pub name: String,
    /// Title.
    pub title: String,
    /// Parameters in force.
    pub params: BTreeMap<String, String>,
}

/// The measured time.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct WindowInfo {
    /// RFC 3339, UTC.
    pub started: String,
    /// Seconds in which something was measured; windows may overlap.
    pub seconds: f64,
    /// Number of windows: 1 plus drill-downs.
    pub windows: usize,
    /// Which seconds each window covers, in the order in which findings and probes cite them.
    #[serde(default)]
    pub spans: Vec<Span>,
    /// Nominal distance of two samples.
    pub interval_seconds: f64,
    /// Ended early by a signal.
    pub interrupted: bool,
    /// The control group that was asked about: of control groups, only this one, those above and those below it were judged.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cgroup: Option<String>,
    /// Requests and limits of that group, in words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub allotted: Option<String>,
}

/// The conclusion of the whole run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Verdict {
    /// The worst status, `ok` if nothing fired, `unknown` if what matters was not seen.
    pub status: Status,
    /// One sentence: the bottleneck, none found, or inconclusive.
    #[schemars(with = "String")]
    pub headline: Headline,
    /// What limits the conclusion.
    pub limits: Vec<String>,
}

/// A row of the matrix.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct MatrixRow {
    /// The resource.
    pub resource: Resource,
    /// One cell per kind, in the order utilization, saturation, errors.
    pub cells: Vec<Cell>,
}

/// A cell of the matrix: the worst of its findings.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Cell {
    /// The column.
    pub kind: Kind,
    /// Worst status; none when no rule looks at this cell.
    pub status: Option<Status>,
    /// The figure that stands for the cell.
    pub value: Option<f64>,
    /// Its unit.
    pub unit: Option<Unit>,
    /// What the figure is of, where it is not the resource as a whole.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
    /// The finding it comes from: rule id and instance.
    pub finding: Option<String>,
    /// Why the status is what it is, in a few words, for `unknown` and `skipped`; of another, what this kernel or machine does not have.
    pub note: Option<String>,
    /// How many findings are behind it, and how many of them are `unknown`.
    pub findings: usize,
    /// How many of them could not be measured.
    pub unknown: usize,
    /// How many of them could be judged: ok, or fired.
    pub judged: usize,
}

/// What became of a step.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct StepOutcome {
    /// Step id.
    pub id: String,
    /// What it asks.
    pub question: String,
    /// The lesson, Markdown.
    pub teach: String,
    /// Worst status of its findings.
    pub status: Status,
    /// Window it ran in; none when its condition did not hold.
    pub window: Option<usize>,
    /// Its condition, if it has one.
    pub when: Option<String>,
    /// Rules it evaluated.
    pub rules: Vec<String>,
    /// Probes it asked for.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub probes: Vec<String>,
    /// The answer in a sentence.
    pub answer: String,
}

/// What the checks of a resource found in order.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RuledOut {
    /// The resource.
    pub resource: Resource,
    /// Whether every check of the resource was made and none fired: then it is not the bottleneck.
    pub complete: bool,
    /// What was seen, a sentence per check.
    pub sentences: Vec<String>,
}

/// What a metric is, for the reader of a report who has no rdiag at hand.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct MetricNote {
    /// What it tells.
    pub help: String,
    /// Base unit.
    pub unit: Unit,
    /// What its instances are; none for the whole host.
    pub dimension: Option<String>,
    /// File and field it was read from.
    pub source: String,
    /// Whether its figure for a window is the total change, and not the mean.
    pub sums: bool,
    /// What it does not mean.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub caveat: String,
    /// The command that shows the same by hand.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub manual: String,
}

/// What was measured, and what not.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Coverage {
    /// Metric ids.
    pub measured: Vec<String>,
    /// The gaps.
    pub unavailable: Vec<Gap>,
    /// Does not apply here: id and why.
    pub not_applicable: Vec<Gap>,
    /// Probes that gave nothing: id and why.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub probes: Vec<Gap>,
    /// The gaps again, those with the same cause taken together, the largest group first.
    pub groups: Vec<GapGroup>,
    /// How many checks were made, and how many could not be.
    pub checks: Checks,
    /// Rows of the USE checklist that rdiag measures on no host, or not whole: `unknown` in each report of the USE method.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub rows: Vec<UnmeasuredRow>,
}

/// A row of the USE checklist, or a part of one, that is unknown because rdiag does not measure it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct UnmeasuredRow {
    /// What it is about: `Network interfaces`.
    pub section: String,
    /// Its name in docs/coverage.md: `nic.driver`.
    pub row: String,
    /// Utilization, saturation, errors, or context.
    pub of: Vec<String>,
    /// Whether the rest of the row is measured.
    pub in_part: bool,
    /// Why it is not measured; of a row that is measured in part, what is missing.
    pub why: String,
    /// What to type instead.
    pub remedy: String,
}

/// Gaps with one cause.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct GapGroup {
    /// Class, sentence, remedy.
    #[serde(flatten)]
    pub gap: Unavailable,
    /// What is missing because of it: metric ids, with the number of instances where only some are missing.
    pub metrics: Vec<String>,
    /// Rules that could not be judged because of it.
    pub rules: Vec<String>,
    /// Probes that gave nothing because of it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub probes: Vec<String>,
}

/// Number of checks (a rule for an instance) by outcome.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Checks {
    /// All of them.
    pub all: usize,
    /// Judged: ok, or fired.
    pub judged: usize,
    /// Could not be judged.
    pub unknown: usize,
    /// Did not apply here, or were turned off.
    pub skipped: usize,
}

/// A gap in the coverage.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Gap {
    /// Metric or probe id.
    pub id: String,
    /// Instance, if only one is missing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub instance: Option<String>,
    /// Class, sentence, remedy.
    #[serde(flatten)]
    pub gap: Unavailable,
}

/// A table of the largest consumers of something.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TopTable {
    /// Metric id.
    pub metric: String,
    /// What it shows.
    pub title: String,
    /// Base unit.
    pub unit: Unit,
    /// Largest first.
    pub rows: Vec<TopRow>,
    /// Sum over those not shown.
    pub others: f64,
    /// How many are not shown.
    pub others_count: usize,
}

/// A row of such a table.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TopRow {
    /// Instance.
    pub instance: String,
    /// Its name.
    pub name: String,
    /// Value in the table's unit.
    pub value: f64,
    /// Share of the sum, 0–1.
    pub share: f64,
    /// More names.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
}

/// A curve over the window.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Plot {
    /// Metric id.
    pub metric: String,
    /// Instance.
    pub instance: Option<String>,
    /// Index of the window.
    pub window: usize,
    /// Base unit.
    pub unit: Unit,
    /// What the metric tells.
    pub title: String,
    /// (seconds since the window's start, value); no value where an interval could not be measured.
    pub points: Vec<(f64, Option<f64>)>,
    /// Levels at which the rule that cites it fires, by status.
    pub thresholds: Vec<(Status, f64)>,
}

impl Gap {
    /// A gap of a whole metric.
    #[must_use]
    pub fn new(id: &str, gap: &Unavailable) -> Self {
        Self { id: id.to_owned(), instance: None, gap: gap.clone() }
    }
}
