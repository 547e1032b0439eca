//! The response-time profile: a ledger added up, checked and put into words, as reports hold it and renderers draw it.
//!
//! Durations are seconds; shares are 0–1. A share without another word is one of all task-seconds T.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::chain::Chain;
use super::component::ThreadState;
use super::ledger::{DelayKind, Level, SlowCall, Target, Timeline, Waker};
use super::probe::Stacks;
use super::runs::Runs;
use super::{Component, NextStep, Unavailable};

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
    /// What remains without waits that are often nobody's response time.
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
    /// Who waited for whom, by sums over the window; the longest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub chains: Vec<Chain>,
    /// The states of the threads over time, in the order of `threads`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub timelines: Vec<Timeline>,
    /// Where threads waited, all components together. The owner of a stack is its component, the outermost frame the name of
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

/// A level that could not be had.
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
    /// Whom it hurts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub for_whom: Option<String>,
    /// How long one execution takes now: told by the user, or measured when rdiag started the command itself; of repeated
    /// runs, their mean.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub now_seconds: Option<f64>,
    /// How long it may take.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub goal_seconds: Option<f64>,
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
    /// Ended without having been seen; none if that cannot be told.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unseen: Option<u64>,
    /// On average: T / E.
    pub mean: f64,
    /// Processes they belong to.
    pub processes: u64,
}

/// A component's row.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ComponentRow {
    /// Which.
    pub id: Component,
    /// Its name in a few words.
    pub title: String,
    /// What it holds and what not.
    pub help: String,
    /// All of its time.
    pub seconds: f64,
    /// Of T.
    pub share: f64,
    /// Standard error or bound of `seconds`; none where it is exact or the error is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub plus_minus: Option<f64>,
    /// Counted, and not estimated.
    pub exact: bool,
    /// Number of samples behind it, where it was sampled.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub samples: Option<u64>,
    /// Waits (or stretches on a CPU) within the window; none where the level does not see them.
    pub count: Option<u64>,
    /// Mean duration of those.
    pub mean: Option<f64>,
    /// The shortest.
    pub min: Option<f64>,
    /// Half are shorter; like all percentiles up to 12.5 % too high, and given only where there are enough of them.
    pub p50: Option<f64>,
    /// 95 % are shorter.
    pub p95: Option<f64>,
    /// 99 % are shorter.
    pub p99: Option<f64>,
    /// The longest that began and ended within the window.
    pub max: Option<f64>,
    /// Waits under way at an edge of the window: in `seconds`, and in none of the figures above.
    pub open: u64,
    /// Of `seconds`: classed by a look at the thread and not by an event.
    pub edge_seconds: f64,
    /// Often no part of anybody's response time: waiting for work.
    pub idle: bool,
    /// Of the busy subtotal; none for idle components.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub busy_share: Option<f64>,
    /// The threads that it is made of, largest first.
    pub threads: Vec<Piece>,
    /// The calls that it is made of.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub calls: Vec<Piece>,
    /// The objects (device, file, peer, lock) that it is made of.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub keys: Vec<Piece>,
    /// By range of duration, ascending: where the *time* sits.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ranges: Vec<Range>,
    /// By power of two of nanoseconds, ascending and without a gap.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub bins: Vec<Bin>,
    /// What the ranges and keys amount to.
    pub skew: Skew,
    /// The same as a sentence, with what follows from it.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub skew_words: String,
    /// The slowest of it, one by one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub slow: Vec<SlowCall>,
    /// Rules of the USE method that tell why its mean may be long.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub rules: Vec<String>,
    /// What to do next, for components that matter.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub next: Vec<NextStep>,
}

/// A part of a component, by some key.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Piece {
    /// The key, made by strangers in part; the last piece may sum up others.
    pub name: String,
    /// Its seconds.
    pub seconds: f64,
    /// Of the component.
    pub share: f64,
    /// How many, where counted.
    pub count: Option<u64>,
    /// Mean duration.
    pub mean: Option<f64>,
    /// The longest.
    pub max: Option<f64>,
    /// How many keys are summed up in it; 0 for a piece of its own.
    #[serde(default)]
    pub others: u64,
}

/// Durations between two bounds, a decade each.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Range {
    /// Lower bound. Durations are put into ranges by the buckets they were kept in, so bounds hold within 12.5 %.
    pub from: f64,
    /// Upper bound.
    pub below: f64,
    /// Their sum.
    pub seconds: f64,
    /// Of the time of all of them.
    pub share: f64,
    /// How many.
    pub count: u64,
    /// Of all of them.
    pub count_share: f64,
    /// Mean duration.
    pub mean: f64,
}

/// Durations between two powers of two of nanoseconds: a bar of a histogram. Exact.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Bin {
    /// Lower bound; 0 for the first of all, which holds whatever is shorter.
    pub from: f64,
    /// Upper bound, exclusive.
    pub below: f64,
    /// How many.
    pub count: u64,
    /// Their sum.
    pub seconds: f64,
}

/// How time is spread over calls and keys.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Skew {
    /// At most 5 % of the calls hold at least half of the time.
    FewSlow,
    /// Calls of at most twice the mean hold at least 80 % of the time.
    ManySmall,
    /// One object holds at least 80 % of the time.
    OneKey,
    /// None of these.
    Mixed,
    /// Too few calls to tell, or the level sees none.
    #[default]
    Unknown,
}

/// Work of the kernel that held threads up, counted to the nanosecond; no component, since it overlaps them.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct DelayRow {
    /// Which.
    pub kind: DelayKind,
    /// In words.
    pub title: String,
    /// The components that hold its seconds.
    pub within: String,
    /// Its time, of all threads.
    pub seconds: f64,
    /// Of T.
    pub share: f64,
    /// How often.
    pub count: u64,
    /// Mean duration.
    pub mean: f64,
    /// The threads with most of it.
    pub threads: Vec<Piece>,
}

/// How far the account can be trusted.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Quality {
    /// A: at most 1 % is unaccounted or over-accounted, B: 5 %, C: 15 %, D: more; one lower for each check that failed.
    pub grade: Grade,
    /// (unaccounted + over-accounted) / T.
    pub residual_share: f64,
    /// The checks against other accounts of the same time.
    pub checks: Vec<Check>,
    /// In words.
    pub words: String,
}

/// A grade.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[expect(missing_docs, reason = "see Quality::grade")]
pub enum Grade {
    A,
    B,
    C,
    #[default]
    D,
}

/// A check against another account.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Check {
    /// `cpu`, `run_queue`, `lifetimes`, `block_io`, `signs`.
    pub id: String,
    /// Whether it agrees; none where it could not be made.
    pub agrees: Option<bool>,
    /// The figures in a sentence, or why it could not be made.
    pub words: String,
}

/// A thread state's row.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct StateRow {
    /// Which.
    pub state: ThreadState,
    /// Its time.
    pub seconds: f64,
    /// Of T.
    pub share: f64,
}

/// Time without waits that are often idle.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Busy {
    /// The busy subtotal.
    pub seconds: f64,
    /// Of T.
    pub share: f64,
    /// Below the line: components that are potentially idle.
    pub idle_seconds: f64,
}

/// A thread's row.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ThreadRow {
    /// Thread id; 0 for a row that stands for several.
    pub tid: u32,
    /// Process id.
    pub pid: u32,
    /// Its name.
    pub comm: String,
    /// A thread of the kernel.
    #[serde(default)]
    pub kernel: bool,
    /// Observed seconds.
    pub seconds: f64,
    /// Of them outside idle components.
    pub busy_seconds: f64,
    /// Born within the window.
    #[serde(default)]
    pub born: bool,
    /// Ended within the window.
    #[serde(default)]
    pub died: bool,
    /// Its components, largest first.
    pub parts: Vec<(Component, f64)>,
    /// In no component.
    pub unaccounted_seconds: f64,
    /// In components beyond its life.
    pub over_accounted_seconds: f64,
}

/// The call profile: within a call there is CPU time and waiting, so its rows overlap the components and are a cut of
/// their own: in system calls, in page faults, outside both.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CallProfile {
    /// The share of the time, 0–1, in which calls were watched, if not all of it: counts and seconds of calls are scaled to
    /// the whole.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub watched_share: Option<f64>,
    /// In system calls.
    pub syscall_seconds: f64,
    /// In page faults, as far as they were seen.
    pub fault_seconds: f64,
    /// Outside: in user mode, preempted or not.
    pub user_seconds: f64,
    /// The calls with the most time first.
    pub rows: Vec<CallRow>,
    /// Calls that are not in `rows`.
    pub others: Piece,
}

/// A call's row.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CallRow {
    /// `read(socket)`.
    pub name: String,
    /// Ended within the window.
    pub count: u64,
    /// Per second of the window.
    pub per_second: f64,
    /// Failed, by the name of the error, most frequent first.
    pub errors: Vec<(String, u64)>,
    /// More than a fifth of the calls fail, at more than a thousand per second.
    #[serde(default)]
    pub error_storm: bool,
    /// Time inside.
    pub seconds: f64,
    /// Of T.
    pub share: f64,
    /// Of `seconds`: on a CPU; none if not known.
    pub on_cpu_seconds: Option<f64>,
    /// Of `seconds`: off the CPU; none if not known.
    pub off_cpu_seconds: Option<f64>,
    /// Mean duration.
    pub mean: Option<f64>,
    /// The shortest.
    pub min: Option<f64>,
    /// Half are shorter.
    pub p50: Option<f64>,
    /// 90 % are shorter.
    pub p90: Option<f64>,
    /// 99 % are shorter.
    pub p99: Option<f64>,
    /// The longest.
    pub max: Option<f64>,
    /// Bytes moved.
    pub bytes: Option<u64>,
    /// Under way at an edge of the window.
    pub open: u64,
}

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
    /// Names of the children that ran alone while that thread waited for them: their time stands in the rows in place of the
    /// wait, at most five names.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub children: Vec<String>,
    /// The largest possible gain first.
    pub rows: Vec<ForecastRow>,
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
    /// R if it vanished.
    pub vanished: [f64; 2],
    /// R if it were halved.
    pub halved: [f64; 2],
    /// R divided by the lowest of `vanished`: no more can be gained from it.
    pub speed_up: Option<f64>,
    /// Whether it can be made to go away at all.
    pub saving: Saving,
    /// What one can do about it, or why nothing.
    pub words: String,
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
    /// Not here: somebody else's time, or wanted. Look at whom it waits for.
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
    /// Not by savings here: what remains is the work itself, somebody else's time, or not accounted for.
    No,
    /// It cannot be told.
    Unknown,
}

/// Who ended waits.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct WakerRow {
    /// What was waited for.
    pub component: Component,
    /// Who ended it.
    pub waker: Waker,
    /// In words.
    pub name: String,
    /// Whether the waker is itself an observed thread.
    pub observed: bool,
    /// Sum of these waits.
    pub seconds: f64,
    /// Of the component.
    pub share: f64,
    /// How many.
    pub count: u64,
}
