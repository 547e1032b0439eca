//! Events that the kernel announces by itself (tracepoints), one line for each, and how many there were of each.

mod bounds;
mod log;
mod setup;

use super::traced::Account;
use super::{Context, FilterKind, GivesStacks, ParamDef, ParamKind, Probe, ProbeDef, Spent, Taken};
use bounds::Bounds;
use log::Log;
use rdiag_kernel::host::Host;
use rdiag_kernel::mechanism::tracefs::instance::{Instance, Pipe};
use rdiag_kernel::mechanism::tracefs::line::Lines;
use rdiag_model::probe::{Attachment, Output};
use rdiag_model::{Unavailable, Unit};

pub(super) static PROBE: ProbeDef = ProbeDef {
    id: "events",
    question: "Which events of the kernel happen, when, where and in whose name, and how many of each?",
    attach: "Any tracepoint (`event=sched:sched_switch,irq:*`), in an instance of the kernel's tracing of its own.",
    output: "A line for each event: seconds since the start, CPU, task, event, what the CPU was in the middle of, and the \
             event's own fields; and how many there were of each event.",
    caveats: "The task is the one on the CPU: an interrupt happens in the name of whoever was interrupted. Times are whole \
              microseconds. A task has the name that it had last. What starts or stops the log may be done by any task, and may itself be in the log or not. Marks that \
              programs write to trace_marker of the instance, rdiag-PID-…, stand among the events. A file name or another text within an event may contain line breaks that look like another event. \
              rdiag's own events are left out from Linux 5.8 on.",
    overhead: "A task took 0.2 µs more for each of its events on one virtual machine. Making text of each and reading it is rdiag's own, and far \
               more than a probe that counts inside the kernel takes. Ask for few events, or put a filter on them. The budget counts both: the events that \
               are logged, at what one takes when it is tried at the start, and the reading. What a filter leaves out is not in it.",
    params: &[
        ParamDef {
            name: "event",
            kind: ParamKind::Tracepoints,
            default: "sched:sched_process_fork,sched:sched_process_exec,sched:sched_process_exit",
            help: "which: group:name, with * and ?, separated by commas",
        },
        ParamDef {
            name: "filter",
            kind: ParamKind::Text,
            default: "",
            help: "only events whose fields fit, in the kernel's own words: `prev_state == 2 && prev_comm ~ \"dd*\"`; every \
                   event that was asked for must have the fields",
        },
        ParamDef {
            name: "start_when",
            kind: ParamKind::Condition,
            default: "",
            help: "only from the first such event on: `sched:sched_process_exec if filename ~ \"*/dd\"`, or a call of a function \
                   of the kernel: `vfs_read`; whoever it happens to",
        },
        ParamDef {
            name: "stop_when",
            kind: ParamKind::Condition,
            default: "",
            help: "only until the first such event: that ends the measurement",
        },
        ParamDef {
            name: "lines",
            kind: ParamKind::Count { min: 0, max: 1_000_000 },
            default: "10000",
            help: "show so many events and only count the others",
        },
        ParamDef {
            name: "last",
            kind: ParamKind::Flag,
            default: "false",
            help: "show the last events in place of the first, at most 10000 and all at the end: what led to it (stop_when)",
        },
        ParamDef { name: "cpus", kind: ParamKind::Text, default: "", help: "only on these CPUs: 0,2-3" },
        ParamDef {
            name: "clock",
            kind: ParamKind::Text,
            default: MONOTONIC,
            help: "the kernel's clock that stamps events (local, global, counter, boot …); only mono counts from the start",
        },
        ParamDef {
            name: "buffer_kb",
            kind: ParamKind::Count { min: 4, max: 1_048_576 },
            default: "4096",
            help: "memory for events that are not yet read, for each CPU, in KiB",
        },
    ],
    filters: &[FilterKind::Pid],
    streams: true,
    stacks: GivesStacks::Never,
    metrics: &[],
    start,
};

/// The clock that everything else in rdiag goes by.
const MONOTONIC: &str = "mono";
/// As much is read at once.
const PIECE: usize = 64 << 10;
/// As much is read in one turn, so that a flood does not keep rdiag from anything else.
const TURN: usize = 16 << 20;

struct Events {
    // The pipe is closed before the instance is removed: fields are dropped in this order.
    pipe: Pipe,
    instance: Instance,
    lines: Lines,
    log: Log,
    bounds: Bounds,
    attached: Vec<Attachment>,
    account: Account,
    buffer: Vec<u8>,
}

fn start(context: &Context<'_>) -> Result<Box<dyn Probe>, Unavailable> {
    let host = context.host;
    let (instance, chosen, toll) = setup::prepare(context)?;
    let account = Account::new(toll, &instance, host);
    let pipe = instance.pipe(host)?;
    let clock = context.params.text("clock").unwrap_or(MONOTONIC);
    let began = (clock == MONOTONIC).then(|| host.now());
    let bounds = Bounds::begin(context, &instance)?;
    let unit = if ["counter", "x86-tsc"].contains(&clock) { Unit::Count } else { Unit::Seconds };
    let attached = chosen.iter().map(|(pattern, events)| attachment(pattern, events.len())).collect();
    let mut log = Log::new(began, unit, context.params.count("lines"), &chosen);
    if context.params.flag("last") {
        log.keep_last();
    }
    let buffer = vec![0; PIECE];
    Ok(Box::new(Events { pipe, instance, lines: Lines::default(), log, bounds, attached, account, buffer }))
}

fn attachment(pattern: &str, events: usize) -> Attachment {
    let event = if pattern.contains(['*', '?']) { format!("{pattern}, {events} events") } else { pattern.to_owned() };
    Attachment { event, back_end: "tracefs instance".into(), refused: Vec::new() }
}

impl Probe for Events {
    fn attachments(&self) -> Vec<Attachment> {
        self.attached.clone()
    }

    fn poll(&mut self, host: &Host) -> Result<(), Unavailable> {
        let Self { pipe, lines, log, account, buffer, .. } = self;
        account.reading(|| take_over(pipe, lines, log, buffer))?;
        self.bounds.look(&self.instance, host);
        Ok(())
    }

    fn close(&mut self) {
        self.account.close(&self.instance);
        self.log.close();
    }

    fn spent(&self, host: &Host) -> Option<Spent> {
        Some(self.account.spent(&self.instance, host))
    }

    fn is_over(&self) -> bool {
        self.bounds.is_over()
    }

    fn read(&mut self, host: &Host) -> Result<Taken, Unavailable> {
        self.poll(host)?;
        let lost = self.account.lost(&self.instance, host);
        let (events, counts) = self.log.take();
        let outputs = vec![Output::Events(events), Output::Table(counts)];
        Ok(Taken { outputs, lost, notes: self.bounds.notes() })
    }
}

/// Reads what is there, as much as fits into a turn.
fn take_over(pipe: &mut Pipe, lines: &mut Lines, log: &mut Log, buffer: &mut [u8]) -> Result<(), Unavailable> {
    let mut room = TURN;
    loop {
        let read = pipe.read(buffer)?;
        let piece = buffer.get(..read).unwrap_or_default();
        lines.feed(piece, &mut |line| log.add(line));
        room = room.saturating_sub(read);
        if read == 0 {
            lines.flush(&mut |line| log.add(line));
        }
        if read == 0 || room == 0 {
            return Ok(());
        }
    }
}
