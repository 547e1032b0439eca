//! How one value is read at a point.

use super::grammar::Test;
use super::point_reads::words;
use rdiag_kernel::mechanism::points::{Path, Text};

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
    Group,
}

/// `enum form` of the program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
pub(super) enum Form {
    Plain,
    Place,
    Swapped,
}

/// `struct field` of the program, and what the number means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Read {
    pub(super) source: Source,
    pub(super) offset: u32,
    pub(super) plus: i64,
    pub(super) form: Form,
    pub(super) path: Path,
    pub(super) bytes: u32,
    pub(super) is_signed: bool,
    pub(super) is_address: bool,
    /// Whether it leads to code of the kernel, and the function's name is wanted.
    pub(super) is_code: bool,
    /// Where the text is, if it leads to some.
    pub(super) text: Option<Text>,
}

pub(super) const NOTHING: Read = Read {
    source: Source::Nothing,
    offset: 0,
    plus: 0,
    form: Form::Plain,
    path: Path { hops: 0, offsets: [0; Path::LONGEST] },
    bytes: 8,
    is_signed: false,
    is_address: false,
    is_code: false,
    text: None,
};

impl Read {
    /// `enum text_in` of the program, 0 for what is no text, and an offset: of text that stands in the record itself, or of its length.
    pub(super) fn text_at(self) -> (u32, u32) {
        let kind = match self.text {
            None => 0,
            Some(Text::OfProgram) => 1,
            Some(Text::OfKernel) => 2,
            Some(Text::Located) => 3,
            Some(Text::Inline) => 4,
            Some(Text::Sized(length)) => return (5, length),
        };
        (kind, self.offset)
    }

    /// A number that was read, for people.
    pub(super) fn shown(self, word: u64) -> String {
        match (self.is_address, self.is_signed) {
            (true, _) => format!("{word:#x}"),
            (false, true) => word.cast_signed().to_string(),
            (false, false) => word.to_string(),
        }
    }

    /// Whether it is a number that stands in the record itself.
    pub(super) fn is_plain_number(self) -> bool {
        self.form == Form::Plain && self.path.hops == 0 && self.text.is_none()
    }

    /// A number of its size that was read elsewhere, as the program would have it.
    pub(super) fn widened(self, word: u64) -> u64 {
        let shift = 64_u32.saturating_sub(8 * self.bytes).min(63);
        let high = word << shift;
        if self.is_signed { (high.cast_signed() >> shift).cast_unsigned() } else { high >> shift }
    }

    /// `struct field` of the program, byte for byte.
    pub(super) fn bytes_of(&self) -> impl Iterator<Item = u8> {
        let hops = u32::try_from(self.path.hops).unwrap_or(0);
        let first = words(&[self.source as u32, self.offset, self.bytes, u32::from(self.is_signed)]);
        let path = words(&self.path.offsets);
        first.into_iter().chain(self.plus.to_ne_bytes()).chain(words(&[self.form as u32, hops])).chain(path)
    }

    /// Whether the number of a comparison is one that the field can have: a comparison that always or never holds is a mistake.
    pub(super) fn fits(self, test: &Test) -> Result<(), String> {
        let bits = 8 * self.bytes;
        let range = if self.is_signed { -(1_i128 << (bits - 1))..1 << (bits - 1) } else { 0..1_i128 << bits };
        if range.contains(&test.number) {
            return Ok(());
        }
        let name = &test.operand.name;
        let signed = format!("; write {name}:s{bits} if it may be negative");
        let remedy = if test.number < 0 && !self.is_signed { signed } else { String::new() };
        Err(format!(
            "{name} lies between {} and {}, so it is never compared with {}{remedy}",
            range.start,
            range.end - 1,
            test.number
        ))
    }
}
