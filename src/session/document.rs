//! Findings → Report: the document of a recording, with what is known of its metrics, probes and exercises.

use std::collections::BTreeMap;

use crate::analyze::Analysis;
use rdiag_model::report::PlaybookInfo;
use rdiag_model::{Recording, Report};
use rdiag_playbook::{Plan, advice};
use rdiag_probes as probes;
use rdiag_report::{self as report, Parts, ProbeTexts};

/// The document of a recording that was analysed by a plan. `exercises` names, by rule, the one that brings the same onto
/// a host.
#[must_use]
pub fn document(
    recording: &Recording,
    analysis: &Analysis,
    plan: &Plan,
    exercises: &BTreeMap<String, String>,
) -> Report {
    let mut findings = analysis.findings.clone();
    for finding in &mut findings {
        finding.lab = exercises.get(&finding.id).cloned();
    }
    let rules = plan.windows.iter().flatten().flat_map(|planned| &planned.rules);
    let levels = rules.map(|(rule, _)| (rule.id.clone(), rule.levels())).collect();
    report::build(Parts {
        recording,
        metrics: &analysis.metrics,
        findings,
        profile: analysis.profile.clone(),
        answer: analysis.answer.clone(),
        steps: analysis.steps.clone(),
        playbook: PlaybookInfo {
            name: plan.playbook.name.clone(),
            title: plan.playbook.title.clone(),
            params: plan.params.clone(),
        },
        titles: &super::catalogue::metric,
        probes: &probe_texts,
        levels: &levels,
        may_be_behind: &|row| advice::book().mentioned.may_be_behind(row),
    })
}

fn probe_texts(id: &str) -> Option<ProbeTexts> {
    let def = probes::find(id)?;
    Some(ProbeTexts { question: def.question, caveats: def.caveats, metrics: def.metrics })
}
