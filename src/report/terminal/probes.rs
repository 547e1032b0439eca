//! Who and why: what the probes inside the kernel measured, in a few lines each.

use super::super::schedule::{self, Line};
use super::super::shapes::ShapeWriter;
use super::super::words::some;
use super::super::{hot_words, probe_words as words};
use super::{Page, Paint, Text, blanks, seen};
use crate::shown;
use rdiag_model::Report;
use rdiag_model::call_trace::CallTrace;
use rdiag_model::hot::Hot;
use rdiag_model::probe::{ProbeTable, Stacks};
use rdiag_model::probed::{Distributions, Probed};
use rdiag_model::schedule::Strips;

/// Probes that are shown; the files have all of them.
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
        let (silent, telling) = words::by_silence(report);
        for probed in telling.iter().take(MAX_PROBES) {
            self.probe(probed);
        }
        if !silent.is_empty() {
            let named: Vec<String> = silent.iter().map(|probed| probed.probe.clone()).collect();
            let named = Text::seen(some(&named, MAX_PROBES));
            self.line(shown!("Saw nothing of their kind: {}", named), 2, Paint::None);
        }
        if let Some(more) = telling.len().checked_sub(MAX_PROBES).filter(|more| *more > 0) {
            self.line(shown!("and {} more probes, in the report's files", more), 2, Paint::Dim);
        }
        self.blank();
    }

    fn probe(&mut self, probed: &Probed) {
        let question = seen(&probed.question);
        let said = if question.is_empty() { Text::new() } else { shown!("· {}", question) };
        self.item(shown!("  {}", seen(&probed.probe)), said, Paint::Bold, Paint::Dim);
        if words::is_empty(probed) {
            self.line("nothing of the kind happened", 4, Paint::None);
        } else {
            for output in probed.outputs.iter().take(MAX_OUTPUTS) {
                self.probed(output);
            }
        }
        for limit in words::limits(probed).iter().take(MAX_LIMITS) {
            self.item("    !", seen(limit), Paint::None, Paint::None);
        }
    }
}

impl ShapeWriter for Page {
    fn histogram(&mut self, all: &Distributions) {
        if let [only] = all.rows.as_slice() {
            let figures = Text::seen(words::key_figures(only, all.unit));
            return self.line(shown!("{}: {}", seen(&all.title), figures), 4, Paint::None);
        }
        let nothing = if all.rows.is_empty() { " nothing" } else { "" };
        self.line(shown!("{}:{}", seen(&all.title), nothing), 4, Paint::None);
        for row in all.rows.iter().take(MAX_ROWS) {
            let figures = Text::seen(words::key_figures(row, all.unit));
            self.item("    -", shown!("{}: {}", seen(&row.instance), figures), Paint::None, Paint::None);
        }
    }

    fn table(&mut self, table: &ProbeTable) {
        for row in table.rows.iter().take(MAX_ROWS) {
            let (who, figures) = words::row(table, row);
            let between = if who.is_empty() || figures.is_empty() { "" } else { ": " };
            let text = shown!("{}{}{}", seen(&who), between, seen(&figures));
            self.item("    -", text, Paint::None, Paint::None);
        }
    }

    fn stacks(&mut self, stacks: &Stacks, whole: f64, hot: &Hot) {
        if let Some(functions) = hot_words::functions(hot, MAX_ROWS) {
            self.line(shown!("most in: {}", seen(functions)), 4, Paint::None);
        }
        for (who, frames) in (0..MAX_ROWS).filter_map(|at| words::stack(stacks, whole, at, MAX_FRAMES)) {
            self.item("    -", shown!("{}: {}", seen(&who), seen(&frames)), Paint::None, Paint::None);
        }
    }

    fn calls(&mut self, trace: &CallTrace) {
        let (calls, cut) = words::calls(trace, MAX_CALLS, usize::MAX);
        self.line(shown!("{}:", seen(&trace.title)), 4, Paint::None);
        for (call, depth) in calls {
            let whose = words::whose(call);
            let whose = if whose.is_empty() { Text::new() } else { shown!("  {}", seen(&whose)) };
            let (took, function) = (Text::seen(words::took(call)), seen(&call.function));
            let text = shown!("{:>10}  {}{}{}", took, blanks(2 * depth), function, whose);
            self.line(text, 4, Paint::None);
        }
        if !cut.is_empty() {
            self.line(Text::seen(cut), 4, Paint::Dim);
        }
    }

    fn schedule(&mut self, strips: &Strips) {
        self.line(shown!("{}:", seen(&strips.title)), 4, Paint::None);
        for line in schedule::lines(strips, self.width.saturating_sub(4)) {
            match line {
                Line::Drawn(text) => self.push(shown!("    {}", Text::seen(text)), Paint::None),
                Line::Said(text) => self.line(Text::seen(text), 4, Paint::Dim),
            }
        }
    }
}
