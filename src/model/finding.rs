//! Findings: one per rule and instance, with everything that led to it.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::deed::DeedOfMetric;
use crate::status::Confidence;
use crate::status::Kind;
use crate::status::Resource;
use crate::status::Status;
use crate::status::Unavailable;
use crate::unit::Unit;

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
}

impl Threshold {
    /// Since when the condition for `info` counts, where it asks for more than the window. That is no field: documents hold the condition,
    /// and the metrics that it names say it.
    #[must_use]
    pub fn past(&self) -> Option<Past> {
        Past::of(self.conditions.get(Status::Info.word())?)
    }
}

/// Since when something counts that counts what happened before the window, too.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Past {
    /// Since a part of the host was made: a control group, a file system.
    SinceMade,
    /// Since the kernel started.
    SinceBoot,
}

impl Past {
    /// How a part of such a metric's id ends.
    const ENDS: [(&str, Self); 3] =
        [("since_boot", Self::SinceBoot), ("so_far", Self::SinceMade), ("recorded_errors", Self::SinceMade)];

    /// What a metric's id says, or those in a condition; none where all count the window alone.
    #[must_use]
    pub fn of(ids: &str) -> Option<Self> {
        let of_part = |part: &str| Self::ENDS.iter().find(|(end, _)| part.ends_with(end)).map(|(_, past)| *past);
        ids.split(|c: char| !c.is_alphanumeric() && c != '_').filter_map(of_part).max()
    }
}

/// Whether a metric counts what happened before the window, too.
#[must_use]
pub fn counts_the_past(metric: &str) -> bool {
    Past::of(metric).is_some()
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
    /// What it did, as that metric tells.
    #[serde(skip)]
    pub deed: DeedOfMetric,
    /// More names: command line, control group, owner.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
}

/// Below so many seconds, ticks and short bursts are much of what a window shows.
pub const SHORT_WINDOW_SECONDS: f64 = 4.5;

/// A reason for less confidence: a sentence, which is all that documents hold of it. Its kind follows from the sentence, so that a doubt
/// that is written and read again is the same.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(from = "String", into = "String")]
pub struct Doubt {
    why: String,
    kind: DoubtKind,
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

/// How the sentences of these kinds begin.
const SHORT_WINDOW: &str = "the window was only";
const UNREAD_RECORDS: &str = "records of the kernel log that were overwritten before they could be read:";

impl Doubt {
    /// Less is concluded from a window of so many seconds.
    #[must_use]
    pub fn short_window(seconds: f64) -> Self {
        Self { why: format!("{SHORT_WINDOW} {seconds:.1} s long"), kind: DoubtKind::ShortWindow }
    }

    /// So many records of the kernel log were lost.
    #[must_use]
    pub fn unread_records(lost: f64) -> Self {
        Self { why: format!("{UNREAD_RECORDS} {lost}"), kind: DoubtKind::UnreadRecords }
    }

    /// What speaks against trusting a figure.
    #[must_use]
    pub fn why(&self) -> &str {
        &self.why
    }

    /// What kind of reason that is.
    #[must_use]
    pub fn kind(&self) -> DoubtKind {
        self.kind
    }
}

impl From<String> for Doubt {
    /// Of a sentence out of a document nothing is known but how it begins.
    fn from(why: String) -> Self {
        let kinds = [(SHORT_WINDOW, DoubtKind::ShortWindow), (UNREAD_RECORDS, DoubtKind::UnreadRecords)];
        let kind = kinds.into_iter().find(|(begins, _)| why.starts_with(begins)).map(|(_, kind)| kind);
        Self { why, kind: kind.unwrap_or(DoubtKind::Other) }
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
        self.status == Status::Info && self.value == Some(0.0) && self.threshold.past().is_some()
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_doubt_that_is_written_and_read_is_the_same() {
        let other = |why: &str| Doubt::from(why.to_owned());
        for (doubt, kind) in [
            (Doubt::short_window(2.0), DoubtKind::ShortWindow),
            (Doubt::unread_records(3.0), DoubtKind::UnreadRecords),
            (other("not all could be seen: the window was only half open"), DoubtKind::Other),
            // What a recording says word for word.
            (other("the window was only 1.0 s long"), DoubtKind::ShortWindow),
        ] {
            assert_eq!(doubt.kind(), kind, "{doubt:?}");
            let written = serde_json::to_string(&doubt).unwrap();
            assert_eq!(written, format!("\"{}\"", doubt.why()));
            assert_eq!(serde_json::from_str::<Doubt>(&written).unwrap(), doubt);
        }
    }

    #[test]
    fn what_counts_the_past_is_in_the_names_of_metrics() {
        for (condition, past) in [
            ("kernel.log.disk.since_boot.count.last > 0", Some(Past::SinceBoot)),
            ("value >= 1 or memory.oom_kills_since_boot.count.last > 0", Some(Past::SinceBoot)),
            ("sum(cgroup.memory.oom_kill_so_far) > 0", Some(Past::SinceMade)),
            ("filesystem.recorded_errors.count.last > 0", Some(Past::SinceMade)),
            ("hardware.since_bootstrap.count.last > 0", None),
        ] {
            let threshold =
                Threshold { conditions: [("info".to_owned(), condition.to_owned())].into(), ..Threshold::default() };
            assert_eq!(threshold.past(), past, "{condition}");
        }
        assert_eq!(Threshold::default().past(), None);
    }
}
