//! The tests that a playbook carries for its answer: readings and statuses in; cause and words out.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::super::{Catalogue, Playbook};
use super::{AnswerTest, Answering, Seen, conclude};
use rdiag_judge::rules::references::{references, template_references};
use rdiag_judge::rules::{Reference, readings};
use rdiag_model::Status;
use rdiag_model::answer::Outcome;

/// Runs the tests of a playbook; returns what went wrong, in words that follow its name.
pub(in super::super) fn run_tests(playbook: &Playbook, spec: &Answering, catalogue: &Catalogue) -> Vec<String> {
    let mut problems = Vec::new();
    for (number, test) in (1..).zip(&playbook.tests) {
        if let Err(problem) = attempt(playbook, spec, test, catalogue) {
            problems.push(format!("test {number}: {problem}"));
        }
    }
    let expected: BTreeSet<&str> = playbook.tests.iter().map(|test| test.expect.as_str()).collect();
    let ids = spec.causes.iter().map(|cause| cause.id.as_str());
    for id in ids.chain([NONE, UNKNOWN]).filter(|id| !expected.contains(id)) {
        problems.push(format!("no test expects {id}"));
    }
    problems
}

/// What a test expects where no cause is there, and where it is not known.
const NONE: &str = "none";
const UNKNOWN: &str = "unknown";

fn attempt(playbook: &Playbook, spec: &Answering, test: &AnswerTest, catalogue: &Catalogue) -> Result<(), String> {
    let resolve = |path: &str| catalogue.resolve(path);
    let ids = |found: BTreeSet<Reference>| {
        found.into_iter().filter_map(|reference| match reference {
            Reference::Metric(id, _) => Some(id),
            _ => None,
        })
    };
    let of = |text: &str| ids(references(text, &resolve).unwrap_or_default());
    let cited: BTreeSet<String> = spec.conditions().flat_map(of).collect();
    let templates = spec.templates().flat_map(|text| ids(template_references(text, &resolve).unwrap_or_default()));
    let present = spec.present.iter().flat_map(|text| of(text));
    let mentioned = templates.chain(present).filter(|id| !cited.contains(id)).collect();
    let kind = |id: &str| catalogue.kind_of(id);
    let (facts, metrics) = readings(&test.given, &catalogue.metric_ids(), &kind, &cited, &mentioned)?;
    let rules = || playbook.steps.iter().flat_map(|step| &step.rules);
    if let Some(unknown) = test.statuses.keys().find(|id| !rules().any(|rule| rule == *id)) {
        return Err(format!("no step evaluates {unknown}"));
    }
    let status = |id: &String| test.statuses.get(id).copied().unwrap_or(Status::Ok);
    let statuses = rules().map(|id| (id.clone(), status(id))).collect();
    let answer =
        conclude(spec, &Seen { facts: &facts, metrics: Arc::new(metrics), statuses, unasked: BTreeSet::new() });
    let found = answer.causes.first();
    let outcome = match found {
        Some(cause) if cause.outcome == Outcome::Found => cause.id.as_str(),
        _ if answer.with(Outcome::Unknown).next().is_some() => UNKNOWN,
        _ => NONE,
    };
    if outcome != test.expect {
        return Err(format!("expected {}, found {outcome}", test.expect));
    }
    // Without its readings a symptom is called by the title of the playbook.
    if answer.symptom.trim().is_empty() && outcome != UNKNOWN {
        return Err("`measured` has a hole that nothing fills".into());
    }
    let own = spec.causes.iter().find(|cause| cause.id == outcome);
    if own.is_some_and(|cause| cause.says.is_some()) && found.is_none_or(|cause| cause.sentence.trim().is_empty()) {
        return Err(format!("`says` of {outcome} has a hole that nothing fills"));
    }
    let said = format!("{} — {}", answer.symptom, found.map_or("", |cause| &cause.sentence));
    match &test.says {
        Some(expected) if !said.contains(expected.as_str()) => {
            Err(format!("the answer does not say {expected:?}: {said}"))
        }
        _ => Ok(()),
    }
}
