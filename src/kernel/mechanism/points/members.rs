//! Members of structures of the kernel, found by name from where an argument or a result points to (`sk.__sk_common.skc_dport`): offsets
//! that the kernel's types tell, followed one after the other.

use super::btf::{HEAD, MAX_ALIASES, Prototype, declared, has_flag, shape, text};
use super::{Field, Path, Place, PointError, Shape, Text};
use crate::mechanism::btf::{ARRAY, CONST, FWD, INT, PTR, RESTRICT, STRUCT, TYPE_TAG, TYPEDEF, Types, UNION, VOLATILE};
use rdiag_model::Reason;

/// Structures without a name lie in others at most so deep.
const MAX_NESTED: usize = 8;

/// A member as it is described.
#[derive(Debug, Clone, Copy)]
struct Member {
    /// Where it lies in the whole, in bits.
    bit: u32,
    /// Its width in bits; 0 if it has whole bytes of its own.
    bits: u32,
    /// The number of its type.
    number: u32,
}

/// What a path of names leads to: `sk.__sk_common.skc_dport`, from an argument or the result, which is one of `fields`.
pub(super) fn behind(
    types: &Types,
    function: &str,
    prototype: &Prototype,
    fields: &[Field],
    path: &str,
) -> Result<Field, PointError> {
    let wrong = |message: String| PointError::plain(Reason::Absent, message);
    let (first, rest) = path.split_once('.').unwrap_or((path, ""));
    let base = fields.iter().find(|field| field.name == first);
    let numbered = first.strip_prefix("arg").and_then(|number| number.parse::<usize>().ok()?.checked_sub(1));
    let arguments = &prototype.arguments;
    let of_type = match arguments.iter().find(|argument| argument.name == first) {
        Some(named) => Some(named),
        None if first == "return" => prototype.result.as_ref(),
        None => numbered.and_then(|at| arguments.get(at)),
    };
    let (Some(Field { place: Place::Context(offset), when, .. }), Some(argument)) = (base, of_type) else {
        let known = fields.iter().map(|field| field.name.clone()).collect();
        return Err(PointError::absent(format!("{function} has no argument {first:?}"), first, known));
    };
    let (mut number, mut hops) = (argument.number, Vec::new());
    let mut whole = first.to_owned();
    for name in rest.split('.') {
        let told = format!("{whole} of {function} ({})", declared(types, number));
        let mut at = plain(types, number);
        if at.and_then(|at| types.kind(at)) == Some(PTR) {
            hops.push(0_u32);
            at = at.and_then(|at| plain(types, types.word(at, 2)?));
        }
        let kind = at.and_then(|at| types.kind(at));
        let Some(at) = at.filter(|_| matches!(kind, Some(STRUCT | UNION))) else {
            let what = if kind == Some(FWD) { "a structure that the types do not describe" } else { "no structure" };
            return Err(wrong(format!("{told} leads to {what}")));
        };
        let Some(member) = member(types, at, name, 0) else {
            return Err(PointError::absent(format!("{told} has no member {name:?}"), name, names(types, at, 0)));
        };
        whole = format!("{whole}.{name}");
        if member.bits != 0 || member.bit % 8 != 0 {
            return Err(wrong(format!("{whole} of {function} is a part of a number, which cannot be read alone")));
        }
        let Some(hop) = hops.last_mut() else { return Err(wrong(format!("{told} is no pointer"))) };
        *hop = hop.saturating_add(member.bit / 8);
        number = member.number;
    }
    let mut offsets = [0; Path::LONGEST];
    if hops.len() > Path::LONGEST {
        return Err(wrong(format!("{path} follows {} pointers; at most {} can be", hops.len(), Path::LONGEST)));
    }
    offsets.iter_mut().zip(&hops).for_each(|(slot, hop)| *slot = *hop);
    let place = Place::Behind(*offset, Path { hops: hops.len(), offsets });
    let shape = if is_text(types, number) { Shape::Text(Text::OfKernel) } else { shape(types, number) };
    Ok(Field { name: path.to_owned(), declared: declared(types, number), when: *when, place, shape })
}

/// The type that is no other name for another one.
fn plain(types: &Types, mut number: u32) -> Option<u32> {
    for _ in 0..MAX_ALIASES {
        if !matches!(types.kind(number)?, TYPEDEF | VOLATILE | CONST | RESTRICT | TYPE_TAG) {
            return Some(number);
        }
        number = types.word(number, 2)?;
    }
    None
}

/// The members of a structure or union.
fn members(types: &Types, of: u32) -> impl Iterator<Item = (String, Member)> {
    // Where any member is a part of a number, the upper byte of each place tells the width.
    let has_widths = has_flag(types, of);
    (0..types.members(of).unwrap_or(0)).map_while(move |index| {
        let at = HEAD + 3 * index;
        let (name, number, bit) = (types.word(of, at)?, types.word(of, at + 1)?, types.word(of, at + 2)?);
        let (bit, bits) = if has_widths { (bit & 0x00ff_ffff, bit >> 24) } else { (bit, 0) };
        Some((text(types.string(name)?), Member { bit, bits, number }))
    })
}

/// Finds a member by name, also in structures and unions without a name, whose members count as those of the whole.
fn member(types: &Types, of: u32, name: &str, depth: usize) -> Option<Member> {
    members(types, of).find_map(|(known, member)| {
        if known == name {
            return Some(member);
        }
        let found = self::member(types, nested(types, &known, member, depth)?, name, depth + 1)?;
        Some(Member { bit: member.bit.saturating_add(found.bit), ..found })
    })
}

/// The names by which members can be found.
fn names(types: &Types, of: u32, depth: usize) -> Vec<String> {
    let names = members(types, of).flat_map(|(name, member)| match nested(types, &name, member, depth) {
        Some(inner) => self::names(types, inner, depth + 1),
        None => vec![name],
    });
    names.collect()
}

/// The structure that a member without a name is.
fn nested(types: &Types, name: &str, member: Member, depth: usize) -> Option<u32> {
    let inner = plain(types, member.number).filter(|_| name.is_empty() && depth < MAX_NESTED)?;
    matches!(types.kind(inner), Some(STRUCT | UNION)).then_some(inner)
}

/// Whether a type is an array of `char`: in the kernel it ends with a NUL.
fn is_text(types: &Types, number: u32) -> bool {
    let element = || {
        let array = plain(types, number).filter(|array| types.kind(*array) == Some(ARRAY))?;
        plain(types, types.word(array, HEAD)?)
    };
    // Numbers of one byte have other names (`unsigned char`, `_Bool`).
    element().is_some_and(|number| types.kind(number) == Some(INT) && types.name(number) == Some(b"char"))
}
