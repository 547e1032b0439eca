//! The tests that rules carry: readings in; status, culprit and sentence out.

mod scene;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use scene::{Catalogue, Scene};

use super::evaluate::plain_sentence;
use super::references::{Reference, references, template_references};
use super::{Given, Judge, Rule, RuleTest, Scope};
use rdiag_model::{Facts, Finding, Metrics, Status, Unit};

/// Unit and dimension of a metric, by id; the catalogue as rule tests need it.
pub type Lookup<'l> = &'l dyn Fn(&str) -> Option<(Unit, Option<&'static str>)>;

/// What a number that was divided by zero, or was never there, looks like in a sentence.
const NO_NUMBERS: [&str; 3] = ["NaN", "inf", "undefined"];

/// Runs a rule's tests; returns what went wrong, in words that follow the rule's id.
#[must_use]
pub fn run_tests(rule: &Rule, metric_ids: &[&str], lookup: Lookup<'_>) -> Vec<String> {
    let mut problems = Bench::new(rule, metric_ids, lookup).problems();
    let fires = rule.tests.iter().any(|test| test.expect.fired());
    let quiet = rule.tests.iter().any(|test| test.expect == Status::Ok);
    if !fires {
        problems.push("no test makes it fire".into());
    }
    if !quiet {
        problems.push("no test keeps it quiet (expect: ok)".into());
    }
    problems.extend(rule.open_situations());
    for (status, _) in rule.conditions() {
        if !rule.tests.iter().any(|test| test.expect == status) {
            problems.push(format!("no test reaches {}", status.word()));
        }
    }
    problems
}

/// The readings that a test gives, as a measurement would have left them. What is `cited` and not given is not there; what is only
/// `mentioned` has a stand-in.
pub fn readings(
    given: &BTreeMap<String, Option<Given>>,
    metric_ids: &[&str],
    lookup: Lookup<'_>,
    cited: &BTreeSet<String>,
    mentioned: &BTreeSet<String>,
) -> Result<(Facts, Metrics), String> {
    let scene = Scene::new(given, &Catalogue { metric_ids, lookup, cited, mentioned })?;
    Ok((scene.facts, Arc::unwrap_or_clone(scene.metrics)))
}

/// The tests of a rule with their readings laid out, to try the rule and changed copies of it.
pub struct Bench<'r> {
    rule: &'r Rule,
    tests: Vec<(&'r RuleTest, Result<Scene, String>)>,
}

impl<'r> Bench<'r> {
    /// Lays out the readings of each test.
    #[must_use]
    pub fn new(rule: &'r Rule, metric_ids: &[&str], lookup: Lookup<'_>) -> Self {
        let (cited, mentioned) = cited(rule, metric_ids);
        let catalogue = Catalogue { metric_ids, lookup, cited: &cited, mentioned: &mentioned };
        let tests = rule.tests.iter().map(|test| (test, Scene::new(&test.given, &catalogue)));
        Self { rule, tests: tests.collect() }
    }

    /// Which tests fail with the rule as it stands, and how.
    #[must_use]
    pub fn problems(&self) -> Vec<String> {
        let numbered = self.tests.iter().zip(1..);
        let failed = numbered.filter_map(|((test, scene), number)| {
            let problem = attempt(self.rule, test, scene.as_ref()).err()?;
            Some(format!("test {number}: {problem}"))
        });
        failed.collect()
    }

    /// The sentences that `says` gives in the tests that make the rule fire.
    #[must_use]
    pub fn said(&self) -> Vec<String> {
        let fires = self.tests.iter().filter(|(test, _)| test.expect.fired());
        let findings = fires.filter_map(|(_, scene)| judge(self.rule, scene.as_ref().ok()?));
        findings.filter(|finding| finding.status.fired()).map(|finding| finding.summary).collect()
    }

    /// Whether a test that passes with the rule as it stands fails with this changed copy.
    #[must_use]
    pub fn notices(&self, changed: &Rule) -> bool {
        let fails =
            |rule: &Rule, test: &RuleTest, scene: &Result<Scene, String>| attempt(rule, test, scene.as_ref()).is_err();
        self.tests.iter().any(|(test, scene)| fails(changed, test, scene) && !fails(self.rule, test, scene))
    }
}

/// The metrics that the expressions of a rule cite, and those that only its sentences mention.
fn cited(rule: &Rule, metric_ids: &[&str]) -> (BTreeSet<String>, BTreeSet<String>) {
    let resolve = |path: &str| {
        let mut stems = std::iter::successors(Some(path), |stem| stem.rsplit_once('.').map(|(stem, _)| stem));
        stems.find(|stem| metric_ids.contains(stem)).map(str::to_owned)
    };
    let ids = |found: BTreeSet<Reference>| {
        found.into_iter().filter_map(|reference| match reference {
            Reference::Metric(id, _) => Some(id),
            _ => None,
        })
    };
    let expressions = rule.expressions().into_iter();
    let cited: BTreeSet<String> =
        expressions.flat_map(|(_, text)| ids(references(text, &resolve).unwrap_or_default())).collect();
    let sentences = [&rule.says, &rule.quiet].into_iter();
    let mentioned = sentences.flat_map(|text| ids(template_references(text, &resolve).unwrap_or_default()));
    let mentioned = mentioned.filter(|id| !cited.contains(id)).collect();
    (cited, mentioned)
}

/// The worst finding, that of the judged instance if there are several.
fn judge(rule: &Rule, scene: &Scene) -> Option<Finding> {
    let Scene { facts, metrics, log } = scene;
    let judge = Judge::new(Scope { facts, metrics: Arc::clone(metrics), window: 0, log, recent: 0.0 });
    let judged = |finding: &Finding| finding.instance.as_deref() == Some(scene::JUDGED);
    judge.judge(rule, "test").into_iter().max_by_key(|finding| (finding.status, judged(finding)))
}

fn attempt(rule: &Rule, test: &RuleTest, scene: Result<&Scene, &String>) -> Result<(), String> {
    let scene = scene.map_err(Clone::clone)?;
    let finding = judge(rule, scene).ok_or("it gave no finding")?;
    if finding.status != test.expect {
        return Err(format!("expected {}, found {}", test.expect.word(), finding.status.word()));
    }
    if let Some(expected) = &test.culprit {
        let found = finding.culprit.as_ref().map(|culprit| culprit.name.as_str());
        if found != expected.as_deref() {
            let name = |name: Option<&str>| name.map_or_else(|| "none".to_owned(), |name| format!("{name:?}"));
            return Err(format!("expected the culprit {}, found {}", name(expected.as_deref()), name(found)));
        }
    }
    sentence(rule, test, &finding)
}

fn sentence(rule: &Rule, test: &RuleTest, finding: &Finding) -> Result<(), String> {
    let says = &finding.summary;
    if finding.status.fired() || finding.status == Status::Ok {
        let key = if finding.status.fired() { "says" } else { "quiet" };
        if says.trim().is_empty() {
            return Err(format!("`{key}` is empty"));
        }
        if says.starts_with(&plain_sentence(rule, finding.value)) {
            let fill = "give the metrics and labels that it mentions, or let it ask whether they are defined";
            return Err(format!("`{key}` has a hole that nothing fills: {fill}"));
        }
        let mut words = says.split(|c: char| !c.is_alphanumeric());
        if let Some(word) = words.find(|word| NO_NUMBERS.contains(word)) {
            return Err(format!("`{key}` says {word:?}: {says}"));
        }
    }
    match &test.says {
        Some(expected) if !says.contains(expected.as_str()) => {
            Err(format!("the sentence does not say {expected:?}: {says}"))
        }
        _ => Ok(()),
    }
}
