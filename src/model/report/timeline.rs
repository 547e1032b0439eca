//! The host over the run, on one axis of time that begins with the first window, and who used the resource that the verdict is about.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::deed::DeedOfMetric;
use crate::status::Status;
use crate::unit::Unit;

/// What the host did from the start of the first window to the end of the last.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Timeline {
    /// Length of the axis in seconds.
    pub seconds: f64,
    /// The measured windows on it: the first, then drill-downs.
    pub windows: Vec<Span>,
    /// What is drawn, one above the other.
    pub lanes: Vec<Lane>,
    /// When the findings held.
    pub bands: Vec<Band>,
}

/// A stretch of the axis, in seconds from the start of the first window.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Span {
    /// Where it begins.
    pub from: f64,
    /// Where it ends.
    pub until: f64,
}

/// Curves with one scale.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Lane {
    /// What it shows.
    pub title: String,
    /// The device or interface; none for the whole host.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub instance: Option<String>,
    /// Base unit.
    pub unit: Unit,
    /// Upper end of the scale, which begins at 0.
    pub top: f64,
    /// Whether the curves are parts of one whole and stand upon one another.
    pub stacked: bool,
    /// The curves; none where the lane could not be measured.
    pub curves: Vec<Curve>,
    /// Why there is no curve.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub missing: Option<String>,
}

/// One curve.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Curve {
    /// What it is, in a word or two.
    pub name: String,
    /// Where it comes from: a metric id, or a field.
    pub source: String,
    /// Mean over all windows that have it.
    pub mean: f64,
    /// Highest interval.
    pub max: f64,
    /// For each window its values, evenly spaced over it; no value where an interval could not be measured, an empty list where the
    /// window did not measure it.
    pub values: Vec<Vec<Option<f64>>>,
}

/// When a finding held.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Band {
    /// Its place in the list of findings.
    pub finding: usize,
    /// Its status.
    pub status: Status,
    /// The stretches.
    pub spans: Vec<Span>,
    /// Whether it held in just these stretches; else this is the window over which it was judged.
    pub exact: bool,
}

/// Who used a resource, so that rows, what no process is charged with, and what was unused are the whole.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Consumers {
    /// Metric id.
    pub metric: String,
    /// What that metric calls what is left.
    #[serde(skip)]
    pub deed: DeedOfMetric,
    /// What it shows: `CPU time`.
    pub title: String,
    /// Base unit.
    pub unit: Unit,
    /// The whole, in `unit`; shares are of it.
    pub whole: f64,
    /// What the whole is: `2 CPUs for 5.0 s`.
    pub whole_is: String,
    /// Processes by name, the largest first.
    pub rows: Vec<Consumer>,
    /// Sum over those not shown, and how many names they have.
    pub others: f64,
    /// How many names are not shown.
    pub others_count: usize,
    /// Used, and charged to no process that was seen; none where that is not known.
    pub unattributed: Option<f64>,
    /// Unused; none where that is not known.
    pub unused: Option<f64>,
}

/// Processes of one name.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Consumer {
    /// The name.
    pub name: String,
    /// How many processes.
    pub count: usize,
    /// The process with most of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pid: Option<u32>,
    /// The command line of that process, if it tells more than the name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub command: Option<String>,
    /// Sum over the processes.
    pub value: f64,
    /// Share of the whole, 0–1.
    pub share: f64,
    /// The sum over the window, evenly spaced.
    pub values: Vec<Option<f64>>,
}
