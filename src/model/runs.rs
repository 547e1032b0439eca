//! Repeated experience: many runs of one program, each with its own response time, and what differs between the slow and
//! the fast ones.
//!
//! The time of a run is the life of its first thread, from its birth (by name: from its exec) to its end. Where that
//! thread waited for children that ran one after the other, what they did stands in place of the wait, in proportion
//! where they lived longer than it waited, so the parts of a run still add up to its time. Durations are seconds; shares are 0–1.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::ledger::{Marks, is_false};
use super::probed::Bar;
use crate::component::Component;

/// The runs of one window.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Runs {
    /// Runs that began and ended within the window: those that all figures are about.
    pub count: u64,
    /// Runs that were under way at an edge of the window: in no figure.
    pub open: u64,
    /// Response times; none without a run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub response: Option<Spread>,
    /// Runs that took no longer than the goal; none where no goal was given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub within_goal: Option<u64>,
    /// How the runs stand to a goal that a share of them is to meet; none where the goal is about their mean, or there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub percentile: Option<PercentileGoal>,
    /// How many runs took how long: ranges of equal width from the fastest to the slowest.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub histogram: Vec<Bar>,
    /// The components of a run, the largest on average first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub components: Vec<RunComponent>,
    /// What the slow runs have more of than the fast ones; none where there are too few runs, or they are alike.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub difference: Option<Difference>,
    /// The runs by what they are called by; none where that was not asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub keyed: Option<Keyed>,
    /// The slowest runs, one by one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub slowest: Vec<Run>,
    /// A run is the time of one thread from one mark to another, not the life of a process.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub between: Option<Marks>,
    /// They were followed from one thread to another.
    #[serde(default, skip_serializing_if = "is_false")]
    pub followed: bool,
    /// The distribution and the difference in words.
    pub headline: String,
    /// What these figures do not say. Full sentences.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub limits: Vec<String>,
}

/// A goal such as p99 ≤ 50 ms.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PercentileGoal {
    /// Share of the runs that are to take no longer: 0.99.
    pub share: f64,
    /// Than this.
    pub seconds: f64,
    /// The percentile of these runs; none where there are too few of them for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub now: Option<f64>,
    /// Runs that took longer.
    pub missed: u64,
    /// Whether the goal is met; none where there are too few runs to tell.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub met: Option<bool>,
    /// Runs that would still take longer if this component took as long in each of them as in the faster half on average; the fewest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub without: Vec<(Component, u64)>,
}

/// How a figure is spread over the runs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Spread {
    /// Mean of all runs.
    pub mean: f64,
    /// The least.
    pub min: f64,
    /// The median of these runs.
    pub p50: f64,
    /// 95 % of the runs have at most this; only from 200 runs on.
    pub p95: Option<f64>,
    /// 99 % of the runs have at most this; only from 1000 runs on.
    pub p99: Option<f64>,
    /// The most.
    pub max: f64,
}

/// A component over all runs; a run without it counts with 0.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RunComponent {
    /// Which.
    pub id: Component,
    /// Its name in a few words.
    pub title: String,
    /// Of the time of all runs.
    pub share: f64,
    /// Runs in which it occurs.
    pub runs: u64,
    /// Its time in a run.
    #[serde(flatten)]
    pub spread: Spread,
}

/// Slow runs against fast ones.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Difference {
    /// How many of the runs are the slow ones: the slowest quarter, or tenth where there are many.
    pub slow_runs: u64,
    /// How many are the fast ones: the faster half.
    pub fast_runs: u64,
    /// Mean response time of the slow ones.
    pub slow_mean: f64,
    /// Mean response time of the fast ones.
    pub fast_mean: f64,
    /// `slow_mean` − `fast_mean`, which the rows and what is unexplained add up to.
    pub seconds: f64,
    /// What grew, the most first; what shrank is negative and last.
    pub rows: Vec<Growth>,
    /// Of `seconds`: in no component.
    pub unexplained_seconds: f64,
}

/// What one component has to do with the difference.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Growth {
    /// Which.
    pub id: Component,
    /// Its name in a few words.
    pub title: String,
    /// The call, the object and the child process that grew most within it, `fsync [vda] in tar`; "" if none is known.
    /// Not trusted.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub mostly: String,
    /// Its mean in the slow runs.
    pub slow_mean: f64,
    /// Its mean in the fast runs.
    pub fast_mean: f64,
    /// The difference of both.
    pub seconds: f64,
    /// Of the whole difference.
    pub share: f64,
    /// Slow runs in which there is more of it than in any fast run: if that is most of them, it is what makes runs slow;
    /// if it is one, that one run is an exception.
    pub above_all_fast: u64,
}

/// Runs by what they are called by.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Keyed {
    /// What was read of each, as it was given: see [`Marks::key`].
    pub field: String,
    /// Different keys.
    pub count: u64,
    /// Runs of which it could not be read.
    pub unread: u64,
    /// How many of the slowest runs are called slow here: those of [`Runs::difference`], or fewer where a key has nearly all of these; 0
    /// where runs do not differ.
    pub slow: u64,
    /// Each key, the one with the most slow runs first, then by mean; none where each run has one of its own.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub rows: Vec<KeyedRuns>,
    /// The key that has more of the slow runs than chance would give it; "" if there is none.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub headline: String,
}

/// The runs of one key.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct KeyedRuns {
    /// What they are called by. Not trusted.
    pub key: String,
    /// How many they are.
    pub runs: u64,
    /// Of the time of all runs.
    pub share: f64,
    /// How many of the slow runs have this key: see [`Keyed::slow`].
    pub slow: u64,
    /// How many took longer than the goal; none where no goal was given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub missed: Option<u64>,
    /// Their response times.
    #[serde(flatten)]
    pub spread: Spread,
    /// What one consists of on average, the largest first; up to four.
    pub parts: Vec<(Component, f64)>,
    /// What the slow ones of them have most more of than the fast ones of them; none where they are too few or alike.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub growth: Option<Growth>,
}

/// One run.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Run {
    /// Its place in the order in which the runs began, from 1 on.
    pub number: u64,
    /// Its process.
    pub pid: u32,
    /// What it is called by, which is what the program has there; none where that was not asked for or could not be read. Not trusted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// When it began, in seconds since the window's beginning.
    pub at: f64,
    /// Response time.
    pub seconds: f64,
    /// What it consists of, the largest first.
    pub parts: Vec<(Component, f64)>,
}
