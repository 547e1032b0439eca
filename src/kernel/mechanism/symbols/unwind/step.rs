//! From a frame to that of its caller, on copies alone.

use super::dump::{Dump, Step};
use super::registers::{ADDRESS, HAS_LINK};
use super::registers::{PC, POINTER, Registers, SP};
use super::row::{Base, Row, Rule, Value};
use super::way::{FOLLOWS_POINTERS, Way};

/// Frames of a stack at most: the kernel follows no more frame pointers either.
pub(super) const DEPTH: usize = 127;

/// Why a walk has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum End {
    /// A table says that there is no caller, or the address to return to is 0.
    Start,
    /// The rest of the stack was not copied, or has more frames than are kept.
    Deep,
    /// There is no table for the code.
    NoTable,
    /// What the table says leads nowhere.
    Nowhere,
}

/// A walk along one stack.
#[derive(Debug)]
pub(super) struct Walk {
    pub(super) dump: Dump,
    /// Innermost first. Those behind the first are addresses to return to.
    pub(super) addresses: Vec<u64>,
    pub(super) end: Option<End>,
    /// From each of them to the next.
    pub(super) steps: Vec<Step>,
    /// Frame pointers were followed where a table may be.
    pub(super) is_guessed: bool,
    registers: Registers,
    /// The place is executed, not returned to: the innermost, and what a signal interrupted.
    is_exact: bool,
}

impl Walk {
    pub(super) fn new(dump: Dump) -> Self {
        let registers = dump.registers.clone();
        let pc = registers.pc();
        let is_exact = !dump.is_called;
        Self { dump, addresses: vec![pc], end: None, steps: Vec::new(), is_guessed: false, registers, is_exact }
    }

    /// The place whose row leads on: a call stands right before the address that it returns to.
    pub(super) fn place(&self) -> u64 {
        if self.is_exact { self.registers.pc() } else { self.registers.pc().saturating_sub(1) }
    }

    /// The outermost address is none of code, so it is no caller.
    pub(super) fn disbelieve(&mut self) {
        if self.addresses.len() > 1 {
            self.addresses.pop();
        }
        self.end = Some(End::Nowhere);
    }

    /// No table is about the code here, so many bytes before and from it on included.
    pub(super) fn has_no_table(&mut self, before: u64, after: u64) {
        self.add_step(before, after, Way::Unknown);
        let pointer = self.registers.get(POINTER).unwrap_or_default();
        match self.dump.functions.get(&pointer) {
            Some(0) => {}
            Some(function) => {
                self.addresses.iter_mut().next_back().into_iter().for_each(|address| *address = *function)
            }
            None if self.dump.functions.is_empty() => {}
            // A function that was not looked up.
            None if self.has_objects_below(pointer) => return self.disbelieve(),
            None => {}
        }
        self.follow_pointers();
    }

    /// Whether V8's pointers to objects are below a frame pointer: a function and what it closes over. Other frames of V8 have a
    /// number there.
    fn has_objects_below(&self, pointer: u64) -> bool {
        let is_object = |below| self.load(pointer.wrapping_sub(below)).is_ok_and(|word| word & 3 == 1);
        is_object(8) && is_object(16)
    }

    /// The table that is about the code here cannot be read, now or ever.
    pub(super) fn has_unread_table(&mut self) {
        self.is_guessed = true;
        self.follow_pointers();
    }

    fn follow_pointers(&mut self) {
        let end = if self.dump.follows_pointers && FOLLOWS_POINTERS {
            self.follow(&Way::pointers())
        } else {
            Err(End::NoTable)
        };
        self.end = end.err();
    }

    fn add_step(&mut self, before: u64, after: u64, way: Way) {
        self.steps.push(Step { place: self.place(), is_called: !self.is_exact, before, after, way });
    }

    /// Goes on to the caller, or ends.
    pub(super) fn step(&mut self, row: &Row) {
        self.add_step(row.before, row.after, Way::of(row));
        if let Err(end) = self.follow(row) {
            self.end = Some(end);
        }
    }

    fn follow(&mut self, row: &Row) -> Result<(), End> {
        let here = self.registers.get(SP).ok_or(End::Nowhere)?;
        let frame = self.value(row.frame, None)?;
        // Frames follow each other outwards, so no table can lead in circles.
        let is_outwards = frame > here || (HAS_LINK && self.is_exact && frame == here);
        if !is_outwards {
            return Err(End::Nowhere);
        }
        let mut caller = if row.is_signal { self.registers.clone() } else { self.registers.kept() };
        caller.set(SP, Some(frame));
        let mut returns = if HAS_LINK && self.is_exact { self.registers.get(row.returns) } else { None };
        for (register, rule) in &row.rules {
            let value = match rule {
                Rule::Gone if *register == row.returns => return Err(End::Start),
                Rule::Gone => None,
                Rule::Is(value) => Some(self.value(*value, Some(frame))?),
                Rule::At(value) => match self.value(*value, Some(frame)).and_then(|at| self.load(at)) {
                    Ok(value) => Some(value),
                    // A register that is not needed may have been saved anywhere.
                    Err(_) if *register != row.returns => None,
                    Err(end) => return Err(end),
                },
            };
            if *register == row.returns {
                returns = value;
            }
            caller.set(*register, value);
        }
        let returns = returns.ok_or(End::Nowhere)? & ADDRESS;
        if returns == 0 {
            return Err(End::Start);
        }
        if self.addresses.len() >= DEPTH {
            return Err(End::Deep);
        }
        caller.set(PC, Some(returns));
        (self.registers, self.is_exact) = (caller, row.is_signal);
        // Who names callers goes back to the call before it.
        self.addresses.push(returns.saturating_add(u64::from(row.is_signal)));
        Ok(())
    }

    fn value(&self, value: Value, frame: Option<u64>) -> Result<u64, End> {
        let base = match value.base {
            Base::Register(register) => self.registers.get(register),
            Base::Frame => frame,
        };
        let sum = base.ok_or(End::Nowhere)?.wrapping_add_signed(value.offset);
        match value.loaded {
            None => Ok(sum),
            Some(offset) => Ok(self.load(sum)?.wrapping_add_signed(offset)),
        }
    }

    /// A word of the stack.
    fn load(&self, address: u64) -> Result<u64, End> {
        let at = address.checked_sub(self.dump.base).ok_or(End::Nowhere)?;
        let word = usize::try_from(at).ok().and_then(|at| self.dump.bytes.get(at..)?.first_chunk());
        word.copied().map(u64::from_ne_bytes).ok_or(End::Deep)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A stack of these words at 0x1000, with the stack pointer at its beginning.
    fn walk(words: &[u64]) -> Walk {
        let mut registers = Registers::unknown();
        [(SP, 0x1000), (PC, 0x40)].into_iter().for_each(|(register, value)| registers.set(register, Some(value)));
        let bytes = words.iter().flat_map(|word| word.to_ne_bytes()).collect();
        Walk::new(Dump {
            ticket: 1,
            registers,
            is_called: false,
            is_asleep: false,
            follows_pointers: false,
            base: 0x1000,
            bytes,
            pointers: Vec::new(),
            functions: [(0x1010, 1 << 63 | 6)].into(),
        })
    }

    fn value(base: Base, offset: i64) -> Value {
        Value { base, offset, loaded: None }
    }

    /// A row whose frame is so many bytes beyond the stack pointer, with the address to return to as its last word.
    fn row(bytes: i64) -> Row {
        let rules = vec![(PC, Rule::At(value(Base::Frame, -8)))];
        Row { before: 0, after: 1, frame: value(Base::Register(SP), bytes), returns: PC, rules, is_signal: false }
    }

    #[test]
    fn callers_are_found_frame_by_frame_until_a_table_says_that_there_is_none() {
        let mut walk = walk(&[7, 0x50, 0x60, 9, 9, 9]);
        walk.step(&row(16));
        assert_eq!((walk.addresses.as_slice(), walk.place(), walk.end), ([0x40, 0x50].as_slice(), 0x4f, None));
        walk.step(&row(8));
        assert_eq!((walk.addresses.as_slice(), walk.end), ([0x40, 0x50, 0x60].as_slice(), None));
        walk.step(&Row { rules: vec![(PC, Rule::Gone)], ..row(8) });
        assert_eq!((walk.addresses.len(), walk.end), (3, Some(End::Start)));
    }

    #[test]
    fn what_a_frame_saved_is_used_by_its_caller_and_what_none_saved_is_not() {
        // The first frame saved two registers, one of which its caller's frame hangs on.
        let mut walk = walk(&[0x1020, 5, 0x50, 6, 0x60, 0]);
        let saved = |register, offset| (register, Rule::At(value(Base::Frame, offset)));
        let mut first = row(24);
        first.rules.extend([saved(6, -24), saved(3, -16)]);
        walk.step(&first);
        walk.step(&Row { frame: value(Base::Register(6), 8), ..row(0) });
        assert_eq!((walk.addresses.as_slice(), walk.end), ([0x40, 0x50, 0x60].as_slice(), None));
        // Register 0 is the callee's.
        walk.step(&Row { frame: value(Base::Register(0), 8), ..row(0) });
        assert_eq!(walk.end, Some(End::Nowhere));
    }

    #[test]
    fn in_code_without_tables_the_function_of_a_frame_takes_the_place_of_its_address() {
        let mut walk = walk(&[0, 0, 0x1028, 0x50, 0, 0x1030, 0x60]);
        walk.dump.follows_pointers = true;
        walk.registers.set(POINTER, Some(0x1010));
        walk.has_no_table(0, 1);
        walk.has_no_table(0, 1);
        assert_eq!((walk.addresses.as_slice(), walk.steps.len()), ([1 << 63 | 6, 0x50, 0x60].as_slice(), 2));
    }

    #[test]
    fn a_function_that_was_not_looked_up_ends_the_walk() {
        let ends_at = |below: [u64; 2]| {
            let mut walk = walk(&[0, 0, 0x1030, 0x50, below[0], below[1], 0x1040, 0x60]);
            walk.dump.follows_pointers = true;
            walk.registers.set(POINTER, Some(0x1010));
            walk.has_no_table(0, 1);
            walk.has_no_table(0, 1);
            (walk.addresses, walk.end)
        };
        let function = 1 << 63 | 6;
        assert_eq!(ends_at([0x2001, 0x3001]), (vec![function], Some(End::Nowhere)));
        for below in [[0x2001, 0x3000], [0x2002, 0x3001], [0x2003, 0x3001]] {
            assert_eq!(ends_at(below), (vec![function, 0x50, 0x60], None), "{below:?} are no two objects");
        }
    }

    #[test]
    fn a_frame_that_lies_inwards_or_beyond_the_copy_ends_the_walk() {
        for (bytes, end) in [(0, End::Nowhere), (-8, End::Nowhere), (i64::MIN, End::Deep), (24, End::Deep)] {
            let mut walk = walk(&[0x50, 0x60]);
            walk.step(&row(bytes));
            assert_eq!((walk.addresses.as_slice(), walk.end), ([0x40].as_slice(), Some(end)), "{bytes}");
        }
        let mut deep = walk(&[0x50; 2 * DEPTH]);
        (0..2 * DEPTH).for_each(|_| {
            if deep.end.is_none() {
                deep.step(&row(8))
            }
        });
        assert_eq!((deep.addresses.len(), deep.end), (DEPTH, Some(End::Deep)));
        let mut null = walk(&[0]);
        null.step(&row(8));
        assert_eq!(null.end, Some(End::Start));
        let mut wrong = walk(&[0x50]);
        wrong.step(&row(8));
        wrong.disbelieve();
        assert_eq!((wrong.addresses.as_slice(), wrong.end), ([0x40].as_slice(), Some(End::Nowhere)));
    }

    #[test]
    fn what_a_signal_interrupted_is_a_place_and_none_to_return_to() {
        let mut walk = walk(&[0x1018, 0x50, 0, 0x60]);
        let frame = Value { base: Base::Register(SP), offset: 0, loaded: Some(0) };
        let signal =
            Row { frame, rules: vec![(PC, Rule::At(value(Base::Register(SP), 8)))], is_signal: true, ..row(0) };
        walk.step(&signal);
        assert_eq!((walk.place(), walk.addresses.as_slice()), (0x50, [0x40, 0x51].as_slice()));
        walk.step(&row(8));
        assert_eq!((walk.place(), walk.end), (0x5f, None));
    }
}
