//! Names and types of the arguments of kernel functions, from the types that the kernel describes itself with
//! (/sys/kernel/btf/vmlinux, `include/uapi/linux/btf.h`). Functions of modules are not among them.

use super::Shape;

/// An argument, or the result (without a name).
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Argument {
    pub(super) name: String,
    pub(super) shape: Shape,
}

/// A function: its arguments, and its result unless it has none.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Prototype {
    pub(super) arguments: Vec<Argument>,
    pub(super) result: Option<Shape>,
}

const MAGIC: u16 = 0xeb9f;
/// Kinds of types that are looked at.
const INT: u32 = 1;
const PTR: u32 = 2;
const ENUM: u32 = 6;
const FUNC: u32 = 12;
const FUNC_PROTO: u32 = 13;
const ENUM64: u32 = 19;
/// Typedef, volatile, const, restrict, type tag: another name for another type.
const ALIASES: [u32; 5] = [8, 9, 10, 11, 18];
/// The kernel nests them less deep.
const MAX_ALIASES: usize = 32;

struct Types<'b> {
    types: &'b [u8],
    strings: &'b [u8],
    /// Where each type stands; number 0 is `void`, and stands nowhere.
    places: Vec<usize>,
}

fn word(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..at.checked_add(4)?)?.try_into().ok().map(u32::from_ne_bytes)
}

/// A function that the types describe; none if they do not, or cannot be understood.
pub(super) fn prototype(bytes: &[u8], name: &str) -> Option<Prototype> {
    let types = Types::parse(bytes)?;
    let is_it = |at: &&usize| {
        types.kind(**at) == Some(FUNC) && word(types.types, **at).is_some_and(|offset| types.string_is(offset, name))
    };
    let function = *types.places.iter().skip(1).find(is_it)?;
    let place = types.place(word(types.types, function + 8)?)?;
    if types.kind(place) != Some(FUNC_PROTO) {
        return None;
    }
    let mut arguments = Vec::new();
    for at in 0..types.members(place)? {
        let at = place + 12 + at * 8;
        let (name, kind) = (word(types.types, at)?, word(types.types, at + 4)?);
        arguments.push(Argument { name: types.string(name)?, shape: types.shape(kind) });
    }
    let result = word(types.types, place + 8)?;
    Some(Prototype { arguments, result: (result != 0).then(|| types.shape(result)) })
}

impl<'b> Types<'b> {
    fn parse(bytes: &'b [u8]) -> Option<Self> {
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
