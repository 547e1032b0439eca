//! The roll-up as text for a terminal: the sentence first, then what is common, who is odd, and who is missing.

use rdiag_fleet::{Fault, Fleet, OddHost};

use super::{compared, contrast, figures, how_rare, names, place, reach, roles, some_of, whose};
use crate::shown;
use crate::shown::{Shown, Terminal};
use crate::terminal::Style;
use rdiag_model::Status;

/// What a terminal is written.
type Text = Shown<Terminal>;

/// Faults and hosts of each list that are shown.
const ROWS: usize = 12;
/// Hosts of a fault that are named.
const NAMED: usize = 4;
/// Longest text, in characters.
const LONGEST: usize = 400;
/// Wider lines are hard to read.
const WIDEST: usize = 110;

struct Page {
    out: Text,
    width: usize,
    color: bool,
}

/// The roll-up, ending with a newline.
#[must_use]
pub fn text(fleet: &Fleet, style: &Style) -> Text {
    let mut page = Page { out: Text::new(), width: style.width.clamp(40, WIDEST), color: style.color };
    page.wrapped(&seen(&fleet.headline), 0, Some(paint(fleet.status)));
    for note in &fleet.notes {
        page.wrapped(&shown!("note: {}", seen(note)), 2, Some("2"));
    }
    page.faults("Common to at least half of the hosts", &fleet.common);
    page.odd(&fleet.odd);
    page.faults("On some hosts, neither common nor odd", &fleet.some);
    page.missing(fleet);
    if !fleet.culprits.is_empty() {
        page.head("Behind findings on several hosts");
        for culprit in &fleet.culprits {
            let rules: Vec<String> = culprit.rules.keys().take(3).cloned().collect();
            let rules = some_of(&rules, 3, culprit.rules.len());
            page.wrapped(&shown!("{} on {} hosts: {}", seen(&culprit.name), culprit.hosts, seen(rules)), 2, None);
        }
    }
    let clusters: Vec<_> = fleet.clusters.iter().filter(|cluster| cluster.size < fleet.judged).take(ROWS).collect();
    if clusters.len() > 1 {
        page.head("Hosts on which the same rules fire");
        for cluster in clusters {
            let hosts = whose(&cluster.group, some_of(&cluster.hosts, NAMED, cluster.size));
            page.wrapped(&shown!("{} hosts ({})", cluster.size, seen(hosts)), 2, None);
            page.wrapped(&seen(some_of(&cluster.rules, 5, cluster.rules.len())), 6, Some("2"));
            page.all(cluster.contrast.iter().map(|it| contrast(it, cluster.size)), "");
        }
    }
    page.out.push("\n");
    page.wrapped(&seen(compared(fleet)), 0, Some("2"));
    if style.unicode { page.out } else { page.out.ascii() }
}

impl Page {
    fn faults(&mut self, title: &'static str, faults: &[Fault]) {
        if faults.is_empty() {
            return;
        }
        self.head(title);
        for fault in faults.iter().take(ROWS) {
            let likely = if fault.is_likely { " likely" } else { "" };
            let mark = self.painted(&shown!("{:<8}", fault.status.word()), paint(fault.status));
            let reach = seen(whose(&fault.group, reach(fault)));
            let line: Text = shown!("{} {}{}  {}: {}", mark, reach, likely, seen(&fault.rule), seen(&fault.title));
            self.hanging(&line, 2, 11);
            let mut more = Vec::new();
            let roles = roles(fault);
            if !roles.is_empty() {
                more.push(roles);
            }
            if let Some((name, hosts)) = &fault.culprit {
                more.push(format!("by {name} on {hosts}"));
            }
            more.push(names(fault, NAMED));
            self.wrapped(&seen(more.join("; ")), 11, None);
            if let Some(host) = fault.hosts.first().filter(|_| !fault.summary.is_empty()) {
                self.wrapped(&shown!("{}: {}", seen(host), seen(&fault.summary)), 11, Some("2"));
            }
        }
        self.more(faults.len());
    }

    fn odd(&mut self, odd: &[OddHost]) {
        if odd.is_empty() {
            return;
        }
        self.head("Unlike the other hosts");
        for host in odd.iter().take(ROWS) {
            let name = seen(whose(&host.group, host.host.clone()));
            let name = self.painted(&name, "1");
            self.wrapped(&name, 2, None);
            for finding in host.findings.iter().take(5) {
                let mark = self.painted(&shown!("{:<8}", finding.status.word()), paint(finding.status));
                let rare = Text::seen(how_rare(finding));
                let by = finding.culprit.as_ref().map(|name| shown!("; by {}", seen(name))).unwrap_or_default();
                let line: Text = shown!("{} {}  {}: {}{}", mark, rare, seen(place(finding)), seen(&finding.title), by);
                self.hanging(&line, 4, 13);
                self.wrapped(&seen(&finding.summary), 13, Some("2"));
            }
            if host.findings.len() > 5 {
                self.wrapped(&shown!("and {} more rules", host.findings.len() - 5), 13, Some("2"));
            }
            self.all(host.contrast.iter().map(|it| contrast(it, 1)), "");
            self.all(figures(host).into_iter(), "reading: ");
        }
        self.more(odd.len());
    }

    fn missing(&mut self, fleet: &Fleet) {
        if fleet.not_judged.is_empty() {
            return;
        }
        self.head("Not judged (never to be read as fine)");
        for gap in fleet.not_judged.iter().take(ROWS) {
            let word = self.painted(&shown!("{:<11}", gap.why.word()), "35");
            self.hanging(&shown!("{} {}: {}", word, seen(&gap.host), seen(&gap.detail)), 2, 14);
        }
        self.more(fleet.not_judged.len());
    }

    fn all(&mut self, texts: impl Iterator<Item = String>, label: &'static str) {
        for text in texts {
            self.hanging(&shown!("{}{}", label, seen(text)), 6, 8);
        }
    }

    fn more(&mut self, all: usize) {
        if all > ROWS {
            self.wrapped(&shown!("and {} more; --format html and json have them all", all - ROWS), 2, Some("2"));
        }
    }

    fn head(&mut self, title: &'static str) {
        let title = self.painted(&Text::of(title), "1");
        self.out.push(shown!("\n{}\n", title));
    }

    fn hanging(&mut self, text: &Text, first: usize, rest: usize) {
        for (at, part) in text.wrapped(self.width, first, rest).into_iter().enumerate() {
            self.out.push(Text::repeated(" ", if at == 0 { first } else { rest }));
            self.out.push(part.trimmed_end());
            self.out.push("\n");
        }
    }

    fn wrapped(&mut self, text: &Text, indent: usize, code: Option<&'static str>) {
        for part in text.wrapped(self.width.saturating_sub(indent).max(20), 0, 0) {
            let part = code.map_or_else(|| part.clone(), |code| self.painted(&part, code));
            self.out.push(shown!("{}{}\n", Text::repeated(" ", indent), part));
        }
    }

    fn painted(&self, text: &Text, code: &'static str) -> Text {
        if self.color { text.painted(code) } else { text.clone() }
    }
}

fn paint(status: Status) -> &'static str {
    match status {
        Status::Critical => "1;31",
        Status::Warning => "1;33",
        Status::Info => "36",
        Status::Unknown => "35",
        Status::Ok => "32",
        Status::Skipped => "2",
    }
}

fn seen(text: impl AsRef<str>) -> Text {
    Text::seen_within(text, LONGEST)
}
