//! Findings: one per rule and instance, with everything that led to it.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Confidence, Kind, Resource, Status, Unavailable, Unit};

/// The outcome of one rule for one instance.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Finding {
    /// Rule id.
    pub id: String,
    /// What it looks at, in a few words.
    pub title: String,
    /// Row of the matrix.
    pub resource: Resource,
    /// Column of the matrix.
    pub kind: Kind,
    /// Device, mount, cgroup …; none for the whole host.
    pub instance: Option<String>,
    /// The verdict.
    pub status: Status,
    /// How far to trust it.
    pub confidence: Confidence,
    /// What lowers the confidence.
    #[schemars(with = "Vec<String>")]
    pub confidence_reasons: Vec<Doubt>,
    /// The sentence for people.
    pub summary: String,
    /// The judged value over the window, in `unit`.
    pub value: Option<f64>,
    /// Base unit of `value`.
    pub unit: Unit,
    /// The conditions in force, by status word.
    pub threshold: Threshold,
    /// Length of the window in seconds.
    pub window_seconds: f64,
    /// Intervals in a row for which the fired condition held, and how many the window had.
    pub held_intervals: Option<(usize, usize)>,
    /// Readings that the rule looked at.
    pub evidence: Vec<Evidence>,
    /// Who is behind it.
    pub culprit: Option<Culprit>,
    /// Kernel log lines behind it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub log: Vec<String>,
    /// Why it could not be judged, for `unknown` and `skipped`.
    pub unavailable: Option<Unavailable>,
    /// How many seconds before the run the newest of its events was, where they were all before it, but recently enough to be judged like
    /// those of the window; none elsewhere.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seconds_before: Option<f64>,
    /// What refuted it, when a fired condition was overruled.
    pub refuted_by: Option<String>,
    /// Why this threshold.
    pub why: String,
    /// The commands that show the same by hand.
    pub verify: String,
    /// What to do next.
    pub next: Vec<NextStep>,
    /// Exercise that brings the same onto a host: `rdiag lab start ID`; none where there is no such exercise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lab: Option<String>,
}

/// The conditions of a rule as they were in force, and where they come from.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Threshold {
    /// By status word (`info`, `warning`, `critical`): the expression over `value`.
    pub conditions: BTreeMap<String, String>,
    /// Intervals in a row that are needed.
    #[serde(rename = "for", default, skip_serializing_if = "Option::is_none")]
    pub hold: Option<usize>,
    /// `default`, or the file that overrides it.
    pub origin: String,
    /// Whether the condition for `info` asks for what happened before the window. Documents hold the condition and not this: it is found
    /// out again where one is read.
    #[serde(skip)]
    pub past: Past,
}

/// Whether something counts what happened before the window, too.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Past {
    /// Only what happened in the window.
    #[default]
    Apart,
    /// Since something of the host was made, a control group or a file system.
    Counted,
    /// Since the kernel started.
    SinceBoot,
}

impl Past {
    /// How a part of such a metric's id ends.
    const ENDS: [(&str, Self); 3] =
        [("since_boot", Self::SinceBoot), ("so_far", Self::Counted), ("recorded_errors", Self::Counted)];

    /// What a metric counts, which its id says; a statistic may follow.
    #[must_use]
    pub fn of_metric(id: &str) -> Self {
        let of_part = |part: &str| Self::ENDS.iter().find(|(end, _)| part.ends_with(end)).map(|(_, past)| *past);
        id.split('.').filter_map(of_part).max().unwrap_or_default()
    }
}

/// The conditions of a rule as data, as far as they are comparisons with numbers.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Levels {
    /// The number that `value` is compared with, of conditions that are no more than that.
    pub by_status: BTreeMap<Status, f64>,
    /// Whether a condition asks for a low value.
    pub low_is_bad: bool,
    /// The ways in which one of its conditions holds: all that is asked of one of these.
    pub alternatives: Vec<Vec<Asked>>,
}

/// One of the things that a condition asks for.
#[derive(Debug, Clone, PartialEq)]
pub enum Asked {
    /// `value > 0.2`: the judged figure on one side of a number; of numbers by the kind of device, the smallest.
    Value(Sign, f64),
    /// `value > 0.001 * network.interface.receive.per_second.mean`: the judged figure beyond a share of something else.
    Share,
    /// `cpu.busy.ratio.mean > 0.5`: that many of other figures, added up.
    Others(Vec<Figure>, Sign, f64),
    /// Anything else.
    Else,
}

/// The side of a number on which a figure is to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sign {
    /// `<`
    Below,
    /// `<=`
    AtMost,
    /// `==`
    Equal,
    /// `>=`
    AtLeast,
    /// `>`
    Above,
}

/// A figure of a metric.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Figure {
    /// The metric's id.
    pub metric: String,
    /// Its total over the window, or else its mean.
    pub is_total: bool,
}

/// A pointer to a reading, with what it said.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Evidence {
    /// Metric id; resolves in `explain` and in the recording.
    pub metric: String,
    /// Instance, if the metric has instances.
    pub instance: Option<String>,
    /// Index of the window in the recording.
    pub window: usize,
    /// Mean over the window.
    pub mean: Option<f64>,
    /// Largest interval.
    pub max: Option<f64>,
    /// Total change.
    pub total: Option<f64>,
    /// Base unit.
    pub unit: Unit,
    /// File and field it was read from.
    pub source: String,
}

/// Who is behind a finding, with the share.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Culprit {
    /// What it is: `process`, `cgroup`, `device`, `interface`, `mount`, `socket`, `log` …
    pub kind: String,
    /// Its name.
    pub name: String,
    /// Process ids, at most five, the largest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub pids: Vec<u32>,
    /// How many processes or things share this name.
    pub count: usize,
    /// Its share of the whole, 0–1.
    pub share: Option<f64>,
    /// Its value, in `unit`.
    pub value: Option<f64>,
    /// Unit of `value`.
    pub unit: Option<Unit>,
    /// Metric by which it was found.
    pub metric: Option<String>,
    /// More names: command line, control group, owner.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
}

/// Below so many seconds, ticks and short bursts are much of what a window shows.
pub const SHORT_WINDOW_SECONDS: f64 = 4.5;

/// A reason for less confidence: a sentence, which is all that documents hold of it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(from = "String", into = "String")]
pub struct Doubt {
    /// What speaks against trusting a figure.
    pub why: String,
    /// What kind of reason that is.
    pub kind: DoubtKind,
}

/// Kinds of reasons that a report treats in ways of their own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum DoubtKind {
    /// None of these.
    Other,
    /// Ticks and short bursts are much of what a short window shows.
    ShortWindow,
    /// Records of the kernel log were overwritten before they could be read: that it has no line rules nothing out.
    UnreadRecords,
}

impl From<String> for Doubt {
    fn from(why: String) -> Self {
        Self { why, kind: DoubtKind::Other }
    }
}

impl From<Doubt> for String {
    fn from(doubt: Doubt) -> Self {
        doubt.why
    }
}

impl Finding {
    /// Whether its events were all before the window, however recent: they explain nothing of what was measured.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.seconds_before.is_some() || self.is_past()
    }

    /// Whether its events were all long before the window: history.
    #[must_use]
    pub fn is_past(&self) -> bool {
        self.status == Status::Info && self.value == Some(0.0) && self.threshold.past > Past::Apart
    }
}

impl Culprit {
    /// The label that says of whose whole the share is, where it is not that of the host.
    pub const SHARE_OF: &str = "share_of";
}

/// Something to do next.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
// A comma in `{do: …, changes_host: true}` ends the sentence and begins a key; that must not pass unseen.
#[serde(deny_unknown_fields)]
pub struct NextStep {
    /// The step, in a sentence or a command.
    #[serde(rename = "do")]
    pub action: String,
    /// Whether it changes the host; steps that only read come first.
    #[serde(default)]
    pub changes_host: bool,
}
