//! A judged recording → what is compared of it with other hosts.

use std::collections::{BTreeMap, BTreeSet};

use rdiag_fleet::{Host, Judgement, Measure};

use crate::session::{self, Analysis};
use rdiag_model::quantity::bytes;
use rdiag_model::{Facts, Finding, Kind, Reading, Recording, Report, Status, Unit};

/// Things that come and go: on another host the same name is not the same thing.
const FLEETING: [&str; 6] = ["process", "task", "thread", "udp_socket", "destination", "clock"];
/// How metrics are called that count what happened before the window: the longer a host is up, the more.
const OF_THE_PAST: [&str; 4] = ["since_boot", "so_far", "recorded_errors", "uptime"];

pub(super) fn reduce(recording: &Recording, analysis: &Analysis, report: &Report) -> Host {
    Host {
        name: recording.host.hostname.clone(),
        file: String::new(),
        report: None,
        group: String::new(),
        started: recording.started.clone(),
        seconds: report.window.seconds,
        playbook: report.playbook.name.clone(),
        verdict: report.verdict.status,
        headline: report.verdict.headline.to_string(),
        findings: analysis.findings.iter().filter(|finding| finding.status != Status::Skipped).map(judgement).collect(),
        readings: readings(analysis),
        facts: facts(recording),
    }
}

fn judgement(finding: &Finding) -> Judgement {
    let fired = finding.status >= Status::Warning;
    Judgement {
        rule: finding.id.clone(),
        title: finding.title.clone(),
        resource: finding.resource,
        kind: finding.kind,
        role: finding.instance.clone().filter(|_| !is_fleeting(finding)).unwrap_or_default(),
        // The comparison is about the window.
        status: if finding.is_past() { Status::Ok } else { finding.status },
        confidence: finding.confidence,
        summary: if fired { finding.summary.clone() } else { String::new() },
        culprit: finding.culprit.as_ref().filter(|_| fired).map(|culprit| culprit.name.clone()),
    }
}

/// Whether a finding is about something that only this host has.
fn is_fleeting(finding: &Finding) -> bool {
    let own = finding.evidence.iter().filter(|evidence| evidence.instance == finding.instance);
    own.filter_map(|evidence| session::metric(&evidence.metric)?.dimension).any(|of| FLEETING.contains(&of))
}

/// The readings that other hosts have as well. The first window comes first: later ones look at what it found.
fn readings(analysis: &Analysis) -> Vec<Measure> {
    let errors: BTreeSet<&str> = analysis
        .findings
        .iter()
        .filter(|finding| finding.kind == Kind::Errors)
        .flat_map(|finding| finding.evidence.iter().map(|evidence| evidence.metric.as_str()))
        .collect();
    let mut all = Vec::new();
    for (metric, reading) in analysis.metrics.iter().flat_map(|metrics| &metrics.readings) {
        let Reading::Measured { unit, dimension, instances, .. } = reading else { continue };
        let is_fleeting = dimension.as_deref().is_some_and(|dimension| FLEETING.contains(&dimension));
        if is_fleeting || OF_THE_PAST.iter().any(|name| metric.contains(name)) {
            continue;
        }
        let is_count = matches!(unit, Unit::Count | Unit::PerSecond);
        for (instance, stats) in instances {
            let Ok(stats) = stats else { continue };
            all.push(Measure {
                metric: metric.clone(),
                role: instance.clone(),
                unit: *unit,
                value: if *unit == Unit::Count { stats.total } else { stats.mean },
                is_error: is_count && errors.contains(metric.as_str()),
            });
        }
    }
    all
}

/// What is constant on the host and may explain that it is unlike others.
fn facts(recording: &Recording) -> BTreeMap<String, String> {
    let host: &Facts = &recording.host;
    let yes = |yes: bool| if yes { "yes" } else { "no" }.to_owned();
    // What firmware keeps for itself differs from host to host.
    let gib = (host.memory_bytes as f64 / f64::from(1 << 30)).round() * f64::from(1 << 30);
    let memory = if gib > 0.0 { gib } else { host.memory_bytes as f64 };
    [
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
    .into()
}
