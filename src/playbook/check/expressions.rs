//! What is wrong with the expressions and sentences of rules and playbooks.

use std::collections::BTreeSet;

use super::super::suggest::did_you_mean;
use super::super::{Catalogue, Playbook, Problem, plan};
use super::Place;
use rdiag_judge::rules::Reference;
use rdiag_judge::rules::expression::{FUNCTIONS, VARIABLES};
use rdiag_judge::rules::references::{references, template_references};

/// What is wrong with a condition over statuses and readings.
pub(crate) fn check_when(
    place: &Place<'_>,
    owner: &str,
    when: &str,
    playbook: &Playbook,
    catalogue: &Catalogue,
) -> Vec<Problem> {
    let mut problems = Vec::new();
    let evaluated: BTreeSet<&str> =
        playbook.steps.iter().flat_map(|step| step.rules.iter().map(String::as_str)).collect();
    for id in plan::statuses_cited(when) {
        if !evaluated.contains(id.as_str()) {
            let message = format!("the condition asks for the status of {id:?}, which no step evaluates");
            problems.push(place.problem(&id, message).hint(did_you_mean(&id, evaluated.iter().copied())));
        }
    }
    let mut dimensions = BTreeSet::new();
    problems.extend(check_expression(place, owner, "when", when, catalogue, &mut dimensions));
    problems
}

/// What is wrong with an expression; the kinds of instances of its metrics are added to `dimensions`.
pub(super) fn check_expression(
    place: &Place<'_>,
    owner: &str,
    key: &str,
    expression: &str,
    catalogue: &Catalogue,
    dimensions: &mut BTreeSet<&'static str>,
) -> Vec<Problem> {
    let resolve = |path: &str| catalogue.resolve(path);
    let found = match references(expression, &resolve) {
        Ok(found) => found,
        Err(error) => {
            let message =
                format!("{key} of {owner} is no expression: {}", error.detail().unwrap_or("it cannot be parsed"));
            return vec![place.problem(key, message)];
        }
    };
    let mut problems = Vec::new();
    for reference in found {
        match reference {
            Reference::Metric(id, statistic) => {
                let dimension = catalogue.metric(&id).and_then(|metric| metric.dimension);
                if statistic.is_some() && key != "culprit" {
                    dimensions.extend(dimension);
                }
                let whole_metric = ["top(", "highest(", "sum("].iter().any(|call| expression.contains(call));
                if statistic.is_none() && !whole_metric {
                    let message = format!("{key} of {owner} takes no statistic of {id}");
                    let hint = format!("write {id}.mean, or one of .median .min .max .p95 .last .total");
                    problems.push(place.problem(&id, message).hint(Some(hint)));
                }
            }
            Reference::Unknown(name) => problems.push(unknown_name(place, owner, key, &name, catalogue)),
            Reference::Variable(_) => {}
        }
    }
    problems
}

/// What is wrong with a sentence of a rule or a playbook.
pub(crate) fn check_template_of(
    place: &Place<'_>,
    owner: &str,
    key: &str,
    template: &str,
    catalogue: &Catalogue,
) -> Vec<Problem> {
    let resolve = |path: &str| catalogue.resolve(path);
    match template_references(template, &resolve) {
        Ok(found) => {
            let unknown = found.into_iter().filter_map(|reference| match reference {
                Reference::Unknown(name) => Some(unknown_name(place, owner, key, &name, catalogue)),
                _ => None,
            });
            unknown.collect()
        }
        Err(error) => {
            let message =
                format!("{key} of {owner} is no template: {}", error.detail().unwrap_or("it cannot be parsed"));
            vec![place.problem(key, message)]
        }
    }
}

fn unknown_name(place: &Place<'_>, owner: &str, key: &str, name: &str, catalogue: &Catalogue) -> Problem {
    let metrics = catalogue.metrics.iter().map(|metric| metric.id);
    let stem = name.rsplit_once('.').map_or(name, |(stem, _)| stem);
    let hint = did_you_mean(name, FUNCTIONS.iter().chain(&VARIABLES).copied().filter(|_| !name.contains('.')))
        .or_else(|| did_you_mean(stem, metrics));
    place.problem(name, format!("{key} of {owner} cites {name:?}, which is no metric, variable or function")).hint(hint)
}
