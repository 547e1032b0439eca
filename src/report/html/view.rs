//! What the page shows, as the templates want it: strings, and nothing to compute.

use serde::Serialize;

use super::finding::{FindingView, finding};
use super::lists::{
    ByHand, Check, GapView, Out, Step, Top, all_checks, by_hand, collectors, gap_view, not_applicable, ruled_out,
    steps, top,
};
use super::probes::{Flames, ProbeView, probes};
use super::profile::ProfileView;
use crate::report::{ReportError, groups, words};
use rdiag_model::quantity::{bytes, seconds};
use rdiag_model::report::{Cell, Plot};
use rdiag_model::{Kind, Report, Resource, Status};

/// How much is shown. The first that keeps the page within its size is taken.
pub(super) struct Limits {
    pub(super) findings: usize,
    pub(super) plots: usize,
    pub(super) probes: usize,
    pub(super) rows: usize,
    pub(super) sentences: usize,
    pub(super) checks: usize,
    pub(super) steps: usize,
    /// Longest lesson, in bytes.
    pub(super) lesson: usize,
    /// Longest text that anybody else chose.
    pub(super) characters: usize,
}

impl Limits {
    /// From what is usual to what always fits.
    pub(super) const ALL: [Self; 3] = [
        Self {
            findings: 30,
            plots: 12,
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
    headline: String,
    detail: String,
    limits: Vec<String>,
    facts: Vec<Named>,
    profile: Option<ProfileView>,
    checks: String,
    kinds: Vec<&'static str>,
    matrix: Vec<Row>,
    findings_lead: String,
    findings: Vec<FindingView>,
    more_findings: String,
    probes: Vec<ProbeView>,
    more_probes: String,
    ruled_out: Vec<Out>,
    gaps: Vec<GapView>,
    more_gaps: String,
    top: Vec<Top>,
    steps: Vec<Step>,
    measured_count: String,
    all_checks: Vec<Check>,
    more_checks: String,
    by_hand: Vec<ByHand>,
    not_applicable: Vec<GapView>,
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

    pub(super) fn of(report: &Report, flames: &Flames, limits: &Limits) -> Result<Self, ReportError> {
        let groups = groups::fired(report);
        let shown_groups = groups.get(..groups.len().min(limits.findings)).unwrap_or_default();
        let mut plots: Vec<&Plot> = report.plots.iter().take(limits.plots).collect();
        let mut findings = Vec::new();
        for at in 0..shown_groups.len() {
            findings.extend(finding(report, shown_groups, at, &mut plots, limits)?);
        }
        let (all_checks, more_checks) = all_checks(report, limits);
        let (probes, more_probes) = probes(report, flames, limits)?;
        let gaps = &report.coverage.groups;
        Ok(Self {
            tool: format!("{} {}", report.tool.name, report.tool.version),
            host: report.host.hostname.clone(),
            playbook_title: report.playbook.title.clone(),
            started: report.window.started.clone(),
            status: report.verdict.status.word(),
            headline: report.verdict.headline.title.clone(),
            detail: words::detail(report),
            limits: report.verdict.limits.iter().take(limits.rows).cloned().collect(),
            facts: facts(report),
            profile: report.profile.as_ref().map(|profile| ProfileView::of(profile, limits)).transpose()?,
            checks: words::checks(report),
            kinds: Kind::ALL.map(words::kind).to_vec(),
            matrix: matrix(report, shown_groups),
            findings_lead: findings_lead(&groups),
            findings,
            more_findings: more(groups.len(), shown_groups.len(), "more findings are in the JSON report."),
            probes,
            more_probes,
            ruled_out: ruled_out(report, limits),
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
            cost: words::cost(report),
            collectors: collectors(report),
        })
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
    .filter(|(name, _)| {
        !(*name == "Memory" && host.memory_bytes == 0 || *name == "Up for" && host.uptime_seconds == 0.0)
    })
    .chain(words::recipe(report).map(|(said, command)| ("Exercise", format!("{said} The same again: {command}"))))
    .map(|(name, value)| Named { name: name.into(), value })
    .collect()
}

fn class(status: Option<Status>) -> &'static str {
    status.map_or("none", Status::word)
}

fn matrix(report: &Report, groups: &[groups::Group<'_>]) -> Vec<Row> {
    let cell = |cell: &Cell, resource| {
        let link = groups.iter().position(|group| group.lead.resource == resource && group.lead.kind == cell.kind);
        CellView {
            word: words::cell_word(cell),
            class: class(cell.status),
            figure: words::cell_figure(cell),
            note: cell.note.clone().unwrap_or_default(),
            link: link.map(anchor),
        }
    };
    let row = |row: &rdiag_model::report::MatrixRow| Row {
        name: words::resource(row.resource),
        cells: row.cells.iter().take(Kind::ALL.len()).map(|of| cell(of, row.resource)).collect(),
    };
    report.matrix.iter().take(Resource::ALL.len()).map(row).collect()
}

pub(super) fn anchor(at: usize) -> String {
    format!("finding-{}", at + 1)
}

fn findings_lead(groups: &[groups::Group<'_>]) -> String {
    let count = |status| groups.iter().filter(|group| group.lead.status == status).count();
    let named: Vec<String> = [Status::Critical, Status::Warning, Status::Info]
        .into_iter()
        .filter(|status| count(*status) > 0)
        .map(|status| format!("{} {}", count(status), status.word()))
        .collect();
    if named.is_empty() {
        return "No rule fired.".into();
    }
    format!("{}. In order of what to look at first.", named.join(", "))
}
