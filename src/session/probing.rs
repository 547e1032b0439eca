//! Probes at work beside the collectors of a window: attached before it begins, polled with the samples, read at its end. All probes of a
//! run share one budget (`--budget`): when it is exceeded, the most expensive one does without what it can, or stops itself, and says so.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use super::metering::Meter;
use rdiag_collectors::{Collect, Sink};
use rdiag_kernel::host::Host;
use rdiag_kernel::host::launch::Watch;
use rdiag_kernel::mechanism::ebpf::Filter;
use rdiag_model::probe::{ProbeCost, ProbeResult};
use rdiag_model::{Reason, Unavailable, quantity};
use rdiag_probes::{Context, FOR, Params, Probe, ProbeDef, Taken};

/// What the probes of a run cost that measure at the same time, each as a share of all CPUs' time: one budget holds for all of them. Two
/// windows may run the same probe.
#[derive(Debug, Default)]
pub(super) struct ProbeShares(Mutex<BTreeMap<(usize, &'static str), f64>>);

impl ProbeShares {
    /// Enters what a probe costs; whether all together cost too much and this one the most.
    fn must_stop(&self, who: (usize, &'static str), share: f64, budget: f64) -> bool {
        let mut shares = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        shares.insert(who, share);
        let must_stop = shares.values().sum::<f64>() > budget && shares.values().all(|other| *other <= share);
        if must_stop {
            shares.remove(&who);
        }
        must_stop
    }
}

/// What a probe is to do.
#[derive(Debug, Clone)]
pub(super) struct ProbeOrder {
    pub(super) def: &'static ProbeDef,
    pub(super) params: Params,
    pub(super) filter: Filter,
    /// Share of all CPUs' time that its programs, or its events, may take.
    pub(super) budget: f64,
    /// Which window of the run it belongs to.
    pub(super) window: usize,
}

/// A probe that was started.
pub(super) struct Running {
    order: ProbeOrder,
    probe: Box<dyn Probe>,
    started: f64,
    /// When the period of the next reading began.
    began: f64,
    attach_seconds: f64,
    meter: Meter,
    notes: Vec<String>,
    /// Of these: what it does without, for what it costs.
    relieved: Vec<String>,
    /// Why it was stopped before its time.
    stopped: Option<String>,
    is_closed: bool,
}

impl Running {
    /// Loads and attaches.
    pub(super) fn start(order: ProbeOrder, host: &Host) -> Result<Self, Unavailable> {
        let before = host.now();
        let context = Context::new(host, &order.params, &order.filter);
        let probe = (order.def.start)(&context)?;
        let began = host.now();
        let meter = Meter::start(probe.as_ref(), host);
        Ok(Self {
            order,
            probe,
            started: began,
            began,
            attach_seconds: began - before,
            meter,
            notes: Vec::new(),
            relieved: Vec::new(),
            stopped: None,
            is_closed: false,
        })
    }

    /// Takes over what was streamed, and looks at the cost. An error means that the probe has ended.
    pub(super) fn poll(&mut self, host: &Host) -> Result<(), Unavailable> {
        self.probe.poll(host)?;
        self.meter.settle(self.probe.as_ref(), host, false);
        Ok(())
    }

    /// Whether it was to end before the window does, and that time is over, or all is there.
    pub(super) fn is_done(&self, host: &Host) -> bool {
        let ends = self.order.params.nanoseconds(FOR) as f64 / 1e9;
        self.probe.is_over() || ends > 0.0 && host.now() - self.began >= ends
    }

    /// Whether it must stop: all probes together take more than they may, and this one the most.
    pub(super) fn must_stop(&self, shares: &ProbeShares, cpus: u32) -> bool {
        let share = self.meter.share(cpus);
        share.is_some_and(|share| shares.must_stop((self.order.window, self.order.def.id), share, self.order.budget))
    }

    /// Has it do without what it can, to cost less; whether there was anything left.
    pub(super) fn relieve(&mut self, host: &Host) -> bool {
        let Some(without) = self.probe.relieve(host) else { return false };
        if without.is_empty() {
            self.meter.anew(host);
            return true;
        }
        let (what, _) = self.meter.told(host.facts().cpus);
        let budget = quantity::percent(self.order.budget);
        let after = quantity::seconds(host.now() - self.started);
        let note = format!("from {after} on {without}: {what}, and the budget is {budget}");
        self.notes.push(note.clone());
        self.relieved.push(note);
        self.meter.anew(host);
        true
    }

    /// Puts down that it is stopped for what it costs.
    pub(super) fn note_budget(&mut self, host: &Host) {
        let (what, often) = self.meter.told(host.facts().cpus);
        let budget = quantity::percent(self.order.budget);
        let after = quantity::seconds(host.now() - self.started);
        self.notes.push(format!("stopped itself after {after}: {what} ({often}), and the budget is {budget}"));
        self.stopped = Some(format!("{what}, and the budget is {budget}"));
    }

    /// What was measured since the last reading.
    pub(super) fn read(&mut self, host: &Host) -> Result<ProbeResult, Unavailable> {
        self.meter.settle(self.probe.as_ref(), host, false);
        let Taken { outputs, lost, notes } = self.probe.read(host)?;
        if self.is_closed {
            self.meter.settle(self.probe.as_ref(), host, true);
        }
        let gaps = self.probe.gaps();
        // A command is measured from its beginning to its end, which may be some moments ago.
        let command = self.order.filter.watch.as_ref();
        let now = host.now().min(command.and_then(Watch::ended).unwrap_or(f64::INFINITY));
        self.began = self.began.max(command.and_then(Watch::begun).unwrap_or(0.0)).min(now);
        let mut counted: BTreeMap<String, u64> = BTreeMap::new();
        for (reason, count) in lost.into_iter().filter(|(_, count)| *count > 0) {
            *counted.entry(reason.to_owned()).or_default() += count;
        }
        let seconds = now - std::mem::replace(&mut self.began, now);
        let attached = self.probe.attachments();
        // The kernel puts breakpoints into the memory of the process that was named: a child's has none.
        let filter = &self.order.filter;
        let is_alone =
            filter.command.is_some() && filter.marks.is_none() && attached.iter().any(|at| at.back_end == "uprobe");
        let alone = "functions of programs are watched in the command's own process, not in those that it starts";
        Ok(ProbeResult {
            probe: self.order.def.id.to_owned(),
            params: self.described_params(),
            seconds,
            outputs,
            gaps,
            attached,
            lost: counted,
            notes: self.notes.iter().cloned().chain(notes).chain(is_alone.then(|| alone.to_owned())).collect(),
            cost: ProbeCost { attach_seconds: self.attach_seconds, ..self.meter.all().clone() },
        })
    }

    /// The next reading will be the last one.
    pub(super) fn close(&mut self) {
        self.probe.close();
        self.is_closed = true;
    }

    /// Reads for the last time, and passes on the account of the observed task's time, if the probe makes one.
    fn end(&mut self, host: &Host, out: &Sink) -> Result<ProbeResult, Unavailable> {
        self.close();
        let result = self.read(host)?;
        if let Some(mut ledger) = self.probe.ledger() {
            ledger.notes.append(&mut self.relieved);
            out.ledger(Ok(rdiag_model::Ledger { stopped: self.stopped.take(), ..ledger }));
        }
        Ok(result)
    }

    fn described_params(&self) -> BTreeMap<String, String> {
        let mut params = self.order.params.all().clone();
        params.retain(|_, value| !value.is_empty());
        let filter = &self.order.filter;
        if !filter.pids.is_empty() {
            params.insert("pid".into(), filter.pids.iter().map(u32::to_string).collect::<Vec<_>>().join(","));
        }
        params.extend(filter.command.iter().map(|words| ("command".to_owned(), words.clone())));
        params.extend(filter.comm.iter().map(|comm| ("comm".to_owned(), comm.clone())));
        params.extend(filter.cgroup.iter().map(|path| ("cgroup".to_owned(), path.clone())));
        params
    }
}

/// A probe in the place of a collector.
pub(super) struct Probing {
    order: ProbeOrder,
    shares: Arc<ProbeShares>,
    state: State,
}

enum State {
    Waiting,
    Running(Box<Running>),
    Ended(Result<Box<ProbeResult>, Unavailable>),
}

impl Probing {
    pub(super) fn new(order: ProbeOrder, shares: &Arc<ProbeShares>) -> Self {
        Self { order, shares: Arc::clone(shares), state: State::Waiting }
    }
}

impl Collect for Probing {
    fn prepare(&mut self, host: &Host, out: &Sink) {
        self.state = match Running::start(self.order.clone(), host) {
            Ok(running) => {
                if let Some(level) = running.probe.level() {
                    out.claim(level);
                }
                State::Running(Box::new(running))
            }
            Err(gap) => State::Ended(Err(gap)),
        };
    }

    fn sample(&mut self, host: &Host, out: &Sink) -> Result<(), Unavailable> {
        let State::Running(running) = &mut self.state else { return Ok(()) };
        let ended = match running.poll(host) {
            Err(gap) => Some(Err(gap)),
            Ok(()) if running.must_stop(&self.shares, host.facts().cpus) => {
                if running.relieve(host) {
                    return Ok(());
                }
                running.note_budget(host);
                if running.probe.level().is_some() {
                    // Samples may go on from here.
                    out.give_back();
                }
                Some(running.end(host, out).map(Box::new))
            }
            Ok(()) if running.is_done(host) => Some(running.end(host, out).map(Box::new)),
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
            State::Running(mut running) => running.end(host, out),
            State::Ended(ended) => ended.map(|result| *result),
            State::Waiting => {
                Err(Unavailable::new(Reason::ShortWindow, "the window ended before the probe was attached"))
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use super::ProbeShares;

    #[test]
    fn within_the_budget_none_stops_and_above_it_the_most_expensive_does() {
        let shares = ProbeShares::default();
        assert!(!shares.must_stop((0, "cheap"), 0.01, 0.05));
        assert!(!shares.must_stop((0, "dear"), 0.03, 0.05), "4 % of 5 %");
        assert!(!shares.must_stop((0, "cheap"), 0.025, 0.05), "5.5 %, and another costs more");
        assert!(shares.must_stop((0, "dear"), 0.03, 0.05));
        assert!(!shares.must_stop((0, "cheap"), 0.025, 0.05), "what was stopped costs nothing any more");
        assert!(shares.must_stop((0, "cheap"), 0.051, 0.05));
    }

    #[test]
    fn a_budget_that_is_just_reached_is_kept() {
        assert!(!ProbeShares::default().must_stop((0, "only"), 0.05, 0.05));
    }
}
