//! A comparison as text for a terminal.

use std::fmt::Write as _;

use super::{task_cells, task_heads};
use crate::report::escape::visible_within as short;
use crate::report::flame::points;
use rdiag_model::comparison::{Change, Comparison, FunctionChange, PartChange, TaskChange};
use rdiag_model::quantity::{percent, with_unit};
use rdiag_model::{Status, Unit};

/// Rows of each list.
const ROWS: usize = 20;
/// Longest name.
const NAME: usize = 100;

/// What a change is called.
pub(in crate::report) fn word(change: Change) -> &'static str {
    match change {
        Change::Appeared => "appeared",
        Change::Worse => "worse",
        Change::Better => "better",
        Change::Gone => "gone",
        Change::NotSeen => "not seen any more",
    }
}

/// `ok → warning`.
pub(in crate::report) fn statuses(before: Option<Status>, after: Option<Status>) -> String {
    let word = |status: Option<Status>| status.map_or("not evaluated", Status::word);
    format!("{} → {}", word(before), word(after))
}

/// `12.0% → 31.5%`.
pub(in crate::report) fn values(before: Option<f64>, after: Option<f64>, unit: Unit) -> String {
    let value = |value: Option<f64>| value.map_or("–".to_owned(), |value| with_unit(value, unit));
    format!("{} → {}", value(before), value(after))
}

/// Self before, after, and the change in points; then the same of the total.
pub(in crate::report) fn shares(function: &FunctionChange) -> [String; 6] {
    let [own_before, own_after] = function.own;
    let [before, after] = function.total;
    [
        percent(own_before),
        percent(own_after),
        points(own_after - own_before),
        percent(before),
        percent(after),
        points(after - before),
    ]
}

/// The comparison.
#[must_use]
pub fn text(comparison: &Comparison) -> String {
    let mut out = String::new();
    for (name, side) in [("before", &comparison.before), ("after", &comparison.after)] {
        let parts = [&side.file, &side.playbook, &side.host, &side.started];
        let parts: Vec<_> = parts.iter().filter(|part| !part.is_empty()).map(|part| short(part, NAME)).collect();
        let _ = writeln!(out, "{name:>6}: {}", parts.join(" · "));
    }
    for note in &comparison.notes {
        let _ = writeln!(out, "  note: {}", short(note, 400));
    }
    if let Some(task) = &comparison.task {
        task_change(&mut out, task);
    }
    if comparison.before.playbook.is_empty() || comparison.after.playbook.is_empty() {
        stacks(&mut out, comparison);
        return out;
    }
    let _ = writeln!(out, "\nFindings: {} differ, {} as before", comparison.findings.len(), comparison.findings_same);
    for finding in comparison.findings.iter().take(ROWS) {
        let instance = finding.instance.as_deref().map(|instance| format!(" {}", short(instance, NAME)));
        let _ = writeln!(
            out,
            "  {}: {}{} ({}; {})",
            word(finding.change),
            short(&finding.id, NAME),
            instance.unwrap_or_default(),
            statuses(finding.before, finding.after),
            values(finding.value_before, finding.value_after, finding.unit)
        );
        let _ = writeln!(out, "      {}", short(&finding.summary, 300));
    }
    more(&mut out, comparison.findings.len(), 0);
    let _ = writeln!(
        out,
        "\nMetrics: {} of {} moved by more than their noise",
        comparison.metrics.len() + comparison.metrics_others,
        comparison.metrics_compared
    );
    for metric in comparison.metrics.iter().take(ROWS) {
        let instance =
            if metric.instance.is_empty() { String::new() } else { format!(" {}", short(&metric.instance, NAME)) };
        let errors =
            metric.errors.map_or(" (noise not known)".to_owned(), |errors| format!(" ({errors:.0} standard errors)"));
        let change = values(Some(metric.before), Some(metric.after), metric.unit);
        let _ = writeln!(out, "  {}{instance}: {change}{errors}", short(&metric.id, NAME));
    }
    more(&mut out, comparison.metrics.len(), comparison.metrics_others);
    stacks(&mut out, comparison);
    out
}

fn task_change(out: &mut String, task: &TaskChange) {
    let _ = writeln!(out, "\nWhere the time of the task went\n{}", wrapped(&task.headline));
    for note in &task.notes {
        let _ = writeln!(out, "{}", wrapped(note));
    }
    for (name, parts) in [("component", &task.components), ("call", &task.calls)] {
        let shown: Vec<&PartChange> = parts.iter().filter(|part| part.is_clear).take(ROWS).collect();
        if shown.is_empty() {
            continue;
        }
        let [before, after, change, of, times, mean] = task_heads(parts);
        let _ = writeln!(out, "\n  {before:>9} {after:>9} {change:>9} {of:>13}  {name}");
        for part in shown {
            let [before, after, change, of, count, each] = task_cells(part, task.basis);
            let counts =
                if part.count == [None; 2] { String::new() } else { format!(" ({times} {count}, {mean} {each})") };
            let name = short(&part.id, NAME);
            let _ = writeln!(out, "  {before:>9} {after:>9} {change:>9} {of:>13}  {name}{counts}");
        }
    }
}

fn wrapped(text: &str) -> String {
    textwrap::fill(&short(text, 1_000), textwrap::Options::new(100).initial_indent("  ").subsequent_indent("  "))
}

fn more(out: &mut String, listed: usize, others: usize) {
    let hidden = listed.saturating_sub(ROWS) + others;
    if hidden > 0 {
        let _ = writeln!(out, "  and {hidden} more");
    }
}

fn stacks(out: &mut String, comparison: &Comparison) {
    for stacks in &comparison.stacks {
        let (before, after) = (with_unit(stacks.whole_before, stacks.unit), with_unit(stacks.whole_after, stacks.unit));
        let _ = writeln!(
            out,
            "\n{}: {} ({before} → {after}; shares are of each whole)",
            stacks.probe,
            short(&stacks.title, NAME)
        );
        if stacks.functions.is_empty() {
            let _ = writeln!(out, "  no function moved by a twentieth of a point");
            continue;
        }
        let _ =
            writeln!(out, "    self before    after         change   total before    after         change  function");
        for function in stacks.functions.iter().take(ROWS) {
            let [own, own_after, own_change, total, total_after, total_change] = shares(function);
            let name = short(&function.name, NAME);
            let _ = writeln!(
                out,
                "  {own:>13}  {own_after:>7}  {own_change:>13}  {total:>13}  {total_after:>7}  {total_change:>13}  {name}"
            );
        }
        more(out, stacks.functions.len(), stacks.others);
    }
}
