//! Places that the developers of a program have marked (USDT), read from the notes of its file, and how their arguments are kept there.

use std::collections::BTreeMap;

use super::binaries::{self, Note};
use super::{Field, Place, Point, PointError, Program, Shape, Target, When, is_pattern};
use crate::mechanism::tracefs::select::fits;
use rdiag_model::Reason;

/// Name, arguments and counter of a marker.
type Way = (String, String, Option<u64>);

/// The marked places of a file that fit, one point for each way in which the arguments of a marker are kept.
pub(super) fn points(bytes: &[u8], program: &Program, provider: &str, name: &str) -> Result<Vec<Point>, PointError> {
    let path = program.path();
    let notes = binaries::notes(bytes, path)?;
    let file = path.rsplit('/').next().unwrap_or(path);
    let mut ways: BTreeMap<Way, Vec<u64>> = BTreeMap::new();
    for note in notes.iter().filter(|note| fits(provider, &note.provider) && fits(name, &note.name)) {
        let key = (shown(file, note), note.arguments.clone(), note.semaphore);
        ways.entry(key).or_default().push(note.offset);
    }
    if ways.is_empty() {
        return Err(absent(&notes, path, provider, name));
    }
    let point = |((name, arguments, semaphore), offsets): (Way, Vec<u64>)| Point {
        name,
        declared: String::new(),
        fields: fields(&arguments),
        target: Target::Marker { path: program.clone(), offsets, semaphore },
        arguments: None,
    };
    Ok(ways.into_iter().map(point).collect())
}

fn shown(file: &str, note: &Note) -> String {
    format!("{file}:{}:{}", note.provider, note.name)
}

fn absent(notes: &[Note], path: &str, provider: &str, name: &str) -> PointError {
    if notes.is_empty() {
        return PointError::plain(Reason::Absent, format!("{path} has no places that its developers marked (USDT)"));
    }
    let message = format!("{path} has no marked place {provider}:{name}");
    if is_pattern(provider) || is_pattern(name) {
        return PointError::plain(Reason::Absent, message);
    }
    let known = notes.iter().map(|note| format!("{}:{}", note.provider, note.name)).collect();
    PointError::absent(message, &format!("{provider}:{name}"), known)
}

/// `8@%rax -4@-136(%rbp) 1@$0`: arguments separated by blanks, each with its size, which is negative if it has a sign.
fn fields(text: &str) -> Vec<Field> {
    let field = |(at, text): (usize, &str)| {
        let known = argument(text);
        let (declared, place, shape) = known.unwrap_or_else(|| (text.to_owned(), Place::Constant(0), Shape::Other));
        Field { name: format!("arg{}", at + 1), declared, when: When::Entry, place, shape }
    };
    text.split_ascii_whitespace().enumerate().map(field).collect()
}

/// Type, place and shape of an argument; none if it lies where it cannot be read: at an address that only the program knows, in
/// a register for floating point.
fn argument(text: &str) -> Option<(String, Place, Shape)> {
    let (size, place) = text.split_once('@')?;
    let size: i32 = size.parse().ok()?;
    let (bytes, is_signed) = (size.unsigned_abs(), size < 0);
    if !matches!(bytes, 1 | 2 | 4 | 8) {
        return None;
    }
    let declared = format!("{}{}", if is_signed { 's' } else { 'u' }, 8 * bytes);
    let shape = Shape::Number { bytes, is_signed, is_address: false };
    Some((declared, whereabouts(place)?, shape))
}

fn whereabouts(text: &str) -> Option<Place> {
    if let Some(number) = text.strip_prefix('$') {
        return number.parse().ok().map(Place::Constant);
    }
    if let Some(register) = text.strip_prefix('%') {
        return register_offset(register).map(Place::Context);
    }
    let (plus, register) = text.strip_suffix(')')?.split_once("(%")?;
    let plus = if plus.is_empty() { 0 } else { plus.parse::<i32>().ok()? };
    let (offset, is_whole) = (register_offset(register)?, register.starts_with('r'));
    is_whole.then_some(Place::Memory(offset, i64::from(plus)))
}

/// Where a register of x86-64 lies in `struct pt_regs`, by any of its names. The lowest byte of the memory is the lowest of the
/// register, so that shorter names have the same place; `ah` and the like lie one byte above.
#[cfg(target_arch = "x86_64")]
fn register_offset(name: &str) -> Option<u32> {
    /// In the order in which they lie in memory, with the names of their halves, quarters and bytes.
    const REGISTERS: [[&str; 5]; 16] = [
        ["r15", "r15d", "r15w", "r15b", ""],
        ["r14", "r14d", "r14w", "r14b", ""],
        ["r13", "r13d", "r13w", "r13b", ""],
        ["r12", "r12d", "r12w", "r12b", ""],
        ["rbp", "ebp", "bp", "bpl", ""],
        ["rbx", "ebx", "bx", "bl", "bh"],
        ["r11", "r11d", "r11w", "r11b", ""],
        ["r10", "r10d", "r10w", "r10b", ""],
        ["r9", "r9d", "r9w", "r9b", ""],
        ["r8", "r8d", "r8w", "r8b", ""],
        ["rax", "eax", "ax", "al", "ah"],
        ["rcx", "ecx", "cx", "cl", "ch"],
        ["rdx", "edx", "dx", "dl", "dh"],
        ["rsi", "esi", "si", "sil", ""],
        ["rdi", "edi", "di", "dil", ""],
        ["rsp", "esp", "sp", "spl", ""],
    ];
    /// What lies before rsp beside the others: orig_ax, ip, cs and flags.
    const BEFORE_SP: usize = 4;
    let at = REGISTERS.iter().position(|names| !name.is_empty() && names.contains(&name))?;
    let is_high = REGISTERS.get(at).and_then(|names| names.last()) == Some(&name);
    let word = if at == REGISTERS.len() - 1 { at + BEFORE_SP } else { at };
    u32::try_from(word * 8 + usize::from(is_high)).ok()
}

/// Elsewhere arguments are written in other ways.
#[cfg(not(target_arch = "x86_64"))]
fn register_offset(_: &str) -> Option<u32> {
    None
}

#[cfg(all(test, target_arch = "x86_64"))]
mod tests {
    use super::*;

    fn number(bytes: u32, is_signed: bool) -> Shape {
        Shape::Number { bytes, is_signed, is_address: false }
    }

    #[test]
    fn arguments_are_in_registers_in_memory_or_known_beforehand() {
        let found = fields("8@%rax -4@-136(%rbp) 4@(%r12) 1@$0 -4@$-7 1@%ah 2@%r13w 8@8(%rsp)");
        let places: Vec<(Place, Shape)> = found.iter().map(|field| (field.place, field.shape)).collect();
        assert_eq!(
            places,
            [
                (Place::Context(80), number(8, false)),
                (Place::Memory(32, -136), number(4, true)),
                (Place::Memory(24, 0), number(4, false)),
                (Place::Constant(0), number(1, false)),
                (Place::Constant(-7), number(4, true)),
                (Place::Context(81), number(1, false)),
                (Place::Context(16), number(2, false)),
                (Place::Memory(152, 8), number(8, false)),
            ]
        );
        assert_eq!((found[1].name.as_str(), found[1].declared.as_str()), ("arg2", "s32"));
    }

    #[test]
    fn what_lies_where_it_cannot_be_read_keeps_its_number() {
        let odd =
            "-4@NBuffers(%rip) 8f@%xmm0 8@(%rax,%rbx,8) 3@%rax 8@ @%rax 8@%rzx -4@40+x(%rip) 8@( 8@(%eax) 8@% 4@%eax";
        let found = fields(odd);
        let (last, others) = found.split_last().unwrap();
        assert!(others.iter().all(|field| field.shape == Shape::Other), "{others:#?}");
        assert_eq!((last.name.as_str(), last.place), ("arg12", Place::Context(80)));
        assert!(fields("").is_empty());
    }
}
