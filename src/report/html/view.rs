//! What the page shows, as the templates want it: strings, and nothing to compute.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::model::quantity::{bytes, percent, seconds, with_unit};
use crate::model::report::{Cell, GapGroup, Plot, TopRow, TopTable};
use crate::model::{Finding, Kind, Report, Resource, Status};
use crate::report::escape::visible_within as short;
use crate::report::{ReportError, lesson, shown, svg, words};

/// How much is shown. The first that keeps the page within its size is taken.
pub(super) struct Limits {
    findings: usize,
    plots: usize,
    rows: usize,
    sentences: usize,
    checks: usize,
    steps: usize,
    /// Longest lesson, in bytes.
    lesson: usize,
    /// Longest text that anybody else chose.
    pub(super) characters: usize,
}

impl Limits {
    /// From what is usual to what always fits.
    pub(super) const ALL: [Self; 3] = [
        Self {
            findings: 30,
            plots: 12,
            rows: 20,
            sentences: 8,
            checks: 200,
            steps: 60,
            lesson: 8_000,
            characters: 1500,
        },
        Self { findings: 15, plots: 6, rows: 8, sentences: 4, checks: 80, steps: 30, lesson: 2_000, characters: 400 },
        Self { findings: 8, plots: 2, rows: 3, sentences: 1, checks: 10, steps: 10, lesson: 500, characters: 120 },
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
    checks: String,
    kinds: Vec<&'static str>,
    matrix: Vec<Row>,
    findings_lead: String,
    findings: Vec<FindingView>,
    more_findings: String,
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
struct Named {
    name: String,
    value: String,
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

#[derive(Serialize)]
struct FindingView {
    /// The cell has been told about before: closed until somebody asks.
    compact: bool,
    class: &'static str,
    anchor: String,
    id: String,
    title: String,
    summary: String,
    who: String,
    deed: String,
    pids: String,
    labels: Vec<Named>,
    plots: Vec<PlotView>,
    log: Vec<String>,
    next: Vec<crate::model::NextStep>,
    others_name: String,
    others: Vec<Other>,
    more_others: String,
    value: String,
    held: String,
    window: String,
    threshold: String,
    origin: String,
    why: String,
    confidence: &'static str,
    reasons: Vec<String>,
    verify: Vec<String>,
    evidence: Vec<EvidenceView>,
}

#[derive(Serialize)]
struct PlotView {
    metric: String,
    instance: String,
    title: String,
    svg: String,
}

#[derive(Serialize)]
struct Other {
    instance: String,
    value: String,
    summary: String,
}

#[derive(Serialize)]
struct EvidenceView {
    metric: String,
    instance: String,
    help: String,
    mean: String,
    max: String,
    total: String,
    source: String,
}

#[derive(Serialize)]
struct Out {
    name: &'static str,
    complete: bool,
    sentences: Vec<String>,
}

#[derive(Serialize)]
struct GapView {
    why: String,
    rules: String,
    metrics: String,
    remedy: String,
}

#[derive(Serialize)]
struct Top {
    title: String,
    rows: Vec<TopRowView>,
    others: String,
    others_name: String,
}

#[derive(Serialize)]
struct TopRowView {
    name: String,
    pid: String,
    command: String,
    cgroup: String,
    value: String,
    share: String,
    width: String,
}

#[derive(Serialize)]
struct Step {
    question: String,
    class: &'static str,
    word: &'static str,
    answer: String,
    when: String,
    teach: String,
    rules: String,
}

#[derive(Serialize)]
struct Check {
    id: String,
    title: String,
    class: &'static str,
    word: &'static str,
    count: String,
    value: String,
    threshold: String,
}

#[derive(Serialize)]
struct ByHand {
    manual: String,
    metrics: String,
}

impl View {
    pub(super) fn of(report: &Report, limits: &Limits) -> Result<Self, ReportError> {
        let groups = shown::fired(report);
        let shown_groups = groups.get(..groups.len().min(limits.findings)).unwrap_or_default();
        let mut plots: Vec<&Plot> = report.plots.iter().take(limits.plots).collect();
        let mut findings = Vec::new();
        for at in 0..shown_groups.len() {
            findings.extend(finding(report, shown_groups, at, &mut plots, limits)?);
        }
        let (headline, detail) = words::headline(report);
        let (all_checks, more_checks) = all_checks(report, limits);
        let gaps = &report.coverage.groups;
        Ok(Self {
            tool: format!("{} {}", report.tool.name, report.tool.version),
            host: report.host.hostname.clone(),
            playbook_title: report.playbook.title.clone(),
            started: report.window.started.clone(),
            status: report.verdict.status.word(),
            headline: headline.to_owned(),
            detail,
            limits: report.verdict.limits.iter().take(limits.rows).cloned().collect(),
            facts: facts(report),
            checks: words::checks(report),
            kinds: Kind::ALL.map(words::kind).to_vec(),
            matrix: matrix(report, shown_groups),
            findings_lead: findings_lead(&groups),
            findings,
            more_findings: more(groups.len(), shown_groups.len(), "more findings are in the JSON report."),
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

fn more(all: usize, shown: usize, text: &str) -> String {
    if all > shown { format!("{} {text}", all - shown) } else { String::new() }
}

fn facts(report: &Report) -> Vec<Named> {
    let (host, window) = (&report.host, &report.window);
    let kind = match (&host.container, host.virtual_machine) {
        (Some(container), _) => format!("container ({container})"),
        (None, true) => "virtual machine".into(),
        (None, false) => "bare metal".into(),
    };
    let ended = if window.interrupted { ", interrupted" } else { "" };
    let drills = if window.windows > 1 { format!(" in {} windows", window.windows) } else { String::new() };
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
        ("Measured", format!("{}{drills}{ended}", seconds(window.seconds))),
        ("Measured as", uid),
    ]
    .into_iter()
    // Recorded trees do not tell everything.
    .filter(|(name, _)| {
        !(*name == "Memory" && host.memory_bytes == 0 || *name == "Up for" && host.uptime_seconds == 0.0)
    })
    .map(|(name, value)| Named { name: name.into(), value })
    .collect()
}

fn class(status: Option<Status>) -> &'static str {
    status.map_or("none", Status::word)
}

fn matrix(report: &Report, groups: &[shown::Group<'_>]) -> Vec<Row> {
    let cell = |cell: &Cell, resource| {
        let link = groups.iter().position(|group| group.lead.resource == resource && group.lead.kind == cell.kind);
        CellView {
            word: words::cell_word(cell),
            class: class(cell.status),
            figure: match (words::cell_figure(cell), cell.status) {
                (figure, Some(Status::Unknown)) if !figure.is_empty() => format!("{figure} checks"),
                (figure, _) => figure,
            },
            note: cell.note.clone().unwrap_or_default(),
            link: link.map(anchor),
        }
    };
    let row = |row: &crate::model::report::MatrixRow| Row {
        name: words::resource(row.resource),
        cells: row.cells.iter().take(Kind::ALL.len()).map(|of| cell(of, row.resource)).collect(),
    };
    report.matrix.iter().take(Resource::ALL.len()).map(row).collect()
}

fn anchor(at: usize) -> String {
    format!("finding-{}", at + 1)
}

fn findings_lead(groups: &[shown::Group<'_>]) -> String {
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

fn finding(
    report: &Report,
    groups: &[shown::Group<'_>],
    at: usize,
    plots: &mut Vec<&Plot>,
    limits: &Limits,
) -> Result<Option<FindingView>, ReportError> {
    let Some(group) = groups.get(at) else { return Ok(None) };
    let finding = group.lead;
    let lead = shown::lead_of_cell(groups, at);
    let culprit = finding.culprit.as_ref();
    let mut drawn = Vec::new();
    // A curve that several findings cite is drawn once.
    for plot in plots.extract_if(.., |plot| cites(finding, plot)) {
        drawn.push(PlotView {
            metric: plot.metric.clone(),
            instance: plot.instance.clone().unwrap_or_default(),
            title: plot.title.clone(),
            svg: svg::curve(plot)?,
        });
    }
    Ok(Some(FindingView {
        compact: lead.is_some() || finding.status == Status::Info,
        class: finding.status.word(),
        anchor: anchor(at),
        id: words::full_id(finding),
        title: finding.title.clone(),
        summary: finding.summary.clone(),
        who: culprit.map(words::who).unwrap_or_default(),
        deed: culprit.map(words::deed).unwrap_or_default(),
        pids: culprit
            .filter(|culprit| culprit.pids.len() > 1)
            .map(|culprit| culprit.pids.iter().map(u32::to_string).collect::<Vec<_>>().join(", "))
            .unwrap_or_default(),
        labels: culprit.map(|culprit| labels(&culprit.labels)).unwrap_or_default(),
        plots: drawn,
        log: finding.log.iter().take(limits.rows).cloned().collect(),
        next: finding.next.iter().take(limits.rows).cloned().collect(),
        others_name: format!("{} of the same", words::plural(group.others.len(), "more", "more")),
        others: group
            .others
            .iter()
            .take(limits.rows)
            .map(|other| Other {
                instance: other.instance.as_deref().map(words::instance).unwrap_or_default(),
                value: words::value(other),
                summary: other.summary.clone(),
            })
            .collect(),
        more_others: more(group.others.len(), limits.rows, "more are in the JSON report."),
        value: words::value(finding),
        held: words::held(finding).unwrap_or_default(),
        window: seconds(finding.window_seconds),
        threshold: words::threshold(finding),
        origin: finding.threshold.origin.clone(),
        why: finding.why.clone(),
        confidence: words::confidence(finding.confidence),
        reasons: finding.confidence_reasons.iter().take(limits.rows).cloned().collect(),
        verify: finding.verify.lines().take(limits.rows).map(str::to_owned).collect(),
        evidence: evidence(report, finding, limits),
    }))
}

fn cites(finding: &Finding, plot: &Plot) -> bool {
    finding.evidence.iter().any(|evidence| {
        evidence.metric == plot.metric && evidence.instance == plot.instance && evidence.window == plot.window
    })
}

fn labels(labels: &BTreeMap<String, String>) -> Vec<Named> {
    let named = labels.iter().take(6);
    let shown = |name: &str| match name {
        "command" => "Command".to_owned(),
        "cgroup" => "Control group".to_owned(),
        "uid" => "User id".to_owned(),
        other => other.to_owned(),
    };
    named.map(|(name, value)| Named { name: shown(name), value: short(value, 300).into_owned() }).collect()
}

fn evidence(report: &Report, finding: &Finding, limits: &Limits) -> Vec<EvidenceView> {
    let view = |evidence: &crate::model::Evidence| {
        let note = report.metrics.get(&evidence.metric);
        let figure = |value: Option<f64>| value.map(|value| with_unit(value, evidence.unit)).unwrap_or_default();
        EvidenceView {
            metric: evidence.metric.clone(),
            instance: evidence.instance.clone().unwrap_or_default(),
            help: note.map(|note| note.help.clone()).unwrap_or_default(),
            mean: figure(evidence.mean),
            max: figure(evidence.max),
            total: if note.is_some_and(|note| note.sums) { figure(evidence.total) } else { String::new() },
            source: evidence.source.clone(),
        }
    };
    finding.evidence.iter().take(limits.rows).map(view).collect()
}

fn ruled_out(report: &Report, limits: &Limits) -> Vec<Out> {
    let out = |cleared: &crate::model::report::RuledOut| {
        let mut sentences: Vec<String> = cleared.sentences.iter().take(limits.sentences).cloned().collect();
        let left = cleared.sentences.len().saturating_sub(limits.sentences);
        if left > 0 {
            sentences.push(format!("{left} more, in the JSON report."));
        }
        Out { name: words::resource(cleared.resource), complete: cleared.complete, sentences }
    };
    report.ruled_out.iter().take(Resource::ALL.len()).map(out).collect()
}

fn gap_view(group: &GapGroup, limits: &Limits) -> GapView {
    GapView {
        why: group.gap.why.clone(),
        rules: words::some(&group.rules, limits.rows),
        metrics: words::some(&group.metrics, limits.rows),
        remedy: group.gap.remedy.clone().unwrap_or_default(),
    }
}

fn not_applicable(report: &Report, limits: &Limits) -> Vec<GapView> {
    let mut by_why: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for gap in &report.coverage.not_applicable {
        by_why.entry(&gap.gap.why).or_default().push(gap.id.clone());
    }
    let view = |(why, ids): (&str, Vec<String>)| GapView {
        why: why.to_owned(),
        rules: String::new(),
        metrics: words::some(&ids, limits.rows),
        remedy: String::new(),
    };
    by_why.into_iter().take(limits.rows * 2).map(view).collect()
}

fn top(table: &TopTable, limits: &Limits) -> Top {
    let label = |row: &TopRow, name: &str| row.labels.get(name).cloned().unwrap_or_default();
    let command = |row: &TopRow| {
        // The name alone, again, tells nothing.
        let command = label(row, "command");
        if command == row.name { String::new() } else { short(&command, 110).into_owned() }
    };
    let rows = table.rows.iter().take(limits.rows).map(|row| TopRowView {
        name: row.name.clone(),
        pid: label(row, "pid"),
        command: command(row),
        cgroup: short(&label(row, "cgroup"), 110).into_owned(),
        value: with_unit(row.value, table.unit),
        share: percent(row.share),
        width: format!("{:.1}", (row.share * 100.0).clamp(0.0, 100.0)),
    });
    Top {
        title: table.title.clone(),
        rows: rows.collect(),
        others: if table.others_count > 0 { with_unit(table.others, table.unit) } else { String::new() },
        others_name: words::plural(table.others_count, "other", "others"),
    }
}

fn steps(report: &Report, limits: &Limits) -> Vec<Step> {
    let step = |step: &crate::model::report::StepOutcome| Step {
        question: step.question.clone(),
        class: step.status.word(),
        word: if step.window.is_none() { "not run" } else { step.status.word() },
        answer: step.answer.clone(),
        when: step.when.clone().unwrap_or_default(),
        teach: lesson::html(&step.teach, limits.lesson),
        rules: words::some(&step.rules, limits.rows),
    };
    report.steps.iter().take(limits.steps).map(step).collect()
}

/// One line per rule, for its worst instance.
fn all_checks(report: &Report, limits: &Limits) -> (Vec<Check>, String) {
    let mut counts: BTreeMap<&str, (usize, &Finding)> = BTreeMap::new();
    for finding in &report.findings {
        counts.entry(&finding.id).or_insert((0, finding)).0 += 1;
    }
    let mut rules: Vec<(usize, &Finding)> = counts.into_values().collect();
    rules.sort_by_key(|(_, finding)| (finding.resource, finding.kind));
    let check = |(count, finding): &(usize, &Finding)| Check {
        id: finding.id.clone(),
        title: finding.title.clone(),
        class: finding.status.word(),
        word: if finding.status == Status::Skipped { "n/a" } else { finding.status.word() },
        count: if *count > 1 { format!("worst of {count}") } else { String::new() },
        value: words::value(finding),
        threshold: words::threshold(finding),
    };
    let checks = rules.iter().take(limits.checks).map(check).collect();
    (checks, more(rules.len(), limits.checks, "more rules are in the JSON report."))
}

fn by_hand(report: &Report, limits: &Limits) -> Vec<ByHand> {
    let mut commands: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for (id, note) in report.metrics.iter().filter(|(_, note)| !note.manual.is_empty()) {
        commands.entry(&note.manual).or_default().push(id.clone());
    }
    let view = |(manual, ids): (&str, Vec<String>)| ByHand {
        manual: manual.to_owned(),
        metrics: words::some(&ids, limits.rows),
    };
    commands.into_iter().take(limits.checks).map(view).collect()
}

fn collectors(report: &Report) -> Vec<Named> {
    let mut times: Vec<(&String, f64)> = report.overhead.collectors.iter().map(|(id, time)| (id, *time)).collect();
    times.sort_by(|(_, a), (_, b)| b.total_cmp(a));
    times.into_iter().take(12).map(|(id, time)| Named { name: id.clone(), value: seconds(time) }).collect()
}
