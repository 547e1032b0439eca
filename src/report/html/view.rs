//! What the page shows, as the templates want it: strings, and nothing to compute.

use serde::Serialize;

use super::anchors::FindingAnchors;
use super::around::{AroundView, around};
use super::finding::{FindingView, Page, finding, problem};
use super::host::{ConsumersView, TimelineView, consumers, timeline};
use super::lists::{
    ByHand, ChangesView, Check, GapView, RowView, RuledOutView, Step, Top, UsualView, all_checks, by_hand, changes,
    collectors, gap_view, not_applicable, ruled_out, steps, top, unmeasured, usual,
};
use super::probes::{Flames, ProbeView, probes};
use super::profile::ProfileView;
use crate::causes::{self, Fired};
use crate::{gist, next, past, rows as checklist, words};
use rdiag_model::quantity::{bytes, seconds};
use rdiag_model::report::{Cell, MatrixRow};
use rdiag_model::{Kind, NextStep, Report, Resource, Status};

/// Earlier days that a time is compared with.
const MOST_DAYS: usize = 4;

/// How much is shown. The first that keeps the page within its size is taken.
pub(super) struct Limits {
    pub(super) findings: usize,
    pub(super) plots: usize,
    pub(super) timeline: bool,
    pub(super) probes: usize,
    pub(super) rows: usize,
    pub(super) sentences: usize,
    pub(super) checks: usize,
    pub(super) steps: usize,
    /// Longest lesson, in bytes.
    pub(super) lesson: usize,
    /// Longest text that is not rdiag's own.
    pub(super) characters: usize,
}

impl Limits {
    /// From what is usual to what always fits.
    pub(super) const ALL: [Self; 3] = [
        Self {
            findings: 30,
            plots: 12,
            timeline: true,
            probes: 24,
            rows: 20,
            sentences: 8,
            checks: 200,
            steps: 60,
            lesson: 8_000,
            characters: 1500,
        },
        Self {
            findings: 15,
            plots: 6,
            timeline: true,
            probes: 12,
            rows: 8,
            sentences: 4,
            checks: 80,
            steps: 30,
            lesson: 2_000,
            characters: 400,
        },
        Self {
            findings: 8,
            plots: 2,
            timeline: false,
            probes: 6,
            rows: 3,
            sentences: 1,
            checks: 10,
            steps: 10,
            lesson: 500,
            characters: 120,
        },
    ];
}

#[derive(Serialize)]
pub(super) struct View {
    tool: String,
    host: String,
    playbook_title: String,
    started: String,
    status: &'static str,
    /// The verdict as one sentence, for the clipboard.
    sentence: String,
    headline: String,
    detail: String,
    limits: Vec<String>,
    limits_name: String,
    timeline: Option<TimelineView>,
    consumers: Option<ConsumersView>,
    around: Option<AroundView>,
    changes: Option<ChangesView>,
    usual: Vec<UsualView>,
    next: Vec<NextStep>,
    facts: Vec<Named>,
    profile: Option<ProfileView>,
    checks: String,
    kinds: Vec<&'static str>,
    matrix: Vec<Row>,
    quiet: Vec<QuietView>,
    unchecked: String,
    findings_lead: String,
    problems: Vec<FindingView>,
    notes: Vec<FindingView>,
    history: Vec<FindingView>,
    history_name: String,
    more_findings: String,
    probes: Vec<ProbeView>,
    more_probes: String,
    passed_name: String,
    ruled_out: Vec<RuledOutView>,
    gaps_name: String,
    gaps: Vec<GapView>,
    more_gaps: String,
    top: Vec<Top>,
    steps: Vec<Step>,
    measured_count: String,
    all_checks: Vec<Check>,
    more_checks: String,
    by_hand: Vec<ByHand>,
    not_applicable: Vec<GapView>,
    unmeasured_name: String,
    unmeasured: Vec<RowView>,
    cost: String,
    collectors: Vec<Named>,
}

#[derive(Serialize)]
pub(super) struct Named {
    pub(super) name: String,
    pub(super) value: String,
}

#[derive(Serialize)]
struct Row {
    name: &'static str,
    cells: Vec<CellView>,
}

/// A resource of which every check was made, and none fired.
#[derive(Serialize)]
struct QuietView {
    name: &'static str,
    figure: String,
}

#[derive(Serialize)]
struct CellView {
    word: &'static str,
    class: &'static str,
    figure: String,
    note: String,
    link: Option<String>,
}

impl View {
    /// Bytes of all flame graphs, which do not count against the size of the page.
    pub(super) fn flames(&self) -> usize {
        let of_task = self.profile.as_ref().map_or(0, ProfileView::flame_bytes);
        of_task + self.probes.iter().map(ProbeView::flames).sum::<usize>()
    }

    pub(super) fn of(report: &Report, flames: &Flames, limits: &Limits) -> Self {
        let fired = causes::fired(report);
        let anchors = FindingAnchors::of_fired(report, &fired, limits.findings);
        let plots = report.plots.iter().take(limits.plots).collect();
        let mut page = Page { report, anchors: &anchors, plots, limits };
        let problems: Vec<_> = fired.problems.iter().filter_map(|of| problem(&mut page, of)).collect();
        let notes: Vec<_> = fired.notes.iter().filter_map(|group| finding(&mut page, group, true)).collect();
        let history: Vec<_> = fired.history.iter().filter_map(|group| finding(&mut page, group, true)).collect();
        let (all_checks, more_checks) = all_checks(report, limits);
        let (probes, more_probes) = probes(report, flames, limits);
        let gaps = &report.coverage.groups;
        let rows = gist::rows(report);
        let limiting: Vec<String> = report.verdict.limits.iter().take(limits.rows).cloned().collect();
        let resources = Resource::ALL.len();
        let unchecked = rows.unchecked.iter().take(resources).map(|row| words::resource(row.resource));
        let unchecked = unchecked.collect::<Vec<_>>().join(", ");
        let passed = report.findings.iter().filter(|finding| finding.status == Status::Ok).count();
        Self {
            tool: format!("{} {}", report.tool.name, report.tool.version),
            host: report.host.hostname.clone(),
            playbook_title: report.playbook.title.clone(),
            started: report.window.started.clone(),
            status: report.verdict.status.word(),
            sentence: words::sentence(report),
            headline: words::headline(report),
            detail: words::detail(report),
            limits_name: words::plural(limiting.len(), "limit of this conclusion", "limits of this conclusion"),
            limits: limiting,
            timeline: timeline(report, &anchors).filter(|_| limits.timeline),
            consumers: report.consumers.first().map(|first| consumers(first, limits)),
            around: around(report).filter(|_| limits.timeline),
            changes: changes(report, limits),
            usual: report.usual.iter().take(MOST_DAYS).map(usual).collect(),
            next: next::actions(report),
            facts: facts(report),
            profile: report.profile.as_ref().map(|profile| ProfileView::of(profile, limits)),
            checks: words::checks(report),
            kinds: Kind::ALL.map(words::kind).to_vec(),
            matrix: rows.telling.iter().take(resources).map(|row| row_view(report, row, &anchors)).collect(),
            quiet: rows.quiet.iter().take(resources).map(|row| quiet(row)).collect(),
            unchecked,
            findings_lead: findings_lead(&fired),
            more_findings: more(shown(&fired), limits.findings, "more findings are in the JSON report."),
            problems,
            notes,
            history_name: past::folded(&fired.history.iter().map(|group| group.lead).collect::<Vec<_>>()),
            history,
            probes,
            more_probes,
            passed_name: format!("{} passed", words::plural(passed, "check", "checks")),
            ruled_out: ruled_out(report, limits),
            gaps_name: gaps_name(report),
            gaps: gaps.iter().take(limits.rows * 2).map(|gap| gap_view(gap, limits)).collect(),
            more_gaps: more(gaps.len(), limits.rows * 2, "more causes are in the JSON report."),
            top: report.top.iter().take(8).map(|table| top(table, limits)).collect(),
            steps: steps(report, limits),
            measured_count: format!(
                "{} metrics were measured, {} readings were not available.",
                report.coverage.measured.len(),
                report.coverage.unavailable.len()
            ),
            all_checks,
            more_checks,
            by_hand: by_hand(report, limits),
            not_applicable: not_applicable(report, limits),
            unmeasured_name: checklist::counted(&report.coverage).unwrap_or_default(),
            unmeasured: unmeasured(report, limits),
            cost: words::cost(report),
            collectors: collectors(report),
        }
    }
}

pub(super) fn more(all: usize, shown: usize, text: &str) -> String {
    if all > shown { format!("{} {text}", all - shown) } else { String::new() }
}

fn facts(report: &Report) -> Vec<Named> {
    let host = &report.host;
    let kind = match (&host.container, host.virtual_machine) {
        (Some(container), _) => format!("container ({container})"),
        (None, true) => "virtual machine".into(),
        (None, false) => "bare metal".into(),
    };
    let cpus = match host.cpus_present {
        present if present > host.cpus => format!("{} online of {present}", host.cpus),
        _ => host.cpus.to_string(),
    };
    let uid = if host.uid == 0 { "root".to_owned() } else { format!("uid {}", host.uid) };
    [
        ("System", host.os.clone()),
        ("Kernel", format!("{} {}", host.kernel, host.arch)),
        ("CPUs", cpus),
        ("Memory", bytes(host.memory_bytes as f64)),
        ("Runs on", kind),
        ("Up for", seconds(host.uptime_seconds)),
        ("Measured", words::measured(report)),
        ("Measured as", uid),
    ]
    .into_iter()
    // Recorded trees do not tell everything.
    .filter(|(name, _)| match *name {
        "Memory" => host.memory_bytes != 0,
        "Up for" => host.uptime_seconds != 0.0,
        "CPUs" => host.cpus != 0,
        _ => true,
    })
    .chain(words::recipe(report).map(|(said, command)| ("Exercise", format!("{said} The same again: {command}"))))
    .map(|(name, value)| Named { name: name.into(), value })
    .collect()
}

fn class(status: Option<Status>) -> &'static str {
    status.map_or("none", Status::word)
}

fn row_view(report: &Report, row: &MatrixRow, anchors: &FindingAnchors) -> Row {
    let cell = |cell: &Cell| CellView {
        word: words::cell_word(cell),
        class: class(cell.status),
        figure: words::cell_figure(cell),
        note: cell.note.clone().unwrap_or_default(),
        link: anchors.of_cell(report, row.resource, cell.kind),
    };
    Row { name: words::resource(row.resource), cells: row.cells.iter().take(Kind::ALL.len()).map(cell).collect() }
}

/// The utilization of a quiet resource says how far it is from being busy.
fn quiet(row: &MatrixRow) -> QuietView {
    let figure = row.cells.iter().find(|cell| cell.kind == Kind::Utilization).map(words::cell_figure);
    QuietView { name: words::resource(row.resource), figure: figure.unwrap_or_default() }
}

/// What could not be checked, whether that is a rule or only a reading.
fn gaps_name(report: &Report) -> String {
    match report.coverage.checks.unknown {
        0 => "No check unavailable, but some readings".to_owned(),
        count => format!("{} unavailable", words::plural(count, "check", "checks")),
    }
}

/// Findings that have a place of their own.
fn shown(fired: &Fired<'_>) -> usize {
    let problems: usize = fired.problems.iter().map(|problem| 1 + problem.also.len()).sum();
    problems + fired.notes.len() + fired.history.len()
}

fn findings_lead(fired: &Fired<'_>) -> String {
    let findings: usize = fired.problems.iter().map(|problem| 1 + problem.also.len()).sum();
    match fired.problems.len() {
        0 => "No problem found: no check fired as a warning or worse.".to_owned(),
        count if count == findings => {
            format!("{}, the most urgent first.", words::plural(count, "problem", "problems"))
        }
        count => {
            format!("{} seen by {findings} checks, the most urgent first.", words::plural(count, "problem", "problems"))
        }
    }
}
