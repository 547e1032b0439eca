//! The probes at work: one object for each point, since what lies where differs between them.

use std::collections::{BTreeMap, HashMap};

use super::names::Names;
use super::query::Query;
use super::stacks::Stacks;
use super::tables::{self, Sum};
use super::{HIST, Key, Kind, PROBE, THREADS, queries, triggers};
use crate::def::{Context, Probe, Taken};
use crate::per_point::named;
use crate::totals::Totals;
use rdiag_kernel::host::Host;
use rdiag_kernel::mechanism::ebpf::{Moments, Object, hist, include_bytes_aligned};
use rdiag_kernel::mechanism::points::PointError;
use rdiag_model::probe::{Attachment, Output};
use rdiag_model::{Reason, Unavailable};

/// Distinct keys at once, over all points; more are counted together.
const SUMS: u32 = 10_240;
const LEAST_SUMS: u32 = 128;
/// Words of a key without stacks: what a whole one begins with.
const SHORT: usize = 5;
/// Memory that distributions by key may take, in bytes; each takes 4 KB for each CPU.
const HISTS_BYTES: u32 = 16 << 20;
/// Distinct stacks that the kernel's tables hold.
const STACKS: u32 = 16_384;
/// Attachments that are listed one by one.
const FEW: usize = 8;

/// A point that is counted at.
pub(super) struct Watched {
    pub(super) object: Object,
    pub(super) query: Query,
    /// Sums as they were at the last reading: the kernel's are never set back, so that nothing is lost in between.
    before: HashMap<Key, Sum>,
    totals: Totals,
}

struct Counting {
    /// At least one.
    points: Vec<Watched>,
    kind: Kind,
    top: usize,
    since: f64,
    stacks: Option<Stacks>,
    names: Names,
    notes: Vec<String>,
}

pub(super) fn start(context: &Context<'_>, kind: Kind) -> Result<Box<dyn Probe>, Unavailable> {
    if context.host.is_recorded() || context.host.is_seen_from_outside() {
        return Err(Unavailable::new(Reason::NotVisible, "a recorded tree has no running kernel to attach to"));
    }
    let id = if kind == Kind::Sums { PROBE.id } else { HIST.id };
    let points = named(context.host, context.params, &context.filter.pids);
    let queries = points.and_then(|points| queries(points, id, context.params)).map_err(PointError::gap)?;
    let (count, mut notes) = (queries.each.len(), queries.notes);
    let names = Names::new(context, &queries.each)?;
    let (mut points, mut refused) = (Vec::new(), Vec::new());
    for query in &queries.each {
        match watch(context, kind, query.clone(), &names, count as u32) {
            Ok(point) => points.push(point),
            Err(gap) => refused.push(gap),
        }
    }
    let left_out = refused.len();
    match refused.into_iter().next() {
        Some(gap) if points.is_empty() => return triggers::start(context, kind, queries.each, gap),
        Some(gap) => notes.push(format!("{left_out} of {count} points are left out; {}", gap.why)),
        None => {}
    }
    let has_stack = points.iter().any(|point| point.query.has_stack());
    let mut counting = Counting {
        points,
        kind,
        top: context.params.count("top") as usize,
        since: context.host.now(),
        stacks: has_stack.then(|| Stacks::new(context)),
        names,
        notes,
    };
    if count > 1 {
        // Until the last one was attached, some were counted and others not.
        counting.read(context.host)?;
    }
    Ok(Box::new(counting))
}

/// Loads the program for one of so many points, and attaches it.
fn watch(context: &Context<'_>, kind: Kind, query: Query, names: &Names, of: u32) -> Result<Watched, Unavailable> {
    let moments = query.reads.moments();
    let bytes = include_bytes_aligned!(concat!(env!("CARGO_MANIFEST_DIR"), "/count/count.bpf.o"));
    // What is not needed has room for one entry; all points together have as much as one alone.
    let size = |needed: bool, entries: u32, least: u32| if needed { (entries / of.max(1)).max(least) } else { 1 };
    let each = (hist::WORDS as u32 * 8).saturating_mul(context.host.facts().cpus.max(1));
    let entries = [
        ("point_sums", size(query.has_stack(), SUMS, LEAST_SUMS)),
        ("point_short_sums", size(kind == Kind::Sums && query.has_key() && !query.has_stack(), SUMS, LEAST_SUMS)),
        ("point_hists", size(kind == Kind::Distribution && query.has_key(), (HISTS_BYTES / each).clamp(64, 512), 16)),
        ("point_texts", size(query.has_text(), SUMS, LEAST_SUMS)),
        ("point_stacks", size(query.has_stack(), STACKS, 1024)),
        ("point_calls", size(moments == Moments::Both, THREADS, 256)),
    ];
    // Stacks would begin with the trampoline; and each takes the kernel longer to set up than a probe does.
    let may_jump = of == 1 && !query.kernel_stack;
    let object = query.reads.attached(context, may_jump, |reads, constant| {
        let mut globals = context.filter.globals(context.host)?;
        globals.extend(query.globals(reads, kind == Kind::Distribution));
        globals.extend([names.global(), constant]);
        context.kernel()?.load(bytes, globals, &entries)
    })?;
    Ok(Watched { object, query, before: HashMap::new(), totals: Totals::default() })
}

impl Watched {
    /// The sums by key since the last reading.
    fn new_sums(&mut self) -> Result<Vec<(Key, Sum)>, Unavailable> {
        let mut changed = Vec::new();
        for (short, copies) in self.object.per_cpu_hash::<[u64; SHORT], [u64; 2]>("point_short_sums")? {
            let mut key: Key = [0; 9];
            key.iter_mut().zip(short).for_each(|(word, own)| *word = own);
            let now = Sum::of_all_cpus(&copies);
            let before = self.before.insert(key, now).unwrap_or_default();
            if now.count > before.count {
                changed.push((key, Sum { count: now.count - before.count, sum: now.sum.wrapping_sub(before.sum) }));
            }
        }
        Ok(changed)
    }

    /// The distributions by key since the last reading.
    fn new_hists(&mut self) -> Result<Vec<(Key, hist::Hist)>, Unavailable> {
        if !self.query.has_key() {
            return Ok(vec![([0; 9], self.object.take_hist("point_hist", 0)?)]);
        }
        let taken = self.object.take_per_cpu_hash::<Key, hist::Hist>("point_hists")?;
        Ok(taken.into_iter().map(|(key, copies)| (key, hist::sum(&copies))).collect())
    }
}

impl Counting {
    fn outputs(&mut self, host: &Host, each: &[Totals], seconds: f64) -> Result<Outcome, Unavailable> {
        if let Some(stacks) = &mut self.stacks {
            stacks.gather(host, &mut self.points)?;
            let idle = each.iter().filter(|totals| totals.events == 0).count();
            let outputs = stacks.output(host, &self.points, each, &mut self.names, self.top);
            return Ok(Outcome { outputs, left_out: 0, idle });
        }
        if self.kind == Kind::Distribution {
            let taken: Vec<_> = self.points.iter_mut().map(Watched::new_hists).collect::<Result<_, _>>()?;
            self.learn(host, &taken);
            let is_idle = |hists: &&Vec<(Key, hist::Hist)>| hists.iter().all(|(_, [count, ..])| *count == 0);
            let idle = taken.iter().filter(is_idle).count();
            let (output, left_out) = tables::histogram(&of_queries(&self.points, taken), &self.names, self.top);
            return Ok(Outcome { outputs: vec![output], left_out, idle });
        }
        let sums = |(point, totals): (&mut Watched, &Totals)| {
            if point.query.has_key() {
                return point.new_sums();
            }
            Ok(vec![([0; 9], Sum { count: totals.events, sum: totals.sum })])
        };
        let taken: Vec<_> = self.points.iter_mut().zip(each).map(sums).collect::<Result<_, _>>()?;
        // With a key the program counts nothing but the sums.
        let idle = taken.iter().filter(|sums| sums.iter().all(|(_, sum)| sum.count == 0)).count();
        self.learn(host, &taken);
        let table = tables::table(&of_queries(&self.points, taken), &self.names, seconds, self.top);
        Ok(Outcome { outputs: vec![Output::Table(table)], left_out: 0, idle })
    }

    /// Finds out what the keys that were taken at each point stand for.
    fn learn<T>(&mut self, host: &Host, taken: &[Vec<(Key, T)>]) {
        for (point, taken) in self.points.iter().zip(taken) {
            let keys = taken.iter().map(|(key, _)| key.as_slice());
            self.names.learn(host, &point.query, &point.object, keys);
        }
    }
}

/// What was taken at all points.
struct Outcome {
    outputs: Vec<Output>,
    /// Values of keys that are not shown.
    left_out: u64,
    /// Points that were not passed.
    idle: usize,
}

/// What was taken at each point, with its query.
fn of_queries<T>(points: &[Watched], taken: Vec<T>) -> Vec<(&Query, T)> {
    points.iter().map(|point| &point.query).zip(taken).collect()
}

impl Probe for Counting {
    fn objects(&self) -> Vec<&Object> {
        self.points.iter().map(|point| &point.object).collect()
    }

    /// Many points are listed together.
    fn attachments(&self) -> Vec<Attachment> {
        let mut all: Vec<Attachment> =
            self.points.iter().flat_map(|point| point.object.attachments()).cloned().collect();
        let mut ways: BTreeMap<String, usize> = BTreeMap::new();
        if all.len() > FEW {
            all.drain(..).for_each(|one| *ways.entry(one.back_end).or_default() += 1);
        }
        let title = self.points.first().map_or("", |point| point.query.title.as_str());
        let event = |count| format!("{title} ({count} points)");
        all.extend(ways.into_iter().map(|(back_end, n)| Attachment { event: event(n), back_end, refused: Vec::new() }));
        all
    }

    fn poll(&mut self, host: &Host) -> Result<(), Unavailable> {
        self.stacks.as_mut().map_or(Ok(()), |stacks| stacks.gather(host, &mut self.points))
    }

    fn read(&mut self, host: &Host) -> Result<Taken, Unavailable> {
        let advance = |point: &mut Watched| point.totals.advance(&point.object);
        let each: Vec<Totals> = self.points.iter_mut().map(advance).collect::<Result<_, _>>()?;
        let totals = each.iter().fold(Totals::default(), |all, one| all.plus(*one));
        let now = host.now();
        let seconds = (now - std::mem::replace(&mut self.since, now)).max(1e-9);
        let Outcome { outputs, left_out, idle } = self.outputs(host, &each, seconds)?;
        let mut notes = self.notes.clone();
        if totals.negative > 0 {
            let value = self.points.first().and_then(|point| point.query.value.as_ref());
            let name = value.map_or("", |value| value.name.as_str());
            notes.push(format!("{} values of {name} were negative and are not in the distribution", totals.negative));
        }
        if left_out > 0 {
            notes.push(format!("{left_out} values of other keys are not shown"));
        }
        if self.points.iter().any(|point| point.query.shows_point) && idle > 0 {
            notes.push(format!("{idle} of {} points were not passed", self.points.len()));
        }
        notes.extend(self.names.notes().map(str::to_owned));
        if let Some(stacks) = &self.stacks {
            notes.extend(stacks.notes().map(str::to_owned));
        }
        Ok(Taken { outputs, lost: totals.lost().to_vec(), notes })
    }
}
