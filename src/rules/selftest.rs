//! The tests that rules carry: readings in, status out.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::schema::Given;
use super::{Judge, Rule, RuleTest, Scope};
use crate::model::{Facts, Metrics, Reading, Reason, Stats, Status, Unavailable, Unit};

/// Unit and dimension of a metric, by id; the catalogue as rule tests need it.
pub type Lookup<'l> = &'l dyn Fn(&str) -> Option<(Unit, Option<&'static str>)>;

/// Runs a rule's tests; returns what went wrong, in words that follow the rule's id.
#[must_use]
pub fn run_tests(rule: &Rule, metric_ids: &[&str], lookup: Lookup<'_>) -> Vec<String> {
    let mut problems: Vec<String> = Vec::new();
    for (index, test) in rule.tests.iter().enumerate() {
        match run(rule, test, metric_ids, lookup) {
            Ok(found) if found == test.expect => {}
            Ok(found) => {
                problems.push(format!("test {}: expected {}, found {}", index + 1, test.expect.word(), found.word()))
            }
            Err(problem) => problems.push(format!("test {}: {problem}", index + 1)),
        }
    }
    let fires = rule.tests.iter().any(|test| test.expect.fired());
    let quiet = rule.tests.iter().any(|test| test.expect == Status::Ok);
    if !fires {
        problems.push("no test makes it fire".into());
    }
    if !quiet {
        problems.push("no test keeps it quiet (expect: ok)".into());
    }
    for (status, _) in rule.conditions() {
        if !rule.tests.iter().any(|test| test.expect == status) {
            problems.push(format!("no test reaches {}", status.word()));
        }
    }
    problems
}

fn run(rule: &Rule, test: &RuleTest, metric_ids: &[&str], lookup: Lookup<'_>) -> Result<Status, String> {
    let mut facts = Facts { cpus: 4, virtual_machine: false, ..Facts::default() };
    let mut metrics = Metrics { intervals: 1, seconds: 10.0, ..Metrics::default() };
    let mut stats: BTreeMap<String, Option<Stats>> = BTreeMap::new();
    let mut labels = BTreeMap::new();
    for (path, given) in &test.given {
        if let Some(fact) = path.strip_prefix("host.") {
            set_fact(&mut facts, fact, given.as_ref())?;
        } else if path == "window.seconds" {
            let Some(Given::Number(seconds)) = given else { return Err(format!("{path} must be a number")) };
            metrics.seconds = *seconds;
        } else if let Some(label) = path.strip_prefix("label.") {
            let Some(Given::Text(text)) = given else { return Err(format!("{path} must be text")) };
            labels.insert(label.to_owned(), text.clone());
        } else {
            set_stat(&mut stats, path, given.as_ref(), metric_ids)?;
        }
    }
    for (id, stats) in stats {
        let (unit, dimension) = lookup(&id).ok_or_else(|| format!("{id} is no metric"))?;
        let instance = if dimension.is_some() { "test" } else { "" };
        let reading = match stats {
            Some(stats) => Reading::Measured {
                unit,
                dimension: dimension.map(str::to_owned),
                source: "a rule test".into(),
                rank: 0,
                instances: BTreeMap::from([(instance.to_owned(), Ok(stats))]),
            },
            None => Reading::Unavailable(Unavailable::new(Reason::Absent, "the rule test takes it away")),
        };
        if let Some(dimension) = dimension {
            metrics.labels.entry(dimension.to_owned()).or_default().insert(instance.to_owned(), labels.clone());
        }
        metrics.readings.insert(id, reading);
    }
    // A metric that the test does not mention is not there: the rule must say `unknown`, not guess.
    for id in metric_ids {
        let gap = || Reading::Unavailable(Unavailable::new(Reason::Absent, "the rule test does not give it"));
        metrics.readings.entry((*id).to_owned()).or_insert_with(gap);
    }
    let judge = Judge::new(Scope { facts: &facts, metrics: Arc::new(metrics), window: 0, log: &[] });
    let findings = judge.judge(rule, "test");
    findings.into_iter().map(|finding| finding.status).max().ok_or_else(|| "it gave no finding".into())
}

fn set_stat(
    stats: &mut BTreeMap<String, Option<Stats>>,
    path: &str,
    given: Option<&Given>,
    metric_ids: &[&str],
) -> Result<(), String> {
    if metric_ids.contains(&path) {
        if given.is_some() {
            return Err(format!("{path} needs a statistic: {path}.mean, for example"));
        }
        stats.insert(path.to_owned(), None);
        return Ok(());
    }
    let (id, field) = path.rsplit_once('.').ok_or_else(|| format!("{path} is no reference to a metric"))?;
    let value = match given {
        None => {
            stats.insert(id.to_owned(), None);
            return Ok(());
        }
        Some(Given::Number(value)) => *value,
        Some(_) => return Err(format!("{path} must be a number")),
    };
    let entry = stats.entry(id.to_owned()).or_insert_with(|| Some(Stats::constant(value)));
    let Some(stats) = entry else { return Ok(()) };
    match field {
        "mean" => stats.mean = value,
        "min" => stats.min = value,
        "max" => stats.max = value,
        "p95" => stats.p95 = value,
        "last" => stats.last = value,
        "total" => stats.total = value,
        _ => return Err(format!("{field} is no statistic; there are {}", Stats::FIELDS.join(", "))),
    }
    Ok(())
}

fn set_fact(facts: &mut Facts, name: &str, given: Option<&Given>) -> Result<(), String> {
    match (name, given) {
        ("cpus", Some(Given::Number(n))) => facts.cpus = *n as u32,
        ("memory_bytes", Some(Given::Number(n))) => facts.memory_bytes = *n as u64,
        ("uptime_seconds", Some(Given::Number(n))) => facts.uptime_seconds = *n,
        ("virtual_machine", Some(Given::Flag(yes))) => facts.virtual_machine = *yes,
        _ => return Err(format!("host.{name} cannot be given this value in a test")),
    }
    Ok(())
}
