//! When events happened and how long each took, counted in fields: the heat map of a report.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Counts by time (columns of equal length) and by how long an event took (bands).
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct HeatMap {
    /// The output of the probe whose events are counted.
    pub id: String,
    /// What is counted.
    pub title: String,
    /// Length of all columns together, from the beginning of the probe, in seconds.
    pub seconds: f64,
    /// Bands in ascending order, without gaps.
    pub bands: Vec<HeatBand>,
    /// Events in no field, of which the recording has the number only.
    #[serde(default)]
    pub others: u64,
}

/// The events that took a time between two bounds.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct HeatBand {
    /// Lower bound in seconds, inclusive.
    pub from: f64,
    /// Upper bound in seconds, exclusive.
    pub below: f64,
    /// Events in each column.
    pub counts: Vec<u64>,
}

impl HeatMap {
    /// All counts.
    pub fn counts(&self) -> impl Iterator<Item = u64> + '_ {
        self.bands.iter().flat_map(|band| band.counts.iter().copied())
    }
}
