//! The rows of a profile: components, states, threads, calls, and who ended waits.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::component::Component;
use crate::component::ThreadState;
use crate::finding::NextStep;
use crate::ledger::{DelayKind, SlowCall, Waker};

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
    /// Often no part of a response time: waiting for work.
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
    /// The functions that it went into: on a CPU themselves, in waits by what they called. What is left of the whole was in others, or has
    /// no stack.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub code: Vec<Piece>,
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
    /// The key, which is not trusted; the last piece may sum up others.
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
