//! What probes measured, as text for a terminal.

use unicode_width::UnicodeWidthStr as _;

use super::hot_words as words;
use super::probe_words;
use super::probed::first_rows;
use super::schedule::{self, Line};
use super::shapes::ShapeWriter;
use super::shown::{Shown, Terminal};
use super::words::counted;
use crate::shown;
use crate::terminal::Style;
use rdiag_model::call_trace::CallTrace;
use rdiag_model::hot::Hot;
use rdiag_model::probe::{Cell, CostOf, Output, ProbeResult, ProbeTable, Row, Stacks};
use rdiag_model::probed::{Bar, Distributions};
use rdiag_model::schedule::Strips;
use rdiag_model::{Unit, quantity};

/// What a terminal is written.
pub(super) type Text = Shown<Terminal>;

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
/// Functions of the path with most.
const PATH: usize = 12;

/// A reading of a probe as text.
#[must_use]
pub fn text(result: &ProbeResult, style: &Style) -> Text {
    let mut out = Text::new();
    for output in &result.outputs {
        out.push(output_text(output, style));
        out.push("\n");
    }
    out.push(footer(result));
    out
}

/// One output as text.
pub(super) fn output_text(output: &Output, style: &Style) -> Text {
    let mut full = Full { out: Text::new(), width: style.width.clamp(40, WIDEST) - 2 };
    full.measured(output);
    full.out
}

/// An output as long as it is, with pictures as wide as the terminal.
struct Full {
    out: Text,
    width: usize,
}

impl ShapeWriter for Full {
    fn histogram(&mut self, all: &Distributions) {
        let title = Text::seen(&all.title);
        if all.rows.iter().all(|row| row.count == 0) {
            return self.out.push(shown!("{}\n\n  nothing\n", title));
        }
        for row in &all.rows {
            let name = Text::seen_within(&row.instance, CELL);
            let name = if name.is_empty() { name } else { shown!(": {}", name) };
            self.out.push(shown!("{}{}\n", &title, name));
            let figure = |value: Option<f64>| {
                value.map_or(Text::of("-"), |value| Text::seen(quantity::with_unit(value, all.unit)))
            };
            self.out.push(shown!(
                "{} values, mean {}, median {}, p95 {}, p99 {}, longest {}\n\n",
                Text::seen(quantity::number(row.count as f64)),
                figure(row.mean),
                figure(row.p50),
                figure(row.p95),
                figure(row.p99),
                // Of no values it is 0.
                figure(row.max.or(Some(0.0))),
            ));
            self.out.push(bars_text(&row.bars, all.unit));
        }
    }

    fn table(&mut self, table: &ProbeTable) {
        self.out.push(shown!("{}\n\n{}", Text::seen(&table.title), table_text(table)));
    }

    fn stacks(&mut self, stacks: &Stacks, whole: f64, hot: &Hot) {
        self.out.push(shown!("{}\n", Text::seen(&stacks.title)));
        for stack in stacks.stacks.iter().take(STACKS) {
            self.out.push(shown!(
                "\n  {} in {} times ({}): {}\n",
                Text::seen(quantity::with_unit(stack.value, stacks.unit)),
                stack.count,
                Text::seen(quantity::percent(stack.value / whole.max(f64::MIN_POSITIVE))),
                Text::seen_within(&stack.owner, CELL)
            ));
            for frame in stack.frames.iter().rev().filter_map(|at| stacks.frames.get(*at as usize)) {
                let line = frame.line.as_deref().map(|line| shown!("  {}", Text::seen(line))).unwrap_or_default();
                let mark = if frame.kernel { "_[k]" } else { "" };
                self.out.push(shown!("    {}{}{}\n", Text::seen_within(&frame.name, 100), mark, line));
            }
        }
        if stacks.stacks.len() > STACKS {
            self.out.push(shown!("\n  and {} more stacks\n", stacks.stacks.len() - STACKS));
        }
        self.out.push(hot_text(stacks, hot));
        for (what, value) in [
            ("with a frame that has no name", stacks.unresolved),
            ("whose stack seems cut short", stacks.truncated),
            ("whose stack could not be taken", stacks.missing),
        ] {
            if value > 0.0 {
                let share = quantity::percent(value / (whole + stacks.missing).max(f64::MIN_POSITIVE));
                self.out.push(shown!("  {} {}\n", Text::seen(share), what));
            }
        }
    }

    /// An indented list, each outermost call below a line that says whose it is.
    fn calls(&mut self, trace: &CallTrace) {
        let (calls, cut) = probe_words::calls(trace, CALLS, usize::MAX);
        self.out.push(shown!("{}\n", Text::seen_within(&trace.title, CELL)));
        if calls.is_empty() {
            self.out.push("\n  nothing\n");
        }
        for (call, depth) in calls {
            if depth == 0 {
                self.out.push(shown!("\n  {}\n", Text::seen_within(probe_words::whose(call), 100)));
            }
            let (took, function) = (Text::seen(probe_words::took(call)), Text::seen_within(&call.function, 100));
            self.out.push(shown!("  {:>10}  {}{}\n", took, Text::repeated("  ", depth.min(DEPTH)), function));
        }
        if !cut.is_empty() {
            self.out.push(shown!("\n  {}\n", Text::seen(cut)));
        }
    }

    fn schedule(&mut self, strips: &Strips) {
        self.out.push(shown!("{}\n\n", Text::seen_within(&strips.title, CELL)));
        for line in schedule::lines(strips, self.width) {
            let (Line::Drawn(text) | Line::Said(text)) = line;
            self.out.push(shown!("  {}\n", Text::seen(text)));
        }
    }
}

/// A reading as one of many, one after the other. Where a probe sums up by function, those stand for the stacks, and for
/// all that would run off the screen.
#[must_use]
pub fn interval_text(result: &ProbeResult, style: &Style) -> Text {
    let functions = result.outputs.iter().find_map(|output| match output {
        Output::Table(table) if table.dimension.as_deref() == Some("function") => Some(table),
        _ => None,
    });
    let Some(functions) = functions else { return text(result, style) };
    let mut out = Text::new();
    // The first note says how much there was; the others hold from one reading to the next.
    if let Some(note) = result.notes.first() {
        out.push(shown!("{}\n", Text::seen(note)));
    }
    out.push(lost(result));
    out.push(table_text(&first_rows(functions, LIVE_ROWS)));
    out.push("\n");
    out
}

/// What was lost, and the notes.
pub(super) fn limits(result: &ProbeResult) -> Text {
    let notes = result.notes.iter().map(|note| shown!("note: {}\n", Text::seen_within(note, NOTE)));
    [lost(result)].into_iter().chain(notes).collect()
}

fn lost(result: &ProbeResult) -> Text {
    result
        .lost
        .iter()
        .map(|(reason, count)| {
            shown!("lost {}: {}\n", Text::seen(counted(*count, "event", "events")), Text::seen(reason))
        })
        .collect()
}

fn footer(result: &ProbeResult) -> Text {
    let mut out = limits(result);
    if result.attached.is_empty() {
        // A profile that was made elsewhere.
        return out;
    }
    let ways = result.attached.iter().map(|at| shown!("{} ({})", Text::seen(&at.event), Text::seen(&at.back_end)));
    out.push(shown!("{} in {}", Text::joined(ways, ", "), Text::seen(quantity::seconds(result.seconds))));
    let cost = &result.cost;
    if cost.sampled_seconds > 0.0 && cost.runs > 0 {
        out.push(shown!(
            "; cost {} of one CPU ({} {} at {}, metered over {})",
            Text::seen(quantity::percent(cost.cpu_seconds / cost.sampled_seconds)),
            Text::seen(quantity::number(cost.runs as f64)),
            match cost.of {
                CostOf::Programs => "runs of its programs",
                CostOf::Events => "events",
            },
            Text::seen(quantity::seconds(cost.cpu_seconds / cost.runs as f64)),
            Text::seen(quantity::seconds(cost.sampled_seconds))
        ));
    }
    out.push("\n");
    out
}

/// Powers of two from the first to the last that has any, with a bar each.
fn bars_text(bars: &[Bar], unit: Unit) -> Text {
    let bar = |bar: &Bar| {
        let drawn = Text::repeated("#", (bar.length * BAR as f64).ceil() as usize);
        let bound: Text = if bar.below > 0.0 {
            shown!("< {:>10}", Text::seen(quantity::with_unit(bar.below, unit)))
        } else {
            shown!("{:>12}", "0")
        };
        shown!("  {}  {:>10}  {}\n", bound, bar.count, drawn)
    };
    bars.iter().map(bar).collect()
}

/// What stands in a table; the last column may be longer than the others.
pub(super) fn cells(table: &ProbeTable, last: usize) -> Vec<Vec<Text>> {
    let cell = |(at, cell): (usize, &Cell)| match cell {
        Cell::Text(text) if at + 1 == table.columns.len() => Text::seen_within(text, last),
        Cell::Text(text) => Text::seen_within(text, CELL),
        // It stands below the line.
        Cell::Stack(_) => Text::new(),
        Cell::Number(value) => {
            let unit = table.columns.get(at).and_then(|column| column.unit).unwrap_or(Unit::Count);
            Text::seen(quantity::with_unit(*value, unit))
        }
        Cell::Unknown(()) => Text::of("-"),
    };
    table.rows.iter().map(|row| row.cells.iter().enumerate().map(cell).collect()).collect()
}

/// The titles of a table's columns.
pub(super) fn headings(table: &ProbeTable) -> Vec<Text> {
    table.columns.iter().map(|column| Text::seen(&column.title)).collect()
}

pub(super) fn table_text(table: &ProbeTable) -> Text {
    let mut rows = cells(table, CELL);
    rows.insert(0, headings(table));
    let columns = table.columns.len();
    let width = |at: usize| rows.iter().filter_map(|row| row.get(at)).map(|cell| cell.width()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..columns).map(width).collect();
    let mut out = Text::new();
    for (at, row) in rows.iter().enumerate() {
        out.push(line(row, &widths, table));
        // The first one is the heading.
        if let Some(row) = at.checked_sub(1).and_then(|at| table.rows.get(at)) {
            out.push(below(row));
        }
    }
    if table.rows.is_empty() {
        out.push("  nothing\n");
    }
    if table.others > 0 {
        let sums = table.columns.iter().filter_map(|column| {
            let sum = table.others_sum.get(&column.id)?;
            let sum = Text::seen(quantity::with_unit(*sum, column.unit?));
            Some(shown!("{} {}", Text::seen(&column.title), sum))
        });
        let sums = Text::joined(sums, ", ");
        let of = if sums.is_empty() { sums } else { shown!(": {}", sums) };
        out.push(shown!("  and {} more{}\n", table.others, of));
    }
    out
}

/// The stacks of a row, a function on each line.
pub(super) fn below(row: &Row) -> Text {
    let stacks = row.cells.iter().filter_map(Cell::stack).flatten();
    stacks.map(|function| shown!("        {}\n", Text::seen_within(function, FUNCTION))).collect()
}

/// One line: numbers to the right, text to the left.
pub(super) fn line(row: &[Text], widths: &[usize], table: &ProbeTable) -> Text {
    let mut out = Text::new();
    for ((cell, width), column) in row.iter().zip(widths).zip(&table.columns) {
        let pad = Text::repeated(" ", width.saturating_sub(cell.width()));
        out.push(if column.unit.is_some() { shown!("  {}{}", pad, cell) } else { shown!("  {}{}", cell, pad) });
    }
    shown!("{}\n", out.trimmed_end())
}

/// The functions with most of their own, and the path with most.
fn hot_text(stacks: &Stacks, hot: &Hot) -> Text {
    if hot.functions.rows.is_empty() {
        return Text::new();
    }
    let mut out = Text::of("\n    self   total  function\n");
    for row in hot.functions.rows.iter().take(FUNCTIONS) {
        let [own, total] = [row.own, row.total].map(|value| Text::seen(words::share(hot, value)));
        let object = row.object.as_deref().map(|object| shown!("  {}", Text::seen_within(object, CELL)));
        let name = Text::seen_within(&row.name, 100);
        out.push(shown!("  {:>6}  {:>6}  {}{}\n", own, total, name, object.unwrap_or_default()));
    }
    let hidden = hot.functions.others + hot.functions.rows.len().saturating_sub(FUNCTIONS);
    if hidden > 0 {
        out.push(shown!("  and {} more functions\n", hidden));
    }
    out.push(shown!("  {}\n", words::meaning(stacks.activity)));
    if let Some(path) = words::path(hot, PATH) {
        out.push(shown!("  Hottest path: {}\n", Text::seen_within(path, 600)));
    }
    out
}
