//! The probes where no program may be in the kernel: the kernel's own tables of tracepoints and of events that are defined at its
//! functions, in an instance of its tracing. Threads are named in the filter, so those that are started later are not counted, which the
//! result says.

use std::collections::BTreeMap;

use super::names::Names;
use super::order::Order;
use super::query::Query;
use super::tabled::{Fresh, Processes, Row, Tabled};
use super::tables::{self, Sum};
use super::{Key, Kind};
use crate::def::{Context, Probe, Taken};
use rdiag_kernel::host::Host;
use rdiag_kernel::mechanism::points::Target;
use rdiag_kernel::mechanism::symbols::{Summary, Symbols, summarize};
use rdiag_kernel::mechanism::tracefs::event_cost::{EventCost, Spent};
use rdiag_kernel::mechanism::tracefs::instance::Instance;
use rdiag_kernel::mechanism::tracefs::probe_events::{Moment, ProbeEvents};
use rdiag_kernel::mechanism::tracefs::sums::{STACK_DEPTH, THREAD};
use rdiag_model::probe::{Attachment, Output};
use rdiag_model::{Reason, Unavailable, Unit};

/// Distinct keys at once, over all points; a power of two. With stacks, a key takes ten times the memory and the time to read.
const ENTRIES: u32 = 8192;
const STACKS: u32 = 2048;
/// The kernel's least.
const LEAST_ENTRIES: u32 = 128;
/// Threads that a filter names at most: it must fit into a page.
const MOST_THREADS: usize = 100;

struct Triggers {
    // The kernel does not let go of events while an instance has tables of them: they are dropped in this order.
    instance: Instance,
    events: Option<ProbeEvents>,
    /// At least one.
    points: Vec<Tabled>,
    kind: Kind,
    processes: Processes,
    symbols: Symbols,
    top: usize,
    since: f64,
    missed: u64,
    cost: EventCost,
    /// Why no program is at work.
    refused: String,
    notes: Vec<String>,
}

/// Begins with the kernel's tables after programs were refused; where those cannot do it either, the refusal says so.
pub(super) fn start(
    context: &Context<'_>,
    kind: Kind,
    queries: Vec<Query>,
    gap: Unavailable,
) -> Result<Box<dyn Probe>, Unavailable> {
    let may_do_without = matches!(gap.reason, Reason::Denied | Reason::Absent);
    let in_kernel = |query: &Query| matches!(query.reads.point.target, Target::Tracepoint { .. } | Target::Kernel(_));
    if !may_do_without || !queries.iter().all(in_kernel) {
        return Err(gap);
    }
    let neither = |why: String| Unavailable {
        why: format!("{}; and without programs in the kernel: {why}", gap.why),
        ..gap.clone()
    };
    let limits = limits(context).map_err(neither)?;
    let count = queries.len();
    let mut orders = Vec::new();
    for query in queries {
        let order = Order::new(&query, kind, &limits).map_err(neither)?;
        orders.push((query, order));
    }
    let has_functions = orders.iter().any(|(_, order)| order.function.is_some());
    // Before the instance, so that an error lets go of that first.
    let events = has_functions.then(|| ProbeEvents::new(context.host));
    let mut events = events.transpose().map_err(|other| neither(other.why))?;
    let instance = Instance::create(context.host).map_err(|other| neither(other.why))?;
    // The events are off all the same: nothing but the tables sees them.
    instance.set("buffer_size_kb", "4")?;
    instance.set("tracing_on", "1")?;
    let cost = event_cost(&orders, events.as_mut(), &instance, context.host).map_err(|other| neither(other.why))?;
    let room = if orders.iter().any(|(query, _)| query.has_stack()) { STACKS } else { ENTRIES };
    let entries = (room / (count as u32).next_power_of_two()).max(LEAST_ENTRIES);
    let mut notes = vec!["summed up in tables of the kernel's tracing, what rdiag does itself too".to_owned()];
    notes.extend(orders.iter().take(1).flat_map(|(_, order)| &order.notes).map(|note| (*note).to_owned()));
    if !context.filter.pids.is_empty() {
        notes.push("threads and processes that were started meanwhile are not counted".into());
    }
    let (mut points, mut left_out) = (Vec::new(), Vec::new());
    for (query, mut order) in orders {
        match begin(&mut order, events.as_mut(), &instance, context.host, entries) {
            Ok(()) => points.push(Tabled::new(query, order)),
            Err(other) => left_out.push(other.why),
        }
    }
    let others = left_out.len();
    match left_out.into_iter().next() {
        // A tracepoint that cannot be summed up like this is a mistake in what was asked for; some functions cannot be traced.
        Some(why) if points.is_empty() || !has_functions => return Err(neither(why)),
        Some(why) => notes.push(format!("{others} of {count} points are left out; {why}")),
        None => {}
    }
    let mut triggers = Triggers {
        instance,
        events,
        points,
        kind,
        processes: Processes::default(),
        symbols: Symbols::new(context.host, None),
        top: context.params.count("top") as usize,
        since: context.host.now(),
        missed: 0,
        cost,
        refused: gap.why.clone(),
        notes,
    };
    if count > 1 {
        // Until the last one was attached, some were counted and others not.
        triggers.read(context.host)?;
    }
    Ok(Box::new(triggers))
}

/// What a sum takes. Functions of the kernel cost the way to their event, too, so one is called that rdiag can call.
fn event_cost(
    orders: &[(Query, Order)],
    events: Option<&mut ProbeEvents>,
    instance: &Instance,
    host: &Host,
) -> Result<EventCost, Unavailable> {
    let Some((_, order)) = orders.first() else { return Ok(EventCost::unknown()) };
    let place = match (&order.function, events) {
        (Some(function), Some(events)) => match at_own_call(events, function.moment) {
            Some(place) => Some(place),
            None => return Ok(EventCost::unknown()),
        },
        _ => None,
    };
    EventCost::of_sums(&order.wanted, place, instance, host)
}

/// Group and name of an event at the function of the system call that is timed.
fn at_own_call(events: &mut ProbeEvents, moment: Moment) -> Option<(String, String)> {
    let machine = match std::env::consts::ARCH {
        "x86_64" => "x64",
        "aarch64" => "arm64",
        _ => return None,
    };
    let name = events.define(&format!("__{machine}_sys_getpgid"), moment, &[]).ok()?;
    Some((events.group().to_owned(), name))
}

/// Has the kernel begin with one point, after an event was defined if it is a function.
fn begin(
    order: &mut Order,
    events: Option<&mut ProbeEvents>,
    instance: &Instance,
    host: &Host,
    entries: u32,
) -> Result<(), Unavailable> {
    if let (Some(function), Some(events)) = (&order.function, events) {
        order.wanted.event = events.define(&function.name, function.moment, &function.fields)?;
        events.group().clone_into(&mut order.wanted.group);
    }
    order.wanted.begin(instance, host, entries)
}

/// Which tasks to look at, in the syntax of the kernel's filters.
fn limits(context: &Context<'_>) -> Result<Vec<String>, String> {
    let filter = context.filter;
    if filter.cgroup.is_some() {
        return Err("control groups cannot be distinguished".into());
    }
    let mut limits = Vec::new();
    if let Some(comm) = &filter.comm {
        if comm.contains(['"', '\\', '\n', '*']) {
            return Err(format!("{comm:?} cannot be compared"));
        }
        limits.push(format!("comm == \"{comm}\""));
    }
    let threads = |pid: &u32| context.host.subdirectories(&format!("proc/{pid}/task")).unwrap_or_default();
    let threads: Vec<String> = filter.pids.iter().flat_map(threads).map(|tid| format!("{THREAD} == {tid}")).collect();
    match threads.len() {
        0 if filter.pids.is_empty() => {}
        0 => return Err("the process has ended".into()),
        1..=MOST_THREADS => limits.push(format!("({})", threads.join(" || "))),
        many => return Err(format!("{many} threads cannot be distinguished from others")),
    }
    Ok(limits)
}

impl Triggers {
    /// What was taken at each point, as the probe shows it.
    fn output(&mut self, host: &Host, taken: Vec<Vec<(Row, Sum)>>, seconds: f64) -> (Output, u64) {
        let names = Names::default();
        if self.points.iter().any(|point| point.query.has_stack()) {
            return (self.stacks(host, &taken, &names), 0);
        }
        let queries = self.points.iter().map(|point| &point.query);
        if self.kind == Kind::Distribution {
            return tables::powers(&queries.zip(taken).collect::<Vec<_>>(), &names, self.top);
        }
        let by_key = |sums: Vec<(Row, Sum)>| sums.into_iter().map(|(row, sum)| (row.key, sum)).collect();
        let queries: Vec<(&Query, Vec<(Key, Sum)>)> = queries.zip(taken.into_iter().map(by_key)).collect();
        (Output::Table(tables::table(&queries, &names, seconds, self.top)), 0)
    }

    fn stacks(&mut self, host: &Host, taken: &[Vec<(Row, Sum)>], names: &Names) -> Output {
        let mut frames = BTreeMap::new();
        for (row, _) in taken.iter().flatten() {
            frames.entry(&row.stack).or_insert_with(|| tables::frames(&row.stack));
        }
        let queries = self.points.iter().map(|point| &point.query);
        let samples: Vec<_> = queries
            .zip(taken)
            .flat_map(|(query, sums)| sums.iter().map(move |(row, sum)| (query, row, sum)))
            .filter_map(|(query, row, sum)| {
                let frames = frames.get(&row.stack)?;
                Some(query.named_sample(&row.key, *sum, (frames, frames.len() >= STACK_DEPTH), names))
            })
            .collect();
        let Some(query) = self.points.first().map(|point| &point.query) else {
            return Output::Stacks(Default::default());
        };
        let unit = query.value.as_ref().map_or(Unit::Count, |value| value.unit().0);
        let title = query.heading("");
        let of = Summary { id: "stacks", title: &title, unit, top: self.top, depth: STACK_DEPTH };
        Output::Stacks(summarize(host, &mut self.symbols, &samples, of))
    }
}

impl Probe for Triggers {
    fn attachments(&self) -> Vec<Attachment> {
        let attachment = |point: &Tabled| {
            let is_function = matches!(point.query.reads.point.target, Target::Kernel(_));
            let back_end =
                if is_function { "kprobe event with histogram trigger" } else { "tracefs histogram trigger" };
            Attachment {
                event: point.query.reads.point.name.clone(),
                back_end: back_end.into(),
                refused: vec![self.refused.clone()],
            }
        };
        self.points.iter().map(attachment).collect()
    }

    fn poll(&mut self, host: &Host) -> Result<(), Unavailable> {
        let Self { points, instance, processes, cost, .. } = self;
        let mut with_processes = points.iter().filter(|point| point.has_processes());
        cost.adding(|| with_processes.try_for_each(|point| point.learn(instance, host, processes)))
    }

    fn spent(&self, host: &Host) -> Option<Spent> {
        let passed = |events: &ProbeEvents| events.passed();
        let summed = || {
            let hits = self.points.iter().map(|point| point.wanted.hits(&self.instance, host).unwrap_or(0));
            hits.fold(0, u64::saturating_add)
        };
        Some(self.cost.of(self.events.as_ref().map_or_else(summed, passed)))
    }

    fn read(&mut self, host: &Host) -> Result<Taken, Unavailable> {
        let now = host.now();
        let seconds = (now - std::mem::replace(&mut self.since, now)).max(1e-9);
        let (mut no_room, mut garbled) = (0, 0);
        let mut taken = Vec::new();
        for point in &mut self.points {
            let Fresh { mut sums, dropped, unread } = point.advance(&self.instance, host, &mut self.processes)?;
            if sums.is_empty() && !point.query.has_key() && self.kind == Kind::Sums {
                sums.push((Row { key: [0; 9], power: 0, stack: Vec::new() }, Sum::default()));
            }
            (no_room, garbled) = (no_room + dropped, garbled + unread);
            taken.push(sums);
        }
        let missed_ever = self.events.as_ref().map_or(0, ProbeEvents::missed);
        let missed = missed_ever.saturating_sub(std::mem::replace(&mut self.missed, missed_ever));
        let (output, left_out) = self.output(host, taken, seconds);
        let mut notes = self.notes.clone();
        if left_out > 0 {
            notes.push(format!("{left_out} values of other keys are not shown"));
        }
        if self.processes.unknown() > 0 {
            let threads = self.processes.unknown();
            notes.push(format!(
                "{threads} threads ended before their process was looked up; their own ids stand for it"
            ));
        }
        Ok(Taken {
            outputs: vec![output],
            lost: vec![
                ("too many keys at once", no_room),
                ("keys that could not be understood", garbled),
                ("calls that the kernel's probes missed", missed),
            ],
            notes,
        })
    }
}
