//! Recording → Metrics → Findings, and what became of each step.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::metrics;
use crate::model::report::StepOutcome;
use crate::model::{Finding, LogLine, MetricDef, Metrics, Recording, Status, Window};
use crate::playbook::{Plan, PlannedStep, Step};
use crate::rules::expression::{Context, Expressions};
use crate::rules::{Judge, Scope};

/// What follows from a recording.
pub struct Analysis {
    /// Readings by window.
    pub metrics: Vec<Metrics>,
    /// One per rule and instance.
    pub findings: Vec<Finding>,
    /// The steps in the playbook's order.
    pub steps: Vec<StepOutcome>,
    facts: crate::model::Facts,
}

/// Judges a recording by a plan. Nothing but the recording is looked at: the same file gives the same findings anywhere.
#[must_use]
pub fn analyze(recording: &Recording, plan: &Plan) -> Analysis {
    let mut all_metrics = Vec::new();
    let mut findings: Vec<Finding> = Vec::new();
    let mut outcomes: BTreeMap<String, StepOutcome> = BTreeMap::new();
    for (index, window) in recording.windows.iter().enumerate() {
        let catalogue = catalogue_of(window);
        let metrics = Arc::new(metrics::evaluate(window, &recording.host, &catalogue));
        let log: Vec<LogLine> = window.collectors.values().flat_map(|record| record.log.clone()).collect();
        let judge =
            Judge::new(Scope { facts: &recording.host, metrics: Arc::clone(&metrics), window: index, log: &log });
        let mut judged: BTreeSet<&str> = BTreeSet::new();
        for planned in plan.windows.iter().flatten().filter(|planned| window.steps.contains(&planned.step.id)) {
            for (rule, origin) in &planned.rules {
                if judged.insert(&rule.id) {
                    findings.extend(judge.judge(rule, origin));
                }
            }
            let outcome = outcome(planned, Some(index), &findings);
            outcomes.insert(planned.step.id.clone(), outcome);
        }
        drop(judge);
        all_metrics.push(Arc::unwrap_or_clone(metrics));
    }
    let step = |planned: &PlannedStep| {
        let known = outcomes.get(&planned.step.id).cloned();
        known.unwrap_or_else(|| outcome(planned, None, &findings))
    };
    let by_id: BTreeMap<&str, StepOutcome> =
        plan.windows.iter().flatten().map(|planned| (planned.step.id.as_str(), step(planned))).collect();
    let steps = plan.playbook.steps.iter().filter_map(|step| by_id.get(step.id.as_str()).cloned()).collect();
    Analysis { metrics: all_metrics, findings, steps, facts: recording.host.clone() }
}

/// The metrics that a window's collectors and probes can give.
fn catalogue_of(window: &Window) -> Vec<(&'static str, &'static MetricDef)> {
    super::all_metrics()
        .filter(|(owner, _)| window.collectors.contains_key(*owner) || window.probes.contains_key(*owner))
        .collect()
}

fn outcome(planned: &PlannedStep, window: Option<usize>, findings: &[Finding]) -> StepOutcome {
    let step = &planned.step;
    let own: Vec<&Finding> = findings.iter().filter(|finding| step.rules.contains(&finding.id)).collect();
    let status = match window {
        Some(_) => own.iter().map(|finding| finding.status).max().unwrap_or(Status::Skipped),
        None => Status::Skipped,
    };
    let answer = match (window, &step.when) {
        (None, Some(when)) => format!("Not needed: its condition did not hold ({when})."),
        (None, None) => "Not in this recording.".to_owned(),
        (Some(_), _) => answer(&own),
    };
    StepOutcome {
        id: step.id.clone(),
        question: step.question.clone(),
        teach: step.teach.clone(),
        status,
        window,
        when: step.when.clone(),
        rules: step.rules.clone(),
        answer,
    }
}

/// What fired, or that nothing did and what was not seen.
fn answer(own: &[&Finding]) -> String {
    let worst = own.iter().filter(|finding| finding.status.fired()).max_by_key(|finding| finding.status);
    let unknown = own.iter().filter(|finding| finding.status == Status::Unknown).count();
    let ok = own.iter().filter(|finding| finding.status == Status::Ok).count();
    let mut answer = match worst {
        Some(finding) => finding.summary.clone(),
        None if ok > 0 => {
            format!("No: {ok} {} measured, and none fired.", if ok == 1 { "check was" } else { "checks were" })
        }
        None => "Nothing here could be judged.".to_owned(),
    };
    if unknown > 0 {
        answer.push_str(&format!(" {unknown} could not be measured."));
    }
    answer
}

impl Analysis {
    /// Whether the condition of a step holds, given what is known so far. A condition that cannot be decided does not hold.
    #[must_use]
    pub fn wants(&self, step: &Step) -> bool {
        let Some(when) = &step.when else { return true };
        let mut statuses: BTreeMap<String, Status> = BTreeMap::new();
        for finding in &self.findings {
            let status = statuses.entry(finding.id.clone()).or_insert(finding.status);
            *status = (*status).max(finding.status);
        }
        let metrics = Arc::new(self.metrics.first().cloned().unwrap_or_default());
        let mut context = Context::new(&self.facts, metrics.seconds);
        for id in metrics.readings.keys() {
            context.set_metric(id, metrics.stats(id, "").ok());
        }
        Expressions::new(metrics, Arc::default(), statuses).holds(when, &context.value()).unwrap_or(false)
    }
}
