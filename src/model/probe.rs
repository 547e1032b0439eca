//! What a probe inside the kernel gives; how it was attached; what it cost.
//!
//! What it measured is one of six shapes: a histogram, a table, single events, stacks, calls, a schedule. These are recorded, so a
//! recording with probes replays like any other; metrics are picked out of them (`Formula::probe`), so rules judge them like any other; and
//! renderers know the six shapes and no probe by name.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::call_trace::CallTrace;
use super::schedule::Schedule;
pub use super::stacks::{Activity, Frame, Stack, Stacks};
use crate::status::Unavailable;
use crate::unit::Unit;

/// How the note begins that names the layers of confinement which the process that read symbols lacked. It is about the host, and no doubt
/// about figures; a report shows it once.
pub const LESS_CONFINED: &str = "the process that read symbols is less confined than it can be; missing here: ";

/// The result of one probe over one window.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ProbeResult {
    /// Probe id (`runqlat`).
    pub probe: String,
    /// Parameters and filters in force.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub params: BTreeMap<String, String>,
    /// Seconds from attaching to reading (CLOCK_MONOTONIC).
    pub seconds: f64,
    /// What was measured, in the order in which it is shown.
    pub outputs: Vec<Output>,
    /// What could not be measured, by the key of the row that it would have been, and why.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub gaps: BTreeMap<String, Unavailable>,
    /// Where it was attached.
    pub attached: Vec<Attachment>,
    /// Events that happened and are not in the outputs, by reason.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub lost: BTreeMap<String, u64>,
    /// What the reader must know about this result: sampling, truncation, early ends.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
    /// What its programs cost the host.
    pub cost: ProbeCost,
}

/// One program and the point it was attached to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Attachment {
    /// The event (`sched_switch`).
    pub event: String,
    /// Which way was taken: `BTF tracepoint`, `raw tracepoint`, `fentry`, `kprobe`, `perf event`, `uprobe`.
    pub back_end: String,
    /// Better ways, and why each was refused.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub refused: Vec<String>,
}

/// What it is that a probe costs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum CostOf {
    /// Runs of its programs, whose time the kernel counts.
    #[default]
    Programs,
    /// Events of the kernel's own tracing, at what one took when it was tried at the start, and rdiag's own time to read them.
    Events,
}

impl CostOf {
    /// Whether it is what stands for nothing said.
    #[must_use]
    pub fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

/// Run time of the programs as the kernel itself counted it, or of the kernel's tracing, over a part of the window.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ProbeCost {
    /// Of what.
    #[serde(default, skip_serializing_if = "CostOf::is_default")]
    pub of: CostOf,
    /// Seconds over which was counted; 0 when the kernel has no statistics.
    pub sampled_seconds: f64,
    /// Program runs in that time, or events.
    pub runs: u64,
    /// CPU seconds of these runs, the statistics' own clock reads included; or of these events.
    pub cpu_seconds: f64,
    /// Seconds it took to load and attach.
    pub attach_seconds: f64,
}

/// One thing that a probe measured.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Output {
    /// A distribution, for the whole or by some key.
    Histogram(Histogram),
    /// Sums by key, largest first.
    Table(ProbeTable),
    /// Single events in order of time.
    Events(ProbeTable),
    /// Sums by stack.
    Stacks(Stacks),
    /// Calls as they happened.
    Calls(CallTrace),
    /// Who ran when, on which CPU.
    Schedule(Schedule),
}

/// A distribution.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Histogram {
    /// Name within the probe.
    pub id: String,
    /// What is distributed.
    pub title: String,
    /// Base unit of sums and bounds.
    pub unit: Unit,
    /// What one row is (`device`, `operation`); none for a single row.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dimension: Option<String>,
    /// Largest count first.
    pub rows: Vec<HistogramRow>,
}

/// A distribution for one key.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct HistogramRow {
    /// The key; "" for the whole.
    pub instance: String,
    /// Number of values.
    pub count: u64,
    /// Their sum, exact.
    pub sum: f64,
    /// The largest, exact; where buckets are `coarse`, the most that it can be.
    pub max: f64,
    /// Buckets that are not empty: upper bound (exclusive) and count, in ascending order. Eight buckets per power of two.
    pub buckets: Vec<(f64, u64)>,
    /// Whether there is only one bucket per power of two, in which the power itself is the largest whole number, as the kernel's
    /// own tables have it: percentiles may be twice too high then.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub coarse: bool,
}

impl HistogramRow {
    /// Mean value; none without values.
    #[must_use]
    pub fn mean(&self) -> Option<f64> {
        (self.count > 0).then(|| self.sum / self.count as f64)
    }

    /// The value below which this share (0–1) of the values lies: the upper bound of its bucket, at most the maximum,
    /// so it may be up to 12.5 % too high, where buckets are coarse up to 100 %, and is never too low.
    #[must_use]
    pub fn percentile(&self, share: f64) -> Option<f64> {
        Some(self.bound(share)?.min(self.max))
    }

    /// Upper bound, exclusive, of the bucket that this share of the values reaches into.
    fn bound(&self, share: f64) -> Option<f64> {
        let counted = self.buckets.iter().fold(0_u64, |sum, (_, count)| sum.saturating_add(*count));
        let rank = (share.clamp(0.0, 1.0) * counted as f64).ceil().max(1.0);
        let mut below = 0_u64;
        for (upper, count) in &self.buckets {
            below = below.saturating_add(*count);
            if below as f64 >= rank {
                return Some(*upper);
            }
        }
        None
    }
}

impl Histogram {
    /// As [`HistogramRow::percentile`], for a row of this histogram. Counts are whole numbers: the largest in a bucket is
    /// one less than its bound, and so exact below 16. Times are whole nanoseconds: the first bucket holds nothing but 0.
    #[must_use]
    pub fn percentile(&self, row: &HistogramRow, share: f64) -> Option<f64> {
        let bound = row.bound(share)?;
        let whole = match self.unit {
            Unit::Count => 1.0,
            Unit::Seconds if bound < 1.5e-9 => bound,
            _ => 0.0,
        };
        Some((bound - whole).min(row.max))
    }
}

/// Rows under typed columns.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ProbeTable {
    /// Name within the probe.
    pub id: String,
    /// What it shows.
    pub title: String,
    /// What a row's `instance` is (`process`, `device`, `call`); none for events.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dimension: Option<String>,
    /// The columns.
    pub columns: Vec<Column>,
    /// The rows.
    pub rows: Vec<Row>,
    /// Rows that were left out.
    #[serde(default)]
    pub others: u64,
    /// Sums over the rows that were left out, by column id.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub others_sum: BTreeMap<String, f64>,
}

/// A column.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Column {
    /// Name within the table; text columns called `name`, `pid`, `command` name the culprit.
    pub id: String,
    /// Its heading.
    pub title: String,
    /// Base unit of numbers; none for text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unit: Option<Unit>,
}

/// One row.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Row {
    /// The row's key, unique in a table that is not of events.
    pub instance: String,
    /// One cell per column.
    pub cells: Vec<Cell>,
}

/// A cell.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum Cell {
    /// In the column's base unit.
    Number(f64),
    /// Text; the renderer escapes it.
    Text(String),
    /// The functions of a stack, innermost first, as text.
    Stack(Vec<String>),
    /// Not known.
    Unknown(()),
}

impl Cell {
    /// The number, if it is one.
    #[must_use]
    pub fn number(&self) -> Option<f64> {
        match self {
            Self::Number(value) => Some(*value),
            _ => None,
        }
    }

    /// The functions of a stack, if it is one.
    #[must_use]
    pub fn stack(&self) -> Option<&[String]> {
        match self {
            Self::Stack(functions) => Some(functions),
            _ => None,
        }
    }

    /// The text, if it is one.
    #[must_use]
    pub fn text(&self) -> Option<&str> {
        match self {
            Self::Text(text) => Some(text),
            _ => None,
        }
    }
}

impl Column {
    /// A column of text.
    #[must_use]
    pub fn text(id: &str, title: &str) -> Self {
        Self { id: id.into(), title: title.into(), unit: None }
    }

    /// A column of numbers.
    #[must_use]
    pub fn number(id: &str, title: &str, unit: Unit) -> Self {
        Self { id: id.into(), title: title.into(), unit: Some(unit) }
    }
}

impl From<f64> for Cell {
    fn from(value: f64) -> Self {
        Self::Number(value)
    }
}

impl From<&str> for Cell {
    fn from(value: &str) -> Self {
        Self::Text(value.to_owned())
    }
}

impl From<String> for Cell {
    fn from(value: String) -> Self {
        Self::Text(value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_percentile_is_the_upper_bound_of_its_bucket_and_never_above_the_maximum() {
        let row = HistogramRow {
            count: 100,
            sum: 130.0,
            max: 3.5,
            buckets: vec![(1.0, 50), (2.0, 49), (4.0, 1)],
            ..HistogramRow::default()
        };
        assert_eq!(row.percentile(0.5), Some(1.0));
        assert_eq!(row.percentile(0.99), Some(2.0));
        assert_eq!(row.percentile(1.0), Some(3.5));
        assert_eq!(row.mean(), Some(1.3));
        assert_eq!(HistogramRow::default().percentile(0.5), None);
    }

    #[test]
    fn a_percentile_of_whole_numbers_is_one_of_them() {
        let idle = HistogramRow { count: 4, max: 3.0, buckets: vec![(1.0, 3), (4.0, 1)], ..HistogramRow::default() };
        let counts = Histogram { unit: Unit::Count, ..Histogram::default() };
        assert_eq!((counts.percentile(&idle, 0.5), counts.percentile(&idle, 1.0)), (Some(0.0), Some(3.0)));
        let seconds = Histogram { unit: Unit::Seconds, ..Histogram::default() };
        assert_eq!(seconds.percentile(&idle, 0.5), idle.percentile(0.5));
    }

    #[test]
    fn folded_text_has_one_line_per_stack_whatever_the_names_contain() {
        let frame = |name: &str, kernel| Frame { name: name.into(), kernel, ..Frame::default() };
        let stacks = Stacks {
            frames: vec![frame("main", false), frame("a;b\nc", false), frame("schedule", true)],
            stacks: vec![Stack { owner: "x;y".into(), frames: vec![0, 1, 2, 9], value: 0.25, ..Stack::default() }],
            ..Stacks::default()
        };
        assert_eq!(stacks.folded(1000.0), "x:y;main;a:b:c;schedule_[k] 250\n");
    }
}
