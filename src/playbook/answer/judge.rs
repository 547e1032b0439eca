//! Readings and statuses → the answer.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::{Answering, PossibleCause};
use rdiag_judge::rules::{Expressions, Values};
use rdiag_model::answer::{Answer, Cause, Outcome};
use rdiag_model::{Facts, Metrics, Status};

/// What a run saw, as far as an answer depends on it.
pub struct Seen<'s> {
    /// Facts of the host.
    pub facts: &'s Facts,
    /// The readings of all windows, of each metric those of the first window that has it.
    pub metrics: Arc<Metrics>,
    /// The worst status of each rule; `ok` where its step was not needed.
    pub statuses: BTreeMap<String, Status>,
    /// Those rules whose step was not needed.
    pub unasked: BTreeSet<String>,
}

/// Judges each cause. A sentence that depends on a single finding is left empty, to be taken from there.
#[must_use]
pub fn conclude(spec: &Answering, seen: &Seen<'_>) -> Answer {
    let mut values = Values::default();
    for id in seen.metrics.readings.keys() {
        values.set_metric(id, seen.metrics.stats(id, "").ok());
    }
    let context = values.context();
    let metrics = Arc::clone(&seen.metrics);
    let expressions = Expressions::new(seen.facts, metrics, Arc::default(), seen.statuses.clone());
    let holds = |text: &str| expressions.compile(text).and_then(|condition| condition.holds(&context)).ok();
    let render = |text: &str| expressions.sentence(text).and_then(|sentence| sentence.render(&context)).ok();
    let status_of = |rule: &String| seen.statuses.get(rule).copied();
    let has_fired = |rule: &&String| status_of(rule).is_some_and(|status| status >= Status::Warning);
    let is_found = |cause: &PossibleCause| match &cause.when {
        Some(when) => holds(when),
        None => Some(cause.rules.iter().any(|rule| has_fired(&rule))),
    };
    let decided: Vec<(&PossibleCause, Option<bool>)> =
        spec.causes.iter().map(|cause| (cause, is_found(cause))).collect();
    let explained: BTreeSet<&String> =
        decided.iter().filter(|(_, found)| *found == Some(true)).flat_map(|(cause, _)| &cause.rules).collect();
    // A rule that does not apply here, or could not be judged, saw no more than one that was not asked.
    let is_unasked = |cause: &PossibleCause| {
        let blind = |rule: &String| matches!(status_of(rule), Some(Status::Skipped | Status::Unknown));
        let saw = |rule: &String| !seen.unasked.contains(rule) && !blind(rule);
        // Where it could not be told whether to ask, something may well point to it.
        let was_idle = |rule: &String| seen.unasked.contains(rule) && !blind(rule);
        cause.rules.iter().any(was_idle) && !cause.rules.iter().any(saw)
    };
    let of = |(cause, found): (&PossibleCause, Option<bool>)| {
        let statuses = || cause.rules.iter().filter_map(status_of);
        // What does not apply here rules out nothing that another rule could not see.
        let judged = statuses().any(|status| status == Status::Ok || status.fired())
            || !statuses().any(|status| status == Status::Unknown);
        let told = |rule: &&String| status_of(rule).is_some_and(Status::fired) && !explained.contains(rule);
        let outcome = match found {
            Some(true) => Outcome::Found,
            Some(false) if cause.rules.iter().any(|rule| told(&rule)) => Outcome::Beside,
            Some(false) if is_unasked(cause) => Outcome::NotLookedFor,
            Some(false) if judged => Outcome::RuledOut,
            _ => Outcome::Unknown,
        };
        let template = match outcome {
            Outcome::Found => cause.says.as_deref(),
            Outcome::RuledOut => cause.quiet.as_deref(),
            _ => None,
        };
        let says = template.and_then(render);
        Cause {
            id: cause.id.clone(),
            title: cause.title.clone(),
            outcome,
            status: match outcome {
                Outcome::Unknown => Status::Unknown,
                // What is not clear the findings tell, and the report asks them.
                Outcome::RuledOut | Outcome::NotClear => Status::Ok,
                Outcome::NotLookedFor => Status::Skipped,
                Outcome::Found | Outcome::Beside => {
                    statuses().filter(|status| status.fired()).max().unwrap_or(Status::Info)
                }
            },
            sentence: says.unwrap_or_default(),
            rules: cause.rules.clone(),
        }
    };
    let mut causes: Vec<(bool, Cause)> = decided.into_iter().map(|of_one| (of_one.0.leads, of(of_one))).collect();
    // What is near a limit is not why things fail where something else does.
    let gives_way =
        |leads: bool, cause: &Cause| cause.outcome == Outcome::Found && !leads && cause.status < Status::Critical;
    causes.sort_by_key(|(leads, cause)| (cause.outcome, gives_way(*leads, cause)));
    let causes = causes.into_iter().map(|(_, cause)| cause).collect();
    Answer {
        symptom: render(&spec.measured).unwrap_or_default(),
        present: spec.present.as_deref().and_then(holds),
        causes,
        unseen: spec.unseen.clone(),
    }
}
