//! Each event at any point, with values and text: what somebody would have printed there.

use super::count::{ATTACH, CAVEATS, FILTER, FUNCTION, OVERHEAD, THREADS, TRACEPOINT, USDT};
use super::grammar;
use super::reads::{Plans, Read, Reads, Source, Totals, named, plans, words as bytes_of, wrong};
use super::stream::{self, Events};
use super::{Context, FilterKind, GivesStacks, ParamDef, ParamKind, Params, Probe, ProbeDef, Taken};
use crate::host::Host;
use crate::mechanism::ebpf::{Global, Moments, Object, include_bytes_aligned, words};
use crate::mechanism::points::{Point, PointError, Text};
use crate::model::probe::{Cell, Column, Output};
use crate::model::{Reason, Unavailable, Unit};

pub(super) static PROBE: ProbeDef = ProbeDef {
    id: "log",
    question: "When was a tracepoint passed or a function called, by whom, and with what?",
    attach: ATTACH,
    output: "One line for each event: time, task, CPU, and the values that are asked for; text up to 255 bytes.",
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
/// Before the lengths of its texts, and before the texts.
const FIRST_LENGTH: usize = FIRST_VALUE + grammar::MAX_VALUES;
const FIRST_TEXT: usize = FIRST_LENGTH + MAX_TEXTS;
/// Bytes of a text with its NUL.
const TEXT: usize = 256;

/// Points at most: each has a buffer of its own.
const MOST: usize = 16;

/// What the program is to do.
#[derive(Debug)]
struct Plan {
    reads: Reads,
    values: Vec<(String, Read)>,
    /// Whether there are other points, from which this one is told apart by name.
    shows_point: bool,
}

/// A point that is watched.
struct Watched {
    object: Object,
    plan: Plan,
    totals: Totals,
}

struct Log {
    /// At least one.
    points: Vec<Watched>,
    events: Events,
    title: String,
    notes: Vec<String>,
    /// Lines that may still come.
    left: Option<u64>,
}

/// What is wrong with the points and the other parameters.
pub(super) fn check(points: Vec<Point>, params: &Params) -> Result<(), PointError> {
    planned(points, params).map(drop)
}

/// One plan for each point.
fn planned(points: Vec<Point>, params: &Params) -> Result<Plans<Plan>, PointError> {
    if points.len() > MOST {
        let message =
            format!("at most {MOST} points can be logged, and these are {}; count shows how many", points.len());
        return Err(wrong(message));
    }
    let shows_point = points.first().map(|point| &point.name) != points.last().map(|point| &point.name);
    let mut plans = plans(points, params, |reads| Plan::new(reads, params))?;
    plans.each.iter_mut().for_each(|plan| plan.shows_point = shows_point);
    Ok(plans)
}

impl Plan {
    fn new(mut reads: Reads, params: &Params) -> Result<Self, PointError> {
        let mut values = Vec::new();
        for operand in grammar::values(params.text("value").unwrap_or_default()).map_err(wrong)? {
            let read = reads.read_any(values.len(), &operand)?;
            values.push((operand.name, read));
        }
        if values.iter().filter(|(_, read)| read.text.is_some()).count() > MAX_TEXTS {
            return Err(wrong(format!("at most {MAX_TEXTS} texts can be shown")));
        }
        Ok(Self { reads, values, shows_point: false })
    }

    /// The values that are text, by their place.
    fn texts(&self) -> impl Iterator<Item = (usize, Read, Text)> {
        let text = |(at, (_, read)): (usize, &(String, Read))| Some((at, *read, read.text?));
        self.values.iter().enumerate().filter_map(text)
    }

    fn globals(&self) -> Vec<Global> {
        let (mut kinds, mut places, mut offsets) = ([0; MAX_TEXTS], [0; MAX_TEXTS], [0; MAX_TEXTS]);
        let slots = kinds.iter_mut().zip(&mut places).zip(&mut offsets);
        for (((kind, place), offset), (at, read, text)) in slots.zip(self.texts()) {
            *kind = match text {
                Text::OfProgram => 1,
                Text::OfKernel => 2,
                Text::Located => 3,
                Text::Inline => 4,
            };
            (*place, *offset) = (at as u32, read.offset);
        }
        let mut globals = self.reads.globals();
        globals.extend([
            Global::bytes("text_in", bytes_of(&kinds)),
            Global::bytes("text_value", bytes_of(&places)),
            Global::bytes("text_at", bytes_of(&offsets)),
        ]);
        globals
    }

    fn columns(&self) -> Vec<Column> {
        let mut columns = Vec::new();
        if self.shows_point {
            columns.push(Column::text("point", "point"));
        }
        columns.extend(
            [("name", "task"), ("pid", "pid"), ("tid", "tid"), ("cpu", "cpu")]
                .map(|(id, title)| Column::text(id, title)),
        );
        columns.extend(
            self.values
                .iter()
                .map(|(name, read)| match read.source {
                    Source::Latency => Column::number(name, name, Unit::Seconds),
                    // A field may be called like what every event has.
                    _ if columns.iter().any(|own| own.id == *name) => Column::text(&format!("args.{name}"), name),
                    _ => Column::text(name, name),
                })
                .collect::<Vec<_>>(),
        );
        columns
    }

    /// The cells of a record.
    fn line(&self, record: &[u8]) -> Vec<Cell> {
        let word = |at: usize| words::word(record, at * 8);
        let (ids, cpu) = (word(1), word(2));
        let mut cells: Vec<Cell> = Vec::new();
        if self.shows_point {
            cells.push(self.reads.point.name.as_str().into());
        }
        let task = words::text_of_words(&[word(3), word(4)]);
        let task = [task, (ids >> 32).to_string(), (ids & 0xffff_ffff).to_string(), cpu.to_string()];
        cells.extend(task.map(Cell::from));
        let mut texts = 0;
        for (at, (_, read)) in self.values.iter().enumerate() {
            let value = word(FIRST_VALUE + at);
            cells.push(match (read.text, read.source) {
                (Some(_), _) => {
                    texts += 1;
                    text(record, texts - 1)
                }
                (None, Source::Latency) => (value as f64 * 1e-9).into(),
                (None, _) => read.shown(value).into(),
            });
        }
        cells
    }
}

/// One of the texts of a record; not known where it could not be read: an address that is not in memory, or none at all.
fn text(record: &[u8], at: usize) -> Cell {
    let length = words::word(record, (FIRST_LENGTH + at) * 8).cast_signed();
    let start = FIRST_TEXT * 8 + at * TEXT;
    match record.get(start..start + TEXT) {
        Some(bytes) if length > 0 => words::text(bytes).into(),
        _ => Cell::Unknown(()),
    }
}

fn start(context: &Context<'_>) -> Result<Box<dyn Probe>, Unavailable> {
    if context.host.is_recorded() || context.host.is_seen_from_outside() {
        return Err(Unavailable::new(Reason::NotVisible, "a recorded tree has no running kernel to attach to"));
    }
    let points = named(context.host, context.params, &context.filter.pids);
    let plans = points.and_then(|points| planned(points, context.params)).map_err(PointError::gap)?;
    let points = plans.each.into_iter().map(|plan| watch(context, plan)).collect::<Result<Vec<_>, _>>()?;
    let names: Vec<&str> = points.iter().map(|point| point.plan.reads.point.name.as_str()).collect();
    let title = match (names.first(), names.last()) {
        (Some(first), Some(last)) if first != last => format!("Events at {} points", names.len()),
        (first, _) => format!("Events at {}", first.unwrap_or(&"")),
    };
    let lines = context.params.count("lines");
    let (events, left) = (Events::new(context.host.now()), (lines > 0).then_some(lines));
    Ok(Box::new(Log { points, events, title, notes: plans.notes, left }))
}

/// Loads the program for a point, and attaches it.
fn watch(context: &Context<'_>, plan: Plan) -> Result<Watched, Unavailable> {
    let bytes = include_bytes_aligned!(concat!(env!("CARGO_MANIFEST_DIR"), "/src/probes/log/log.bpf.o"));
    let mut globals = context.filter.globals(context.host)?;
    globals.extend(plan.globals());
    let moments = plan.reads.moments();
    let threads = if moments == Moments::Both { THREADS } else { 1 };
    let mut object = context.kernel()?.load(bytes, globals, &[("point_calls", threads)])?;
    object.attach_point(context.host, &plan.reads.point, moments, &context.filter.pids)?;
    Ok(Watched { object, plan, totals: Totals::default() })
}

impl Probe for Log {
    fn objects(&self) -> Vec<&Object> {
        self.points.iter().map(|point| &point.object).collect()
    }

    fn poll(&mut self, _: &Host) -> Result<(), Unavailable> {
        let left = &mut self.left;
        for Watched { object, plan, .. } in &mut self.points {
            self.events.drain(object, |record| match left {
                Some(0) => None,
                Some(lines) => {
                    *lines -= 1;
                    Some(plan.line(record))
                }
                None => Some(plan.line(record)),
            })?;
        }
        Ok(())
    }

    fn is_over(&self) -> bool {
        self.left == Some(0)
    }

    fn read(&mut self, host: &Host) -> Result<Taken, Unavailable> {
        self.poll(host)?;
        let columns = self.points.first().map(|point| point.plan.columns()).unwrap_or_default();
        let table = self.events.table("events", &self.title, &columns);
        let mut lost = vec![stream::beyond(&table)];
        for point in &mut self.points {
            lost.push(stream::dropped(&mut point.object)?);
            lost.extend(point.totals.advance(&point.object)?.lost());
        }
        Ok(Taken { outputs: vec![Output::Events(table)], lost, notes: self.notes.clone() })
    }
}

#[cfg(test)]
mod tests;
