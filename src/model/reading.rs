//! Metrics of a window: each either measured or unavailable with the reason.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::finding::Doubt;
use crate::status::Unavailable;
use crate::unit::Unit;

/// Figures of one metric for one instance over one window, in the metric's base unit.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
pub struct Stats {
    /// Over the whole window: for rates and ratios total by total, not a mean of means.
    pub mean: f64,
    /// Smallest interval.
    pub min: f64,
    /// Largest interval.
    pub max: f64,
    /// 95th percentile of the intervals (nearest rank).
    pub p95: f64,
    /// Latest interval, or latest level.
    pub last: f64,
    /// Total change over the window; for levels the same as `last`.
    pub total: f64,
    /// One value per interval of the window; none where it was not available.
    pub intervals: Vec<Option<f64>>,
    /// Sub-windows thrown away because a counter went backwards or the thing was replaced.
    pub discarded: u32,
}

impl Stats {
    /// Field names, as rule expressions use them.
    pub const FIELDS: [&'static str; 7] = ["mean", "median", "min", "max", "p95", "last", "total"];

    /// A field by its name.
    #[must_use]
    pub fn field(&self, name: &str) -> Option<f64> {
        match name {
            "mean" => Some(self.mean),
            "median" => Some(self.median()),
            "min" => Some(self.min),
            "max" => Some(self.max),
            "p95" => Some(self.p95),
            "last" => Some(self.last),
            "total" => Some(self.total),
            _ => None,
        }
    }

    /// Half of the intervals have no more (nearest rank): one interval that is unlike the others moves it little.
    #[must_use]
    pub fn median(&self) -> f64 {
        let mut known: Vec<f64> = self.intervals.iter().copied().flatten().collect();
        let half = known.len().saturating_sub(1) / 2;
        if known.is_empty() { self.mean } else { *known.select_nth_unstable_by(half, f64::total_cmp).1 }
    }

    /// Statistics in which every figure is the same: one interval, or a value given in a rule test.
    #[must_use]
    pub fn constant(value: f64) -> Self {
        Self {
            mean: value,
            min: value,
            max: value,
            p95: value,
            last: value,
            total: value,
            intervals: vec![Some(value)],
            discarded: 0,
        }
    }
}

/// A metric's outcome in one window.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Reading {
    /// Measured, for at least one instance.
    Measured {
        /// Base unit.
        unit: Unit,
        /// What its instances are; none for the whole host.
        dimension: Option<String>,
        /// Which series were used.
        source: String,
        /// Which of the metric's sources that is: 0 is the best.
        rank: usize,
        /// By instance; a metric of the whole host has the single instance "".
        instances: BTreeMap<String, Result<Stats, Unavailable>>,
    },
    /// Not measured at all.
    Unavailable(Unavailable),
}

/// The readings of one window, and what else rules may cite.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Metrics {
    /// By metric id.
    pub readings: BTreeMap<String, Reading>,
    /// For each dimension, names for its instances (`process` → `1234` → comm, pid, cgroup …).
    pub labels: BTreeMap<String, BTreeMap<String, BTreeMap<String, String>>>,
    /// What disturbed the measurement, by metric id: reasons for less confidence.
    #[schemars(with = "BTreeMap<String, Vec<String>>")]
    pub notes: BTreeMap<String, Vec<Doubt>>,
    /// By metric id: the first interval that samples span, and one past the last. Metrics that are not named span all.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub spans: BTreeMap<String, (usize, usize)>,
    /// Intervals in the window.
    pub intervals: usize,
    /// Length of the window.
    pub seconds: f64,
}

impl Metrics {
    /// The figures of one instance, where it does not matter why there are none.
    #[must_use]
    pub fn measured(&self, metric: &str, instance: &str) -> Option<&Stats> {
        let Some(Reading::Measured { instances, .. }) = self.readings.get(metric) else { return None };
        instances.get(instance)?.as_ref().ok()
    }

    /// The figures of one instance.
    pub fn stats(&self, metric: &str, instance: &str) -> Result<&Stats, Unavailable> {
        match self.readings.get(metric) {
            Some(Reading::Measured { instances, .. }) => match instances.get(instance) {
                Some(Ok(stats)) => Ok(stats),
                Some(Err(gap)) => Err(gap.clone()),
                None => Err(Unavailable::new(super::Reason::Absent, format!("{metric} has no instance {instance:?}"))),
            },
            Some(Reading::Unavailable(gap)) => Err(gap.clone()),
            None => Err(Unavailable::new(super::Reason::Absent, format!("{metric} was not collected in this window"))),
        }
    }
}
