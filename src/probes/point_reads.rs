//! From what the user has written and what the point has, to the constants of point.h: what is read, what is compared.

use super::grammar::{self, Cast, GROUP, LATENCY, MAX_TESTS, MAX_VALUES, OF_TASK, Operand, Test};
use super::per_point::wrong;
use super::value_read::{Form, NOTHING, Read, Source};
use crate::def::Context;
use rdiag_kernel::mechanism::ebpf::{Global, Moments, Object, Way};
use rdiag_kernel::mechanism::points::{CALLER, Field, Place, Point, PointError, Shape, Target, Text, When};
use rdiag_model::{Reason, Unavailable};

/// Fields of the program: values and keys, then the left sides of comparisons.
const FIRST_TEST: usize = MAX_VALUES;
const FIELDS: usize = FIRST_TEST + MAX_TESTS;

/// A point, and what is read and compared there.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Reads {
    pub(super) point: Point,
    fields: [Read; FIELDS],
    tests: Vec<Test>,
}

impl Reads {
    /// A point, and what must hold there.
    pub(super) fn of(point: Point, filter: &str) -> Result<Self, PointError> {
        let mut reads = Self { point, fields: [NOTHING; FIELDS], tests: Vec::new() };
        for (at, test) in grammar::filter(filter).map_err(wrong)?.into_iter().enumerate() {
            let read = reads.number(&test.operand)?;
            read.fits(&test).map_err(wrong)?;
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
            let message = format!(
                "{} of {} is text, which can be a key, and which `rdiag probe log` shows",
                operand.name, self.point.name
            );
            return Err(wrong(message));
        }
        if read.is_code {
            return Err(wrong(format!(
                "{} as a function of the kernel can be a key of count and hist only",
                operand.name
            )));
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
        if operand.is(GROUP) {
            return Ok(Read { source: Source::Group, ..NOTHING });
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
            (Place::Behind(offset, path), When::Entry) => Read { source: Source::Entry, offset, path, ..NOTHING },
            (Place::Behind(offset, path), When::Return) => Read { source: Source::Return, offset, path, ..NOTHING },
            (Place::Memory(offset, plus), _) => Read { source: Source::Memory, offset, plus, ..NOTHING },
            (Place::Constant(plus), _) => Read { source: Source::Constant, plus, ..NOTHING },
        };
        if operand.cast == Some(Cast::TextOfLength) {
            let text = self.length_of(field).map(Text::Sized).ok_or_else(|| {
                wrong(format!("{name} is no text with its length behind it: that is an argument of a program, and the next one its length"))
            })?;
            return Ok(Read { text: Some(text), ..read });
        }
        match (field.shape, operand.cast) {
            (Shape::Other, _) => Err(wrong(format!("{name} is neither a number nor text that can be read"))),
            (Shape::Text(text), None | Some(Cast::Text | Cast::TextOfProgram)) => {
                let bytes = if text == Text::Located { 4 } else { 8 };
                // A member that is text itself, not the address of some.
                let form = if read.path.hops > 0 { Form::Place } else { Form::Plain };
                Ok(Read { bytes, form, text: Some(text), ..read })
            }
            (_, Some(Cast::TextOfLength)) | (Shape::Text(_), Some(Cast::Number(..) | Cast::Swapped(_))) => {
                Err(wrong(format!("{name} is text, and no number")))
            }
            (Shape::Text(_), Some(Cast::Code)) => Err(wrong(format!("{name} is text, and no address of code"))),
            (Shape::Number { bytes, .. }, Some(Cast::Code)) if bytes < 8 => {
                Err(wrong(format!("{name} has {bytes} bytes, so it is no address of code")))
            }
            (Shape::Number { .. }, Some(Cast::Code)) => Ok(Read { is_address: true, is_code: true, ..read }),
            (Shape::Number { bytes, .. }, Some(Cast::Text | Cast::TextOfProgram)) if bytes < 8 => {
                Err(wrong(format!("{name} has {bytes} bytes, so it is no address of text")))
            }
            (Shape::Number { .. }, Some(cast @ (Cast::Text | Cast::TextOfProgram))) => {
                let in_program = cast == Cast::TextOfProgram || self.is_user();
                Ok(Read { text: Some(if in_program { Text::OfProgram } else { Text::OfKernel }), ..read })
            }
            (Shape::Number { bytes, .. }, Some(Cast::Number(narrow, _) | Cast::Swapped(narrow))) if narrow > bytes => {
                Err(wrong(format!("{name} has {bytes} bytes, not {narrow}")))
            }
            (Shape::Number { .. }, Some(Cast::Number(bytes, is_signed))) => Ok(Read { bytes, is_signed, ..read }),
            (Shape::Number { .. }, Some(Cast::Swapped(bytes))) => Ok(Read { bytes, form: Form::Swapped, ..read }),
            (Shape::Number { bytes, is_signed, is_address }, None) => Ok(Read { bytes, is_signed, is_address, ..read }),
        }
    }

    /// Where the argument is that follows this one, of a program.
    fn length_of(&self, field: &Field) -> Option<u32> {
        let is_word = matches!(field.shape, Shape::Number { bytes: 8, .. });
        let number: u32 = field.name.strip_prefix("arg")?.parse().ok()?;
        let next = format!("arg{}", number.checked_add(1)?);
        let next = self.point.fields.iter().find(|field| field.name == next && is_word && self.is_user())?;
        if let Place::Context(offset) = next.place { Some(offset) } else { None }
    }

    /// What the program reads in its first field.
    pub(super) fn first(&self) -> Read {
        let [first, ..] = self.fields;
        first
    }

    /// The comparisons that must hold, with what is read for each.
    pub(super) fn comparisons(&self) -> impl Iterator<Item = (&Test, Read)> {
        self.tests.iter().zip(self.fields.iter().skip(FIRST_TEST).copied())
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

    /// The same for programs that are called with arguments and result in place of registers; none where they cannot be.
    pub(super) fn among_arguments(&self) -> Option<Self> {
        let mut moved = self.clone();
        for read in &mut moved.fields {
            let when = match read.source {
                Source::Entry => When::Entry,
                Source::Return => When::Return,
                _ => continue,
            };
            read.offset = self.point.among_arguments(when, read.offset)?;
        }
        self.point.arguments.map(|_| moved)
    }

    /// An object that is attached to the point by the best way that works: a function of the kernel by a trampoline where `may_jump`.
    /// `load` is given what it has to read, and a constant more.
    pub(super) fn attached(
        &self,
        context: &Context<'_>,
        may_jump: bool,
        load: impl Fn(&Self, Global) -> Result<Object, Unavailable>,
    ) -> Result<Object, Unavailable> {
        let attach = |reads: &Self, way: Way<'_>| -> Result<Object, Unavailable> {
            let is_preempted = self.is_user() || matches!(way, Way::Trampoline(_));
            let mut object = load(reads, Global::u32("is_preempted", u32::from(is_preempted)))?;
            object.attach_point(context.host, &self.point, self.moments(), &context.filter.pids, way)?;
            Ok(object)
        };
        let mut refused = Vec::new();
        if let Some(moved) = self.among_arguments().filter(|_| may_jump) {
            match attach(&moved, Way::Trampoline(context.kernel()?)) {
                Ok(object) => return Ok(object),
                Err(gap) => refused.push(gap.why),
            }
        }
        let mut object = attach(self, Way::Probe)?;
        object.note_refused(&refused);
        Ok(object)
    }

    /// The constants of whence.h: which stacks are taken, and where the entry of a function finds its caller.
    pub(super) fn stack_globals(&self, of_kernel: bool, of_program: bool) -> [Global; 4] {
        // Only a function that is just entered has no frame.
        let at_entry = self.is_user() && self.is_function() && self.moments() == Moments::Entry;
        [
            Global::u32("want_kernel", u32::from(of_kernel)),
            Global::u32("want_user", u32::from(of_program)),
            Global::u32("caller_in", if at_entry { CALLER.how } else { 0 }),
            Global::u32("caller_at", CALLER.offset),
        ]
    }

    /// The constants of point.h.
    pub(super) fn globals(&self) -> Vec<Global> {
        let mut tests = Vec::new();
        for at in 0..MAX_TESTS {
            let (test, read) = (self.tests.get(at), self.fields.get(FIRST_TEST + at));
            let operator = test.map_or(0, |test| test.operator as u32);
            tests.extend(words(&[operator, u32::from(read.is_some_and(|read| read.is_signed))]));
            // What does not fit was refused, so the lower half is the number.
            tests.extend((test.map_or(0, |test| test.number) as u64).to_ne_bytes());
        }
        vec![
            Global::bytes("point_fields", self.fields.iter().flat_map(Read::bytes_of).collect()),
            Global::bytes("point_tests", tests),
            Global::u32("is_paired", u32::from(self.moments() == Moments::Both)),
        ]
    }
}

/// An array of words as it lies in memory.
pub(super) fn words(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_ne_bytes()).collect()
}
