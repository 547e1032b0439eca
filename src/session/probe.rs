//! One probe as a tool: live, until its time is over or the user ends it.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};

use super::probing::{ProbeOrder, ProbeShares, Running};
use rdiag_kernel::host::SharedHost;
use rdiag_kernel::host::launch::Watch;
use rdiag_kernel::host::rights::{self, Phase, Work};
use rdiag_kernel::mechanism::ebpf::Filter;
use rdiag_model::{ProbeResult, Unavailable};
use rdiag_probes::{Params, ProbeDef};

/// Single events are shown this often, in seconds.
const STREAM_SECONDS: f64 = 0.2;
/// A probe is looked after this often, in seconds: names of a process are looked up while it lives.
const POLL_SECONDS: f64 = 0.25;

/// What a probe takes.
pub const PROBING: Work = Work { probes: true, task_states: false };

/// What is asked of a probe.
#[derive(Debug, Clone)]
pub struct ProbeRequest {
    /// The probe.
    pub def: &'static ProbeDef,
    /// Its parameters.
    pub params: Params,
    /// Processes; all if empty.
    pub pids: Vec<u32>,
    /// Exact name of the task.
    pub comm: Option<String>,
    /// Control group.
    pub cgroup: Option<String>,
    /// The words of a command that rdiag has started and that stands still until `ready` is called: the one in `pids`.
    pub command: Option<String>,
    /// When that command began and ended.
    pub watch: Option<Watch>,
    /// Seconds; until stopped if none.
    pub duration: Option<f64>,
    /// Read and begin anew after so many seconds.
    pub interval: Option<f64>,
    /// Share of all CPUs' time that its programs may take.
    pub budget: f64,
}

/// How a probe ended.
#[derive(Debug)]
pub enum ProbeEnd {
    /// Its time was over, or it was stopped from outside.
    Done,
    /// Its programs took more than its budget, so that it ended early.
    OverBudget,
    /// It never began, or failed.
    Failed(Unavailable),
    /// Its results could not be passed on.
    Output(io::Error),
}

/// Runs one probe, and gives up what the calling thread may do as soon as that is no longer needed. Each reading goes to `each`, for probes
/// that stream also those without any event.
pub fn probe(
    host: &SharedHost,
    request: &ProbeRequest,
    stop: &AtomicBool,
    ready: &mut dyn FnMut(f64),
    each: &mut dyn FnMut(&ProbeResult) -> io::Result<()>,
) -> ProbeEnd {
    let filter = Filter {
        pids: request.pids.clone(),
        comm: request.comm.clone(),
        cgroup: request.cgroup.clone(),
        command: request.command.clone(),
        watch: request.watch.clone(),
        each: false,
        marks: None,
        starter: None,
    };
    let order =
        ProbeOrder { def: request.def, params: request.params.clone(), filter, budget: request.budget, window: 0 };
    let mut running = match Running::start(order, host) {
        Ok(running) => running,
        Err(gap) => return ProbeEnd::Failed(gap),
    };
    rights::narrow(Phase::Measuring(PROBING));
    let shares = ProbeShares::default();
    let began = host.now();
    ready(began);
    let ends = request.duration.map(|seconds| began + seconds);
    let mut next_reading = match (request.def.streams, request.interval) {
        (true, _) => began + STREAM_SECONDS,
        (false, Some(interval)) => began + interval,
        (false, None) => f64::INFINITY,
    };
    loop {
        let until = next_reading.min(host.now() + POLL_SECONDS).min(ends.unwrap_or(f64::INFINITY));
        host.wait(until, 0, stop);
        let now = host.now();
        let over = running.poll(host).map(|()| running.must_stop(&shares, host.facts().cpus));
        let over = match over {
            Ok(over) => over && !running.relieve(host),
            Err(gap) => return ProbeEnd::Failed(gap),
        };
        if over {
            running.note_budget(host);
        }
        let last =
            over || running.is_done(host) || stop.load(Ordering::Relaxed) || ends.is_some_and(|ends| now >= ends);
        if last {
            running.close();
        }
        if last || now >= next_reading {
            next_reading = now + request.interval.filter(|_| !request.def.streams).unwrap_or(STREAM_SECONDS);
            match running.read(host) {
                Ok(result) => {
                    if last {
                        rights::narrow(Phase::Writing);
                    }
                    if let Err(error) = each(&result) {
                        return ProbeEnd::Output(error);
                    }
                }
                Err(gap) => return ProbeEnd::Failed(gap),
            }
        }
        if last {
            return if over { ProbeEnd::OverBudget } else { ProbeEnd::Done };
        }
    }
}
