//! Who and why: what the probes inside the kernel measured, in a few lines each.

use super::super::schedule::{self, Line};
use super::super::words::some;
use super::super::{hot_words, probe_words as words};
use super::{Page, Paint, visible};
use rdiag_model::Report;
use rdiag_model::probed::{Probed, ProbedOutput};

/// Probes that are told about; the files have all of them.
const MAX_PROBES: usize = 12;
/// Outputs of one probe.
const MAX_OUTPUTS: usize = 3;
/// Rows of a table, distributions by key, stacks.
const MAX_ROWS: usize = 3;
/// Calls as they happened.
const MAX_CALLS: usize = 15;
/// Frames of a stack.
const MAX_FRAMES: usize = 4;
/// Losses and notes.
const MAX_LIMITS: usize = 3;

impl Page {
    /// One part for all probes.
    pub(super) fn probes(&mut self, report: &Report) {
        if report.probes.is_empty() {
            return;
        }
        self.push("Inside the kernel: who and why", Paint::Bold);
        let (silent, telling): (Vec<&Probed>, Vec<&Probed>) =
            report.probes.iter().partition(|probed| words::is_empty(probed) && words::limits(probed).is_empty());
        for probed in telling.iter().take(MAX_PROBES) {
            self.probe(probed);
        }
        if !silent.is_empty() {
            let named: Vec<String> = silent.iter().map(|probed| probed.probe.clone()).collect();
            self.line(&format!("Saw nothing of their kind: {}", some(&named, MAX_PROBES)), 2, Paint::None);
        }
        if let Some(more) = telling.len().checked_sub(MAX_PROBES).filter(|more| *more > 0) {
            self.line(&format!("and {more} more probes, in the report's files"), 2, Paint::Dim);
        }
        self.blank();
    }

    fn probe(&mut self, probed: &Probed) {
        let question = visible(&probed.question).into_owned();
        let said = if question.is_empty() { String::new() } else { format!("· {question}") };
        self.item(&format!("  {}", visible(&probed.probe)), &said, Paint::Bold, Paint::Dim);
        if words::is_empty(probed) {
            self.line("nothing of the kind happened", 4, Paint::None);
        } else {
            for output in probed.outputs.iter().take(MAX_OUTPUTS) {
                self.output(output);
            }
        }
        for limit in words::limits(probed).iter().take(MAX_LIMITS) {
            self.item("    !", &visible(limit), Paint::None, Paint::None);
        }
    }

    fn output(&mut self, output: &ProbedOutput) {
        match output {
            ProbedOutput::Histogram(all) => {
                if let [only] = all.rows.as_slice() {
                    let figures = words::key_figures(only, all.unit);
                    return self.line(&format!("{}: {figures}", visible(&all.title)), 4, Paint::None);
                }
                let nothing = if all.rows.is_empty() { " nothing" } else { "" };
                self.line(&format!("{}:{nothing}", visible(&all.title)), 4, Paint::None);
                for row in all.rows.iter().take(MAX_ROWS) {
                    let text = format!("{}: {}", visible(&row.instance), words::key_figures(row, all.unit));
                    self.item("    -", &text, Paint::None, Paint::None);
                }
            }
            ProbedOutput::Table(table) | ProbedOutput::Events(table) => {
                for row in table.rows.iter().take(MAX_ROWS) {
                    let (who, figures) = words::row(table, row);
                    let between = if who.is_empty() || figures.is_empty() { "" } else { ": " };
                    self.item(
                        "    -",
                        &format!("{}{between}{}", visible(&who), visible(&figures)),
                        Paint::None,
                        Paint::None,
                    );
                }
            }
            ProbedOutput::Calls(trace) => {
                self.line(&format!("{}:", visible(&trace.title)), 4, Paint::None);
                for (call, depth) in trace.calls.iter().zip(trace.depths()).take(MAX_CALLS) {
                    let whose = words::whose(call);
                    let whose = if whose.is_empty() { whose } else { format!("  {whose}") };
                    let text = format!("{:>10}  {}{}", words::took(call), "  ".repeat(depth), visible(&call.function));
                    self.line(&format!("{text}{}", visible(&whose)), 4, Paint::None);
                }
                let cut = words::cut(trace, trace.calls.len().saturating_sub(MAX_CALLS));
                if !cut.is_empty() {
                    self.line(&cut, 4, Paint::Dim);
                }
            }
            ProbedOutput::Schedule(strips) => {
                self.line(&format!("{}:", visible(&strips.title)), 4, Paint::None);
                for line in schedule::lines(strips, self.width.saturating_sub(4)) {
                    match line {
                        Line::Drawn(text) => self.push(&format!("    {text}"), Paint::None),
                        Line::Said(text) => self.line(&text, 4, Paint::Dim),
                    }
                }
            }
            ProbedOutput::Stacks(sums) => {
                if let Some(functions) = hot_words::functions(&sums.hot, MAX_ROWS) {
                    self.line(&format!("most in: {}", visible(&functions)), 4, Paint::None);
                }
                for (who, frames) in (0..MAX_ROWS).filter_map(|at| words::stack(sums, at, MAX_FRAMES)) {
                    self.item("    -", &format!("{}: {}", visible(&who), visible(&frames)), Paint::None, Paint::None);
                }
            }
        }
    }
}
