//! Which functions of the kernel ran, how often, and from where.

mod tally;

use std::collections::BTreeMap;

use super::traced::Account;
use crate::def::{Context, FilterKind, GivesStacks, ParamDef, ParamKind, Probe, ProbeDef, Taken};
use rdiag_kernel::host::Host;
use rdiag_kernel::mechanism::symbols::Symbols;
use rdiag_kernel::mechanism::tracefs::event_cost::EventCost;
use rdiag_kernel::mechanism::tracefs::event_cost::Spent;
use rdiag_kernel::mechanism::tracefs::format::{Field, Format};
use rdiag_kernel::mechanism::tracefs::functions::{self, Function};
use rdiag_kernel::mechanism::tracefs::instance::{Followed, Instance};
use rdiag_kernel::mechanism::tracefs::raw::{Buffers, not_understood};
use rdiag_model::probe::{Attachment, Output};
use rdiag_model::{Reason, Unavailable};
use tally::{Call, Tally};

pub(super) static PROBE: ProbeDef = ProbeDef {
    id: "functions",
    question: "Which functions of the kernel run, how often, and who calls them?",
    attach: "The kernel's tracer of functions (function), in an instance of its own: functions by name, pattern (`*balance*`) or \
             module (`:mod:ext4`), of the host, a command or processes. `rdiag list functions PATTERN` shows which there are.",
    output: "How often each function was called, and by which other; and the first calls one by one, with time, CPU and task.",
    caveats: "Functions that the compiler inlined and those that may not be traced do not appear. The caller is the function that the \
              call returns to: one whose last act is a call is left out. The task is the one on the CPU: an interrupt \
              is attributed to the task that it interrupted. Several functions of one name are one row.",
    overhead: "On an emulated CPU a call that was traced took 1.1 µs more, about as much as with the tracer set by hand (1.3 µs) and perf \
               ftrace (1.4 µs). Only functions that are traced are slowed down; of a process, also where others call them. The budget \
               counts \
               the calls that are recorded, at what an event takes, and reading them.",
    params: &[
        ParamDef {
            name: "function",
            kind: ParamKind::KernelFunctions,
            default: "",
            help: "which: names with * and ?, :mod:MODULE for those of a module, separated by commas; all if nothing is given, of \
                   processes or a command only",
        },
        ParamDef {
            name: "lines",
            kind: ParamKind::Count { min: 0, max: 10_000 },
            default: "20",
            help: "show so many of the first calls one by one",
        },
        ParamDef {
            name: "top",
            kind: ParamKind::Count { min: 1, max: 10_000 },
            default: "50",
            help: "how many rows tables show",
        },
        ParamDef {
            name: "buffer_kb",
            kind: ParamKind::Count { min: 64, max: 1_048_576 },
            default: "8192",
            help: "memory for calls that are not yet read, for each CPU, in KiB",
        },
    ],
    filters: &[FilterKind::Pid],
    streams: false,
    stacks: GivesStacks::Never,
    metrics: &[],
    start,
};

/// Name of the tracer.
const TRACER: &str = "function";
/// Functions that may be traced of the whole host.
const MOST: usize = 1000;

/// Where a record has what it tells.
#[derive(Debug)]
struct Shape {
    id: u64,
    kind: Field,
    tid: Field,
    function: Field,
    caller: Field,
}

struct Functions {
    // The buffers are closed before the instance is removed: fields are dropped in this order.
    buffers: Buffers,
    instance: Instance,
    shape: Shape,
    symbols: Symbols,
    tally: Tally,
    top: usize,
    began: f64,
    attached: Vec<Attachment>,
    account: Account,
}

fn start(context: &Context<'_>) -> Result<Box<dyn Probe>, Unavailable> {
    let (host, params) = (context.host, context.params);
    let instance = Instance::create(host)?;
    functions::ready(&instance, host)?;
    let list = params.text("function").unwrap_or_default();
    let limits = if list.is_empty() { None } else { Some(functions::limit(&instance, host, list)?) };
    let pids = &context.filter.pids;
    may_be_traced(limits.as_deref(), pids)?;
    instance.set_clock(host, "mono")?;
    let cost = EventCost::of_events(&instance, host)?;
    functions::leave_out_clock(&instance, host);
    instance.set("buffer_size_kb", &params.count("buffer_kb").to_string())?;
    match pids.as_slice() {
        [] => instance.leave_out_own(host, Followed::Functions)?,
        pids => instance.follow(host, Followed::Functions, pids)?,
    }
    instance.try_set("current_tracer", TRACER).map_err(|error| {
        let why = format!("the kernel's tracer of functions does not run in an instance of its own here: {error}");
        Unavailable::new(Reason::Absent, why)
            .with_remedy("use a kernel that is built with CONFIG_FUNCTION_TRACER and has it not locked")
    })?;
    let shape = Shape::read(&instance, host)?;
    let buffers = Buffers::open(&instance, host)?;
    let symbols = Symbols::new(host, context.kernel().ok());
    let account = Account::new(cost, &instance, host);
    let began = host.now();
    instance.set("tracing_on", "1")?;
    let lines = usize::try_from(params.count("lines")).unwrap_or(usize::MAX);
    Ok(Box::new(Functions {
        buffers,
        instance,
        shape,
        symbols,
        tally: Tally::new(lines),
        top: usize::try_from(params.count("top")).unwrap_or(usize::MAX),
        began,
        attached: vec![attachment(list, limits.as_deref())],
        account,
    }))
}

/// Everything that every task calls is too much: the host would do nothing else.
fn may_be_traced(functions: Option<&[Function]>, pids: &[u32]) -> Result<(), Unavailable> {
    if !pids.is_empty() || functions.is_some_and(|all| all.len() <= MOST) {
        return Ok(());
    }
    let which = functions.map_or("all functions".to_owned(), |all| format!("{} functions", all.len()));
    let why = format!("{which} of all tasks would slow down the whole host; at most {MOST} may be traced of it");
    Err(Unavailable::new(Reason::NotApplicable, why)
        .with_remedy("name fewer functions (--function), a process (--pid) or a command (-- COMMAND)"))
}

fn attachment(list: &str, functions: Option<&[Function]>) -> Attachment {
    let event = functions.map_or("all functions".to_owned(), |all| format!("{list}, {} functions", all.len()));
    Attachment { event, back_end: "function tracer in a tracefs instance".into(), refused: Vec::new() }
}

impl Shape {
    fn read(instance: &Instance, host: &Host) -> Result<Self, Unavailable> {
        const FILE: &str = "events/ftrace/function/format";
        Self::of(&Format::parse(&instance.get(host, FILE)?)).ok_or_else(|| not_understood(FILE))
    }

    fn of(format: &Format) -> Option<Self> {
        let field = |name| format.field(name).cloned();
        Some(Self {
            id: u64::from(format.id?),
            kind: field("common_type")?,
            tid: field("common_pid")?,
            function: field("ip")?,
            caller: field("parent_ip")?,
        })
    }

    /// What a record tells; none if it is of another kind.
    fn call(&self, time: u64, cpu: u32, bytes: &[u8]) -> Option<Call> {
        let tid = self.tid.value(bytes).and_then(|tid| u32::try_from(tid).ok())?;
        let (function, caller) = (self.function.value(bytes)?, self.caller.value(bytes)?);
        (self.kind.value(bytes)? == self.id).then_some(Call { time, cpu, tid, function, caller })
    }
}

impl Probe for Functions {
    fn attachments(&self) -> Vec<Attachment> {
        self.attached.clone()
    }

    fn poll(&mut self, _: &Host) -> Result<(), Unavailable> {
        let Self { buffers, shape, tally, account, .. } = self;
        account.reading(|| {
            buffers.poll(|time, cpu, bytes| {
                if let Some(call) = shape.call(time, cpu, bytes) {
                    tally.add(call);
                }
                true
            })
        })
    }

    fn close(&mut self) {
        self.account.close(&self.instance);
    }

    fn spent(&self, host: &Host) -> Option<Spent> {
        Some(self.account.spent(&self.instance, host))
    }

    fn read(&mut self, host: &Host) -> Result<Taken, Unavailable> {
        self.poll(host)?;
        let addresses = self.tally.addresses();
        self.symbols.learn_functions(host, None, addresses.iter().copied());
        self.symbols.settle(host);
        let name =
            |address: u64| self.symbols.name(None, address).map_or_else(|| format!("{address:#x}"), str::to_owned);
        let names: BTreeMap<u64, String> = addresses.into_iter().map(|address| (address, name(address))).collect();
        let tasks = Instance::task_names(host);
        let untold = self.tally.untold();
        let (functions, callers, calls) = self.tally.take(&names, &tasks, self.began, self.top);
        let mut lost = self.account.lost(&self.instance, host);
        lost.push(("too many pairs of functions and callers", untold));
        Ok(Taken {
            outputs: vec![Output::Table(functions), Output::Table(callers), Output::Events(calls)],
            lost,
            notes: self.symbols.notes().map(str::to_owned).collect(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_tells_who_was_called_from_where_and_others_are_left_out() {
        let text = "ID: 1\n\tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n\
                    \tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;\n\
                    \tfield:unsigned long ip;\toffset:8;\tsize:8;\tsigned:0;\n\
                    \tfield:unsigned long parent_ip;\toffset:16;\tsize:8;\tsigned:0;\n";
        let shape = Shape::of(&Format::parse(text)).unwrap();
        let record = |kind: u64| [kind | 77 << 32, 1000, 2000].iter().flat_map(|word| word.to_ne_bytes()).collect();
        let bytes: Vec<u8> = record(1);
        let call = shape.call(5, 3, &bytes).unwrap();
        assert_eq!((call.time, call.cpu, call.tid, call.function, call.caller), (5, 3, 77, 1000, 2000));
        let other: Vec<u8> = record(2);
        assert!(shape.call(5, 3, &other).is_none() && shape.call(5, 3, bytes.get(..20).unwrap()).is_none());
        assert!(Shape::of(&Format::parse("ID: 1\n")).is_none());
    }

    #[test]
    fn the_whole_host_is_not_traced_without_a_limit() {
        let some = |count: usize| vec![Function { name: "f".into(), module: None }; count];
        assert!(may_be_traced(Some(&some(1000)), &[]).is_ok());
        assert!(may_be_traced(Some(&some(1001)), &[]).unwrap_err().why.contains("1001 functions"));
        assert!(may_be_traced(None, &[]).unwrap_err().why.contains("all functions"));
        assert!(may_be_traced(None, &[1]).is_ok() && may_be_traced(Some(&some(5000)), &[1]).is_ok());
    }
}
