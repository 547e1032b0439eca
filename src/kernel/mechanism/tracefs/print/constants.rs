//! Constants that a `print fmt` leaves as names: the kernel puts the values of some in their place, and the types that it describes itself
//! with know most of the others.

use std::collections::{BTreeMap, BTreeSet};

use super::super::format::Format;
use super::token::{Token, tokens};
use crate::host::Host;
use crate::mechanism::btf::{ENUM, ENUM64, Types};

/// The kernel's types.
const TYPES: &str = "sys/kernel/btf/vmlinux";
/// Words of a type before its values.
const HEAD: usize = 3;

/// Values by name.
pub type Constants = BTreeMap<String, i128>;

/// The values of those constants that these formats leave as names, where they are known. The types are looked at only if there are some.
#[must_use]
pub fn constants<'f>(host: &Host, formats: impl Iterator<Item = &'f Format>) -> Constants {
    let wanted: BTreeSet<String> = formats.flat_map(|format| names(&format.print)).collect();
    if wanted.is_empty() {
        return Constants::new();
    }
    let types = host.read_bytes(TYPES).ok().and_then(Types::parse);
    types.map(|types| values(&types, &wanted)).unwrap_or_default()
}

/// Words that can only be constants.
fn names(print: &str) -> Vec<String> {
    let tokens = tokens(print).unwrap_or_default();
    let is_constant = |name: &str| name != "REC" && name.len() > 1 && !name.contains(|c: char| c.is_ascii_lowercase());
    let followed = tokens.iter().zip(tokens.iter().skip(1).map(Some).chain([None]));
    let name = |(token, next): (&Token, Option<&Token>)| match token {
        Token::Name(name) if is_constant(name) && next != Some(&Token::Sign("(")) => Some(name.clone()),
        _ => None,
    };
    followed.filter_map(name).collect()
}

fn values(types: &Types, wanted: &BTreeSet<String>) -> Constants {
    let mut found = Constants::new();
    for number in types.numbers() {
        let words = match types.kind(number) {
            Some(ENUM) => 2,
            Some(ENUM64) => 3,
            _ => continue,
        };
        // Values with a sign are marked by the first bit of the type.
        let is_signed = types.word(number, 1).is_some_and(|info| info >> 31 == 1);
        for at in (0..types.members(number).unwrap_or(0)).map(|index| HEAD + words * index) {
            let word = |index: usize| types.word(number, at + index);
            let name = word(0).and_then(|name| types.string(name)).map(String::from_utf8_lossy);
            let (Some(name), Some(low)) = (name.filter(|name| wanted.contains(name.as_ref())), word(1)) else {
                continue;
            };
            let value = match (words, is_signed) {
                (2, true) => i128::from(low.cast_signed()),
                (2, false) => i128::from(low),
                (_, is_signed) => {
                    let whole = u64::from(word(2).unwrap_or(0)) << 32 | u64::from(low);
                    if is_signed { i128::from(whole.cast_signed()) } else { i128::from(whole) }
                }
            };
            found.entry(name.into_owned()).or_insert(value);
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mechanism::btf::encode;

    #[test]
    fn names_of_constants_are_told_from_types_calls_and_fields() {
        let found = names(
            r#""%s", __print_symbolic(REC->CLASS, { IOPRIO_CLASS_BE, "be" }, {(1 << A_BIT), "x"}), MACRO(1), (u32)VM_1"#,
        );
        assert_eq!(found, ["CLASS", "IOPRIO_CLASS_BE", "A_BIT", "VM_1"], "a field of that name costs nothing");
        assert_eq!(names("\"open"), [""; 0]);
    }

    #[test]
    fn values_are_those_of_the_enumerations_with_their_signs() {
        // Strings at 1: A, 3: B, 5: C.
        let strings = b"\0A\0B\0C\0";
        let (enumeration, wide) = (ENUM << 24, ENUM64 << 24);
        let words = [
            &[0, enumeration | 2 | 1 << 31, 4, 1, u32::MAX, 3, 7][..],
            &[0, wide | 1, 8, 5, 1, 2],
            &[0, enumeration | 1, 4, 1, 9],
        ];
        let bytes = encode(&words.concat(), strings);
        let wanted = BTreeSet::from(["A", "C", "D"].map(str::to_owned));
        let found = values(&Types::parse(bytes.clone()).unwrap(), &wanted);
        assert_eq!(found, Constants::from([("A".to_owned(), -1), ("C".to_owned(), 2 << 32 | 1)]));
        for length in 0..bytes.len() {
            let _ = Types::parse(bytes[..length].to_vec()).map(|types| values(&types, &wanted));
        }
    }
}
