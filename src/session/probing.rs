//! Probes at work beside the collectors of a window: attached before it begins, polled with the samples, read at its end.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use crate::collectors::{Collect, Sink};
use crate::host::{Host, SharedHost};
use crate::mechanism::ebpf::{CostMeter, Filter, Kernel};
use crate::model::probe::{ProbeCost, ProbeResult};
use crate::model::{Reason, Unavailable};
use crate::probes::{Context, Params, Probe, ProbeDef, Taken};

/// A probe may use this share of all CPUs' time by default; above it, it is stopped.
pub(super) const DEFAULT_BUDGET: f64 = 0.05;
/// The kernel's statistics are kept on for this long at first; each later look costs every program on the host.
const METERED_SECONDS: f64 = 0.25;

/// The kernel's types, shared by the probes that start together and dropped after that: they take memory.
#[derive(Debug, Default)]
pub(super) struct SharedKernel(Mutex<Weak<Kernel>>);

impl SharedKernel {
    /// The one that others use at this moment, or a new one.
    pub(super) fn get(&self, host: &Host) -> Result<Arc<Kernel>, Unavailable> {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(kernel) = known.upgrade() {
            return Ok(kernel);
        }
        let kernel = Arc::new(Kernel::open(host)?);
        *known = Arc::downgrade(&kernel);
        Ok(kernel)
    }
}

/// What a probe is to do.
#[derive(Debug, Clone)]
pub(super) struct Order {
    pub(super) def: &'static ProbeDef,
    pub(super) params: Params,
    pub(super) filter: Filter,
    /// Share of all CPUs' time that its programs may take.
    pub(super) budget: f64,
}

/// A probe that was started.
pub(super) struct Running {
    order: Order,
    probe: Box<dyn Probe>,
    began: f64,
    attach_seconds: f64,
    meter: Option<(CostMeter, f64, (u64, f64))>,
    metered: ProbeCost,
    notes: Vec<String>,
}

impl Running {
    /// Loads and attaches.
    pub(super) fn start(order: Order, host: &Host, kernel: &Kernel) -> Result<Self, Unavailable> {
        let before = host.now();
        let context = Context { host, kernel, params: &order.params, filter: &order.filter };
        let probe = (order.def.start)(&context)?;
        let began = host.now();
        let meter = CostMeter::start();
        let at_start = probe.object().run_time();
        let meter = meter.is_on().then_some((meter, began, at_start));
        Ok(Self {
            order,
            probe,
            began,
            attach_seconds: began - before,
            meter,
            metered: ProbeCost::default(),
            notes: Vec::new(),
        })
    }

    /// Takes over what was streamed, and looks at the cost. An error means that the probe has ended.
    pub(super) fn poll(&mut self, host: &Host) -> Result<(), Unavailable> {
        self.probe.poll(host)?;
        self.settle_cost(host);
        Ok(())
    }

    /// Whether its programs take more than they may.
    pub(super) fn is_over_budget(&self, cpus: u32) -> bool {
        let metered = &self.metered;
        let share = metered.cpu_seconds / (metered.sampled_seconds * f64::from(cpus.max(1))).max(1e-9);
        metered.sampled_seconds > 0.0 && share > self.order.budget
    }

    /// Puts down that it is stopped for what it costs.
    pub(super) fn note_budget(&mut self, cpus: u32) {
        self.notes.push(over_budget(&self.metered, self.order.budget, cpus));
    }

    fn settle_cost(&mut self, host: &Host) {
        let Some((_, since, (runs, seconds))) = &self.meter else { return };
        let elapsed = host.now() - since;
        if elapsed < METERED_SECONDS {
            return;
        }
        let (runs_now, seconds_now) = self.probe.object().run_time();
        self.metered = ProbeCost {
            sampled_seconds: elapsed,
            runs: runs_now.saturating_sub(*runs),
            cpu_seconds: (seconds_now - seconds).max(0.0),
            attach_seconds: self.attach_seconds,
        };
        self.meter = None;
    }

    /// What was measured since the last reading.
    pub(super) fn read(&mut self, host: &Host) -> Result<ProbeResult, Unavailable> {
        self.settle_cost(host);
        let Taken { outputs, lost, notes } = self.probe.read(host)?;
        let now = host.now();
        let mut counted: BTreeMap<String, u64> = BTreeMap::new();
        for (reason, count) in lost.into_iter().filter(|(_, count)| *count > 0) {
            *counted.entry(reason.to_owned()).or_default() += count;
        }
        let seconds = now - std::mem::replace(&mut self.began, now);
        Ok(ProbeResult {
            probe: self.order.def.id.to_owned(),
            params: self.described_params(),
            seconds,
            outputs,
            attached: self.probe.object().attachments().to_vec(),
            lost: counted,
            notes: self.notes.iter().cloned().chain(notes).collect(),
            cost: ProbeCost { attach_seconds: self.attach_seconds, ..self.metered.clone() },
        })
    }

    fn described_params(&self) -> BTreeMap<String, String> {
        let mut params = self.order.params.all().clone();
        params.retain(|_, value| !value.is_empty());
        let filter = &self.order.filter;
        if !filter.pids.is_empty() {
            params.insert("pid".into(), filter.pids.iter().map(u32::to_string).collect::<Vec<_>>().join(","));
        }
        params.extend(filter.comm.iter().map(|comm| ("comm".to_owned(), comm.clone())));
        params.extend(filter.cgroup.iter().map(|path| ("cgroup".to_owned(), path.clone())));
        params
    }
}

/// A probe in the place of a collector.
pub(super) struct Probing {
    order: Order,
    kernel: Arc<SharedKernel>,
    state: State,
}

enum State {
    Waiting,
    Running(Box<Running>),
    Ended(Result<Box<ProbeResult>, Unavailable>),
}

impl Probing {
    pub(super) fn new(order: Order, kernel: &Arc<SharedKernel>) -> Self {
        Self { order, kernel: Arc::clone(kernel), state: State::Waiting }
    }
}

impl Collect for Probing {
    fn prepare(&mut self, host: &Host, _: &Sink) {
        let started = self.kernel.get(host).and_then(|kernel| Running::start(self.order.clone(), host, &kernel));
        self.state = match started {
            Ok(running) => State::Running(Box::new(running)),
            Err(gap) => State::Ended(Err(gap)),
        };
    }

    fn sample(&mut self, host: &Host, _: &Sink) -> Result<(), Unavailable> {
        let State::Running(running) = &mut self.state else { return Ok(()) };
        let ended = match running.poll(host) {
            Err(gap) => Some(Err(gap)),
            Ok(()) if running.is_over_budget(host.facts().cpus) => {
                running.note_budget(host.facts().cpus);
                Some(running.read(host).map(Box::new))
            }
            Ok(()) => None,
        };
        if let Some(ended) = ended {
            self.state = State::Ended(ended);
        }
        Ok(())
    }

    fn finish(&mut self, host: &Host, out: &Sink) {
        let state = std::mem::replace(&mut self.state, State::Waiting);
        out.probe(match state {
            State::Running(mut running) => running.read(host),
            State::Ended(ended) => ended.map(|result| *result),
            State::Waiting => {
                Err(Unavailable::new(Reason::ShortWindow, "the window ended before the probe was attached"))
            }
        });
    }
}

/// Why a probe stopped itself.
fn over_budget(cost: &ProbeCost, budget: f64, cpus: u32) -> String {
    let share = cost.cpu_seconds / (cost.sampled_seconds * f64::from(cpus.max(1))).max(1e-9);
    format!(
        "stopped itself: its programs took {:.1} % of the CPUs ({:.0} runs per second), and {:.1} % is its budget",
        share * 100.0,
        cost.runs as f64 / cost.sampled_seconds.max(1e-9),
        budget * 100.0
    )
}

/// Keeps the kernel's types alive while probes start.
pub(super) fn hold(host: &SharedHost, kernel: &Arc<SharedKernel>) -> Option<Arc<Kernel>> {
    kernel.get(host).ok()
}
