//! The call profile: the same time, cut by call. Within a call there is CPU time and waiting, so it overlaps the components.

use std::collections::BTreeMap;

use crate::model::ledger::{Call, CallKind, Durations, Ledger};
use crate::model::profile::{CallProfile, CallRow, Piece};

use super::account::{Account, clean, share};
use super::skew::percentile;

/// Calls with a row of their own.
const MAX_ROWS: usize = 30;
/// Kinds of errors of one call.
const MAX_ERRORS: usize = 8;
/// Counts are not scaled by more than this.
const MAX_SCALE: f64 = 1e6;
/// More failures than this share of the calls, at more than so many calls per second, are a storm.
const STORM: (f64, f64) = (0.2, 1000.0);

/// The call profile; none where the level sees no calls.
pub(super) fn profile(ledger: &Ledger, account: &Account<'_>) -> Option<CallProfile> {
    if ledger.calls.is_empty() {
        return None;
    }
    let watched = ledger.calls_share.filter(|share| *share > 0.0 && *share < 1.0);
    let scale = watched.map_or(1.0, |share| (1.0 / share).min(MAX_SCALE));
    let calls: Vec<Call> = ledger.calls.iter().map(|call| scaled(call, scale)).collect();
    let mut named: BTreeMap<String, Call> = BTreeMap::new();
    for call in &calls {
        let name = if call.on.is_empty() { call.name.clone() } else { format!("{}({})", call.name, call.on) };
        match named.get_mut(&name) {
            Some(known) => merge(known, call),
            None => drop(named.insert(name, call.clone())),
        }
    }
    let of =
        |kind: CallKind| -> f64 { calls.iter().filter(|call| call.kind == kind).map(|call| clean(call.seconds)).sum() };
    let (syscalls, faults) = (of(CallKind::Syscall), of(CallKind::Fault));
    let mut rows: Vec<CallRow> = named.into_iter().map(|(name, call)| row(name, &call, account)).collect();
    rows.sort_by(|a, b| b.seconds.total_cmp(&a.seconds).then_with(|| a.name.cmp(&b.name)));
    let cut = rows.split_off(MAX_ROWS.min(rows.len()));
    let cut_seconds: f64 = cut.iter().map(|row| row.seconds).sum();
    Some(CallProfile {
        watched_share: watched,
        syscall_seconds: syscalls,
        fault_seconds: faults,
        user_seconds: (account.total - syscalls - faults).max(0.0),
        rows,
        others: Piece {
            seconds: cut_seconds,
            share: share(cut_seconds, account.total),
            count: Some(cut.iter().fold(0, |sum, row| sum.saturating_add(row.count))),
            others: cut.len() as u64,
            ..Piece::default()
        },
    })
}

/// What a call would be in the whole time. How long single ones take stays as it was seen, and page faults are counted always.
fn scaled(call: &Call, scale: f64) -> Call {
    if scale <= 1.0 || call.kind == CallKind::Fault {
        return call.clone();
    }
    let times = |count: u64| (count as f64 * scale).round() as u64;
    Call {
        count: times(call.count),
        seconds: call.seconds * scale,
        on_cpu_seconds: call.on_cpu_seconds.map(|seconds| seconds * scale),
        bytes: call.bytes.map(times),
        errors: call.errors.iter().map(|(error, count)| (error.clone(), times(*count))).collect(),
        ..call.clone()
    }
}

fn merge(into: &mut Call, call: &Call) {
    into.count = into.count.saturating_add(call.count);
    into.open = into.open.saturating_add(call.open);
    into.seconds = clean(into.seconds) + clean(call.seconds);
    into.on_cpu_seconds = into.on_cpu_seconds.zip(call.on_cpu_seconds).map(|(a, b)| clean(a) + clean(b));
    into.bytes = match (into.bytes, call.bytes) {
        (Some(a), Some(b)) => Some(a.saturating_add(b)),
        (a, b) => a.or(b),
    };
    for (error, count) in &call.errors {
        let known = into.errors.entry(error.clone()).or_default();
        *known = known.saturating_add(*count);
    }
    if let Some(durations) = &call.durations {
        into.durations.get_or_insert_default().add(durations);
    }
}

fn row(name: String, call: &Call, account: &Account<'_>) -> CallRow {
    let durations = call.durations.as_ref();
    let some = durations.filter(|durations| durations.count > 0);
    let seconds = clean(call.seconds);
    let on_cpu = call.on_cpu_seconds.map(|on_cpu| clean(on_cpu).min(seconds));
    let per_second = share(call.count as f64, account.elapsed);
    let mut errors: Vec<(String, u64)> = call.errors.iter().map(|(error, count)| (error.clone(), *count)).collect();
    errors.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
    let failed: f64 = errors.iter().map(|(_, count)| *count as f64).sum();
    errors.truncate(MAX_ERRORS);
    CallRow {
        name,
        count: call.count,
        per_second,
        error_storm: failed > STORM.0 * call.count as f64 && per_second > STORM.1,
        errors,
        seconds,
        share: share(seconds, account.total),
        on_cpu_seconds: on_cpu,
        off_cpu_seconds: on_cpu.map(|on_cpu| seconds - on_cpu),
        mean: some.and_then(Durations::mean),
        min: some.map(|durations| durations.min),
        p50: percentile(durations, 0.5),
        p90: percentile(durations, 0.9),
        p99: percentile(durations, 0.99),
        max: some.map(|durations| durations.max),
        bytes: call.bytes,
        open: call.open,
    }
}
