//! The types that the kernel describes itself with (BTF: /sys/kernel/btf/vmlinux, `include/uapi/linux/btf.h`), looked at where
//! they lie. There are some hundred thousand of them, of which a few hundred are ever asked for, so none gets an object of its own.

/// Kinds of types.
pub const INT: u32 = 1;
/// A pointer.
pub const PTR: u32 = 2;
/// An array.
pub const ARRAY: u32 = 3;
/// A structure.
pub const STRUCT: u32 = 4;
/// A union.
pub const UNION: u32 = 5;
/// An enumeration of at most 32 bits.
pub const ENUM: u32 = 6;
/// A structure or union of which only the name is known.
pub const FWD: u32 = 7;
/// Another name for a type.
pub const TYPEDEF: u32 = 8;
/// A volatile type.
pub const VOLATILE: u32 = 9;
/// A constant type.
pub const CONST: u32 = 10;
/// A restricted pointer.
pub const RESTRICT: u32 = 11;
/// A function.
pub const FUNC: u32 = 12;
/// Arguments and result of a function.
pub const FUNC_PROTO: u32 = 13;
/// A number with a fraction.
pub const FLOAT: u32 = 16;
/// A remark on a type, for example `user`.
pub const TYPE_TAG: u32 = 18;
/// An enumeration of 64 bits.
pub const ENUM64: u32 = 19;
const VAR: u32 = 14;
const DATASEC: u32 = 15;
const DECL_TAG: u32 = 17;

const MAGIC: u16 = 0xeb9f;
const HEADER: u32 = 24;
/// The words that every type begins with: its name; kind and number of members; its size or the type that it is made of.
const HEAD: usize = 3;
/// Longest name that is looked at, in bytes: KSYM_NAME_LEN of the kernel.
const MAX_NAME: usize = 512;

/// What a word of a type is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Word {
    /// The place of a string.
    Name,
    /// The number of another type; 0 is `void`.
    Type,
    /// A size, a place, a value.
    Plain,
}

/// What stands in a type's third word, in those that follow, and how often these are repeated. None for a kind that is not
/// known, behind which nothing can be found.
fn layout(kind: u32, members: usize) -> Option<(Word, &'static [Word], usize)> {
    use Word::{Name, Plain, Type};
    Some(match kind {
        INT => (Plain, &[Plain], 1),
        PTR | TYPEDEF | VOLATILE | CONST | RESTRICT | FUNC | TYPE_TAG => (Type, &[], 0),
        ARRAY => (Plain, &[Type, Type, Plain], 1),
        STRUCT | UNION => (Plain, &[Name, Type, Plain], members),
        ENUM => (Plain, &[Name, Plain], members),
        FWD | FLOAT => (Plain, &[], 0),
        FUNC_PROTO => (Type, &[Name, Type], members),
        VAR | DECL_TAG => (Type, &[Plain], 1),
        DATASEC => (Plain, &[Type, Plain, Plain], members),
        ENUM64 => (Plain, &[Name, Plain, Plain], members),
        _ => return None,
    })
}

/// A description of types. Types are named by their numbers, the first is 1.
#[derive(Debug)]
pub struct Types {
    bytes: Vec<u8>,
    /// Where strings begin and end.
    strings: std::ops::Range<usize>,
    /// Where each type stands; number 0 is `void`, and stands nowhere.
    places: Vec<u32>,
}

fn word(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..at.checked_add(4)?)?.try_into().ok().map(u32::from_ne_bytes)
}

impl Types {
    /// Finds out where each type stands; none if the description is cut short or has a kind that is not known.
    #[must_use]
    pub fn parse(bytes: Vec<u8>) -> Option<Self> {
        let magic = u16::from_ne_bytes(bytes.get(..2)?.try_into().ok()?);
        let header = word(&bytes, 4)? as usize;
        let section = |at: usize| {
            let start = header.checked_add(word(&bytes, at)? as usize)?;
            let end = start.checked_add(word(&bytes, at + 4)? as usize)?;
            (end <= bytes.len()).then_some(start..end)
        };
        if magic != MAGIC {
            return None;
        }
        let (types, strings) = (section(8)?, section(16)?);
        let mut places = vec![u32::MAX];
        let mut at = types.start;
        while at < types.end {
            places.push(u32::try_from(at).ok()?);
            let info = word(&bytes, at + 4)?;
            let (_, rest, times) = layout(kind(info), members(info))?;
            at += 4 * (HEAD + rest.len() * times);
        }
        (at == types.end).then_some(Self { bytes, strings, places })
    }

    /// The numbers of all types.
    pub fn numbers(&self) -> impl Iterator<Item = u32> + use<> {
        1..u32::try_from(self.places.len()).unwrap_or(u32::MAX)
    }

    /// A word of a type; what it is depends on the kind.
    #[must_use]
    pub fn word(&self, number: u32, index: usize) -> Option<u32> {
        let place = self.places.get(number as usize).filter(|place| **place != u32::MAX)?;
        word(&self.bytes, (*place as usize).checked_add(index.checked_mul(4)?)?)
    }

    /// The kind of a type.
    #[must_use]
    pub fn kind(&self, number: u32) -> Option<u32> {
        self.word(number, 1).map(kind)
    }

    /// How many members, values or arguments a type has.
    #[must_use]
    pub fn members(&self, number: u32) -> Option<usize> {
        self.word(number, 1).map(members)
    }

    /// All words of a type, in order.
    pub fn words(&self, number: u32) -> impl Iterator<Item = (Word, u32)> {
        let info = self.word(number, 1).unwrap_or(0);
        let (third, rest, times) = layout(kind(info), members(info)).unwrap_or((Word::Plain, &[], 0));
        let head = [Word::Name, Word::Plain, third];
        let all = head.into_iter().chain(std::iter::repeat_n(rest, times).flatten().copied());
        all.enumerate().map_while(move |(index, word)| Some((word, self.word(number, index)?)))
    }

    /// The string at a place, without its end.
    #[must_use]
    pub fn string(&self, offset: u32) -> Option<&[u8]> {
        let text = self.bytes.get(self.strings.clone())?.get(offset as usize..)?;
        let end = text.iter().take(MAX_NAME).position(|byte| *byte == 0)?;
        text.get(..end)
    }

    /// The name of a type; empty if it has none.
    #[must_use]
    pub fn name(&self, number: u32) -> Option<&[u8]> {
        self.string(self.word(number, 0)?)
    }

    /// The first type of a kind and name.
    #[must_use]
    pub fn find(&self, wanted: u32, name: &str) -> Option<u32> {
        self.numbers().find(|number| self.kind(*number) == Some(wanted) && self.is_named(*number, name.as_bytes()))
    }

    /// Whether a type has this name. Cheaper than to find out where its name ends.
    fn is_named(&self, number: u32, name: &[u8]) -> bool {
        let offset = self.word(number, 0).map(|offset| offset as usize);
        let text = offset.and_then(|offset| self.bytes.get(self.strings.clone())?.get(offset..));
        text.and_then(|text| text.strip_prefix(name)).is_some_and(|rest| rest.first() == Some(&0))
    }

    /// The first two bytes of a type's name.
    #[must_use]
    pub fn lead(&self, number: u32) -> Option<[u8; 2]> {
        let offset = self.word(number, 0)? as usize;
        self.bytes.get(self.strings.clone())?.get(offset..)?.first_chunk().copied()
    }
}

/// A description of types from their words and strings.
#[must_use]
pub fn encode(words: &[u32], strings: &[u8]) -> Vec<u8> {
    let length = |bytes: usize| u32::try_from(bytes).unwrap_or(u32::MAX);
    let (types, text) = (length(words.len() * 4), length(strings.len()));
    let mut bytes = Vec::with_capacity(HEADER as usize + words.len() * 4 + strings.len());
    bytes.extend(MAGIC.to_ne_bytes());
    // Version 1, no flags.
    bytes.extend([1, 0]);
    bytes.extend([HEADER, 0, types, types, text].iter().flat_map(|word| word.to_ne_bytes()));
    bytes.extend(words.iter().flat_map(|word| word.to_ne_bytes()));
    bytes.extend(strings);
    bytes
}

fn kind(info: u32) -> u32 {
    info >> 24 & 0x1f
}

fn members(info: u32) -> usize {
    info as usize & 0xffff
}
