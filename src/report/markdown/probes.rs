//! What the probes inside the kernel measured, as Markdown.

use super::super::{
    hot_words, probe_words as words,
    schedule::{self as picture, Line},
    shapes::ShapeWriter,
    words::some,
};
use super::{Text, code, plural, table, text, titles};
use crate::shown;
use rdiag_model::call_trace::CallTrace;
use rdiag_model::hot::Hot;
use rdiag_model::probe::{Column, ProbeTable, Stacks};
use rdiag_model::probed::{Distributions, Probed};
use rdiag_model::quantity::{self, with_unit};
use rdiag_model::schedule::Strips;

/// Rows of a table, distributions by key, stacks.
const MAX_ROWS: usize = 5;
/// Columns of a table; what a ticket cannot show side by side is in the other formats.
const MAX_COLUMNS: usize = 8;
/// Columns that go first where a table has more of them.
const LEAST: [&str; 2] = ["tid", "sector"];
/// Outputs of one probe.
const MAX_OUTPUTS: usize = 4;
/// Frames of a stack.
const MAX_FRAMES: usize = 6;
/// Calls as they happened, and their depth.
const MAX_CALLS: usize = 20;
const MAX_DEPTH: usize = 6;
/// Width of a picture.
const PICTURE: usize = 80;
/// Longest text of a cell, in characters.
const MAX_CELL: usize = 60;

/// One line for all of them.
pub(super) fn silent(probes: &[&Probed]) -> Text {
    let named: Vec<String> = probes.iter().map(|probed| probed.probe.clone()).collect();
    if named.is_empty() {
        Text::new()
    } else {
        shown!("Probes that saw nothing of their kind: {}.\n\n", text(some(&named, 12)))
    }
}

/// One probe.
pub(super) fn probe(probed: &Probed) -> Text {
    let mut out: Text = shown!("### {}: {}\n\n", text(&probed.probe), text(&probed.question));
    if words::is_empty(probed) {
        out.push("Nothing of the kind happened.\n\n");
    } else {
        for output in probed.outputs.iter().take(MAX_OUTPUTS) {
            out.probed(output);
        }
        if let Some(more) = probed.outputs.len().checked_sub(MAX_OUTPUTS).filter(|more| *more > 0) {
            let more = plural(more, "more output is", "more outputs are");
            out.push(shown!("{} in the HTML and JSON reports.\n\n", more));
        }
    }
    let limits = words::limits(probed);
    for limit in limits.iter().take(MAX_ROWS) {
        out.push(shown!("- **Limit:** {}\n", text(limit)));
    }
    if !limits.is_empty() {
        out.push("\n");
    }
    out
}

impl ShapeWriter for Text {
    fn histogram(&mut self, all: &Distributions) {
        let key = all.dimension.as_deref().unwrap_or("Distribution");
        let head = [key, "Values", "Mean", "Median", "p95", "p99", words::largest(all.unit)];
        let figure = |value: Option<f64>| value.map_or("–".to_owned(), |value| with_unit(value, all.unit));
        let rows: Vec<Vec<Text>> = all
            .rows
            .iter()
            .take(MAX_ROWS)
            .map(|row| {
                let key = if row.instance.is_empty() { all.title.as_str() } else { row.instance.as_str() };
                let figures = [row.mean, row.p50, row.p95, row.p99, row.max].map(figure);
                let mut cells = vec![short(key), Text::figure(quantity::number(row.count as f64))];
                cells.extend(figures.map(text));
                cells
            })
            .collect();
        if rows.is_empty() {
            return self.push(shown!("{}: nothing.\n\n", text(&all.title)));
        }
        let title = if all.dimension.is_some() { shown!("{}:\n\n", text(&all.title)) } else { Text::new() };
        self.push(shown!("{}{}", title, table(&head.map(text), &rows)));
    }

    fn table(&mut self, rows: &ProbeTable) {
        let is_wide = rows.columns.len() > MAX_COLUMNS;
        let is_shown = |column: &Column| !is_wide || !LEAST.contains(&column.id.as_str());
        let columns = || rows.columns.iter().filter(|column| is_shown(column)).take(MAX_COLUMNS);
        let head: Vec<Text> = columns().map(|column| text(&column.title)).collect();
        let lines: Vec<Vec<Text>> = rows
            .rows
            .iter()
            .take(MAX_ROWS)
            .map(|row| {
                let cells =
                    rows.columns.iter().zip(&row.cells).filter(|(column, _)| is_shown(column)).take(MAX_COLUMNS);
                cells.map(|(column, cell)| short(words::cell(column, cell))).collect()
            })
            .collect();
        if lines.is_empty() || head.is_empty() {
            return self.push(shown!("{}: nothing.\n\n", text(&rows.title)));
        }
        let others = words::others(rows, rows.rows.len().saturating_sub(MAX_ROWS));
        let others = if others.is_empty() { Text::new() } else { shown!("{}\n\n", text(&others)) };
        self.push(shown!("{}:\n\n{}{}", text(&rows.title), table(&head, &lines), others));
    }

    fn stacks(&mut self, stacks: &Stacks, whole: f64, hot: &Hot) {
        let largest: Vec<_> = (0..MAX_ROWS).filter_map(|at| words::stack(stacks, whole, at, MAX_FRAMES)).collect();
        if largest.is_empty() {
            return self.push(shown!("{}: nothing.\n\n", text(&stacks.title)));
        }
        self.push(shown!("{}:\n\n", text(&stacks.title)));
        let rows: Vec<Vec<Text>> = hot
            .functions
            .rows
            .iter()
            .take(MAX_ROWS)
            .map(|row| {
                let shares = [row.own, row.total].map(|value| Text::figure(hot_words::share(hot, value)));
                let names = [row.name.as_str(), row.object.as_deref().unwrap_or("–")].map(short);
                shares.into_iter().chain(names).collect()
            })
            .collect();
        if !rows.is_empty() {
            self.push(table(&titles(["Self", "Total", "Function", "Object"]), &rows));
            self.push(shown!("{}\n\n", text(hot_words::meaning(stacks.activity))));
        }
        for (who, frames) in largest {
            self.push(shown!("- {}: {}\n", text(&who), code(&frames)));
        }
        self.push("\n");
    }

    /// A nested list.
    fn calls(&mut self, trace: &CallTrace) {
        let (calls, cut) = words::calls(trace, MAX_CALLS, MAX_DEPTH);
        self.push(shown!("{}:\n\n", text(&trace.title)));
        for (call, depth) in calls {
            let whose = words::whose(call);
            let whose = if whose.is_empty() { Text::new() } else { shown!(" ({})", text(&whose)) };
            let took = if call.seconds.is_some() { text(words::took(call)) } else { Text::of("end not seen") };
            self.push(shown!("{}- {}: {}{}\n", Text::repeated("  ", depth), took, short(&call.function), whose));
        }
        self.push(if cut.is_empty() { Text::of("\n") } else { shown!("\n{}\n\n", text(&cut)) });
    }

    /// The picture as preformatted text, and what its letters mean below.
    fn schedule(&mut self, strips: &Strips) {
        let (mut drawn, mut said) = (Vec::new(), Vec::new());
        for line in picture::lines(strips, PICTURE) {
            match line {
                Line::Drawn(line) => drawn.push(Text::fenced_code(line)),
                Line::Said(line) => said.push(shown!("- {}\n", text(&line))),
            }
        }
        let (drawn, said) = (Text::joined(drawn, "\n"), Text::joined(said, ""));
        self.push(shown!("{}:\n\n```text\n{}\n```\n\n{}\n", text(&strips.title), drawn, said));
    }
}

fn short(name: impl AsRef<str>) -> Text {
    Text::text_within(name, MAX_CELL)
}
