//! A judged recording → rows.

use std::collections::{BTreeMap, BTreeSet};

use super::roles::{dimension_of, is_fleeting, process_name, role};
use super::setup;
use crate::analyze::Analysis;
use rdiag_model::finding::counts_the_past;
use rdiag_model::quantity::bytes;
use rdiag_model::rows::{FORMAT_VERSION, FactRow, FindingRow, Key, ReadingRow, Row, RunRow};
use rdiag_model::{Facts, Finding, Kind, Metrics, Reading, Recording, Report, Stats, Status, Unit};

/// Whether hosts are compared by a metric. Of what is counted since the kernel started, there is the more the longer a host is up.
#[must_use]
pub fn is_compared(metric: &str, dimension: Option<&str>) -> bool {
    !is_fleeting(dimension) && !counts_the_past(metric) && !metric.contains("uptime")
}

/// Metrics that count errors, as rules cite them.
#[must_use]
pub fn errors(findings: &[Finding]) -> BTreeSet<&str> {
    let of_errors = findings.iter().filter(|finding| finding.kind == Kind::Errors);
    of_errors.flat_map(|finding| finding.evidence.iter().map(|evidence| evidence.metric.as_str())).collect()
}

/// The figure by which hosts are compared.
#[must_use]
pub fn figure(stats: &Stats, unit: Unit) -> f64 {
    if unit == Unit::Count { stats.total } else { stats.mean }
}

/// Whether a metric counts errors.
#[must_use]
pub fn is_error(metric: &str, unit: Unit, errors: &BTreeSet<&str>) -> bool {
    matches!(unit, Unit::Count | Unit::PerSecond) && errors.contains(metric)
}

/// All rows of a run: itself first, then facts, findings and readings.
pub fn rows<'r>(
    recording: &'r Recording,
    analysis: &'r Analysis,
    report: &'r Report,
    file: &str,
    group: &str,
) -> impl Iterator<Item = Row> + 'r {
    let key = key(recording, file, group);
    let run = Row::Runs(Box::new(run(recording, analysis, report, &key, file)));
    let (facts_key, of_findings) = (key.clone(), key.clone());
    let of_facts = move |(fact, text)| Row::Facts(FactRow { key: facts_key.clone(), fact, text });
    let facts = facts(recording).into_iter().map(of_facts);
    let findings = analysis.findings.iter().filter(|finding| finding.status != Status::Skipped);
    let findings = findings.map(move |found| Row::Findings(Box::new(finding(recording, found, &of_findings))));
    let errors = errors(&analysis.findings);
    let readings = analysis.metrics.iter().enumerate().flat_map(move |(window, metrics)| {
        let (key, errors) = (key.clone(), errors.clone());
        metrics.readings.iter().flat_map(move |(metric, reading)| {
            of_metric(recording, metrics, metric, reading, &errors)
                .into_iter()
                .map(|row| Row::Readings(Box::new(ReadingRow { key: key.clone(), window_index: window, ..row })))
                .collect::<Vec<_>>()
        })
    });
    std::iter::once(run).chain(facts).chain(findings).chain(readings)
}

/// A host of which there is no recording that could be judged.
#[must_use]
pub fn row_without_run(host: &str, why: &str, detail: &str) -> Row {
    let none = Facts::default();
    let key = Key {
        format_version: FORMAT_VERSION,
        run: setup::hash(&format!("rdiag run {host} {why} {detail}")),
        host: host.to_owned(),
        grp: String::new(),
    };
    Row::Runs(Box::new(RunRow {
        key,
        file: String::new(),
        machine: None,
        boot: None,
        started: String::new(),
        seconds: 0.0,
        clock_synchronized: None,
        clock_error_seconds: None,
        late_seconds: None,
        rdiag: String::new(),
        playbook: String::new(),
        kernel: none.kernel,
        os: none.os,
        arch: String::new(),
        cpus: 0,
        memory_bytes: 0,
        virtual_machine: false,
        verdict: Status::Unknown,
        headline: detail.to_owned(),
        unknown: 0,
        not_judged: Some(why.to_owned()),
    }))
}

fn key(recording: &Recording, file: &str, group: &str) -> Key {
    let (host, setup) = (&recording.host, &recording.setup);
    let own =
        format!("{:?} {:?} {} {} {}", setup.machine, setup.boot, host.hostname, recording.started, recording.playbook);
    Key {
        format_version: FORMAT_VERSION,
        run: setup::hash(&format!("rdiag run {own} {file}")),
        host: host.hostname.clone(),
        grp: group.to_owned(),
    }
}

fn run(recording: &Recording, analysis: &Analysis, report: &Report, key: &Key, file: &str) -> RunRow {
    let (host, setup) = (&recording.host, &recording.setup);
    let unknown = analysis.findings.iter().filter(|finding| finding.status == Status::Unknown).count();
    RunRow {
        key: key.clone(),
        file: file.to_owned(),
        machine: setup.machine.clone(),
        boot: setup.boot.clone(),
        started: recording.started.clone(),
        seconds: report.window.seconds,
        clock_synchronized: setup.clock.map(|clock| clock.synchronized),
        clock_error_seconds: setup.clock.map(|clock| clock.max_error_seconds),
        late_seconds: setup.begin.as_ref().map(|begin| begin.late_seconds),
        rdiag: recording.tool.version.clone(),
        playbook: report.playbook.name.clone(),
        kernel: host.kernel.clone(),
        os: host.os.clone(),
        arch: host.arch.clone(),
        cpus: host.cpus,
        memory_bytes: host.memory_bytes,
        virtual_machine: host.virtual_machine,
        verdict: report.verdict.status,
        headline: report.verdict.headline.to_string(),
        unknown,
        not_judged: (report.verdict.status == Status::Unknown).then(|| "unknown".to_owned()),
    }
}

fn finding(recording: &Recording, finding: &Finding, key: &Key) -> FindingRow {
    let instance = finding.instance.clone().unwrap_or_default();
    let dimension = dimension_of(finding);
    let culprit = finding.culprit.as_ref();
    FindingRow {
        key: key.clone(),
        rule: finding.id.clone(),
        title: finding.title.clone(),
        resource: finding.resource,
        kind: finding.kind,
        role: if is_fleeting(dimension) { String::new() } else { role(recording, dimension, &instance) },
        instance,
        status: finding.status,
        is_past: finding.is_past(),
        value: finding.value.and_then(finite),
        unit: finding.unit,
        confidence: finding.confidence,
        summary: finding.summary.clone(),
        culprit_kind: culprit.map(|culprit| culprit.kind.clone()),
        culprit: culprit.map(|culprit| culprit.name.clone()),
        share: culprit.and_then(|culprit| culprit.share).and_then(finite),
        held: finding.held_intervals.map(|(held, _)| held),
        held_of: finding.held_intervals.map(|(_, of)| of),
        reason: finding.unavailable.as_ref().map(|gap| gap.to_string()),
    }
}

/// The rows of a metric in one window; processes of one name are added up.
fn of_metric(
    recording: &Recording,
    metrics: &Metrics,
    metric: &str,
    reading: &Reading,
    errors: &BTreeSet<&str>,
) -> Vec<ReadingRow> {
    let Reading::Measured { unit, dimension, source, rank, instances } = reading else { return Vec::new() };
    let dimension = dimension.as_deref();
    let row = |instance: &str, role: String, stats: &Stats| ReadingRow {
        key: Key::default(),
        window_index: 0,
        metric: metric.to_owned(),
        dimension: dimension.unwrap_or_default().to_owned(),
        instance: instance.to_owned(),
        role,
        instances: 1,
        unit: *unit,
        value: if is_compared(metric, dimension) { finite(figure(stats, *unit)) } else { None },
        is_error: is_error(metric, *unit, errors),
        mean: finite(stats.mean),
        min: finite(stats.min),
        max: finite(stats.max),
        p95: finite(stats.p95),
        last: finite(stats.last),
        total: finite(stats.total),
        source: source.clone(),
        fallback: *rank > 0,
        discarded: stats.discarded,
    };
    let measured = instances.iter().filter_map(|(instance, stats)| Some((instance, stats.as_ref().ok()?)));
    if dimension != Some("process") {
        return measured.map(|(instance, stats)| row(instance, role(recording, dimension, instance), stats)).collect();
    }
    let mut by_name: BTreeMap<&str, ReadingRow> = BTreeMap::new();
    for (instance, stats) in measured {
        let name = process_name(metrics, "process", instance).unwrap_or("unknown");
        let own = row(name, format!("process:{name}"), stats);
        match by_name.get_mut(name) {
            None => drop(by_name.insert(name, own)),
            Some(sum) => add(sum, &own),
        }
    }
    by_name.into_values().collect()
}

/// Sums of what can be added up; of the others there is none for several processes together.
fn add(sum: &mut ReadingRow, other: &ReadingRow) {
    let both = |a: Option<f64>, b: Option<f64>| Some(a? + b?).and_then(finite);
    (sum.mean, sum.last, sum.total) =
        (both(sum.mean, other.mean), both(sum.last, other.last), both(sum.total, other.total));
    (sum.min, sum.max, sum.p95) = (None, None, None);
    sum.instances += 1;
    sum.discarded += other.discarded;
}

/// JSON has no other numbers.
fn finite(value: f64) -> Option<f64> {
    Some(value).filter(|value| value.is_finite())
}

/// What is constant on the host and may explain that it is unlike others.
#[must_use]
pub fn facts(recording: &Recording) -> BTreeMap<String, String> {
    let host: &Facts = &recording.host;
    let yes = |yes: bool| if yes { "yes" } else { "no" }.to_owned();
    // What firmware keeps for itself differs from host to host.
    let gib = (host.memory_bytes as f64 / f64::from(1 << 30)).round() * f64::from(1 << 30);
    let memory = if gib > 0.0 { gib } else { host.memory_bytes as f64 };
    let mut all: BTreeMap<String, String> = [
        ("kernel", host.kernel.clone()),
        ("os", host.os.clone()),
        ("arch", host.arch.clone()),
        ("cpus", host.cpus.to_string()),
        ("memory", bytes(memory)),
        ("cgroup", host.cgroup.clone()),
        ("virtual", yes(host.virtual_machine)),
        ("container", host.container.clone().unwrap_or_else(|| "no".to_owned())),
        ("rdiag", recording.tool.version.clone()),
        ("recorded by root", yes(host.uid == 0)),
    ]
    .map(|(name, value)| (name.to_owned(), value))
    .into();
    if let Some(clock) = recording.setup.clock {
        all.insert("clock synchronized".to_owned(), yes(clock.synchronized));
    }
    for (fact, value) in &recording.setup.facts {
        all.entry(fact.clone()).or_insert_with(|| value.clone());
    }
    all
}
