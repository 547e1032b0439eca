//! How a time that is over compares with the same time of an earlier day. It explains and never alarms: no finding rests on it.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::unit::Unit;

/// The comparison with one earlier time.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Usual {
    /// Which one: `the day before`, `a week before`.
    pub name: String,
    /// From when to when, in the time zone of the caller.
    pub span: String,
    /// Figures that were compared.
    pub compared: usize,
    /// Those that differ by more than they varied then, the furthest first.
    pub unlike: Vec<Unlike>,
}

/// A figure that differs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Unlike {
    /// Metric id.
    pub metric: String,
    /// What the metric tells, in a few words.
    pub title: String,
    /// Instance; "" for the whole host.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub instance: String,
    /// Base unit.
    pub unit: Unit,
    /// Median of the intervals then.
    pub then: f64,
    /// By how much intervals usually differed from that: 1.4826 times the median of the differences, or a floor.
    pub spread: f64,
    /// Median of the intervals now.
    pub now: f64,
    /// The difference of both in spreads.
    pub spreads: f64,
}
