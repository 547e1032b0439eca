//! The format of a `print fmt`: text with places for values, as printk reads them.

use std::net::{Ipv4Addr, Ipv6Addr};

use super::expression::{Expression, Value};

/// A piece of a format.
#[derive(Debug, Clone)]
pub(super) enum Piece {
    Text(String),
    Place(Box<Place>),
}

/// A place for a value.
#[derive(Debug, Clone)]
pub(super) struct Place {
    is_left: bool,
    is_filled: bool,
    has_prefix: bool,
    has_sign: bool,
    width: Count,
    precision: Count,
    /// Bits of a number.
    bits: u32,
    kind: char,
    /// What an address stands for: `S`, `I4`.
    of: String,
    /// The value, after those of width and precision.
    value: Expression,
}

/// A number of characters.
#[derive(Debug, Clone)]
enum Count {
    None,
    Fixed(usize),
    Asked(Expression),
}

/// No text is filled up to more.
const WIDEST: usize = 256;

/// Where functions of the kernel get their names.
pub type Functions<'f> = &'f dyn Fn(u64) -> Option<String>;

/// Parses a format; none if a place has no argument or is not understood, or an argument is left.
pub(super) fn pieces(format: &str, arguments: Vec<Expression>) -> Option<Vec<Piece>> {
    let mut arguments = arguments.into_iter();
    let (mut pieces, mut text) = (Vec::new(), String::new());
    let mut chars = format.chars().peekable();
    while let Some(next) = chars.next() {
        if next != '%' {
            text.push(next);
            continue;
        }
        if chars.next_if_eq(&'%').is_some() {
            text.push('%');
            continue;
        }
        pieces.push(Piece::Text(std::mem::take(&mut text)));
        pieces.push(Piece::Place(Box::new(place(&mut chars, &mut arguments)?)));
    }
    pieces.push(Piece::Text(text));
    arguments.next().is_none().then_some(pieces)
}

type Chars<'t> = std::iter::Peekable<std::str::Chars<'t>>;

fn place(chars: &mut Chars<'_>, arguments: &mut impl Iterator<Item = Expression>) -> Option<Place> {
    let (mut is_left, mut is_filled, mut has_prefix, mut has_sign) = (false, false, false, false);
    while let Some(flag) = chars.next_if(|c| "-0#+ ".contains(*c)) {
        match flag {
            '-' => is_left = true,
            '0' => is_filled = true,
            '#' => has_prefix = true,
            '+' => has_sign = true,
            _ => {}
        }
    }
    let width = count(chars, arguments)?;
    let precision = if chars.next_if_eq(&'.').is_some() { count(chars, arguments)? } else { Count::None };
    let bits = match chars.next_if(|c| "hlLzjt".contains(*c)) {
        Some('h') if chars.next_if_eq(&'h').is_some() => 8,
        Some('h') => 16,
        Some(long) => {
            chars.next_if_eq(&long);
            64
        }
        None => 32,
    };
    let kind = chars.next().filter(|kind| "diuxXocsp".contains(*kind))?;
    let mut of = String::new();
    while let Some(letter) = chars.next_if(|c| kind == 'p' && c.is_ascii_alphanumeric()) {
        of.push(letter);
    }
    let is_known = ["", "S", "s", "B", "F", "f", "K", "x", "M", "m", "I4", "I6", "I6c", "ISpc", "ISc", "U"];
    let value = arguments.next().filter(|_| is_known.contains(&of.as_str()))?;
    Some(Place { is_left, is_filled, has_prefix, has_sign, width, precision, bits, kind, of, value })
}

fn count(chars: &mut Chars<'_>, arguments: &mut impl Iterator<Item = Expression>) -> Option<Count> {
    if chars.next_if_eq(&'*').is_some() {
        return arguments.next().map(Count::Asked);
    }
    let mut digits = String::new();
    while let Some(digit) = chars.next_if(char::is_ascii_digit) {
        digits.push(digit);
    }
    Some(if digits.is_empty() { Count::None } else { Count::Fixed(digits.parse().ok()?) })
}

impl Count {
    fn of(&self, record: &[u8]) -> Option<Option<usize>> {
        Some(match self {
            Self::None => None,
            Self::Fixed(count) => Some(*count),
            // A precision below 0 is none.
            Self::Asked(count) => usize::try_from(count.value(record)?.number()?).ok(),
        })
    }
}

impl Place {
    /// Whether a function of the kernel stands there.
    pub(super) fn names_function(&self) -> bool {
        self.kind == 'p' && ["S", "s", "B", "F", "f"].contains(&self.of.as_str())
    }

    /// The text for a record; none where the record does not hold the value.
    pub(super) fn text(&self, record: &[u8], functions: Functions<'_>) -> Option<String> {
        let (width, precision) = (self.width.of(record)?, self.precision.of(record)?);
        let text = match (self.kind, self.value.value(record)?) {
            ('s', Value::Text(text)) => text.chars().take(precision.unwrap_or(usize::MAX)).collect(),
            ('s', Value::Bytes(bytes)) => super::super::format::text(bytes).into_owned(),
            ('c', Value::Number(value)) => char::from(value as u8).to_string(),
            ('p', value) => self.address(&value, functions)?,
            (_, Value::Number(value)) => self.number(value, precision.unwrap_or(1)),
            _ => return None,
        };
        let missing = width.unwrap_or(0).min(WIDEST).saturating_sub(text.chars().count());
        Some(match (self.is_left, self.is_filled && self.kind != 's') {
            (true, _) => text + &" ".repeat(missing),
            (false, false) => " ".repeat(missing) + &text,
            (false, true) => {
                let sign = if text.starts_with("0x") { 2 } else { usize::from(text.starts_with(['-', '+'])) };
                let (sign, digits) = text.split_at_checked(sign)?;
                format!("{sign}{}{digits}", "0".repeat(missing))
            }
        })
    }

    fn number(&self, value: i128, digits: usize) -> String {
        let unused = 128 - self.bits;
        let plain = ((value << unused).cast_unsigned() >> unused) as u64;
        let digits = digits.min(WIDEST);
        let prefix = if self.has_prefix && plain != 0 { "0x" } else { "" };
        match self.kind {
            'd' | 'i' => {
                let value = value << unused >> unused;
                let sign = if value < 0 {
                    "-"
                } else if self.has_sign {
                    "+"
                } else {
                    ""
                };
                format!("{sign}{:0digits$}", value.unsigned_abs())
            }
            'x' => format!("{prefix}{plain:0digits$x}"),
            'X' => format!("{}{plain:0digits$X}", prefix.to_uppercase()),
            'o' => format!("{}{plain:0digits$o}", if self.has_prefix { "0" } else { "" }),
            _ => format!("{plain:0digits$}"),
        }
    }

    fn address(&self, value: &Value<'_>, functions: Functions<'_>) -> Option<String> {
        match value {
            Value::Number(value) => {
                let address = (value & i128::from(u64::MAX)) as u64;
                Some(match self.of.as_str() {
                    _ if self.names_function() => functions(address).unwrap_or_else(|| format!("{address:#x}")),
                    "" | "K" if address == 0 => "(null)".into(),
                    "" | "K" => hidden(address),
                    "x" => format!("{address:x}"),
                    _ => return None,
                })
            }
            Value::Bytes(bytes) => network(&self.of, bytes),
            Value::Text(_) => None,
        }
    }
}

/// An address of the kernel in such a way that it can be compared with others of this run and gives nothing else away, as the kernel
/// itself prints it.
fn hidden(address: u64) -> String {
    use std::hash::{BuildHasher as _, RandomState};
    use std::sync::LazyLock;
    static SECRET: LazyLock<RandomState> = LazyLock::new(RandomState::new);
    format!("{:016x}", SECRET.hash_one(address) & 0xffff_ffff)
}

/// An address of a network, or another number that has a form of its own.
fn network(of: &str, bytes: &[u8]) -> Option<String> {
    let four = |from: usize| Some(Ipv4Addr::from(*bytes.get(from..)?.first_chunk::<4>()?));
    let sixteen = |from: usize| Some(Ipv6Addr::from(*bytes.get(from..)?.first_chunk::<16>()?));
    match of {
        "M" => Some(bytes.get(..6)?.iter().map(|byte| format!("{byte:02x}")).collect::<Vec<_>>().join(":")),
        "m" => Some(bytes.get(..6)?.iter().map(|byte| format!("{byte:02x}")).collect()),
        "U" => {
            let hex = |from: usize, to: usize| {
                Some(bytes.get(from..to)?.iter().map(|byte| format!("{byte:02x}")).collect::<String>())
            };
            Some([hex(0, 4)?, hex(4, 6)?, hex(6, 8)?, hex(8, 10)?, hex(10, 16)?].join("-"))
        }
        "I4" => Some(four(0)?.to_string()),
        "I6" | "I6c" => Some(sixteen(0)?.to_string()),
        // A socket's address: family, port, and behind them the address of one or the other version.
        _ => {
            let family = u16::from_ne_bytes(*bytes.first_chunk::<2>()?);
            let port = u16::from_be_bytes(*bytes.get(2..)?.first_chunk::<2>()?);
            let with_port = |address: String| if of == "ISpc" { format!("{address}:{port}") } else { address };
            match family {
                2 => Some(with_port(four(4)?.to_string())),
                10 => Some(with_port(format!("[{}]", sixteen(8)?))),
                0 => Some(String::new()),
                _ => None,
            }
        }
    }
}
