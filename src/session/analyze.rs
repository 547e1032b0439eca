//! Recording → Metrics → Findings, and what became of each step.
//!
//! Each window is judged once, when it is over. Steps with a condition (`when`) are drill-downs: they have a window of their own, which
//! begins within the first one as soon as the condition holds on what was read until then, or else after the windows that it asks about.
//! The judgement at the end may differ from that: then the answer of the step says so.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::group::GroupJudge;
use super::{account, containers};
use rdiag_judge::metrics;
use rdiag_judge::rules::{Expressions, Values};
use rdiag_model::report::StepOutcome;
use rdiag_model::{
    Answer, Facts, Finding, LogLine, MetricDef, Metrics, Profile, Recording, Status, Target, Unavailable, Window,
    quantity,
};
use rdiag_playbook::{Measure, Plan, PlannedStep, Seen, conclude, statuses_cited};
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
    let mut analyst = Analyst::new(&recording.host, plan, &recording.target);
    for window in &recording.windows {
        analyst.add(window);
    }
    analyst.conclude(recording)
}

/// Judges one window after the other: what a later window is to hold follows from those before.
pub(super) struct Analyst<'a> {
    facts: &'a Facts,
    plan: &'a Plan,
    target: &'a Target,
    metrics: Vec<Arc<Metrics>>,
    findings: Vec<Finding>,
    /// By step.
    outcomes: BTreeMap<&'a str, StepOutcome>,
}

impl<'a> Analyst<'a> {
    pub(super) fn new(facts: &'a Facts, plan: &'a Plan, target: &'a Target) -> Self {
        Self { facts, plan, target, metrics: Vec::new(), findings: Vec::new(), outcomes: BTreeMap::new() }
    }

    /// Judges the next window by the rules of its steps.
    pub(super) fn add(&mut self, window: &Window) {
        let index = self.metrics.len();
        let metrics = Arc::new(metrics::evaluate(window, self.facts, &catalogue_of(window)));
        let log = log_of(window);
        let judge = GroupJudge::new(self.facts, &metrics, index, &log, self.plan.recent, self.target);
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
        self.decided(steps.iter())
            .into_iter()
            .filter_map(|(planned, holds)| (holds == Some(true)).then_some(planned))
            .collect()
    }

    /// Some steps, each with whether its condition holds; none where that cannot be decided.
    fn decided(&self, steps: impl Iterator<Item = &'a PlannedStep>) -> Vec<(&'a PlannedStep, Option<bool>)> {
        let metrics = self.metrics.first().map(Arc::clone).unwrap_or_default();
        decided(steps, self.facts, &metrics, statuses_of(&self.findings))
    }

    /// What the symptom comes from, if the playbook starts from one.
    fn answer(&self) -> Option<Answer> {
        let spec = self.plan.playbook.answer.as_ref()?;
        let mut statuses = statuses_of(&self.findings);
        for (id, status) in &mut statuses {
            // What was over long before the window explains nothing now; what was so shortly before is mentioned beside the causes.
            let mut fired = self.findings.iter().filter(|finding| finding.id == *id && finding.status.fired());
            if status.fired() && fired.all(Finding::is_past) {
                *status = Status::Ok;
            }
        }
        let mut unasked = BTreeSet::new();
        for (planned, holds) in self.decided(self.plan.windows.iter().flatten()) {
            let cited = planned.step.when.as_deref().map(statuses_cited).unwrap_or_default();
            let is_unknown = cited.iter().any(|id| statuses.get(id) == Some(&Status::Unknown));
            // What was not asked because nothing called for it is in order; what could not be asked is not known.
            let status = if holds == Some(false) && !is_unknown { Status::Ok } else { Status::Unknown };
            for id in &planned.step.rules {
                if let Entry::Vacant(place) = statuses.entry(id.clone()) {
                    place.insert(status);
                    unasked.insert(id.clone());
                }
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
        let mut answer = conclude(spec, &Seen { facts: self.facts, metrics: Arc::new(metrics), statuses, unasked });
        if answer.symptom.is_empty() {
            // Its measure is missing, and the question is known all the same.
            answer.symptom.clone_from(&self.plan.playbook.title);
        }
        Some(answer)
    }

    /// The whole of it.
    pub(super) fn conclude(mut self, recording: &Recording) -> Analysis {
        let answer = self.answer();
        let mut by_id: BTreeMap<&str, StepOutcome> = BTreeMap::new();
        for steps in &self.plan.windows {
            let held: BTreeSet<&str> = self.wanted(steps).into_iter().map(|planned| planned.step.id.as_str()).collect();
            for planned in steps {
                let id = planned.step.id.as_str();
                let holds = held.contains(id);
                let outcome = match self.outcomes.remove(id) {
                    Some(known) => with_condition(known, holds, recording),
                    None if holds && planned.step.when.is_some() => too_late(outcome(planned, None, &self.findings)),
                    None => outcome(planned, None, &self.findings),
                };
                by_id.insert(id, outcome);
            }
        }
        let steps = &self.plan.playbook.steps;
        let steps = steps.iter().filter_map(|step| by_id.get(step.id.as_str()).cloned()).collect();
        let metrics: Vec<Metrics> = self.metrics.into_iter().map(Arc::unwrap_or_clone).collect();
        let profile = account::of(recording, self.plan, &metrics);
        containers::name(&mut self.findings, &recording.setup);
        Analysis { metrics, findings: self.findings, steps, profile, answer }
    }
}

/// What the kernel logged, as far as it was recognised.
pub(super) fn log_of(window: &Window) -> Vec<LogLine> {
    window.collectors.values().flat_map(|record| record.log.clone()).collect()
}

/// The worst status of each rule.
pub(super) fn statuses_of(findings: &[Finding]) -> BTreeMap<String, Status> {
    let mut statuses: BTreeMap<String, Status> = BTreeMap::new();
    for finding in findings {
        // What was over before the window calls for no further look, however recent.
        let own = if finding.seconds_before.is_some() { Status::Info } else { finding.status };
        let status = statuses.entry(finding.id.clone()).or_insert(own);
        *status = (*status).max(own);
    }
    statuses
}

/// Some steps, each with whether its condition holds, as it does if there is none; none where that cannot be decided.
pub(super) fn decided<'a>(
    steps: impl Iterator<Item = &'a PlannedStep>,
    facts: &Facts,
    metrics: &Arc<Metrics>,
    statuses: BTreeMap<String, Status>,
) -> Vec<(&'a PlannedStep, Option<bool>)> {
    let steps: Vec<_> = steps.collect();
    if steps.iter().all(|planned| planned.step.when.is_none()) {
        return steps.into_iter().map(|planned| (planned, Some(true))).collect();
    }
    let mut values = Values::default();
    for id in metrics.readings.keys() {
        values.set_metric(id, metrics.stats(id, "").ok());
    }
    let context = values.context();
    let expressions = Expressions::new(facts, Arc::clone(metrics), Arc::default(), statuses);
    let holds = |when: &str| expressions.compile(when).and_then(|when| when.holds(&context)).ok();
    steps.into_iter().map(|planned| (planned, planned.step.when.as_deref().map_or(Some(true), holds))).collect()
}

/// The outcome of a step that was measured: its window began because its condition held by then.
fn with_condition(mut outcome: StepOutcome, holds: bool, recording: &Recording) -> StepOutcome {
    let began = outcome.window.and_then(|at| recording.windows.get(at)).map(|window| window.begins);
    if let (Some(when), Some(began), false) = (&outcome.when, began, holds) {
        let began = quantity::seconds(began.max(0.0));
        outcome.answer.push_str(&format!(
            " Its condition ({when}) held when its window began, {began} into the run, and does not hold over the whole first window."
        ));
    }
    outcome
}

/// The outcome of a step whose condition holds, and that was not measured.
fn too_late(mut outcome: StepOutcome) -> StepOutcome {
    outcome.status = Status::Unknown;
    let when = outcome.when.as_deref().unwrap_or_default();
    outcome.answer = format!(
        "Not measured: its condition ({when}) holds over the whole window, but did not hold early enough in it for a drill-down. A longer \
         --duration, or a shorter --interval, leaves time for one."
    );
    outcome
}

/// The metrics that a window's collectors and probes can give.
pub(super) fn catalogue_of(window: &Window) -> Vec<(&'static str, &'static MetricDef)> {
    super::catalogue::all_metrics()
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
