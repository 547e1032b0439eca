//! Secrets in command lines: `--password=hunter2` becomes `--password=***` where the line is read, so that no recording holds it.
//!
//! A secret is known by what stands before it: the name of an option, a variable or a header, the place in a URL, or an option of a program
//! that takes one. Masking too much costs a word; masking too little costs a password. What has none of these signs stays.

mod names;
mod programs;
#[cfg(test)]
mod tests;
mod text;

use names::is_secret;
use programs::{Program, program};

/// Stands for a secret.
pub const MASK: &str = "***";

/// The words of a command line, the program first, without the secrets in them.
pub fn masked<'w>(words: impl IntoIterator<Item = &'w str>) -> Vec<String> {
    let mut line = Line::default();
    words.into_iter().map(|word| line.word(word)).collect()
}

/// A command line as the kernel shows it (`/proc/PID/cmdline`), each word ended by NUL; none if there is nothing to mask in it.
#[must_use]
pub fn masked_bytes(line: &[u8]) -> Option<Vec<u8>> {
    let text = String::from_utf8_lossy(line);
    let masked = masked(text.split('\0')).join("\0");
    (masked != text).then(|| masked.into_bytes())
}

/// What is known of a line after the words so far.
#[derive(Debug, Default)]
struct Line {
    program: Option<&'static Program>,
    next: Next,
}

/// What the next word is.
#[derive(Debug, Default, Clone, Copy, PartialEq)]
enum Next {
    #[default]
    Anything,
    Secret,
    /// A name, this sign, and a secret.
    Account(char),
}

impl Line {
    fn word(&mut self, word: &str) -> String {
        // A line within the line: `sh -c '…'`, or what a process has made of its own.
        if self.next == Next::Anything && word.contains(char::is_whitespace) && text::header(word).is_none() {
            let mut inner = Self::default();
            return text::pieces(word).map(|(piece, space)| inner.piece(piece) + space).collect();
        }
        self.plain(word)
    }

    /// A word that is no line.
    fn plain(&mut self, word: &str) -> String {
        let is_option = word.len() > 1 && word.starts_with('-');
        match std::mem::take(&mut self.next) {
            Next::Secret if !is_option && !word.is_empty() => return MASK.to_owned(),
            Next::Account(sign) if !is_option => return text::after(word, sign).unwrap_or_else(|| word.to_owned()),
            _ => {}
        }
        if let Some(header) = text::header(word) {
            return header;
        }
        if !is_option && let Some(found) = program(word) {
            self.program = Some(found);
        }
        if let Some(masked) = self.of_program(word) {
            return masked;
        }
        let name = word.trim_start_matches('-');
        match name.split_once('=') {
            Some((name, value)) if is_secret(name) => match value {
                "" | "true" | "false" => word.to_owned(),
                value => format!("{}{MASK}", word.strip_suffix(value).unwrap_or_default()),
            },
            Some(_) => text::masked(word),
            None => {
                if is_option && is_secret(name) {
                    self.next = Next::Secret;
                }
                text::masked(word)
            }
        }
    }

    /// A part of a word, in quotes or not.
    fn piece(&mut self, piece: &str) -> String {
        for quote in ['"', '\''] {
            let inner = piece.strip_prefix(quote).and_then(|rest| rest.strip_suffix(quote));
            if let Some(inner) = inner.filter(|inner| !inner.contains(quote)) {
                return format!("{quote}{}{quote}", self.word(inner));
            }
        }
        // `"password":` within JSON whose values stand apart.
        if let Some(name) = piece.strip_suffix(':')
            && is_secret(name.trim_matches(|c: char| !c.is_ascii_alphanumeric()))
        {
            self.next = Next::Secret;
            return piece.to_owned();
        }
        self.plain(piece)
    }

    /// An option of the program that takes a secret, or what must follow it.
    fn of_program(&mut self, word: &str) -> Option<String> {
        let program = self.program?;
        for option in program.options {
            let Some(rest) = word.strip_prefix(option.name) else { continue };
            let (next, apart) = (option.next(), rest.is_empty());
            if apart && option.apart {
                self.next = next;
                return Some(word.to_owned());
            }
            if !apart && option.attached {
                return match next {
                    Next::Account(sign) => text::after(rest, sign).map(|rest| format!("{}{rest}", option.name)),
                    _ => Some(format!("{}{MASK}", option.name)),
                };
            }
        }
        None
    }
}
