//! Rows in words that a program in the kernel can follow.

use super::registers::{HAS_LINK, PC, POINTER, SP};
use super::row::{Base, Row, Rule, Value};

/// Whether a frame pointer tells all that is needed of the caller. On arm64 it does not tell its stack pointer.
pub const FOLLOWS_POINTERS: bool = !HAS_LINK;

/// How to get from a place to its caller.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Way {
    /// By stack pointer and frame pointer alone.
    Plain(Plain),
    /// There is no caller.
    Outermost,
    /// No table knows the code.
    Unknown,
    /// A table does, in words that are not so plain.
    Hard,
}

/// Offsets in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Plain {
    /// The frame of the caller (its stack pointer) is reckoned from the frame pointer, not from the stack pointer.
    pub by_pointer: bool,
    /// And is so far from there.
    pub frame: i64,
    /// Or rather that is where a word is to which this is added.
    pub loaded: Option<i64>,
    /// From the frame to the address to return to; none if that is in a register.
    pub returns: Option<i64>,
    /// From the frame to the caller's frame pointer; none if that is as it was.
    pub pointer: Option<i64>,
}

impl Way {
    /// As frame pointers lead, for code that keeps them and has no table.
    pub const POINTERS: Plain =
        Plain { by_pointer: true, frame: 16, loaded: None, returns: Some(-8), pointer: Some(-16) };

    /// The same as a row.
    pub(super) fn pointers() -> Row {
        let saved = |offset| Rule::At(Value { base: Base::Frame, offset, loaded: None });
        let frame = Value { base: Base::Register(POINTER), offset: 16, loaded: None };
        let rules = vec![(PC, saved(-8)), (POINTER, saved(-16))];
        Row { before: 0, after: 1, frame, returns: PC, rules, is_signal: false }
    }

    pub(super) fn of(row: &Row) -> Self {
        let rule = |register| row.rules.iter().find(|(of, _)| *of == register).map(|(_, rule)| *rule);
        if rule(row.returns) == Some(Rule::Gone) {
            return Self::Outermost;
        }
        Self::plain(row, rule(row.returns), rule(POINTER)).map_or(Self::Hard, Self::Plain)
    }

    fn plain(row: &Row, returns: Option<Rule>, pointer: Option<Rule>) -> Option<Plain> {
        let Value { base: Base::Register(base), offset: frame, loaded } = row.frame else { return None };
        let by_pointer = base == POINTER;
        let has_stack = row.rules.iter().any(|(register, _)| *register == SP);
        if row.is_signal || has_stack || !(by_pointer || base == SP) {
            return None;
        }
        let saved = |rule| match rule {
            Some(Rule::At(Value { base: Base::Frame, offset, loaded: None })) => Some(Some(offset)),
            None => Some(None),
            Some(_) => None,
        };
        let (returns, pointer) = (saved(returns)?, saved(pointer)?);
        (returns.is_some() || HAS_LINK).then_some(Plain { by_pointer, frame, loaded, returns, pointer })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(base: Base, offset: i64) -> Value {
        Value { base, offset, loaded: None }
    }

    fn row(base: u16, rules: Vec<(u16, Rule)>) -> Row {
        let frame = at(Base::Register(base), 24);
        Row { before: 0, after: 1, frame, returns: PC, rules, is_signal: false }
    }

    #[test]
    fn a_row_about_the_two_pointers_is_plain_and_one_about_anything_else_is_hard() {
        let returns = (PC, Rule::At(at(Base::Frame, -8)));
        let saves = (POINTER, Rule::At(at(Base::Frame, -16)));
        let plain = Plain { by_pointer: false, frame: 24, loaded: None, returns: Some(-8), pointer: Some(-16) };
        assert_eq!(Way::of(&row(SP, vec![returns, saves])), Way::Plain(plain));
        let kept = Plain { by_pointer: true, pointer: None, ..plain };
        assert_eq!(Way::of(&row(POINTER, vec![returns, (0, Rule::Gone)])), Way::Plain(kept));
        let loads =
            Row { frame: Value { loaded: Some(3), ..at(Base::Register(POINTER), 24) }, ..row(SP, vec![returns]) };
        assert_eq!(Way::of(&loads), Way::Plain(Plain { loaded: Some(3), ..kept }));
        assert_eq!(Way::of(&row(SP, vec![(PC, Rule::Gone)])), Way::Outermost);
        for hard in [
            row(3, vec![returns]),
            row(SP, vec![returns, (SP, Rule::Is(at(Base::Frame, 8)))]),
            Row::hard(PC),
            row(SP, vec![returns, (POINTER, Rule::At(at(Base::Register(SP), 0)))]),
            row(SP, vec![returns, (POINTER, Rule::Gone)]),
            row(SP, vec![(PC, Rule::Is(at(Base::Register(3), 0)))]),
            Row { frame: at(Base::Frame, 0), ..row(SP, vec![returns]) },
            Row { is_signal: true, ..row(SP, vec![returns]) },
        ] {
            assert_eq!(Way::of(&hard), Way::Hard, "{hard:?}");
        }
        assert_eq!(Way::of(&row(SP, Vec::new())) == Way::Hard, !HAS_LINK);
    }
}
