//! What stands in a window that is not over: which steps are wanted already. Only the rules that their conditions ask for are judged, by
//! the metrics that these cite, so that it can be done while the window runs.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::analyze::{catalogue_of, decided, log_of, statuses_of};
use super::group::GroupJudge;
use super::record::SoFar;
use rdiag_judge::metrics;
use rdiag_judge::rules::Rule;
use rdiag_judge::rules::references::{Reference, references};
use rdiag_model::{Facts, Finding, MetricDef, Target, Window};
use rdiag_playbook::{Measure, Plan, PlannedStep, statuses_cited};

/// Judges the first window for the conditions of some steps.
pub(super) struct Provisional<'a> {
    facts: &'a Facts,
    target: &'a Target,
    /// Not wanted so far.
    pending: Vec<&'a PlannedStep>,
    /// As far as their statuses go.
    rules: Vec<Rule>,
    catalogue: Vec<(&'static str, &'static MetricDef)>,
    /// What gives these metrics.
    collectors: BTreeSet<&'a str>,
}

impl<'a> Provisional<'a> {
    /// For the conditions of `steps`, on what the steps of the first window judge.
    pub(super) fn new(facts: &'a Facts, plan: &'a Plan, target: &'a Target, steps: &'a [PlannedStep]) -> Self {
        let conditions: Vec<&str> = steps.iter().filter_map(|planned| planned.step.when.as_deref()).collect();
        let asked: BTreeSet<String> = conditions.iter().flat_map(|when| statuses_cited(when)).collect();
        let mut rules: Vec<Rule> = Vec::new();
        let mut collectors = BTreeSet::new();
        for planned in plan.windows.first().into_iter().flatten() {
            for (rule, _) in planned.rules.iter().filter(|(rule, _)| asked.contains(&rule.id)) {
                // A metric may be made of what several collectors of the step read.
                collectors.extend(planned.step.collect.iter().map(Measure::id));
                if rules.iter().all(|known| known.id != rule.id) {
                    rules.push(without_words(rule));
                }
            }
        }
        let cited = cited(&rules, &conditions);
        let catalogue: Vec<_> =
            super::catalogue::all_metrics().filter(|(_, metric)| cited.contains(metric.id)).collect();
        collectors.extend(catalogue.iter().map(|(collector, _)| *collector));
        Self { facts, target, pending: steps.iter().collect(), rules, catalogue, collectors }
    }

    /// Whether no step is left that could be wanted.
    pub(super) fn is_over(&self) -> bool {
        self.pending.is_empty()
    }

    /// The collectors that it looks at, and those of them that give what it cites.
    pub(super) fn collectors(&self) -> [BTreeSet<&'a str>; 2] {
        [self.collectors.clone(), self.catalogue.iter().map(|(collector, _)| *collector).collect()]
    }

    /// Takes the steps whose conditions hold in a part of it.
    pub(super) fn wanted(&mut self, window: &Window) -> Vec<&'a PlannedStep> {
        let metrics = Arc::new(metrics::evaluate(window, self.facts, &self.catalogue));
        let log = log_of(window);
        // What was over before the window is nothing to look into.
        let judge = GroupJudge::new(self.facts, &metrics, 0, &log, 0.0, self.target);
        let findings: Vec<Finding> = self.rules.iter().flat_map(|rule| judge.judge(rule, "")).collect();
        let decided = decided(self.pending.iter().copied(), self.facts, &metrics, statuses_of(&findings));
        let wanted: Vec<_> =
            decided.into_iter().filter_map(|(step, holds)| (holds == Some(true)).then_some(step)).collect();
        self.pending.retain(|planned| wanted.iter().all(|other| other.step.id != planned.step.id));
        wanted
    }
}

/// What all rules of the first window say of what has been read until now.
pub(super) fn all(facts: &Facts, plan: &Plan, target: &Target, so_far: &SoFar<'_, '_>) -> Vec<Finding> {
    let window = so_far.window(|_| true);
    let metrics = Arc::new(metrics::evaluate(&window, facts, &catalogue_of(&window)));
    let log = log_of(&window);
    let judge = GroupJudge::new(facts, &metrics, 0, &log, plan.recent, target);
    let mut judged: BTreeSet<&str> = BTreeSet::new();
    let rules = plan.windows.first().into_iter().flatten().flat_map(|planned| &planned.rules);
    rules.filter(|(rule, _)| judged.insert(&rule.id)).flat_map(|(rule, origin)| judge.judge(rule, origin)).collect()
}

/// The metric at the start of a dotted path.
pub(super) fn metric_of_path(path: &str) -> Option<String> {
    let mut end = path.len();
    loop {
        let candidate = path.get(..end)?;
        if super::catalogue::metric(candidate).is_some() {
            return Some(candidate.to_owned());
        }
        end = candidate.rfind('.')?;
    }
}

/// What a rule's status depends on. Who is behind it, and what it says of that, takes metrics of every process, for nothing here.
fn without_words(rule: &Rule) -> Rule {
    Rule { culprit: None, says: String::new(), quiet: String::new(), ..rule.clone() }
}

/// The metrics that rules and conditions cite.
fn cited(rules: &[Rule], conditions: &[&str]) -> BTreeSet<String> {
    // A condition that cannot be read does not hold; the rule says so when it is judged.
    let mut found: BTreeSet<Reference> = BTreeSet::new();
    for text in rules.iter().flat_map(Rule::expressions).map(|(_, text)| text).chain(conditions.iter().copied()) {
        found.extend(references(text, &metric_of_path).unwrap_or_default());
    }
    let metric = |reference| match reference {
        Reference::Metric(id, _) => Some(id),
        _ => None,
    };
    found.into_iter().filter_map(metric).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use rdiag_judge::rules::Bench;
    use rdiag_playbook::{Library, SourceFile};

    #[test]
    fn no_status_depends_on_the_words_of_a_rule_or_on_who_is_behind_it() {
        let catalogue = crate::catalogue();
        let ids: Vec<&str> = catalogue.metrics.iter().map(|metric| metric.id).collect();
        let lookup = |id: &str| {
            let metric = catalogue.metrics.iter().find(|metric| metric.id == id)?;
            Some((metric.unit, metric.dimension))
        };
        let library = Library::read(Vec::<SourceFile>::new());
        let mut tests = 0;
        for loaded in library.rules.values() {
            let mut bare = without_words(&loaded.rule);
            bare.tests.iter_mut().for_each(|test| test.culprit = None);
            tests += bare.tests.len();
            // That it says nothing is a problem of its own.
            let mut problems = Bench::new(&bare, &ids, &lookup).problems();
            problems.retain(|problem| problem.contains(": expected "));
            assert!(problems.is_empty(), "{}: {problems:?}", bare.id);
        }
        assert!(tests > 300, "{tests} tests of rules");
    }
}
