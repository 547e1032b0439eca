//! What a field of a process changed by, and when: a process is read only where its stat differs from the sample before.

use super::super::formula::Part;
use super::value;
use rdiag_model::Facts;
use rdiag_model::metric::ProcessField;
use rdiag_model::recording::{CollectorRecord, Process, ProcessPoint};

/// A change of a counter between two samples, by their indexes.
pub(super) struct Change {
    from: u16,
    to: u16,
    amount: f64,
}

/// The changes of a counter. What a process that was born within the window shows at its first sample happened within
/// the window too.
pub(super) fn changes(
    process: &Process,
    counter: impl Fn(&ProcessPoint) -> Option<f64>,
    born_within: bool,
) -> Vec<Change> {
    let mut changes = Vec::new();
    let mut before: Option<(u16, f64)> = born_within.then(|| (process.first.saturating_sub(1), 0.0));
    let mut last: Option<&ProcessPoint> = None;
    for point in &process.points {
        let crept = last.replace(point).is_some_and(|last| crept(last, point));
        let Some(now) = counter(point) else { continue };
        if let Some((at, then)) = before
            && point.at > at
        {
            // Nothing moved between the last point and the sample before this one: the change is of this interval.
            let from = if crept { at } else { point.at - 1 };
            changes.push(Change { from, to: point.at, amount: now - then });
        }
        before = Some((point.at, now));
    }
    changes
}

/// Whether stat shows nothing between two points, so that what the other files show (which were not read in between)
/// came about little by little, at no known time.
fn crept(before: &ProcessPoint, now: &ProcessPoint) -> bool {
    (before.utime, before.stime, before.minor_faults, before.major_faults)
        == (now.utime, now.stime, now.minor_faults, now.major_faults)
        && (before.state, before.threads, before.resident_pages) == (now.state, now.threads, now.resident_pages)
}

/// The whole life of a process within the window in parts: those in which a field changed, and those in which it did
/// not. Empty if the field could not be read.
pub(super) fn parts(
    record: &CollectorRecord,
    process: &Process,
    field: ProcessField,
    facts: &Facts,
    born_within: bool,
) -> Vec<Part> {
    let time = |at: u16| record.times.get(usize::from(at)).copied().unwrap_or(0.0);
    let counter = |point: &ProcessPoint| value(field, point, facts);
    let Some(first) = process.points.iter().find(|point| counter(point).is_some()) else { return Vec::new() };
    let mut parts = Vec::new();
    let mut done = if born_within { process.first.saturating_sub(1) } else { first.at };
    let part = |from: u16, to: u16, over: f64| {
        let (from, to) = (time(from), time(to));
        Part { from, to, over, under: to - from }
    };
    for Change { from, to, amount } in changes(process, counter, born_within) {
        if from > done {
            parts.push(part(done, from, 0.0));
        }
        parts.push(part(from, to, if field == ProcessField::ResidentGrowth { amount } else { amount.max(0.0) }));
        done = to;
    }
    if process.last > done {
        parts.push(part(done, process.last, 0.0));
    }
    parts
}

/// Adds changes to sums per interval, named by the sample that ends it. A change at no known time is spread over the
/// intervals in which it may have happened.
pub(super) fn add(sums: &mut [f64], changes: Vec<Change>) {
    for Change { from, to, amount } in changes {
        let share = amount.max(0.0) / f64::from((to - from).max(1));
        for sum in sums.get_mut(usize::from(from) + 1..=usize::from(to)).into_iter().flatten() {
            *sum += share;
        }
    }
}
