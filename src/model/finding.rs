//! Findings: one per rule and instance, with everything that led to it.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Confidence, DeedOfMetric, Kind, Resource, Status, Unavailable, Unit};

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
    pub confidence_reasons: Vec<String>,
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
}

/// The conditions of a rule as numbers, as far as they are comparisons of `value`.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Levels {
    /// The number that `value` is compared with, of conditions that are no more than that.
    pub by_status: BTreeMap<Status, f64>,
    /// Whether a condition asks for a low value.
    pub low_is_bad: bool,
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
    /// What it did, as that metric tells.
    #[serde(skip)]
    pub deed: DeedOfMetric,
    /// More names: command line, control group, owner.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
}

/// Below so many seconds, ticks and short bursts are much of what a window shows.
pub const SHORT_WINDOW_SECONDS: f64 = 4.5;

/// How the reason begins for which a kernel log without a line rules nothing out.
pub const UNREAD_RECORDS: &str = "records of the kernel log that were overwritten before they could be read:";

/// How metrics are called that count what happened before the window, too.
const OF_THE_PAST: [&str; 3] = ["since_boot", "so_far", "recorded_errors"];

/// Whether a metric, or one that a condition asks for, counts what happened before the window, too.
#[must_use]
pub fn counts_the_past(metric: &str) -> bool {
    OF_THE_PAST.iter().any(|name| metric.contains(name))
}

/// How the reason begins for which less is concluded from a short window.
const SHORT_WINDOW: &str = "the window was only";

/// The reason for which less is concluded from a short window.
#[must_use]
pub fn short_window(seconds: f64) -> String {
    format!("{SHORT_WINDOW} {seconds:.1} s long")
}

/// Whether that is what a reason says.
#[must_use]
pub fn is_short_window(reason: &str) -> bool {
    reason.starts_with(SHORT_WINDOW)
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
        self.status == Status::Info
            && self.value == Some(0.0)
            && self.threshold.conditions.get(Status::Info.word()).is_some_and(|condition| counts_the_past(condition))
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
