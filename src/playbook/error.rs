//! What is wrong with a playbook or a rule: file, line, column, the line itself, and what was probably meant.

use std::fmt;

use thiserror::Error;

/// One thing that is wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// The file, or `built-in NAME`.
    pub file: String,
    /// Line, from 1; 0 when the place is not known.
    pub line: usize,
    /// Column, from 1.
    pub column: usize,
    /// The line's text.
    pub text: String,
    /// What is wrong.
    pub message: String,
    /// What was probably meant.
    pub hint: Option<String>,
}

impl Problem {
    /// A problem at the first place after `start` (a byte offset) where `token` stands as a word of its own.
    #[must_use]
    pub fn at(file: &str, source: &str, start: usize, token: &str, message: String) -> Self {
        let found = find_word(source, start, token).unwrap_or(start);
        let before = source.get(..found).unwrap_or("");
        let line = before.matches('\n').count() + 1;
        let column = before.chars().rev().take_while(|c| *c != '\n').count() + 1;
        Self::on_line(file, source, line, column, message)
    }

    /// A problem at a known line and column, both from 1.
    #[must_use]
    pub fn on_line(file: &str, source: &str, line: usize, column: usize, message: String) -> Self {
        let text = source.lines().nth(line.saturating_sub(1)).unwrap_or("").to_owned();
        Self { file: file.to_owned(), line, column, text, message, hint: None }
    }

    /// A problem of the whole file.
    #[must_use]
    pub fn whole(file: &str, message: String) -> Self {
        Self { file: file.to_owned(), line: 0, column: 0, text: String::new(), message, hint: None }
    }

    /// The same with a hint.
    #[must_use]
    pub fn hint(mut self, hint: Option<String>) -> Self {
        self.hint = hint.or(self.hint);
        self
    }
}

/// Where a word stands that is not part of a longer one.
fn find_word(source: &str, start: usize, token: &str) -> Option<usize> {
    let is_word = |c: char| c.is_alphanumeric() || c == '_' || c == '.';
    let mut from = start;
    while let Some(offset) = source.get(from..)?.find(token) {
        let at = from + offset;
        let before = source.get(..at)?.chars().next_back();
        let after = source.get(at + token.len()..)?.chars().next();
        if !before.is_some_and(is_word) && !after.is_some_and(is_word) {
            return Some(at);
        }
        from = at + token.len().max(1);
    }
    source.get(start..)?.find(token).map(|offset| start + offset)
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // A name in them may hold the end of a line, and what follows would seem to be said by rdiag.
        let [file, message] = [&self.file, &self.message].map(|text| text.replace('\n', "\\n"));
        if self.line == 0 {
            write!(f, "{file}: {message}")?;
        } else {
            writeln!(f, "{file}:{}:{}: {message}", self.line, self.column)?;
            let shown: String = self.text.chars().take(160).map(|c| if c.is_control() { ' ' } else { c }).collect();
            writeln!(f, "{:>6} | {shown}", self.line)?;
            write!(f, "       | {:>width$}", "^", width = self.column.clamp(1, 160))?;
        }
        if let Some(hint) = &self.hint {
            write!(f, "\n  hint: {}", hint.replace('\n', "\\n"))?;
        }
        Ok(())
    }
}

/// Everything that is wrong with the playbooks and rules of a run.
#[derive(Debug, Error)]
pub enum PlaybookError {
    /// Mistakes in the text.
    #[error("{}", .0.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"))]
    Invalid(Vec<Problem>),
    /// There is no such playbook.
    #[error("there is no playbook named {name:?}{}", .hint.as_ref().map(|h| format!("\n  hint: {h}")).unwrap_or_default())]
    NotFound {
        /// What was asked for.
        name: String,
        /// What was probably meant.
        hint: Option<String>,
    },
    /// A file that cannot be read.
    #[error("reading {path}: {source}")]
    Read {
        /// The file.
        path: String,
        /// Why.
        source: std::io::Error,
    },
    /// A `--param`, or the value of an option, that does not fit.
    #[error("{}{name}: {problem}", if .name.starts_with("--") { "" } else { "parameter " })]
    Param {
        /// Its name; of an option with the dashes.
        name: String,
        /// What is wrong with it.
        problem: String,
    },
}
