//! What the tests of rules can say, and what they refuse.

use super::{Bench, run_tests};
use crate::rules::{Rule, mutants};
use rdiag_model::Unit;

const RULE: &str = "
id: cpu.saturation
title: A rule
value: a.x.ratio.mean
unit: ratio
warning: value > 0.5
for: 2
says: '{{ value|percent }} on {{ label.kind }}, {{ b.x.count.last|number }} waited'
quiet: it is quiet
why: it must
verify: look
culprit: top(c.x.seconds)
next: []
tests:
";

const FIRES: &str = "
  - given: {a.x.ratio.mean: [0.1, 0.55, 0.55], label.kind: big, c.x.seconds: {slow: 8, fast: {value: 1, kind: small}}}
    expect: warning
    culprit: slow
    says: 40.0% on big
";
const QUIET: &str = "
  - given: {a.x.ratio.mean: [0.9, 0.45, 0.9]}
    expect: ok
";

fn rule(tests: &str) -> Rule {
    serde_yaml::from_str(&format!("{RULE}{tests}")).unwrap()
}

const IDS: [&str; 3] = ["a.x.ratio", "b.x.count", "c.x.seconds"];

fn lookup(id: &str) -> Option<(Unit, Option<&'static str>)> {
    let units = [Unit::Ratio, Unit::Count, Unit::Seconds];
    IDS.iter().position(|known| *known == id).map(|at| (units[at], (at != 1).then_some("task")))
}

fn problems(tests: &str) -> Vec<String> {
    run_tests(&rule(tests), &IDS, &lookup)
}

#[test]
fn a_series_instances_a_culprit_and_a_sentence_are_all_judged() {
    assert_eq!(problems(&format!("{FIRES}{QUIET}")), [""; 0]);
    let wrong = [
        ("culprit: slow", "culprit: fast", "expected the culprit \"fast\", found \"slow\""),
        ("culprit: slow", "culprit: null", "expected the culprit none, found \"slow\""),
        ("says: 40.0%", "says: 41.0%", "does not say \"41.0% on big\""),
        ("label.kind: big, ", "", "`says` has a hole that nothing fills"),
        ("0.55, 0.55]", "0.55, 0.45]", "expected warning, found ok"),
        ("c.x.seconds: {", "b.x.count: {", "b.x.count is measured for the whole host"),
        ("0.55], ", "0.55], c.x.seconds.mean: [1, 2], ", "must have as many intervals as each other"),
    ];
    for (from, to, expected) in wrong {
        let found = problems(&format!("{}{QUIET}", FIRES.replacen(from, to, 1)));
        assert!(found.iter().any(|problem| problem.contains(expected)), "{to}: {found:?}");
    }
}

fn survivors(rule: &Rule) -> Vec<String> {
    let bench = Bench::new(rule, &IDS, &lookup);
    mutants(rule).into_iter().filter(|mutant| !bench.notices(&mutant.rule)).map(|mutant| mutant.what).collect()
}

#[test]
fn what_no_test_notices_is_found() {
    let rule = rule(&format!("{FIRES}{QUIET}"));
    assert_eq!(survivors(&rule), [""; 0]);
    // Without the series and the culprit, neither `for` nor the culprit is proven.
    let plain = "
  - {given: {a.x.ratio.mean: 0.9, label.kind: big}, expect: warning}
  - {given: {a.x.ratio.mean: 0.1}, expect: ok}
";
    let survivors = survivors(&self::rule(plain));
    for expected in
        ["0.5 in `warning` were 0.6", "0.5 in `warning` were 0.4", "there were no `for`", "there were no `culprit`"]
    {
        assert!(survivors.iter().any(|what| what == expected), "{expected}: {survivors:?}");
    }
}
