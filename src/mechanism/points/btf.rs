//! Names and types of the arguments of kernel functions, from the types that the kernel describes itself with
//! (/sys/kernel/btf/vmlinux, `include/uapi/linux/btf.h`). Functions of modules are not among them.

use super::Shape;

/// An argument, or the result (without a name).
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Argument {
    pub(super) name: String,
    /// Its type in C.
    pub(super) declared: String,
    pub(super) shape: Shape,
}

/// A function: its arguments, and its result unless it has none.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Prototype {
    /// The whole in C.
    pub(super) declared: String,
    pub(super) arguments: Vec<Argument>,
    pub(super) result: Option<Argument>,
}

const MAGIC: u16 = 0xeb9f;
/// Kinds of types that are looked at.
const INT: u32 = 1;
const PTR: u32 = 2;
const ENUM: u32 = 6;
const FUNC: u32 = 12;
const FUNC_PROTO: u32 = 13;
const ENUM64: u32 = 19;
const ARRAY: u32 = 3;
const STRUCT: u32 = 4;
const UNION: u32 = 5;
const FORWARD: u32 = 7;
const VOLATILE: u32 = 9;
const CONST: u32 = 10;
const RESTRICT: u32 = 11;
const TYPE_TAG: u32 = 18;
/// Typedef, volatile, const, restrict, type tag: another name for another type.
const ALIASES: [u32; 5] = [8, 9, 10, 11, 18];
/// The kernel nests them less deep.
const MAX_ALIASES: usize = 32;

/// The description of all types.
pub(super) struct Types<'b> {
    types: &'b [u8],
    strings: &'b [u8],
    /// Where each type stands; number 0 is `void`, and stands nowhere.
    places: Vec<usize>,
}

/// `size_t size`, `char *name`.
fn variable(kind: &str, name: &str) -> String {
    if kind.ends_with('*') { format!("{kind}{name}") } else { format!("{kind} {name}") }
}

fn word(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..at.checked_add(4)?)?.try_into().ok().map(u32::from_ne_bytes)
}

/// Names and values of an enumeration that the types describe; none if they do not.
pub(super) fn enumerators(bytes: &[u8], name: &str) -> Option<Vec<(u32, String)>> {
    let types = Types::parse(bytes)?;
    let is_it = |at: &&usize| {
        types.kind(**at) == Some(ENUM) && word(types.types, **at).is_some_and(|offset| types.string_is(offset, name))
    };
    let place = *types.places.iter().skip(1).find(is_it)?;
    let each = |at: usize| {
        let at = place + 12 + at * 8;
        Some((word(types.types, at + 4)?, types.string(word(types.types, at)?)?))
    };
    (0..types.members(place)?).map(each).collect()
}

impl<'b> Types<'b> {
    /// None if they cannot be understood.
    pub(super) fn parse(bytes: &'b [u8]) -> Option<Self> {
        let magic = u16::from_ne_bytes(bytes.get(..2)?.try_into().ok()?);
        let header = word(bytes, 4)? as usize;
        let section = |at: usize| {
            let start = header.checked_add(word(bytes, at)? as usize)?;
            bytes.get(start..start.checked_add(word(bytes, at + 4)? as usize)?)
        };
        if magic != MAGIC {
            return None;
        }
        let (types, strings) = (section(8)?, section(16)?);
        let mut whole = Self { types, strings, places: vec![usize::MAX] };
        let mut at = 0;
        while at < types.len() {
            let next = at + 12 + whole.rest(at)?;
            whole.places.push(at);
            at = next;
        }
        Some(whole)
    }

    /// A function that the types describe; none if they do not.
    pub(super) fn prototype(&self, name: &str) -> Option<Prototype> {
        let is_it = |at: &&usize| {
            self.kind(**at) == Some(FUNC) && word(self.types, **at).is_some_and(|offset| self.string_is(offset, name))
        };
        let function = *self.places.iter().skip(1).find(is_it)?;
        let place = self.place(word(self.types, function + 8)?)?;
        if self.kind(place) != Some(FUNC_PROTO) {
            return None;
        }
        let mut arguments = Vec::new();
        for at in 0..self.members(place)? {
            let at = place + 12 + at * 8;
            let (name, kind) = (word(self.types, at)?, word(self.types, at + 4)?);
            arguments.push(Argument { name: self.string(name)?, declared: self.name(kind), shape: self.shape(kind) });
        }
        let returned = word(self.types, place + 8)?;
        let declared: Vec<String> = arguments.iter().map(|one| variable(&one.declared, &one.name)).collect();
        let declared = format!("{}({})", variable(&self.name(returned), name), declared.join(", "));
        let result = Argument { name: String::new(), declared: self.name(returned), shape: self.shape(returned) };
        Some(Prototype { declared, arguments, result: (returned != 0).then_some(result) })
    }

    /// A type as it is written in C.
    fn name(&self, mut number: u32) -> String {
        let (mut before, mut after) = (String::new(), String::new());
        for _ in 0..MAX_ALIASES {
            let Some(at) = self.place(number) else { break };
            let text = |default: &str| {
                let name = word(self.types, at).and_then(|offset| self.string(offset)).unwrap_or_default();
                if name.is_empty() { default.to_owned() } else { name }
            };
            let plain = match self.kind(at) {
                Some(PTR) => {
                    after.insert(0, '*');
                    None
                }
                // A pointer that does not change is the matter of the function itself.
                Some(CONST) => {
                    let target = word(self.types, at + 8).and_then(|number| self.place(number));
                    if target.and_then(|at| self.kind(at)) != Some(PTR) && !before.contains("const") {
                        before.push_str("const ");
                    }
                    None
                }
                Some(VOLATILE | RESTRICT | TYPE_TAG) => None,
                Some(FUNC_PROTO) => Some("function".to_owned()),
                Some(ARRAY) => Some("array".to_owned()),
                Some(STRUCT) => Some(format!("struct {}", text("{}"))),
                Some(UNION) => Some(format!("union {}", text("{}"))),
                // The bit of its kind tells which of the two is only announced.
                Some(FORWARD) => {
                    let is_union = word(self.types, at + 4).is_some_and(|word| word >> 31 == 1);
                    Some(format!("{} {}", if is_union { "union" } else { "struct" }, text("{}")))
                }
                Some(ENUM | ENUM64) => Some(format!("enum {}", text("{}"))),
                _ => Some(text("?")),
            };
            if let Some(plain) = plain {
                return if after.is_empty() { before + &plain } else { format!("{before}{plain} {after}") };
            }
            number = word(self.types, at + 8).unwrap_or(0);
        }
        if after.is_empty() { before + "void" } else { format!("{before}void {after}") }
    }

    fn kind(&self, at: usize) -> Option<u32> {
        Some(word(self.types, at.checked_add(4)?)? >> 24 & 0x1f)
    }

    fn members(&self, at: usize) -> Option<usize> {
        Some(word(self.types, at.checked_add(4)?)? as usize & 0xffff)
    }

    /// Bytes that follow the first twelve; none for a kind that is not known, behind which nothing can be found.
    fn rest(&self, at: usize) -> Option<usize> {
        let members = self.members(at)?;
        Some(match self.kind(at)? {
            INT | 14 | 17 => 4,
            PTR | 7..=12 | 16 | 18 => 0,
            3 => 12,
            4 | 5 | 15 | ENUM64 => 12 * members,
            ENUM | FUNC_PROTO => 8 * members,
            _ => return None,
        })
    }

    fn place(&self, number: u32) -> Option<usize> {
        self.places.get(number as usize).copied().filter(|at| *at != usize::MAX)
    }

    fn shape(&self, number: u32) -> Shape {
        self.known_shape(number).unwrap_or(Shape::Other)
    }

    fn known_shape(&self, mut number: u32) -> Option<Shape> {
        for _ in 0..MAX_ALIASES {
            let at = self.place(number)?;
            let (kind, size) = (self.kind(at)?, word(self.types, at + 8)?);
            if ALIASES.contains(&kind) {
                number = size;
                continue;
            }
            let number = |bytes: u32, is_signed, is_address| Shape::Number { bytes, is_signed, is_address };
            return match kind {
                PTR => Some(number(8, false, true)),
                INT if [1, 2, 4, 8].contains(&size) => {
                    let encoding = word(self.types, at + 12)? >> 24;
                    Some(number(size, encoding & 1 == 1, false))
                }
                // The highest bit of what else is told says whether any of the values is negative.
                ENUM | ENUM64 if [1, 2, 4, 8].contains(&size) => {
                    Some(number(size, word(self.types, at + 4)? >> 31 == 1, false))
                }
                _ => None,
            };
        }
        None
    }

    fn string_is(&self, offset: u32, name: &str) -> bool {
        let rest = self.strings.get(offset as usize..).and_then(|text| text.strip_prefix(name.as_bytes()));
        rest.is_some_and(|rest| rest.first() == Some(&0))
    }

    fn string(&self, offset: u32) -> Option<String> {
        let text = self.strings.get(offset as usize..)?;
        let end = text.iter().position(|byte| *byte == 0)?;
        text.get(..end).map(|name| String::from_utf8_lossy(name).into_owned())
    }
}
