//! The course of the time around a window that is over: half an hour before and after it, in slices of equal length.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{ChangeKind, Span};

/// The course of the time around the judged window. All seconds count from the beginning of that window; those before it are negative.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Around {
    /// From when to when, in the time zone of the caller; no longer than what was recorded.
    pub span: String,
    /// When the last slice ends: the time of day, in the time zone of the caller.
    pub ends: String,
    /// What recorded it, and how far its samples are apart.
    pub source: String,
    /// The judged window.
    pub judged: Span,
    /// Length of a slice in seconds.
    pub slice_seconds: f64,
    /// The slices, one after the other. A figure is the mean over the recorded part of the slice; one that was not recorded is absent,
    /// never 0.
    pub slices: Vec<Course>,
    /// Length of a row in seconds.
    pub row_seconds: f64,
    /// The same in about a dozen longer slices, for a table; the window begins with one.
    pub rows: Vec<Course>,
    /// Stretches of slices of which nothing was recorded.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unrecorded: Vec<Unrecorded>,
    /// When something changed, in the order of time.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub marks: Vec<ChangeMark>,
}

/// One slice.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Course {
    /// When it begins: the time of day, in the time zone of the caller.
    pub shown: String,
    /// The same in seconds.
    pub seconds: f64,
    /// Busy share of the CPU time, 0–1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu: Option<f64>,
    /// Pressure stall information (PSI).
    #[serde(default, skip_serializing_if = "Pressure::is_unknown")]
    pub pressure: Pressure,
    /// The program that used most CPU time; its share is of the time of all CPUs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub top_cpu: Option<TopConsumer>,
    /// The program that read and wrote most on storage; its share is of what all processes did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub top_io: Option<TopConsumer>,
}

/// Shares of time in which tasks stalled (PSI), 0–1: `some` of them, or all that were not idle (`full`).
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Pressure {
    /// Some tasks waited for a CPU.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu_some: Option<f64>,
    /// Some tasks waited for memory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_some: Option<f64>,
    /// All non-idle tasks waited for memory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_full: Option<f64>,
    /// Some tasks waited for I/O.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub io_some: Option<f64>,
    /// All non-idle tasks waited for I/O.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub io_full: Option<f64>,
}

/// Processes of one name.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TopConsumer {
    /// The name.
    pub name: String,
    /// Share of the whole, 0–1.
    pub share: f64,
}

/// A stretch of which nothing was recorded.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Unrecorded {
    /// From when to when, in seconds.
    pub span: Span,
    /// The same as times of day, in the time zone of the caller.
    pub shown: String,
}

/// A moment at which something changed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ChangeMark {
    /// When, in seconds.
    pub seconds: f64,
    /// What kind of thing changed.
    pub kind: ChangeKind,
    /// Its place in the list of changes.
    pub change: usize,
}

impl Around {
    /// From the first slice to the end of the last.
    #[must_use]
    pub fn axis(&self) -> Span {
        let end = |slice: &Course| Span { from: slice.seconds, until: slice.seconds + self.slice_seconds };
        let (first, last) = (self.slices.first().map(end), self.slices.last().map(end));
        Span { from: first.map_or(0.0, |span| span.from), until: last.map_or(0.0, |span| span.until) }
    }
}

impl Pressure {
    /// Whether nothing of it was recorded.
    #[must_use]
    pub fn is_unknown(&self) -> bool {
        *self == Self::default()
    }
}

impl Course {
    /// Whether nothing of it was recorded.
    #[must_use]
    pub fn is_unknown(&self) -> bool {
        self.cpu.is_none() && self.pressure.is_unknown() && self.top_cpu.is_none() && self.top_io.is_none()
    }
}
