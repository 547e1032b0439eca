//! A judged recording → what is compared of it with other hosts.

use rdiag_fleet::{Host, Judgement, Measure};

use rdiag_model::{Finding, Reading, Recording, Report, Status};
use rdiag_session as session;
use rdiag_session::{Analysis, dimension_of, is_fleeting, role};

pub(super) fn reduce(recording: &Recording, analysis: &Analysis, report: &Report) -> Host {
    let findings = analysis.findings.iter().filter(|finding| finding.status != Status::Skipped);
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
        findings: findings.map(|finding| judgement(recording, finding)).collect(),
        readings: readings(recording, analysis),
        facts: session::facts(recording),
    }
}

fn judgement(recording: &Recording, finding: &Finding) -> Judgement {
    let fired = finding.status >= Status::Warning;
    let dimension = dimension_of(finding);
    let role = finding.instance.as_deref().filter(|_| !is_fleeting(dimension)).map(|it| role(recording, dimension, it));
    Judgement {
        rule: finding.id.clone(),
        title: finding.title.clone(),
        resource: finding.resource,
        kind: finding.kind,
        role: role.unwrap_or_default(),
        // The comparison is about the window.
        status: if finding.is_past() { Status::Ok } else { finding.status },
        confidence: finding.confidence,
        summary: if fired { finding.summary.clone() } else { String::new() },
        culprit: finding.culprit.as_ref().filter(|_| fired).map(|culprit| culprit.name.clone()),
    }
}

/// The readings that other hosts have as well. The first window comes first: later ones look at what it found.
fn readings(recording: &Recording, analysis: &Analysis) -> Vec<Measure> {
    let errors = session::errors(&analysis.findings);
    let mut all = Vec::new();
    for (metric, reading) in analysis.metrics.iter().flat_map(|metrics| &metrics.readings) {
        let Reading::Measured { unit, dimension, instances, .. } = reading else { continue };
        let dimension = dimension.as_deref();
        if !session::is_compared(metric, dimension) {
            continue;
        }
        for (instance, stats) in instances {
            let Ok(stats) = stats else { continue };
            all.push(Measure {
                metric: metric.clone(),
                role: role(recording, dimension, instance),
                unit: *unit,
                value: session::figure(stats, *unit),
                is_error: session::is_error(metric, *unit, &errors),
            });
        }
    }
    all
}
