//! What changed around a time that is over, and how it compares with the same time of earlier days.

use super::super::changes::{heading, largest, more, when};
use super::super::usual;
use super::{Page, Paint, Style, Text, seen};
use crate::shown;
use rdiag_model::report::{Report, Usual};

/// A comparison with normal times by itself.
#[must_use]
pub fn compared(usual: &Usual, style: &Style) -> Text {
    let mut page = Page::new(style);
    page.compared(usual);
    page.done()
}

impl Page {
    fn compared(&mut self, one: &Usual) {
        let paint = if one.unlike.is_empty() { Paint::Dim } else { Paint::Bold };
        self.line(seen(usual::heading(one)), 0, paint);
        for unlike in &one.unlike {
            let label = shown!("  {}:", seen(usual::what(unlike)));
            self.item(label, Text::seen(usual::figures(unlike)), Paint::Dim, Paint::None);
        }
    }

    /// The largest changes, at most so many; nothing if none were looked for.
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

    /// The same time of earlier days; nothing where they were not recorded.
    pub(super) fn usual(&mut self, report: &Report) {
        report.usual.iter().for_each(|one| self.compared(one));
        if !report.usual.is_empty() {
            self.blank();
        }
    }
}
