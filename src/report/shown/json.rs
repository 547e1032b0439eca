//! JSON in which every character is seen: it is looked at in terminals.

use serde::Serialize;
use serde_json::Serializer;
use serde_json::ser::{CompactFormatter, PrettyFormatter};

use super::{Json, Shown};
use crate::escape::VisibleJson;

/// A document, indented, ending with a newline.
///
/// # Errors
///
/// When it cannot be serialised.
pub fn json(document: &impl Serialize) -> Result<Shown<Json>, serde_json::Error> {
    let mut text = Vec::new();
    document.serialize(&mut Serializer::with_formatter(&mut text, VisibleJson(PrettyFormatter::new())))?;
    Ok(ended(text))
}

/// A document in one line, ending with a newline.
///
/// # Errors
///
/// When it cannot be serialised.
pub fn json_line(document: &impl Serialize) -> Result<Shown<Json>, serde_json::Error> {
    let mut text = Vec::new();
    document.serialize(&mut Serializer::with_formatter(&mut text, VisibleJson(CompactFormatter)))?;
    Ok(ended(text))
}

fn ended(mut text: Vec<u8>) -> Shown<Json> {
    text.push(b'\n');
    Shown::made(String::from_utf8_lossy(&text).into_owned())
}
