//! What a record says, in the words that the kernel has for it: its `print fmt`, which is a format and arguments in C. Where that uses
//! something that is not known here, the fields stand one by one with their names.

mod constants;
mod expression;
mod layout;
mod parse;
#[cfg(test)]
mod tests;
mod token;

use std::fmt::Write as _;

use super::format::{Field, Format, Shape, text};
pub use constants::{Constants, constants};
pub use layout::Functions;
use layout::Piece;

/// Longest text that is made of a record, in characters.
const LONGEST: usize = 1000;

/// How records of a kind are printed.
#[derive(Debug, Clone)]
pub struct Print {
    fields: Vec<Field>,
    how: How,
}

#[derive(Debug, Clone)]
enum How {
    Pieces(Vec<Piece>),
    /// `(dfd: 0xffffff9c, flags: 0x2)`: the arguments of a system call.
    Call,
    /// `-> 0x3`: what one returned.
    Return,
    Fields,
}

impl Print {
    /// How records of a format are printed. `group` and `name` are those of the event, `constants` what it leaves as names.
    #[must_use]
    pub fn new(group: &str, name: &str, format: &Format, constants: &Constants) -> Self {
        let how = match (group, name) {
            ("syscalls", name) if name.starts_with("sys_enter_") => How::Call,
            ("syscalls", name) if name.starts_with("sys_exit_") => How::Return,
            _ => pieces(format, constants).map_or(How::Fields, How::Pieces),
        };
        Self { fields: format.own().cloned().collect(), how }
    }

    /// Whether functions of the kernel are named, so that their addresses should be known before.
    #[must_use]
    pub fn names_functions(&self) -> bool {
        let names = |piece: &Piece| matches!(piece, Piece::Place(place) if place.names_function());
        matches!(&self.how, How::Pieces(pieces) if pieces.iter().any(names))
    }

    /// The text of a record, cut at 1000 characters.
    #[must_use]
    pub fn text(&self, record: &[u8], functions: Functions<'_>) -> String {
        let whole = match &self.how {
            How::Pieces(pieces) => in_words(pieces, record, functions),
            How::Call => self.call(record),
            How::Return => format!("-> {:#x}", self.named("ret").and_then(|field| field.value(record)).unwrap_or(0)),
            How::Fields => self.by_field(record),
        };
        match whole.char_indices().nth(LONGEST) {
            Some((end, _)) => whole.get(..end).unwrap_or_default().to_owned(),
            None => whole,
        }
    }

    fn named(&self, name: &str) -> Option<&Field> {
        self.fields.iter().find(|field| field.name() == name)
    }

    fn call(&self, record: &[u8]) -> String {
        let arguments = self.fields.iter().filter(|field| !field.name().starts_with("__"));
        let one = |field: &Field| {
            let value = field.value(record).unwrap_or(0);
            // Since Linux 6.19 the kernel keeps what some of them point to.
            let kept = self.named(&format!("__{}_val", field.name())).and_then(|kept| kept.bytes(record));
            let kept = kept.map_or_else(String::new, |kept| format!(" {:?}", text(kept)));
            format!("{}: {value:#x}{kept}", field.name())
        };
        format!("({})", arguments.map(one).collect::<Vec<_>>().join(", "))
    }

    fn by_field(&self, record: &[u8]) -> String {
        let mut all = String::new();
        for field in &self.fields {
            let value = match field.shape() {
                Shape::Number => field.signed_value(record).map(|value| value.to_string()),
                Shape::Address => field.value(record).map(|value| format!("{value:#x}")),
                Shape::Array { is_text: true, .. } | Shape::Located { is_text: true, .. } => {
                    field.bytes(record).map(|bytes| text(bytes).into_owned())
                }
                Shape::Array { element, .. } | Shape::Located { element, .. } => {
                    field.bytes(record).and_then(|bytes| expression::elements(bytes, element))
                }
            };
            let between = if all.is_empty() { "" } else { " " };
            let _ = write!(all, "{between}{}={}", field.name(), value.as_deref().unwrap_or("?"));
        }
        all
    }
}

fn pieces(format: &Format, constants: &Constants) -> Option<Vec<Piece>> {
    let tokens = token::tokens(&format.print)?;
    let (layout, arguments) = parse::Parser::new(&tokens, format, constants).whole()?;
    layout::pieces(&layout, arguments)
}

/// A value that the record does not hold, or that cannot be computed, is a question mark.
fn in_words(pieces: &[Piece], record: &[u8], functions: Functions<'_>) -> String {
    let mut all = String::new();
    for piece in pieces {
        match piece {
            Piece::Text(text) => all.push_str(text),
            Piece::Place(place) => all.push_str(place.text(record, functions).as_deref().unwrap_or("?")),
        }
    }
    all
}
