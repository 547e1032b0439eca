//! Counts, sums and distributions at any point: a tracepoint, or a function of the kernel, of a program or a library. Two probes share one
//! program, whose constants say what to read, so no compiler is needed on the host.
//!
//! What a point has (fields of a record, arguments and results in registers) lies at an offset of the program's context, which tracefs, the
//! calling convention or the kernel's types tell (`rdiag_kernel::mechanism::points`). The program (`point.h`) reads and compares whatever
//! its constants name, and the verifier removes the rest. Each of several points has an object of its own, since the same field lies
//! elsewhere at each, and counting begins when all are attached. Keys that are text stand in a table of their own, by what they hold, so
//! that the key of a sum stays a few words.
//!
//! What is written is checked when a playbook is loaded (`grammar.rs`); whether the point and its fields exist, the machine says. Where no
//! program may be in the kernel, histogram triggers of its own tracing sum up instead (`triggers.rs`).

mod counting;
mod names;
mod order;
mod query;
mod stacks;
mod tabled;
mod tables;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod tests_instead;
mod triggers;

use super::per_point::{PerPoint, per_point, wrong};
use crate::def::{FilterKind, GivesStacks, ParamDef, ParamKind, Params, ProbeDef};
use crate::params::MARKER;
use query::Query;
use rdiag_kernel::mechanism::points::{Point, PointError};
use rdiag_model::metric::Pick;
use rdiag_model::{Formula, MetricDef, Unit};

pub(super) static PROBE: ProbeDef = ProbeDef {
    id: "count",
    question: "How often is a tracepoint passed or a function called, by which task, with what, from where?",
    attach: ATTACH,
    output: "The number of events and their rate, in all or by key, and the sum and mean of a value; with stacks as the key, the number \
             or the sum by stack.",
    caveats: CAVEATS,
    overhead: OVERHEAD,
    params: &[
        FUNCTION,
        TRACEPOINT,
        USDT,
        ParamDef { name: "value", kind: ParamKind::Value, default: "", help: VALUE_HELP },
        KEY,
        FILTER,
        TOP,
    ],
    filters: &[FilterKind::Pid, FilterKind::Comm, FilterKind::Cgroup],
    streams: false,
    stacks: GivesStacks::Always,
    metrics: &[
        MetricDef {
            id: "count.events.per_second",
            unit: Unit::PerSecond,
            help: "Events at the point that the probe was given, per second. Without stacks as the key.",
            sources: &[Formula::probe(Pick::ColumnSum("counts", "per_second"))],
            caveat: "What the point is, the playbook says.",
            manual: "perf stat -a -e GROUP:EVENT sleep 10",
            ..MetricDef::EMPTY
        },
        MetricDef {
            id: "count.key.per_second",
            unit: Unit::PerSecond,
            dimension: Some("key"),
            help: "Events at the point that the probe was given, per second and key.",
            sources: &[Formula::probe(Pick::Column("counts", "per_second"))],
            caveat: "The keys with most; the others are summed up.",
            manual: "bpftrace -e 'tracepoint:GROUP:EVENT { @[comm] = count(); }'",
            ..MetricDef::EMPTY
        },
    ],
    start: |context| counting::start(context, Kind::Sums),
};

pub(super) static HIST: ProbeDef = ProbeDef {
    id: "hist",
    question: "How are the values of an argument, a field, a result or the time of a function distributed?",
    attach: ATTACH,
    output: "The distribution of the value, in all or by key, with mean, percentiles and maximum.",
    caveats: CAVEATS,
    overhead: OVERHEAD,
    params: &[
        FUNCTION,
        TRACEPOINT,
        USDT,
        ParamDef {
            name: "value",
            kind: ParamKind::Value,
            default: "",
            help: "what is distributed: a field, arg1, return or latency; of a function, latency if nothing is given",
        },
        KEY,
        FILTER,
        TOP,
    ],
    filters: &[FilterKind::Pid, FilterKind::Comm, FilterKind::Cgroup],
    streams: false,
    stacks: GivesStacks::Never,
    metrics: &[],
    start: |context| counting::start(context, Kind::Distribution),
};

pub(super) const ATTACH: &str = "The tracepoint, function or marked place that is given, or all that fit a pattern: perf tracepoint, \
    fentry and fexit where \
     they can be, else kprobe and kretprobe, uprobe and uretprobe. Where no program may be in the kernel, count and hist have \
     tracepoints, and functions of the kernel as kprobe events, summed up by the kernel's own tables (histogram triggers of tracefs): no \
     latency, text, control groups or stacks of programs, at most three keys, and distributions by power of two.";
pub(super) const CAVEATS: &str = "Arguments of functions are taken from the registers where C passes whole numbers and addresses; \
    structures by value, \
     floating point and what a compiler passes in its own ways are not seen. What lies behind a pointer that leads nowhere is 0. Kernels \
     before 6.12 may have no \
     kernel stack at tracepoints of system calls. Text that \
     is a key counts by its first 127 bytes. A name stands for what is called: code that was \
     inlined calls nothing. An event in an interrupt is the task's that was interrupted, and one that interrupts a program of the \
     same kind is missed. A call counts for its latency or result when it returns, if it began after the probe. Of a command, the few \
     calls with which rdiag starts it count too. Several points are attached one after the other, and counted when all are.";
pub(super) const OVERHEAD: &str = "A tracepoint with a key or a distribution took 0.1 to 0.35 µs per event, with a line for each 0.3 µs. A \
    function of a program is stopped by a trap at each call, 17 to 20 µs \
     on one virtual machine (bpftrace took the same): the budget sees only the 0.1 µs of it that the probe takes, so look at functions \
     that are called often with --pid, and briefly.";
const VALUE_HELP: &str =
    "what to sum up, beside counting: a field, arg1, return or latency; with a type as in return:s32 if need be";
pub(super) const FUNCTION: ParamDef = ParamDef {
    name: "function",
    kind: ParamKind::Function,
    default: "",
    help: "vfs_read (of the kernel), libc:malloc (of a library or program in the usual folders), /path/to/file:function; vfs_* means up to \
           200 functions, as `rdiag probe list 'vfs_*'` shows them",
};
pub(super) const TRACEPOINT: ParamDef = ParamDef {
    name: "tracepoint",
    kind: ParamKind::Tracepoint,
    default: "",
    help: "group:event as `rdiag list events` shows them, such as kmem:kmalloc; kmem:* means up to 200 of them",
};
pub(super) const USDT: ParamDef = ParamDef {
    name: MARKER,
    kind: ParamKind::Marker,
    default: "",
    help: "a place that the developers of a program or library have marked, FILE:PROVIDER:NAME such as python3:python:gc__start; \
           NAME may be a pattern",
};
const KEY: ParamDef = ParamDef {
    name: "key",
    kind: ParamKind::Keys,
    default: "",
    help: "what to group by, separated by commas: comm, pid, tid, cpu, cgroup, a field, arg1, return, text (filename, or \
           arg1:string), the function of the kernel that an address is in (call_site:ksym); for count also stack, user_stack, \
           kernel_stack; a field that is called like one of these is args.pid",
};
pub(super) const FILTER: ParamDef = ParamDef {
    name: "filter",
    kind: ParamKind::Filter,
    default: "",
    help: "what must hold: bytes_req > 1000 and node == 0; == != < <= > >=, & for common bits, latency > 5ms",
};
const TOP: ParamDef = ParamDef {
    name: "top",
    kind: ParamKind::Count { min: 1, max: 5000 },
    default: "50",
    help: "how many keys or stacks to show",
};

/// Threads whose calls under way are remembered, of all points.
pub(super) const THREADS: u32 = 8192;
/// Distributions by key and stacks take much memory, so they are kept of so many points at most.
const MOST_WITH_MEMORY: usize = 16;

/// `struct key` of the program.
type Key = [u64; 9];

/// Which of the probes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Sums,
    Distribution,
}

/// What is wrong with the points and the other parameters.
pub(super) fn check(points: Vec<Point>, id: &str, params: &Params) -> Result<(), PointError> {
    queries(points, id, params).map(drop)
}

/// Of a function the time that it takes is asked for most.
fn default_value(id: &str) -> Option<&'static str> {
    (id == HIST.id).then_some("latency")
}

/// Queries that make sense for the probe, one for each point.
fn queries(points: Vec<Point>, id: &str, params: &Params) -> Result<PerPoint<Query>, PointError> {
    let (Some(first), Some(last)) = (points.first(), points.last()) else {
        return Err(wrong("there is no point".into()));
    };
    let shows_point = first.name != last.name;
    let name = ["function", "tracepoint", MARKER].iter().find_map(|name| params.text(name)).unwrap_or_default();
    let title = if shows_point { name.to_owned() } else { first.name.clone() };
    let mut queries = per_point(points, params, |reads| Query::new(reads, params, default_value(id)))?;
    for query in &mut queries.each {
        (query.shows_point, query.title) = (shows_point, title.clone());
        if id == HIST.id && query.value.is_none() {
            return Err(wrong("say what is to be distributed: value=FIELD".into()));
        }
        if id == HIST.id && query.has_stack() {
            return Err(wrong("distributions are not kept by stack; count sums up by stack".into()));
        }
    }
    let takes_memory = queries.each.iter().any(|query| query.has_stack() || id == HIST.id && query.has_key());
    if takes_memory && queries.each.len() > MOST_WITH_MEMORY {
        let what = if id == HIST.id { "distributions by key" } else { "stacks" };
        let message =
            format!("{what} are kept of at most {MOST_WITH_MEMORY} points, and {title:?} has {}", queries.each.len());
        return Err(wrong(message));
    }
    Ok(queries)
}
