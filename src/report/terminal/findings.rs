//! The findings in full, with what they rest on.

use super::super::{groups, past, words};
use super::{Page, Paint, Text, instance_and_value, seen};
use crate::shown;
use rdiag_model::{Finding, Report, Status};

/// Findings that are shown in full; the rest is named.
const MAX_FINDINGS: usize = 12;

impl Page {
    /// What fired in the window, one after the other, and below them in one fold what was before it.
    pub(super) fn findings(&mut self, report: &Report) {
        let groups = groups::fired(report);
        let all = groups.iter().enumerate().map(|(at, group)| (group, groups::lead_of_cell(&groups, at)));
        let (over, fired): (Vec<_>, Vec<_>) = all.partition(|(group, _)| group.lead.is_past());
        for (number, (group, lead)) in fired.iter().take(MAX_FINDINGS).enumerate() {
            let status = group.lead.status;
            let badge = shown!("{}. {}", number + 1, self.badge(status));
            self.hanging(&badge, &titled(group.lead), 3, Paint::Status(status), Paint::Bold);
            self.finding(report, group, *lead);
            self.blank();
        }
        self.more_fired(&fired);
        let leads: Vec<&Finding> = over.iter().map(|(group, _)| group.lead).collect();
        if leads.is_empty() {
            return;
        }
        self.line(seen(past::folded(&leads)), 0, Paint::Bold);
        for (group, lead) in over.iter().take(MAX_FINDINGS) {
            self.hanging(&Text::of("-"), &titled(group.lead), 2, Paint::None, Paint::None);
            self.finding(report, group, *lead);
        }
        self.blank();
        self.more_fired(&over);
    }

    /// Those that have no place of their own.
    fn more_fired(&mut self, all: &[(&groups::Group<'_>, Option<&Finding>)]) {
        let rest = all.get(MAX_FINDINGS..).unwrap_or_default();
        if !rest.is_empty() {
            let named =
                Text::joined(rest.iter().take(8).map(|(group, _)| Text::seen(words::full_id(group.lead))), ", ");
            self.line(shown!("{} more fired: {}", rest.len(), named), 0, Paint::None);
            self.blank();
        }
    }

    /// What stands below its title.
    fn finding(&mut self, report: &Report, group: &groups::Group<'_>, lead: Option<&Finding>) {
        let finding = group.lead;
        self.line(seen(&finding.summary), 2, Paint::None);
        if let Some(culprit) =
            finding.culprit.as_ref().filter(|who| lead.is_none_or(|l| l.culprit.as_ref() != Some(who)))
        {
            let pids = Text::joined(culprit.pids.iter().map(|pid| Text::of(*pid)), ", ");
            let pids = if culprit.pids.len() > 1 { shown!(" (pids {})", pids) } else { Text::new() };
            self.field(words::who_or_where(culprit), shown!("{}{}", Text::seen(words::culprit(culprit)), pids));
        }
        let detailed = finding.status >= Status::Warning && lead.is_none();
        if detailed {
            self.evidence(report, finding);
        }
        if !group.others.is_empty() {
            let some = Text::joined(group.others.iter().take(5).map(|other| instance_and_value(other)), ", ");
            let more = group.others.len().saturating_sub(5);
            let more = if more > 0 { shown!(" and {} more", more) } else { Text::new() };
            self.field("also", shown!("{}{}", some, more));
        }
        let mut before = "";
        for step in finding.next.iter().filter(|_| detailed) {
            let name = if step.changes_host { "change" } else { "next" };
            self.field(if name == before { "" } else { name }, seen(&step.action));
            before = name;
        }
        if let Some(lab) = finding.lab.as_ref().filter(|_| detailed) {
            self.field("try it", Text::seen(words::exercise(lab)));
        }
    }

    fn evidence(&mut self, report: &Report, finding: &Finding) {
        for (at, evidence) in finding.evidence.iter().take(3).enumerate() {
            let instance = evidence.instance.as_ref().filter(|of| Some(*of) != finding.instance.as_ref());
            let instance = instance.map(|of| shown!(" ({})", seen(of))).unwrap_or_default();
            let figures = Text::seen(words::figures(report, evidence));
            let text = shown!("{}{} {}", seen(&evidence.metric), instance, figures);
            self.field(if at == 0 { "evidence" } else { "" }, text);
        }
        for (at, line) in finding.log.iter().take(3).enumerate() {
            self.field(if at == 0 { "log" } else { "" }, seen(line));
        }
        let mut trust = vec![shown!("confidence {}", words::confidence(finding.confidence))];
        trust.extend(words::held(finding).map(Text::seen));
        trust.extend(finding.confidence_reasons.iter().take(3).map(|reason| seen(reason.why())));
        self.field("trust", Text::joined(trust, "; "));
        if !finding.verify.is_empty() {
            self.field("by hand", seen(finding.verify.lines().collect::<Vec<_>>().join("; ")));
        }
    }
}

/// A title and the id of the rule; what is over stands below a heading that says so.
fn titled(finding: &Finding) -> Text {
    shown!("{} · {}", seen(past::below_heading(&finding.title)), Text::seen(words::full_id(finding)))
}
