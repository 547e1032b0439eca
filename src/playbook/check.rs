//! Whether playbooks and rules hold together: everything they cite exists, and their tests pass.

mod expressions;
mod place;

use std::collections::{BTreeMap, BTreeSet};

use self::expressions::check_expression;
pub(super) use self::expressions::{check_template_of, check_when};
pub(super) use self::place::Place;
use super::answer;
use super::suggest::did_you_mean;
use super::{
    Catalogue, FORMAT_VERSION, Library, LoadedPlaybook, LoadedRule, Measure, Plan, Playbook, Problem, Step, plan,
};
use rdiag_judge::rules::references::references;
use rdiag_judge::rules::{Reference, Rule, run_tests};
use rdiag_model::status::parse_rule_id;
use rdiag_model::{Kind, Resource};

/// Everything that is wrong with one rule.
#[must_use]
pub fn rule(loaded: &LoadedRule, library: &Library, catalogue: &Catalogue, with_tests: bool) -> Vec<Problem> {
    let Some(file) = library.rule_files.get(loaded.file) else { return Vec::new() };
    let rule = &loaded.rule;
    let place = Place::of_rule(file, rule);
    let mut problems = Vec::new();
    if parse_rule_id(&rule.id).is_none() {
        let resources = Resource::ALL.map(Resource::word).join(", ");
        let kinds = Kind::ALL.map(Kind::word).join(", ");
        let message = format!("{:?} is no rule id: it begins with resource.kind", rule.id);
        let hint = format!("resources are {resources}; kinds are {kinds}");
        problems.push(place.problem(&rule.id, message).hint(Some(hint)));
    }
    if rule.conditions().is_empty() {
        problems.push(place.problem(&rule.id, format!("{} has no condition: give info, warning or critical", rule.id)));
    }
    let mut dimensions = BTreeSet::new();
    for (key, expression) in rule.expressions() {
        problems.extend(check_expression(&place, &rule.id, key, expression, catalogue, &mut dimensions));
    }
    if dimensions.len() > 1 {
        let all: Vec<&str> = dimensions.into_iter().collect();
        let message = format!("{} mixes metrics of different kinds of instances: {}", rule.id, all.join(", "));
        problems.push(place.problem(&rule.id, message));
    }
    for (key, template) in [("says", &rule.says), ("quiet", &rule.quiet)] {
        problems.extend(check_template_of(&place, &rule.id, key, template, catalogue));
    }
    if rule.hold == Some(0) {
        problems.push(place.problem("for", "for: needs at least 1 interval".into()));
    }
    if with_tests && problems.is_empty() {
        let failed = run_tests(rule, &catalogue.metric_ids(), &|id| catalogue.kind_of(id));
        problems.extend(failed.into_iter().map(|text| place.problem("tests", format!("{}: {text}", rule.id))));
    }
    problems
}

/// Everything that is wrong with one playbook.
#[must_use]
pub fn playbook(loaded: &LoadedPlaybook, library: &Library, catalogue: &Catalogue) -> Vec<Problem> {
    let playbook = &loaded.playbook;
    let whole = Place::of_file(&loaded.file);
    let mut problems = Vec::new();
    if playbook.format_version != FORMAT_VERSION {
        let message =
            format!("format_version {} is not known; this program reads {FORMAT_VERSION}", playbook.format_version);
        problems.push(whole.problem("format_version", message));
    }
    let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    if playbook.name.is_empty() || !playbook.name.chars().all(plain) {
        problems.push(whole.problem("name", format!("{:?} is no name: use a-z, 0-9 and -", playbook.name)));
    }
    if playbook.steps.is_empty() {
        problems.push(whole.problem("steps", "a playbook needs at least one step".into()));
    }
    if let Err(error) = plan::defaults(playbook) {
        problems.push(whole.problem("params", error.to_string()));
    }
    // Wrong ones were reported above.
    let defaults = plan::defaults(playbook).unwrap_or_default();
    let mut ids = BTreeSet::new();
    for step in &playbook.steps {
        let place = Place::of_entry(&loaded.file, &step.id);
        if !ids.insert(&step.id) {
            problems.push(place.problem(&step.id, format!("the step id {:?} is used twice", step.id)));
        }
        for measure in &step.collect {
            problems.extend(check_measure(&place, &measure.resolve(&defaults), catalogue));
        }
        for id in &step.rules {
            if !library.rules.contains_key(id) {
                let hint = did_you_mean(id, library.rules.keys().map(String::as_str));
                problems.push(place.problem(id, format!("there is no rule named {id:?}")).hint(hint));
            }
        }
        if let Some(when) = &step.when {
            problems.extend(check_when(&place, "the step", when, playbook, catalogue));
        }
    }
    for (id, change) in &playbook.overrides {
        let Some(known) = library.rules.get(id) else {
            let hint = did_you_mean(id, library.rules.keys().map(String::as_str));
            problems.push(whole.problem(id, format!("overrides the unknown rule {id:?}")).hint(hint));
            continue;
        };
        let changed = change.apply(&known.rule);
        let mut dimensions = BTreeSet::new();
        for (key, text) in
            changed.expressions().into_iter().filter(|(key, _)| ["info", "warning", "critical"].contains(key))
        {
            problems.extend(check_expression(&whole, id, key, text, catalogue, &mut dimensions));
        }
    }
    if problems.is_empty() {
        problems.extend(check_windows(&whole, playbook, library, catalogue));
        problems.extend(answer::problems(loaded, catalogue));
    }
    // Values that are durations and numbers may still be none that can be run with.
    if problems.is_empty()
        && let Err(error) = Plan::new(loaded, library, &BTreeMap::new())
    {
        problems.push(whole.problem("params", error.to_string()));
    }
    problems
}

fn check_measure(place: &Place<'_>, measure: &Measure, catalogue: &Catalogue) -> Option<Problem> {
    let name = measure.id();
    if let Measure::With(with) = measure
        && with.len() != 1
    {
        return Some(place.problem(name, "write one collector or probe with its parameters in each item".into()));
    }
    if !catalogue.collectors.contains(&name) {
        let hint = did_you_mean(name, catalogue.collectors.iter().copied());
        return Some(place.problem(name, format!("there is no collector or probe named {name:?}")).hint(hint));
    }
    let wrong = catalogue.wrong_params.and_then(|wrong| wrong(name, &measure.params()));
    wrong.map(|message| place.problem(name, message))
}

/// Whether each window collects what its rules cite, and whether the conditions can be decided one after another.
fn check_windows(whole: &Place<'_>, playbook: &Playbook, library: &Library, catalogue: &Catalogue) -> Vec<Problem> {
    let levels = match plan::levels(playbook) {
        Ok(levels) => levels,
        Err(cycle) => {
            let first = cycle.first().cloned().unwrap_or_default();
            let message = format!("the conditions of these steps wait for each other: {}", cycle.join(" → "));
            return vec![Place::of_entry(whole.file, &first).problem("when", message)];
        }
    };
    let mut problems = Vec::new();
    let last = levels.values().copied().max().unwrap_or(0);
    for level in 0..=last {
        let steps: Vec<_> = playbook.steps.iter().filter(|step| levels.get(&step.id) == Some(&level)).collect();
        let collected: BTreeSet<&str> = steps.iter().flat_map(|step| step.collect.iter().map(Measure::id)).collect();
        problems.extend(contradicting(whole, &steps));
        for step in &steps {
            let place = Place::of_entry(whole.file, &step.id);
            for id in &step.rules {
                let Some(loaded) = library.rules.get(id) else { continue };
                for collector in collectors_of(&loaded.rule, catalogue) {
                    if !collected.contains(collector) {
                        let message =
                            format!("{id} needs the collector {collector}, which is not collected in its window");
                        let hint = format!("add {collector} to `collect` of the step {}", step.id);
                        problems.push(place.problem(id, message).hint(Some(hint)));
                    }
                }
            }
        }
    }
    problems
}

/// Probes that are to do two things in one window, where they can do one: the second would be left out without a word.
fn contradicting(whole: &Place<'_>, steps: &[&Step]) -> Vec<Problem> {
    let mut given: BTreeMap<&str, BTreeMap<String, String>> = BTreeMap::new();
    let mut problems = Vec::new();
    for step in steps {
        for measure in step.collect.iter().filter(|measure| matches!(measure, Measure::With(_))) {
            let (id, params) = (measure.id(), measure.params());
            if given.get(id).is_some_and(|known| *known != params) {
                let place = Place::of_entry(whole.file, &step.id);
                let message = format!("{id} stands twice in the same window, with different parameters");
                let hint = "the first would hold for both; ask in a step of its own, with a `when`".to_owned();
                problems.push(place.problem(id, message).hint(Some(hint)));
            }
            given.entry(id).or_insert(params);
        }
    }
    problems
}

/// The collectors whose metrics decide a rule's status.
fn collectors_of<'c>(rule: &Rule, catalogue: &'c Catalogue) -> BTreeSet<&'c str> {
    let resolve = |path: &str| catalogue.resolve(path);
    let judged = rule.expressions().into_iter().filter(|(key, _)| *key != "culprit");
    let found = judged.flat_map(|(_, text)| references(text, &resolve).unwrap_or_default());
    found
        .filter_map(|reference| match reference {
            Reference::Metric(id, _) => catalogue.metric(&id).map(|metric| metric.collector),
            _ => None,
        })
        .collect()
}

/// Everything that is wrong anywhere, by file.
#[must_use]
pub fn everything(library: &Library, catalogue: &Catalogue) -> Vec<Problem> {
    let mut problems = library.problems.clone();
    problems.extend(library.rules.values().flat_map(|loaded| rule(loaded, library, catalogue, true)));
    problems.extend(library.playbooks.values().flat_map(|loaded| playbook(loaded, library, catalogue)));
    problems
}

/// Rules that no playbook uses: forgotten, unless they are in the making.
#[must_use]
pub fn unused(library: &Library) -> Vec<Problem> {
    let mut problems = Vec::new();
    let used: BTreeSet<&String> = library
        .playbooks
        .values()
        .flat_map(|loaded| loaded.playbook.steps.iter().flat_map(|step| &step.rules))
        .collect();
    let mut unused: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for (id, loaded) in library.rules.iter().filter(|(id, _)| !used.contains(id)) {
        unused.entry(&loaded.label).or_default().push(id);
    }
    for (label, ids) in unused {
        problems.push(Problem::whole(label, format!("no playbook uses these rules: {}", ids.join(", "))));
    }
    problems
}
