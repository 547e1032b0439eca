//! Recording one window: all its collectors side by side, each at its own cadence.
//!
//! The time of a reading is the middle of its own start and end on CLOCK_MONOTONIC, and rates are divided by the distances of those times,
//! never by the nominal interval. A source that does not answer in time is left behind with its thread (`worker.rs`); what it read before
//! stays.
//!
//! What was read is written down before probes are read and names looked up, and again before it is judged.

mod follow;
mod part;
mod recorder;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use super::probing::{ProbeOrder, ProbeShares};
use super::worker::Task;
pub(super) use follow::{Awaited, Costs, Follow, Recorded, SoFar};
use rdiag_collectors::{Cadence, CollectorDef};
use rdiag_kernel::host::rights::Phase;
use rdiag_kernel::host::{BeginAt, SharedHost};
use rdiag_model::{CollectorRecord, ProbeResult, Reason, Target, Unavailable, Window};
pub(super) use recorder::{Recorder, Slot};

/// What a window is to hold.
pub(super) struct WindowSpec {
    pub(super) steps: Vec<String>,
    pub(super) collectors: Vec<&'static CollectorDef>,
    pub(super) probes: Vec<ProbeOrder>,
    pub(super) target: Target,
    /// How long it takes in seconds; at least so long, if it has an end of its own.
    pub(super) duration: f64,
    /// When it is to end, on the host's clock: with the window that it began in.
    pub(super) until: Option<f64>,
    /// Distance of two samples in seconds; about so much, if it has an end of its own.
    pub(super) interval: f64,
    /// When it is to begin, if not at once.
    pub(super) begin_at: Option<BeginAt>,
    /// What is given up once everything is attached.
    pub(super) then: Option<Phase>,
    /// What its probes, and those of other windows at the same time, cost.
    pub(super) shares: Arc<ProbeShares>,
}

impl WindowSpec {
    /// How many intervals it has, and how long each is.
    fn grid(&self, host: &SharedHost, began: f64) -> (usize, f64) {
        if let Some(instants) = host.recorded_instants() {
            return (instants.saturating_sub(1), self.interval);
        }
        let Some(until) = self.until else {
            return (((self.duration / self.interval).round() as usize).max(1), self.interval);
        };
        // What is left of the other window is used in full: its intervals are then a little shorter or longer.
        let left = (until - began).max(self.duration);
        let ticks = (left / self.interval).round().max(1.0);
        (ticks as usize, left / ticks)
    }
}

/// Records one window; `run_began` is the monotonic start of the run, which begins anew where an instant was waited for.
pub(super) fn window(
    host: &SharedHost,
    spec: &WindowSpec,
    mut run_began: f64,
    stop: &AtomicBool,
    follow: &mut dyn Follow,
) -> std::io::Result<Recorded> {
    let mut recorder = Recorder::new(host, &spec.collectors, spec.target.clone(), spec.interval)?;
    // Probes count from when they are attached, so then the instant is waited for before.
    let waits_first = !spec.probes.is_empty();
    let wait = |is_time: bool| spec.begin_at.filter(|_| is_time).is_none_or(|at| at.wait(host, stop));
    // A signal ends the wait, and with it the window.
    let _ = wait(waits_first);
    recorder.prepare(&spec.probes, &spec.shares)?;
    if let Some(phase) = spec.then {
        recorder.narrow(phase);
    }
    host.wait(0.0, 0, &AtomicBool::new(false));
    let _ = wait(!waits_first);
    recorder.awaited = spec.begin_at.map(|at| Awaited::now(at, host));
    let began = host.now();
    if recorder.awaited.is_some() {
        run_began = began;
    }
    let suspended = host.suspended();
    recorder.began = began;
    let (ticks, interval) = spec.grid(host, began);
    recorder.interval = interval;
    let mut completed = true;
    let mut tick = 0;
    recorder.sample(|_| true)?;
    follow.begun(&SoFar::of(&mut recorder, spec, (0, ticks)))?;
    while tick < ticks {
        if !recorder.gauges(tick, stop)? {
            completed = false;
            break;
        }
        tick += 1;
        if !host.wait(began + tick as f64 * interval, tick, stop) {
            completed = false;
            break;
        }
        // On a host too slow to keep up, what is overdue is left out and counted.
        let overdue = ((host.now() - began) / interval).floor() as usize;
        if !host.is_recorded() && overdue > tick && tick < ticks {
            recorder.missed((overdue.min(ticks) - tick) as u32);
            tick = overdue.min(ticks);
        }
        let last = tick == ticks;
        recorder.sample_some(|slot| last || slot.cadence != Cadence::Ends || follow.asks(slot.id))?;
        if let Some(phase) = follow.sampled(&mut SoFar::of(&mut recorder, spec, (tick, ticks)))? {
            recorder.narrow(phase);
        }
    }
    if !completed {
        recorder.sample(|_| true)?;
    }
    let seconds = host.now() - began;
    let suspended_seconds = (host.suspended() - suspended).max(0.0);
    let window = |(collectors, probes, ledgers)| Window {
        steps: spec.steps.clone(),
        begins: began - run_began,
        seconds,
        interval_seconds: nominal_interval(host, interval),
        suspended_seconds,
        collectors,
        probes,
        ledgers,
    };
    // What probes saw is given names when they are read, out of files that are not trusted. What is known without that is kept before.
    follow.measured(&|| window((recorder.read_so_far(|_| true), unread_probes(spec), BTreeMap::new())));
    recorder.ask(Task::Finish, |_| true)?;
    let mut costs = BTreeMap::new();
    let mut collectors = BTreeMap::new();
    let mut probes = BTreeMap::new();
    let mut ledgers = BTreeMap::new();
    for slot in recorder.slots {
        costs.insert(slot.id.to_owned(), slot.took);
        ledgers.extend(slot.sink.take_ledger().map(|ledger| (slot.id.to_owned(), ledger)));
        // Collectors too may give tables and stacks.
        let taken = slot.sink.take_probe();
        if slot.is_probe {
            probes.insert(slot.id.to_owned(), taken.unwrap_or_else(|| Err(unread(slot.sink.into_record()))));
        } else {
            probes.extend(taken.map(|result| (slot.id.to_owned(), result)));
            collectors.insert(slot.id.to_owned(), slot.sink.into_record());
        }
    }
    Ok(Recorded { window: window((collectors, probes, ledgers)), completed, costs })
}

/// In the place of the results of probes, as long as none has been read.
fn unread_probes(spec: &WindowSpec) -> BTreeMap<String, Result<ProbeResult, Unavailable>> {
    let gap = || Unavailable::new(Reason::ShortWindow, "rdiag was ended while it read what the probe had measured");
    spec.probes.iter().map(|order| (order.def.id.to_owned(), Err(gap()))).collect()
}

/// Why there is nothing from a probe that neither finished nor failed in a regular way.
fn unread(record: CollectorRecord) -> Unavailable {
    record.unavailable.unwrap_or_else(|| Unavailable::new(Reason::Hung, "the probe did not come to its end"))
}

/// On a recorded tree the distance of its instants; otherwise what was asked for.
fn nominal_interval(host: &SharedHost, asked: f64) -> f64 {
    let times = host.spec().map(|spec| spec.times.as_slice()).unwrap_or_default();
    match (times.first(), times.last()) {
        (Some(first), Some(last)) if times.len() > 1 && last > first => (last - first) / (times.len() - 1) as f64,
        _ => asked,
    }
}
