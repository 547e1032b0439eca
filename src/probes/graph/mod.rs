//! The calls of kernel functions that a task makes, as a tree with durations. An instance of the kernel's tracing has no limit of depth and
//! none of the outermost function, so every call of the followed tasks is read, and the tree is cut here.

mod records;
mod tree;

use std::collections::{BTreeMap, BTreeSet};

use super::traced::Account;
use crate::def::{Context, FilterKind, GivesStacks, ParamDef, ParamKind, Probe, ProbeDef, Taken};
use rdiag_kernel::host::Host;
use rdiag_kernel::mechanism::symbols::Symbols;
use rdiag_kernel::mechanism::tracefs::event_cost::EventCost;
use rdiag_kernel::mechanism::tracefs::event_cost::Spent;
use rdiag_kernel::mechanism::tracefs::functions;
use rdiag_kernel::mechanism::tracefs::instance::{Followed, Instance};
use rdiag_kernel::mechanism::tracefs::raw::Buffers;
use rdiag_model::call_trace::{Call, CallTrace};
use rdiag_model::probe::{Attachment, Output};
use rdiag_model::{Reason, Unavailable};
use records::Shape;
use tree::{Limits, Node, Record, Tree};

pub(super) static PROBE: ProbeDef = ProbeDef {
    id: "graph",
    question: "Which functions of the kernel does a task call, through which others, and how long does each take?",
    attach: "The kernel's tracer of function calls (function_graph), in an instance of its own, for one command or processes; with \
        global=true \
             in the kernel's global buffer, where it does not run in an instance.",
    output: "The calls as a tree, in the order in which they happened, each with the time until it returned.",
    caveats: "Needs a kernel on which the tracer runs in an instance (Linux 6.12 and later do), or global=true: then the global tracing is \
              taken if it is unused, and given back as it was; if rdiag is killed, the next start of any of its probes that trace gives \
              it back. Functions that the compiler \
              inlined and those that may not be traced are part of their callers. Being traced takes time itself, many times that of a \
              small function, and counts as its callers'. Interrupts that happen meanwhile are part of the call that they \
              interrupted; one that comes just as a call returns stands within it, and may take longer than it. A function that gives up \
              the CPU takes the time until it goes on.",
    overhead: "On an emulated CPU a function that was traced took 2.6 µs more, as much as with the tracer set by hand (perf ftrace: 3.1 \
        µs); a \
               task that was not followed took 0.3 µs more for each, as while it runs every function of the kernel goes through the \
               tracer, in all tasks. The budget counts the calls that are recorded, at what an event takes, and reading them.",
    params: &[
        ParamDef {
            name: "function",
            kind: ParamKind::KernelFunctions,
            default: "",
            help: "only calls of this kernel function, or of those that fit (*balance*, :mod:ext4), with all that they call; \
                   without it all system calls, faults and interrupts",
        },
        ParamDef {
            name: "depth",
            kind: ParamKind::Count { min: 1, max: 100 },
            default: "50",
            help: "so many levels below and with the outermost call",
        },
        ParamDef {
            name: "lines",
            kind: ParamKind::Count { min: 1, max: 100_000 },
            default: "5000",
            help: "keep the first so many calls and count the others",
        },
        ParamDef {
            name: "global",
            kind: ParamKind::Flag,
            default: "false",
            help: "where the tracer does not run in an instance, take the kernel's global tracing for it, if that is unused",
        },
        ParamDef {
            name: "buffer_kb",
            kind: ParamKind::Count { min: 64, max: 1_048_576 },
            default: "16384",
            help: "memory for calls that are not yet read, for each CPU, in KiB",
        },
    ],
    filters: &[FilterKind::Pid],
    streams: false,
    stacks: GivesStacks::Never,
    metrics: &[],
    start,
};

/// Records that are kept; with more, tracing ends.
const MOST: usize = 1_000_000;
/// The clock that everything else in rdiag goes by.
const CLOCK: &str = "mono";
/// Name of the tracer.
const TRACER: &str = "function_graph";

struct Graph {
    // The buffers are closed before the instance is removed: fields are dropped in this order.
    buffers: Buffers,
    instance: Instance,
    symbols: Symbols,
    began: f64,
    /// What was asked for, and the functions that it means; all if nothing was.
    function: Option<(String, BTreeSet<String>)>,
    shape: Shape,
    records: Vec<Record>,
    limits: Limits,
    account: Account,
    is_full: bool,
}

fn start(context: &Context<'_>) -> Result<Box<dyn Probe>, Unavailable> {
    let (host, params) = (context.host, context.params);
    let (instance, cost) = tracing(context)?;
    if context.filter.pids.is_empty() {
        let why = "the tracer is there, and needs a task to follow: tracing all tasks would slow them down and overflow the buffer";
        return Err(Unavailable::new(Reason::NotApplicable, why)
            .with_remedy("name a process (--pid) or a command (-- COMMAND)"));
    }
    let named = |list: &str| -> Result<_, Unavailable> {
        let functions = functions::traceable(host, list)?.into_iter().map(|function| function.name);
        Ok((list.to_owned(), functions.collect()))
    };
    let function = params.text("function").map(named).transpose()?;
    functions::leave_out_clock(&instance, host);
    instance.set("buffer_size_kb", &params.count("buffer_kb").to_string())?;
    instance.follow(host, Followed::Functions, &context.filter.pids)?;
    instance.try_set("current_tracer", TRACER).map_err(|error| not_here(host, &error.to_string()))?;
    let shape = Shape::read(&instance, host)?;
    let buffers = Buffers::open(&instance, host)?;
    let symbols = Symbols::new(host, context.kernel().ok());
    let account = Account::new(cost, &instance, host);
    let began = host.now();
    instance.set("tracing_on", "1")?;
    Ok(Box::new(Graph {
        buffers,
        instance,
        symbols,
        began,
        function,
        shape,
        records: Vec::new(),
        limits: Limits {
            depth: u32::try_from(params.count("depth")).unwrap_or(u32::MAX),
            calls: usize::try_from(params.count("lines")).unwrap_or(usize::MAX),
        },
        account,
        is_full: false,
    }))
}

/// An instance that has the tracer, or the global tracing if that is wanted and needed; and what an event of an instance takes.
fn tracing(context: &Context<'_>) -> Result<(Instance, EventCost), Unavailable> {
    let host = context.host;
    let instance = Instance::create(host)?;
    let must_be_global = match can_trace(&instance, host) {
        Err(_) if context.params.flag("global") && global_has_it(host) => true,
        Err(gap) => return Err(gap),
        Ok(()) => false,
    };
    instance.set_clock(host, CLOCK)?;
    let cost = EventCost::of_events(&instance, host)?;
    if !must_be_global {
        return Ok((instance, cost));
    }
    drop(instance);
    let global = Instance::global(host)?;
    global.set_clock(host, CLOCK)?;
    Ok((global, cost))
}

fn global_has_it(host: &Host) -> bool {
    Instance::global_tracers(host).is_ok_and(|all| all.split_whitespace().any(|tracer| tracer == TRACER))
}

/// Whether an instance has the tracer: the list of the global buffer is longer.
fn can_trace(instance: &Instance, host: &Host) -> Result<(), Unavailable> {
    let tracers = instance.get(host, "available_tracers")?;
    match tracers.split_whitespace().any(|tracer| tracer == TRACER) {
        true => Ok(()),
        false => Err(not_here(host, &format!("an instance has only {}", tracers.trim()))),
    }
}

fn not_here(host: &Host, why: &str) -> Unavailable {
    let why = format!("the kernel's tracer of calls ({TRACER}) does not run in an instance of its own here: {why}");
    Unavailable::new(Reason::Absent, why).with_remedy(if global_has_it(host) {
        "use Linux 6.12 or later; this kernel has it for its global buffer only, which rdiag takes for a while with --param global=true"
    } else {
        "use a kernel that is built with CONFIG_FUNCTION_GRAPH_TRACER; in an instance of its own it runs on Linux 6.12 or later"
    })
}

impl Probe for Graph {
    fn attachments(&self) -> Vec<Attachment> {
        let back_end = match self.instance.is_global() {
            true => "function_graph, the kernel's global tracing",
            false => "function_graph in a tracefs instance",
        };
        let event = self.function.as_ref().map_or("all functions", |(list, _)| list).to_owned();
        vec![Attachment { event, back_end: back_end.into(), refused: Vec::new() }]
    }

    fn poll(&mut self, _: &Host) -> Result<(), Unavailable> {
        if self.is_full {
            return Ok(());
        }
        let Self { buffers, shape, records, account, .. } = self;
        account.reading(|| {
            buffers.poll(|time, cpu, bytes| {
                records.extend(shape.record(time, cpu, bytes));
                records.len() < MOST
            })
        })?;
        if records.len() >= MOST {
            self.instance.set("tracing_on", "0")?;
            self.is_full = true;
        }
        Ok(())
    }

    fn close(&mut self) {
        self.account.close(&self.instance);
    }

    fn spent(&self, host: &Host) -> Option<Spent> {
        Some(self.account.spent(&self.instance, host))
    }

    fn read(&mut self, host: &Host) -> Result<Taken, Unavailable> {
        self.poll(host)?;
        let mut records = std::mem::take(&mut self.records);
        let functions: BTreeSet<u64> = records.iter().map(|record| record.function).collect();
        self.symbols.learn_functions(host, None, functions.iter().copied());
        self.symbols.settle(host);
        let name =
            |address: u64| self.symbols.name(None, address).map_or_else(|| format!("{address:#x}"), str::to_owned);
        let names: BTreeMap<u64, String> = functions.into_iter().map(|address| (address, name(address))).collect();
        let is_root = |address: u64| {
            let named = |wanted: &BTreeSet<String>| names.get(&address).is_some_and(|name| wanted.contains(name));
            self.function.as_ref().is_none_or(|(_, wanted)| named(wanted))
        };
        let tree = tree::build(&mut records, is_root, self.limits);
        let lost = self.account.lost(&self.instance, host);
        let mut notes: Vec<String> = self.symbols.notes().map(str::to_owned).collect();
        if self.is_full {
            notes.push(format!("tracing ended before the measurement did, after {} calls and returns", records.len()));
        }
        if tree.open > 0 {
            notes.push(format!(
                "{} of the calls had not returned when tracing ended, or their return is lost",
                tree.open
            ));
        }
        if let (true, Some((list, _))) = (tree.nodes.is_empty() && !names.is_empty(), &self.function) {
            notes.push(format!("{} other functions of the kernel were called, and none that is {list}", names.len()));
        }
        // What is read anew begins with room for it.
        if std::mem::take(&mut self.is_full) && !self.account.is_closed() {
            self.instance.set("tracing_on", "1")?;
        }
        let outputs = vec![Output::Calls(self.told(host, tree, &names))];
        Ok(Taken { outputs, lost, notes })
    }
}

impl Graph {
    fn told(&self, host: &Host, tree: Tree, names: &BTreeMap<u64, String>) -> CallTrace {
        let tasks = Instance::task_names(host);
        let call = |node: &Node| Call {
            depth: node.depth,
            function: names.get(&node.function).cloned().unwrap_or_default(),
            seconds: node.duration.map(|nanoseconds| nanoseconds as f64 * 1e-9),
            at: (node.time as f64 * 1e-9 - self.began).max(0.0),
            cpu: node.cpu,
            task: (node.depth == 0).then(|| match tasks.get(&node.tid) {
                Some(name) => format!("{name} ({})", node.tid),
                None => format!("thread {}", node.tid),
            }),
        };
        CallTrace {
            id: "calls".into(),
            title: self
                .function
                .as_ref()
                .map_or("Calls of the kernel".to_owned(), |(list, _)| format!("Calls of {list}")),
            calls: tree.nodes.iter().map(call).collect(),
            others: tree.others,
            deeper: tree.deeper,
        }
    }
}
