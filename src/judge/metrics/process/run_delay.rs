//! Time that tasks waited in run queues, from the table of processes.

use std::collections::BTreeMap;

use super::super::formula::{Outcome, Part, Quotient, statistics};
use super::super::table::{Table, intervals};
use super::super::throttled;
use super::changes::{add, changes};
use super::{record, span, unreadable};
use rdiag_model::metric::ProcessField;
use rdiag_model::recording::Process;

/// Time that tasks waited for a CPU, per time they wanted one, over all processes that could be read.
pub(in crate::metrics) fn wait_of_tasks(table: &Table<'_>) -> Outcome {
    let record = record(table)?;
    let (begin, _) = span(record);
    let count = record.times.len();
    let mut waited = vec![0.0; count];
    let mut ran = vec![0.0; count];
    let mut readable = false;
    let stopped = throttled::groups(table);
    for process in &record.processes {
        readable |= process.points.iter().any(|point| point.run_ns.is_some());
        let born_within = process.first > begin;
        // A throttled task does not wait for a CPU, although the kernel counts it as waiting.
        if throttled::is_in(process, &stopped) {
            continue;
        }
        add(&mut waited, changes(process, |point| Some(point.wait_ns? as f64 * 1e-9), born_within));
        add(&mut ran, changes(process, |point| Some(point.run_ns? as f64 * 1e-9), born_within));
    }
    if !readable {
        return Err(unreadable(record, ProcessField::RunDelay));
    }
    let mut parts = Vec::new();
    for at in 1..count {
        let (from, to) =
            (record.times.get(at - 1).copied().unwrap_or(0.0), record.times.get(at).copied().unwrap_or(0.0));
        let (w, r) = (waited.get(at).copied().unwrap_or(0.0), ran.get(at).copied().unwrap_or(0.0));
        parts.push(Part { from, to, over: w, under: w + r });
    }
    let stats = statistics(&parts, Quotient::Rate, intervals(table.window), table.window.interval_seconds, 0.0);
    let but = if stopped.is_empty() { "" } else { ", but for those that a CPU quota stopped" };
    let source = format!("/proc/PID/schedstat, fields 1 and 2, of the processes seen{but}");
    Ok((BTreeMap::from([(String::new(), stats)]), source))
}

/// Time that some tasks waited in run queues, between two samples.
#[derive(Debug, Clone, Copy)]
pub(in crate::metrics) struct RunDelay {
    pub(in crate::metrics) from: f64,
    pub(in crate::metrics) to: f64,
    pub(in crate::metrics) seconds: f64,
}

/// Time that the processes which `wanted` says yes to waited in run queues. Nothing where it cannot be read.
pub(in crate::metrics) fn run_delays(table: &Table<'_>, wanted: impl Fn(&Process) -> bool) -> Vec<RunDelay> {
    let Ok(record) = record(table) else { return Vec::new() };
    let (begin, _) = span(record);
    let mut waited = vec![0.0; record.times.len()];
    for process in record.processes.iter().filter(|process| wanted(process)) {
        add(&mut waited, changes(process, |point| Some(point.wait_ns? as f64 * 1e-9), process.first > begin));
    }
    let spans = record.times.iter().zip(record.times.iter().skip(1)).zip(waited.iter().skip(1));
    spans.map(|((from, to), seconds)| RunDelay { from: *from, to: *to, seconds: *seconds }).collect()
}
