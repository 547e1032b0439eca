//! The call profile: the same time, cut by call. Within a call there is CPU time and waiting, so it overlaps the components.

use std::collections::BTreeMap;

use rdiag_model::Component;
use rdiag_model::ledger::{Call, CallKind, Durations, Ledger};
use rdiag_model::profile::{CallProfile, CallRow, Piece};

use super::account::{Account, clean, share};
use super::skew::percentile;

/// Calls with a row of their own.
const MAX_ROWS: usize = 30;
/// Kinds of errors of one call.
const MAX_ERRORS: usize = 8;
/// More failures than this share of the calls, at more than so many calls per second, are a storm.
const STORM: (f64, f64) = (0.2, 1000.0);

/// The call profile; none where the level sees no calls.
pub(super) fn profile(ledger: &Ledger, account: &Account<'_>) -> Option<CallProfile> {
    if ledger.calls.is_empty() {
        return None;
    }
    let watched = ledger.calls_share.filter(|share| *share > 0.0 && *share < 1.0);
    let fits = estimates_fit(account);
    let calls: Vec<Call> = ledger.calls.iter().map(|call| in_whole(call, fits)).collect();
    let mut named: BTreeMap<String, Call> = BTreeMap::new();
    for call in &calls {
        let name = if call.on.is_empty() { call.name.clone() } else { format!("{}({})", call.name, call.on) };
        match named.get_mut(&name) {
            Some(known) => known.add(call),
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

/// What it is in the whole time, without what no clock can have told. `fits`: of estimated CPU time.
fn in_whole(call: &Call, fits: f64) -> Call {
    let fits = if call.stands_for > 1.0 { fits } else { 1.0 };
    let call = call.in_whole();
    Call {
        seconds: clean(call.seconds),
        on_cpu_seconds: call.on_cpu_seconds.map(|on_cpu| clean(on_cpu) * fits),
        ..call
    }
}

/// How much of the CPU time that is estimated from parts of the time the threads can have used: how much they had, is known.
fn estimates_fit(account: &Account<'_>) -> f64 {
    let on_cpu = |estimated: bool| -> f64 {
        let calls = account.calls.iter().filter(|call| (call.stands_for > 1.0) == estimated).map(Call::in_whole);
        calls.filter_map(|call| call.on_cpu_seconds).map(clean).sum()
    };
    let left = account.sum_of(Component::on_cpu) - on_cpu(false);
    let estimated = on_cpu(true);
    if estimated > left { share(left.max(0.0), estimated) } else { 1.0 }
}

/// CPU time of the calls in which a thread waits, by component: of as many calls as there were waits. Of one thread only, as it is not
/// known which thread made a call.
pub(super) fn cpu_time_of_waits(account: &Account<'_>) -> BTreeMap<Component, f64> {
    let [only] = account.threads.as_slice() else { return BTreeMap::new() };
    let fits = estimates_fit(account);
    let mut by_name: BTreeMap<&str, (f64, f64)> = BTreeMap::new();
    for call in account.calls {
        let whole = in_whole(call, fits);
        let (count, on_cpu) = by_name.entry(&call.name).or_default();
        *count += whole.count as f64;
        *on_cpu += whole.on_cpu_seconds.unwrap_or(0.0).min(whole.seconds);
    }
    let mut waits: BTreeMap<(Component, &str), f64> = BTreeMap::new();
    let waiting = |component: Component| !component.on_cpu() && !component.runnable();
    for part in only.thread.parts.iter().filter(|part| waiting(part.component)) {
        let count = part.durations.as_ref().map_or(0, |durations| durations.count);
        *waits.entry((part.component, &part.call)).or_default() += count as f64;
    }
    let mut seconds = BTreeMap::new();
    for ((component, name), waits) in waits {
        let Some((count, on_cpu)) = by_name.get(name) else { continue };
        *seconds.entry(component).or_default() += on_cpu * share(waits, *count).min(1.0);
    }
    seconds
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
