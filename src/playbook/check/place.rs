//! Where in a file a problem stands.

use super::super::{Problem, SourceFile};
use rdiag_judge::rules::Rule;

/// Where in a file something stands.
pub(crate) struct Place<'p> {
    pub(super) file: &'p SourceFile,
    start: usize,
}

impl<'p> Place<'p> {
    /// Where a rule stands.
    pub(crate) fn of_rule(file: &'p SourceFile, rule: &Rule) -> Self {
        Self::of_entry(file, &rule.id)
    }

    /// Where an entry with an id stands.
    pub(crate) fn of_entry(file: &'p SourceFile, id: &str) -> Self {
        Self { file, start: start_of(&file.text, id) }
    }

    /// The beginning of a file.
    pub(crate) fn of_file(file: &'p SourceFile) -> Self {
        Self { file, start: 0 }
    }

    pub(crate) fn problem(&self, token: &str, message: String) -> Problem {
        Problem::at(&self.file.label, &self.file.text, self.start, token, message)
    }
}

/// Where the entry with this id begins.
fn start_of(text: &str, id: &str) -> usize {
    let mut offset = 0;
    for line in text.split_inclusive('\n') {
        let entry = line.trim_start().trim_start_matches("- ").trim_end();
        if entry.strip_prefix("id:").is_some_and(|rest| rest.trim().trim_matches(['"', '\'']) == id) {
            return offset;
        }
        offset += line.len();
    }
    0
}
