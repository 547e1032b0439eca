//! Recording → Metrics → Findings, and what became of each step.
//!
//! Each window is judged once, when it ends. Steps with a condition (`when`) are drill-downs: they run in a later window, with collectors
//! of their own, if the condition holds on what earlier windows found.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::{account, containers};
use crate::playbook::{Measure, Plan, PlannedStep, Seen, conclude, statuses_cited};
use rdiag_judge::metrics;
use rdiag_judge::rules::expression::{Context, Expressions};
use rdiag_judge::rules::{Judge, Scope};
use rdiag_model::report::StepOutcome;
use rdiag_model::{
    Answer, Facts, Finding, LogLine, MetricDef, Metrics, Profile, Recording, Status, Unavailable, Window,
};
use rdiag_probes as probes;

/// What follows from a recording.
pub struct Analysis {
    /// Readings by window.
    pub metrics: Vec<Metrics>,
    /// One per rule and instance.
    pub findings: Vec<Finding>,
    /// The steps in the playbook's order.
    pub steps: Vec<StepOutcome>,
    /// Where the observed task's time went, for playbooks of Method R; or why that could not be told.
    pub profile: Option<Result<Profile, Unavailable>>,
    /// What the symptom comes from, for playbooks that start from one.
    pub answer: Option<Answer>,
}

/// Judges a recording by a plan. Nothing but the recording is looked at: the same file gives the same findings anywhere.
#[must_use]
pub fn analyze(recording: &Recording, plan: &Plan) -> Analysis {
    let mut analyst = Analyst::new(&recording.host, plan);
    for window in &recording.windows {
        analyst.add(window);
    }
    analyst.conclude(recording)
}

/// Judges one window after the other: what a later window is to hold follows from those before.
pub(super) struct Analyst<'a> {
    facts: &'a Facts,
    plan: &'a Plan,
    metrics: Vec<Arc<Metrics>>,
    findings: Vec<Finding>,
    /// By step.
    outcomes: BTreeMap<&'a str, StepOutcome>,
}

impl<'a> Analyst<'a> {
    pub(super) fn new(facts: &'a Facts, plan: &'a Plan) -> Self {
        Self { facts, plan, metrics: Vec::new(), findings: Vec::new(), outcomes: BTreeMap::new() }
    }

    /// Judges the next window by the rules of its steps.
    pub(super) fn add(&mut self, window: &Window) {
        let index = self.metrics.len();
        let metrics = Arc::new(metrics::evaluate(window, self.facts, &catalogue_of(window)));
        let log: Vec<LogLine> = window.collectors.values().flat_map(|record| record.log.clone()).collect();
        let judge = Judge::new(Scope { facts: self.facts, metrics: Arc::clone(&metrics), window: index, log: &log });
        let mut judged: BTreeSet<&str> = BTreeSet::new();
        for planned in self.plan.windows.iter().flatten().filter(|planned| window.steps.contains(&planned.step.id)) {
            for (rule, origin) in &planned.rules {
                if judged.insert(&rule.id) {
                    self.findings.extend(judge.judge(rule, origin));
                }
            }
            self.outcomes.insert(&planned.step.id, outcome(planned, Some(index), &self.findings));
        }
        self.metrics.push(metrics);
    }

    /// Those of some steps whose condition holds, given what is known so far. A condition that cannot be decided does
    /// not hold.
    pub(super) fn wanted(&self, steps: &'a [PlannedStep]) -> Vec<&'a PlannedStep> {
        let holds = |(_, holds): &(&PlannedStep, Option<bool>)| *holds == Some(true);
        self.decided(steps.iter()).into_iter().filter(holds).map(|(planned, _)| planned).collect()
    }

    /// The worst status of each rule so far.
    fn statuses(&self) -> BTreeMap<String, Status> {
        let mut statuses: BTreeMap<String, Status> = BTreeMap::new();
        for finding in &self.findings {
            let status = statuses.entry(finding.id.clone()).or_insert(finding.status);
            *status = (*status).max(finding.status);
        }
        statuses
    }

    /// Some steps, each with whether its condition holds; none where that cannot be decided.
    fn decided(&self, steps: impl Iterator<Item = &'a PlannedStep>) -> Vec<(&'a PlannedStep, Option<bool>)> {
        let metrics = self.metrics.first().map(Arc::clone).unwrap_or_default();
        let mut context = Context::default();
        for id in metrics.readings.keys() {
            context.set_metric(id, metrics.stats(id, "").ok());
        }
        let context = context.value();
        let expressions = Expressions::new(self.facts, metrics, Arc::default(), self.statuses());
        let holds = |when: &str| expressions.compile(when).and_then(|when| when.holds(&context)).ok();
        steps.map(|planned| (planned, planned.step.when.as_deref().map_or(Some(true), holds))).collect()
    }

    /// What the symptom comes from, if the playbook starts from one.
    fn answer(&self) -> Option<Answer> {
        let spec = self.plan.playbook.answer.as_ref()?;
        let mut statuses = self.statuses();
        for (id, status) in &mut statuses {
            // What was over before the window explains nothing now.
            let mut fired = self.findings.iter().filter(|finding| finding.id == *id && finding.status.fired());
            if status.fired() && fired.all(Finding::is_past) {
                *status = Status::Ok;
            }
        }
        for (planned, holds) in self.decided(self.plan.windows.iter().flatten()) {
            let cited = planned.step.when.as_deref().map(statuses_cited).unwrap_or_default();
            let is_unknown = cited.iter().any(|id| statuses.get(id) == Some(&Status::Unknown));
            // What was not asked because nothing called for it is in order; what could not be asked is not known.
            let status = if holds == Some(false) && !is_unknown { Status::Ok } else { Status::Unknown };
            for id in &planned.step.rules {
                statuses.entry(id.clone()).or_insert(status);
            }
        }
        let mut metrics = Metrics::default();
        for window in &self.metrics {
            for (id, reading) in &window.readings {
                metrics.readings.entry(id.clone()).or_insert_with(|| reading.clone());
            }
            for (dimension, labels) in &window.labels {
                let known = metrics.labels.entry(dimension.clone()).or_default();
                labels.iter().for_each(|(instance, own)| {
                    known.entry(instance.clone()).or_insert_with(|| own.clone());
                });
            }
        }
        metrics.seconds = self.metrics.first().map_or(0.0, |window| window.seconds);
        let mut answer = conclude(spec, &Seen { facts: self.facts, metrics: Arc::new(metrics), statuses });
        if answer.symptom.is_empty() {
            // Its measure is missing, and the question is known all the same.
            answer.symptom.clone_from(&self.plan.playbook.title);
        }
        Some(answer)
    }

    /// The whole of it.
    pub(super) fn conclude(mut self, recording: &Recording) -> Analysis {
        let answer = self.answer();
        let planned = self.plan.windows.iter().flatten();
        let by_id: BTreeMap<&str, StepOutcome> = planned
            .map(|planned| {
                let id = planned.step.id.as_str();
                let known = self.outcomes.remove(id);
                (id, known.unwrap_or_else(|| outcome(planned, None, &self.findings)))
            })
            .collect();
        let steps = &self.plan.playbook.steps;
        let steps = steps.iter().filter_map(|step| by_id.get(step.id.as_str()).cloned()).collect();
        let metrics: Vec<Metrics> = self.metrics.into_iter().map(Arc::unwrap_or_clone).collect();
        let profile = account::of(recording, self.plan, &metrics);
        containers::name(&mut self.findings, &recording.setup);
        Analysis { metrics, findings: self.findings, steps, profile, answer }
    }
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
        probes: step
            .collect
            .iter()
            .map(Measure::id)
            .filter(|id| probes::find(id).is_some())
            .map(str::to_owned)
            .collect(),
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
