//! The words about probes that all renderers share. Names within are as they were found: renderers escape what they show.

use super::words::counted;
use rdiag_model::call_trace::{Call, CallTrace};
use rdiag_model::heat::HeatMap;
use rdiag_model::probe::{Cell, Column, CostOf, ProbeTable, Row, Stacks};
use rdiag_model::probed::{Distribution, Probed, ProbedOutput, StackSums};
use rdiag_model::quantity::{number, percent, seconds, with_unit};
use rdiag_model::{Report, Unit};

/// `4321 values, median 12.0 µs, p99 4.10 ms, longest 24.0 ms`.
pub(super) fn key_figures(row: &Distribution, unit: Unit) -> String {
    let count = match row.count {
        0 => return "no value in this window".into(),
        1 => "1 value".to_owned(),
        many => format!("{} values", number(many as f64)),
    };
    let mut parts = vec![count];
    for (name, value) in [("median", row.p50), ("p99", row.p99), (largest(unit), row.max)] {
        parts.extend(value.map(|value| format!("{name} {}", with_unit(value, unit))));
    }
    parts.join(", ")
}

/// `1955 events in 10.0 s; each cell is 167 ms wide; the fullest holds 40 events. Only events of at least 20ms are measured.`
pub(super) fn heat(map: &HeatMap, threshold: Option<&str>) -> String {
    let columns = map.bands.iter().map(|band| band.counts.len()).max().unwrap_or(0).max(1);
    let events = map.counts().fold(0_u64, u64::saturating_add);
    let mut said = format!(
        "{} in {}; each cell is {} wide; the fullest holds {}.",
        counted(events, "event", "events"),
        seconds(map.seconds),
        seconds(map.seconds / columns as f64),
        counted(map.counts().max().unwrap_or(0), "event", "events"),
    );
    if let Some(threshold) = threshold {
        said.push_str(&format!(" Only events of at least {threshold} are measured."));
    }
    if map.others > 0 {
        said.push_str(&format!(" {} more were only counted, later ones among them.", number(map.others as f64)));
    }
    said
}

/// The largest of times is the longest.
pub(super) fn largest(unit: Unit) -> &'static str {
    if unit == Unit::Seconds { "longest" } else { "largest" }
}

/// A cell as text; an empty one is a dash.
pub(super) fn cell(column: &Column, cell: &Cell) -> String {
    match cell {
        Cell::Text(text) if text.is_empty() => "–".into(),
        Cell::Text(text) => text.clone(),
        Cell::Stack(functions) => functions.join(" < "),
        Cell::Number(value) => with_unit(*value, column.unit.unwrap_or(Unit::Count)),
        Cell::Unknown(()) => "–".into(),
    }
}

/// The subject of a row and what was measured: (`stress-ng (pid 4711)`, `waited 1.20 s, times 345, longest 24.0 ms`).
pub(super) fn row(table: &ProbeTable, row: &Row) -> (String, String) {
    let cells = || table.columns.iter().zip(&row.cells);
    let text_of = |wanted: &str| cells().find(|(column, _)| column.id == wanted).and_then(|(_, cell)| cell.text());
    let (mut names, mut figures) = (Vec::new(), Vec::new());
    for (column, value) in cells() {
        match (column.id.as_str(), value) {
            ("pid" | "tid", Cell::Text(_)) | (_, Cell::Unknown(())) => {}
            (_, Cell::Text(text)) if text.is_empty() => {}
            // The functions would hide the rest.
            (_, Cell::Stack(_)) => {}
            (_, Cell::Text(text)) if names.is_empty() => names.push(text.clone()),
            _ => figures.push(format!("{} {}", column.title, cell(column, value))),
        }
    }
    let (pid, tid) = (text_of("pid"), text_of("tid"));
    // The first thread of a process has its number.
    let tid = tid.filter(|tid| pid != Some(tid));
    let ids: Vec<String> =
        [("pid", pid), ("tid", tid)].into_iter().filter_map(|(name, id)| Some(format!("{name} {}", id?))).collect();
    if names.is_empty() && ids.is_empty() {
        names.push(row.instance.clone());
    }
    let ids = if ids.is_empty() { String::new() } else { format!(" ({})", ids.join(", ")) };
    (format!("{}{ids}", names.join(" ")).trim().to_owned(), figures.join(", "))
}

/// `and 12 more: waited 3.20 s`; empty when the table is whole.
pub(super) fn others(table: &ProbeTable, hidden: usize) -> String {
    let count = table.others.saturating_add(hidden as u64);
    if count == 0 {
        return String::new();
    }
    // Sums are known for what the table left out, and not for what is only not shown here.
    let sums: Vec<String> = table
        .columns
        .iter()
        .filter(|_| hidden == 0)
        .filter_map(|column| {
            let sum = table.others_sum.get(&column.id)?;
            Some(format!("{} {}", column.title, with_unit(*sum, column.unit?)))
        })
        .collect();
    let of = if sums.is_empty() { String::new() } else { format!(": {}", sums.join(", ")) };
    format!("and {} more{of}", number(count as f64))
}

/// `sched_switch (BTF tracepoint)` with what was refused: `raw tracepoint instead of BTF tracepoint: …`.
pub(super) fn attached(probed: &Probed) -> Vec<String> {
    let way = |at: &rdiag_model::probe::Attachment| {
        let refused = at.refused.join("; ");
        let why = if refused.is_empty() { String::new() } else { format!(", because of {refused}") };
        format!("{} ({}{why})", at.event, at.back_end)
    };
    probed.attached.iter().map(way).collect()
}

/// What its programs cost.
pub(super) fn cost(probed: &Probed) -> String {
    let cost = &probed.cost;
    let Some(share) = probed.cost_ratio else {
        return "The kernel did not count what its programs cost.".into();
    };
    if cost.of == CostOf::Events {
        let took = format!("Tracing took {} of one CPU: {}", percent(share), counted(cost.runs, "event", "events"));
        let each = (cost.runs > 0)
            .then(|| format!(" at {}, reading them included", seconds(cost.cpu_seconds / cost.runs as f64)));
        return format!("{took}{}, counted over {}.", each.unwrap_or_default(), seconds(cost.sampled_seconds));
    }
    if cost.runs == 0 {
        return format!(
            "Its programs in the kernel did not run while it counted, for {}.",
            seconds(cost.sampled_seconds)
        );
    }
    format!(
        "Its programs in the kernel took {} of one CPU: {} at {}, counted over {}.",
        percent(share),
        counted(cost.runs, "run", "runs"),
        seconds(cost.cpu_seconds / cost.runs as f64),
        seconds(cost.sampled_seconds)
    )
}

/// What was lost and what else limits the result, a sentence each.
pub(super) fn limits(probed: &Probed) -> Vec<String> {
    let lost = probed.lost.iter().filter(|(_, count)| **count > 0);
    let mut limits: Vec<String> =
        lost.map(|(reason, count)| format!("{} lost: {reason}", counted(*count, "event was", "events were"))).collect();
    limits.extend(probed.notes.iter().cloned());
    for output in &probed.outputs {
        if let ProbedOutput::Stacks(sums) = output {
            limits.extend(stack_limits(sums));
        }
    }
    limits
}

/// How far stacks can be trusted.
fn stack_limits(sums: &StackSums) -> Vec<String> {
    [
        (sums.unresolved_ratio, "of it is in stacks with a frame that has no name"),
        (sums.truncated_ratio, "of it is in stacks that seem cut short"),
        (sums.missing_ratio, "of it has no stack at all"),
    ]
    .into_iter()
    .filter(|(share, _)| *share > 0.0)
    .map(|(share, what)| format!("{}: {} {what}", sums.stacks.title, percent(share)))
    .collect()
}

/// A stack in one line, innermost frame first: `2.10 s in 30 times (41.0%): nginx: futex_wait < do_futex < …`.
pub(super) fn stack(all: &Stacks, whole: f64, at: usize, most: usize) -> Option<(String, String)> {
    let stack = all.stacks.get(at)?;
    let share = if whole > 0.0 { percent(stack.value / whole) } else { String::new() };
    let frames: Vec<&str> = stack
        .frames
        .iter()
        .rev()
        .filter_map(|at| all.frames.get(*at as usize))
        .map(|frame| frame.name.as_str())
        .collect();
    let cut = if frames.len() > most { " < …" } else { "" };
    let shown = frames.iter().take(most).copied().collect::<Vec<_>>().join(" < ");
    let shown = if shown.is_empty() { "no stack" } else { &shown };
    let figure = format!("{} ({share})", with_unit(stack.value, all.unit));
    Some((format!("{} {figure}", stack.owner).trim().to_owned(), format!("{shown}{cut}")))
}

/// How long a call took.
pub(super) fn took(call: &Call) -> String {
    call.seconds.map_or("–".to_owned(), seconds)
}

/// Whose call it is, where and when: `ls (4711), CPU 1, 1.20 ms after the start`; empty for calls within others.
pub(super) fn whose(call: &Call) -> String {
    let of = |task: &String| format!("{task}, CPU {}, {} after the start", call.cpu, seconds(call.at));
    call.task.as_ref().map_or_else(String::new, of)
}

/// The first calls of so many levels, each with its depth, and what is not shown of them; empty when all is.
pub(super) fn calls(trace: &CallTrace, most: usize, levels: usize) -> (Vec<(&Call, usize)>, String) {
    let all = trace.calls.iter().zip(trace.depths());
    let shown: Vec<_> = all.filter(|(_, depth)| *depth < levels).take(most).collect();
    let cut = cut(trace, trace.calls.len() - shown.len());
    (shown, cut)
}

fn cut(trace: &CallTrace, hidden: usize) -> String {
    let (others, deeper) = (trace.others.saturating_add(hidden as u64), trace.deeper);
    let mut parts = Vec::new();
    if others > 0 {
        parts.push(counted(others, "more call", "more calls"));
    }
    if deeper > 0 {
        parts.push(counted(
            deeper,
            "call that is deeper than was asked for",
            "calls that are deeper than was asked for",
        ));
    }
    if parts.is_empty() { String::new() } else { format!("Not shown: {}.", parts.join("; ")) }
}

/// The probes that saw nothing, which need no more than a line, and the others.
pub(super) fn by_silence(report: &Report) -> (Vec<&Probed>, Vec<&Probed>) {
    report.probes.iter().partition(|probed| is_empty(probed) && limits(probed).is_empty())
}

/// Whether it saw nothing at all.
pub(super) fn is_empty(probed: &Probed) -> bool {
    probed.outputs.iter().all(|output| match output {
        ProbedOutput::Histogram(all) => all.rows.iter().all(|row| row.count == 0),
        ProbedOutput::Table(table) | ProbedOutput::Events(table) => table.rows.is_empty() && table.others == 0,
        // The events that it is made of stand beside it.
        ProbedOutput::Heat(_) => true,
        ProbedOutput::Stacks(sums) => sums.stacks.stacks.is_empty(),
        ProbedOutput::Calls(trace) => trace.calls.is_empty() && trace.others == 0,
        ProbedOutput::Schedule(strips) => strips.cpus.iter().all(|cpu| cpu.layers.is_empty()),
    })
}
