//! The unwind tables of a file (`.eh_frame_hdr` and `.eh_frame`), as copies in memory. They stay in stripped files, since exceptions need
//! them.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;

use gimli::{
    BaseAddresses, CfaRule, EhFrame, EhFrameHdr, Encoding, FrameDescriptionEntry, NativeEndian, Operation,
    RegisterRule, UnwindContext, UnwindExpression, UnwindSection as _, Vendor,
};

use super::super::debug_file::{Segment, Segments};
use super::super::unwind::{Base, COUNT, MACHINE, PC, Row, Rule, Value};

/// No more is read of a file; those of a large browser take 20 MiB.
const MAX_BYTES: u64 = 64 << 20;
/// An entry that is longer is none: the rows of one function take some hundred bytes, and each question about one begins at its beginning.
const MAX_ENTRY: usize = 1 << 12;
/// Operations of an expression: those of the C library have a dozen at most.
const MAX_OPERATIONS: usize = 64;
/// The bits of an address that are the same wherever a file is mapped.
const IN_PAGE: u64 = 4095;

type Slice<'t> = gimli::EndianSlice<'t, NativeEndian>;

/// Copies of a file's tables.
#[derive(Debug)]
pub(super) struct Tables {
    segments: Segments,
    header: Part,
    frames: Part,
}

/// Bytes, and the address that they have in memory, relative to all else.
#[derive(Debug)]
struct Part {
    bytes: Vec<u8>,
    address: u64,
}

impl Part {
    fn read(file: &File, of: Segment) -> io::Result<Self> {
        // A file may be shorter than it says, and become so while it is read.
        let left = file.metadata()?.len().saturating_sub(of.offset);
        let mut bytes = vec![0; usize::try_from(of.size.min(left).min(MAX_BYTES)).unwrap_or_default()];
        let mut read = 0;
        while let Some(rest) = bytes.get_mut(read..).filter(|rest| !rest.is_empty()) {
            match file.read_at(rest, of.offset.saturating_add(read as u64))? {
                0 => break,
                more => read += more,
            }
        }
        bytes.truncate(read);
        bytes.shrink_to_fit();
        Ok(Self { bytes, address: of.address })
    }
}

impl Tables {
    /// Copies them.
    ///
    /// # Errors
    /// When the file has none that can be searched, or is for another machine.
    pub(super) fn read(file: &File) -> io::Result<Self> {
        let none = || io::Error::new(io::ErrorKind::InvalidData, "it has no unwind tables");
        let segments = Segments::of(file);
        let header = segments.unwind.filter(|_| segments.machine == MACHINE).ok_or_else(none)?;
        let header = Part::read(file, header)?;
        let bases = BaseAddresses::default().set_eh_frame_hdr(header.address);
        let parsed = EhFrameHdr::new(&header.bytes, NativeEndian).parse(&bases, 8).map_err(|_| none())?;
        let at = parsed.eh_frame_ptr().direct().map_err(|_| none())?;
        let frames = Part::read(file, segments.rest_from(at).ok_or_else(none)?)?;
        Ok(Self { segments, header, frames })
    }

    /// How much memory they take.
    pub(super) fn bytes(&self) -> u64 {
        (self.header.bytes.capacity() + self.frames.bytes.capacity()) as u64
    }

    /// The rows for the code at some offsets of the file.
    pub(super) fn rows(&self, offsets: &[u64]) -> Vec<Option<Row>> {
        let mut context = UnwindContext::new();
        offsets.iter().map(|offset| self.row(*offset, &mut context)).collect()
    }

    /// The row for the code at one. None where a table has none.
    fn row(&self, offset: u64, context: &mut UnwindContext<usize>) -> Option<Row> {
        let address = self.segments.address(offset)?;
        let bases = BaseAddresses::default().set_eh_frame_hdr(self.header.address).set_eh_frame(self.frames.address);
        let header = EhFrameHdr::new(&self.header.bytes, NativeEndian).parse(&bases, 8).ok()?;
        let mut frames = EhFrame::new(&self.frames.bytes, NativeEndian);
        frames.set_address_size(8);
        frames.set_vendor(if cfg!(target_arch = "aarch64") { Vendor::AArch64 } else { Vendor::Default });
        let entry = header.table()?.fde_for_address(&frames, &bases, address, EhFrame::cie_from_offset).ok()?;
        let returns = entry.cie().return_address_register().0;
        Some(self.row_of(&entry, address, frames, &bases, context).unwrap_or_else(|| Row::hard(returns)))
    }

    /// The row of an entry. None if it is not to be understood.
    fn row_of<'t>(
        &'t self,
        entry: &FrameDescriptionEntry<Slice<'t>>,
        address: u64,
        frames: EhFrame<Slice<'t>>,
        bases: &BaseAddresses,
        context: &mut UnwindContext<usize>,
    ) -> Option<Row> {
        if entry.entry_len() > MAX_ENTRY || entry.cie().entry_len() > MAX_ENTRY {
            return None;
        }
        let found = entry.unwind_info_for_address(&frames, bases, context, address).ok()?;
        let mut expressions = Expressions { frames, encoding: entry.cie().encoding(), address, is_local: false };
        let frame = match found.cfa() {
            CfaRule::RegisterAndOffset { register, offset } => {
                Value { base: Base::Register(register.0), offset: *offset, loaded: None }
            }
            CfaRule::Expression(expression) => expressions.value(expression, None)?,
        };
        let mut rules = Vec::new();
        for (register, rule) in found.registers().filter(|(register, _)| usize::from(register.0) < COUNT) {
            rules.extend(expressions.rule(rule)?.map(|rule| (register.0, rule)));
        }
        let (before, after) = (address.checked_sub(found.start_address())?, found.end_address().checked_sub(address)?);
        // What hangs on the place itself holds for no other.
        let (before, after) = if expressions.is_local { (0, 1) } else { (before, after) };
        let returns = entry.cie().return_address_register().0;
        let row = Row { before, after, frame, returns, rules, is_signal: entry.is_signal_trampoline() };
        row.is_sound().then_some(row)
    }
}

/// What expressions of a file come to.
struct Expressions<'t> {
    frames: EhFrame<Slice<'t>>,
    encoding: Encoding,
    /// Of the code, in the file.
    address: u64,
    /// The result depends on where in a page the code is.
    is_local: bool,
}

/// What is known of a number in an expression.
#[derive(Clone, Copy)]
enum Known {
    Number(u64),
    Value(Value),
}

impl Expressions<'_> {
    /// What a register of the caller held; nothing if it is as it was, none if it cannot be said.
    fn rule(&mut self, rule: &RegisterRule<usize>) -> Option<Option<Rule>> {
        let beyond = |offset| Value { base: Base::Frame, offset, loaded: None };
        let frame = Some(beyond(0));
        Some(Some(match rule {
            RegisterRule::Undefined => Rule::Gone,
            RegisterRule::SameValue => return Some(None),
            RegisterRule::Offset(offset) => Rule::At(beyond(*offset)),
            RegisterRule::ValOffset(offset) => Rule::Is(beyond(*offset)),
            RegisterRule::Register(register) => {
                Rule::Is(Value { base: Base::Register(register.0), offset: 0, loaded: None })
            }
            RegisterRule::Expression(expression) => Rule::At(self.value(expression, frame)?),
            RegisterRule::ValExpression(expression) => Rule::Is(self.value(expression, frame)?),
            // Whether an address is signed, on arm64; its signature is taken off in any case.
            RegisterRule::Constant(_) => return Some(None),
            RegisterRule::Architectural => return None,
        }))
    }

    /// An expression as one register and a number, and what is loaded from there: that of signal handlers and of the C library's tables
    /// of jumps are such. None for any other.
    fn value(&mut self, expression: &UnwindExpression<usize>, begin: Option<Value>) -> Option<Value> {
        let mut stack: Vec<Known> = begin.map(Known::Value).into_iter().collect();
        let mut operations = expression.get(&self.frames).ok()?.operations(self.encoding);
        for _ in 0..MAX_OPERATIONS {
            let Some(operation) = operations.next().ok()? else {
                return match stack.pop()? {
                    Known::Value(value) => Some(value),
                    Known::Number(_) => None,
                };
            };
            let result = match operation {
                Operation::RegisterOffset { register, offset, .. } => {
                    Known::Value(Value { base: Base::Register(register.0), offset, loaded: None })
                }
                Operation::UnsignedConstant { value } => Known::Number(value),
                Operation::SignedConstant { value } => Known::Number(value.cast_unsigned()),
                Operation::PlusConstant { value } => plus(stack.pop()?, value),
                Operation::Deref { size: 8, space: false, .. } => match stack.pop()? {
                    Known::Value(value) if value.loaded.is_none() => Known::Value(Value { loaded: Some(0), ..value }),
                    _ => return None,
                },
                Operation::Plus => match (stack.pop()?, stack.pop()?) {
                    (Known::Number(number), other) | (other, Known::Number(number)) => plus(other, number),
                    _ => return None,
                },
                Operation::And => match (stack.pop()?, stack.pop()?) {
                    (Known::Number(mask), other) | (other, Known::Number(mask)) => self.and(other, mask)?,
                    _ => return None,
                },
                Operation::Ge => match (stack.pop()?, stack.pop()?) {
                    (Known::Number(right), Known::Number(left)) => {
                        Known::Number(u64::from(left.cast_signed() >= right.cast_signed()))
                    }
                    _ => return None,
                },
                Operation::Shl => match (stack.pop()?, stack.pop()?) {
                    (Known::Number(by), Known::Number(number)) => {
                        Known::Number(u32::try_from(by).ok().and_then(|by| number.checked_shl(by)).unwrap_or(0))
                    }
                    _ => return None,
                },
                Operation::Nop => continue,
                _ => return None,
            };
            stack.push(result);
        }
        None
    }

    /// Some bits of a number. Of the place itself those within a page are known.
    fn and(&mut self, value: Known, mask: u64) -> Option<Known> {
        match value {
            Known::Number(number) => Some(Known::Number(number & mask)),
            Known::Value(Value { base: Base::Register(PC), offset, loaded: None }) if mask <= IN_PAGE => {
                self.is_local = true;
                Some(Known::Number(self.address.wrapping_add_signed(offset) & mask))
            }
            Known::Value(_) => None,
        }
    }
}

fn plus(to: Known, number: u64) -> Known {
    let signed = number.cast_signed();
    match to {
        Known::Number(other) => Known::Number(other.wrapping_add(number)),
        Known::Value(value @ Value { loaded: None, .. }) => {
            Known::Value(Value { offset: value.offset.wrapping_add(signed), ..value })
        }
        Known::Value(value) => {
            Known::Value(Value { loaded: value.loaded.map(|offset| offset.wrapping_add(signed)), ..value })
        }
    }
}

#[cfg(test)]
mod tests;
