//! The ledger: the raw account of where the time of an observed task went over one window, whichever way it was made.
//!
//! Filled by the probe `response` (L3), or by the collectors that sample /proc (L1) and ask taskstats (L2); read by
//! `profile`, which adds up and never guesses. All durations are seconds. All instants are seconds since the window's
//! beginning, on CLOCK_MONOTONIC. What a level cannot know is `None`, never 0.
//!
//! The identity that a ledger is checked by: the parts of a thread sum up to its [`Thread::seconds`]. Whoever fills it
//! must not make it true by force: a remainder is *unaccounted*, and shown as such.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Component;
use super::probe::{Frame, Stacks};

/// Threads that a ledger holds at most; the rest is summed up in one row (see [`Thread::stands_for`]).
pub const MAX_THREADS: usize = 2_000;
/// Slices of one thread's timeline at most.
pub const MAX_SLICES: usize = 400;
/// Threads with a timeline at most.
pub const MAX_TIMELINES: usize = 64;
/// Keys of one component at most, over all threads; the rest has the key [`OTHER_KEYS`].
pub const MAX_KEYS: usize = 200;
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
    /// Single runs are told apart: those of programs named `comm`, or those of `command`, whose process in `pids` only
    /// starts them one after the other and is not observed itself.
    #[serde(default, skip_serializing_if = "is_false")]
    pub each: bool,
}

impl Target {
    /// Whether nothing narrows it down.
    #[must_use]
    pub fn is_everything(&self) -> bool {
        self.pids.is_empty() && self.comm.is_none() && self.cgroup.is_none()
    }

    /// The process that starts a command again and again, and is no part of what is observed.
    #[must_use]
    pub fn starter(&self) -> Option<u32> {
        self.pids.first().copied().filter(|_| self.each && self.command.is_some())
    }
}

/// The account of one window.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Ledger {
    /// How it was made.
    pub level: Level,
    /// CLOCK_MONOTONIC in seconds when observation began and ended: E = `ended` − `began`.
    pub began: f64,
    /// See `began`.
    pub ended: f64,
    /// The observed threads.
    pub threads: Vec<Thread>,
    /// Why it ends before the window does, if it does: what it says then holds for its own time, not for the whole.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stopped: Option<String>,
    /// Threads that ended without having been seen, so that their waits are unknown; none if that cannot be told. Their CPU
    /// time (process total less the threads seen) is a row of its own, with tid 0, T = that CPU time, and parts `cpu.*`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unseen_threads: Option<u64>,
    /// The calls, by name and class of file; empty where a level sees none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub calls: Vec<Call>,
    /// The share of the threads' time, 0–1, in which calls were watched, from `began` on, if not until the end: `calls` are
    /// those of this time.
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
    /// It was born within the window, so that `began` is its birth.
    #[serde(default, skip_serializing_if = "is_false")]
    pub born: bool,
    /// It ended within the window, so that `ended` is its death.
    #[serde(default, skip_serializing_if = "is_false")]
    pub died: bool,
    /// Observed seconds T: `ended` − `began`, summed where the row stands for several threads.
    pub seconds: f64,
    /// Where they went. A component may have several parts with different calls and keys.
    pub parts: Vec<Part>,
    /// What the kernel counted beside it (level L2); empty where it was not asked.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub delays: Vec<Delay>,
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
    /// What it was about: device, file, peer, lock; "" where that is not known. Chosen by strangers in part.
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

/// A distribution of durations that keeps the time in each bucket, since skew of *time* is what matters.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Durations {
    /// How many.
    pub count: u64,
    /// Their sum, exact.
    pub seconds: f64,
    /// The shortest, exact.
    pub min: f64,
    /// The longest, exact.
    pub max: f64,
    /// Buckets that are not empty, ascending; eight per power of two of nanoseconds.
    pub buckets: Vec<Bucket>,
}

/// The durations of one bucket.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Bucket {
    /// Upper bound, exclusive; the same bounds as in a probe's histogram.
    pub below: f64,
    /// How many.
    pub count: u64,
    /// Their sum.
    pub seconds: f64,
}

/// What a row of the call profile is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum CallKind {
    /// A system call.
    #[default]
    Syscall,
    /// A page fault.
    Fault,
}

/// All calls of one kind: a second way to cut the same time, since within a call there is CPU time and waiting.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Call {
    /// System call or fault.
    pub kind: CallKind,
    /// Its name (`read`), or its number where it has none.
    pub name: String,
    /// Class of the file it was made on (`socket`, `pipe`, `file` …); "" if none or not known.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub on: String,
    /// Calls that ended within the window, those under way at its beginning not counted.
    pub count: u64,
    /// Of those, failed ones by the name of the error (`EAGAIN`).
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub errors: BTreeMap<String, u64>,
    /// Time inside, that of calls under way at an edge included.
    pub seconds: f64,
    /// Of `seconds`: on a CPU; none if not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub on_cpu_seconds: Option<f64>,
    /// Calls under way at an edge of the window.
    #[serde(default)]
    pub open: u64,
    /// Bytes that they returned, for calls that move bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes: Option<u64>,
    /// Durations of the counted calls; none if only counted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub durations: Option<Durations>,
}

/// One slow wait or call.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SlowCall {
    /// What the time was.
    pub component: Component,
    /// What it was about, as in [`Part::key`].
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub key: String,
    /// The call it happened in, or "".
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub call: String,
    /// Whose.
    pub tid: u32,
    /// Its process.
    pub pid: u32,
    /// Its name.
    pub comm: String,
    /// When it began; 0 if it was under way at the beginning.
    pub at: f64,
    /// How long, within the window.
    pub seconds: f64,
    /// It was under way at an edge of the window, so it lasted longer than that.
    #[serde(default, skip_serializing_if = "is_false")]
    pub open: bool,
    /// Who ended it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waker: Option<Waker>,
    /// Its stack, outermost frame first; empty if none was taken.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub stack: Vec<Frame>,
}

/// The stacks behind a component.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ComponentStacks {
    /// The component.
    pub component: Component,
    /// Values are seconds.
    pub stacks: Stacks,
}

/// Waits of one component that were ended by one waker.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct WakerEdge {
    /// What the waits were.
    pub component: Component,
    /// Who ended them.
    pub waker: Waker,
    /// Their sum.
    pub seconds: f64,
    /// How many.
    pub count: u64,
}

/// Waits of one thread in one component that were ended by one waker.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Link {
    /// The thread that waited; 0 for the row that stands for several.
    pub tid: u32,
    /// Its process.
    pub pid: u32,
    /// Its name (not trustworthy).
    pub comm: String,
    /// What it waited for, and who ended it.
    #[serde(flatten)]
    pub edge: WakerEdge,
}

/// Who ended a wait.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
pub struct Waker {
    /// A thread, or an interrupt in which no thread has a part.
    pub kind: WakerKind,
    /// Process of that thread; 0 for interrupts.
    pub pid: u32,
    /// That thread; 0 for interrupts, or where all threads of a process are taken together.
    pub tid: u32,
    /// Its name; for interrupts what is known of the source (`timer`, `vda`), or "".
    pub comm: String,
}

/// What kind of waker.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum WakerKind {
    /// A thread in its own right.
    #[default]
    Thread,
    /// An interrupt: a device, a timer, the network.
    Interrupt,
    /// The waker is not known.
    Unknown,
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
    /// Change of utime + stime of the observed processes or threads (/proc stat fields 14, 15), children not included.
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

impl Durations {
    /// Takes in the durations of another distribution with the same bounds.
    pub fn add(&mut self, other: &Self) {
        if other.count == 0 {
            return;
        }
        self.min = if self.count == 0 { other.min } else { self.min.min(other.min) };
        self.max = self.max.max(other.max);
        self.count = self.count.saturating_add(other.count);
        self.seconds += other.seconds;
        for bucket in &other.buckets {
            // Bounds are powers of two and eighths of them times one constant: those of one slot are the same bits.
            match self.buckets.binary_search_by(|own| own.below.total_cmp(&bucket.below)) {
                Ok(at) => {
                    if let Some(own) = self.buckets.get_mut(at) {
                        own.count = own.count.saturating_add(bucket.count);
                        own.seconds += bucket.seconds;
                    }
                }
                Err(at) => self.buckets.insert(at, *bucket),
            }
        }
    }

    /// Their mean; none without any.
    #[must_use]
    pub fn mean(&self) -> Option<f64> {
        (self.count > 0).then(|| self.seconds / self.count as f64)
    }

    /// The duration below which this share (0–1) of them lies: the upper bound of its bucket, at most the longest. Never
    /// too low, and up to 12.5 % too high.
    #[must_use]
    pub fn percentile(&self, share: f64) -> Option<f64> {
        let counted = self.buckets.iter().fold(0_u64, |sum, bucket| sum.saturating_add(bucket.count));
        let rank = (share.clamp(0.0, 1.0) * counted as f64).ceil().max(1.0);
        let mut below = 0_u64;
        for bucket in &self.buckets {
            below = below.saturating_add(bucket.count);
            if below as f64 >= rank {
                return Some(bucket.below.min(self.max));
            }
        }
        None
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it with a reference")]
fn is_false(value: &bool) -> bool {
    !*value
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it with a reference")]
fn is_zero(value: &u32) -> bool {
    *value == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn durations(of: &[(f64, u64, f64)]) -> Durations {
        let buckets: Vec<Bucket> = of
            .iter()
            .map(|(below, count, seconds)| Bucket { below: *below, count: *count, seconds: *seconds })
            .collect();
        Durations {
            count: of.iter().map(|bucket| bucket.1).sum(),
            seconds: of.iter().map(|bucket| bucket.2).sum(),
            min: 0.1,
            max: of.last().map_or(0.0, |bucket| bucket.0 * 0.9),
            buckets,
        }
    }

    #[test]
    fn distributions_add_up_bucket_by_bucket() {
        let mut all = durations(&[(1.0, 2, 1.5), (4.0, 1, 3.0)]);
        all.add(&durations(&[(2.0, 1, 1.5), (4.0, 3, 9.0)]));
        all.add(&Durations::default());
        assert_eq!((all.count, all.min), (7, 0.1));
        assert_eq!(
            all.buckets.iter().map(|bucket| (bucket.below, bucket.count)).collect::<Vec<_>>(),
            [(1.0, 2), (2.0, 1), (4.0, 4)]
        );
        assert!((all.seconds - 15.0).abs() < 1e-9);
        assert_eq!(all.percentile(0.5), Some(3.6));
        assert_eq!(all.percentile(0.2), Some(1.0));
    }

    #[test]
    fn an_empty_distribution_has_no_figures() {
        assert_eq!((Durations::default().mean(), Durations::default().percentile(0.5)), (None, None));
    }
}
