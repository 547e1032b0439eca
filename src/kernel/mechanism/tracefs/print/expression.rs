//! What is printed of a record, and its value there.

use super::super::format::{Field, Shape, bytes_of};

/// A number, text or bytes, made from the fields of a record.
#[derive(Debug, Clone)]
pub(super) enum Expression {
    Number(i128),
    Text(String),
    /// A constant whose value the kernel does not tell.
    Unknown,
    Field(Field),
    /// The bytes of a field, whatever it holds.
    Bytes(Field),
    Element(Field, Box<Expression>),
    /// Bytes that an array takes.
    Length(Field),
    Unary(Unary, Box<Expression>),
    Binary(Binary, Box<[Expression; 2]>),
    If(Box<[Expression; 3]>),
    /// The names of the bits that are set, with a text between them.
    Flags(Box<Expression>, String, Vec<Name>),
    /// The name of a value.
    Symbol(Box<Expression>, Vec<Name>),
    /// Bytes and how many of them, with a text between them.
    Hex(Box<[Expression; 2]>, &'static str),
    /// Bytes, how many elements they are, and how many bytes each takes.
    Array(Box<[Expression; 3]>),
}

/// What a value, or a bit of it, is called.
#[derive(Debug, Clone)]
pub(super) struct Name {
    pub(super) value: u64,
    pub(super) text: String,
}

#[derive(Debug, Clone, Copy)]
pub(super) enum Unary {
    Minus,
    Not,
    IsZero,
    Cast(Width),
}

#[derive(Debug, Clone, Copy)]
pub(super) enum Binary {
    Or,
    And,
    BitOr,
    BitXor,
    BitAnd,
    Same,
    Other,
    AtMost,
    AtLeast,
    Less,
    More,
    Left,
    Right,
    Plus,
    Minus,
    Times,
    Over,
    Rest,
}

/// What a cast leaves of a number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Width {
    bits: u32,
    is_signed: bool,
}

impl Width {
    /// Of a type in C; none if it is not known.
    pub(super) fn of(words: &str) -> Option<Self> {
        let bits = u32::try_from(bytes_of(words)?).ok()? * 8;
        let is_signed = !(words.contains('*') || words.contains("unsigned"))
            && (["int", "long", "short", "char", "s8", "s16", "s32", "s64", "pid_t", "loff_t"].iter())
                .any(|name| words.split(' ').any(|word| word == *name));
        Some(Self { bits, is_signed })
    }

    /// A number cut to it.
    pub(super) fn cut(self, value: i128) -> i128 {
        let unused = 128 - self.bits.clamp(1, 64);
        let high = value << unused;
        if self.is_signed { high >> unused } else { (high.cast_unsigned() >> unused).cast_signed() }
    }
}

/// A value.
#[derive(Debug, Clone)]
pub(super) enum Value<'v> {
    Number(i128),
    Text(std::borrow::Cow<'v, str>),
    Bytes(&'v [u8]),
}

impl Value<'_> {
    pub(super) fn number(&self) -> Option<i128> {
        match self {
            Self::Number(value) => Some(*value),
            _ => None,
        }
    }
}

impl Expression {
    /// Its value where no record is needed for it.
    pub(super) fn constant(&self) -> Option<u64> {
        let value = self.value(&[])?.number()?;
        Some((value & i128::from(u64::MAX)) as u64)
    }

    /// Its value in a record; none where the record does not hold what is asked of it.
    pub(super) fn value<'v>(&'v self, record: &'v [u8]) -> Option<Value<'v>> {
        let number = |of: &'v Self| of.value(record)?.number();
        let bit = |holds: bool| i128::from(holds);
        Some(match self {
            Self::Number(value) => Value::Number(*value),
            Self::Text(text) => Value::Text(text.into()),
            Self::Unknown => return None,
            Self::Field(field) => match field.shape() {
                Shape::Number | Shape::Address => Value::Number(field.signed_value(record)?),
                Shape::Array { is_text: true, .. } | Shape::Located { is_text: true, .. } => {
                    Value::Text(super::super::format::text(field.bytes(record)?))
                }
                Shape::Array { .. } | Shape::Located { .. } => Value::Bytes(field.bytes(record)?),
            },
            Self::Bytes(field) => Value::Bytes(field.bytes(record)?),
            Self::Element(field, index) => Value::Number(field.element(record, usize::try_from(number(index)?).ok()?)?),
            Self::Length(field) => Value::Number(i128::try_from(field.bytes(record)?.len()).ok()?),
            Self::Unary(operator, of) => {
                // An address may be made of bytes: `(u8 *)&REC->saddr`.
                let of = match (operator, of.value(record)?) {
                    (Unary::Cast(Width { bits: 64, .. }), value @ (Value::Bytes(_) | Value::Text(_))) => {
                        return Some(value);
                    }
                    (_, value) => value.number()?,
                };
                Value::Number(match operator {
                    Unary::Minus => of.checked_neg()?,
                    Unary::Not => !of,
                    Unary::IsZero => bit(of == 0),
                    Unary::Cast(width) => width.cut(of),
                })
            }
            Self::Binary(operator, both) => {
                let [left, right] = both.as_ref();
                let left = number(left)?;
                match (operator, left) {
                    (Binary::And, 0) => return Some(Value::Number(0)),
                    (Binary::Or, 1..) => return Some(Value::Number(1)),
                    _ => {}
                }
                Value::Number(operator.of(left, number(right)?)?)
            }
            Self::If(all) => {
                let [condition, then, otherwise] = all.as_ref();
                return if number(condition)? == 0 { otherwise } else { then }.value(record);
            }
            Self::Flags(value, between, names) => Value::Text(flags(unsigned(number(value)?), between, names).into()),
            Self::Symbol(value, names) => {
                let value = unsigned(number(value)?);
                let found = names.iter().find(|name| name.value == value);
                Value::Text(found.map_or_else(|| format!("{value:#x}").into(), |name| name.text.as_str().into()))
            }
            Self::Hex(both, between) => {
                let [bytes, length] = both.as_ref();
                let Value::Bytes(bytes) = bytes.value(record)? else { return None };
                let bytes = bytes.get(..usize::try_from(number(length)?).ok()?)?;
                let words: Vec<String> = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
                Value::Text(words.join(between).into())
            }
            Self::Array(all) => {
                let [bytes, count, size] = all.as_ref();
                let Value::Bytes(bytes) = bytes.value(record)? else { return None };
                let (count, size) = (usize::try_from(number(count)?).ok()?, usize::try_from(number(size)?).ok()?);
                Value::Text(elements(bytes.get(..count.checked_mul(size)?)?, size)?.into())
            }
        })
    }
}

impl Binary {
    fn of(self, left: i128, right: i128) -> Option<i128> {
        let bit = |holds: bool| Some(i128::from(holds));
        let shift = || u32::try_from(right).ok().filter(|by| *by < 64);
        match self {
            Self::Or => bit(left != 0 || right != 0),
            Self::And => bit(left != 0 && right != 0),
            Self::BitOr => Some(left | right),
            Self::BitXor => Some(left ^ right),
            Self::BitAnd => Some(left & right),
            Self::Same => bit(left == right),
            Self::Other => bit(left != right),
            Self::AtMost => bit(left <= right),
            Self::AtLeast => bit(left >= right),
            Self::Less => bit(left < right),
            Self::More => bit(left > right),
            Self::Left => left.checked_mul(1 << shift()?),
            Self::Right => Some(left >> shift()?),
            Self::Plus => left.checked_add(right),
            Self::Minus => left.checked_sub(right),
            Self::Times => left.checked_mul(right),
            Self::Over => left.checked_div(right),
            Self::Rest => left.checked_rem(right),
        }
    }
}

fn unsigned(value: i128) -> u64 {
    (value & i128::from(u64::MAX)) as u64
}

/// As the kernel does it: each name whose bits are all set, and the rest as a number.
fn flags(mut value: u64, between: &str, names: &[Name]) -> String {
    let mut words = Vec::new();
    for name in names {
        if value != 0 && value & name.value == name.value {
            words.push(name.text.clone());
            value &= !name.value;
        }
    }
    if value != 0 {
        words.push(format!("{value:#x}"));
    }
    words.join(between)
}

/// `{0x1,0x2}`.
pub(super) fn elements(bytes: &[u8], size: usize) -> Option<String> {
    if size == 0 || size > 8 {
        return None;
    }
    let number = |element: &[u8]| {
        let value = element.iter().rev().fold(0_u64, |value, byte| value << 8 | u64::from(*byte));
        format!(
            "{:#x}",
            if cfg!(target_endian = "big") { value.swap_bytes() >> (64 - 8 * element.len()) } else { value }
        )
    };
    Some(format!("{{{}}}", bytes.chunks(size).map(number).collect::<Vec<_>>().join(",")))
}
