//! One screen: what is not ok, who is behind it, what to do next, where the files are; the verdict last, where the eye is.

use super::super::gist::{Gist, Named};
use super::super::next;
use super::super::words;
use super::{Page, Paint, Style, Text, instance_and_value, seen};
use crate::shown;
use rdiag_model::report::Report;

/// Names in a list.
const MAX_NAMES: usize = 4;
/// Changes around a time that is over.
const MAX_CHANGES: usize = 6;

/// The report on one screen, ending with the verdict. `written` says where its files are.
#[must_use]
pub fn brief(report: &Report, written: Option<&Text>, style: &Style) -> Text {
    let mut page = Page::new(style);
    let [measured, started] = [words::measured(report), report.window.started.clone()].map(Text::seen);
    let host = seen(&report.host.hostname);
    page.line(shown!("{} · {} · {} · {}", seen(&report.playbook.name), measured, host, started), 0, Paint::Dim);
    page.recipe(report);
    page.blank();
    if let Some(profile) = &report.profile {
        page.profile_in_brief(profile);
    }
    page.problems(report);
    page.answer(report);
    page.changes(report, MAX_CHANGES);
    page.usual(report);
    page.next(report);
    let unknown = report.coverage.checks.unknown;
    if unknown > 0 {
        let all = report.coverage.checks.judged.saturating_add(unknown);
        page.line(
            shown!(
                "Not measured: {} of {} checks; -v lists them; `rdiag doctor` on the host says what would help.",
                unknown,
                all
            ),
            0,
            Paint::Dim,
        );
    }
    page.files(written);
    page.blank();
    page.verdict_line(report);
    page.done()
}

/// The verdict and nothing else.
#[must_use]
pub fn verdict_alone(report: &Report, style: &Style) -> Text {
    let mut page = Page::new(style);
    page.verdict_line(report);
    page.done()
}

/// One line for a chat, however long: host, status, verdict.
#[must_use]
pub fn summary(report: &Report, style: &Style) -> Text {
    let mut page = Page::new(style);
    let status = report.verdict.status.word();
    let line = shown!("{}: {}: {}", seen(&report.host.hostname), status, Text::seen(words::verdict(report)));
    page.push(line, Paint::None);
    page.done()
}

impl Page {
    /// What fired, one problem after the other; what is only worth knowing in one line.
    fn problems(&mut self, report: &Report) {
        let gist = Gist::of(report);
        for problem in &gist.problems {
            let finding = problem.lead;
            let value = Text::seen(words::value(finding));
            let title = shown!("{} · {} {}", seen(&finding.title), Text::seen(words::full_id(finding)), value);
            self.hanging(&self.badge(finding.status), &title, 2, Paint::Status(finding.status), Paint::Bold);
            if let Some(sentence) = &problem.sentence {
                self.line(seen(sentence), 2, Paint::None);
            }
            if !problem.others.is_empty() {
                let some =
                    Text::joined(problem.others.iter().take(MAX_NAMES).map(|other| instance_and_value(other)), ", ");
                let more = problem.others.len().saturating_sub(MAX_NAMES);
                let more = if more > 0 { shown!(" and {} more", more) } else { Text::new() };
                self.field("also", shown!("{}{}", some, more));
            }
            if let Some(who) = &problem.who {
                self.field(problem.label, Text::seen(who));
            }
        }
        // Beside an account of a task it would seem to be about that, whose own stands below its table.
        if let Some(confidence) = gist.confidence().filter(|_| report.profile.is_none()) {
            self.line(shown!("Confidence: {}", Text::seen(confidence)), 0, Paint::None);
        }
        for (label, all) in gist.lists() {
            self.named(label, &all);
        }
        if !gist.problems.is_empty() || !gist.notes.is_empty() || !gist.history.is_empty() {
            self.blank();
        }
    }

    /// Findings in one line: title and value of each.
    fn named(&mut self, label: &'static str, all: &[Named]) {
        if all.is_empty() {
            return;
        }
        let one = |(title, value): &Named| {
            let text: Text = shown!("{} {}", Text::seen(title), Text::seen(value));
            text.trimmed_end()
        };
        let more = all.len().saturating_sub(MAX_NAMES);
        let more = if more > 0 { shown!(" and {} more (-v)", more) } else { Text::new() };
        let some = Text::joined(all.iter().take(MAX_NAMES).map(one), ", ");
        self.line(shown!("{}: {}{}", label, some, more), 0, Paint::None);
    }

    /// What to do next, the first of each problem before the second of any.
    fn next(&mut self, report: &Report) {
        let steps = next::actions(report);
        if steps.is_empty() {
            return;
        }
        self.push("Next", Paint::Bold);
        for (at, step) in steps.iter().enumerate() {
            let mark = if step.changes_host { " (changes the host)" } else { "" };
            self.item(shown!("  {}.", at + 1), shown!("{}{}", seen(&step.action), mark), Paint::None, Paint::None);
        }
        self.blank();
    }
}
