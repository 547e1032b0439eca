//! What would be if a component were gone or halved, and the way to the goal.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::component::Component;
use crate::ledger::is_false;

/// What would be if.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Forecast {
    /// What the forecast is about, and what it is worth, in words.
    pub basis: String,
    /// The response time R that is forecast from: of one execution if known, else the elapsed time of the window.
    pub response_seconds: f64,
    /// The one thread whose time adds up to R; none where threads run side by side and only bounds can be given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub thread: Option<u32>,
    /// It stands for all threads of its process, taken as one, since the runtime moves the work between them (Go).
    #[serde(default, skip_serializing_if = "is_false")]
    pub as_one: bool,
    /// Names of the children that ran alone while that thread waited for them: their time stands in the rows in place of the
    /// wait, at most five names.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub children: Vec<String>,
    /// Of R, how long that thread waited for the other end of a pipe while these children ran: what they did stands in place of that wait,
    /// too.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub piped_seconds: Option<f64>,
    /// The largest possible gain first.
    pub rows: Vec<ForecastRow>,
    /// Why rows are ranges and no single figures, a sentence each.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ranges: Vec<String>,
    /// What it would take to reach the goal.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub goal: Option<Goal>,
}

/// One component gone or halved. Times are bounds of R, as [lowest, highest].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ForecastRow {
    /// Which.
    pub id: Component,
    /// Its part of R.
    pub seconds: f64,
    /// R if it vanished; the lower end without what observing took, too.
    pub vanished: [f64; 2],
    /// R if it were halved.
    pub halved: [f64; 2],
    /// R divided by the lowest of `vanished`, both as observed: no more can be gained from it.
    pub speed_up: Option<f64>,
    /// Whether it can be made to go away at all.
    pub saving: Saving,
    /// What one can do about it, or why nothing.
    pub words: String,
    /// Which of the forecast's `ranges` hold for it, counted from 1.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ranges: Vec<u64>,
    /// CPU or waiting time saved per day if it vanished, where executions per day are known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub per_day_seconds: Option<f64>,
}

/// Whether time of a kind can be saved.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Saving {
    /// It can vanish.
    Possible,
    /// It can shrink, not vanish: it is the work itself.
    Partial,
    /// Not here: another task's time, or intended. Look at the task that it waits for.
    Elsewhere,
}

/// The way to the goal.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Goal {
    /// How long it may take.
    pub goal_seconds: f64,
    /// What must be saved; 0 if the goal is met.
    pub to_save_seconds: f64,
    /// What it takes.
    pub reach: Reach,
    /// The components to reduce, and each one's needed reduction 0–1.
    pub reductions: Vec<(Component, f64)>,
    /// In words.
    pub words: String,
}

/// Whether and how a goal can be reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Reach {
    /// It is met.
    Met,
    /// One component alone can give enough.
    One,
    /// Several together can.
    Several,
    /// Not by savings here: what remains is the work itself, another task's time, or not accounted for.
    No,
    /// Not known.
    Unknown,
}
