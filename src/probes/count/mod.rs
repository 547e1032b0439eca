//! Counts, sums and distributions at any point: a tracepoint, or a function of the kernel, of a program or a library. Two probes
//! share one program, whose constants say what to read.

mod plan;
mod tables;
#[cfg(test)]
mod tests;

use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet};

use super::reads::{Reads, Totals, wrong};
use super::{Context, FilterKind, GivesStacks, ParamDef, ParamKind, Params, Probe, ProbeDef, Taken};
use crate::host::Host;
use crate::mechanism::ebpf::{Moments, Object, hist, include_bytes_aligned};
use crate::mechanism::points::PointError;
use crate::mechanism::symbols::{Process, Summary, Symbols, calls, summarize};
use crate::model::metric::Pick;
use crate::model::probe::Output;
use crate::model::{Formula, MetricDef, Reason, Unavailable, Unit};
use plan::Plan;
use tables::Sum;

pub(super) static PROBE: ProbeDef = ProbeDef {
    id: "count",
    question: "How often does the kernel pass a tracepoint, or anybody call a function, and by whom, with what, from where?",
    attach: ATTACH,
    output: "The number of events and their rate, in all or by key, and the sum and mean of a value; with stacks as the key, the number \
             or the sum by stack.",
    caveats: CAVEATS,
    overhead: OVERHEAD,
    params: &[
        FUNCTION,
        TRACEPOINT,
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
            dimension: None,
            help: "Events at the point that the probe was given, per second. Without stacks as the key.",
            sources: &[Formula::probe(Pick::ColumnSum("counts", "per_second"))],
            caveat: "What the point is, the playbook says.",
            manual: "perf stat -a -e GROUP:EVENT sleep 10",
        },
        MetricDef {
            id: "count.key.per_second",
            unit: Unit::PerSecond,
            dimension: Some("key"),
            help: "Events at the point that the probe was given, per second and key.",
            sources: &[Formula::probe(Pick::Column("counts", "per_second"))],
            caveat: "The keys with most; the others are summed up.",
            manual: "bpftrace -e 'tracepoint:GROUP:EVENT { @[comm] = count(); }'",
        },
    ],
    start: |context| start(context, Kind::Sums),
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
    start: |context| start(context, Kind::Distribution),
};

pub(super) const ATTACH: &str =
    "The tracepoint or function that is given: perf tracepoint, kprobe and kretprobe, uprobe and uretprobe.";
pub(super) const CAVEATS: &str = "Arguments of functions are taken from the registers where C passes whole numbers and addresses; structures by value, \
     floating point and what a compiler passes in its own ways are not seen. A name stands for what is called: code that was \
     inlined calls nothing. An event in an interrupt is the task's that was interrupted, and one that interrupts a program of the \
     same kind is missed. A call counts for its latency or result when it returns, if it began after the probe. Of a command, the few \
     calls with which rdiag starts it count too.";
pub(super) const OVERHEAD: &str = "A tracepoint with a key took 0.1 to 0.35 µs per event. A function of a program is stopped by a trap at each call, 17 to 20 µs \
     on one virtual machine (bpftrace took the same): the budget sees only the 0.1 µs of it that the probe takes, so look at functions \
     that are called often with --pid, and briefly.";
const VALUE_HELP: &str =
    "what to sum up, beside counting: a field, arg1, return or latency; with a type as in return:s32 if need be";
pub(super) const FUNCTION: ParamDef = ParamDef {
    name: "function",
    kind: ParamKind::Function,
    default: "",
    help: "vfs_read (of the kernel), libc:malloc (of a library or program in the usual folders), /path/to/file:function",
};
pub(super) const TRACEPOINT: ParamDef = ParamDef {
    name: "tracepoint",
    kind: ParamKind::Tracepoint,
    default: "",
    help: "group:event as `rdiag list events` shows them, such as kmem:kmalloc",
};
const KEY: ParamDef = ParamDef {
    name: "key",
    kind: ParamKind::Keys,
    default: "",
    help: "by what to tell apart, separated by commas: comm, pid, tid, cpu, a field, arg1, return; for count also stack, \
           user_stack, kernel_stack; a field that is called like one of these is args.pid",
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

/// Keys that are told apart at once; more are counted together.
const SUMS: u32 = 10_240;
/// Memory that distributions by key may take, in bytes; each takes 4 KB for each CPU.
const HISTS_BYTES: u32 = 16 << 20;
/// Threads whose calls under way are remembered.
pub(super) const THREADS: u32 = 8192;
/// Distinct stacks that the kernel's table holds.
const STACKS: u32 = 16_384;
/// It is emptied in time.
const STACKS_KEPT: usize = 8192;
/// Frames that the program takes at most.
const DEPTH: usize = 127;
/// What stands in place of a stack's name when it could not be taken.
const MISSING: u64 = 1;

/// `struct key` of the program.
type Key = [u64; 9];

/// Which of the probes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Sums,
    Distribution,
}

struct Counting {
    object: Object,
    plan: Plan,
    kind: Kind,
    top: usize,
    since: f64,
    /// Sums as they were at the last reading: the kernel's are never set back, so that nothing is lost in between.
    before: HashMap<Key, Sum>,
    totals: Totals,
    stacks: Option<Stacks>,
}

/// What is known of stacks.
#[derive(Default)]
struct Stacks {
    symbols: Symbols,
    sums: HashMap<Key, Sum>,
    addresses: HashMap<u64, Vec<u64>>,
    /// Stacks that the kernel's table holds, as far as we have seen them.
    kept: HashSet<u64>,
}

/// What is wrong with the parameters.
pub(super) fn check(reads: Reads, id: &str, params: &Params) -> Result<(), PointError> {
    planned(reads, id, params).map(drop)
}

/// Of a function the time that it takes is asked for most.
fn default_value(id: &str) -> Option<&'static str> {
    (id == HIST.id).then_some("latency")
}

/// A plan that makes sense for the probe.
fn planned(reads: Reads, id: &str, params: &Params) -> Result<Plan, PointError> {
    let plan = Plan::new(reads, params, default_value(id))?;
    if id == HIST.id && plan.value.is_none() {
        return Err(wrong("say what is to be distributed: value=FIELD".into()));
    }
    if id == HIST.id && plan.has_stack() {
        return Err(wrong("distributions are not kept by stack; count sums up by stack".into()));
    }
    Ok(plan)
}

fn start(context: &Context<'_>, kind: Kind) -> Result<Box<dyn Probe>, Unavailable> {
    if context.host.is_recorded() || context.host.is_seen_from_outside() {
        return Err(Unavailable::new(Reason::NotVisible, "a recorded tree has no running kernel to attach to"));
    }
    let id = if kind == Kind::Sums { PROBE.id } else { HIST.id };
    let reads = Reads::new(context.host, context.params, &context.filter.pids);
    let plan = reads.and_then(|reads| planned(reads, id, context.params)).map_err(PointError::gap)?;
    let moments = plan.reads.moments();
    let bytes = include_bytes_aligned!(concat!(env!("CARGO_MANIFEST_DIR"), "/src/probes/count/count.bpf.o"));
    let mut globals = context.filter.globals(context.host)?;
    globals.extend(plan.globals(kind == Kind::Distribution));
    // What is not needed has room for one entry.
    let size = |needed: bool, entries: u32| if needed { entries } else { 1 };
    let each = (hist::WORDS as u32 * 8).saturating_mul(context.host.facts().cpus.max(1));
    let entries = [
        ("point_sums", size(kind == Kind::Sums && plan.has_key(), SUMS)),
        ("point_hists", size(kind == Kind::Distribution && plan.has_key(), (HISTS_BYTES / each).clamp(64, 512))),
        ("point_stacks", size(plan.has_stack(), STACKS)),
        ("point_calls", size(moments == Moments::Both, THREADS)),
    ];
    let mut object = context.kernel()?.load(bytes, globals, &entries)?;
    object.attach_point(&plan.reads.point, moments, &context.filter.pids)?;
    let stacks = plan.has_stack().then(|| Stacks { symbols: Symbols::new(context.host), ..Stacks::default() });
    Ok(Box::new(Counting {
        object,
        plan,
        kind,
        top: context.params.count("top") as usize,
        since: context.host.now(),
        before: HashMap::new(),
        totals: Totals::default(),
        stacks,
    }))
}

impl Counting {
    /// The sums by key since the last reading.
    fn new_sums(&mut self) -> Result<Vec<(Key, Sum)>, Unavailable> {
        let mut changed = Vec::new();
        for (key, copies) in self.object.per_cpu_hash::<Key, [u64; 2]>("point_sums")? {
            let now = of_all_cpus(&copies);
            let before = self.before.insert(key, now).unwrap_or_default();
            if now.count > before.count {
                changed.push((key, Sum { count: now.count - before.count, sum: now.sum.wrapping_sub(before.sum) }));
            }
        }
        Ok(changed)
    }

    fn outputs(&mut self, host: &Host, totals: &Totals, seconds: f64) -> Result<(Vec<Output>, u64), Unavailable> {
        if self.kind == Kind::Distribution {
            let hists = if self.plan.has_key() {
                let taken = self.object.take_per_cpu_hash::<Key, hist::Hist>("point_hists")?;
                taken.into_iter().map(|(key, copies)| (key, hist::sum(&copies))).collect()
            } else {
                vec![([0; 9], self.object.take_hist("point_hist", 0)?)]
            };
            let (output, left_out) = self.plan.histogram(hists, self.top);
            return Ok((vec![output], left_out));
        }
        if self.stacks.is_some() {
            self.gather(host)?;
            return Ok((self.by_stack(host, totals), 0));
        }
        let sums = if self.plan.has_key() {
            self.new_sums()?
        } else {
            vec![([0; 9], Sum { count: totals.events, sum: totals.sum })]
        };
        Ok((vec![Output::Table(self.plan.table(&sums, seconds, self.top))], 0))
    }

    /// Takes over sums by stack, and has new addresses looked up while their processes live.
    fn gather(&mut self, host: &Host) -> Result<(), Unavailable> {
        let Some(stacks) = &mut self.stacks else { return Ok(()) };
        for (key, copies) in self.object.take_per_cpu_hash::<Key, [u64; 2]>("point_sums")? {
            let fresh = of_all_cpus(&copies);
            let sum = stacks.sums.entry(key).or_default();
            *sum = Sum { count: sum.count + fresh.count, sum: sum.sum.wrapping_add(fresh.sum) };
            let [.., kernel, user, tgid, born] = key;
            let process = Process { pid: tgid as u32, born };
            for (process, id) in [(None, kernel), (Some(process), user)] {
                stacks.learn(host, &self.object, process, id);
            }
        }
        if stacks.kept.len() > STACKS_KEPT {
            stacks.kept.clear();
            self.object.take_hash::<u64, [u64; DEPTH]>("point_stacks")?;
        }
        Ok(())
    }

    fn by_stack(&mut self, host: &Host, totals: &Totals) -> Vec<Output> {
        let (Some(stacks), plan) = (&mut self.stacks, &self.plan) else { return Vec::new() };
        let sums = std::mem::take(&mut stacks.sums);
        let samples: Vec<_> = sums.iter().map(|(key, sum)| plan.sample(key, *sum, &stacks.addresses)).collect();
        let unit = plan.value.as_ref().map_or(Unit::Count, |value| value.unit().0);
        let title = plan.title("");
        let of = Summary { id: "stacks", title: &title, unit, top: self.top, depth: DEPTH };
        let mut summed = summarize(host, &mut stacks.symbols, &samples, of);
        // The whole is exact, whatever came while it was read.
        let told = sums
            .values()
            .fold(Sum::default(), |all, sum| Sum { count: all.count + sum.count, sum: all.sum.wrapping_add(sum.sum) });
        summed.others += match &plan.value {
            Some(value) => value.sum(totals.sum.wrapping_sub(told.sum)),
            None => totals.events.saturating_sub(told.count) as f64,
        };
        drop(samples);
        if stacks.addresses.len() > STACKS_KEPT {
            stacks.addresses.clear();
        }
        vec![Output::Stacks(summed)]
    }
}

impl Stacks {
    /// Reads a stack that is new, and has its addresses looked up.
    fn learn(&mut self, host: &Host, object: &Object, process: Option<Process>, id: u64) {
        if id <= MISSING {
            return;
        }
        self.kept.insert(id);
        let stack = match self.addresses.entry(id) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(vacant) => match object.hash_value::<u64, [u64; DEPTH]>("point_stacks", &id) {
                Some(stack) => vacant.insert(taken(&stack)),
                None => return,
            },
        };
        self.symbols.learn(host, process, calls(process, stack));
    }
}

/// The addresses of a stack, innermost first. The first place is empty where the kernel knew the caller itself.
fn taken(stack: &[u64; DEPTH]) -> Vec<u64> {
    let skip = usize::from(stack.first() == Some(&0));
    stack.iter().skip(skip).take_while(|address| **address != 0).copied().collect()
}

fn of_all_cpus(copies: &[[u64; 2]]) -> Sum {
    let add = |all: Sum, [count, sum]: &[u64; 2]| Sum { count: all.count + count, sum: all.sum.wrapping_add(*sum) };
    copies.iter().fold(Sum::default(), add)
}

impl Probe for Counting {
    fn object(&self) -> Option<&Object> {
        Some(&self.object)
    }

    fn poll(&mut self, host: &Host) -> Result<(), Unavailable> {
        self.gather(host)
    }

    fn read(&mut self, host: &Host) -> Result<Taken, Unavailable> {
        let totals = self.totals.advance(&self.object)?;
        let now = host.now();
        let seconds = (now - std::mem::replace(&mut self.since, now)).max(1e-9);
        let (outputs, left_out) = self.outputs(host, &totals, seconds)?;
        let mut notes = Vec::new();
        if totals.negative > 0 {
            let name = self.plan.value.as_ref().map_or("", |value| value.name.as_str());
            notes.push(format!("{} values of {name} were negative and are not in the distribution", totals.negative));
        }
        if left_out > 0 {
            notes.push(format!("{left_out} values of other keys are not shown"));
        }
        if let Some(stacks) = &self.stacks {
            notes.extend(stacks.symbols.notes().map(str::to_owned));
        }
        Ok(Taken { outputs, lost: totals.lost().to_vec(), notes })
    }
}
