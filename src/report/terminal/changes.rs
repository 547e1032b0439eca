//! What changed around a time that is over.

use super::super::changes::{heading, largest, more, when};
use super::{Page, Paint, Text, seen};
use crate::shown;
use rdiag_model::report::Report;

impl Page {
    /// The largest changes, at most so many; nothing if nobody looked.
    pub(super) fn changes(&mut self, report: &Report, most: usize) {
        let Some(changes) = &report.changes else { return };
        self.line(seen(heading(changes)), 0, if changes.changes.is_empty() { Paint::Dim } else { Paint::Bold });
        let told = largest(changes, report, most);
        for change in &told {
            let label = shown!("  {} {}:", seen(&change.shown), Text::seen(when(change, report)));
            self.item(label, seen(&change.text), Paint::Dim, Paint::None);
        }
        let more = more(changes, told.len());
        if more > 0 {
            let hint = if most == usize::MAX { "" } else { " (-v)" };
            self.line(shown!("and {} more{}", more, hint), 2, Paint::Dim);
        }
        self.blank();
    }
}
