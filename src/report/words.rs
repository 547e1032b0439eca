//! The words that all renderers share.

mod culprits;

use std::borrow::Cow;

pub(super) use self::culprits::{culprit, deed, unattributed, who, who_or_where};

use super::escape::visible_within;
use super::sentence::listed;
use rdiag_model::headline::BOTTLENECK;
use rdiag_model::quantity::{percent, with_unit};
use rdiag_model::report::{Cell, GapGroup, Report, Span, Timeline};
use rdiag_model::{Confidence, Evidence, Finding, Kind, Resource, Status, Unit};

/// Longest name within a sentence, in characters.
const MAX_NAME: usize = 160;

/// A name that any user may have chosen, with every character visible.
fn visible(name: &str) -> Cow<'_, str> {
    visible_within(name, MAX_NAME)
}

/// The command that brings the same onto a host.
pub(super) fn exercise(lab: &str) -> String {
    format!("rdiag lab start {}", visible(lab))
}

/// Under what exercise the measuring was done: a sentence and a command; none without one.
pub(super) fn recipe(report: &Report) -> Option<(String, String)> {
    let exercise = report.exercise.as_ref()?;
    let ended = if exercise.whole { "" } else { ", which ended before the measuring did" };
    Some((format!("Measured during the exercise {}{ended}.", visible(&exercise.id)), visible(&exercise.command).into()))
}

/// A resource as a heading.
pub(super) fn resource(resource: Resource) -> &'static str {
    match resource {
        Resource::Cpu => "CPU",
        Resource::Memory => "Memory",
        Resource::Disk => "Disk",
        Resource::Filesystem => "File system",
        Resource::Network => "Network",
        Resource::Cgroup => "Control group",
        Resource::Fd => "File descriptors",
        Resource::Tasks => "Tasks",
        Resource::Locks => "Locks",
        Resource::Interrupts => "Interrupts",
        Resource::Kernel => "Kernel",
        Resource::Hardware => "Hardware",
        Resource::Power => "Power",
    }
}

/// A resource within a sentence.
pub(super) fn resource_inline(of: Resource) -> String {
    if of == Resource::Cpu { "CPU".into() } else { resource(of).to_lowercase() }
}

/// `CPU saturation`, `disk errors`.
pub(super) fn cell(of: Resource, kind: Kind) -> String {
    format!("{} {}", resource_inline(of), kind.word())
}

/// `Utilization`.
pub(super) fn kind(kind: Kind) -> &'static str {
    match kind {
        Kind::Utilization => "Utilization",
        Kind::Saturation => "Saturation",
        Kind::Errors => "Errors",
    }
}

/// `high`, `medium`, `low`.
pub(super) fn confidence(confidence: Confidence) -> &'static str {
    match confidence {
        Confidence::High => "high",
        Confidence::Medium => "medium",
        Confidence::Low => "low",
    }
}

/// The status of a cell as a word; a cell that no rule looks at is a dash.
pub(super) fn cell_word(cell: &Cell) -> &'static str {
    match cell.status {
        Some(Status::Skipped) => "n/a",
        Some(status) => status.word(),
        None => "–",
    }
}

/// The figure of a cell, where it has one.
fn cell_value(cell: &Cell) -> String {
    match (cell.status, cell.value, cell.unit) {
        (Some(Status::Unknown | Status::Skipped) | None, _, _) => String::new(),
        // What fired for another reason than this figure.
        (Some(status), Some(0.0), _) if status.fired() => String::new(),
        // A number of requests or of tasks says nothing beside "ok"; a number of errors does, and a mean of such is none.
        (Some(Status::Ok), value, Some(Unit::Count | Unit::PerSecond))
            if cell.kind != Kind::Errors || value.is_some_and(|value| value.fract() != 0.0) =>
        {
            String::new()
        }
        (_, Some(value), Some(unit)) => with_unit(value, unit),
        _ => String::new(),
    }
}

/// What stands beside the word of a cell: the figure, and what it is of; of an unknown one, how many of its checks were made. None of
/// them fired, or the cell would not be unknown. A cell that is ok without some of its checks tells that, too.
pub(super) fn cell_figure(cell: &Cell) -> String {
    let value = cell_value(cell);
    match (cell.status, &cell.label) {
        (Some(Status::Unknown), _) if cell.judged > 0 => {
            format!("{} of {} ok", cell.judged, cell.judged.saturating_add(cell.unknown))
        }
        (Some(Status::Ok), _) if cell.unknown > 0 => {
            format!("{} of {}", cell.judged, cell.judged.saturating_add(cell.unknown))
        }
        (_, Some(label)) if !value.is_empty() => format!("{value} {}", visible(label)),
        _ => value,
    }
}

/// The first of many ids: `a, b and 3 more`.
pub(super) fn some(ids: &[String], most: usize) -> String {
    let shown = ids.iter().take(most).map(|id| visible(id)).collect::<Vec<_>>().join(", ");
    match ids.len().saturating_sub(most) {
        0 => shown,
        more => format!("{shown} and {more} more"),
    }
}

/// What is missing for one cause: the checks and the probes, or else the readings.
pub(super) fn missing(group: &GapGroup) -> Vec<String> {
    let mut what = group.rules.clone();
    what.extend(group.probes.iter().map(|id| format!("probe {id}")));
    if what.is_empty() { group.metrics.clone() } else { what }
}

/// The judged value of a finding.
pub(super) fn value(finding: &Finding) -> String {
    // Of what was before the window, the value of the window says nothing.
    let value = finding.value.filter(|_| finding.seconds_before.is_none());
    value.map(|value| with_unit(value, finding.unit)).unwrap_or_default()
}

/// An instance as people call it: `sda`; of a process (`4711:23816`, with its start) the pid.
pub(super) fn instance(instance: &str) -> String {
    match instance.split_once(':') {
        Some((pid, start)) if is_number(pid) && is_number(start) => format!("pid {pid}"),
        _ => visible(instance).into_owned(),
    }
}

fn is_number(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

/// Rules whose instances are CPUs, by how their ids begin.
const OF_CPUS: [&str; 3] = ["cpu.", "interrupts.", "network.saturation.softnet"];

/// What a finding is about, as people call it: also a CPU, which the kernel gives a mere number.
pub(super) fn instance_of(finding: &Finding) -> Option<String> {
    let name = finding.instance.as_deref()?;
    Some(if is_of_one_cpu(finding) { format!("CPU {name}") } else { instance(name) })
}

/// Whether a finding is about a single CPU.
pub(super) fn is_of_one_cpu(finding: &Finding) -> bool {
    finding.instance.as_deref().is_some_and(is_number) && OF_CPUS.iter().any(|start| finding.id.starts_with(start))
}

/// `disk.saturation (sda)`.
pub(super) fn full_id(finding: &Finding) -> String {
    match instance_of(finding) {
        Some(name) => format!("{} ({name})", finding.id),
        None => finding.id.clone(),
    }
}

/// `Busiest disk (sda)`: what a finding is about, where ids would be in the way.
pub(super) fn full_title(finding: &Finding) -> String {
    match instance_of(finding) {
        Some(name) => format!("{} ({name})", finding.title),
        None => finding.title.clone(),
    }
}

/// What a reading said: `mean 70.0%, highest 77.0%`, or `12 in total, highest 3`.
pub(super) fn figures(report: &Report, evidence: &Evidence) -> String {
    let figure = |value: Option<f64>| value.map(|value| with_unit(value, evidence.unit)).unwrap_or_default();
    // A probe gives one figure for the whole window.
    if report.probes.iter().any(|probed| probed.metrics.contains_key(&evidence.metric)) {
        return figure(evidence.mean);
    }
    if report.metrics.get(&evidence.metric).is_some_and(|note| note.sums) {
        return format!("{} in total, at most {} in an interval", figure(evidence.total), figure(evidence.max));
    }
    format!("mean {}, highest {}", figure(evidence.mean), figure(evidence.max))
}

/// `2 of 12`, for intervals.
pub(super) fn held(finding: &Finding) -> Option<String> {
    let (held, of) = finding.held_intervals?;
    Some(format!("held for {held} of {of} intervals in a row"))
}

/// How the conditions read: `warning: value > 0.05; critical: value > 0.2; 3 intervals in a row`.
pub(super) fn threshold(finding: &Finding) -> String {
    let order = ["info", "warning", "critical"];
    let mut parts: Vec<String> = order
        .iter()
        .filter_map(|status| Some(format!("{status}: {}", visible(finding.threshold.conditions.get(*status)?))))
        .collect();
    if let Some(hold) = finding.threshold.hold {
        parts.push(format!("{hold} intervals in a row"));
    }
    parts.join("; ")
}

/// One line about where, when and how long.
pub(super) fn occasion(report: &Report) -> String {
    let host = &report.host;
    let memory = match host.memory_bytes {
        0 => String::new(),
        bytes => format!(" · {} of memory", rdiag_model::quantity::bytes(bytes as f64)),
    };
    // The kernel log alone does not always say how many there are.
    let cpus = match host.cpus {
        0 => String::new(),
        cpus => format!(" · {}", plural(cpus as usize, "CPU", "CPUs")),
    };
    format!(
        "{} · {} · Linux {}{cpus}{memory}",
        visible(&host.hostname),
        visible(&report.window.started),
        visible(&host.kernel),
    )
}

/// How long was measured, and what alone: `10.0 s, drill-down 3.1–10.0 s, interrupted, control group /web on its host`.
pub(super) fn measured(report: &Report) -> String {
    let window = &report.window;
    // On a recorded tree all windows see the same instants.
    let drills: Vec<String> = window
        .spans
        .iter()
        .skip(1)
        .filter(|span| span.from > 0.0)
        .map(|span| format!("{:.1}–{:.1} s", span.from, span.until))
        .collect();
    let windows = match drills.len() {
        0 if window.windows > 1 => format!(" in {} windows", window.windows),
        0 => String::new(),
        1 => format!(", drill-down {}", listed(&drills, 1)),
        _ => format!(", drill-downs {}", listed(&drills, 3)),
    };
    let ended = if window.interrupted { ", interrupted" } else { "" };
    // Of Method R the account says whose time it is.
    let group = window.cgroup.as_ref().filter(|_| report.profile.is_none());
    let allotted = window.allotted.as_ref().map_or_else(String::new, |text| format!(" ({text})"));
    let group = group.map_or_else(String::new, |group| format!(", control group {group} on its host{allotted}"));
    // A drill-down after the first window is no part of it: both added up would end before the drill-down does.
    let first = window.spans.first().filter(|_| !drills.is_empty()).map(|span| span.until - span.from);
    format!("{}{windows}{ended}{group}", rdiag_model::quantity::seconds(first.unwrap_or(window.seconds)))
}

/// The windows on the axis of a timeline.
pub(super) fn windows(timeline: &Timeline) -> String {
    let said = |span: &Span| {
        let [from, until] = [span.from, span.until].map(rdiag_model::quantity::seconds);
        format!("{from} to {until}")
    };
    let Some((first, drills)) = timeline.windows.split_first() else { return String::new() };
    let later: Vec<String> = drills.iter().filter(|drill| drill.from > first.from).take(4).map(said).collect();
    match (drills, later.as_slice()) {
        ([], _) => format!("One window, {}.", said(first)),
        (_, []) => format!("First window and drill-down, both {}.", said(first)),
        (_, later) => format!("First window {}; drill-down {} (shaded).", said(first), later.join(", ")),
    }
}

/// Where it is, with the host in front: the title of a page.
pub(super) fn headline(report: &Report) -> String {
    let title = &report.verdict.headline.title;
    format!("{}: {}", visible(&report.host.hostname), title.strip_prefix(BOTTLENECK).unwrap_or(title))
}

/// The verdict as one sentence that needs no title.
pub(super) fn verdict(report: &Report) -> String {
    let headline = report.verdict.headline.to_string();
    headline.strip_prefix(BOTTLENECK).unwrap_or(&headline).to_owned()
}

/// The same with the host in front, for a chat.
pub(super) fn sentence(report: &Report) -> String {
    format!("{}: {}", visible(&report.host.hostname), verdict(report))
}

/// What measuring cost, in a sentence.
pub(super) fn cost(report: &Report) -> String {
    let own = &report.overhead;
    if own.cpu_seconds <= 0.0 && own.max_resident_bytes == 0 {
        return "What measuring cost is not known: this was read from a recorded tree.".into();
    }
    format!(
        "rdiag used {} of CPU time ({} of one CPU) and at most {} of memory.",
        rdiag_model::quantity::seconds(own.cpu_seconds),
        percent(own.cpu_ratio),
        rdiag_model::quantity::bytes(own.max_resident_bytes as f64),
    )
}

/// `1 check`, `3 checks`.
pub(super) fn plural(count: usize, one: &str, many: &str) -> String {
    if count == 1 { format!("1 {one}") } else { format!("{count} {many}") }
}

/// `1 event`, `15.2 k events`.
pub(super) fn counted(count: u64, one: &str, many: &str) -> String {
    format!("{} {}", rdiag_model::quantity::number(count as f64), if count == 1 { one } else { many })
}

/// How far the run could see.
pub(super) fn checks(report: &Report) -> String {
    let checks = &report.coverage.checks;
    let skipped = match checks.skipped {
        0 => String::new(),
        1 => "; 1 does not apply here".into(),
        many => format!("; {many} do not apply here"),
    };
    let unknown = if checks.unknown == 0 { "none".into() } else { checks.unknown.to_string() };
    format!(
        "Of {}, {} could be judged and {unknown} could not{skipped}.",
        plural(checks.all, "check", "checks"),
        checks.judged
    )
}

/// The detail of the headline as a sentence of its own; empty if there is none.
pub(super) fn detail(report: &Report) -> String {
    let detail = report.verdict.headline.detail.as_str();
    // The name of a device, with which a finding's own sentence begins, stays as it is.
    let word = detail.split([' ', ',', ';']).next().unwrap_or_default();
    let is_word = !report.findings.first().is_some_and(|finding| finding.summary.trim_start().starts_with(word));
    let mut chars = detail.chars();
    let sentence = chars.next().map(|first| {
        let end = if detail.ends_with('.') { "" } else { "." };
        let first = if is_word { first.to_uppercase().collect() } else { first.to_string() };
        format!("{first}{}{end}", chars.as_str())
    });
    sentence.unwrap_or_default()
}
