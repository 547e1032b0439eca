//! What probes measured, as text for a terminal.

use std::fmt::Write as _;

use unicode_width::UnicodeWidthStr as _;

use super::Style;
use super::bars::bars;
use super::escape::visible_within;
use super::hot::hot;
use super::hot_words as words;
use super::probe_words;
use super::schedule::{self, Line};
use rdiag_model::call_trace::CallTrace;
use rdiag_model::probe::{Cell, CostOf, Histogram, HistogramRow, Output, ProbeResult, ProbeTable, Row, Stacks};
use rdiag_model::schedule::Schedule;
use rdiag_model::{Unit, quantity};

/// Longest bar of a histogram, in columns.
const BAR: usize = 40;
/// Longest text of a cell.
const CELL: usize = 60;
/// Longest text at the end of an event's line, where nothing comes after it: a path may be so long.
pub(super) const EVENT: usize = 4096;
/// Functions of one reading among many.
const LIVE_ROWS: usize = 15;
/// Stacks shown on a terminal.
const STACKS: usize = 10;
/// Calls as they happened.
const CALLS: usize = 1_000;
/// Calls are indented up to this depth.
const DEPTH: usize = 50;
/// Longest note.
pub(super) const NOTE: usize = 1500;
/// Functions.
const FUNCTIONS: usize = 15;
/// Longest name of a function below a line.
const FUNCTION: usize = 120;
/// Widest picture, in columns.
const WIDEST: usize = 160;
/// Pieces of a picture: many for each column, so that none of them seems to begin late.
const PIECES: usize = 2_000;
/// Functions of the path with most.
const PATH: usize = 12;

/// A reading of a probe as text.
#[must_use]
pub fn text(result: &ProbeResult, style: &Style) -> String {
    let mut out = String::new();
    for output in &result.outputs {
        match output {
            Output::Histogram(histogram) => out.push_str(&histogram_text(histogram)),
            Output::Table(table) | Output::Events(table) => {
                let _ = writeln!(out, "{}\n", table.title);
                out.push_str(&table_text(table, style));
            }
            Output::Stacks(stacks) => out.push_str(&stacks_text(stacks)),
            Output::Calls(trace) => out.push_str(&calls_text(trace)),
            Output::Schedule(all) => out.push_str(&schedule_text(all, style)),
        }
        out.push('\n');
    }
    out.push_str(&footer(result));
    out
}

/// A reading as one of many, one after the other. Where a probe sums up by function, those stand for the stacks, and for
/// all that would run off the screen.
#[must_use]
pub fn interval_text(result: &ProbeResult, style: &Style) -> String {
    let functions = result.outputs.iter().find_map(|output| match output {
        Output::Table(table) if table.dimension.as_deref() == Some("function") => Some(table),
        _ => None,
    });
    let Some(functions) = functions else { return text(result, style) };
    let (mut table, mut out) = (functions.clone(), String::new());
    let cut: Vec<_> = table.rows.drain(table.rows.len().min(LIVE_ROWS)..).collect();
    table.others += cut.len() as u64;
    for (at, column) in functions.columns.iter().enumerate() {
        if let Some(sum) = table.others_sum.get_mut(&column.id) {
            *sum += cut.iter().filter_map(|row| row.cells.get(at)?.number()).sum::<f64>();
        }
    }
    // The first note says how much there was; the others hold from one reading to the next.
    if let Some(note) = result.notes.first() {
        let _ = writeln!(out, "{note}");
    }
    for (reason, count) in &result.lost {
        let _ = writeln!(out, "lost {count} events: {reason}");
    }
    out.push_str(&table_text(&table, style));
    out.push('\n');
    out
}

fn footer(result: &ProbeResult) -> String {
    let mut out = String::new();
    for (reason, count) in &result.lost {
        let _ = writeln!(out, "lost {count} events: {reason}");
    }
    for note in &result.notes {
        let _ = writeln!(out, "note: {}", visible_within(note, NOTE));
    }
    if result.attached.is_empty() {
        // A profile that was made elsewhere.
        return out;
    }
    let ways: Vec<String> = result.attached.iter().map(|at| format!("{} ({})", at.event, at.back_end)).collect();
    let _ = write!(out, "{} in {}", ways.join(", "), quantity::seconds(result.seconds));
    let cost = &result.cost;
    if cost.sampled_seconds > 0.0 && cost.runs > 0 {
        let _ = write!(
            out,
            "; cost {} of one CPU ({} {} at {}, metered over {})",
            quantity::percent(cost.cpu_seconds / cost.sampled_seconds),
            quantity::number(cost.runs as f64),
            match cost.of {
                CostOf::Programs => "runs of its programs",
                CostOf::Events => "events",
            },
            quantity::seconds(cost.cpu_seconds / cost.runs as f64),
            quantity::seconds(cost.sampled_seconds)
        );
    }
    out.push('\n');
    out
}

fn histogram_text(histogram: &Histogram) -> String {
    if histogram.rows.iter().all(|row| row.count == 0) {
        return format!("{}\n\n  nothing\n", histogram.title);
    }
    let mut out = String::new();
    for row in &histogram.rows {
        let name =
            if row.instance.is_empty() { String::new() } else { format!(": {}", visible_within(&row.instance, CELL)) };
        let _ = writeln!(out, "{}{name}", histogram.title);
        let mean = row.mean().map_or("-".to_owned(), |mean| quantity::with_unit(mean, histogram.unit));
        let at = |share: f64| {
            histogram.percentile(row, share).map_or("-".to_owned(), |value| quantity::with_unit(value, histogram.unit))
        };
        let _ = writeln!(
            out,
            "{} values, mean {mean}, median {}, p95 {}, p99 {}, longest {}\n",
            quantity::number(row.count as f64),
            at(0.5),
            at(0.95),
            at(0.99),
            quantity::with_unit(row.max, histogram.unit),
        );
        out.push_str(&bars_text(row, histogram.unit));
    }
    out
}

/// Powers of two from the first to the last that has any, with a bar each.
fn bars_text(row: &HistogramRow, unit: Unit) -> String {
    let mut out = String::new();
    for bar in bars(row, unit) {
        let drawn = "#".repeat((bar.length * BAR as f64).ceil() as usize);
        let bound = if bar.below > 0.0 {
            format!("< {:>10}", quantity::with_unit(bar.below, unit))
        } else {
            format!("{:>12}", "0")
        };
        let _ = writeln!(out, "  {bound}  {:>10}  {drawn}", bar.count);
    }
    out
}

/// What stands in a table; the last column may be longer than the others.
pub(super) fn cells(table: &ProbeTable, last: usize) -> Vec<Vec<String>> {
    let cell = |(at, cell): (usize, &Cell)| match cell {
        Cell::Text(text) if at + 1 == table.columns.len() => visible_within(text, last).into_owned(),
        Cell::Text(text) => visible_within(text, CELL).into_owned(),
        // It stands below the line.
        Cell::Stack(_) => String::new(),
        Cell::Number(value) => {
            let unit = table.columns.get(at).and_then(|column| column.unit).unwrap_or(Unit::Count);
            quantity::with_unit(*value, unit)
        }
        Cell::Unknown(()) => "-".to_owned(),
    };
    table.rows.iter().map(|row| row.cells.iter().enumerate().map(cell).collect()).collect()
}

pub(super) fn table_text(table: &ProbeTable, _: &Style) -> String {
    let headings: Vec<String> = table.columns.iter().map(|column| column.title.clone()).collect();
    let mut rows = cells(table, CELL);
    rows.insert(0, headings);
    let columns = table.columns.len();
    let width = |at: usize| rows.iter().filter_map(|row| row.get(at)).map(|cell| cell.width()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..columns).map(width).collect();
    let mut out = String::new();
    for (at, row) in rows.iter().enumerate() {
        out.push_str(&line(row, &widths, table));
        // The first one is the heading.
        out.extend(at.checked_sub(1).and_then(|at| table.rows.get(at)).map(below));
    }
    if table.rows.is_empty() {
        out.push_str("  nothing\n");
    }
    if table.others > 0 {
        let sums: Vec<String> = table
            .columns
            .iter()
            .filter_map(|column| {
                let sum = table.others_sum.get(&column.id)?;
                Some(format!("{} {}", column.title, quantity::with_unit(*sum, column.unit?)))
            })
            .collect();
        let of = if sums.is_empty() { String::new() } else { format!(": {}", sums.join(", ")) };
        let _ = writeln!(out, "  and {} more{of}", table.others);
    }
    out
}

/// The stacks of a row, a function on each line.
pub(super) fn below(row: &Row) -> String {
    let stacks = row.cells.iter().filter_map(Cell::stack).flatten();
    stacks.map(|function| format!("        {}\n", visible_within(function, FUNCTION))).collect()
}

/// One line: numbers to the right, text to the left.
pub(super) fn line(row: &[String], widths: &[usize], table: &ProbeTable) -> String {
    let mut out = String::new();
    for ((cell, width), column) in row.iter().zip(widths).zip(&table.columns) {
        let pad = " ".repeat(width.saturating_sub(cell.width()));
        let _ = if column.unit.is_some() { write!(out, "  {pad}{cell}") } else { write!(out, "  {cell}{pad}") };
    }
    format!("{}\n", out.trim_end())
}

/// The functions with most of their own, and the path with most.
fn hot_text(stacks: &Stacks) -> String {
    let hot = hot(stacks);
    if hot.functions.rows.is_empty() {
        return String::new();
    }
    let mut out = String::from("\n    self   total  function\n");
    for row in hot.functions.rows.iter().take(FUNCTIONS) {
        let (own, total) = (words::share(&hot, row.own), words::share(&hot, row.total));
        let object = row.object.as_deref().map(|object| format!("  {}", visible_within(object, CELL)));
        let name = visible_within(&row.name, 100);
        let _ = writeln!(out, "  {own:>6}  {total:>6}  {name}{}", object.unwrap_or_default());
    }
    let hidden = hot.functions.others + hot.functions.rows.len().saturating_sub(FUNCTIONS);
    if hidden > 0 {
        let _ = writeln!(out, "  and {hidden} more functions");
    }
    let _ = writeln!(out, "  {}", words::meaning(stacks.activity));
    if let Some(path) = words::path(&hot, PATH) {
        let _ = writeln!(out, "  Hottest path: {}", visible_within(&path, 600));
    }
    out
}

/// Calls as an indented list, each outermost one below a line that says whose it is.
fn calls_text(trace: &CallTrace) -> String {
    let mut out = format!("{}\n", visible_within(&trace.title, CELL));
    let shown = trace.calls.len().min(CALLS);
    for (call, depth) in trace.calls.iter().zip(trace.depths()).take(shown) {
        if depth == 0 {
            let _ = writeln!(out, "\n  {}", visible_within(&probe_words::whose(call), 100));
        }
        let (took, function) = (probe_words::took(call), visible_within(&call.function, 100));
        let _ = writeln!(out, "  {took:>10}  {}{function}", "  ".repeat(depth.min(DEPTH)));
    }
    if trace.calls.is_empty() {
        out.push_str("\n  nothing\n");
    }
    let cut = probe_words::cut(trace, trace.calls.len() - shown);
    if !cut.is_empty() {
        let _ = writeln!(out, "\n  {cut}");
    }
    out
}

/// The picture, as wide as the terminal.
fn schedule_text(all: &Schedule, style: &Style) -> String {
    let mut out = format!("{}\n\n", visible_within(&all.title, CELL));
    let width = style.width.clamp(40, WIDEST) - 2;
    for line in schedule::lines(&schedule::strips(all, PIECES), width) {
        let (Line::Drawn(text) | Line::Said(text)) = line;
        let _ = writeln!(out, "  {text}");
    }
    out
}

pub(super) fn stacks_text(stacks: &Stacks) -> String {
    let mut out = format!("{}\n", stacks.title);
    let whole: f64 = stacks.stacks.iter().map(|stack| stack.value).sum::<f64>() + stacks.others;
    for stack in stacks.stacks.iter().take(STACKS) {
        let _ = writeln!(
            out,
            "\n  {} in {} times ({}): {}",
            quantity::with_unit(stack.value, stacks.unit),
            stack.count,
            quantity::percent(stack.value / whole.max(f64::MIN_POSITIVE)),
            visible_within(&stack.owner, CELL)
        );
        for frame in stack.frames.iter().rev().filter_map(|at| stacks.frames.get(*at as usize)) {
            let line = frame.line.as_deref().map(|line| format!("  {line}")).unwrap_or_default();
            let mark = if frame.kernel { "_[k]" } else { "" };
            let _ = writeln!(out, "    {}{mark}{line}", visible_within(&frame.name, 100));
        }
    }
    if stacks.stacks.len() > STACKS {
        let _ = writeln!(out, "\n  and {} more stacks", stacks.stacks.len() - STACKS);
    }
    out.push_str(&hot_text(stacks));
    for (what, value) in [
        ("with a frame that has no name", stacks.unresolved),
        ("whose stack seems cut short", stacks.truncated),
        ("whose stack could not be taken", stacks.missing),
    ] {
        if value > 0.0 {
            let share = quantity::percent(value / (whole + stacks.missing).max(f64::MIN_POSITIVE));
            let _ = writeln!(out, "  {share} {what}");
        }
    }
    out
}
