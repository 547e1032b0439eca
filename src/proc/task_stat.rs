//! /proc/PID/stat, which exists for each thread too.

use crate::number;

/// A stat file, taken apart at the name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TaskStat<'b> {
    /// Field 2: may hold anything, parentheses and line ends included.
    pub name: &'b [u8],
    /// Field 3.
    pub state: char,
    after: &'b [u8],
}

/// The fields behind the state that rdiag uses, by their numbers in proc(5).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Field {
    /// Process id of the parent.
    Parent = 4,
    /// Process group.
    Group = 5,
    /// Flags of the kernel: `PF_…`.
    Flags = 9,
    /// Minor page faults.
    MinorFaults = 10,
    /// Minor page faults of children that were waited for.
    ChildrenMinorFaults = 11,
    /// Major page faults.
    MajorFaults = 12,
    /// Major page faults of children that were waited for.
    ChildrenMajorFaults = 13,
    /// Ticks in user mode.
    User = 14,
    /// Ticks in the kernel.
    System = 15,
    /// Ticks in user mode of children that were waited for.
    ChildrenUser = 16,
    /// Ticks in the kernel of children that were waited for.
    ChildrenSystem = 17,
    /// -20 to 19: above 0 the task gives way to others. The one field that may be negative.
    Nice = 19,
    /// Threads of the process.
    Threads = 20,
    /// When it was started, in ticks since boot.
    Start = 22,
    /// Virtual memory in bytes.
    VirtualBytes = 23,
    /// Resident memory in pages.
    ResidentPages = 24,
    /// CPU that it ran on last.
    Cpu = 39,
    /// Scheduling policy: `SCHED_…`.
    Policy = 41,
}

/// The bit of a thread of the kernel's in [`Field::Flags`].
const PF_KTHREAD: u64 = 0x0020_0000;

impl<'b> TaskStat<'b> {
    /// The numbers cannot hold a parenthesis, so they begin behind the last one.
    #[must_use]
    pub fn parse(bytes: &'b [u8]) -> Option<Self> {
        let open = bytes.iter().position(|byte| *byte == b'(')?;
        let close = bytes.iter().rposition(|byte| *byte == b')')?;
        let name = bytes.get(open + 1..close)?;
        let after = bytes.get(close + 1..)?.trim_ascii_start();
        let state = char::from(*after.first()?);
        let after = after.get(after.iter().position(u8::is_ascii_whitespace)?..)?;
        state.is_ascii_alphabetic().then_some(Self { name, state, after })
    }

    /// Whether it has ended, and keeps only its number.
    #[must_use]
    pub fn has_ended(&self) -> bool {
        matches!(self.state, 'Z' | 'X' | 'x')
    }

    /// The fields behind the state, to be asked for in the order of their numbers.
    #[must_use]
    pub fn fields(&self) -> Fields<'b> {
        Fields { rest: self.after, next: Field::Parent as usize }
    }

    /// One field.
    #[must_use]
    pub fn field(&self, field: Field) -> Option<u64> {
        self.fields().number(field)
    }

    /// Ticks in user mode and in the kernel, of the task alone.
    #[must_use]
    pub fn ticks(&self) -> Option<u64> {
        let mut fields = self.fields();
        Some(fields.number(Field::User)?.saturating_add(fields.number(Field::System)?))
    }
}

/// The fields of a stat file, each asked for at most once, in the order of their numbers.
#[derive(Debug, Clone)]
pub struct Fields<'b> {
    rest: &'b [u8],
    next: usize,
}

impl<'b> Fields<'b> {
    fn word(&mut self, field: Field) -> Option<&'b [u8]> {
        let mut between = (field as usize).checked_sub(self.next)?;
        self.next = field as usize + 1;
        loop {
            self.rest = self.rest.trim_ascii_start();
            let end = self.rest.iter().position(u8::is_ascii_whitespace).unwrap_or(self.rest.len());
            let (word, rest) = self.rest.split_at_checked(end).filter(|(word, _)| !word.is_empty())?;
            self.rest = rest;
            if between == 0 {
                return Some(word);
            }
            between -= 1;
        }
    }

    /// A field that is never negative.
    pub fn number(&mut self, field: Field) -> Option<u64> {
        number(self.word(field)?)
    }

    /// A field that may be negative.
    pub fn signed(&mut self, field: Field) -> Option<i32> {
        std::str::from_utf8(self.word(field)?).ok()?.parse().ok()
    }

    /// Whether the task is a thread of the kernel's, by its flags.
    pub fn is_kernel(&mut self) -> Option<bool> {
        Some(self.number(Field::Flags)? & PF_KTHREAD != 0)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const LINE: &[u8] = b"77 (a) b\n(c) D 12 70 71 0 -1 2129984 500 41 7 2 31 7 5 6 20 -5 4 0 8812 1000 250 18446744073709551615 1 1 0 0 0 \
        0 0 0 0 0 0 0 17 3 0 1 0\n";

    #[test]
    fn fields_are_counted_behind_the_name_whatever_that_holds() {
        let stat = TaskStat::parse(LINE).unwrap();
        assert_eq!((stat.name, stat.state, stat.has_ended()), (&b"a) b\n(c"[..], 'D', false));
        let mut fields = stat.fields();
        let mut next = |field| fields.number(field).unwrap();
        assert_eq!([next(Field::Parent), next(Field::Group), next(Field::Flags)], [12, 70, 2_129_984]);
        assert_eq!([next(Field::MinorFaults), next(Field::ChildrenMinorFaults)], [500, 41]);
        assert_eq!([next(Field::MajorFaults), next(Field::ChildrenMajorFaults)], [7, 2]);
        assert_eq!([next(Field::User), next(Field::System)], [31, 7]);
        assert_eq!([next(Field::ChildrenUser), next(Field::ChildrenSystem)], [5, 6]);
        assert_eq!(fields.signed(Field::Nice), Some(-5));
        let mut next = |field| fields.number(field).unwrap();
        assert_eq!([next(Field::Threads), next(Field::Start)], [4, 8812]);
        assert_eq!([next(Field::VirtualBytes), next(Field::ResidentPages)], [1000, 250]);
        assert_eq!([next(Field::Cpu), next(Field::Policy)], [3, 1]);
        assert_eq!((stat.ticks(), stat.fields().is_kernel()), (Some(38), Some(true)));
    }

    #[test]
    fn a_field_behind_the_end_or_before_the_last_one_is_none() {
        let stat = TaskStat::parse(b"1 (x) Z 1 2").unwrap();
        assert!(stat.has_ended());
        assert_eq!((stat.field(Field::Group), stat.field(Field::Flags), stat.ticks()), (Some(2), None, None));
        let mut fields = stat.fields();
        assert_eq!((fields.number(Field::Group), fields.number(Field::Parent)), (Some(2), None));
    }

    #[test]
    fn a_line_without_a_name_or_a_state_is_none() {
        for line in ["", "1 ()", ") 1 (", "1 (x", "1 (x) ", "1 (x) R", "1 (x) 7 1"] {
            assert_eq!(TaskStat::parse(line.as_bytes()), None, "{line}");
        }
        let broken = TaskStat::parse(b"1 (x) R 1 99999999999999999999").unwrap();
        assert_eq!(broken.field(Field::Group), None);
    }

    proptest! {
        #[test]
        fn any_name_is_given_back_whole(name in proptest::collection::vec(any::<u8>(), 0..64)) {
            let line = [b"42 (", name.as_slice(), b") S 7 42\n"].concat();
            let stat = TaskStat::parse(&line).unwrap();
            prop_assert_eq!((stat.name, stat.field(Field::Group)), (name.as_slice(), Some(42)));
        }

        #[test]
        fn no_input_makes_it_panic(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
            if let Some(stat) = TaskStat::parse(&bytes) {
                let _ = (stat.ticks(), stat.field(Field::Policy), stat.fields().signed(Field::Nice));
            }
        }
    }
}
