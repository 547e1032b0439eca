//! Events that the kernel announces by itself (tracepoints), one line for each, and how many there were of each.

mod bounds;
mod log;
mod setup;

use std::cell::RefCell;
use std::collections::BTreeSet;

use super::traced::Account;
use crate::def::{Context, FilterKind, GivesStacks, ParamDef, ParamKind, Probe, ProbeDef, Taken};
use bounds::Bounds;
use log::{Clock, Log, ShownEvent};
use rdiag_kernel::host::Host;
use rdiag_kernel::mechanism::symbols::Symbols;
use rdiag_kernel::mechanism::tracefs::event_cost::Spent;
use rdiag_kernel::mechanism::tracefs::instance::Instance;
use rdiag_kernel::mechanism::tracefs::merged::Merged;
use rdiag_kernel::mechanism::tracefs::names::Names;
use rdiag_kernel::mechanism::tracefs::records::Kinds;
use rdiag_model::probe::{Attachment, Output};
use rdiag_model::{Unavailable, Unit};

pub(super) static PROBE: ProbeDef = ProbeDef {
    id: "events",
    question: "Which events of the kernel happen, when, where and in whose name, and how many of each?",
    attach: "Any tracepoint (`event=sched:sched_switch,irq:*`), in an instance of the kernel's tracing of its own.",
    output: "A line for each event: seconds since the start, CPU, task, event, what the CPU was in the middle of, and the \
             event's own fields; and how many there were of each event.",
    caveats: "The task is the one on the CPU: an interrupt is attributed to the task that it interrupted. A \
              task has the name that it had then; of one that was there before the probe and ended before it was looked at, it is not \
              known. What starts or stops the log may be done by any task, and may itself be in the log or not. Marks that \
              programs write to trace_marker of the instance, rdiag-PID-…, stand among the events. \
              rdiag's own events are left out from Linux 5.8 on.",
    overhead: "A task took 0.2 µs more for each of its events on one virtual machine. Reading it is rdiag's own, and \
               more than a probe that counts inside the kernel takes; text is made of those that are shown. Ask for few events, or put a \
               filter on them. The budget counts both: the events that \
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
                   of the kernel: `vfs_read`; in any task",
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

struct Events {
    // The buffers are closed before the instance is removed: fields are dropped in this order.
    records: Merged,
    instance: Instance,
    kinds: Kinds,
    names: Names,
    /// Functions of the kernel, once an event that names one is shown.
    symbols: Option<Symbols>,
    log: Log,
    bounds: Bounds,
    attached: Vec<Attachment>,
    account: Account,
}

fn start(context: &Context<'_>) -> Result<Box<dyn Probe>, Unavailable> {
    let host = context.host;
    let (instance, chosen, cost) = setup::prepare(context)?;
    let account = Account::new(cost, &instance, host);
    let events: Vec<_> = chosen.iter().flat_map(|(_, events)| events).collect();
    let kinds = Kinds::read(&instance, host, &events)?;
    let records = Merged::open(&instance, host)?;
    let clock = context.params.text("clock").unwrap_or(MONOTONIC);
    let names = Names::follow(host, clock);
    let (unit, step) = match clock {
        "counter" | "x86-tsc" => (Unit::Count, 1.0),
        // In hundredths, whatever the kernel counts by itself.
        "uptime" => (Unit::Seconds, 1e-2),
        _ => (Unit::Seconds, 1e-9),
    };
    let began = (clock == MONOTONIC).then(|| host.now());
    let bounds = Bounds::begin(context, &instance)?;
    let attached = chosen.iter().map(|(pattern, events)| attachment(pattern, events.len())).collect();
    let mut log = Log::new(Clock { unit, step, began }, context.params.count("lines"));
    if context.params.flag("last") {
        log.keep_last();
    }
    Ok(Box::new(Events { records, instance, kinds, names, symbols: None, log, bounds, attached, account }))
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
        let Self { records, instance, kinds, names, log, account, .. } = self;
        // What is later may still have something before it that another CPU has not written down.
        let now = instance.now(host).filter(|_| !account.is_closed()).unwrap_or(u64::MAX);
        account.reading(|| {
            names.poll(host);
            records.poll(now, |time, cpu, record| {
                let Some(head) = kinds.head(record) else { return };
                log.add(head.kind, || {
                    names.learn(host, head.tid);
                    let task = names.name(head.tid, time).map(str::to_owned);
                    ShownEvent { time, cpu, head, task, record: record.to_vec() }
                });
            })
        })?;
        self.names.settle(now);
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
        let mut lost = self.account.lost(&self.instance, host);
        if self.account.is_closed() {
            lost.push(("there was no time to read them", self.records.waiting()));
        }
        self.learn_functions(host);
        let Self { kinds, symbols, log, .. } = self;
        let function = |address: u64| symbols.as_ref()?.name(None, address).map(str::to_owned);
        let (events, counts) = log.take(kinds, |event| kinds.text(event.head.kind, &event.record, &function));
        let outputs = vec![Output::Events(events), Output::Table(counts)];
        let mut notes = self.bounds.notes();
        notes.extend(self.symbols.iter().flat_map(Symbols::notes).map(str::to_owned));
        Ok(Taken { outputs, lost, notes })
    }
}

impl Events {
    /// Looks up the functions of the kernel that are named by the events that are about to be shown.
    fn learn_functions(&mut self, host: &Host) {
        let Self { kinds, symbols, log, .. } = self;
        let addresses = RefCell::new(BTreeSet::new());
        for ShownEvent { head, record, .. } in log.rows().filter(|event| kinds.names_functions(event.head.kind)) {
            let _ = kinds.text(head.kind, record, &|address| {
                addresses.borrow_mut().insert(address);
                None
            });
        }
        let addresses = addresses.into_inner();
        if !addresses.is_empty() {
            let symbols = symbols.get_or_insert_with(|| Symbols::new(host, None));
            symbols.learn_functions(host, None, addresses);
            symbols.settle(host);
        }
    }
}
