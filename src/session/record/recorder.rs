//! The collectors and probes of a window at work: each is asked at its cadence, and what does not answer in time is left behind.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use super::super::probing::{ProbeOrder, ProbeShares, Probing};
use super::super::worker::{Done, Job, Task, Worker};
use super::{Awaited, Costs};
use rdiag_collectors::{Cadence, Collect, CollectorDef, Shared, Sink};
use rdiag_kernel::host::SharedHost;
use rdiag_kernel::host::rights::{self, Phase};
use rdiag_kernel::mechanism::ebpf::Kernel;
use rdiag_model::{CollectorRecord, Reason, SeriesDef, Target, Unavailable};

/// A source that takes longer than this is left behind.
const PATIENCE: Duration = Duration::from_secs(3);
/// Attaching a probe, and naming what it saw, may take this long on a slow machine.
const PATIENCE_WITH_PROBES: Duration = Duration::from_secs(30);
/// Levels are read this often within an interval.
const GAUGES_PER_INTERVAL: u32 = 4;

/// A collector or probe at work.
pub(crate) struct Slot {
    pub(crate) id: &'static str,
    pub(crate) cadence: Cadence,
    pub(super) is_probe: bool,
    pub(crate) sink: Sink,
    /// With the worker while a sample is taken; for good if the collector failed.
    state: Option<Box<dyn Collect>>,
    /// Left behind on a source that hangs.
    pub(crate) late: bool,
    /// Wall-clock seconds so far, and CPU seconds: one that waits for a sick disk takes much of the one and little of the other.
    pub(crate) took: f64,
    pub(crate) cpu: f64,
}

/// The collectors and probes of a window at work.
pub(crate) struct Recorder<'h> {
    host: &'h SharedHost,
    worker: Worker,
    pub(crate) slots: Vec<Slot>,
    shared: Arc<Shared>,
    pub(super) began: f64,
    pub(super) interval: f64,
    pub(super) awaited: Option<Awaited>,
}

impl<'h> Recorder<'h> {
    /// These collectors, to be prepared; `target` is who they look at.
    pub(super) fn new(
        host: &'h SharedHost,
        collectors: &[&'static CollectorDef],
        target: Target,
        interval: f64,
    ) -> std::io::Result<Self> {
        let (worker, shared) = (Worker::start(host)?, Arc::new(Shared::new(target)));
        let mut recorder = Recorder { host, worker, slots: Vec::new(), shared, began: 0.0, interval, awaited: None };
        for def in collectors {
            recorder.add(def.id, def.cadence, def.series, (def.start)(host), false);
        }
        Ok(recorder)
    }

    /// For a caller that samples by its own plan: these collectors, set up, with their time 0 now.
    pub(crate) fn of(
        host: &'h SharedHost,
        collectors: &[&'static CollectorDef],
        interval: f64,
    ) -> std::io::Result<Self> {
        let mut recorder = Self::new(host, collectors, Target::default(), interval)?;
        recorder.prepare(&[], &Arc::default())?;
        recorder.began = host.now();
        Ok(recorder)
    }

    /// When its time 0 was, on the monotonic clock.
    pub(crate) fn began(&self) -> f64 {
        self.began
    }

    /// One sample of some collectors.
    pub(crate) fn sample_some(&mut self, wanted: impl Fn(&Slot) -> bool) -> std::io::Result<()> {
        self.ask_some(Task::Sample, wanted)
    }

    /// Begins a collector anew: those that read their source once ask it again, and what was recorded stays. One that failed or hangs is
    /// left alone.
    pub(crate) fn renew(&mut self, def: &'static CollectorDef) {
        let host = self.host;
        let slot = self.slots.iter_mut().find(|slot| slot.id == def.id && slot.state.is_some());
        slot.into_iter().for_each(|slot| slot.state = Some((def.start)(host)));
    }

    /// Ends it: the record of each collector, and the seconds that it took.
    pub(crate) fn end(mut self) -> std::io::Result<(BTreeMap<String, CollectorRecord>, Costs)> {
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
        self.slots.push(Slot { id, cadence, is_probe, sink, state: Some(state), late: false, took: 0.0, cpu: 0.0 });
    }

    /// Gives up rights that nothing needs from here on.
    pub(super) fn narrow(&self, phase: Phase) {
        self.worker.narrow(phase);
        rights::narrow(phase);
    }

    /// Attaches the probes, and lets collectors set up what takes time, before the window begins.
    pub(super) fn prepare(&mut self, orders: &[ProbeOrder], shares: &Arc<ProbeShares>) -> std::io::Result<()> {
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
    pub(super) fn sample(&mut self, wanted: impl Fn(Cadence) -> bool) -> std::io::Result<()> {
        self.ask(Task::Sample, wanted)
    }

    /// Hands a task to every collector with such a cadence, and waits until all of them are back or given up.
    pub(super) fn ask(&mut self, task: Task, wanted: impl Fn(Cadence) -> bool) -> std::io::Result<()> {
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
        let with_probes =
            task != Task::Sample && jobs.iter().any(|job| self.slots.get(job.slot).is_some_and(|s| s.is_probe));
        self.wait_for(jobs, if with_probes { PATIENCE_WITH_PROBES } else { PATIENCE })
    }

    /// Has jobs done; one that takes longer than this is left behind.
    fn wait_for(&mut self, jobs: Vec<Job>, patience: Duration) -> std::io::Result<()> {
        let mut awaited = jobs.len();
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
    pub(super) fn read_so_far(&self, wanted: impl Fn(&str) -> bool) -> BTreeMap<String, CollectorRecord> {
        let collectors = self.slots.iter().filter(|slot| !slot.is_probe && wanted(slot.id));
        collectors.map(|slot| (slot.id.to_owned(), slot.sink.copy().into_record())).collect()
    }

    /// The same, with their cadences and what they otherwise give at the end.
    pub(super) fn known_so_far(
        &mut self,
        wanted: impl Fn(&str) -> bool,
    ) -> std::io::Result<Vec<(&'static str, Cadence, CollectorRecord)>> {
        let (mut copies, mut jobs) = (Vec::new(), Vec::new());
        let collectors = self.slots.iter_mut().enumerate().filter(|(_, slot)| !slot.is_probe && wanted(slot.id));
        for (index, slot) in collectors {
            let sink = slot.sink.copy();
            copies.push((slot.id, slot.cadence, sink.clone()));
            jobs.extend(slot.state.take().map(|state| Job { slot: index, state, sink, task: Task::SoFar }));
        }
        self.wait_for(jobs, PATIENCE)?;
        Ok(copies.into_iter().map(|(id, cadence, copy)| (id, cadence, copy.into_record())).collect())
    }

    /// The extra readings of levels between this tick and the next; `false` when the run is to stop.
    pub(super) fn gauges(&mut self, tick: usize, stop: &AtomicBool) -> std::io::Result<bool> {
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

    /// Counts samples that were left out.
    pub(super) fn missed(&mut self, count: u32) {
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
        slot.cpu += done.cpu;
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
