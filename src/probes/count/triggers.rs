//! Counting where no program may be in the kernel: the kernel's own tables of tracepoints, in an instance of its tracing.

use std::collections::HashMap;

use super::names::Names;
use super::plan::Plan;
use super::tables::{self, Sum};
use super::{Key, Kind};
use crate::host::Host;
use crate::mechanism::points::{Shape, Target};
use crate::mechanism::tracefs::instance::Instance;
use crate::mechanism::tracefs::sums::{CPU, MOST_KEYS, THREAD, Wanted};
use crate::model::probe::{Attachment, Output};
use crate::model::{Reason, Unavailable};
use crate::probes::grammar::Operator;
use crate::probes::read::{Read, Source};
use crate::probes::{Context, Probe, Taken};

/// Keys that are told apart at once, of all points; a power of two.
const ENTRIES: u32 = 8192;
/// The kernel's least.
const LEAST_ENTRIES: u32 = 128;
/// Threads that a filter names at most: it must fit into a page.
const MOST_THREADS: usize = 100;

struct Tabled {
    plan: Plan,
    wanted: Wanted,
    /// As it was at the last reading: the kernel's table only grows.
    before: HashMap<Key, Sum>,
    dropped: u64,
}

struct Triggers {
    instance: Instance,
    /// At least one.
    points: Vec<Tabled>,
    top: usize,
    since: f64,
    /// Why no program is at work.
    refused: String,
    notes: Vec<String>,
}

/// Counts in the kernel's tables after programs were refused; where those cannot do it either, the refusal says so.
pub(super) fn start(
    context: &Context<'_>,
    kind: Kind,
    plans: Vec<Plan>,
    gap: Unavailable,
) -> Result<Box<dyn Probe>, Unavailable> {
    let may_do_without = matches!(gap.reason, Reason::Denied | Reason::Absent);
    let is_tracepoint = |plan: &Plan| matches!(plan.reads.point.target, Target::Tracepoint { .. });
    if !may_do_without || kind != Kind::Sums || !plans.iter().all(is_tracepoint) {
        return Err(gap);
    }
    let refused = gap.why.clone();
    let neither = |why: String| Unavailable {
        why: format!("{}; and without programs in the kernel: {why}", gap.why),
        ..gap.clone()
    };
    let limits = limits(context).map_err(neither)?;
    let mut points = Vec::new();
    for plan in plans {
        let wanted = wanted(&plan, &limits).map_err(neither)?;
        points.push(Tabled { plan, wanted, before: HashMap::new(), dropped: 0 });
    }
    let instance = Instance::create(context.host).map_err(|other| neither(other.why))?;
    // The events are off all the same: nothing but the tables sees them.
    instance.set("buffer_size_kb", "4")?;
    instance.set("tracing_on", "1")?;
    let entries = (ENTRIES / (points.len() as u32).next_power_of_two()).max(LEAST_ENTRIES);
    for point in &points {
        point.wanted.begin(&instance, context.host, entries).map_err(|other| neither(other.why))?;
    }
    let mut notes = vec!["counted in tables of the kernel's tracing, what rdiag does itself too".to_owned()];
    if !context.filter.pids.is_empty() {
        notes.push("threads and processes that were started meanwhile are not counted".into());
    }
    let (top, since) = (context.params.count("top") as usize, context.host.now());
    let mut triggers = Triggers { instance, points, top, since, refused, notes };
    if triggers.points.len() > 1 {
        // Until the last one was attached, some were counted and others not.
        triggers.read(context.host)?;
    }
    Ok(Box::new(triggers))
}

/// Whom to look at, in the words of the kernel's filters.
fn limits(context: &Context<'_>) -> Result<Vec<String>, String> {
    let filter = context.filter;
    if filter.cgroup.is_some() {
        return Err("control groups cannot be told apart".into());
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
        many => return Err(format!("{many} threads cannot be told from others")),
    }
    Ok(limits)
}

/// What the kernel is to sum up for a plan.
pub(super) fn wanted(plan: &Plan, limits: &[String]) -> Result<Wanted, String> {
    let Target::Tracepoint { group, event } = &plan.reads.point.target else {
        return Err(format!("{} is no tracepoint", plan.reads.point.name));
    };
    if plan.has_stack() {
        return Err("stacks are not kept".into());
    }
    let own = |name: &str, read: Read| field(plan, name, read);
    let mut keys = plan.keys.iter().map(|(name, read)| own(name, *read)).collect::<Result<Vec<String>, String>>()?;
    if keys.is_empty() && !plan.by_comm {
        // There is no table without a key.
        keys.push(CPU.into());
    }
    if keys.len() + usize::from(plan.by_comm) > MOST_KEYS {
        return Err(format!("at most {MOST_KEYS} keys can be told apart"));
    }
    let value = plan.value.as_ref().map(|value| own(&value.name, plan.reads.first())).transpose()?;
    let mut filter = limits.to_vec();
    for (test, read) in plan.reads.comparisons() {
        let sign = match test.operator {
            Operator::Equal => "==",
            Operator::Unequal => "!=",
            Operator::Less => "<",
            Operator::LessEqual => "<=",
            Operator::Greater => ">",
            Operator::GreaterEqual => ">=",
            Operator::SharesBits => "&",
        };
        filter.push(format!("{} {sign} {}", own(&test.operand.name, read)?, test.number));
    }
    let (group, event, filter) = (group.clone(), event.clone(), filter.join(" && "));
    Ok(Wanted { group, event, keys, by_name: plan.by_comm, value, filter })
}

/// What the kernel calls a number that is read.
fn field(plan: &Plan, name: &str, read: Read) -> Result<String, String> {
    let as_declared = |read: Read| {
        let field = plan.reads.point.fields.iter().find(|field| field.name == name);
        field.is_some_and(|field| {
            matches!(field.shape, Shape::Number { bytes, is_signed, .. } if (bytes, is_signed) == (read.bytes, read.is_signed))
        })
    };
    match read.source {
        Source::Tid => Ok(THREAD.into()),
        Source::Cpu => Ok(CPU.into()),
        Source::Entry if read.is_plain_number() && as_declared(read) => Ok(name.to_owned()),
        _ => Err(format!("{name} cannot be read")),
    }
}

/// What came since the last reading.
struct Fresh {
    sums: Vec<(Key, Sum)>,
    /// Events that found no room in the table.
    dropped: u64,
    /// Rows of the table that could not be understood.
    unread: u64,
}

impl Tabled {
    /// The sums since the last reading.
    fn advance(&mut self, instance: &Instance, host: &Host) -> Result<Fresh, Unavailable> {
        let sums = self.wanted.read(instance, host)?;
        // Several threads may have the same name.
        let mut now: HashMap<Key, Sum> = HashMap::new();
        for sum in &sums.each {
            let known = now.entry(self.key(&sum.keys, &sum.name)).or_default();
            *known = known.plus(Sum { count: sum.count, sum: sum.sum });
        }
        let grown = |(key, sum): (&Key, &Sum)| {
            let before = self.before.get(key).copied().unwrap_or_default();
            let count = sum.count.saturating_sub(before.count);
            (count > 0).then(|| (*key, Sum { count, sum: sum.sum.wrapping_sub(before.sum) }))
        };
        let changed = now.iter().filter_map(grown).collect();
        self.before = now;
        let dropped = sums.dropped.saturating_sub(std::mem::replace(&mut self.dropped, sums.dropped));
        Ok(Fresh { sums: changed, dropped, unread: sums.unread })
    }

    /// As the programs have it: three numbers, and the name.
    fn key(&self, keys: &[u64], name: &str) -> Key {
        let mut key: Key = [0; 9];
        if self.plan.keys.is_empty() && !self.plan.by_comm {
            return key;
        }
        let [first, second, third, comm @ ..] = &mut key;
        for ((word, value), (_, read)) in [first, second, third].into_iter().zip(keys).zip(&self.plan.keys) {
            *word = read.widened(*value);
        }
        let mut bytes = name.bytes().take(15).chain(std::iter::repeat(0));
        for word in comm.iter_mut().take(2) {
            *word = u64::from_ne_bytes(std::array::from_fn(|_| bytes.next().unwrap_or(0)));
        }
        key
    }
}

impl Probe for Triggers {
    fn attachments(&self) -> Vec<Attachment> {
        let attachment = |point: &Tabled| Attachment {
            event: point.plan.reads.point.name.clone(),
            back_end: "tracefs histogram trigger".into(),
            refused: vec![self.refused.clone()],
        };
        self.points.iter().map(attachment).collect()
    }

    fn read(&mut self, host: &Host) -> Result<Taken, Unavailable> {
        let now = host.now();
        let seconds = (now - std::mem::replace(&mut self.since, now)).max(1e-9);
        let (mut no_room, mut garbled) = (0, 0);
        let mut taken = Vec::new();
        for point in &mut self.points {
            let Fresh { mut sums, dropped, unread } = point.advance(&self.instance, host)?;
            if sums.is_empty() && !point.plan.has_key() {
                sums.push(([0; 9], Sum::default()));
            }
            (no_room, garbled) = (no_room + dropped, garbled + unread);
            taken.push(sums);
        }
        let plans: Vec<_> = self.points.iter().map(|point| &point.plan).zip(taken).collect();
        let table = tables::table(&plans, &Names::default(), seconds, self.top);
        Ok(Taken {
            outputs: vec![Output::Table(table)],
            lost: vec![("too many keys at once", no_room), ("keys that could not be understood", garbled)],
            notes: self.notes.clone(),
        })
    }
}
