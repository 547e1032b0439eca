//! The call profile.

use std::collections::BTreeMap;

use super::fill::seconds;
use super::kind::Type;
use super::record::Record;
use super::waits;
use crate::calls;
use rdiag_kernel::classify::FileClass;
use rdiag_model::ledger::{Call, CallKind, Durations};

/// In place of a call's number: none.
const NO_CALL: u64 = 510;

/// The calls by name and class of file, longest first; and the page faults. Those watched in parts of the time stand for so many.
pub(super) fn all_calls(records: &[Record], stand_for: f64) -> Vec<Call> {
    let mut all: BTreeMap<(String, &'static str, bool), Call> = BTreeMap::new();
    for cell in records.iter().flat_map(|record| &record.cells) {
        let kind = cell.kind;
        if !matches!(kind.of(), Type::Call | Type::Errno) {
            continue;
        }
        let [error, _, anonymous] = cell.object;
        let class = waits::file_class(kind.class(), anonymous);
        let on = if class == FileClass::Unknown { "" } else { class.word() };
        let name = calls::name(kind.call() as usize);
        let call = all.entry((name.clone(), on, kind.in_parts())).or_insert_with(|| Call {
            kind: CallKind::Syscall,
            stands_for: if kind.in_parts() { stand_for } else { 1.0 },
            name,
            on: on.to_owned(),
            on_cpu_seconds: Some(0.0),
            durations: Some(Durations::default()),
            ..Call::default()
        });
        if kind.of() == Type::Errno {
            let count = call.errors.entry(calls::error(error)).or_default();
            *count = count.saturating_add(cell.count);
            continue;
        }
        call.count = call.count.saturating_add(cell.count);
        call.seconds += seconds(cell.within);
        call.open = call.open.saturating_add(cell.open);
        call.on_cpu_seconds = call.on_cpu_seconds.map(|sum| sum + seconds(cell.on_ns));
        if cell.bytes > 0 {
            call.bytes = Some(call.bytes.unwrap_or(0).saturating_add(cell.bytes));
        }
        match (&mut call.durations, &cell.durations) {
            (Some(sum), Some(durations)) => sum.add(durations),
            (durations, None) => *durations = None,
            (None, Some(_)) => {}
        }
    }
    let mut calls: Vec<Call> = all.into_values().collect();
    calls.sort_by(|a, b| b.seconds.total_cmp(&a.seconds));
    calls.extend(faults(records));
    calls
}

/// Page faults outside of calls: their number by the kernel's account, of their time only the waits.
fn faults(records: &[Record]) -> Option<Call> {
    let count = records.iter().fold(0_u64, |sum, record| sum.saturating_add(record.change.faults));
    let waits = records.iter().flat_map(|record| &record.cells).filter(|cell| {
        cell.kind.of() == Type::Wait
            && cell.kind.call() == NO_CALL
            && cell.kind.state() & 2 != 0
            && !cell.kind.kernel_thread()
    });
    let ns = waits.fold(0_u64, |sum, cell| sum.saturating_add(cell.ns).saturating_add(cell.open_ns));
    (count > 0).then(|| Call {
        kind: CallKind::Fault,
        name: "page fault".to_owned(),
        count,
        seconds: seconds(ns),
        ..Call::default()
    })
}
