//! What the probes inside the kernel measured, as Markdown.

use super::super::{
    hot_words, probe_words as words,
    schedule::{self as picture, Line},
    words::{plural, some},
};
use super::{code, table, text};
use rdiag_model::call_trace::CallTrace;
use rdiag_model::probe::ProbeTable;
use rdiag_model::probed::{Distributions, Probed, ProbedOutput, StackSums};
use rdiag_model::quantity::with_unit;
use rdiag_model::schedule::Strips;
use rdiag_model::{Report, quantity};

/// Rows of a table, distributions by key, stacks.
const MAX_ROWS: usize = 5;
/// Columns of a table; what a ticket cannot show side by side is in the other formats.
const MAX_COLUMNS: usize = 8;
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
pub(super) fn silent(probes: &[&Probed]) -> String {
    let named: Vec<String> = probes.iter().map(|probed| probed.probe.clone()).collect();
    if named.is_empty() {
        String::new()
    } else {
        format!("Probes that saw nothing of their kind: {}.\n\n", text(&some(&named, 12)))
    }
}

/// One probe.
pub(super) fn probe(probed: &Probed) -> String {
    let mut out = format!("### {}: {}\n\n", text(&probed.probe), text(&probed.question));
    if words::is_empty(probed) {
        out.push_str("Nothing of the kind happened.\n\n");
    } else {
        for output in probed.outputs.iter().take(MAX_OUTPUTS) {
            out.push_str(&match output {
                ProbedOutput::Histogram(all) => distributions(all),
                ProbedOutput::Table(rows) | ProbedOutput::Events(rows) => rows_of(rows),
                ProbedOutput::Stacks(sums) => stacks(sums),
                ProbedOutput::Calls(trace) => calls(trace),
                ProbedOutput::Schedule(strips) => schedule(strips),
            });
        }
        if let Some(more) = probed.outputs.len().checked_sub(MAX_OUTPUTS).filter(|more| *more > 0) {
            out.push_str(&format!(
                "{} in the HTML and JSON reports.\n\n",
                plural(more, "more output is", "more outputs are")
            ));
        }
    }
    let limits = words::limits(probed);
    for limit in limits.iter().take(MAX_ROWS) {
        out.push_str(&format!("- **Limit:** {}\n", text(limit)));
    }
    if !limits.is_empty() {
        out.push('\n');
    }
    out
}

fn distributions(all: &Distributions) -> String {
    let key = all.dimension.as_deref().unwrap_or("Distribution");
    let head = [key, "Values", "Mean", "Median", "p95", "p99", words::largest(all.unit)];
    let figure = |value: Option<f64>| value.map_or("–".to_owned(), |value| with_unit(value, all.unit));
    let rows: Vec<Vec<String>> = all
        .rows
        .iter()
        .take(MAX_ROWS)
        .map(|row| {
            let key = if row.instance.is_empty() { all.title.as_str() } else { row.instance.as_str() };
            let figures = [row.mean, row.p50, row.p95, row.p99, row.max].map(figure);
            let mut cells = vec![short(key), quantity::number(row.count as f64)];
            cells.extend(figures.map(|figure| text(&figure)));
            cells
        })
        .collect();
    if rows.is_empty() {
        return format!("{}: nothing.\n\n", text(&all.title));
    }
    let title = if all.dimension.is_some() { format!("{}:\n\n", text(&all.title)) } else { String::new() };
    format!("{title}{}", table(&head.map(text), &rows))
}

fn rows_of(rows: &ProbeTable) -> String {
    let head: Vec<String> = rows.columns.iter().take(MAX_COLUMNS).map(|column| text(&column.title)).collect();
    let shown: Vec<Vec<String>> = rows
        .rows
        .iter()
        .take(MAX_ROWS)
        .map(|row| {
            let cells = rows.columns.iter().zip(&row.cells).take(MAX_COLUMNS);
            cells.map(|(column, cell)| short(&words::cell(column, cell))).collect()
        })
        .collect();
    if shown.is_empty() || head.is_empty() {
        return format!("{}: nothing.\n\n", text(&rows.title));
    }
    let others = words::others(rows, rows.rows.len().saturating_sub(MAX_ROWS));
    let others = if others.is_empty() { others } else { format!("{}\n\n", text(&others)) };
    format!("{}:\n\n{}{others}", text(&rows.title), table(&head, &shown))
}

fn stacks(sums: &StackSums) -> String {
    let mut out = format!("{}:\n\n", text(&sums.stacks.title));
    let shown: Vec<_> = (0..MAX_ROWS).filter_map(|at| words::stack(sums, at, MAX_FRAMES)).collect();
    if shown.is_empty() {
        return format!("{}: nothing.\n\n", text(&sums.stacks.title));
    }
    let rows: Vec<Vec<String>> = sums
        .hot
        .functions
        .rows
        .iter()
        .take(MAX_ROWS)
        .map(|row| {
            let shares = [row.own, row.total].map(|value| hot_words::share(&sums.hot, value));
            let names = [row.name.as_str(), row.object.as_deref().unwrap_or("–")].map(short);
            shares.into_iter().chain(names).collect()
        })
        .collect();
    if !rows.is_empty() {
        out.push_str(&table(&["Self", "Total", "Function", "Object"].map(str::to_owned), &rows));
        out.push_str(&format!("{}\n\n", text(hot_words::meaning(sums.stacks.activity))));
    }
    for (who, frames) in shown {
        out.push_str(&format!("- {}: {}\n", text(&who), code(&frames)));
    }
    out.push('\n');
    out
}

/// Calls as a nested list.
fn calls(trace: &CallTrace) -> String {
    let mut out = format!("{}:\n\n", text(&trace.title));
    let calls = trace.calls.iter().zip(trace.depths()).filter(|(_, depth)| *depth < MAX_DEPTH);
    let mut shown = 0;
    for (call, depth) in calls.take(MAX_CALLS) {
        shown += 1;
        let whose = words::whose(call);
        let whose = if whose.is_empty() { whose } else { format!(" ({})", text(&whose)) };
        out.push_str(&format!(
            "{}- {}: {}{whose}\n",
            "  ".repeat(depth),
            if call.seconds.is_some() { text(&words::took(call)) } else { "end not seen".to_owned() },
            short(&call.function)
        ));
    }
    let cut = words::cut(trace, trace.calls.len() - shown);
    out + &if cut.is_empty() { "\n".to_owned() } else { format!("\n{}\n\n", text(&cut)) }
}

/// The picture as preformatted text, and what its letters mean below.
fn schedule(strips: &Strips) -> String {
    let (mut drawn, mut said) = (Vec::new(), Vec::new());
    for line in picture::lines(strips, PICTURE) {
        match line {
            Line::Drawn(line) => drawn.push(line),
            Line::Said(line) => said.push(format!("- {}\n", text(&line))),
        }
    }
    // Numbers and letters of ours only.
    let drawn = format!("```text\n{}\n```", drawn.join("\n"));
    format!("{}:\n\n{drawn}\n\n{}\n", text(&strips.title), said.concat())
}

fn short(name: &str) -> String {
    text(&super::super::escape::visible_within(name, MAX_CELL))
}
