//! Programs are loaded, sized for what is to be observed, and attached.

use super::super::block;
use super::fill;
use super::interpreted::Interpreters;
use super::kernel;
use super::marks::Pair;
use super::open::Open;
use super::polls::Polls;
use super::running::{self, Running};
use super::stacks::StackNames;
use super::steps::Steps;
use super::timeline_samples::TimelineSamples;
use super::tops::Tops;
use super::watching::{self, CallWatching, Watching};
use super::{COMMAND, REQUESTS, RUNS, Response, Settings};
use crate::def::{Context, Params, Probe};
use crate::offcputime;
use rdiag_kernel::host::Host;
use rdiag_kernel::mechanism::ebpf::{Filter, Global, Hook, Kernel, Object, include_bytes_aligned};
use rdiag_kernel::mechanism::points::{PointError, trap};
use rdiag_kernel::mechanism::symbols::Symbols;
use rdiag_kernel::mechanism::symbols::unwind::SUPPORTED;
use rdiag_model::ledger::Marks;
use rdiag_model::{Reason, Unavailable};

/// What the kernel reports about waits for its locks. Ends first: a begin whose end is not seen would stay noted.
const LOCKS: [&str; 2] = ["contention_end", "contention_begin"];

/// What is wrong with marks on this machine.
pub fn check_marks(host: &Host, marks: &Marks, pids: &[u32]) -> Result<(), PointError> {
    Pair::find(host, marks, pids).map(drop)
}

pub(super) fn start(context: &Context<'_>) -> Result<Box<dyn Probe>, Unavailable> {
    let (host, params, filter) = (context.host, context.params, context.filter);
    if filter.pids.is_empty() && filter.comm.is_none() && filter.cgroup.is_none() {
        return Err(Unavailable::new(Reason::NotApplicable, "nothing was named whose time is to be accounted for")
            .with_remedy("name processes with --pid, --comm or --cgroup"));
    }
    let kernel = context.kernel()?;
    let pair = filter.marks.as_ref().map(|marks| Pair::find(host, marks, &filter.pids)).transpose();
    let pair = pair.map_err(PointError::gap)?;
    let settings = Settings {
        calls: call_watching(params, filter),
        top: params.count("top") as usize,
        threshold: params.nanoseconds("threshold"),
        tick: fill::tick(host),
        starter: filter.starter,
        marks: filter.marks.is_some(),
        key: pair.as_ref().and_then(Pair::key),
        moves: pair.as_ref().and_then(Pair::moves),
        locks: LOCKS.iter().all(|event| kernel.has_tracepoint(event)),
    };
    // Which tasks belong to a command follows from its own account of births; between marks there is none.
    let command = filter.command.clone().filter(|_| filter.marks.is_some());
    let mut globals = Filter { command, ..filter.clone() }.globals(host)?;
    globals.extend([
        Global::u64("threshold_ns", settings.threshold),
        Global::u32("with_calls", u32::from(settings.calls != CallWatching::Never)),
        Global::u32("with_children", u32::from(params.flag("children") || filter.command.is_some())),
        Global::u32("with_steps", u32::from(SUPPORTED)),
        Global::u32("with_command", u32::from(filter.command.is_some())),
        // Runs are compared with each other, of which short ones are over before it is known whose runtime they have.
        Global::u32("with_together", u32::from(filter.command.is_some() && !filter.each)),
        Global::bytes("call_traits", super::traits::all()),
    ]);
    let room = kernel::room(if settings.moves.is_some() { RUNS } else { expected(host, filter) });
    let sizes = [
        ("threads", room.threads),
        ("polled", room.threads),
        ("cells", room.cells),
        ("spreads", room.spreads),
        ("names", room.cells),
        ("free_threads", room.threads),
        ("free_cells", room.cells),
        ("free_spreads", room.spreads),
        ("ended_threads", room.threads),
        ("requests", room.threads.saturating_mul(4)),
        ("steps", room.cells / 2),
        // Each CPU has a part of them to itself.
        ("ring_requests", 4096.max(host.facts().cpus.saturating_mul(256))),
        ("running", running::room(host)),
        ("running_stacks", running::room(host).saturating_mul(2)),
    ];
    let bytes = include_bytes_aligned!(concat!(env!("CARGO_MANIFEST_DIR"), "/response/response.bpf.o"));
    globals.extend([
        Global::u32("room_threads", room.threads),
        Global::u32("room_cells", room.cells),
        Global::u32("room_spreads", room.spreads),
    ]);
    globals.push(Global::u32("with_marks", u32::from(pair.is_some())));
    globals.extend(pair.iter().flat_map(Pair::globals));
    let mut object = kernel.load(bytes, globals, &sizes)?;
    kernel::fill_free_lists(&mut object, kernel)?;
    attach(&mut object, kernel, &settings)?;
    let running_code = Running::begin(&mut object, host);
    let watching = Watching::new(settings.calls);
    let mut response = Response {
        object,
        room,
        settings,
        symbols: Symbols::new(host, Some(kernel)),
        stacks: StackNames::default(),
        tops: Tops::default(),
        interpreters: Interpreters::default(),
        steps: Steps::default(),
        ended: Vec::new(),
        requests: 0,
        open: Open::default(),
        others: None,
        began: 0,
        ticks: None,
        calls: watching,
        running: false,
        look_next: 0.0,
        look_in: 0.0,
        timeline_samples: TimelineSamples::default(),
        polls: Polls::default(),
        running_code,
        pass: pair.as_ref().filter(|pair| pair.is_in_a_program()).map(|_| trap::seconds(host)),
        ledger: None,
    };
    response.begin(host)?;
    response.ask_interpreters(host, &filter.pids);
    if let Some(pair) = &pair {
        // What begins before the observation would be longer than it.
        // A command is measured with what it starts, of which nothing is there yet: the programs ask whose child it is.
        let pids = if filter.command.is_some() { &[][..] } else { &filter.pids };
        pair.attach(&mut response.object, host, pids)?;
    }
    let is_there = |pid: &u32| host.exists(&format!("proc/{pid}"));
    if pair.is_none() && filter.pids.iter().any(is_there) && !kernel::is_any_observed(&response.object)? {
        // Others may still see them.
        let why = "the programs inside the kernel see no thread of these processes, though /proc shows them";
        return Err(Unavailable::new(Reason::NotVisible, why));
    }
    Ok(Box::new(response))
}

fn attach(object: &mut Object, kernel: &Kernel, settings: &Settings) -> Result<(), Unavailable> {
    for iterator in ["begin_threads", "end_threads"] {
        object.load_iterator(kernel, iterator, "task")?;
    }
    for event in
        ["sched_switch", "sched_waking", "sched_wakeup", "sched_wakeup_new", "sched_process_exec", "sched_process_exit"]
    {
        object.attach(kernel, Hook::Tracepoint(event))?;
    }
    if settings.calls != CallWatching::Never {
        for event in watching::EVENTS {
            object.prepare(kernel, event)?;
        }
    }
    for event in LOCKS.iter().filter(|_| settings.locks) {
        object.attach(kernel, Hook::Tracepoint(event))?;
    }
    // Without block devices there is no such event; then there is no device to name either.
    if kernel.has_tracepoint("block_bio_queue") {
        block::attach_request(object, kernel, "block_bio_queue")?;
        for event in ["block_rq_complete", "block_bio_complete"] {
            object.attach(kernel, Hook::Tracepoint(event))?;
        }
    }
    Ok(())
}

/// How calls are to be watched. Runs are short, and each is to be known.
fn call_watching(params: &Params, filter: &Filter) -> CallWatching {
    let part = params.nanoseconds("calls_for");
    match part {
        _ if !params.flag("calls") => CallWatching::Never,
        _ if filter.each || part >= watching::PERIOD => CallWatching::Always,
        0 => CallWatching::Never,
        _ if filter.command.is_some() => CallWatching::WhileFew(part),
        _ => CallWatching::Parts(part),
    }
}

/// How many threads there are to be observed, roughly.
fn expected(host: &Host, filter: &Filter) -> u32 {
    if filter.marks.is_some() {
        return REQUESTS;
    }
    if filter.each {
        // Short runs end by the hundred between two polls.
        return RUNS;
    }
    if filter.command.is_some() {
        return COMMAND;
    }
    if filter.pids.is_empty() {
        return offcputime::tasks(host) / 4;
    }
    let threads = |pid: &u32| host.list(&format!("proc/{pid}/task")).map_or(0, |threads| threads.len());
    u32::try_from(filter.pids.iter().map(threads).sum::<usize>()).unwrap_or(u32::MAX)
}
