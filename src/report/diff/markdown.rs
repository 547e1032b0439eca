//! A comparison as CommonMark, for a ticket.

use super::{shares, statuses, task_cells, task_heads, values, word};
use crate::report::escape::{markdown as escaped, visible_within};
use crate::report::markdown::{MAX_CHARS, table};
use rdiag_model::comparison::{Comparison, PartChange, Side, StacksChange, TaskChange};
use rdiag_model::quantity::with_unit;

/// Rows of each list.
const ROWS: usize = 20;
/// Longest name, in characters.
const NAME: usize = 100;
/// Longest sentence.
const SENTENCE: usize = 600;

/// The comparison as Markdown of at most 30 000 characters: lists are cut, and say so.
#[must_use]
pub fn markdown(comparison: &Comparison) -> String {
    let mut sections = vec![head(comparison)];
    sections.extend(comparison.task.as_ref().map(task));
    if !comparison.before.playbook.is_empty() && !comparison.after.playbook.is_empty() {
        sections.extend([findings(comparison), metrics(comparison)]);
    }
    sections.extend(comparison.stacks.iter().map(stacks));
    let mut out = String::new();
    let mut left_out = 0;
    for section in sections {
        if out.chars().count() + section.chars().count() + 200 <= MAX_CHARS {
            out.push_str(&section);
        } else {
            left_out += 1;
        }
    }
    if left_out > 0 {
        out.push_str(&format!("*{left_out} sections are left out here for length; HTML and JSON have them.*\n"));
    }
    out
}

fn name(text: &str) -> String {
    escaped(&visible_within(text, NAME))
}

fn sentence(text: &str) -> String {
    escaped(&visible_within(text, SENTENCE))
}

fn more(hidden: usize) -> String {
    if hidden > 0 { format!("and {hidden} more\n\n") } else { String::new() }
}

fn rows_of(heads: &[&str], rows: Vec<Vec<String>>) -> String {
    let heads: Vec<String> = heads.iter().map(|head| (*head).to_owned()).collect();
    table(&heads, &rows)
}

fn head(comparison: &Comparison) -> String {
    let side = |side: &Side| {
        let parts = [&side.file, &side.playbook, &side.host, &side.started];
        let parts: Vec<String> = parts.iter().filter(|part| !part.is_empty()).map(|part| name(part)).collect();
        parts.join(" · ")
    };
    let mut out = "# Before and after\n\n".to_owned();
    out.push_str(&format!("- **Before:** {}\n- **After:** {}\n", side(&comparison.before), side(&comparison.after)));
    for note in &comparison.notes {
        out.push_str(&format!("- **Note:** {}\n", sentence(note)));
    }
    out.push('\n');
    out
}

fn task(task: &TaskChange) -> String {
    let mut out = format!("## Where the time of the task went\n\n**{}**\n\n", sentence(&task.headline));
    for note in &task.notes {
        out.push_str(&format!("{}\n\n", sentence(note)));
    }
    for (kind, parts, others) in [("Component", &task.components, 0), ("Call", &task.calls, task.calls_others)] {
        let clear: Vec<&PartChange> = parts.iter().filter(|part| part.is_clear).collect();
        if clear.is_empty() {
            continue;
        }
        let row = |part: &&PartChange| {
            let title = if part.title.is_empty() { String::new() } else { format!(" ({})", part.title) };
            let mut row: Vec<String> = task_cells(part, task.basis).iter().map(|cell| name(cell)).collect();
            row.insert(0, name(&format!("{}{title}", part.id)));
            row
        };
        let mut heads = vec![kind];
        heads.extend(task_heads(parts));
        out.push_str(&rows_of(&heads, clear.iter().take(ROWS).map(row).collect()));
        out.push_str(&more(clear.len().saturating_sub(ROWS) + others));
    }
    out
}

fn findings(comparison: &Comparison) -> String {
    let mut out =
        format!("## Findings\n\n{} differ, {} as before.\n\n", comparison.findings.len(), comparison.findings_same);
    for finding in comparison.findings.iter().take(ROWS) {
        let instance = finding.instance.as_deref().map(|of| format!(" {}", name(of))).unwrap_or_default();
        out.push_str(&format!(
            "- **{}:** {}{instance} ({}; {}). {}\n",
            word(finding.change),
            name(&finding.id),
            statuses(finding.before, finding.after),
            name(&values(finding.value_before, finding.value_after, finding.unit)),
            sentence(&finding.summary)
        ));
    }
    out.push_str(if comparison.findings.is_empty() { "" } else { "\n" });
    out.push_str(&more(comparison.findings.len().saturating_sub(ROWS)));
    out
}

fn metrics(comparison: &Comparison) -> String {
    let moved = comparison.metrics.len() + comparison.metrics_others;
    let mut out =
        format!("## Metrics\n\n{moved} of {} moved by more than their noise.\n\n", comparison.metrics_compared);
    let row = |metric: &rdiag_model::comparison::MetricChange| {
        let errors = metric.errors.map_or("not known".to_owned(), |errors| format!("{errors:.0} standard errors"));
        vec![
            name(format!("{} {}", metric.id, metric.instance).trim()),
            name(&with_unit(metric.before, metric.unit)),
            name(&with_unit(metric.after, metric.unit)),
            errors,
        ]
    };
    if !comparison.metrics.is_empty() {
        let rows = comparison.metrics.iter().take(ROWS).map(row).collect();
        out.push_str(&rows_of(&["Metric", "Before", "After", "Change against noise"], rows));
    }
    out.push_str(&more(moved.saturating_sub(ROWS.min(comparison.metrics.len()))));
    out
}

fn stacks(change: &StacksChange) -> String {
    let [before, after] = [change.whole_before, change.whole_after].map(|whole| name(&with_unit(whole, change.unit)));
    let mut out = format!(
        "## {}: {}\n\n{before} before, {after} after. Shares are of each whole.\n\n",
        name(&change.probe),
        name(&change.title)
    );
    if change.functions.is_empty() {
        out.push_str("No function's share moved by a twentieth of a point.\n\n");
        return out;
    }
    let row = |function: &rdiag_model::comparison::FunctionChange| {
        let mut row: Vec<String> = shares(function).iter().map(|cell| name(cell)).collect();
        row.insert(0, name(&function.name));
        row
    };
    let heads = ["Function", "Self before", "after", "change", "Total before", "after", "change"];
    out.push_str(&rows_of(&heads, change.functions.iter().take(ROWS).map(row).collect()));
    out.push_str(&more(change.functions.len().saturating_sub(ROWS) + change.others));
    out
}
