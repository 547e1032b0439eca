//! From what somebody has written and what the point has, to the constants of point.h: what is read, what is compared.

use super::grammar::{self, Cast, LATENCY, MAX_TESTS, MAX_VALUES, OF_TASK, Operand, Test};
use super::{MARKER, ParamKind, Params, ProbeDef, count, log};
use crate::host::Host;
use crate::mechanism::ebpf::{Global, Moments, Object};
use crate::mechanism::points::{self, Field, Place, Point, PointError, Shape, Target, Text, When};
use crate::model::{Reason, Unavailable};

/// Fields of the program: values and keys, then the left sides of comparisons.
const FIRST_TEST: usize = MAX_VALUES;
const FIELDS: usize = FIRST_TEST + MAX_TESTS;

/// `enum source` of the program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
pub(super) enum Source {
    Nothing,
    Entry,
    Return,
    Latency,
    Tgid,
    Tid,
    Cpu,
    Memory,
    Constant,
}

/// `struct field` of the program, and what the number means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Read {
    pub(super) source: Source,
    pub(super) offset: u32,
    plus: i64,
    bytes: u32,
    pub(super) is_signed: bool,
    is_address: bool,
    /// Where the text is, if it leads to some.
    pub(super) text: Option<Text>,
}

const NOTHING: Read =
    Read { source: Source::Nothing, offset: 0, plus: 0, bytes: 8, is_signed: false, is_address: false, text: None };

impl Read {
    /// A number that was read, for people.
    pub(super) fn shown(self, word: u64) -> String {
        match (self.is_address, self.is_signed) {
            (true, _) => format!("{word:#x}"),
            (false, true) => word.cast_signed().to_string(),
            (false, false) => word.to_string(),
        }
    }
}

/// A point, and what is read and compared there.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Reads {
    pub(super) point: Point,
    fields: [Read; FIELDS],
    tests: Vec<Test>,
}

/// What is wrong with the point, the fields or the comparisons that the parameters of a probe of any point name, on this machine.
/// Other probes have nothing that could be wrong.
pub fn check_point(host: &Host, def: &ProbeDef, params: &Params, pids: &[u32]) -> Result<(), PointError> {
    if !def.params.iter().any(|param| param.kind == ParamKind::Function) {
        return Ok(());
    }
    let points = named(host, params, pids)?;
    if def.id == log::PROBE.id { log::check(points, params) } else { count::check(points, def.id, params) }
}

/// What is to be done at each of the points that one name stands for.
#[derive(Debug)]
pub(super) struct Plans<P> {
    /// At least one.
    pub(super) each: Vec<P>,
    /// Why there are not more, for people.
    pub(super) notes: Vec<String>,
}

/// The points that the parameters name: several where the name is a pattern, or where one marked place was compiled in several ways.
pub(super) fn named(host: &Host, params: &Params, pids: &[u32]) -> Result<Vec<Point>, PointError> {
    let process = if let [pid] = pids { Some(*pid) } else { None };
    match (params.text("tracepoint"), params.text(MARKER), params.text("function")) {
        (Some(tracepoint), ..) => points::tracepoints(host, tracepoint),
        (_, Some(marker), _) => points::markers(host, marker, process),
        (.., function) => points::functions(host, function.unwrap_or_default(), process),
    }
}

/// Makes a plan for each point. Of several, those that have not what is asked for are left out; that all lack it is an error.
pub(super) fn plans<P>(
    points: Vec<Point>,
    params: &Params,
    plan: impl Fn(Reads) -> Result<P, PointError>,
) -> Result<Plans<P>, PointError> {
    let (mut each, mut left_out) = (Vec::new(), Vec::new());
    let count = points.len();
    for point in points {
        match Reads::of(point, params.text("filter").unwrap_or_default()).and_then(&plan) {
            Ok(planned) => each.push(planned),
            Err(error) => left_out.push(error),
        }
    }
    let others = left_out.len();
    match left_out.into_iter().next() {
        Some(error) if each.is_empty() => Err(error),
        None if each.is_empty() => Err(wrong("there is nothing to look at".into())),
        None => Ok(Plans { each, notes: Vec::new() }),
        Some(error) => {
            let note = format!("{others} of {count} points are left out; {}", error.message);
            Ok(Plans { each, notes: vec![note] })
        }
    }
}

/// A message about what was written.
pub(super) fn wrong(message: String) -> PointError {
    PointError { message, near: None, reason: Reason::Malformed }
}

impl Reads {
    /// A point, and what must hold there.
    pub(super) fn of(point: Point, filter: &str) -> Result<Self, PointError> {
        let mut reads = Self { point, fields: [NOTHING; FIELDS], tests: Vec::new() };
        for (at, test) in grammar::filter(filter).map_err(wrong)?.into_iter().enumerate() {
            let read = reads.number(&test.operand)?;
            fits(&test, read).map_err(wrong)?;
            reads.place(FIRST_TEST + at, read);
            reads.tests.push(test);
        }
        Ok(reads)
    }

    /// Whether the point is a function.
    pub(super) fn is_function(&self) -> bool {
        matches!(self.point.target, Target::Kernel(_) | Target::User { .. })
    }

    /// Whether the point is in a program or library.
    pub(super) fn is_user(&self) -> bool {
        matches!(self.point.target, Target::User { .. } | Target::Marker { .. })
    }

    /// Has the program read a number in one of its fields.
    pub(super) fn read_number(&mut self, at: usize, operand: &Operand) -> Result<Read, PointError> {
        let read = self.number(operand)?;
        self.place(at, read);
        Ok(read)
    }

    /// The same for a number, or for text.
    pub(super) fn read_any(&mut self, at: usize, operand: &Operand) -> Result<Read, PointError> {
        let read = self.any(operand)?;
        self.place(at, read);
        Ok(read)
    }

    fn place(&mut self, at: usize, read: Read) {
        if let Some(slot) = self.fields.get_mut(at) {
            *slot = read;
        }
    }

    fn number(&self, operand: &Operand) -> Result<Read, PointError> {
        let read = self.any(operand)?;
        if read.text.is_some() {
            let message = format!("{} of {} is text, which `rdiag probe log` shows", operand.name, self.point.name);
            return Err(wrong(message));
        }
        Ok(read)
    }

    /// Where an operand is read.
    fn any(&self, operand: &Operand) -> Result<Read, PointError> {
        let point = &self.point;
        if operand.is(LATENCY) {
            if !self.is_function() {
                let message =
                    format!("{} is a place that is passed in no time; latency is that of a function", point.name);
                return Err(wrong(message));
            }
            return Ok(Read { source: Source::Latency, ..NOTHING });
        }
        for (name, source) in OF_TASK.into_iter().zip([Source::Tgid, Source::Tid, Source::Cpu]) {
            if operand.is(name) {
                return Ok(Read { source, ..NOTHING });
            }
        }
        let Some(field) = point.fields.iter().find(|field| field.name == operand.name) else {
            let known: Vec<String> = point.fields.iter().map(|field| field.name.clone()).collect();
            let has = if known.is_empty() { "it has none".to_owned() } else { format!("it has {}", known.join(", ")) };
            let message = format!("{} has no field {:?}; {has}", point.name, operand.name);
            return Err(PointError { message, near: Some((operand.name.clone(), known)), reason: Reason::Absent });
        };
        self.field(field, operand)
    }

    fn field(&self, field: &Field, operand: &Operand) -> Result<Read, PointError> {
        let name = format!("{} of {}", field.name, self.point.name);
        let read = match (field.place, field.when) {
            (Place::Context(offset), When::Entry) => Read { source: Source::Entry, offset, ..NOTHING },
            (Place::Context(offset), When::Return) => Read { source: Source::Return, offset, ..NOTHING },
            (Place::Memory(offset, plus), _) => Read { source: Source::Memory, offset, plus, ..NOTHING },
            (Place::Constant(plus), _) => Read { source: Source::Constant, plus, ..NOTHING },
        };
        match (field.shape, operand.cast) {
            (Shape::Other, _) => Err(wrong(format!("{name} is neither a number nor text that can be read"))),
            (Shape::Text(text), None | Some(Cast::Text | Cast::TextOfProgram)) => {
                let bytes = if text == Text::Located { 4 } else { 8 };
                Ok(Read { bytes, text: Some(text), ..read })
            }
            (Shape::Text(_), Some(Cast::Number(..))) => Err(wrong(format!("{name} is text, and no number"))),
            (Shape::Number { bytes, .. }, Some(Cast::Text | Cast::TextOfProgram)) if bytes < 8 => {
                Err(wrong(format!("{name} has {bytes} bytes, so it is no address of text")))
            }
            (Shape::Number { .. }, Some(cast @ (Cast::Text | Cast::TextOfProgram))) => {
                let in_program = cast == Cast::TextOfProgram || self.is_user();
                Ok(Read { text: Some(if in_program { Text::OfProgram } else { Text::OfKernel }), ..read })
            }
            (Shape::Number { bytes, .. }, Some(Cast::Number(narrow, _))) if narrow > bytes => {
                Err(wrong(format!("{name} has {bytes} bytes, not {narrow}")))
            }
            (Shape::Number { .. }, Some(Cast::Number(bytes, is_signed))) => Ok(Read { bytes, is_signed, ..read }),
            (Shape::Number { bytes, is_signed, is_address }, None) => Ok(Read { bytes, is_signed, is_address, ..read }),
        }
    }

    /// What must be watched for all that is read.
    pub(super) fn moments(&self) -> Moments {
        let needs = |source| self.fields.iter().any(|read| read.source == source);
        match (needs(Source::Return), needs(Source::Latency), needs(Source::Entry)) {
            (_, true, _) | (true, _, true) => Moments::Both,
            (true, false, false) => Moments::Return,
            _ => Moments::Entry,
        }
    }

    /// The constants of point.h.
    pub(super) fn globals(&self) -> Vec<Global> {
        let field = |read: &Read| {
            let words = words(&[read.source as u32, read.offset, read.bytes, u32::from(read.is_signed)]);
            words.into_iter().chain(read.plus.to_ne_bytes())
        };
        let mut tests = Vec::new();
        for at in 0..MAX_TESTS {
            let (test, read) = (self.tests.get(at), self.fields.get(FIRST_TEST + at));
            let operator = test.map_or(0, |test| test.operator as u32);
            tests.extend(words(&[operator, u32::from(read.is_some_and(|read| read.is_signed))]));
            // What does not fit was refused, so the lower half is the number.
            tests.extend((test.map_or(0, |test| test.number) as u64).to_ne_bytes());
        }
        vec![
            Global::bytes("point_fields", self.fields.iter().flat_map(field).collect()),
            Global::bytes("point_tests", tests),
            Global::u32("is_paired", u32::from(self.moments() == Moments::Both)),
        ]
    }
}

/// The counters of point.h, in its order: since the program was loaded, or between two readings.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Totals {
    pub(super) events: u64,
    pub(super) sum: u64,
    pub(super) negative: u64,
    no_room: u64,
    no_stack_room: u64,
    too_deep: u64,
    no_entry: u64,
}

impl Totals {
    /// The sums of several points.
    pub(super) fn plus(self, other: Self) -> Self {
        Self {
            events: self.events + other.events,
            sum: self.sum.wrapping_add(other.sum),
            negative: self.negative + other.negative,
            no_room: self.no_room + other.no_room,
            no_stack_room: self.no_stack_room + other.no_stack_room,
            too_deep: self.too_deep + other.too_deep,
            no_entry: self.no_entry + other.no_entry,
        }
    }

    /// Reads them anew, and gives what came since.
    pub(super) fn advance(&mut self, object: &Object) -> Result<Self, Unavailable> {
        let copies = |at| -> Result<u64, Unavailable> {
            let copies = object.per_cpu_element::<u64>("point_counters", at)?;
            Ok(copies.iter().fold(0, |all, one| all.wrapping_add(*one)))
        };
        let now = Self {
            events: copies(0)?,
            sum: copies(1)?,
            negative: copies(2)?,
            no_room: copies(3)?,
            no_stack_room: copies(4)?,
            too_deep: copies(5)?,
            no_entry: copies(6)?,
        };
        let before = std::mem::replace(self, now);
        Ok(Self {
            events: now.events.saturating_sub(before.events),
            // Values may be negative.
            sum: now.sum.wrapping_sub(before.sum),
            negative: now.negative.saturating_sub(before.negative),
            no_room: now.no_room.saturating_sub(before.no_room),
            no_stack_room: now.no_stack_room.saturating_sub(before.no_stack_room),
            too_deep: now.too_deep.saturating_sub(before.too_deep),
            no_entry: now.no_entry.saturating_sub(before.no_entry),
        })
    }

    /// What is not in the outputs, and why.
    pub(super) fn lost(&self) -> [(&'static str, u64); 4] {
        [
            ("too many keys at once", self.no_room),
            ("stacks that found no room", self.no_stack_room),
            ("calls within more than 8 calls of the same function", self.too_deep),
            ("returns whose call was not seen", self.no_entry),
        ]
    }
}

/// An array of words as it lies in memory.
pub(super) fn words(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_ne_bytes()).collect()
}

/// Whether the number of a comparison is one that the field can have: a comparison that always or never holds is a mistake.
fn fits(test: &Test, read: Read) -> Result<(), String> {
    let bits = 8 * read.bytes;
    let range = if read.is_signed { -(1_i128 << (bits - 1))..1 << (bits - 1) } else { 0..1_i128 << bits };
    if range.contains(&test.number) {
        return Ok(());
    }
    let name = &test.operand.name;
    let signed = format!("; write {name}:s{bits} if it may be negative");
    let remedy = if test.number < 0 && !read.is_signed { signed } else { String::new() };
    Err(format!(
        "{name} lies between {} and {}, so it is never compared with {}{remedy}",
        range.start,
        range.end - 1,
        test.number
    ))
}
