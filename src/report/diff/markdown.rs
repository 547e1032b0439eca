//! A comparison as CommonMark, for a ticket.

use super::{MOVED, lead, shares, statuses, task_cells, task_heads, values, word};
use crate::markdown::{fitting, table};
use crate::shown;
use crate::shown::{Markdown, Shown};
use rdiag_model::comparison::{Comparison, PartChange, Side, StacksChange, TaskChange};
use rdiag_model::quantity::with_unit;

/// What a ticket is written.
type Text = Shown<Markdown>;

/// Rows of each list.
const ROWS: usize = 20;
/// Longest name, in characters.
const NAME: usize = 100;
/// Longest sentence.
const SENTENCE: usize = 600;

/// The comparison as Markdown of at most 30 000 characters: lists are cut, and say so.
#[must_use]
pub fn markdown(comparison: &Comparison) -> Text {
    let mut sections = vec![head(comparison)];
    sections.extend(comparison.task.as_ref().map(task));
    if !comparison.before.playbook.is_empty() && !comparison.after.playbook.is_empty() {
        sections.extend([findings(comparison), metrics(comparison)]);
    }
    sections.extend(comparison.stacks.iter().map(stacks));
    let (mut out, left_out) = fitting(sections);
    if left_out > 0 {
        out.push(shown!("*{} sections are left out here for length; HTML and JSON have them.*\n", left_out));
    }
    out
}

fn name(text: impl AsRef<str>) -> Text {
    Text::text_within(text, NAME)
}

fn sentence(text: impl AsRef<str>) -> Text {
    Text::text_within(text, SENTENCE)
}

fn more(hidden: usize) -> Text {
    if hidden > 0 { shown!("and {} more\n\n", hidden) } else { Text::new() }
}

fn rows_of(heads: &[&'static str], rows: Vec<Vec<Text>>) -> Text {
    let heads: Vec<Text> = heads.iter().map(|head| Text::of(*head)).collect();
    table(&heads, &rows)
}

fn head(comparison: &Comparison) -> Text {
    let side = |side: &Side| {
        let parts = [&side.file, &side.playbook, &side.host, &side.started];
        Text::joined(parts.into_iter().filter(|part| !part.is_empty()).map(name), " · ")
    };
    let mut out = Text::of("# Before and after\n\n");
    out.push(shown!("- **Before:** {}\n- **After:** {}\n", side(&comparison.before), side(&comparison.after)));
    for note in &comparison.notes {
        out.push(shown!("- **Note:** {}\n", sentence(note)));
    }
    out.push("\n");
    out
}

fn task(task: &TaskChange) -> Text {
    let mut out: Text = shown!("## Where the time of the task went\n\n**{}**\n\n", sentence(&task.headline));
    for note in &task.notes {
        out.push(shown!("{}\n\n", sentence(note)));
    }
    for (kind, parts, others) in [("Component", &task.components, 0), ("Call", &task.calls, task.calls_others)] {
        let clear: Vec<&PartChange> = parts.iter().filter(|part| part.is_clear).collect();
        if clear.is_empty() {
            continue;
        }
        let row = |part: &&PartChange| {
            let title = if part.title.is_empty() { String::new() } else { format!(" ({})", part.title) };
            let mut row: Vec<Text> = task_cells(part, task.basis).iter().map(name).collect();
            row.insert(0, name(format!("{}{title}", part.id)));
            row
        };
        let mut heads = vec![kind];
        heads.extend(task_heads(parts));
        out.push(rows_of(&heads, clear.iter().take(ROWS).map(row).collect()));
        out.push(more(clear.len().saturating_sub(ROWS) + others));
    }
    out
}

fn findings(comparison: &Comparison) -> Text {
    let mut out: Text = shown!("## Findings\n\n{}.\n\n", sentence(lead(comparison)));
    for finding in comparison.findings.iter().take(ROWS) {
        let instance = finding.instance.as_deref().map(|of| shown!(" {}", name(of))).unwrap_or_default();
        out.push(shown!(
            "- **{}:** {}{} ({}; {}). {}\n",
            word(finding.change),
            name(&finding.id),
            instance,
            name(statuses(finding.before, finding.after)),
            name(values(finding.value_before, finding.value_after, finding.unit)),
            sentence(&finding.summary)
        ));
    }
    out.push(if comparison.findings.is_empty() { "" } else { "\n" });
    out.push(more(comparison.findings.len().saturating_sub(ROWS)));
    out
}

fn metrics(comparison: &Comparison) -> Text {
    let moved = comparison.metrics.len() + comparison.metrics_others;
    let mut out: Text = shown!("## Metrics\n\n{} of {} {}.\n\n", moved, comparison.metrics_compared, MOVED);
    let row = |metric: &rdiag_model::comparison::MetricChange| {
        let errors = metric.errors.map_or(Text::of("not known"), |errors| shown!("{:.0} standard errors", errors));
        vec![
            name(format!("{} {}", metric.id, metric.instance).trim()),
            name(with_unit(metric.before, metric.unit)),
            name(with_unit(metric.after, metric.unit)),
            errors,
        ]
    };
    if !comparison.metrics.is_empty() {
        let rows = comparison.metrics.iter().take(ROWS).map(row).collect();
        out.push(rows_of(&["Metric", "Before", "After", "Change against noise"], rows));
    }
    out.push(more(moved.saturating_sub(ROWS.min(comparison.metrics.len()))));
    out
}

fn stacks(change: &StacksChange) -> Text {
    let [before, after] = [change.whole_before, change.whole_after].map(|whole| name(with_unit(whole, change.unit)));
    let mut out: Text = shown!(
        "## {}: {}\n\n{} before, {} after. Shares are of each whole.\n\n",
        name(&change.probe),
        name(&change.title),
        before,
        after
    );
    if change.functions.is_empty() {
        out.push("No function's share moved by a twentieth of a point.\n\n");
        return out;
    }
    let row = |function: &rdiag_model::comparison::FunctionChange| {
        let mut row: Vec<Text> = shares(function).iter().map(name).collect();
        row.insert(0, name(&function.name));
        row
    };
    let heads = ["Function", "Self before", "after", "change", "Total before", "after", "change"];
    out.push(rows_of(&heads, change.functions.iter().take(ROWS).map(row).collect()));
    out.push(more(change.functions.len().saturating_sub(ROWS) + change.others));
    out
}
