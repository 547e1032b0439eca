//! What expressions and sentences of strangers may consist of. Fuel bounds their steps; this bounds what one step can make.
//!
//! Text grows in a template by being repeated (`'a' * 9000000`), by being joined with itself again and again, which takes a variable, and by
//! filters. So what is multiplied are numbers and nothing else (`numbers.rs`), a template's own variables are what `top` gives, and there are
//! none but known filters; what is written out at last is bounded too.

use std::fmt::{self, Write as _};

use minijinja::value::Value;
use minijinja::{Error, ErrorKind};

use super::numbers;

/// Longest expression and sentence, in bytes.
const MAX_TEXT: usize = 16 << 10;
/// Longest text that a sentence gives, in bytes.
const MAX_OUTPUT: usize = 64 << 10;
/// Longest value that is named in an error.
const MAX_SHOWN: usize = 200;
/// What may stand at the beginning of `{% … %}`.
const STATEMENTS: &[&str] = &["if", "elif", "else", "endif"];

/// Whether an expression is within bounds.
pub(super) fn expression(text: &str) -> Result<(), Error> {
    length(text)?;
    numbers::multiplied(text, &[]).map_err(wrong)
}

/// Whether a sentence with expressions in it is.
pub(super) fn sentence(text: &str) -> Result<(), Error> {
    length(text)?;
    let (mut rest, mut named) = (text, Vec::new());
    while let Some((_, tag)) = rest.split_once('{') {
        rest = tag;
        let is_statement = tag.starts_with('%');
        if !is_statement && !tag.starts_with('{') {
            continue;
        }
        let tag = tag.get(1..).unwrap_or_default();
        let inside = tag.split(if is_statement { "%}" } else { "}}" }).next().unwrap_or_default();
        let inside = inside.trim_matches(['-', '+']).trim();
        numbers::multiplied(inside, &named).map_err(wrong)?;
        let word = inside.split(|c: char| !c.is_ascii_alphanumeric() && c != '_').next().unwrap_or_default();
        if is_statement && let Some(name) = numbers::set(inside) {
            named.push(name);
        } else if is_statement && !STATEMENTS.contains(&word) {
            return Err(wrong(format!(
                "a sentence may hold if, elif, else, endif and `set name = top(…)`, and no other {word:?}"
            )));
        }
    }
    Ok(())
}

fn wrong(why: String) -> Error {
    Error::new(ErrorKind::SyntaxError, why)
}

fn length(text: &str) -> Result<(), Error> {
    if text.len() > MAX_TEXT { Err(wrong(format!("it is longer than {MAX_TEXT} bytes"))) } else { Ok(()) }
}

/// Text that is not longer than it may be.
struct Bounded {
    text: String,
    most: usize,
}

impl fmt::Write for Bounded {
    fn write_str(&mut self, more: &str) -> fmt::Result {
        if self.text.len() + more.len() > self.most {
            return Err(fmt::Error);
        }
        self.text.push_str(more);
        Ok(())
    }
}

/// What a sentence gives, byte by byte.
#[derive(Default)]
pub(super) struct Written(Vec<u8>);

impl Written {
    pub(super) fn into_text(self) -> String {
        String::from_utf8_lossy(&self.0).into_owned()
    }
}

impl std::io::Write for Written {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        if self.0.len() + bytes.len() > MAX_OUTPUT {
            return Err(std::io::Error::other(format!("it gives more than {MAX_OUTPUT} bytes")));
        }
        self.0.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// A value in an error.
pub(super) fn shown(value: &Value) -> String {
    let mut text = Bounded { text: String::new(), most: MAX_SHOWN };
    match write!(text, "{value}") {
        Ok(()) => text.text,
        Err(_) => format!("{}…", text.text),
    }
}
