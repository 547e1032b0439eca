//! Two measurements side by side, as the page shows them.

use serde::Serialize;

use super::table::{CellView, Head, TableView};
use super::view::Limits;
use crate::diff::{MOVED, lead, shares, statuses, task_cells, task_heads, values, word};
use crate::escape::visible_within as short;
use crate::shown::{Html, Shown};
use rdiag_model::comparison::{Change, Comparison, FunctionChange, PartChange, Side, StacksChange, TaskChange};
use rdiag_model::quantity::with_unit;

/// Longest name, in characters.
const MAX_NAME: usize = 100;

#[derive(Serialize)]
pub(super) struct ComparisonView {
    before: String,
    after: String,
    notes: Vec<String>,
    /// Where the time of a task went.
    task: Option<TaskView>,
    /// Whether both are reports or recordings.
    judged: bool,
    findings: Vec<FindingView>,
    findings_lead: String,
    metrics: TableView,
    metrics_lead: String,
    stacks: Vec<StacksView>,
}

#[derive(Serialize)]
struct TaskView {
    headline: String,
    notes: Vec<String>,
    tables: Vec<TableView>,
}

#[derive(Serialize)]
struct FindingView {
    class: &'static str,
    word: &'static str,
    id: String,
    title: String,
    statuses: String,
    values: String,
    summary: String,
}

#[derive(Serialize)]
struct StacksView {
    title: String,
    lead: String,
    flame: Shown<Html>,
    functions: TableView,
}

impl ComparisonView {
    pub(super) fn of(comparison: &Comparison, flames: &[Option<Shown<Html>>], limits: &Limits) -> Self {
        let rows = limits.rows * 2;
        let instance = |id: &str, instance: &str| format!("{} {}", short(id, MAX_NAME), short(instance, MAX_NAME));
        let finding = |finding: &rdiag_model::comparison::FindingChange| FindingView {
            class: class(finding.change),
            word: word(finding.change),
            id: instance(&finding.id, finding.instance.as_deref().unwrap_or_default()),
            title: finding.title.clone(),
            statuses: statuses(finding.before, finding.after),
            values: values(finding.value_before, finding.value_after, finding.unit),
            summary: finding.summary.clone(),
        };
        let metric = |metric: &rdiag_model::comparison::MetricChange| {
            let errors = metric.errors.map_or("not known".to_owned(), |errors| format!("{errors:.0} standard errors"));
            let [before, after] = [metric.before, metric.after].map(|value| with_unit(value, metric.unit));
            vec![cell(&instance(&metric.id, &metric.instance)), figure(before), figure(after), cell(&errors)]
        };
        let shown = comparison.metrics.len().min(rows);
        let hidden = comparison.metrics.len() - shown + comparison.metrics_others;
        let stacks = comparison.stacks.iter().zip(flames).take(limits.probes);
        Self {
            before: side(&comparison.before),
            after: side(&comparison.after),
            notes: comparison.notes.clone(),
            task: comparison.task.as_ref().map(|task| TaskView::of(task, rows)),
            judged: !comparison.before.playbook.is_empty() && !comparison.after.playbook.is_empty(),
            findings: comparison.findings.iter().take(rows).map(finding).collect(),
            findings_lead: format!("{}.", lead(comparison)),
            metrics: TableView {
                title: "Metrics that moved".into(),
                head: vec![head("Metric", false), head("Before", true), head("After", true), head("Noise", false)],
                rows: comparison.metrics.iter().take(rows).map(metric).collect(),
                others: more(hidden),
            },
            metrics_lead: format!(
                "{} of {} {MOVED}.",
                comparison.metrics.len() + comparison.metrics_others,
                comparison.metrics_compared
            ),
            stacks: stacks.map(|(change, flame)| StacksView::of(change, flame.as_ref(), rows)).collect(),
        }
    }
}

impl TaskView {
    fn of(task: &TaskChange, rows: usize) -> Self {
        let row = |part: &PartChange| {
            let title = if part.title.is_empty() { String::new() } else { format!(" ({})", part.title) };
            let mut cells = vec![cell(&format!("{}{title}", part.id))];
            cells.extend(task_cells(part, task.basis).into_iter().map(figure));
            cells
        };
        let parts = [("Component", &task.components, 0), ("Call", &task.calls, task.calls_others)];
        let table = |(kind, parts, others): (&str, &Vec<PartChange>, usize)| {
            let shown = parts.len().min(rows);
            let mut heads = vec![head(kind, false)];
            heads.extend(task_heads(parts).iter().map(|title| head(title, true)));
            (shown > 0).then(|| TableView {
                title: format!("By {}", kind.to_lowercase()),
                head: heads,
                rows: parts.iter().take(rows).map(row).collect(),
                others: more(parts.len() - shown + others),
            })
        };
        Self {
            headline: task.headline.clone(),
            notes: task.notes.clone(),
            tables: parts.into_iter().filter_map(table).collect(),
        }
    }
}

impl StacksView {
    fn of(change: &StacksChange, flame: Option<&Shown<Html>>, rows: usize) -> Self {
        let row = |function: &FunctionChange| {
            let mut cells: Vec<CellView> = shares(function).into_iter().map(figure).collect();
            cells.extend([cell(&function.name), cell(function.object.as_deref().unwrap_or("–"))]);
            cells
        };
        let names = ["Self before", "after", "change", "Total before", "after", "change"];
        let mut heads: Vec<Head> = names.iter().map(|name| head(name, true)).collect();
        heads.extend([head("Function", false), head("Object", false)]);
        let [before, after] = [change.whole_before, change.whole_after].map(|value| with_unit(value, change.unit));
        Self {
            title: format!("{}: {}", change.probe, change.title),
            lead: format!(
                "{before} before, {after} after. Shares are of each whole, so that a longer or busier measurement is no change."
            ),
            flame: flame.cloned().unwrap_or_default(),
            functions: TableView {
                title: "Functions whose share moved".into(),
                head: heads,
                rows: change.functions.iter().take(rows).map(row).collect(),
                others: more(change.others + change.functions.len().saturating_sub(rows)),
            },
        }
    }
}

fn side(side: &Side) -> String {
    let parts = [&side.file, &side.playbook, &side.host, &side.started];
    let parts: Vec<_> = parts.iter().filter(|part| !part.is_empty()).map(|part| short(part, MAX_NAME)).collect();
    parts.join(" · ")
}

fn class(change: Change) -> &'static str {
    match change {
        Change::Appeared | Change::Worse => "critical",
        Change::Better => "info",
        Change::Gone => "ok",
        Change::NotSeen => "unknown",
    }
}

fn head(title: &str, number: bool) -> Head {
    Head { title: title.to_owned(), number }
}

fn cell(text: &str) -> CellView {
    CellView { text: short(text, MAX_NAME).into_owned(), number: false }
}

fn figure(text: String) -> CellView {
    CellView { text, number: true }
}

fn more(hidden: usize) -> String {
    if hidden > 0 { format!("and {hidden} more") } else { String::new() }
}
