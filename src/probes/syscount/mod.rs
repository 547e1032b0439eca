//! System calls: how many, by call and by process, how many failed and how; on request how long they took.

mod counters;

use super::calls;
use crate::def::{Context, FOR, FilterKind, GivesStacks, ParamDef, ParamKind, Probe, ProbeDef, Taken};
use counters::{Before, Counters};
use rdiag_kernel::host::Host;
use rdiag_kernel::mechanism::ebpf::{Global, Hook, Object, include_bytes_aligned};
use rdiag_model::metric::Pick;
use rdiag_model::{Deed, Formula, MetricDef, Unavailable, Unit};

/// Threads whose call under way is remembered.
const THREADS: u32 = 32_768;

pub(super) static PROBE: ProbeDef = ProbeDef {
    id: "syscount",
    question: "Which system calls are made, by which processes, and which of them fail?",
    attach: "sys_exit; with latency also sys_enter.",
    output: "For each call and each process the number of calls and of errors, and with latency the time they took; for \
             each call the errors that it gave.",
    caveats: "A call counts when it returns; exit and exit_group never do. The time of a call contains what it waited for: a \
              long read may be an idle one. Calls of 32-bit programs are one row, since their numbers mean other calls. \
              rt_sigreturn has no number when it returns.",
    overhead: "Every system call on the host takes the kernel's slow path while it runs, whomever it is limited to: an empty \
               call was 1.3 times slower with an empty program. Counting takes 45 ns for each call, and two runs of 77 ns \
               each with latency.",
    params: &[
        ParamDef {
            name: FOR,
            kind: ParamKind::Duration,
            default: "0s",
            help: "end after this long, so that calls are slowed down no longer than needed; 0 for the whole window",
        },
        ParamDef {
            name: "latency",
            kind: ParamKind::Flag,
            default: "false",
            help: "also measure how long calls take; costs a second program run for each call",
        },
        ParamDef::top("how many rows each table has"),
    ],
    filters: &[FilterKind::Pid, FilterKind::Comm, FilterKind::Cgroup],
    streams: false,
    stacks: GivesStacks::Never,
    metrics: &[
        MetricDef {
            id: "syscount.calls.per_second",
            unit: Unit::PerSecond,
            help: "System calls that returned, per second.",
            sources: &[Formula::probe(Pick::ColumnSum("calls", "per_second"))],
            caveat: "rdiag's own calls are left out.",
            manual: "perf stat -a -e raw_syscalls:sys_exit sleep 10",
            ..MetricDef::EMPTY
        },
        MetricDef {
            id: "syscount.call.per_second",
            unit: Unit::PerSecond,
            dimension: Some("call"),
            help: "How often one system call returned, per second.",
            sources: &[Formula::probe(Pick::Column("calls", "per_second"))],
            caveat: "The calls that were made most; the others are summed up.",
            manual: "perf stat -a -e 'syscalls:sys_exit_*' sleep 10",
            ..MetricDef::EMPTY
        },
        MetricDef {
            id: "syscount.process.per_second",
            unit: Unit::PerSecond,
            dimension: Some("process"),
            help: "System calls of one process that returned, per second.",
            sources: &[Formula::probe(Pick::Column("processes", "per_second"))],
            caveat: "The processes that made most; the others are summed up.",
            manual: "perf stat -e raw_syscalls:sys_exit -p PID sleep 10",
            deed: Some(Deed { verb: "made", of: "the system calls", ..Deed::USUAL }),
        },
        MetricDef {
            id: "syscount.call_errors.per_second",
            unit: Unit::PerSecond,
            dimension: Some("call"),
            help: "How often one system call returned an error, per second.",
            sources: &[Formula::probe(Pick::Column("calls", "errors_per_second"))],
            caveat: "Many errors are part of normal work: EAGAIN says that there is nothing to read, ENOENT that a \
                     search goes on.",
            manual: "strace -c -p PID (slows the process down many times)",
            ..MetricDef::EMPTY
        },
        MetricDef {
            id: "syscount.call_time.seconds",
            unit: Unit::Seconds,
            dimension: Some("call"),
            help: "Time that tasks spent in one system call, waiting included. Needs the parameter latency.",
            sources: &[Formula::probe(Pick::Column("calls", "time"))],
            caveat: "Calls that wait for work to come (poll, futex, read of a socket) lead it on an idle host.",
            manual: "strace -c -p PID (slows the process down many times)",
            ..MetricDef::EMPTY
        },
    ],
    start,
};

struct SysCount {
    object: Object,
    latency: bool,
    top: usize,
    since: f64,
    before: Before,
}

fn start(context: &Context<'_>) -> Result<Box<dyn Probe>, Unavailable> {
    let bytes = include_bytes_aligned!(concat!(env!("CARGO_MANIFEST_DIR"), "/syscount/syscount.bpf.o"));
    let latency = context.params.flag("latency");
    let mut globals = context.filter.globals(context.host)?;
    globals.push(Global::u32("latency", u32::from(latency)));
    globals.push(calls::numbers("no_return", &["exit", "exit_group"]));
    globals.push(calls::numbers("new_program", &["execve", "execveat"]));
    globals.push(calls::numbers("new_task", &["clone", "clone3", "fork", "vfork"]));
    let threads = if latency { THREADS } else { 1 };
    let mut object = context.kernel()?.load(bytes, globals, &[("begins", threads)])?;
    if latency {
        object.attach(context.kernel()?, Hook::Tracepoint("sys_enter"))?;
    }
    object.attach(context.kernel()?, Hook::Tracepoint("sys_exit"))?;
    let top = context.params.count("top") as usize;
    Ok(Box::new(SysCount { object, latency, top, since: context.host.now(), before: Before::default() }))
}

impl Probe for SysCount {
    fn object(&self) -> Option<&Object> {
        Some(&self.object)
    }

    fn read(&mut self, host: &Host) -> Result<Taken, Unavailable> {
        let counters = Counters::read(&self.object)?;
        let now = host.now();
        let seconds = (now - std::mem::replace(&mut self.since, now)).max(1e-9);
        let change = self.before.change(counters);
        Ok(Taken {
            outputs: change.outputs(self.latency, self.top, seconds),
            lost: vec![("errors whose number found no room (they are counted)", change.errors_without_room)],
            notes: change.notes(self.latency),
        })
    }
}
