//! Guided mode: the verdict first, then the steps one by one: the question, why it is asked, what was read, what follows.

use super::signals::leave_on_interrupt;
use super::ui::{Text, Ui};
use crate::cli::exit::Failure;
use rdiag_model::quantity::with_unit;
use rdiag_model::report::StepOutcome;
use rdiag_model::{Finding, Report, Status};
use rdiag_report as report;
use rdiag_report::shown;
use rdiag_report::shown::Terminal;

/// Walks through a report. Without a person at the keyboard it runs to the end without asking.
pub(super) fn walk(report: &Report, ui: &Ui) -> Result<(), Failure> {
    let style = ui.style();
    let headline = Text::seen(report.verdict.headline.to_string());
    ui.print::<Terminal>(&shown!("\n{}\n\n", wrapped(&headline, "", style.width)))?;
    let mut pauses = ui.is_interactive();
    if pauses {
        leave_on_interrupt()?;
    }
    let mut index = 0;
    while let Some(step) = report.steps.get(index) {
        match if pauses { asked(report, step, index, ui)? } else { Key::Next } {
            Key::Quit => break,
            Key::All => pauses = false,
            Key::Next => {}
            Key::Back => index = index.saturating_sub(2),
        }
        let Some(step) = report.steps.get(index) else { break };
        ui.print(&describe(report, step, index, style.width))?;
        index += 1;
    }
    ui.print(&Text::of("\n"))
}

/// What a person wants next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Key {
    Next,
    Back,
    All,
    Quit,
}

impl Key {
    /// The key of a line that was typed; none where it is no key, or asks for the keys.
    fn of(line: &str) -> Option<Self> {
        match line.to_ascii_lowercase().as_str() {
            "" | "n" | "next" => Some(Self::Next),
            "b" | "back" => Some(Self::Back),
            "a" | "all" => Some(Self::All),
            "q" | "quit" | "exit" => Some(Self::Quit),
            _ => None,
        }
    }
}

/// The keys, as `?` lists them.
const KEYS: [(&str, &str); 5] = [
    ("Enter", "the next step"),
    ("b", "back to the step before the one on the screen"),
    ("a", "all steps that are left, without asking"),
    ("q", "quit: on to the verdict; what was measured is written already"),
    ("Ctrl-C", "leave at once; what was measured is written already"),
];
/// Longest line that is repeated when it is no key.
const LONGEST: usize = 40;

/// Asks until the answer is a key. Every line that was typed ahead is one answer, and the end of the input quits.
fn asked(report: &Report, step: &StepOutcome, index: usize, ui: &Ui) -> Result<Key, Failure> {
    let (total, id) = (report.steps.len(), Text::seen(&step.id));
    let prompt = shown!("[Enter] step {} of {}: {}   [b] back   [a] all   [q] quit   [?] keys ", index + 1, total, id);
    loop {
        let Some(line) = ui.ask(&prompt) else { return Ok(Key::Quit) };
        if let Some(key) = Key::of(&line) {
            if key != Key::Back || index > 0 {
                return Ok(key);
            }
            ui.print::<Terminal>(&shown!("  This is the first step.\n"))?;
            continue;
        }
        if !["?", "h", "help"].contains(&line.as_str()) {
            ui.print::<Terminal>(&shown!("  Unknown key: {}\n", Text::seen_within(&line, LONGEST)))?;
        }
        for (key, does) in KEYS {
            ui.print::<Terminal>(&shown!("  {:<7} {}\n", key, does))?;
        }
    }
}

fn describe(report: &Report, step: &StepOutcome, index: usize, width: usize) -> Text {
    let question = Text::seen(&step.question);
    let mut out: Text = shown!("\nStep {} of {}: {}\n", index + 1, report.steps.len(), question);
    for paragraph in step.teach.trim().split("\n\n").filter(|text| !text.is_empty()) {
        let joined = paragraph.split_whitespace().collect::<Vec<_>>().join(" ");
        out.push(shown!("{}\n", wrapped(&Text::seen(report::plain(&joined)), "  ", width)));
    }
    let findings: Vec<&Finding> = report.findings.iter().filter(|finding| step.rules.contains(&finding.id)).collect();
    if step.window.is_some() {
        out.push("\n");
        for finding in readings(&findings) {
            let value = finding.value.map_or_else(|| "—".to_owned(), |value| with_unit(value, finding.unit));
            let name = finding
                .instance
                .as_ref()
                .map_or_else(|| finding.title.clone(), |of| format!("{} · {of}", finding.title));
            let [value, name] = [value, name].map(Text::seen);
            out.push(shown!("  {:<8} {:<11} {}\n", finding.status.word(), value, name));
        }
        let quiet = findings.len().saturating_sub(readings(&findings).len());
        if quiet > 0 {
            out.push(shown!("  … and {} more that are ok or do not apply\n", quiet));
        }
    }
    out.push(shown!("\n{}\n", wrapped(&shown!("→ {}", Text::seen(&step.answer)), "  ", width)));
    let next =
        findings.iter().find(|finding| finding.status >= Status::Warning).and_then(|finding| finding.next.first());
    if let Some(next) = next {
        out.push(shown!("{}\n", wrapped(&shown!("Next: {}", Text::seen(&next.action)), "  ", width)));
    }
    out
}

/// What is worth a line: all that fired or is unknown, and one ok reading for each rule.
fn readings<'f>(findings: &[&'f Finding]) -> Vec<&'f Finding> {
    let mut seen: Vec<&str> = Vec::new();
    let mut shown = Vec::new();
    for finding in findings {
        let first = !seen.contains(&finding.id.as_str());
        if finding.status.fired() || finding.status == Status::Unknown || (first && finding.status == Status::Ok) {
            seen.push(&finding.id);
            shown.push(*finding);
        }
    }
    shown.truncate(20);
    shown
}

fn wrapped(text: &Text, indent: &'static str, width: usize) -> Text {
    let line = |line: Text| -> Text {
        let line: Text = shown!("{}{}", indent, line);
        line.trimmed_end()
    };
    Text::joined(text.wrapped_at_hyphens(width, indent.len(), indent.len()).into_iter().map(line), "\n")
}
