//! What is summed up, and by what.

use crate::def::Params;
use crate::grammar::{self, COMM, MAX_KEYS, STACKS};
use crate::per_point::wrong;
use crate::point_reads::{Reads, words as bytes_of};
use crate::value_read::{Read, Source};
use rdiag_kernel::mechanism::ebpf::Global;
use rdiag_kernel::mechanism::points::PointError;

/// Where the program has its keys.
const FIRST_KEY: usize = 1;

/// What is summed up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Value {
    /// As it was written.
    pub(super) name: String,
    pub(super) is_signed: bool,
    /// Whether it is a time in nanoseconds.
    pub(super) is_time: bool,
}

/// What the program is to do.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Query {
    pub(super) reads: Reads,
    /// What is looked at, for people: the point, or what stands for several.
    pub(super) title: String,
    /// Whether there are others, so that its name is shown.
    pub(super) shows_point: bool,
    pub(super) value: Option<Value>,
    /// The numbers and texts that are keys, by name.
    pub(super) keys: Vec<(String, Read)>,
    pub(super) by_comm: bool,
    pub(super) kernel_stack: bool,
    pub(super) user_stack: bool,
}

impl Query {
    /// `default_value` stands for a value of a function that is not given.
    pub(super) fn new(mut reads: Reads, params: &Params, default_value: Option<&str>) -> Result<Self, PointError> {
        let value = params.text("value").or(default_value.filter(|_| reads.is_function()));
        let value = value.map(grammar::value).transpose().map_err(wrong)?;
        let value = match value {
            None => None,
            Some(operand) => {
                let read = reads.read_number(0, &operand)?;
                let is_time = read.source == Source::Latency;
                Some(Value { name: operand.name, is_signed: read.is_signed, is_time })
            }
        };
        let mut keys = Vec::new();
        let (mut by_comm, mut kernel_stack, mut user_stack) = (false, false, false);
        for operand in grammar::keys(params.text("key").unwrap_or_default()).map_err(wrong)? {
            let [both, of_kernel, of_program] = STACKS.map(|stack| operand.is(stack));
            by_comm |= operand.is(COMM);
            // A program has no stack in the kernel while it calls a function of its own.
            kernel_stack |= of_kernel || both && !reads.is_user();
            user_stack |= of_program || both;
            if !(operand.is(COMM) || both || of_kernel || of_program) {
                let read = reads.read_any(FIRST_KEY + keys.len(), &operand)?;
                keys.push((operand.name, read));
            }
        }
        let title = reads.point.name.clone();
        Ok(Self { reads, title, shows_point: false, value, keys, by_comm, kernel_stack, user_stack })
    }

    /// Whether it has any key.
    pub(super) fn has_key(&self) -> bool {
        !self.keys.is_empty() || self.by_comm || self.has_stack()
    }

    /// Whether stacks are part of the key.
    pub(super) fn has_stack(&self) -> bool {
        self.kernel_stack || self.user_stack
    }

    /// Whether any key is text.
    pub(super) fn has_text(&self) -> bool {
        self.keys.iter().any(|(_, read)| read.text.is_some())
    }

    /// Whether control groups are part of the key.
    pub(super) fn by_group(&self) -> bool {
        self.keys.iter().any(|(_, read)| read.source == Source::Group)
    }

    /// Whether kernel functions are part of the key.
    pub(super) fn by_code(&self) -> bool {
        self.keys.iter().any(|(_, read)| read.is_code)
    }

    /// The constants of the program, which reads what `reads` says: the query's own, or the same elsewhere.
    pub(super) fn globals(&self, reads: &Reads, want_hist: bool) -> Vec<Global> {
        let flag = |name, value: bool| Global::u32(name, u32::from(value));
        let texts: Vec<(u32, u32)> = self.keys.iter().map(|(_, read)| read.text_at()).collect();
        let of_texts = |part: fn(&(u32, u32)) -> u32| {
            let mut words = [0; MAX_KEYS];
            words.iter_mut().zip(&texts).for_each(|(word, text)| *word = part(text));
            bytes_of(&words)
        };
        let mut globals = reads.globals();
        globals.extend(self.reads.stack_globals(self.kernel_stack, self.user_stack));
        globals.extend([
            Global::bytes("text_in", of_texts(|text| text.0)),
            Global::bytes("text_at", of_texts(|text| text.1)),
            flag("want_hist", want_hist),
            flag("has_key", self.has_key()),
            flag("want_comm", self.by_comm),
        ]);
        globals
    }
}
