//! Everything that is wrong with the answer of a playbook.

use std::collections::BTreeSet;

use super::super::check::{Place, check_template_of, check_when};
use super::super::suggest::did_you_mean;
use super::super::{Catalogue, LoadedPlaybook, Problem};
use super::run_tests;

/// What is wrong with symptoms, causes and tests of a playbook whose steps are right.
pub(in super::super) fn problems(loaded: &LoadedPlaybook, catalogue: &Catalogue) -> Vec<Problem> {
    let playbook = &loaded.playbook;
    let whole = Place::of_file(&loaded.file);
    let Some(answer) = &playbook.answer else {
        let stray = !playbook.symptoms.is_empty() || !playbook.tests.is_empty();
        let message = "symptoms and tests need an `answer`".to_owned();
        return stray.then(|| whole.problem("symptoms", message)).into_iter().collect();
    };
    let mut problems = Vec::new();
    if playbook.symptoms.is_empty() {
        problems.push(whole.problem("answer", "a playbook with an answer names its symptoms".into()));
    }
    if answer.causes.is_empty() {
        problems.push(whole.problem("causes", "an answer needs at least one cause".into()));
    }
    problems.extend(check_template_of(&whole, &playbook.name, "measured", &answer.measured, catalogue));
    if let Some(present) = &answer.present {
        problems.extend(check_when(&whole, "the answer", present, playbook, catalogue));
    }
    let evaluated: BTreeSet<&str> =
        playbook.steps.iter().flat_map(|step| step.rules.iter().map(String::as_str)).collect();
    let mut ids = BTreeSet::new();
    for cause in &answer.causes {
        let place = Place::of_entry(&loaded.file, &cause.id);
        if !ids.insert(&cause.id) {
            problems.push(place.problem(&cause.id, format!("the cause {:?} stands twice", cause.id)));
        }
        if cause.rules.is_empty() && (cause.when.is_none() || cause.says.is_none()) {
            let message = format!("the cause {} needs a rule that detects it, or `when` and `says`", cause.id);
            problems.push(place.problem(&cause.id, message));
        }
        for id in cause.rules.iter().filter(|id| !evaluated.contains(id.as_str())) {
            let hint = did_you_mean(id, evaluated.iter().copied());
            problems.push(place.problem(id, format!("no step of this playbook evaluates {id:?}")).hint(hint));
        }
        if let Some(when) = &cause.when {
            problems.extend(check_when(&place, &cause.id, when, playbook, catalogue));
        }
        if let Some(says) = &cause.says {
            problems.extend(check_template_of(&place, &cause.id, "says", says, catalogue));
        }
    }
    if problems.is_empty() {
        let failed = run_tests(playbook, answer, catalogue);
        problems.extend(failed.into_iter().map(|text| whole.problem("tests", format!("{}: {text}", playbook.name))));
    }
    problems
}
