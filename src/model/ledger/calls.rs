//! System calls and page faults: a second way to cut the same time.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Durations, Waker, is_false};
use crate::component::Component;
use crate::probe::Frame;

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
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Call {
    /// System call or fault.
    pub kind: CallKind,
    /// Calls that each of these stands for, where calls were watched in parts of the time that are spread over it: counts, bytes
    /// and seconds are those of the parts. There may be another row of the same name, watched all the time before. 1 otherwise.
    #[serde(default = "one", skip_serializing_if = "is_one")]
    pub stands_for: f64,
    /// Its name (`read`), or its number where it has none.
    pub name: String,
    /// Class of the file it was made on (`socket`, `pipe`, `file` …); "" if none or not known.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub on: String,
    /// Calls that ended while they were watched, those under way at the window's beginning not counted.
    pub count: u64,
    /// Of those, failed ones by the name of the error (`EAGAIN`).
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub errors: BTreeMap<String, u64>,
    /// Time inside while they were watched, that of calls under way at an edge included.
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
    /// Durations of the counted calls; none if only counted. Of one that was under way when a part of the time began that was
    /// watched, from its last sleep on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub durations: Option<Durations>,
}

/// One slow wait or call.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SlowCall {
    /// What the time was.
    pub component: Component,
    /// What it was about, as the key of a part says it.
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

/// A call stands for more than this only in a damaged recording.
const MAX_STANDS_FOR: f64 = 1e6;

impl Default for Call {
    fn default() -> Self {
        Self {
            kind: CallKind::default(),
            stands_for: 1.0,
            name: String::new(),
            on: String::new(),
            count: 0,
            errors: BTreeMap::new(),
            seconds: 0.0,
            on_cpu_seconds: None,
            open: 0,
            bytes: None,
            durations: None,
        }
    }
}

impl Call {
    /// What it would be in the whole time. How long single ones take stays as it was seen.
    #[must_use]
    pub fn in_whole(&self) -> Self {
        if !(self.stands_for > 1.0 && self.stands_for <= MAX_STANDS_FOR) {
            return Self { stands_for: 1.0, ..self.clone() };
        }
        let times = |count: u64| (count as f64 * self.stands_for).round() as u64;
        Self {
            stands_for: 1.0,
            count: times(self.count),
            seconds: self.seconds * self.stands_for,
            on_cpu_seconds: self.on_cpu_seconds.map(|seconds| seconds * self.stands_for),
            bytes: self.bytes.map(times),
            errors: self.errors.iter().map(|(error, count)| (error.clone(), times(*count))).collect(),
            ..self.clone()
        }
    }

    /// Takes in another row of the same name; both are those of the whole time.
    pub fn add(&mut self, other: &Self) {
        self.count = self.count.saturating_add(other.count);
        self.open = self.open.saturating_add(other.open);
        self.seconds += other.seconds;
        self.on_cpu_seconds = self.on_cpu_seconds.zip(other.on_cpu_seconds).map(|(a, b)| a + b);
        self.bytes = match (self.bytes, other.bytes) {
            (Some(a), Some(b)) => Some(a.saturating_add(b)),
            (a, b) => a.or(b),
        };
        for (error, count) in &other.errors {
            let known = self.errors.entry(error.clone()).or_default();
            *known = known.saturating_add(*count);
        }
        if let Some(durations) = &other.durations {
            self.durations.get_or_insert_default().add(durations);
        }
    }
}

fn one() -> f64 {
    1.0
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it with a reference")]
#[expect(clippy::float_cmp, reason = "what is written as 1 is exactly that")]
fn is_one(value: &f64) -> bool {
    *value == 1.0
}
