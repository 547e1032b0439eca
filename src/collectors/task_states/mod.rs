//! Where the time of single tasks goes, from samples of /proc/PID/task: level L1 of the accounts, which needs no
//! privilege for one's own processes.
//!
//! Time on a CPU and waiting for one are counted by the kernel, for each thread; what the samples tell is how the rest is
//! divided. Where the kernel counts waits for disks too and tells (taskstats), these are exact as well: level L2. A better account of the
//! same window makes this one superfluous: then nothing is sampled, unless that account ends early for what it costs.

mod account;
mod delays;
mod estimate;
pub(super) mod parse;
mod running;
mod sampler;
mod strip;
mod targets;
#[cfg(test)]
mod tests;
mod thread_reader;
mod throttling;

use crate::def::{Cadence, Collect, CollectorDef, Sink};
use delays::Kernel;
use rdiag_kernel::host::{CpuTicks, Host};
use rdiag_model::ledger::Level;
use rdiag_model::{Reason, Target, Unavailable};
use running::Running;
use sampler::Sampler;
use targets::Targets;
use thread_reader::ThreadReader;
use throttling::Throttling;

pub(super) static COLLECTOR: CollectorDef = CollectorDef {
    id: "task_states",
    help: "Where the time of the observed tasks goes, from samples of /proc/PID/task.",
    cadence: Cadence::Interval,
    series: &[],
    metrics: &[],
    overhead: "At most 1.2 % of one CPU: with more threads the looks, 50 a second by themselves, are further apart. All of rdiag took \
               1.1 % of one CPU with one thread, and 2.8 % with 200",
    start: |_| Box::new(TaskStates::default()),
};

#[derive(Default)]
struct TaskStates {
    state: State,
    throttling: Throttling,
    /// When the window began.
    ticks: Option<CpuTicks>,
    target: Target,
}

#[derive(Default)]
enum State {
    /// A probe accounts for the time, or there is no task to observe.
    #[default]
    Off,
    /// A probe accounts for the time, and samples could go on where it has to stop.
    Waiting,
    /// It is known which tasks to observe.
    Ready(Box<Sampler>),
    /// Sampling goes on in a thread of its own.
    Sampling(Running),
    /// There is no account.
    Failed(Unavailable),
}

impl Collect for TaskStates {
    fn prepare(&mut self, host: &Host, out: &Sink) {
        self.target = out.target().clone();
        if out.claimed() > Some(Level::L2) {
            // Samples know of no single runs, and a recording does not go on.
            if !self.target.each && !host.is_recorded() {
                self.state = State::Waiting;
            }
            return;
        }
        self.state = match sampler(host, &self.target) {
            Ok(sampler) => State::Ready(Box::new(sampler)),
            Err(gap) => State::Failed(gap),
        };
    }

    fn sample(&mut self, host: &Host, out: &Sink) -> Result<(), Unavailable> {
        if matches!(self.state, State::Waiting) && out.claimed().is_none() {
            // Without it, there is the account of the beginning.
            self.state = sampler(host, &self.target).map_or(State::Off, |sampler| State::Ready(Box::new(sampler)));
        }
        // Once it has begun, sampling goes on by itself.
        let State::Ready(sampler) = &mut self.state else { return Ok(()) };
        if host.is_recorded() {
            sampler.turn_to(host.processes()?);
        }
        let is_first = sampler.first.is_none();
        if let Err(error) = sampler.sweep(&|| host.now()) {
            self.state = State::Failed(error.gap());
            return Ok(());
        }
        if is_first {
            self.throttling = Throttling::begin(host, sampler.processes.values());
            self.ticks = CpuTicks::read(host);
        }
        if !host.is_recorded()
            && let State::Ready(sampler) = std::mem::take(&mut self.state)
        {
            self.state = match Running::start(*sampler) {
                Ok(running) => State::Sampling(running),
                Err(error) => {
                    State::Failed(Unavailable::new(Reason::Malformed, format!("no thread could be started: {error}")))
                }
            };
        }
        Ok(())
    }

    fn finish(&mut self, host: &Host, out: &Sink) {
        let sampler = match std::mem::take(&mut self.state) {
            State::Off | State::Waiting => return,
            State::Failed(gap) => {
                out.ledger(Err(gap));
                return;
            }
            State::Ready(sampler) => Some(*sampler),
            State::Sampling(running) => running.stop().map(|mut sampler| {
                let _ = sampler.sweep(&|| host.now());
                sampler
            }),
        };
        let Some(mut sampler) = sampler else {
            out.ledger(Err(Unavailable::new(Reason::Malformed, "the thread that took the samples has failed")));
            return;
        };
        sampler.settle();
        let throttled = self.throttling.end(host);
        let stolen = self.ticks.map(|before| before.stolen_since(host)).unwrap_or_default();
        out.ledger(account::ledger(host, sampler, &throttled, stolen, &self.target));
    }
}

/// What is needed to observe these tasks; an error says why that cannot be.
fn sampler(host: &Host, target: &Target) -> Result<Sampler, Unavailable> {
    if target.is_everything() {
        let why = "no task was named whose time could be accounted for";
        return Err(Unavailable::new(Reason::NotApplicable, why).with_remedy("give --pid, --comm or --cgroup"));
    }
    let dir = host.processes()?;
    for pid in &target.pids {
        if !host.exists(&format!("proc/{pid}")) {
            let why = format!("there is no process {pid}, or /proc hides it (hidepid)");
            return Err(Unavailable::new(Reason::Absent, why));
        }
    }
    let swap = host.read("proc/swaps").unwrap_or_default().lines().count() > 1;
    // A kernel that keeps no such figures says 0 for all tasks, rdiag included, which has run.
    let own = host.read("proc/self/schedstat").unwrap_or_default();
    let keeps = host.is_recorded() || rdiag_proc::process::schedstat(own.as_bytes()).is_some_and(|own| own.turns > 0);
    let targets = Targets::new(target.clone(), host.facts().pid);
    let tick = 1.0 / host.facts().ticks_per_second.max(1) as f64;
    Ok(Sampler::new(dir, targets, ThreadReader::new(!swap, keeps), Kernel::ask(host), (tick, host.suspended())))
}
