//! Names and types of the arguments of kernel functions, from the types that the kernel describes itself with
//! (/sys/kernel/btf/vmlinux). Functions of modules are not among them.

use super::Shape;
use crate::mechanism::btf::{
    ARRAY, CONST, ENUM, ENUM64, FUNC, FUNC_PROTO, FWD, INT, PTR, RESTRICT, STRUCT, TYPE_TAG, TYPEDEF, Types, UNION,
    VOLATILE,
};

/// An argument, or the result (without a name).
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Argument {
    pub(super) name: String,
    /// Its type in C.
    pub(super) declared: String,
    pub(super) shape: Shape,
    /// The number of its type.
    pub(super) number: u32,
}

/// A function: its arguments, and its result unless it has none.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Prototype {
    /// The whole in C.
    pub(super) declared: String,
    pub(super) arguments: Vec<Argument>,
    pub(super) result: Option<Argument>,
}

/// The kernel nests other names for a type less deep.
pub(super) const MAX_ALIASES: usize = 32;
/// Words of a type before its members, values or arguments.
pub(super) const HEAD: usize = 3;

/// `size_t size`, `char *name`.
fn variable(kind: &str, name: &str) -> String {
    if kind.ends_with('*') { format!("{kind}{name}") } else { format!("{kind} {name}") }
}

pub(super) fn text(name: &[u8]) -> String {
    String::from_utf8_lossy(name).into_owned()
}

/// Names and values of an enumeration that the types describe; none if they do not.
pub(super) fn enumerators(types: &Types, name: &str) -> Option<Vec<(u32, String)>> {
    let number = types.find(ENUM, name)?;
    let each = |at: usize| {
        let at = HEAD + 2 * at;
        Some((types.word(number, at + 1)?, text(types.string(types.word(number, at)?)?)))
    };
    (0..types.members(number)?).map(each).collect()
}

/// A function that the types describe; none if they do not.
pub(super) fn prototype(types: &Types, name: &str) -> Option<Prototype> {
    let number = types.word(types.find(FUNC, name)?, 2)?;
    if types.kind(number) != Some(FUNC_PROTO) {
        return None;
    }
    let mut arguments = Vec::new();
    for at in 0..types.members(number)? {
        let at = HEAD + 2 * at;
        let (name, kind) = (types.word(number, at)?, types.word(number, at + 1)?);
        let name = text(types.string(name)?);
        arguments.push(Argument { name, declared: declared(types, kind), shape: shape(types, kind), number: kind });
    }
    let returned = types.word(number, 2)?;
    let all: Vec<String> = arguments.iter().map(|one| variable(&one.declared, &one.name)).collect();
    let whole = format!("{}({})", variable(&declared(types, returned), name), all.join(", "));
    let (in_c, shape) = (declared(types, returned), shape(types, returned));
    let result = Argument { name: String::new(), declared: in_c, shape, number: returned };
    Some(Prototype { declared: whole, arguments, result: (returned != 0).then_some(result) })
}

/// A type as it is written in C.
pub(super) fn declared(types: &Types, mut number: u32) -> String {
    let (mut before, mut after) = (String::new(), String::new());
    for _ in 0..MAX_ALIASES {
        let Some(kind) = types.kind(number) else { break };
        let name = |default: &str| match types.name(number) {
            None | Some([]) => default.to_owned(),
            Some(name) => text(name),
        };
        let plain = match kind {
            PTR => {
                after.insert(0, '*');
                None
            }
            // A pointer that does not change is the matter of the function itself.
            CONST => {
                let target = types.word(number, 2).and_then(|number| types.kind(number));
                if target != Some(PTR) && !before.contains("const") {
                    before.push_str("const ");
                }
                None
            }
            VOLATILE | RESTRICT | TYPE_TAG => None,
            FUNC_PROTO => Some("function".to_owned()),
            ARRAY => Some("array".to_owned()),
            STRUCT => Some(format!("struct {}", name("{}"))),
            UNION => Some(format!("union {}", name("{}"))),
            // Which of the two is only announced.
            FWD => Some(format!("{} {}", if has_flag(types, number) { "union" } else { "struct" }, name("{}"))),
            ENUM | ENUM64 => Some(format!("enum {}", name("{}"))),
            _ => Some(name("?")),
        };
        if let Some(plain) = plain {
            return if after.is_empty() { before + &plain } else { format!("{before}{plain} {after}") };
        }
        number = types.word(number, 2).unwrap_or(0);
    }
    if after.is_empty() { before + "void" } else { format!("{before}void {after}") }
}

/// The bit whose meaning depends on the kind.
pub(super) fn has_flag(types: &Types, number: u32) -> bool {
    types.word(number, 1).is_some_and(|info| info >> 31 == 1)
}

pub(super) fn shape(types: &Types, number: u32) -> Shape {
    known_shape(types, number).unwrap_or(Shape::Other)
}

fn known_shape(types: &Types, mut number: u32) -> Option<Shape> {
    for _ in 0..MAX_ALIASES {
        let (kind, size) = (types.kind(number)?, types.word(number, 2)?);
        if matches!(kind, TYPEDEF | VOLATILE | CONST | RESTRICT | TYPE_TAG) {
            number = size;
            continue;
        }
        let plain = |bytes: u32, is_signed, is_address| Shape::Number { bytes, is_signed, is_address };
        return match kind {
            PTR => Some(plain(8, false, true)),
            INT if [1, 2, 4, 8].contains(&size) => Some(plain(size, types.word(number, HEAD)? >> 24 & 1 == 1, false)),
            // Whether any of the values is negative.
            ENUM | ENUM64 if [1, 2, 4, 8].contains(&size) => Some(plain(size, has_flag(types, number), false)),
            _ => None,
        };
    }
    None
}
