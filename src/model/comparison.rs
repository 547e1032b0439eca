//! Two measurements side by side: what appeared, what went, what moved.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::ledger::Level;
use crate::status::Status;
use crate::unit::Unit;

/// Version of the format of comparisons.
pub const FORMAT_VERSION: u32 = 1;

/// The comparison of two reports, recordings or profiles. Shares are 0–1.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Comparison {
    /// See [`FORMAT_VERSION`].
    pub format_version: u32,
    /// The first.
    pub before: Side,
    /// The second.
    pub after: Side,
    /// What makes them hard to compare: another host, kernel, playbook or length.
    pub notes: Vec<String>,
    /// Where the time of the task went, before and after; none unless both have a profile of Method R.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task: Option<TaskChange>,
    /// Findings that differ, the worst first.
    pub findings: Vec<FindingChange>,
    /// Findings that fired in both, with the same status.
    pub findings_same: usize,
    /// Findings whose status changed while the figure behind it moved by no more than it varies within a measurement: by rule and
    /// instance.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub findings_in_noise: Vec<String>,
    /// Metrics that moved by more than their noise, the clearest first.
    pub metrics: Vec<MetricChange>,
    /// Metrics that moved and were left out for their number.
    pub metrics_others: usize,
    /// Metrics that both have.
    pub metrics_compared: usize,
    /// Stacks that both have, by probe.
    pub stacks: Vec<StacksChange>,
}

/// One of the two.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Side {
    /// The file.
    pub file: String,
    /// Host and its kernel, where known.
    pub host: String,
    /// When it was made, RFC 3339; "" where unknown.
    pub started: String,
    /// Playbook; "" for a profile.
    pub playbook: String,
    /// Seconds that it covers; 0 where unknown.
    pub seconds: f64,
}

/// Two profiles of a task's time. Pairs are before and after.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TaskChange {
    /// Who was observed.
    pub subjects: [String; 2],
    /// How it was measured.
    pub levels: [Level; 2],
    /// What the seconds are parts of.
    pub basis: TaskBasis,
    /// Seconds of the whole.
    pub whole_seconds: [f64; 2],
    /// What follows, in a sentence.
    pub headline: String,
    /// What the sentence rests on, and what weakens it.
    pub notes: Vec<String>,
    /// All components of either, and what was accounted for in none (`unaccounted`), the largest change first.
    pub components: Vec<PartChange>,
    /// Calls whose time changed, the largest change first; empty where a side has no calls.
    pub calls: Vec<PartChange>,
    /// Calls that changed and were left out.
    pub calls_others: usize,
}

/// What is compared of two profiles.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum TaskBasis {
    /// Several runs each, measured one by one: their means are compared, in seconds.
    Runs,
    /// One execution each, the time of the one thread that spans it: seconds are compared, and their sum is the
    /// response time.
    Response,
    /// One execution each, the time of all threads: seconds are compared, and their sum is more than the response time.
    Threads,
    /// Windows: how long they are was chosen, so shares are compared.
    Windows,
}

/// A component or call, before and after.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PartChange {
    /// Component id, or name of the call.
    pub id: String,
    /// In words; "" for calls.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub title: String,
    /// Its time.
    pub seconds: [f64; 2],
    /// Of the whole.
    pub share: [f64; 2],
    /// Of what the whole grew or shrank by: 1 if all of it is here, negative if this went the other way. None where windows
    /// are compared, or the whole did not change.
    pub of_change: Option<f64>,
    /// How many; none where not counted, or where they are not those of the one thread that is compared.
    pub count: [Option<u64>; 2],
    /// Mean duration of these.
    pub mean: [Option<f64>; 2],
    /// Larger than what two measurements may differ by: for estimates twice their standard error.
    pub is_clear: bool,
}

/// What became of a finding.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Change {
    /// It fires, and did not.
    Appeared,
    /// It fires more.
    Worse,
    /// It fires less.
    Better,
    /// It fired, and was judged to be in order.
    Gone,
    /// It fired, and could not be judged any more: that is no good news.
    NotSeen,
}

/// A finding that differs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct FindingChange {
    /// Rule id.
    pub id: String,
    /// Device, mount, cgroup …; none for the whole host.
    pub instance: Option<String>,
    /// What it looks at.
    pub title: String,
    /// What became of it.
    pub change: Change,
    /// Status in the first; none where it was not evaluated.
    pub before: Option<Status>,
    /// Status in the second.
    pub after: Option<Status>,
    /// The judged values, in `unit`.
    pub value_before: Option<f64>,
    /// The judged value in the second.
    pub value_after: Option<f64>,
    /// Base unit.
    pub unit: Unit,
    /// The sentence of the side on which it fires.
    pub summary: String,
}

/// A metric that moved.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct MetricChange {
    /// Metric id.
    pub id: String,
    /// Instance; "" for the whole host.
    pub instance: String,
    /// Index of the window.
    pub window: usize,
    /// Base unit.
    pub unit: Unit,
    /// Mean over the window of the first.
    pub before: f64,
    /// Mean over the window of the second.
    pub after: f64,
    /// The change in standard errors of its intervals; none where the intervals are not known, as in a report.
    pub errors: Option<f64>,
}

/// Stacks of both sides.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct StacksChange {
    /// Probe.
    pub probe: String,
    /// What is summed.
    pub title: String,
    /// Base unit of the sums.
    pub unit: Unit,
    /// Sum over the first.
    pub whole_before: f64,
    /// Sum over the second.
    pub whole_after: f64,
    /// Functions by how much their own share moved, the largest change first.
    pub functions: Vec<FunctionChange>,
    /// Functions that moved and were left out.
    pub others: usize,
}

/// A function whose share moved: of the first's whole, and of the second's.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct FunctionChange {
    /// Its name.
    pub name: String,
    /// Binary, library or `[kernel]`.
    pub object: Option<String>,
    /// Whether it runs in the kernel.
    pub kernel: bool,
    /// Share of stacks that end in it, before and after.
    #[serde(rename = "self")]
    pub own: [f64; 2],
    /// Share of stacks that it is in, before and after.
    pub total: [f64; 2],
}
