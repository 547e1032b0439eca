//! What the probes inside the kernel measured, as Markdown.

use super::super::{
    hot_words, probe_words as words,
    schedule::{self as picture, Line},
    words::some,
};
use super::{Text, code, plural, table, text, titles};
use crate::shown;
use rdiag_model::call_trace::CallTrace;
use rdiag_model::probe::{Column, ProbeTable};
use rdiag_model::probed::{Distributions, Probed, ProbedOutput, StackSums};
use rdiag_model::quantity::with_unit;
use rdiag_model::schedule::Strips;
use rdiag_model::{Report, quantity};

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

/// The probes that saw nothing, which need no more than a line, and the others.
pub(super) fn by_silence(report: &Report) -> (Vec<&Probed>, Vec<&Probed>) {
    report.probes.iter().partition(|probed| words::is_empty(probed) && words::limits(probed).is_empty())
}

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
            out.push(match output {
                ProbedOutput::Histogram(all) => distributions(all),
                ProbedOutput::Table(rows) | ProbedOutput::Events(rows) => rows_of(rows),
                ProbedOutput::Heat(_) => Text::new(),
                ProbedOutput::Stacks(sums) => stacks(sums),
                ProbedOutput::Calls(trace) => calls(trace),
                ProbedOutput::Schedule(strips) => schedule(strips),
            });
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

fn distributions(all: &Distributions) -> Text {
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
        return shown!("{}: nothing.\n\n", text(&all.title));
    }
    let title = if all.dimension.is_some() { shown!("{}:\n\n", text(&all.title)) } else { Text::new() };
    shown!("{}{}", title, table(&head.map(text), &rows))
}

fn rows_of(rows: &ProbeTable) -> Text {
    let is_wide = rows.columns.len() > MAX_COLUMNS;
    let is_shown = |column: &Column| !is_wide || !LEAST.contains(&column.id.as_str());
    let columns = || rows.columns.iter().filter(|column| is_shown(column)).take(MAX_COLUMNS);
    let head: Vec<Text> = columns().map(|column| text(&column.title)).collect();
    let lines: Vec<Vec<Text>> = rows
        .rows
        .iter()
        .take(MAX_ROWS)
        .map(|row| {
            let cells = rows.columns.iter().zip(&row.cells).filter(|(column, _)| is_shown(column)).take(MAX_COLUMNS);
            cells.map(|(column, cell)| short(words::cell(column, cell))).collect()
        })
        .collect();
    if lines.is_empty() || head.is_empty() {
        return shown!("{}: nothing.\n\n", text(&rows.title));
    }
    let others = words::others(rows, rows.rows.len().saturating_sub(MAX_ROWS));
    let others = if others.is_empty() { Text::new() } else { shown!("{}\n\n", text(&others)) };
    shown!("{}:\n\n{}{}", text(&rows.title), table(&head, &lines), others)
}

fn stacks(sums: &StackSums) -> Text {
    let mut out: Text = shown!("{}:\n\n", text(&sums.stacks.title));
    let stacks: Vec<_> = (0..MAX_ROWS).filter_map(|at| words::stack(sums, at, MAX_FRAMES)).collect();
    if stacks.is_empty() {
        return shown!("{}: nothing.\n\n", text(&sums.stacks.title));
    }
    let rows: Vec<Vec<Text>> = sums
        .hot
        .functions
        .rows
        .iter()
        .take(MAX_ROWS)
        .map(|row| {
            let shares = [row.own, row.total].map(|value| Text::figure(hot_words::share(&sums.hot, value)));
            let names = [row.name.as_str(), row.object.as_deref().unwrap_or("–")].map(short);
            shares.into_iter().chain(names).collect()
        })
        .collect();
    if !rows.is_empty() {
        out.push(table(&titles(["Self", "Total", "Function", "Object"]), &rows));
        out.push(shown!("{}\n\n", text(hot_words::meaning(sums.stacks.activity))));
    }
    for (who, frames) in stacks {
        out.push(shown!("- {}: {}\n", text(&who), code(&frames)));
    }
    out.push("\n");
    out
}

/// Calls as a nested list.
fn calls(trace: &CallTrace) -> Text {
    let mut out: Text = shown!("{}:\n\n", text(&trace.title));
    let calls = trace.calls.iter().zip(trace.depths()).filter(|(_, depth)| *depth < MAX_DEPTH);
    let mut told = 0;
    for (call, depth) in calls.take(MAX_CALLS) {
        told += 1;
        let whose = words::whose(call);
        let whose = if whose.is_empty() { Text::new() } else { shown!(" ({})", text(&whose)) };
        let took = if call.seconds.is_some() { text(words::took(call)) } else { Text::of("end not seen") };
        out.push(shown!("{}- {}: {}{}\n", Text::repeated("  ", depth), took, short(&call.function), whose));
    }
    let cut = words::cut(trace, trace.calls.len() - told);
    out.push(if cut.is_empty() { Text::of("\n") } else { shown!("\n{}\n\n", text(&cut)) });
    out
}

/// The picture as preformatted text, and what its letters mean below.
fn schedule(strips: &Strips) -> Text {
    let (mut drawn, mut said) = (Vec::new(), Vec::new());
    for line in picture::lines(strips, PICTURE) {
        match line {
            Line::Drawn(line) => drawn.push(Text::fenced_code(line)),
            Line::Said(line) => said.push(shown!("- {}\n", text(&line))),
        }
    }
    let (drawn, said) = (Text::joined(drawn, "\n"), Text::joined(said, ""));
    shown!("{}:\n\n```text\n{}\n```\n\n{}\n", text(&strips.title), drawn, said)
}

fn short(name: impl AsRef<str>) -> Text {
    Text::text_within(name, MAX_CELL)
}
