//! One screen: what is not ok, who is behind it, what to do next, where the files are; the verdict last, where the eye is.

use super::super::groups::{self, Group};
use super::super::{headline, words};
use super::{Page, Paint, Style, Text, instance_and_value, seen};
use crate::shown;
use rdiag_model::report::Report;
use rdiag_model::{Finding, Status};

/// Findings with a line of their own.
const MAX_PROBLEMS: usize = 4;
/// Next actions.
const MAX_NEXT: usize = 3;
/// Names in a list.
const MAX_NAMES: usize = 4;

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
    page.next(report);
    let unknown = report.coverage.checks.unknown;
    if unknown > 0 {
        let all = report.coverage.checks.judged + unknown;
        page.line(
            shown!("Not measured: {} of {} checks; -v lists them, `rdiag doctor` says what would help.", unknown, all),
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
    let verdict = report.verdict.headline.to_string();
    let verdict = verdict.strip_prefix("Bottleneck: ").unwrap_or(&verdict);
    let line = shown!("{}: {}: {}", seen(&report.host.hostname), status, Text::seen(verdict));
    page.push(line, Paint::None);
    page.done()
}

impl Page {
    /// What fired, one problem after the other; what is only worth knowing in one line.
    fn problems(&mut self, report: &Report) {
        let groups = groups::fired(report);
        let (bad, notes): (Vec<_>, Vec<_>) = groups.iter().partition(|group| group.lead.status >= Status::Warning);
        let mut named = None;
        for group in bad.iter().take(MAX_PROBLEMS) {
            let finding = group.lead;
            let value = Text::seen(words::value(finding));
            let title = shown!("{} · {} {}", seen(&finding.title), Text::seen(words::full_id(finding)), value);
            self.hanging(&self.badge(finding.status), &title, 2, Paint::Status(finding.status), Paint::Bold);
            let sentence = headline::first_sentence(&finding.summary, false);
            // The verdict says the first one's; what says more of the same is told by its title.
            let is_told = report.verdict.headline.detail.contains(&headline::first_sentence(&finding.summary, true));
            if !is_told && !says_more_of_the_same(&groups, finding) {
                self.line(seen(sentence), 2, Paint::None);
            }
            if !group.others.is_empty() {
                let some =
                    Text::joined(group.others.iter().take(MAX_NAMES).map(|other| instance_and_value(other)), ", ");
                let more = group.others.len().saturating_sub(MAX_NAMES);
                let more = if more > 0 { shown!(" and {} more", more) } else { Text::new() };
                self.field("also", shown!("{}{}", some, more));
            }
            let culprit = finding.culprit.as_ref().map(words::culprit);
            if let Some(culprit) = culprit.as_ref().filter(|_| culprit != named) {
                self.field("who", Text::seen(culprit));
            }
            named = culprit;
        }
        self.named("More", bad.iter().skip(MAX_PROBLEMS).map(|group| group.lead));
        self.named("Worth knowing", notes.iter().map(|group| group.lead));
        if !groups.is_empty() {
            self.blank();
        }
    }

    /// Findings in one line: title, instance and value of each.
    fn named<'f>(&mut self, label: &'static str, findings: impl Iterator<Item = &'f Finding>) {
        let all: Vec<&Finding> = findings.collect();
        if all.is_empty() {
            return;
        }
        let one = |finding: &&Finding| {
            let value = if finding.value == Some(0.0) { String::new() } else { words::value(finding) };
            let [id, value] = [words::full_id(finding), value].map(Text::seen);
            let text: Text = shown!("{} {}", id, value);
            text.trimmed_end()
        };
        let more = all.len().saturating_sub(MAX_NAMES);
        let more = if more > 0 { shown!(" and {} more (-v)", more) } else { Text::new() };
        let some = Text::joined(all.iter().take(MAX_NAMES).map(one), ", ");
        self.line(shown!("{}: {}{}", label, some, more), 0, Paint::None);
    }

    /// What to do next, the first of each problem before the second of any.
    fn next(&mut self, report: &Report) {
        let steps = next_actions(report);
        if steps.is_empty() {
            return;
        }
        self.push("Next", Paint::Bold);
        for (at, (action, changes_host)) in steps.iter().enumerate() {
            let mark = if *changes_host { " (changes the host)" } else { "" };
            self.item(shown!("  {}.", at + 1), shown!("{}{}", seen(action), mark), Paint::None, Paint::None);
        }
        self.blank();
    }
}

/// Whether a finding follows another one about the same resource and question.
fn says_more_of_the_same(groups: &[Group<'_>], finding: &Finding) -> bool {
    let at = groups.iter().position(|group| std::ptr::eq(group.lead, finding));
    at.is_some_and(|at| groups::lead_of_cell(groups, at).is_some())
}

/// At most three actions, each with whether it changes the host: those that only look come first.
fn next_actions(report: &Report) -> Vec<(String, bool)> {
    let task = report.profile.iter().flat_map(|profile| &profile.components).filter(|row| row.share >= 0.05);
    let mut lists: Vec<_> = task.map(|row| &row.next).collect();
    let groups = groups::fired(report);
    let fired = groups.iter().map(|group| group.lead).filter(|finding| finding.status >= Status::Warning);
    lists.extend(fired.filter(|finding| !says_more_of_the_same(&groups, finding)).map(|finding| &finding.next));
    let longest = lists.iter().map(|list| list.len()).max().unwrap_or(0);
    let mut chosen: Vec<(String, bool)> = Vec::new();
    for changes_host in [false, true] {
        for at in 0..longest {
            for step in lists.iter().filter_map(|list| list.get(at)).filter(|step| step.changes_host == changes_host) {
                let action = (step.action.clone(), changes_host);
                if chosen.len() < MAX_NEXT && !chosen.contains(&action) {
                    chosen.push(action);
                }
            }
        }
    }
    chosen
}
