//! Hand-made ledgers.

use rdiag_model::Component;
use rdiag_model::ledger::{Accuracy, Bucket, Durations, Ledger, Level, Part, Thread};

/// So many durations of the same length each.
pub(crate) fn durations(of: &[(u64, f64)]) -> Durations {
    let mut all = Durations::default();
    for (count, each) in of {
        let below = (each * 1e9).log2().floor().exp2() * 2.0 / 1e9;
        let seconds = *count as f64 * each;
        let bucket = Bucket { below, count: *count, seconds };
        all.add(&Durations { count: *count, seconds, min: *each, max: *each, buckets: vec![bucket] });
    }
    all
}

pub(crate) fn part(component: Component, seconds: f64) -> Part {
    Part {
        component,
        call: String::new(),
        key: String::new(),
        seconds,
        accuracy: Accuracy::Exact,
        edge_seconds: 0.0,
        open: 0,
        durations: None,
    }
}

/// A part of so many waits of these lengths.
pub(crate) fn waits(component: Component, key: &str, of: &[(u64, f64)]) -> Part {
    let durations = durations(of);
    Part { key: key.into(), durations: Some(durations.clone()), ..part(component, durations.seconds) }
}

pub(crate) fn thread(tid: u32, pid: u32, seconds: f64, parts: Vec<Part>) -> Thread {
    Thread {
        tid,
        pid,
        comm: format!("task{tid}"),
        stands_for: 1,
        began: 0.0,
        ended: seconds,
        seconds,
        parts,
        ..Thread::default()
    }
}

pub(crate) fn ledger(seconds: f64, threads: Vec<Thread>) -> Ledger {
    Ledger { level: Level::L3, began: 100.0, ended: 100.0 + seconds, threads, ..Ledger::default() }
}

/// The only thread of a process that began and ended within the window.
pub(crate) fn run(pid: u32, parent: u32, at: f64, parts: Vec<Part>) -> Thread {
    let seconds = parts.iter().map(|part| part.seconds).sum();
    Thread { parent, began: at, ended: at + seconds, born: true, died: true, ..thread(pid, pid, seconds, parts) }
}
