//! An expression in pieces.

use std::ops::Range;

/// What a piece is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Number,
    /// A name, a keyword, or a dotted path.
    Word,
    Text,
    Comparison,
    Other,
}

/// A piece of an expression.
#[derive(Debug, Clone)]
pub(super) struct Token<'t> {
    pub(super) kind: Kind,
    pub(super) text: &'t str,
    pub(super) at: Range<usize>,
}

/// Splits an expression into tokens, without its white space.
pub(super) fn tokens(text: &str) -> Vec<Token<'_>> {
    let mut found = Vec::new();
    let mut start = 0;
    while let Some(rest) = text.get(start..).filter(|rest| !rest.is_empty()) {
        let (kind, length) = first(rest);
        if let Some((kind, piece)) = kind.zip(rest.get(..length)) {
            found.push(Token { kind, text: piece, at: start..start + length });
        }
        start += length;
    }
    found
}

/// The kind and the length of the first piece; no kind for white space.
fn first(rest: &str) -> (Option<Kind>, usize) {
    let Some(letter) = rest.chars().next() else { return (None, 0) };
    let run = |fits: &dyn Fn(char) -> bool| rest.find(|c| !fits(c)).unwrap_or(rest.len());
    if letter.is_whitespace() {
        (None, run(&char::is_whitespace))
    } else if letter == '\'' || letter == '"' {
        let end = rest.char_indices().skip(1).find(|(_, c)| *c == letter);
        (Some(Kind::Text), end.map_or(rest.len(), |(at, _)| at + 1))
    } else if letter.is_ascii_digit() {
        (Some(Kind::Number), run(&|c| c.is_ascii_digit() || c == '.'))
    } else if letter.is_alphabetic() || letter == '_' {
        (Some(Kind::Word), run(&|c| c.is_alphanumeric() || c == '_' || c == '.'))
    } else if ["<=", ">=", "==", "!="].iter().any(|sign| rest.starts_with(sign)) {
        (Some(Kind::Comparison), 2)
    } else if letter == '<' || letter == '>' {
        (Some(Kind::Comparison), 1)
    } else {
        (Some(Kind::Other), letter.len_utf8())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_in_names_and_texts_are_no_numbers() {
        let found = tokens("a.p99.x >= 0.5 and {'9': 2}[label.k2] != 'x < 1'");
        let of = |kind: Kind| -> Vec<&str> {
            found.iter().filter(|token| token.kind == kind).map(|token| token.text).collect()
        };
        assert_eq!(of(Kind::Number), ["0.5", "2"]);
        assert_eq!(of(Kind::Comparison), [">=", "!="]);
        assert_eq!(of(Kind::Text), ["'9'", "'x < 1'"]);
        assert_eq!(of(Kind::Word), ["a.p99.x", "and", "label.k2"]);
    }
}
