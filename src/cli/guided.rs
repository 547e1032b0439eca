//! Guided mode: the verdict first, then the steps one by one: the question, why it is asked, what was read, what follows.

use super::Failure;
use super::ui::{Text, Ui};
use crate::report;
use crate::report::shown::Terminal;
use crate::shown;
use rdiag_model::quantity::with_unit;
use rdiag_model::report::StepOutcome;
use rdiag_model::{Finding, Report, Status};

/// Walks through a report. Without a person at the keyboard it runs to the end without asking.
pub(super) fn walk(report: &Report, ui: &Ui) -> Result<(), Failure> {
    let style = ui.style();
    let headline = Text::seen(report.verdict.headline.to_string());
    ui.print::<Terminal>(&shown!("\n{}\n\n", wrapped(&headline, "", style.width)))?;
    let total = report.steps.len();
    let mut pauses = ui.is_interactive();
    for (index, step) in report.steps.iter().enumerate() {
        if pauses {
            let id = Text::seen(&step.id);
            let prompt = shown!("[Enter] step {} of {}: {}   [a] all   [q] to the report ", index + 1, total, id);
            match ui.ask(&prompt) {
                None | Some('q' | 'Q') => break,
                Some('a' | 'A') => pauses = false,
                Some(_) => {}
            }
        }
        ui.print(&describe(report, step, index, style.width))?;
    }
    ui.print(&Text::of("\n"))
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
