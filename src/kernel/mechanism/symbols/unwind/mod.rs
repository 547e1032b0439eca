//! Callers of code without frame pointers, by the tables that every program has for its exceptions (`.eh_frame`).
//!
//! What is walked is a copy of a thread's registers and of the top of its stack, taken while it ran (a [`Dump`]). A table's row says for a
//! range of code where the frame of its caller begins and which registers were saved where. A file is its owner's word, so the process
//! that reads symbols looks rows up (`reader/tables.rs`) and is told nothing but offsets; to follow a row is arithmetic on the copy
//! (`step.rs`), which cannot lead out of it. Rows are remembered (`rows.rs`): a busy program executes the same code again and again.
//!
//! Nothing is guessed. Where no table says how to go on the stack ends, and where frame pointers lead further, theirs is taken whole.

mod files;
mod registers;
mod rows;
mod step;

use serde::{Deserialize, Serialize};

pub use registers::{COUNT, Registers, SUPPORTED, WORDS};
pub(super) use registers::{MACHINE, PC, SP};
pub(super) use rows::Rows;

use super::mapped::Mapped;
use super::maps::Maps;
use super::worker::{Of, Worker};
use super::{Process, Symbols, sees_map_files};
use crate::host::Host;

/// Bytes of dumps that may wait to be walked.
const MAX_WAITING: usize = 32 << 20;

/// How to get from a frame to that of its caller, for a range of code.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Row {
    /// It holds for so many bytes of code before the place that was asked for.
    pub(super) before: u64,
    /// And for so many from that place on.
    pub(super) after: u64,
    /// The stack pointer of the caller: the canonical frame address.
    pub(super) frame: Value,
    /// The register that stands for the address to return to.
    pub(super) returns: u16,
    /// Registers of the caller that are not as they are here.
    pub(super) rules: Vec<(u16, Rule)>,
    /// It is how the kernel calls a handler of signals: the caller was interrupted, and everywhere.
    pub(super) is_signal: bool,
}

impl Row {
    /// Whether it can be followed: it is about registers that there are, and has one rule for each at most.
    pub(super) fn is_sound(&self) -> bool {
        let is_register = |register: u16| usize::from(register) < COUNT;
        let is_value = |value: Value| match value.base {
            Base::Register(register) => is_register(register),
            Base::Frame => true,
        };
        let is_rule = |(register, rule): &(u16, Rule)| {
            is_register(*register)
                && match rule {
                    Rule::Gone => true,
                    Rule::Is(value) | Rule::At(value) => is_value(*value),
                }
        };
        self.rules.len() <= COUNT && is_register(self.returns) && is_value(self.frame) && self.rules.iter().all(is_rule)
    }
}

/// What a register held in the caller.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Rule {
    /// It is not known; of the address to return to: there is no caller.
    Gone,
    /// This.
    Is(Value),
    /// What stands in memory here.
    At(Value),
}

/// A number that depends on registers and memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Value {
    pub(super) base: Base,
    pub(super) offset: i64,
    /// The sum is the address of a number to which this is added.
    pub(super) loaded: Option<i64>,
}

/// What a value begins with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Base {
    Register(u16),
    /// [`Row::frame`].
    Frame,
}

/// What a thread's registers and the top of its stack held at a sample.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Dump {
    /// By which the answer is known.
    pub ticket: u64,
    /// The registers.
    pub registers: Registers,
    /// The address of the first byte.
    pub base: u64,
    /// The stack from there on, outwards.
    pub bytes: Vec<u8>,
    /// The stack as frame pointers have it, innermost first.
    pub pointers: Vec<u64>,
}

/// A stack that was walked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Walked {
    /// That of its dump.
    pub ticket: u64,
    /// Addresses, innermost first; none if frame pointers lead further.
    pub stack: Option<ByTables>,
}

/// A stack by unwind tables.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ByTables {
    /// Addresses, innermost first.
    pub addresses: Vec<u64>,
    /// Whether a table says that the outermost has no caller.
    pub is_whole: bool,
}

impl Symbols {
    /// Has the stacks of a process walked, which must live. Answers come later, see [`Symbols::walked`].
    pub fn unwind(&mut self, host: &Host, process: Process, dumps: Vec<Dump>) {
        let waiting: usize = dumps.iter().map(|dump| dump.bytes.len()).sum();
        let places: Vec<u64> = dumps.iter().map(|dump| dump.registers.pc()).collect();
        let tickets: Vec<u64> = dumps.iter().map(|dump| dump.ticket).collect();
        if self.worker.is_none() && !self.given_up {
            self.worker = Worker::start();
        }
        let by_link = sees_map_files(host);
        let mapped =
            (self.dumped.saturating_add(waiting) <= MAX_WAITING).then(|| self.mapped_of(host, process, &places));
        let is_asked = match (mapped.flatten(), &mut self.worker) {
            (Some(Mapped { maps, same_mounts, .. }), Some(worker)) if by_link || same_mounts => {
                let of = Of::Process { pid: process.pid, by_link, by_path: same_mounts };
                worker.ask_stacks(of, process, dumps, maps)
            }
            _ => false,
        };
        if is_asked {
            self.dumped = self.dumped.saturating_add(waiting);
        } else {
            self.walked.extend(tickets.into_iter().map(|ticket| Walked { ticket, stack: None }));
        }
    }

    /// What was walked meanwhile.
    pub fn walked(&mut self, host: &Host) -> Vec<Walked> {
        self.catch_up(host);
        std::mem::take(&mut self.walked)
    }
}

/// How many of the addresses that frame pointers lead to can be callers: where one is none of code, the rest is no stack.
fn believed(maps: &Maps, pointers: &[u64]) -> usize {
    let is_code = |(place, at): &(usize, &u64)| maps.kind(at.saturating_sub(u64::from(*place > 0))).is_some();
    pointers.iter().enumerate().take_while(is_code).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_about_registers_that_do_not_exist_or_with_more_rules_than_registers_is_not_sound() {
        let last = COUNT as u16 - 1;
        let value = |register| Value { base: Base::Register(register), offset: 0, loaded: None };
        let row =
            |base, returns, rules| Row { before: 0, after: 1, frame: value(base), returns, rules, is_signal: false };
        let many = |count| vec![(0, Rule::Gone); count];
        for (row, is_sound) in [
            (row(last, last, vec![(last, Rule::At(value(last)))]), true),
            (row(last + 1, 0, Vec::new()), false),
            (row(0, last + 1, Vec::new()), false),
            (row(0, 0, vec![(last + 1, Rule::Gone)]), false),
            (row(0, 0, vec![(0, Rule::Is(value(last + 1)))]), false),
            (row(0, 0, many(COUNT)), true),
            (row(0, 0, many(COUNT + 1)), false),
        ] {
            assert_eq!(row.is_sound(), is_sound, "{row:?}");
        }
    }
}
