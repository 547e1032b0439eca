//! Entries as `journalctl -o json` prints them: an object on each line. A value is a text; a list of bytes, where it is none; a list of
//! such, where a field has several; or nothing, where it is long.

use std::fmt;

use serde::de::{Error, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};

use super::entries::{Fields, Journal, NEEDED};
use super::{HEAD, TIME};

/// A longer line is no entry: the values in it have 4096 bytes at most, unless `--all` is given.
const MAX_LINE: usize = 1 << 20;

/// Whether the first line is an entry.
pub(super) fn is(bytes: &[u8]) -> bool {
    let head = bytes.trim_ascii_start();
    let line = head.split(|byte| *byte == b'\n').next().unwrap_or_default();
    line.starts_with(b"{")
        && line.get(..HEAD).unwrap_or(line).windows(TIME.len()).any(|part| part == TIME.as_bytes())
        && line.len() <= MAX_LINE
        && entry(line).is_ok_and(|(_, has_time)| has_time)
}

/// Reads all lines.
pub(super) fn read(bytes: &[u8], journal: &mut Journal) -> Result<(), String> {
    let mut lines = bytes.split(|byte| *byte == b'\n').peekable();
    while let Some(line) = lines.next() {
        if line.trim_ascii().is_empty() {
            continue;
        }
        let is_last = lines.peek().is_none();
        match Some(line).filter(|line| line.len() <= MAX_LINE).map(entry) {
            Some(Ok((fields, _))) => journal.add(fields)?,
            Some(Err(error)) if is_last && error.is_eof() => journal.is_cut_off = true,
            _ => journal.unreadable += 1,
        }
    }
    Ok(())
}

/// The fields of a line, and whether a time is among them.
fn entry(line: &[u8]) -> serde_json::Result<(Fields, bool)> {
    let mut from = serde_json::Deserializer::from_slice(line);
    let fields = from.deserialize_map(Entry)?;
    from.end()?;
    Ok(fields)
}

struct Entry;

impl<'de> Visitor<'de> for Entry {
    type Value = (Fields, bool);

    fn expecting(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str("an entry of the journal")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let (mut fields, mut has_time) = (Fields::default(), false);
        while let Some(name) = map.next_key::<String>()? {
            if !NEEDED.contains(&name.as_str()) {
                map.next_value::<IgnoredAny>()?;
                continue;
            }
            let Bytes(value) = map.next_value()?;
            has_time |= name == TIME;
            fields.put(&name, &value);
        }
        Ok((fields, has_time))
    }
}

/// The bytes of a value; of several the first.
struct Bytes(Vec<u8>);

impl<'de> Deserialize<'de> for Bytes {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_any(Value { is_within: false }).map(|value| match value {
            Part::Byte(number) => Self(number.to_string().into_bytes()),
            Part::Whole(bytes) => Self(bytes),
        })
    }
}

/// A value, or a part of a list.
enum Part {
    Byte(u64),
    Whole(Vec<u8>),
}

impl<'de> Deserialize<'de> for Part {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_any(Value { is_within: true })
    }
}

/// Reads one; lists lie within a list and no deeper.
struct Value {
    is_within: bool,
}

impl<'de> Visitor<'de> for Value {
    type Value = Part;

    fn expecting(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str("a text, a list of bytes or nothing")
    }

    fn visit_unit<E: Error>(self) -> Result<Part, E> {
        Ok(Part::Whole(Vec::new()))
    }

    fn visit_u64<E: Error>(self, number: u64) -> Result<Part, E> {
        Ok(Part::Byte(number))
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Part, E> {
        Ok(Part::Whole(text.as_bytes().to_vec()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Part, A::Error> {
        let (mut bytes, mut first) = (Vec::new(), None);
        if self.is_within {
            while let Some(byte) = list.next_element::<u8>()? {
                bytes.push(byte);
            }
            return Ok(Part::Whole(bytes));
        }
        while let Some(part) = list.next_element::<Part>()? {
            match part {
                Part::Byte(byte) => bytes.push(u8::try_from(byte).map_err(|_| Error::custom("it is no byte"))?),
                Part::Whole(whole) => first = first.or(Some(whole)),
            }
        }
        Ok(Part::Whole(first.unwrap_or(bytes)))
    }
}
