//! What can be put into a text that is shown, and how it stands there.

use std::borrow::Cow;
use std::fmt::{self, Write as _};
use std::marker::PhantomData;

use super::Shown;

/// A part of a text: words of rdiag, a number, or what is [`Shown`] in the same medium. There is no other way to make one.
pub struct Piece<'p, M> {
    content: Content<'p>,
    medium: PhantomData<M>,
}

enum Content<'p> {
    Text(Cow<'p, str>),
    Count(i128),
    Number(f64),
}

impl<M> Piece<'_, M> {
    /// Writes it; `form` is what stands behind the colon in a sentence.
    pub(super) fn put(&self, out: &mut String, form: &str) {
        let Form { left, width, precision } = Form::of(form);
        let written: &dyn fmt::Display = match &self.content {
            Content::Text(text) => text,
            Content::Count(count) => count,
            Content::Number(number) => number,
        };
        let precision = precision.filter(|_| matches!(self.content, Content::Number(_)));
        // Writing to a string does not fail.
        let _ = match (left, width, precision) {
            (Some(true), width, Some(precision)) => write!(out, "{written:<width$.precision$}"),
            (Some(false), width, Some(precision)) => write!(out, "{written:>width$.precision$}"),
            (None, width, Some(precision)) => write!(out, "{written:width$.precision$}"),
            (Some(true), width, None) => write!(out, "{written:<width$}"),
            (Some(false), width, None) => write!(out, "{written:>width$}"),
            (None, width, None) => write!(out, "{written:width$}"),
        };
    }
}

/// `>9.1`, `<9`, `9`, `.1` or nothing.
struct Form {
    left: Option<bool>,
    width: usize,
    precision: Option<usize>,
}

impl Form {
    fn of(form: &str) -> Self {
        let (left, rest) = match (form.strip_prefix('<'), form.strip_prefix('>')) {
            (Some(rest), _) => (Some(true), rest),
            (_, Some(rest)) => (Some(false), rest),
            _ => (None, form),
        };
        let (width, precision) = rest.split_once('.').unwrap_or((rest, ""));
        Self { left, width: width.parse().unwrap_or(0), precision: precision.parse().ok() }
    }
}

/// A sentence with pieces in its places.
pub(super) fn fill<M>(sentence: &'static str, pieces: &[Piece<'_, M>]) -> String {
    let mut out = String::with_capacity(sentence.len() + 16 * pieces.len());
    let (mut pieces, mut rest) = (pieces.iter(), sentence);
    while let Some(at) = rest.find(['{', '}']) {
        let (before, from) = rest.split_at(at);
        out.push_str(before);
        if let Some(behind) = from.strip_prefix("{{") {
            out.push('{');
            rest = behind;
        } else if let Some(behind) = from.strip_prefix("}}") {
            out.push('}');
            rest = behind;
        } else {
            let (place, behind) = from.split_once('}').unwrap_or((from, ""));
            if let Some(piece) = pieces.next() {
                piece.put(&mut out, place.trim_start_matches(['{', ':']));
            }
            rest = behind;
        }
    }
    out.push_str(rest);
    out
}

impl<'p, M> Piece<'p, M> {
    fn made(content: Content<'p>) -> Self {
        Self { content, medium: PhantomData }
    }
}

impl<M> From<&'static str> for Piece<'_, M> {
    fn from(words: &'static str) -> Self {
        Self::made(Content::Text(Cow::Borrowed(words)))
    }
}

impl<'p, M> From<&'p Shown<M>> for Piece<'p, M> {
    fn from(shown: &'p Shown<M>) -> Self {
        Self::made(Content::Text(Cow::Borrowed(shown)))
    }
}

impl<M> From<Shown<M>> for Piece<'_, M> {
    fn from(shown: Shown<M>) -> Self {
        Self::made(Content::Text(Cow::Owned(shown.text)))
    }
}

impl<M> From<f64> for Piece<'_, M> {
    fn from(number: f64) -> Self {
        Self::made(Content::Number(number))
    }
}

impl<M> From<usize> for Piece<'_, M> {
    fn from(count: usize) -> Self {
        // No host has a usize of more than 64 bits.
        Self::made(Content::Count(i128::try_from(count).unwrap_or(i128::MAX)))
    }
}

macro_rules! counts {
    ($($kind:ty),*) => {$(
        impl<M> From<$kind> for Piece<'_, M> {
            fn from(count: $kind) -> Self {
                Self::made(Content::Count(count.into()))
            }
        }
    )*};
}

counts!(u8, u16, u32, u64, i32, i64);

#[cfg(test)]
mod tests {
    use super::super::Terminal;
    use super::*;

    #[test]
    fn places_are_filled_as_format_fills_them() {
        let seen = Shown::<Terminal>::seen;
        let name = seen("a\u{1b}b");
        let text: Shown<Terminal> = crate::shown!(
            "{{{}}} {:>6}|{:<4}|{:5}|{:5}|{:.1}|{:>7.2}|{:3}",
            &name,
            seen("x"),
            "é",
            7_u32,
            -7_i64,
            1.25,
            2.345,
            "long"
        );
        let (x, name) = ("x", "a\\x1bb");
        let same = format!(
            "{{{}}} {:>6}|{:<4}|{:5}|{:5}|{:.1}|{:>7.2}|{:3}",
            name, x, "é", 7_u32, -7_i64, 1.25, 2.345, "long"
        );
        assert_eq!(&*text, same);
    }
}
