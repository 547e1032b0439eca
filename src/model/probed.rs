//! What a probe measured, prepared for a report: bounded, with the figures that people read worked out.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::call_trace::CallTrace;
use super::heat::HeatMap;
use super::hot::Hot;
use super::probe::{Attachment, ProbeCost, ProbeTable, Stacks};
use super::schedule::Strips;
use crate::unit::Unit;

/// One probe in one window.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Probed {
    /// Probe id (`runqlat`).
    pub probe: String,
    /// The question it answers.
    pub question: String,
    /// What its figures do not mean.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub caveats: String,
    /// Index of the window.
    pub window: usize,
    /// The steps of that window that asked for it.
    pub steps: Vec<String>,
    /// Parameters and filters in force.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub params: BTreeMap<String, String>,
    /// Seconds from attaching to reading (CLOCK_MONOTONIC).
    pub seconds: f64,
    /// What was measured, in the order in which it is shown.
    pub outputs: Vec<ProbedOutput>,
    /// Where it was attached, and which better ways were refused.
    pub attached: Vec<Attachment>,
    /// Events that happened and are not in the outputs, by reason.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub lost: BTreeMap<String, u64>,
    /// What the reader must know about this result.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
    /// What its programs cost the host.
    pub cost: ProbeCost,
    /// CPU time of its programs as a share of one CPU; none where the kernel did not count it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost_ratio: Option<f64>,
    /// The metrics that were derived from it, each with the id of the output that it was read from.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub metrics: BTreeMap<String, String>,
}

/// One thing that a probe measured.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ProbedOutput {
    /// A distribution, for the whole or by some key.
    Histogram(Distributions),
    /// The first rows of sums by key, largest first.
    Table(ProbeTable),
    /// The first of single events in order of time.
    Events(ProbeTable),
    /// All single events that took a known time, by when they happened and by how long they took.
    Heat(HeatMap),
    /// Sums by stack.
    Stacks(StackSums),
    /// The first of calls as they happened.
    Calls(CallTrace),
    /// Who ran when, on which CPU, summed up in pieces of time.
    Schedule(Strips),
}

/// Distributions of one kind.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Distributions {
    /// Name within the probe.
    pub id: String,
    /// What is distributed.
    pub title: String,
    /// Base unit.
    pub unit: Unit,
    /// What one row is (`device`, `operation`); none for a single row.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dimension: Option<String>,
    /// Largest count first.
    pub rows: Vec<Distribution>,
    /// Rows that were left out.
    #[serde(default)]
    pub others: usize,
}

/// The distribution for one key.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Distribution {
    /// The key; "" for the whole.
    pub instance: String,
    /// Number of values.
    pub count: u64,
    /// Their sum, exact.
    pub sum: f64,
    /// Their mean; none without values.
    pub mean: Option<f64>,
    /// Half of the values lie below; like all percentiles up to 12.5 % too high and never too low.
    pub p50: Option<f64>,
    /// 95 % lie below.
    pub p95: Option<f64>,
    /// 99 % lie below.
    pub p99: Option<f64>,
    /// The largest, exact; none without values.
    pub max: Option<f64>,
    /// The values by powers of two, ascending, without gaps.
    pub bars: Vec<Bar>,
}

/// The values between two bounds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Bar {
    /// Lower bound, inclusive.
    pub from: f64,
    /// Upper bound, exclusive; 0 for the bar of zeros.
    pub below: f64,
    /// How many.
    pub count: u64,
    /// Length of its bar, 0–1: its count per that of the fullest.
    pub length: f64,
}

/// Sums by stack, with how far the stacks can be trusted.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct StackSums {
    /// The largest stacks.
    #[serde(flatten)]
    pub stacks: Stacks,
    /// Sum over all stacks, those left out included.
    pub whole: f64,
    /// Where it comes from.
    #[serde(default)]
    pub hot: Box<Hot>,
    /// Share of it in stacks with a frame that has no name, 0–1.
    pub unresolved_ratio: f64,
    /// Share of it in stacks that seem cut short.
    pub truncated_ratio: f64,
    /// Share of what was to be counted whose stack could not be taken.
    pub missing_ratio: f64,
}
