//! The report as terminal text: the answer first, for somebody who has thirty seconds.

mod probes;
mod profile;
mod runs;

use unicode_width::UnicodeWidthStr as _;

use super::escape::visible_within;
use super::{shown, words};
use rdiag_model::report::Cell;
use rdiag_model::{Finding, Kind, Report, Resource, Status};

/// Findings that are told in full; the rest is named.
const MAX_FINDINGS: usize = 12;
/// Causes of gaps that are listed.
const MAX_GAPS: usize = 8;
/// Narrower than this, the matrix becomes a list.
const NARROW: usize = 56;
/// Wider lines are hard to read, however wide the terminal is.
const WIDEST: usize = 110;
/// Longest text of a finding, in characters.
const MAX_TEXT: usize = 500;
/// Width of the column of resources.
const LABEL: usize = 17;

/// How to write: the caller knows the terminal.
#[derive(Debug, Clone, Copy)]
pub struct Style {
    /// Columns.
    pub width: usize,
    /// Whether colours may be used; they only repeat what the words say.
    pub color: bool,
    /// Whether more than ASCII may be used.
    pub unicode: bool,
}

/// The report as text, ending with a newline.
#[must_use]
pub fn terminal(report: &Report, style: &Style) -> String {
    let mut page =
        Page { out: String::new(), width: style.width.clamp(32, WIDEST), color: style.color, unicode: style.unicode };
    page.verdict(report);
    if let Some(profile) = &report.profile {
        page.profile(profile);
        page.push("The resources behind it", Paint::Bold);
    }
    page.matrix(report);
    page.findings(report);
    page.probes(report);
    page.ruled_out(report);
    page.gaps(report);
    page.line(&words::cost(report), 0, Paint::Dim);
    if style.unicode { page.out } else { ascii(&page.out) }
}

#[derive(Clone, Copy, PartialEq)]
enum Paint {
    None,
    Dim,
    Bold,
    Status(Status),
}

struct Page {
    out: String,
    width: usize,
    color: bool,
    unicode: bool,
}

impl Page {
    fn verdict(&mut self, report: &Report) {
        let verdict = &report.verdict;
        let badge = self.badge(verdict.status);
        self.hanging(&badge, &visible(&verdict.headline.to_string()), 2, Paint::Status(verdict.status), Paint::Bold);
        let checks = &report.coverage.checks;
        if checks.unknown > 0 {
            let apply = checks.judged + checks.unknown;
            let note = format!("Not seen: {} of {apply} checks; what and why is listed below.", checks.unknown);
            self.line(&note, 0, Paint::None);
        }
        let run =
            format!("{} · {} · {}", visible(&report.playbook.name), words::measured(report), words::occasion(report));
        self.line(&run, 0, Paint::Dim);
        if let Some((said, command)) = words::recipe(report) {
            self.line(&format!("{said} The same again: {command}"), 0, Paint::Dim);
        }
        self.blank();
    }

    fn matrix(&mut self, report: &Report) {
        if self.width < NARROW {
            return self.matrix_as_list(report);
        }
        let column = ((self.width - LABEL) / 3).min(24);
        let head: String = Kind::ALL.iter().map(|kind| pad(words::kind(*kind), column)).collect();
        self.push(&format!("{}{}", " ".repeat(LABEL), head.trim_end()), Paint::Dim);
        for row in report.matrix.iter().take(Resource::ALL.len()) {
            let mut line = pad(words::resource(row.resource), LABEL);
            for cell in row.cells.iter().take(Kind::ALL.len()) {
                line.push_str(&self.cell(cell, column));
            }
            self.push(line.trim_end(), Paint::None);
        }
        self.blank();
    }

    fn matrix_as_list(&mut self, report: &Report) {
        for row in report.matrix.iter().take(Resource::ALL.len()) {
            self.push(words::resource(row.resource), Paint::Bold);
            for cell in row.cells.iter().take(Kind::ALL.len()) {
                let text = format!("  {}{}", pad(words::kind(cell.kind), 13), self.cell(cell, self.width - 15));
                self.push(text.trim_end(), Paint::None);
            }
        }
        self.blank();
    }

    /// A cell: mark, word, and the figure if there is room.
    fn cell(&self, cell: &Cell, column: usize) -> String {
        let word = words::cell_word(cell);
        let mark = match (self.unicode, cell.status) {
            (false, _) | (_, None) => "",
            (_, Some(status)) => mark(status),
        };
        let mut text = if mark.is_empty() { word.to_owned() } else { format!("{mark} {word}") };
        let figure = words::cell_figure(cell);
        if !figure.is_empty() && text.width() + figure.width() + 2 <= column {
            text.push(' ');
            text.push_str(&figure);
        }
        let padding = " ".repeat(column.saturating_sub(text.width()));
        let paint = cell.status.map_or(Paint::Dim, Paint::Status);
        format!("{}{padding}", self.painted(&text, paint))
    }

    fn findings(&mut self, report: &Report) {
        let groups = shown::fired(report);
        for (number, group) in groups.iter().take(MAX_FINDINGS).enumerate() {
            let lead = shown::lead_of_cell(&groups, number);
            self.finding(report, number + 1, group, lead);
        }
        let rest: Vec<String> = groups.iter().skip(MAX_FINDINGS).map(|group| words::full_id(group.lead)).collect();
        if !rest.is_empty() {
            let named = rest.iter().take(8).cloned().collect::<Vec<_>>().join(", ");
            self.line(&format!("{} more fired: {named}", rest.len()), 0, Paint::None);
            self.blank();
        }
    }

    fn finding(&mut self, report: &Report, number: usize, group: &shown::Group<'_>, lead: Option<&Finding>) {
        let finding = group.lead;
        let badge = self.badge(finding.status);
        let title = format!("{} · {}", visible(&finding.title), words::full_id(finding));
        self.hanging(&format!("{number}. {badge}"), &title, 3, Paint::Status(finding.status), Paint::Bold);
        self.line(&visible(&finding.summary), 2, Paint::None);
        if let Some(culprit) =
            finding.culprit.as_ref().filter(|who| lead.is_none_or(|l| l.culprit.as_ref() != Some(who)))
        {
            let pids: Vec<String> = culprit.pids.iter().map(u32::to_string).collect();
            let pids = if pids.len() > 1 { format!(" (pids {})", pids.join(", ")) } else { String::new() };
            self.field("who", &format!("{}{pids}", words::culprit(culprit)));
        }
        let detailed = finding.status >= Status::Warning && lead.is_none();
        if detailed {
            self.evidence(report, finding);
        }
        if !group.others.is_empty() {
            let some: Vec<String> = group.others.iter().take(5).map(|other| instance_and_value(other)).collect();
            let more = group.others.len().saturating_sub(5);
            let more = if more > 0 { format!(" and {more} more") } else { String::new() };
            self.field("also", &format!("{}{more}", some.join(", ")));
        }
        let mut before = "";
        for step in finding.next.iter().filter(|_| detailed) {
            let name = if step.changes_host { "change" } else { "next" };
            self.field(if name == before { "" } else { name }, &visible(&step.action));
            before = name;
        }
        if let Some(lab) = finding.lab.as_ref().filter(|_| detailed) {
            self.field("try it", &words::exercise(lab));
        }
        self.blank();
    }

    fn evidence(&mut self, report: &Report, finding: &Finding) {
        for (at, evidence) in finding.evidence.iter().take(3).enumerate() {
            let instance = evidence.instance.as_ref().filter(|of| Some(*of) != finding.instance.as_ref());
            let instance = instance.map(|of| format!(" ({})", visible(of))).unwrap_or_default();
            let text = format!("{}{instance} {}", evidence.metric, words::figures(report, evidence));
            self.field(if at == 0 { "evidence" } else { "" }, &text);
        }
        for (at, line) in finding.log.iter().take(3).enumerate() {
            self.field(if at == 0 { "log" } else { "" }, &visible(line));
        }
        let mut trust = vec![format!("confidence {}", words::confidence(finding.confidence))];
        trust.extend(words::held(finding));
        trust.extend(finding.confidence_reasons.iter().take(3).map(|reason| visible(reason).into_owned()));
        self.field("trust", &trust.join("; "));
        if !finding.verify.is_empty() {
            self.field("by hand", &visible(&finding.verify.lines().collect::<Vec<_>>().join("; ")));
        }
    }

    fn ruled_out(&mut self, report: &Report) {
        if report.ruled_out.is_empty() {
            return;
        }
        self.push("Ruled out", Paint::Bold);
        for out in report.ruled_out.iter().take(Resource::ALL.len()) {
            let first = out.sentences.iter().take(2).map(|text| visible(text)).collect::<Vec<_>>().join(" ");
            let more = out.sentences.len().saturating_sub(2);
            let more = if more > 0 { format!(" (+{more})") } else { String::new() };
            let partly = if out.complete { "" } else { "in part: " };
            let label = format!("  {}", pad(words::resource(out.resource), LABEL - 1));
            self.item(&label, &format!("{partly}{first}{more}"), Paint::None, Paint::None);
        }
        self.blank();
    }

    fn gaps(&mut self, report: &Report) {
        let groups = &report.coverage.groups;
        if groups.is_empty() {
            return;
        }
        let checks = report.coverage.checks.unknown;
        let metrics = report.coverage.unavailable.len();
        let title = format!(
            "Could not be measured: {}, {}",
            words::plural(metrics, "reading", "readings"),
            words::plural(checks, "check", "checks")
        );
        self.line(&title, 0, Paint::Bold);
        for group in groups.iter().take(MAX_GAPS) {
            self.item(
                "  -",
                &format!("{}: {}", visible(&group.gap.why), words::some(&words::missing(group), 3)),
                Paint::None,
                Paint::None,
            );
            if let Some(remedy) = &group.gap.remedy {
                self.item("    →", &visible(remedy), Paint::None, Paint::None);
            }
        }
        if groups.len() > MAX_GAPS {
            self.line(
                &format!("and {} more causes; `rdiag doctor` lists them", groups.len() - MAX_GAPS),
                2,
                Paint::Dim,
            );
        }
        self.blank();
    }

    fn badge(&self, status: Status) -> String {
        let word = status.word().to_uppercase();
        if self.unicode { format!("{} {word}", mark(status)) } else { word }
    }

    /// A name and a text that hangs beside it.
    fn field(&mut self, name: &str, text: &str) {
        self.item(&format!("  {name:<9}"), text, Paint::Dim, Paint::None);
    }

    /// A text that hangs beside its label, or under it where there is no room.
    fn item(&mut self, label: &str, text: &str, label_paint: Paint, text_paint: Paint) {
        let hang = label.width() + 1;
        let hang = if hang * 2 > self.width { 4 } else { hang };
        self.hanging(label, text, hang, label_paint, text_paint);
    }

    /// A label and a text; lines after the first begin at column `hang`.
    fn hanging(&mut self, label: &str, text: &str, hang: usize, label_paint: Paint, text_paint: Paint) {
        let first = " ".repeat(label.width() + 1);
        let rest = " ".repeat(hang);
        let options = textwrap::Options::new(self.width)
            .initial_indent(&first)
            .subsequent_indent(&rest)
            .word_splitter(textwrap::WordSplitter::NoHyphenation);
        for (at, line) in textwrap::wrap(text, options).into_iter().enumerate() {
            let indent = if at == 0 { first.as_str() } else { rest.as_str() };
            let part = self.painted(line.strip_prefix(indent).unwrap_or(line.trim_start()), text_paint);
            if at == 0 {
                self.push(&format!("{} {part}", self.painted(label, label_paint)), Paint::None);
            } else {
                self.push(&format!("{rest}{part}"), Paint::None);
            }
        }
    }

    fn line(&mut self, text: &str, indent: usize, paint: Paint) {
        for part in wrap(text, self.width.saturating_sub(indent)) {
            let part = self.painted(&part, paint);
            self.push(&format!("{}{part}", " ".repeat(indent)), Paint::None);
        }
    }

    fn blank(&mut self) {
        self.out.push('\n');
    }

    fn push(&mut self, line: &str, paint: Paint) {
        let line = self.painted(line, paint);
        self.out.push_str(line.trim_end());
        self.out.push('\n');
    }

    fn painted(&self, text: &str, paint: Paint) -> String {
        let code = match paint {
            _ if !self.color => return text.to_owned(),
            Paint::None => return text.to_owned(),
            Paint::Dim => "2",
            Paint::Bold => "1",
            Paint::Status(Status::Critical) => "1;31",
            Paint::Status(Status::Warning) => "1;33",
            Paint::Status(Status::Info) => "36",
            Paint::Status(Status::Unknown) => "35",
            Paint::Status(Status::Ok) => "32",
            Paint::Status(Status::Skipped) => "2",
        };
        format!("\x1b[{code}m{text}\x1b[0m")
    }
}

/// Text that anybody may have chosen; a terminal has no room for the longest.
fn visible(text: &str) -> std::borrow::Cow<'_, str> {
    visible_within(text, MAX_TEXT)
}

fn mark(status: Status) -> &'static str {
    match status {
        Status::Critical => "✖",
        Status::Warning => "▲",
        Status::Info => "●",
        Status::Unknown => "?",
        Status::Ok => "✓",
        Status::Skipped => "·",
    }
}

fn instance_and_value(finding: &Finding) -> String {
    let instance = finding.instance.as_deref().map_or_else(|| "this host".to_owned(), words::instance);
    format!("{instance} {}", words::value(finding)).trim_end().to_owned()
}

fn wrap(text: &str, width: usize) -> Vec<String> {
    let options = textwrap::Options::new(width.max(16)).word_splitter(textwrap::WordSplitter::NoHyphenation);
    textwrap::wrap(text, options).into_iter().map(std::borrow::Cow::into_owned).collect()
}

fn pad(text: &str, width: usize) -> String {
    format!("{text}{}", " ".repeat(width.saturating_sub(text.width())))
}

/// For terminals without UTF-8: our own signs have ASCII forms, everything else is spelled out.
fn ascii(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            c if c.is_ascii() => out.push(c),
            '—' | '–' => out.push('-'),
            '…' => out.push_str("..."),
            '·' => out.push('|'),
            '→' => out.push_str("->"),
            'µ' => out.push('u'),
            '×' => out.push('x'),
            '≥' => out.push_str(">="),
            '≤' => out.push_str("<="),
            '’' => out.push('\''),
            c => out.push_str(&format!("\\u{{{:x}}}", c as u32)),
        }
    }
    out
}
