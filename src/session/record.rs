//! Recording one window: all its collectors side by side, each at its own cadence.
//!
//! The time of a reading is the middle of its own start and end on CLOCK_MONOTONIC, and rates are divided by the distances of those times,
//! never by the nominal interval. A source that does not answer in time is left behind with its thread (`worker.rs`); what it read before
//! stays.

mod follow;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use super::probing::{Order, ProbeShares, Probing};
use super::worker::{Done, Job, Task, Worker};
pub(super) use follow::{Awaited, Costs, Follow, Recorded, SoFar};
use rdiag_collectors::{Cadence, Collect, CollectorDef, Shared, Sink};
use rdiag_kernel::host::rights::{self, Phase};
use rdiag_kernel::host::{BeginAt, SharedHost};
use rdiag_kernel::mechanism::ebpf::Kernel;
use rdiag_model::{CollectorRecord, ProbeResult, Reason, SeriesDef, Target, Unavailable, Window};

/// A source that takes longer than this is left behind.
const PATIENCE: Duration = Duration::from_secs(3);
/// Attaching a probe, and naming what it saw, may take this long on a slow machine.
const PATIENCE_WITH_PROBES: Duration = Duration::from_secs(30);
/// Levels are read this often within an interval.
const GAUGES_PER_INTERVAL: u32 = 4;

/// What a window is to hold.
pub(super) struct WindowSpec {
    pub(super) steps: Vec<String>,
    pub(super) collectors: Vec<&'static CollectorDef>,
    pub(super) probes: Vec<Order>,
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

/// A collector or probe at work.
pub(super) struct Slot {
    pub(super) id: &'static str,
    pub(super) cadence: Cadence,
    is_probe: bool,
    pub(super) sink: Sink,
    /// With the worker while a sample is taken; for good if the collector failed.
    state: Option<Box<dyn Collect>>,
    /// Left behind on a source that hangs.
    pub(super) late: bool,
    pub(super) took: f64,
}

/// Records one window; `run_began` is the monotonic start of the run, which begins anew where an instant was waited for.
pub(super) fn window(
    host: &SharedHost,
    spec: &WindowSpec,
    mut run_began: f64,
    stop: &AtomicBool,
    follow: &mut dyn Follow,
) -> std::io::Result<Recorded> {
    let mut recorder = Recorder {
        host,
        worker: Worker::start(host)?,
        slots: Vec::new(),
        shared: Arc::new(Shared::new(spec.target.clone())),
        began: 0.0,
        interval: spec.interval,
        awaited: None,
    };
    for def in &spec.collectors {
        recorder.add(def.id, def.cadence, def.series, (def.start)(host), false);
    }
    // Probes count from when they are attached, so then the instant is waited for before.
    let waits_first = !spec.probes.is_empty();
    let wait = |is_time: bool| spec.begin_at.filter(|_| is_time).is_none_or(|at| at.wait(host, stop));
    // A signal ends the wait, and with it the window.
    let _ = wait(waits_first);
    recorder.prepare(&spec.probes, &spec.shares)?;
    if let Some(phase) = spec.then {
        recorder.worker.narrow(phase);
        rights::narrow(phase);
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
    follow.begun(&SoFar::of(&recorder, spec, (0, ticks)))?;
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
        recorder.sample(|cadence| last || cadence != Cadence::Ends)?;
        if let Some(phase) = follow.sampled(&SoFar::of(&recorder, spec, (tick, ticks)))? {
            recorder.worker.narrow(phase);
            rights::narrow(phase);
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

/// Each series with one value for each time.
fn whole(mut record: CollectorRecord) -> CollectorRecord {
    let samples = record.times.len();
    record.series.iter_mut().for_each(|series| series.values.resize(samples, None));
    record.series.sort_by(|a, b| (&a.name, &a.instance).cmp(&(&b.name, &b.instance)));
    record
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

pub(super) struct Recorder<'h> {
    host: &'h SharedHost,
    worker: Worker,
    pub(super) slots: Vec<Slot>,
    shared: Arc<Shared>,
    began: f64,
    interval: f64,
    awaited: Option<Awaited>,
}

impl<'h> Recorder<'h> {
    /// For a caller that samples by its own plan: these collectors, set up, with their time 0 now.
    pub(super) fn of(
        host: &'h SharedHost,
        collectors: &[&'static CollectorDef],
        interval: f64,
    ) -> std::io::Result<Self> {
        let (worker, shared) = (Worker::start(host)?, Arc::new(Shared::default()));
        let mut recorder = Recorder { host, worker, slots: Vec::new(), shared, began: 0.0, interval, awaited: None };
        for def in collectors {
            recorder.add(def.id, def.cadence, def.series, (def.start)(host), false);
        }
        recorder.prepare(&[], &Arc::default())?;
        recorder.began = host.now();
        Ok(recorder)
    }

    /// When its time 0 was, on the monotonic clock.
    pub(super) fn began(&self) -> f64 {
        self.began
    }

    /// One sample of some collectors.
    pub(super) fn sample_some(&mut self, wanted: impl Fn(&Slot) -> bool) -> std::io::Result<()> {
        self.ask_some(Task::Sample, wanted)
    }

    /// Begins a collector anew: those that read their source once ask it again, and what was recorded stays. One that failed or hangs is left alone.
    pub(super) fn renew(&mut self, def: &'static CollectorDef) {
        let host = self.host;
        let slot = self.slots.iter_mut().find(|slot| slot.id == def.id && slot.state.is_some());
        slot.into_iter().for_each(|slot| slot.state = Some((def.start)(host)));
    }

    /// Ends it: the record of each collector, and the seconds that it took.
    pub(super) fn end(mut self) -> std::io::Result<(BTreeMap<String, CollectorRecord>, Costs)> {
        self.ask(Task::Finish, |_| true)?;
        let costs = self.slots.iter().map(|slot| (slot.id.to_owned(), slot.took)).collect();
        Ok((self.slots.into_iter().map(|slot| (slot.id.to_owned(), slot.sink.into_record())).collect(), costs))
    }

    fn add(
        &mut self,
        id: &'static str,
        cadence: Cadence,
        series: &'static [SeriesDef],
        state: Box<dyn Collect>,
        is_probe: bool,
    ) {
        let sink = Sink::beside(series, &self.shared);
        self.slots.push(Slot { id, cadence, is_probe, sink, state: Some(state), late: false, took: 0.0 });
    }

    /// Attaches the probes, and lets collectors set up what takes time, before the window begins.
    fn prepare(&mut self, orders: &[Order], shares: &Arc<ProbeShares>) -> std::io::Result<()> {
        for order in orders {
            let probing = Probing::new(order.clone(), shares);
            self.add(order.def.id, Cadence::Gauge, &[], Box::new(probing), true);
        }
        // What needs the kernel's types finds them here; afterwards they would only take memory.
        let held = (!orders.is_empty()).then(|| Kernel::shared(self.host));
        // A collector may leave to a probe what that does better.
        self.ask_some(Task::Prepare, |slot| slot.is_probe)?;
        self.ask_some(Task::Prepare, |slot| !slot.is_probe)?;
        drop(held);
        Ok(())
    }

    /// One sample of every collector with such a cadence.
    fn sample(&mut self, wanted: impl Fn(Cadence) -> bool) -> std::io::Result<()> {
        self.ask(Task::Sample, wanted)
    }

    /// Hands a task to every collector with such a cadence, and waits until all of them are back or given up.
    fn ask(&mut self, task: Task, wanted: impl Fn(Cadence) -> bool) -> std::io::Result<()> {
        self.ask_some(task, |slot| wanted(slot.cadence))
    }

    fn ask_some(&mut self, task: Task, wanted: impl Fn(&Slot) -> bool) -> std::io::Result<()> {
        let mut jobs = Vec::new();
        for (index, slot) in self.slots.iter_mut().enumerate().filter(|(_, slot)| wanted(slot)) {
            match slot.state.take() {
                Some(state) => jobs.push(Job { slot: index, state, sink: slot.sink.clone(), task }),
                None if slot.late => slot.sink.with_record(|record| record.missed += 1),
                None => {}
            }
        }
        let mut awaited = jobs.len();
        let with_probes =
            task != Task::Sample && jobs.iter().any(|job| self.slots.get(job.slot).is_some_and(|s| s.is_probe));
        let patience = if with_probes { PATIENCE_WITH_PROBES } else { PATIENCE };
        self.worker.submit(jobs);
        while awaited > 0 {
            if let Some(done) = self.worker.next(patience) {
                awaited -= usize::from(self.settle(done));
            } else if let Some(stuck) = self.worker.leave_behind()? {
                self.give_up(stuck);
                awaited -= 1;
            }
        }
        Ok(())
    }

    /// What some of the collectors have read until now.
    fn read_so_far(&self, wanted: impl Fn(&str) -> bool) -> BTreeMap<String, CollectorRecord> {
        let collectors = self.slots.iter().filter(|slot| !slot.is_probe && wanted(slot.id));
        collectors.map(|slot| (slot.id.to_owned(), slot.sink.with_record(|record| whole(record.clone())))).collect()
    }

    /// The extra readings of levels between this tick and the next; `false` when the run is to stop.
    fn gauges(&mut self, tick: usize, stop: &AtomicBool) -> std::io::Result<bool> {
        let any = self.slots.iter().any(|slot| slot.cadence == Cadence::Gauge);
        if self.host.is_recorded() || !any {
            return Ok(true);
        }
        for k in 1..GAUGES_PER_INTERVAL {
            // Without jitter a periodic load would be seen always or never.
            let jitter = (self.host.now() * 1e6) % 1.0 * 0.5 - 0.25;
            let offset = (f64::from(k) + jitter) / f64::from(GAUGES_PER_INTERVAL);
            if !self.host.wait(self.began + (tick as f64 + offset) * self.interval, tick, stop) {
                return Ok(false);
            }
            self.sample(|cadence| cadence == Cadence::Gauge)?;
        }
        Ok(true)
    }

    fn missed(&mut self, count: u32) {
        for slot in self.slots.iter().filter(|slot| slot.cadence == Cadence::Interval && !slot.is_probe) {
            slot.sink.with_record(|record| record.missed += count);
        }
    }

    /// Notes that a source did not answer; what came before stays.
    fn give_up(&mut self, stuck: usize) {
        let Some(slot) = self.slots.get_mut(stuck) else { return };
        slot.late = true;
        let why = format!("{} did not answer within {} s", slot.id, PATIENCE.as_secs());
        slot.sink.with_record(|record| {
            record.unavailable = Some(Unavailable::new(Reason::Hung, why));
            // Each series must have one value for each time.
            let samples = record.times.len();
            record.series.iter_mut().for_each(|series| series.values.truncate(samples));
        });
    }

    /// Takes a collector back and enters what it read; `false` if it had been given up before.
    fn settle(&mut self, done: Done) -> bool {
        let Some(slot) = self.slots.get_mut(done.slot) else { return true };
        let took = (done.ended - done.began).max(0.0);
        let was_awaited = !std::mem::take(&mut slot.late);
        slot.took += took;
        slot.state = done.state;
        if done.task != Task::Sample {
            if let Err(gap) = done.result {
                slot.sink.with_record(|record| record.unavailable = Some(gap));
            }
            return was_awaited;
        }
        let middle = f64::midpoint(done.began, done.ended) - self.began;
        slot.sink.end_sample(middle, took > 0.05 * self.interval);
        let result = done.result;
        slot.sink.with_record(|record: &mut CollectorRecord| match result {
            Ok(()) if record.unavailable.as_ref().is_some_and(|gap| gap.reason == Reason::Hung) => {
                record.unavailable = None;
            }
            Ok(()) => {}
            Err(gap) => record.unavailable = Some(gap),
        });
        was_awaited
    }
}
