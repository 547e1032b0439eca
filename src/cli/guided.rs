//! Guided mode: the verdict first, then the steps one by one: the question, why it is asked, what was read, what follows.

use std::fmt::Write as _;

use super::{Failure, ui::Ui};
use crate::report;
use crate::report::escape::visible;
use rdiag_model::quantity::with_unit;
use rdiag_model::report::StepOutcome;
use rdiag_model::{Finding, Report, Status};

/// Walks through a report. Without a person at the keyboard it runs to the end without asking.
pub(super) fn walk(report: &Report, ui: &Ui) -> Result<(), Failure> {
    let style = ui.style();
    ui.print(&format!("\n{}\n\n", wrapped(&visible(&report.verdict.headline.to_string()), "", style.width)))?;
    let total = report.steps.len();
    let mut pauses = ui.is_interactive();
    for (index, step) in report.steps.iter().enumerate() {
        if pauses {
            let prompt =
                format!("[Enter] step {} of {total}: {}   [a] all   [q] to the report ", index + 1, visible(&step.id));
            match ui.ask(&prompt) {
                None | Some('q' | 'Q') => break,
                Some('a' | 'A') => pauses = false,
                Some(_) => {}
            }
        }
        ui.print(&describe(report, step, index, style.width))?;
    }
    ui.print(&format!("\n{}", report::terminal(report, &style)))
}

fn describe(report: &Report, step: &StepOutcome, index: usize, width: usize) -> String {
    let mut out = String::new();
    let _ = writeln!(out, "\nStep {} of {}: {}", index + 1, report.steps.len(), visible(&step.question));
    for paragraph in step.teach.trim().split("\n\n").filter(|text| !text.is_empty()) {
        let joined = paragraph.split_whitespace().collect::<Vec<_>>().join(" ");
        let _ = writeln!(out, "{}", wrapped(&report::plain(&visible(&joined)), "  ", width));
    }
    let findings: Vec<&Finding> = report.findings.iter().filter(|finding| step.rules.contains(&finding.id)).collect();
    if step.window.is_some() {
        out.push('\n');
        for finding in readings(&findings) {
            let value = finding.value.map_or_else(|| "—".to_owned(), |value| with_unit(value, finding.unit));
            let name = finding
                .instance
                .as_ref()
                .map_or_else(|| finding.title.clone(), |of| format!("{} · {of}", finding.title));
            let line = format!("{:<8} {:<11} {}", finding.status.word(), value, visible(&name));
            let _ = writeln!(out, "  {line}");
        }
        let quiet = findings.len().saturating_sub(readings(&findings).len());
        if quiet > 0 {
            let _ = writeln!(out, "  … and {quiet} more that are ok or do not apply");
        }
    }
    let _ = writeln!(out, "\n{}", wrapped(&format!("→ {}", visible(&step.answer)), "  ", width));
    let next =
        findings.iter().find(|finding| finding.status >= Status::Warning).and_then(|finding| finding.next.first());
    if let Some(next) = next {
        let _ = writeln!(out, "{}", wrapped(&format!("Next: {}", visible(&next.action)), "  ", width));
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

fn wrapped(text: &str, indent: &str, width: usize) -> String {
    textwrap::fill(text, textwrap::Options::new(width).initial_indent(indent).subsequent_indent(indent))
}
