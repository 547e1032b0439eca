//! What a run says as rows of four tables, for engines that join and aggregate those of many hosts. Columns are only ever added.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::status::Confidence;
use crate::status::Kind;
use crate::status::Resource;
use crate::status::Status;
use crate::unit::Unit;

/// Version of the format; raised when an old query could misunderstand a new row.
pub const FORMAT_VERSION: u32 = 1;

/// A row of one of the tables. Each says its table in `tbl`, and its run and host, so that rows of many hosts fit into one file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "tbl", rename_all = "snake_case")]
pub enum Row {
    /// A host that was recorded, or should have been.
    Runs(Box<RunRow>),
    /// A figure.
    Readings(Box<ReadingRow>),
    /// What a rule said.
    Findings(Box<FindingRow>),
    /// How the host is set up.
    Facts(FactRow),
}

/// Of which run and host a row is.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Key {
    /// See [`FORMAT_VERSION`].
    pub format_version: u32,
    /// The same in all rows of a run, and in no other run.
    pub run: String,
    /// What the host calls itself.
    pub host: String,
    /// The group within which it is compared; "" where no groups were named.
    pub grp: String,
}

/// A run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RunRow {
    /// Of which run.
    #[serde(flatten)]
    pub key: Key,
    /// The file that the recording came in; "" where it is not known.
    pub file: String,
    /// Tells the machine from others.
    pub machine: Option<String>,
    /// Tells the boot from others.
    pub boot: Option<String>,
    /// When the window began, RFC 3339, UTC; "" if nothing was recorded.
    pub started: String,
    /// Seconds that were recorded.
    pub seconds: f64,
    /// Whether the host's clock is synchronized.
    pub clock_synchronized: Option<bool>,
    /// By how many seconds it may be wrong at most.
    pub clock_error_seconds: Option<f64>,
    /// Seconds by which the window began later than was asked for; none if no instant was asked for.
    pub late_seconds: Option<f64>,
    /// Version of rdiag that recorded it.
    pub rdiag: String,
    /// By which playbook it was judged.
    pub playbook: String,
    /// Release of the kernel.
    pub kernel: String,
    /// Distribution.
    pub os: String,
    /// Architecture.
    pub arch: String,
    /// CPUs online.
    pub cpus: u32,
    /// Memory.
    pub memory_bytes: u64,
    /// Whether a hypervisor runs below.
    pub virtual_machine: bool,
    /// The verdict; `unknown` for a host that was not judged.
    pub verdict: Status,
    /// The same as a sentence; for a host that was not judged, why.
    pub headline: String,
    /// Findings that could not be judged.
    pub unknown: usize,
    /// `unreachable`, `unreadable` or `unknown` for a host that was not judged.
    pub not_judged: Option<String>,
}

/// A figure of one metric and instance over one window.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ReadingRow {
    /// Of which run.
    #[serde(flatten)]
    pub key: Key,
    /// Index of the window in the recording.
    pub window_index: usize,
    /// Metric id.
    pub metric: String,
    /// What its instances are; "" for the whole host.
    pub dimension: String,
    /// The instance as this host calls it; processes by name, those of one name added up.
    pub instance: String,
    /// The instance by a name that other hosts use as well: `disk:root`, `net:default`, `cgroup:nginx.service`, `process:nginx`.
    pub role: String,
    /// Instances that were added up.
    pub instances: usize,
    /// Base unit.
    pub unit: Unit,
    /// The figure by which `rdiag fleet` compares hosts: a count's total, otherwise the mean. None if it compares none of this metric.
    pub value: Option<f64>,
    /// Whether it counts errors: then 0 is normal, and distances say nothing.
    pub is_error: bool,
    /// Over the whole window.
    pub mean: Option<f64>,
    /// Smallest interval.
    pub min: Option<f64>,
    /// Largest interval.
    pub max: Option<f64>,
    /// 95th percentile of the intervals.
    pub p95: Option<f64>,
    /// Latest interval or level.
    pub last: Option<f64>,
    /// Change over the window.
    pub total: Option<f64>,
    /// What was read.
    pub source: String,
    /// Whether a better source was not available.
    pub fallback: bool,
    /// Sub-windows thrown away because a counter went backwards.
    pub discarded: u32,
}

/// What one rule said of one instance.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct FindingRow {
    /// Of which run.
    #[serde(flatten)]
    pub key: Key,
    /// Rule id.
    pub rule: String,
    /// What it looks at.
    pub title: String,
    /// Row of the matrix.
    pub resource: Resource,
    /// Column of the matrix.
    pub kind: Kind,
    /// The instance as this host calls it; "" for the whole host.
    pub instance: String,
    /// The instance by a name that other hosts use as well.
    pub role: String,
    /// The verdict; `unknown` is a row too, and never to be read as fine.
    pub status: Status,
    /// Whether its events were all before the window.
    pub is_past: bool,
    /// The judged value.
    pub value: Option<f64>,
    /// Base unit of `value`.
    pub unit: Unit,
    /// How far to trust it.
    pub confidence: Confidence,
    /// The sentence for people.
    pub summary: String,
    /// What the culprit is: `process`, `cgroup`, `device` …
    pub culprit_kind: Option<String>,
    /// Who is behind it.
    pub culprit: Option<String>,
    /// Its share of the whole, 0–1.
    pub share: Option<f64>,
    /// Intervals in a row for which the condition held.
    pub held: Option<usize>,
    /// Intervals of the window.
    pub held_of: Option<usize>,
    /// Why it could not be judged.
    pub reason: Option<String>,
}

/// A fact.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FactRow {
    /// Of which run.
    #[serde(flatten)]
    pub key: Key,
    /// What: `sysctl vm.swappiness`.
    pub fact: String,
    /// Its value here: a text, and so of another name than the numbers of readings, since rows of all tables stand in one file.
    pub text: String,
}
