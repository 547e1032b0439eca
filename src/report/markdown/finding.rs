//! The findings: what fired in the window, one after the other, and below them in one fold what was before it.

use super::super::{groups, past, words};
use super::{MAX_ROWS, Page, Text, code, plural, text};
use crate::shown;
use rdiag_model::{Finding, Report};

/// All findings that the comment has room for.
pub(super) fn findings(report: &Report, page: &mut Page) {
    let groups = groups::fired(report);
    if !groups.is_empty() {
        page.section("the findings", Text::of("## Findings\n\n"));
    }
    let all = groups.iter().enumerate().map(|(at, group)| (group, groups::lead_of_cell(&groups, at)));
    let (over, fired): (Vec<_>, Vec<_>) = all.partition(|(group, _)| group.lead.is_past());
    let mut missing = 0;
    for (number, (group, lead)) in fired.into_iter().enumerate() {
        let status = text(group.lead.status.word().to_uppercase());
        let heading = shown!("### {}. {}: {}", number + 1, status, text(&group.lead.title));
        missing += usize::from(!page.fits(finding(report, heading, group, lead)));
    }
    let leads: Vec<&Finding> = over.iter().map(|(group, _)| group.lead).collect();
    if !leads.is_empty() {
        page.section("what was before the window", shown!("### {}\n\n", text(past::folded(&leads))));
    }
    for (group, lead) in over {
        let heading = shown!("#### {}", text(past::below_heading(&group.lead.title)));
        missing += usize::from(!page.fits(finding(report, heading, group, lead)));
    }
    if missing > 0 {
        page.left_out.push(plural(missing, "finding", "findings"));
    }
}

/// A finding below its heading; `lead` is what was told of its cell before.
fn finding(report: &Report, heading: Text, group: &groups::Group<'_>, lead: Option<&Finding>) -> Text {
    let finding = group.lead;
    let mut out = shown!("{} ({})\n\n{}\n\n", heading, text(words::full_id(finding)), text(&finding.summary));
    if let Some(culprit) = finding.culprit.as_ref().filter(|who| lead.is_none_or(|l| l.culprit.as_ref() != Some(who))) {
        let pids = Text::joined(culprit.pids.iter().map(|pid| Text::of(*pid)), ", ");
        let pids = if culprit.pids.len() > 1 { shown!(" (pids {})", pids) } else { Text::new() };
        out.push(shown!("- **Who:** {}{}\n", text(words::culprit(culprit)), pids));
        if let Some(command) = culprit.labels.get("command") {
            out.push(shown!("- **Command:** {}\n", code(command)));
        }
    }
    evidence(report, &mut out, finding);
    if !group.others.is_empty() {
        let some = group.others.iter().take(MAX_ROWS).map(|other| {
            let instance = other.instance.as_deref().map_or_else(|| "this host".to_owned(), words::instance);
            let text: Text = shown!("{} {}", text(&instance), text(words::value(other)));
            text.trimmed_end()
        });
        let some = Text::joined(some, ", ");
        let more = group.others.len().saturating_sub(MAX_ROWS);
        let more = if more > 0 { shown!(" and {} more", more) } else { Text::new() };
        out.push(shown!("- **Also:** {}{}\n", some, more));
    }
    for step in &finding.next {
        let name = if step.changes_host { "Next (changes the host)" } else { "Next" };
        out.push(shown!("- **{}:** {}\n", name, text(&step.action)));
    }
    if let Some(lab) = &finding.lab {
        out.push(shown!("- **See it for yourself:** {}\n", code(words::exercise(lab))));
    }
    if !finding.log.is_empty() {
        out.push("\nKernel log:\n\n");
        for line in finding.log.iter().take(5) {
            out.push(Text::indented_code(line));
        }
    }
    out.push("\n");
    out
}

fn evidence(report: &Report, out: &mut Text, finding: &Finding) {
    let figures = finding
        .evidence
        .iter()
        .take(4)
        .map(|evidence| shown!("{} {}", code(&evidence.metric), text(words::figures(report, evidence))));
    if !finding.evidence.is_empty() {
        out.push(shown!("- **Evidence:** {}\n", Text::joined(figures, "; ")));
    }
    let threshold = words::threshold(finding);
    if !threshold.is_empty() {
        out.push(shown!("- **Threshold:** {} ({})\n", code(&threshold), text(&finding.threshold.origin)));
    }
    let mut trust = vec![words::confidence(finding.confidence).to_owned()];
    trust.extend(words::held(finding));
    trust.extend(finding.confidence_reasons.iter().take(4).map(|reason| reason.why().to_owned()));
    out.push(shown!("- **Confidence:** {}\n", text(trust.join("; "))));
    for command in finding.verify.lines().filter(|line| !line.trim().is_empty()) {
        out.push(shown!("- **By hand:** {}\n", code(command.trim())));
    }
}
