//! A time that is over: which one is asked for, who recorded it in which files, and what is known of it.

use std::collections::BTreeMap;

use rdiag_history::{Block, Damage};
use rdiag_model::{Recording, Window};
use rdiag_playbook::Plan;

/// A file of the recorder.
#[derive(Debug)]
pub struct HistoryFile {
    /// Its name.
    pub name: String,
    /// Its bytes.
    pub bytes: Vec<u8>,
}

/// A time that is asked for, in microseconds since 1970.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Span {
    /// Its beginning.
    pub from: i64,
    /// Its end.
    pub to: i64,
}

/// What is known of a time.
#[derive(Debug)]
pub struct Past {
    /// The recording of it.
    pub recording: Recording,
    /// When it begins, in microseconds since 1970.
    pub began: i64,
    /// Where it comes from, a line each, and what is missing.
    pub notes: Vec<String>,
    /// Who recorded it.
    pub origin: Origin,
    /// Times of which another program recorded nothing, in seconds of the window: counters stand still there.
    pub holes: Vec<(f64, f64)>,
}

/// A file as it was read.
#[derive(Debug)]
pub struct Piece {
    /// Its name.
    pub name: String,
    /// What it holds.
    pub block: Block,
    /// What of it cannot be read.
    pub damage: Vec<Damage>,
}

/// Who recorded a time.
#[derive(Debug, Clone, PartialEq)]
pub struct Origin {
    /// What people call it: `recorder`, `sysstat`, `atop`, `PCP`, `below`, `journal`.
    pub name: &'static str,
    /// Seconds over which its figures are means, where those are so many that a burst may hide in them.
    pub means_over: Option<f64>,
    /// Whether the kernel log is that of the journal, line by line.
    pub logged: bool,
    /// Why that there is no line proves little.
    pub doubt: Option<String>,
}

impl Origin {
    /// rdiag's own recorder.
    pub(super) const RECORDER: Self = Self::of("recorder", None);

    pub(super) const fn of(name: &'static str, means_over: Option<f64>) -> Self {
        Self { name, means_over, logged: false, doubt: None }
    }
}

/// The playbook's parameters, as they were when it was recorded.
pub(super) fn params(plan: &Plan, window: &Window) -> BTreeMap<String, String> {
    let mut params = plan.params.clone();
    for (name, seconds) in [("duration", window.seconds), ("interval", window.interval_seconds)] {
        if let Some(param) = params.get_mut(name) {
            *param = format!("{}s", seconds.round().max(1.0));
        }
    }
    params
}

/// A distance in time as one would say it: 5 s, 10 min, 200 ms.
#[must_use]
pub fn interval(seconds: f64) -> String {
    let whole = |value: f64| (value - value.round()).abs() < 1e-6;
    match seconds {
        s if s >= 60.0 && whole(s / 60.0) => format!("{:.0} min", s / 60.0),
        s if whole(s) => format!("{s:.0} s"),
        s => format!("{:.0} ms", s * 1e3),
    }
}
