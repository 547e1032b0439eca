//! A row of an unwind table.

use serde::{Deserialize, Serialize};

use super::registers::COUNT;

/// How to get from a frame to that of its caller, for a range of code.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(in super::super) struct Row {
    /// It holds for so many bytes of code before the place that was asked for.
    pub(in super::super) before: u64,
    /// And for so many from that place on.
    pub(in super::super) after: u64,
    /// The stack pointer of the caller: the canonical frame address.
    pub(in super::super) frame: Value,
    /// The register that stands for the address to return to.
    pub(in super::super) returns: u16,
    /// Registers of the caller that are not as they are here.
    pub(in super::super) rules: Vec<(u16, Rule)>,
    /// It is how the kernel calls a handler of signals: the caller was interrupted, and everywhere.
    pub(in super::super) is_signal: bool,
}

impl Row {
    /// One of which it is known that it is there, and nothing else: nothing follows it.
    pub(in super::super) fn hard(returns: u16) -> Self {
        // In terms of itself.
        let frame = Value { base: Base::Frame, offset: 0, loaded: None };
        Self { before: 0, after: 1, frame, returns, rules: Vec::new(), is_signal: false }
    }

    /// Whether it can be followed: it is about registers that there are, and has one rule for each at most.
    pub(in super::super) fn is_sound(&self) -> bool {
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
pub(in super::super) enum Rule {
    /// It is not known; of the address to return to: there is no caller.
    Gone,
    /// This.
    Is(Value),
    /// What stands in memory here.
    At(Value),
}

/// A number that depends on registers and memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(in super::super) struct Value {
    pub(in super::super) base: Base,
    pub(in super::super) offset: i64,
    /// The sum is the address of a number to which this is added.
    pub(in super::super) loaded: Option<i64>,
}

/// What a value begins with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(in super::super) enum Base {
    Register(u16),
    /// [`Row::frame`].
    Frame,
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
