//! The response-time profile: a ledger added up, checked and put into words, as reports hold it and renderers draw it.
//!
//! Durations are seconds; shares are 0–1. A share without another word is one of all task-seconds T.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::chain::Chain;
use super::ledger::{Level, Target, Timeline};
use super::probe::Stacks;
use super::runs::Runs;
use crate::status::Unavailable;

mod forecast;
mod quality;
mod rows;

pub use forecast::{Forecast, ForecastRow, Goal, Reach, Saving};
pub use quality::{Check, Grade, Quality};
pub use rows::{
    Bin, Busy, CallProfile, CallRow, ComponentRow, DelayRow, Piece, Range, Skew, StateRow, ThreadRow, WakerRow,
};

/// Where the time of a task went: all of it, each second once.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Profile {
    /// How the account was made.
    pub level: Level,
    /// The probe or collector that made it.
    pub source: String,
    /// Better ways, and why they were not taken.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub refused: Vec<Refused>,
    /// Index of the window.
    pub window: usize,
    /// What was asked.
    pub conversation: Conversation,
    /// Who was observed.
    pub target: Target,
    /// The same in words: `process 4711 (postgres), 3 threads`.
    pub subject: String,
    /// The answer to the conversation.
    pub answer: Answer,
    /// Length of the observation E.
    pub elapsed_seconds: f64,
    /// That the observation ended before the window did; none if it did not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub partial: Option<Partial>,
    /// Sum of the observed lives of all threads T.
    pub task_seconds: f64,
    /// How many threads.
    pub population: Population,
    /// What still ran when the command had ended, by name: its time after that is in no line.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub left_behind: Vec<LeftBehind>,
    /// Largest first. Their seconds and `unaccounted_seconds`, less `over_accounted_seconds`, sum up to `task_seconds`.
    pub components: Vec<ComponentRow>,
    /// Time of threads that no component holds.
    pub unaccounted_seconds: f64,
    /// Time that components hold beyond the threads' lives; never netted with the above.
    pub over_accounted_seconds: f64,
    /// What the kernel counted of its own work for these threads (level L2), the longest first. Its seconds stand in the
    /// components as well.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub delays: Vec<DelayRow>,
    /// How far the account can be trusted.
    pub quality: Quality,
    /// The roll-up to six thread states, in the order in which they are looked at.
    pub states: Vec<StateRow>,
    /// What remains without waits that are often no part of a response time.
    pub busy: Busy,
    /// The threads, those with the most time outside such waits first.
    pub threads: Vec<ThreadRow>,
    /// Threads that are not in `threads`.
    pub other_threads: u64,
    /// A second cut of the same time, by call; none where the level sees no calls.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub calls: Option<CallProfile>,
    /// The runs one by one, where repeated runs were asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub runs: Option<Runs>,
    /// What it would be like if …
    pub forecast: Forecast,
    /// Who ended the waits, the longest sum first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub wakers: Vec<WakerRow>,
    /// Waker chains: which task waited for which, by sums over the window; the longest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub chains: Vec<Chain>,
    /// The states of the threads over time, in the order of `threads`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub timelines: Vec<Timeline>,
    /// Where threads ran and waited, all components together. The owner of a stack is its component, the outermost frame the name of
    /// the thread.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stacks: Option<Stacks>,
    /// Events that happened and are not in the account, by reason.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub lost: BTreeMap<String, u64>,
    /// What the reader must know.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
}

impl Profile {
    /// Whether its threads are requests: each the time of one thread from one mark to another. Samples know of no marks.
    #[must_use]
    pub fn is_of_requests(&self) -> bool {
        self.target.marks.is_some() && self.level == Level::L3
    }
}

/// An observation that ended early: the profile is that of the beginning only.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Partial {
    /// Length of the window, which went on.
    pub window_seconds: f64,
    /// How much of it was observed, 0–1.
    pub share: f64,
    /// Why.
    pub why: String,
}

/// A level that was not available.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Refused {
    /// The probe or collector that would have made it.
    pub source: String,
    /// Why not, and what would help.
    #[serde(flatten)]
    pub gap: Unavailable,
}

/// What the user told about the task. Without it the profile still tells where the time goes, but not whether that is
/// good enough.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Conversation {
    /// What hurts, in the user's words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task: Option<String>,
    /// Who is affected.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub for_whom: Option<String>,
    /// How long one execution takes now: given by the user, or measured when rdiag started the command itself; of repeated
    /// runs, their mean.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub now_seconds: Option<f64>,
    /// How long it may take.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub goal_seconds: Option<f64>,
    /// Share of single runs that are to take no longer than `goal_seconds`, 0.99 for p99; none where their mean is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub goal_share: Option<f64>,
    /// Executions per day, to weigh a gain.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub per_day: Option<f64>,
    /// Whether `now_seconds` was measured, and not told.
    #[serde(default)]
    pub measured: bool,
}

/// The conclusion in words.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Answer {
    /// What was asked, in a sentence; none if nothing was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub asked: Option<String>,
    /// One or two sentences: where most of the time is, and why.
    pub headline: String,
    /// What it would take to reach the goal, if one was given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub goal: Option<String>,
    /// What limits the conclusion.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub limits: Vec<String>,
    /// Those of the limits that change how far the figures can be trusted, or how much of the time they are about.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub doubts: Vec<String>,
}

/// Threads of which nothing is known but that they lived.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct NotFollowed {
    /// So many.
    pub threads: u64,
    /// How long they lived, added up.
    pub seconds: f64,
}

/// Processes of one name that a command has left behind: they had not ended when it had.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LeftBehind {
    /// The name.
    pub comm: String,
    /// How many there were at least.
    pub processes: u64,
    /// The first of their ids.
    pub pids: Vec<u32>,
}

/// The threads by number.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Population {
    /// At the beginning.
    pub start: u64,
    /// At most at one time.
    pub peak: u64,
    /// At the end.
    pub end: u64,
    /// Ever seen.
    pub seen: u64,
    /// Ended without having been seen; none if that is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unseen: Option<u64>,
    /// Those of the seen ones that were more than can be followed, with their time, which is unaccounted; none if all were followed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub not_followed: Option<NotFollowed>,
    /// On average: T / E.
    pub mean: f64,
    /// Processes they belong to.
    pub processes: u64,
}
