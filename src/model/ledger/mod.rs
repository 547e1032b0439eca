//! The ledger: the raw account of where the time of an observed task went over one window, whichever way it was made.
//!
//! Filled by the probe `response` (L3), or by the collectors that sample /proc (L1) and ask taskstats (L2); read by
//! `profile`, which adds up and never guesses. All durations are seconds. All instants are seconds since the window's
//! beginning, on CLOCK_MONOTONIC. What a level cannot know is `None`, never 0.
//!
//! The identity that a ledger is checked by: the parts of a thread sum up to its [`Thread::seconds`]. Code that fills it
//! must not force it to hold: a remainder is *unaccounted*, and shown as such.

mod calls;
mod durations;
mod wakers;

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::probe::{Frame, Stacks};
use crate::component::Component;
pub use calls::{Call, CallKind, SlowCall};
pub use durations::{Bucket, Durations};
pub use wakers::{Link, Waker, WakerEdge, WakerKind};

/// Threads that a ledger holds at most; the rest is summed up in one row (see [`Thread::stands_for`]).
pub const MAX_THREADS: usize = 2_000;
/// Slices of one thread's timeline at most.
pub const MAX_SLICES: usize = 400;
/// Threads with a timeline at most.
pub const MAX_TIMELINES: usize = 64;
/// Keys of one component at most, over all threads; the rest has the key [`OTHER_KEYS`].
pub const MAX_KEYS: usize = 200;
/// The name of the row that stands for threads beyond those that can be followed one by one: with their number and time, and no parts.
pub const NOT_FOLLOWED: &str = "(not followed)";
/// The key that sums up what is beyond [`MAX_KEYS`].
pub const OTHER_KEYS: &str = "(others)";
/// Slow calls kept as examples at most.
pub const MAX_SLOW: usize = 100;
/// Links between threads at most.
pub const MAX_LINKS: usize = 400;

/// How the account was made; the better, the later.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
pub enum Level {
    /// Samples of /proc: CPU time and waiting for a CPU are exact, the rest is estimated.
    #[default]
    L1,
    /// The same with taskstats: waiting for disks is exact as well.
    L2,
    /// Every change of state is seen inside the kernel.
    L3,
}

/// Which tasks are observed. Conditions that are set must all hold; none at all means the whole host.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Target {
    /// Processes, with all of their threads.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub pids: Vec<u32>,
    /// Exact name of the task.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub comm: Option<String>,
    /// Path of a control group below its mount point; groups below it count too.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cgroup: Option<String>,
    /// The command that was started to be observed, its words with spaces between; its process is in `pids`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub command: Option<String>,
    /// The words of that command, one by one, so that it can be written down to be started again.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub words: Vec<String>,
    /// Descendants of `pids` that are born within the window are observed too.
    #[serde(default, skip_serializing_if = "is_false")]
    pub children: bool,
    /// Each run is measured separately: those of programs named `comm`, or those of `command`, whose process in `pids` only
    /// starts them one after the other and is not observed itself; with `marks` it is the command itself, which has several.
    #[serde(default, skip_serializing_if = "is_false")]
    pub each: bool,
    /// With `each`: a run is the time of one thread from one mark to another, and nothing else is observed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub marks: Option<Marks>,
}

/// Where in a program a request begins and ends: `function=FILE:NAME`, `return=FILE:NAME`, `usdt=FILE:PROVIDER:NAME`,
/// `tracepoint=GROUP:EVENT`, or `marker=TEXT` for what is written to ftrace's trace_marker and begins with TEXT.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Marks {
    /// Where it begins.
    pub from: String,
    /// Where it ends.
    pub to: String,
    /// What requests are called by: a field of the mark where they begin, `to=` before it of the one where they end: `arg1:string`,
    /// `to=return:s32`; `text` for what a marker's text goes on with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// How requests are followed that one thread hands over to another; none where they stay with their thread, or where the program's
    /// own scheduler tells.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub handover: Option<Handover>,
}

/// Where threads hand requests over.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Handover {
    /// The mark at which a thread lays a request down.
    pub off: String,
    /// The mark at which a thread takes one up.
    pub on: String,
    /// What tells one request from all others at each of the four marks: a field, `arg1`; of some marks another one, `arg1,on=arg2`. Of
    /// marker texts it is the first word after the mark's own text: `text`. Numbers are ids within a process, texts across them.
    pub id: String,
}

impl Target {
    /// Whether nothing narrows it down.
    #[must_use]
    pub fn is_everything(&self) -> bool {
        self.pids.is_empty() && self.comm.is_none() && self.cgroup.is_none()
    }

    /// Whether nothing is known of it but that.
    #[must_use]
    pub fn is_default(&self) -> bool {
        *self == Self::default()
    }

    /// The process that starts a command again and again, and is no part of what is observed.
    #[must_use]
    pub fn starter(&self) -> Option<u32> {
        self.pids.first().copied().filter(|_| self.each && self.command.is_some() && self.marks.is_none())
    }
}

/// The account of one window.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Ledger {
    /// How it was made.
    pub level: Level,
    /// Between marks: requests were followed from one thread to another, so that `tid` is the one where each began.
    #[serde(default, skip_serializing_if = "is_false")]
    pub follows: bool,
    /// CLOCK_MONOTONIC in seconds when observation began and ended: E = `ended` − `began`.
    pub began: f64,
    /// See `began`.
    pub ended: f64,
    /// The observed threads.
    pub threads: Vec<Thread>,
    /// Why it ends before the window does, if it does: what it says then holds for its own time, not for the whole.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stopped: Option<String>,
    /// Threads that ended without having been seen, so that their waits are unknown; none if that is not known. Their CPU
    /// time (process total less the threads seen) is a row of its own, with tid 0, T = that CPU time, and parts `cpu.*`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unseen_threads: Option<u64>,
    /// The calls, by name and class of file; empty where a level sees none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub calls: Vec<Call>,
    /// The share of the time, 0–1, in which calls were watched, if not all of it: see [`Call::stands_for`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub calls_share: Option<f64>,
    /// The slowest waits and calls, one by one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub slow: Vec<SlowCall>,
    /// Stacks at which threads waited, unit seconds; by component.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub stacks: Vec<ComponentStacks>,
    /// Who ended the waits.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub wakers: Vec<WakerEdge>,
    /// The same by the thread that waited, the longest first, at most [`MAX_LINKS`].
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub links: Vec<Link>,
    /// States over time, for the threads that matter.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub timelines: Vec<Timeline>,
    /// Other accounts of the same time, to check this one by.
    #[serde(default)]
    pub checks: CheckInputs,
    /// Events that happened and are not in here, by reason.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub lost: BTreeMap<String, u64>,
    /// What the reader must know: sampling, gaps, what the level cannot see here. Full sentences without the final stop.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
}

/// An observed thread, clipped to the window.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Thread {
    /// Thread id; 0 for a row that stands for several.
    pub tid: u32,
    /// Process id (thread group).
    pub pid: u32,
    /// Process that had started this one when it was first seen; 0 if that is not known.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub parent: u32,
    /// The name it chose (not trustworthy).
    pub comm: String,
    /// A thread of the kernel.
    #[serde(default, skip_serializing_if = "is_false")]
    pub kernel: bool,
    /// Number of threads behind this row: 1, but for the row that sums up those beyond [`MAX_THREADS`].
    pub stands_for: u32,
    /// When its observation began and ended.
    pub began: f64,
    /// See `began`.
    pub ended: f64,
    /// It was born within the window, so that `began` is its birth; between marks: it passed the first one then.
    #[serde(default, skip_serializing_if = "is_false")]
    pub born: bool,
    /// It ended within the window, so that `ended` is its death; between marks: it passed the second one then.
    #[serde(default, skip_serializing_if = "is_false")]
    pub died: bool,
    /// Between marks: what the request is called by, which is what the program has there. Not trusted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// Observed seconds T: `ended` − `began`, summed where the row stands for several threads.
    pub seconds: f64,
    /// Where they went. A component may have several parts with different calls and keys.
    pub parts: Vec<Part>,
    /// What the kernel counted beside it (level L2); empty where it was not asked.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub delays: Vec<Delay>,
    /// Of the first thread of a process whose runtime moves the work between its threads (Go): what all of them did together.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub together: Option<Together>,
}

/// What a process did whose threads are taken as one.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Together {
    /// Seconds in which any of its threads was on a CPU.
    pub on_cpu: f64,
    /// Seconds in which none was, and any waited for one.
    pub runnable: f64,
}

impl Thread {
    /// Whether the row stands for threads of which nothing is known but that they lived, and how long.
    #[must_use]
    pub fn is_not_followed(&self) -> bool {
        self.tid == 0 && self.comm == NOT_FOLLOWED && self.parts.is_empty()
    }
}

/// Time that the kernel counted around a piece of its own work for a thread (taskstats). CPU time and waits within it
/// stand in the parts as well, so that it explains parts and is none.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Delay {
    /// The work.
    pub kind: DelayKind,
    /// How often, within the window.
    pub count: u64,
    /// How long in all, within the window.
    pub seconds: f64,
}

/// Work of the kernel that holds a thread up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum DelayKind {
    /// It freed memory itself, since there was none (direct reclaim).
    Reclaim,
    /// It moved pages together, for a large piece of memory.
    Compaction,
    /// It waited for pages that had been evicted shortly before.
    Thrashing,
    /// It brought pages back from swap.
    SwapIn,
}

/// The time of one thread in one component, for one key.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Part {
    /// The component.
    pub component: Component,
    /// The system call it was in, or `page fault`; "" where that is not known or does not apply.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub call: String,
    /// What it was about: device, file, peer, lock; "" where that is not known. Not trusted.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub key: String,
    /// All of its seconds within the window, those of waits under way at an edge included.
    pub seconds: f64,
    /// How far `seconds` can be trusted.
    pub accuracy: Accuracy,
    /// Of `seconds`: before the thread's first event or after its last, so classed by a look at the thread.
    #[serde(default)]
    pub edge_seconds: f64,
    /// Waits that had begun before the window or went on after it: not in `durations`.
    #[serde(default)]
    pub open: u64,
    /// Waits that began and ended within the window; none where the level does not see single waits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub durations: Option<Durations>,
}

/// How far a figure can be trusted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Accuracy {
    /// Counted by the kernel or by a program inside it.
    #[default]
    Exact,
    /// Derived, with a bound or a standard error in seconds if one is known.
    Estimate(Option<f64>),
    /// Number of samples behind it, and the standard error in seconds.
    Sampled(u64, f64),
}

/// The stacks behind a component.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ComponentStacks {
    /// The component.
    pub component: Component,
    /// Values are seconds.
    pub stacks: Stacks,
    /// The functions that most of all its stacks stand for, largest first; those of stacks that are left out too.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub functions: Vec<FunctionTime>,
}

/// Time in a function: on a CPU in itself, in waits in what it called.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct FunctionTime {
    /// The function. Not trusted.
    pub function: Frame,
    /// Its time.
    pub seconds: f64,
    /// Samples on a CPU, or waits whose stack was taken.
    pub count: u64,
}

/// The states of one thread over time.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Timeline {
    /// The thread.
    pub tid: u32,
    /// In order of time, without overlap; gaps are times of which nothing is known.
    pub slices: Vec<Slice>,
}

/// A slice of time: one state, or several that are too short to be shown one by one.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Slice {
    /// When it begins.
    pub from: f64,
    /// When it ends.
    pub until: f64,
    /// What it consists of, in seconds.
    pub parts: Vec<(Component, f64)>,
}

/// Other accounts of the same threads and the same time.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CheckInputs {
    /// Change of utime + stime of the observed processes or threads (/proc stat fields 14, 15), children not included, without
    /// what a hypervisor is estimated to have taken, as the next.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub proc_cpu_seconds: Option<f64>,
    /// Change of the scheduler's own count of run time (`se.sum_exec_runtime` of the task) of the observed threads.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run_seconds: Option<f64>,
    /// 1/USER_HZ: the resolution of `proc_cpu_seconds`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tick_seconds: Option<f64>,
    /// Change of `run_delay` (schedstat field 2) of the observed threads.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run_delay_seconds: Option<f64>,
    /// Change of the block I/O delay (taskstats, stat field 42) of the observed threads; none where delay accounting is off.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub blkio_delay_seconds: Option<f64>,
    /// Sum of the waits with `in_iowait` set as this ledger saw them: what `blkio_delay_seconds` must agree with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub iowait_seconds: Option<f64>,
    /// Sum of the times of requests at block devices over the window (diskstats time fields), pacing not included.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub device_seconds: Option<f64>,
}

impl Ledger {
    /// Elapsed seconds E.
    #[must_use]
    pub fn elapsed(&self) -> f64 {
        (self.ended - self.began).max(0.0)
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it with a reference")]
pub(crate) fn is_false(value: &bool) -> bool {
    !*value
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it with a reference")]
fn is_zero(value: &u32) -> bool {
    *value == 0
}
