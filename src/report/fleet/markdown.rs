//! The roll-up as CommonMark, for a ticket.

use rdiag_fleet::{Fault, Fleet, OddHost};

use super::{compared, contrast, figures, how_rare, names, place, reach, roles, some_of, whose};
use crate::markdown::{fitting, table};
use crate::shown;
use crate::shown::{Markdown, Shown};

/// What a ticket is written.
type Text = Shown<Markdown>;

/// Rows of each list.
const ROWS: usize = 20;
/// Longest name, in characters.
const NAME: usize = 100;
/// Longest sentence.
const SENTENCE: usize = 400;

/// The roll-up as Markdown of at most 30 000 characters: lists are cut, and say so.
#[must_use]
pub fn markdown(fleet: &Fleet) -> Text {
    let mut sections = vec![head(fleet)];
    sections.extend(faults("## Common to at least half of the hosts\n\n", &fleet.common));
    sections.extend(odd(&fleet.odd));
    sections.extend(faults("## On some hosts, neither common nor odd\n\n", &fleet.some));
    sections.extend(missing(fleet));
    sections.extend(culprits(fleet));
    sections.push(shown!("{}\n", sentence(compared(fleet))));
    let (mut out, left_out) = fitting(sections);
    if left_out > 0 {
        out.push(shown!("\n*{} sections are left out here for length; HTML and JSON have them.*\n", left_out));
    }
    out
}

fn name(text: impl AsRef<str>) -> Text {
    Text::text_within(text, NAME)
}

fn sentence(text: impl AsRef<str>) -> Text {
    Text::text_within(text, SENTENCE)
}

fn more(all: usize) -> Text {
    if all > ROWS { shown!("\nand {} more\n", all - ROWS) } else { Text::new() }
}

fn head(fleet: &Fleet) -> Text {
    let mut out: Text = shown!("# Fleet: {}\n\n", fleet.status.word());
    out.push(shown!("**{}**\n\n", sentence(&fleet.headline)));
    for note in &fleet.notes {
        out.push(shown!("- {}\n", sentence(note)));
    }
    out.push(if fleet.notes.is_empty() { "" } else { "\n" });
    out
}

fn faults(title: &'static str, faults: &[Fault]) -> Option<Text> {
    if faults.is_empty() {
        return None;
    }
    let heads = ["Status", "Hosts", "Rule", "Where", "Who", "Named"].map(Text::of);
    let row = |fault: &Fault| {
        let likely = if fault.is_likely { "likely " } else { "" };
        let culprit = fault.culprit.as_ref().map(|(name, hosts)| format!("{name} on {hosts}")).unwrap_or_default();
        vec![
            shown!("{}{}", likely, fault.status.word()),
            name(whose(&fault.group, reach(fault))),
            name(format!("{}: {}", fault.rule, fault.title)),
            name(roles(fault)),
            name(culprit),
            name(names(fault, 5)),
        ]
    };
    let mut out = Text::of(title);
    out.push(table(&heads, &faults.iter().take(ROWS).map(row).collect::<Vec<_>>()));
    out.push(more(faults.len()));
    out.push("\n");
    Some(out)
}

fn odd(hosts: &[OddHost]) -> Option<Text> {
    if hosts.is_empty() {
        return None;
    }
    let mut out = Text::of("## Unlike the other hosts\n\n");
    for host in hosts.iter().take(ROWS) {
        out.push(shown!("- **{}**\n", name(whose(&host.group, host.host.clone()))));
        for finding in host.findings.iter().take(5) {
            let (place, rare) = (name(place(finding)), name(how_rare(finding)));
            let (title, summary) = (name(&finding.title), sentence(&finding.summary));
            out.push(shown!("  - {}, {}: {}, {}. {}\n", finding.status.word(), rare, place, title, summary));
        }
        for text in host.contrast.iter().map(|it| contrast(it, 1)) {
            out.push(shown!("  - {}\n", name(text)));
        }
        for text in figures(host) {
            out.push(shown!("  - {}\n", name(text)));
        }
    }
    out.push(more(hosts.len()));
    out.push("\n");
    Some(out)
}

fn missing(fleet: &Fleet) -> Option<Text> {
    if fleet.not_judged.is_empty() {
        return None;
    }
    let mut out = Text::of("## Not judged (never to be read as fine)\n\n");
    for gap in fleet.not_judged.iter().take(ROWS) {
        out.push(shown!("- **{}**: {}. {}\n", name(&gap.host), gap.why.word(), sentence(&gap.detail)));
    }
    out.push(more(fleet.not_judged.len()));
    out.push("\n");
    Some(out)
}

fn culprits(fleet: &Fleet) -> Option<Text> {
    if fleet.culprits.is_empty() {
        return None;
    }
    let mut out = Text::of("## Behind findings on several hosts\n\n");
    for culprit in &fleet.culprits {
        let rules: Vec<String> = culprit.rules.keys().take(3).cloned().collect();
        let rules = some_of(&rules, 3, culprit.rules.len());
        out.push(shown!("- {} on {} hosts: {}\n", name(&culprit.name), culprit.hosts, name(rules)));
    }
    out.push("\n");
    Some(out)
}
