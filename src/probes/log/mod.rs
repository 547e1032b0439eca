//! Each event at any point, with values and text, like a printf there.

mod stacks;

use super::count::{ATTACH, CAVEATS, FILTER, FUNCTION, OVERHEAD, THREADS, TRACEPOINT, USDT};
use super::grammar::{self, WHICH_STACKS};
use super::per_point::{PerPoint, named, per_point, wrong};
use super::point_reads::{Reads, words as bytes_of};
use super::stream::{self, Events, Task};
use super::totals::Totals;
use super::value_read::{Read, Source};
use crate::def::{Context, FilterKind, GivesStacks, ParamDef, ParamKind, Params, Probe, ProbeDef, Taken};
use crate::table::TableSpec;
use rdiag_kernel::host::Host;
use rdiag_kernel::mechanism::ebpf::{Global, Moments, Object, include_bytes_aligned, words};
use rdiag_kernel::mechanism::points::{Point, PointError};
use rdiag_model::probe::{Cell, Output};
use rdiag_model::{Reason, Unavailable, Unit};
use stacks::LineStacks;

pub(super) static PROBE: ProbeDef = ProbeDef {
    id: "log",
    question: "When was a tracepoint passed or a function called, by which task, and with what?",
    attach: ATTACH,
    output: "One line for each event: time, task, CPU, and the values that are asked for; text up to 255 bytes. Below it the stack, \
             if that is asked for, innermost function first.",
    caveats: CAVEATS,
    overhead: OVERHEAD,
    params: &[
        FUNCTION,
        TRACEPOINT,
        USDT,
        ParamDef {
            name: "value",
            kind: ParamKind::Values,
            default: "",
            help: "what to show, separated by commas: up to four of a field, arg1, return, latency; two of them may be text \
                   (arg1:string; ustring for text of a program that the kernel was given)",
        },
        FILTER,
        ParamDef {
            name: "stack",
            kind: ParamKind::OneOf(&WHICH_STACKS),
            default: "",
            help: "show with each line from where it was called: user, kernel or both",
        },
        ParamDef {
            name: "lines",
            kind: ParamKind::Count { min: 0, max: 1_000_000 },
            default: "0",
            help: "end after so many lines; 0 for no end",
        },
    ],
    filters: &[FilterKind::Pid, FilterKind::Comm, FilterKind::Cgroup],
    streams: true,
    stacks: GivesStacks::Never,
    metrics: &[],
    start,
};

/// Texts of one line at most.
const MAX_TEXTS: usize = 2;
/// Words of `struct line` before its values.
const FIRST_VALUE: usize = 5;
/// Before its stacks, before the lengths of its texts, and before the texts.
const FIRST_STACK: usize = FIRST_VALUE + grammar::MAX_VALUES;
const FIRST_LENGTH: usize = FIRST_STACK + 4;
const FIRST_TEXT: usize = FIRST_LENGTH + MAX_TEXTS;
/// Bytes of a text with its NUL.
const TEXT: usize = 256;

/// Points at most: each has a buffer of its own.
const MOST: usize = 16;

/// What the program is to do.
#[derive(Debug)]
struct LineLayout {
    reads: Reads,
    values: Vec<(String, Read)>,
    kernel_stack: bool,
    user_stack: bool,
    /// Whether there are other points, so that this one's name is shown.
    shows_point: bool,
}

/// A point that is watched.
struct Watched {
    object: Object,
    layout: LineLayout,
    totals: Totals,
}

struct Log {
    /// At least one.
    points: Vec<Watched>,
    events: Events,
    title: String,
    notes: Vec<String>,
    stacks: Option<LineStacks>,
    /// Lines that may still come.
    left: Option<u64>,
}

/// What is wrong with the points and the other parameters.
pub(super) fn check(points: Vec<Point>, params: &Params) -> Result<(), PointError> {
    layouts(points, params).map(drop)
}

/// One layout for each point.
fn layouts(points: Vec<Point>, params: &Params) -> Result<PerPoint<LineLayout>, PointError> {
    if points.len() > MOST {
        let message =
            format!("at most {MOST} points can be logged, and these are {}; count shows how many", points.len());
        return Err(wrong(message));
    }
    let shows_point = points.first().map(|point| &point.name) != points.last().map(|point| &point.name);
    let mut layouts = per_point(points, params, |reads| LineLayout::new(reads, params))?;
    layouts.each.iter_mut().for_each(|layout| layout.shows_point = shows_point);
    Ok(layouts)
}

impl LineLayout {
    fn new(mut reads: Reads, params: &Params) -> Result<Self, PointError> {
        let mut values = Vec::new();
        for operand in grammar::values(params.text("value").unwrap_or_default()).map_err(wrong)? {
            let read = reads.read_any(values.len(), &operand)?;
            if read.is_code {
                let message =
                    format!("{} as a function of the kernel can be a key of count and hist only", operand.name);
                return Err(wrong(message));
            }
            values.push((operand.name, read));
        }
        if values.iter().filter(|(_, read)| read.text.is_some()).count() > MAX_TEXTS {
            return Err(wrong(format!("at most {MAX_TEXTS} texts can be shown")));
        }
        let stack = params.text("stack");
        // A program has no stack in the kernel while it calls a function of its own.
        let kernel_stack = stack == Some("kernel") || stack == Some("both") && !reads.is_user();
        let user_stack = stack.is_some_and(|stack| stack != "kernel");
        Ok(Self { reads, values, kernel_stack, user_stack, shows_point: false })
    }

    /// The values that are text, by their place.
    fn texts(&self) -> impl Iterator<Item = (usize, Read)> {
        self.values.iter().map(|(_, read)| *read).enumerate().filter(|(_, read)| read.text.is_some())
    }

    fn globals(&self, reads: &Reads) -> Vec<Global> {
        let (mut kinds, mut places, mut offsets) = ([0; MAX_TEXTS], [0; MAX_TEXTS], [0; MAX_TEXTS]);
        let slots = kinds.iter_mut().zip(&mut places).zip(&mut offsets);
        for (((kind, place), offset), (at, read)) in slots.zip(self.texts()) {
            (*kind, *offset) = read.text_at();
            *place = at as u32;
        }
        let mut globals = reads.globals();
        globals.extend(self.reads.stack_globals(self.kernel_stack, self.user_stack));
        globals.extend([
            Global::bytes("text_in", bytes_of(&kinds)),
            Global::bytes("text_value", bytes_of(&places)),
            Global::bytes("text_at", bytes_of(&offsets)),
        ]);
        globals
    }

    /// The table of its lines.
    fn spec(&self, title: &str) -> TableSpec<'_, Line> {
        let mut spec = TableSpec::<Line>::new("events", title);
        if self.shows_point {
            spec = spec.text("point", "point", |_| self.reads.point.name.clone());
        }
        spec = spec
            .text("name", "task", |line| line.task.name())
            .text("pid", "pid", |line| line.task.pid.to_string())
            .text("tid", "tid", |line| line.task.tid.to_string())
            .text("cpu", "cpu", |line| line.cpu.to_string());
        let own: Vec<String> = spec.empty().columns.iter().map(|column| column.id.clone()).collect();
        let mut texts = 0..;
        for (at, (name, read)) in self.values.iter().enumerate() {
            // A field may be called like what every event has.
            let id = if own.contains(name) { format!("args.{name}") } else { name.clone() };
            let value = move |line: &Line| line.values.get(at).copied().unwrap_or(0);
            let text = read.text.and_then(|_| texts.next());
            spec = match (text, read.source) {
                (Some(text), _) => spec.text(&id, name, move |line| line.texts.get(text).cloned().flatten()),
                (None, Source::Latency) => {
                    spec.number(name, name, Unit::Seconds, move |line| value(line) as f64 * 1e-9)
                }
                (None, _) => spec.text(&id, name, move |line| read.shown(value(line))),
            };
        }
        if self.has_stack() { spec.cell("stack", "stack", |line| line.stack.clone()) } else { spec }
    }

    fn has_stack(&self) -> bool {
        self.kernel_stack || self.user_stack
    }
}

/// A `struct line` of the program.
struct Line {
    task: Task,
    cpu: u64,
    values: [u64; grammar::MAX_VALUES],
    /// Not known where it could not be read: an address that is not in memory, or none at all.
    texts: [Option<String>; MAX_TEXTS],
    /// What stands for it until it has names.
    stack: Cell,
}

impl Line {
    fn read(record: &[u8], stack: Cell) -> Self {
        let word = |at: usize| words::word(record, at * 8);
        let text = |at: usize| {
            let start = FIRST_TEXT * 8 + at * TEXT;
            let bytes = record.get(start..start + TEXT)?;
            (word(FIRST_LENGTH + at).cast_signed() > 0).then(|| words::text(bytes))
        };
        Self {
            task: Task::read(record, 1, 3),
            cpu: word(2),
            values: std::array::from_fn(|at| word(FIRST_VALUE + at)),
            texts: std::array::from_fn(text),
            stack,
        }
    }
}

fn start(context: &Context<'_>) -> Result<Box<dyn Probe>, Unavailable> {
    if context.host.is_recorded() || context.host.is_seen_from_outside() {
        return Err(Unavailable::new(Reason::NotVisible, "a recorded tree has no running kernel to attach to"));
    }
    let points = named(context.host, context.params, &context.filter.pids);
    let layouts = points.and_then(|points| layouts(points, context.params)).map_err(PointError::gap)?;
    let stacks = layouts.each.iter().any(LineLayout::has_stack).then(|| LineStacks::new(context));
    let of = layouts.each.len();
    let points = layouts.each.into_iter().map(|layout| watch(context, layout, of)).collect::<Result<Vec<_>, _>>()?;
    let names: Vec<&str> = points.iter().map(|point| point.layout.reads.point.name.as_str()).collect();
    let title = match (names.first(), names.last()) {
        (Some(first), Some(last)) if first != last => format!("Events at {} points", names.len()),
        (first, _) => format!("Events at {}", first.unwrap_or(&"")),
    };
    let lines = context.params.count("lines");
    let (events, left) = (Events::new(context.host.now()), (lines > 0).then_some(lines));
    Ok(Box::new(Log { points, events, title, notes: layouts.notes, stacks, left }))
}

/// Loads the program for one of so many points, and attaches it.
fn watch(context: &Context<'_>, layout: LineLayout, of: usize) -> Result<Watched, Unavailable> {
    let bytes = include_bytes_aligned!(concat!(env!("CARGO_MANIFEST_DIR"), "/log/log.bpf.o"));
    let threads = if layout.reads.moments() == Moments::Both { THREADS } else { 1 };
    let stacks = if layout.has_stack() { stacks::room(of) } else { 1 };
    // Stacks would begin with the trampoline.
    let may_jump = !layout.shows_point && !layout.kernel_stack;
    let object = layout.reads.attached(context, may_jump, |reads, constant| {
        let mut globals = context.filter.globals(context.host)?;
        globals.extend(layout.globals(reads));
        globals.push(constant);
        context.kernel()?.load(bytes, globals, &[("point_calls", threads), ("point_stacks", stacks)])
    })?;
    Ok(Watched { object, layout, totals: Totals::default() })
}

impl Probe for Log {
    fn objects(&self) -> Vec<&Object> {
        self.points.iter().map(|point| &point.object).collect()
    }

    fn poll(&mut self, host: &Host) -> Result<(), Unavailable> {
        let Self { points, events, title, stacks, left, .. } = self;
        for (at, Watched { object, layout, .. }) in points.iter_mut().enumerate() {
            events.drain(object, &layout.spec(title), |record| {
                if let Some(lines) = left {
                    *lines = lines.checked_sub(1)?;
                }
                let stack = stacks.as_mut().map_or(Cell::Unknown(()), |stacks| stacks.add(record));
                Some(Line::read(record, stack))
            })?;
            if let Some(stacks) = stacks {
                stacks.learn(host, at, object);
            }
        }
        let objects = points.iter_mut().map(|point| &mut point.object);
        stacks.as_mut().map_or(Ok(()), |stacks| stacks.make_room(objects))
    }

    fn is_over(&self) -> bool {
        self.left == Some(0)
    }

    fn read(&mut self, host: &Host) -> Result<Taken, Unavailable> {
        self.poll(host)?;
        let Some(first) = self.points.first() else { return Ok(Taken::default()) };
        let mut table = self.events.table(&first.layout.spec(&self.title));
        let mut lost = vec![stream::beyond(&table)];
        for point in &mut self.points {
            lost.push(stream::dropped(&mut point.object)?);
            lost.extend(point.totals.advance(&point.object)?.lost());
        }
        let mut notes = self.notes.clone();
        if let Some(stacks) = &mut self.stacks {
            stacks.name(host, &mut table.rows);
            notes.extend(stacks.notes().map(str::to_owned));
        }
        Ok(Taken { outputs: vec![Output::Events(table)], lost, notes })
    }
}

#[cfg(test)]
mod tests;
