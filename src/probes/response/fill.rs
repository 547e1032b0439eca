//! Records of the programs → the ledger.

use std::collections::BTreeMap;

use super::Settings;
use super::code::stacks_by_component;
use super::gaps::Reasons;
use super::interpreted::Interpreters;
use super::kind::{PREEMPTED, THROTTLED, Type, WOKEN};
use super::kinds::Kinds;
use super::limits::{limit_keys, limit_threads};
use super::objects;
use super::on_cpu::on_cpu;
use super::polls::Polls;
use super::record::{Cell, Record};
use super::running::Running;
use super::stacks::StackNames;
use super::steps::Steps;
use super::syscalls::all_calls;
use super::timeline_samples::TimelineSamples;
use super::timelines::timelines;
use super::tops::Tops;
use super::user_locks::Locks;
use super::waits::{self, Classes};
use super::wakers::wakers;
use super::watching::Watched;
use crate::block::Devices;
use rdiag_kernel::classify::{self, FileClass};
use rdiag_kernel::host::{Host, Stolen};
use rdiag_kernel::mechanism::symbols::Symbols;
use rdiag_model::ledger::{
    Accuracy, CheckInputs, Durations, Level, MAX_SLOW, NOT_FOLLOWED, Part, SlowCall, Thread, Together,
};
use rdiag_model::{Component, Ledger};

/// Time of which is not known what it was, as a share of a process's life.
const MOST_UNKNOWN: f64 = 0.02;

pub(super) fn seconds(ns: u64) -> f64 {
    ns as f64 * 1e-9
}

/// Everything that the ledger is made of.
pub(super) struct Source<'s> {
    pub(super) host: &'s Host,
    pub(super) settings: &'s Settings,
    pub(super) records: Vec<Record>,
    pub(super) stacks: &'s StackNames,
    pub(super) tops: &'s Tops,
    pub(super) samples: &'s TimelineSamples,
    pub(super) polls: &'s Polls,
    pub(super) running: &'s Running,
    /// What stacks of the program are told by.
    pub(super) code: (&'s Interpreters, &'s Steps),
    /// Window in ns of CLOCK_MONOTONIC.
    pub(super) began: u64,
    pub(super) ended: u64,
    /// When calls were watched.
    pub(super) watched: &'s Watched,
    /// By the CPUs' account.
    pub(super) stolen: Stolen,
}

/// What distinguishes a part within a thread.
pub(super) type PartKey = (Component, String, String);

pub(super) fn ledger(source: Source<'_>, symbols: &mut Symbols) -> Ledger {
    let Source { host, settings, records, stacks, tops, samples, polls, running, code, began, ended, watched, stolen } =
        source;
    let devices = Devices::read(host);
    let without_swap = host.read("proc/swaps").is_ok_and(|text| text.lines().nth(1).is_none());
    symbols.settle(host);
    let mut ledger = Ledger { level: Level::L3, began: seconds(began), ended: seconds(ended), ..Ledger::default() };
    let locks = Locks::new(symbols, (stacks, code.1), &records);
    let mut classes = Classes::new(symbols, (stacks, tops, &locks), without_swap, &records);
    let reasons = settings.moves.as_ref().map(|moves| Reasons { moves, symbols, stacks });
    let (mut kinds, mut seen): (Vec<Kinds>, Vec<bool>) = (Vec::new(), Vec::new());
    // Where events of a process were missed, as some kernels leave out some, what its threads did together is not known.
    let mut unknown: BTreeMap<u32, f64> = BTreeMap::new();
    for record in &records {
        *unknown.entry(record.pid).or_default() += seconds(record.unknown);
    }
    for record in &records {
        let on_cpu = on_cpu(record, watched.all_until(record.ended), settings.tick, stolen);
        seen.push(on_cpu.seen);
        let (mut thread, of_kinds) =
            thread(record, on_cpu.parts, &mut classes, (&devices, polls), began, &mut ledger.slow);
        if let Some(reasons) = reasons {
            for (part, slowest) in reasons.parts(record, began) {
                thread.parts.push(part);
                ledger.slow.extend(slowest);
            }
        }
        let died = if settings.marks { record.passed } else { record.died };
        let key = settings.key.and_then(|key| key.shown(&record.key));
        let is_sure = unknown.get(&record.pid).copied().unwrap_or(0.0) <= MOST_UNKNOWN * seconds(record.life);
        let together = together(record).filter(|_| is_sure && symbols.runs_go(record.process()));
        ledger.threads.push(Thread { died, key, together, ..thread });
        kinds.push(of_kinds);
    }
    ledger.timelines = timelines(&records, &kinds, (&ledger.threads, &seen), samples, began);
    (ledger.wakers, ledger.links) = wakers(&records, &kinds, symbols, stacks);
    let (first, last) = lives(&records, began, ended);
    ledger.calls = all_calls(&records, 1.0 / watched.parts_share(first, last));
    ledger.calls_share = watched.share(first, last);
    ledger.checks = checks(host, &records, stolen);
    let running = running.samples(&ledger, stacks, code.1);
    ledger.stacks = stacks_by_component(
        host,
        &records,
        (&kinds, &locks, settings.moves.as_ref()),
        symbols,
        (stacks, code),
        running,
    );
    ledger.follows = settings.moves.is_some();
    ledger.slow.sort_by(|a, b| b.seconds.total_cmp(&a.seconds));
    ledger.slow.truncate(MAX_SLOW);
    limit_keys(&mut ledger.threads);
    limit_threads(&mut ledger.threads);
    ledger
}

/// From when until when there was any thread: a command may end long before the window does.
pub(super) fn lives(records: &[Record], began: u64, ended: u64) -> (u64, u64) {
    let first = records.iter().map(|record| record.began).min().unwrap_or(began);
    let last = records.iter().map(|record| record.ended).max().unwrap_or(ended);
    (first, last.max(first))
}

fn thread(
    record: &Record,
    on_cpu: [(Component, f64, Accuracy); 4],
    classes: &mut Classes<'_>,
    (devices, polls): (&Devices, &Polls),
    window: u64,
    slow: &mut Vec<SlowCall>,
) -> (Thread, Kinds) {
    let mut parts: BTreeMap<PartKey, Part> = BTreeMap::new();
    let mut kinds = Kinds::new();
    for (component, seconds, accuracy) in on_cpu {
        let part = part(&mut parts, (component, String::new(), String::new()));
        part.seconds += seconds;
        part.accuracy = accuracy;
        part.durations = None;
    }
    for cell in &record.cells {
        let (component, sure, call, key) = match (cell.kind.of(), cell.kind.call()) {
            (Type::Runq, PREEMPTED) => (Component::RunqPreempt, true, String::new(), String::new()),
            (Type::Runq, WOKEN) => (Component::RunqWakeup, true, String::new(), String::new()),
            (Type::Runq, THROTTLED) => (Component::Throttled, true, String::new(), String::new()),
            (Type::Wait, _) => {
                let (component, sure) = classes.of((record.process(), record.tid), cell);
                let of_kind = kinds.entry(cell.kind.wait()).or_default();
                let (call, key) = about(cell, component, classes.name((record.process(), record.tid), cell), devices);
                let key = objects::throttled(key, classes.throttled_by(cell));
                let named = polls.divide(record, cell);
                for (name, own) in &named {
                    let name = if name.is_empty() { &key } else { name };
                    of_kind.add(component, own.ns.saturating_add(own.open_ns));
                    slow.extend(slowest(record, own, component, &call, name, window));
                    add(part(&mut parts, (component, call.clone(), name.clone())), own, sure);
                }
                if !named.is_empty() {
                    continue;
                }
                of_kind.add(component, cell.ns.saturating_add(cell.open_ns));
                slow.extend(slowest(record, cell, component, &call, &key, window));
                (component, sure, call, key)
            }
            _ => continue,
        };
        add(part(&mut parts, (component, call, key)), cell, sure);
    }
    let instant = |at: u64| seconds(at.saturating_sub(window));
    let thread = Thread {
        tid: record.tid,
        pid: record.pid,
        parent: record.parent,
        comm: record.comm.clone(),
        kernel: record.kernel_thread,
        stands_for: record.stands_for,
        began: instant(record.began),
        ended: instant(record.ended),
        born: record.born,
        died: record.died,
        key: None,
        seconds: seconds(record.life),
        parts: parts.into_values().filter(|part| part.seconds > 0.0).collect(),
        delays: Vec::new(),
        together: None,
    };
    (thread, kinds)
}

/// Of the first thread of a process with several, what the programs kept of all of them.
fn together(record: &Record) -> Option<Together> {
    (record.tid == record.pid && record.any_ran > 0).then(|| Together {
        on_cpu: seconds(record.any_ran),
        runnable: seconds(record.any_able.saturating_sub(record.any_ran)),
    })
}

/// Adds what a cell holds; `sure` if all that is known of it agrees.
fn add(part: &mut Part, cell: &Cell, sure: bool) {
    part.seconds += seconds(cell.ns.saturating_add(cell.open_ns));
    part.edge_seconds += seconds(cell.open_ns);
    part.open = part.open.saturating_add(cell.open);
    match (&mut part.durations, &cell.durations) {
        (Some(sum), Some(durations)) => sum.add(durations),
        // Without room for a distribution, nothing can be said of the whole.
        (durations, None) => *durations = None,
        (None, Some(_)) => {}
    }
    if !sure {
        part.accuracy = Accuracy::Estimate(None);
    }
}

fn part(parts: &mut BTreeMap<PartKey, Part>, key: PartKey) -> &mut Part {
    let (component, call, name) = key.clone();
    parts.entry(key).or_insert(Part {
        component,
        call,
        key: name,
        seconds: 0.0,
        accuracy: Accuracy::Exact,
        edge_seconds: 0.0,
        open: 0,
        durations: Some(Durations::default()),
    })
}

/// The call that a wait was in, and what it was about; of a futex, the variable that it is part of.
fn about(cell: &Cell, component: Component, name: Option<String>, devices: &Devices) -> (String, String) {
    let [_, _, beginning] = cell.object;
    let class = waits::file_class(cell.kind.class(), beginning);
    let faults = [Component::Fault, Component::FaultFile, Component::FaultSwap];
    let call = match waits::call_name(cell.kind) {
        Some(name) => name.to_owned(),
        None if faults.contains(&component) => "page fault".to_owned(),
        None => String::new(),
    };
    let futex = call.starts_with("futex");
    // Of two files only the first is known, and it may have waited for the other.
    let other = classify::calls::kind(&call) == Some(classify::calls::Kind::Move)
        && !cell.kind.io_wait()
        && !cell.kind.kernel_lock()
        && !matches!(
            (class, component),
            (FileClass::Pipe, Component::IpcPipe)
                | (FileClass::Inet, Component::NetSend)
                | (FileClass::Unix, Component::IpcUnix)
                | (FileClass::File | FileClass::Block, _)
        );
    let key = match name {
        Some(name) if futex => name,
        _ if other => String::new(),
        _ => objects::key(cell, class, devices, futex),
    };
    (call, key)
}

/// The longest of a cell's waits, and one that was under way at an edge.
fn slowest(
    record: &Record,
    cell: &Cell,
    component: Component,
    call: &str,
    key: &str,
    window: u64,
) -> impl Iterator<Item = SlowCall> {
    let example = |ns: u64, at: u64, open: bool| SlowCall {
        component,
        key: key.to_owned(),
        call: call.to_owned(),
        tid: record.tid,
        pid: record.pid,
        comm: record.comm.clone(),
        at: seconds(at.saturating_sub(window)),
        seconds: seconds(ns),
        open,
        waker: None,
        stack: Vec::new(),
    };
    let longest =
        (cell.count > 0 && cell.max > 0).then(|| example(cell.max, cell.max_at.saturating_sub(cell.max), false));
    let open = (cell.open == 1).then(|| example(cell.open_ns, cell.open_at, true));
    longest.into_iter().chain(open)
}

/// Threads that found no room, with their number and time in ns: a row without parts, so that the time is missing from the account.
pub(super) fn not_followed((count, ns): (u64, u64), elapsed: f64) -> Option<Thread> {
    (count > 0).then(|| Thread {
        comm: NOT_FOLLOWED.to_owned(),
        stands_for: u32::try_from(count).unwrap_or(u32::MAX),
        ended: elapsed,
        seconds: seconds(ns),
        ..Thread::default()
    })
}

/// Seconds of a tick of the kernel's own account.
pub(super) fn tick(host: &Host) -> f64 {
    1.0 / host.facts().ticks_per_second.max(1) as f64
}

fn checks(host: &Host, records: &[Record], stolen: Stolen) -> CheckInputs {
    let sum = |of: fn(&Record) -> u64| records.iter().fold(0_u64, |sum, record| sum.saturating_add(of(record)));
    let io_waits = records
        .iter()
        .flat_map(|record| &record.cells)
        .filter(|cell| cell.kind.of() == Type::Wait && cell.kind.io_wait());
    let io_wait = io_waits.fold(0_u64, |sum, cell| sum.saturating_add(cell.ns).saturating_add(cell.open_ns));
    CheckInputs {
        run_seconds: Some(stolen.own(seconds(sum(|record| record.change.run)))),
        tick_seconds: Some(tick(host)),
        run_delay_seconds: Some(seconds(sum(|record| record.change.run_delay))).filter(|seconds| *seconds > 0.0),
        iowait_seconds: Some(seconds(io_wait)),
        ..CheckInputs::default()
    }
}
