//! Judging, on readings made by hand.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::{Judge, Rule, Scope};
use rdiag_model::finding::{Asked, Levels, Sign};
use rdiag_model::{Facts, Finding, Metrics, Reading, Reason, Stats, Status, Unavailable, Unit};

const RULE: &str = "
id: cpu.saturation
title: A rule
value: a.x.ratio.mean
unit: ratio
warning: value > 0.5 and b.x.ratio.mean > 0.5
for: 3
says: it fires
quiet: it is quiet
why: it must
verify: look
next: []
tests: []
";

fn rule(changes: &[(&str, &str)]) -> Rule {
    let text = changes.iter().fold(RULE.to_owned(), |text, (from, to)| text.replace(from, to));
    serde_yaml::from_str(&text).unwrap()
}

fn stats(intervals: &[Option<f64>]) -> Stats {
    Stats { intervals: intervals.to_vec(), ..Stats::constant(0.9) }
}

fn reading(dimension: Option<&str>, instances: &[(&str, Stats)]) -> Reading {
    let instances = instances.iter().map(|(name, stats)| ((*name).to_owned(), Ok(stats.clone())));
    Reading::Measured {
        unit: Unit::Ratio,
        dimension: dimension.map(str::to_owned),
        source: "a test".into(),
        rank: 0,
        instances: instances.collect(),
    }
}

fn missing() -> Reading {
    Reading::Unavailable(Unavailable::new(Reason::Denied, "no user may read it"))
}

fn judge(rule: &Rule, a: Reading, b: Reading) -> Vec<Finding> {
    let readings = BTreeMap::from([("a.x.ratio".to_owned(), a), ("b.x.ratio".to_owned(), b)]);
    let metrics = Metrics { readings, intervals: 5, seconds: 5.0, ..Metrics::default() };
    let facts = Facts::default();
    Judge::new(Scope { facts: &facts, metrics: Arc::new(metrics), window: 0, log: &[], recent: 0.0 })
        .judge(rule, "test")
}

const ALL: [Option<f64>; 5] = [Some(0.9); 5];

#[test]
fn intervals_in_which_a_late_source_gave_nothing_do_not_spoil_the_others() {
    let late = [None, None, Some(0.9), Some(0.9), Some(0.9)];
    let findings = judge(&rule(&[]), reading(None, &[("", stats(&ALL))]), reading(None, &[("", stats(&late))]));
    assert_eq!(findings[0].status, Status::Warning);
    assert_eq!(findings[0].held_intervals, Some((3, 5)));
}

#[test]
fn an_interval_without_a_reading_breaks_the_row() {
    let holes = [Some(0.9), Some(0.9), None, Some(0.9), Some(0.9)];
    let findings = judge(&rule(&[]), reading(None, &[("", stats(&ALL))]), reading(None, &[("", stats(&holes))]));
    assert_eq!(findings[0].status, Status::Ok);
}

#[test]
fn readings_that_never_meet_in_an_interval_give_unknown_and_not_ok() {
    let (first, last) = ([Some(0.9), None, None, None, None], [None, None, None, None, Some(0.9)]);
    let findings = judge(&rule(&[]), reading(None, &[("", stats(&first))]), reading(None, &[("", stats(&last))]));
    assert_eq!(findings[0].status, Status::Unknown);
    assert_eq!(findings[0].unavailable.as_ref().map(|gap| gap.reason), Some(Reason::ShortWindow));
}

#[test]
fn a_metric_that_is_missing_altogether_is_one_gap_and_not_one_for_each_instance() {
    let cpus = || reading(Some("cpu"), &[("0", stats(&ALL)), ("1", stats(&ALL))]);
    for (a, b) in [(cpus(), missing()), (missing(), cpus())] {
        let findings = judge(&rule(&[]), a, b);
        assert_eq!(findings.len(), 1);
        assert_eq!(findings[0].status, Status::Unknown);
        assert_eq!(findings[0].unavailable.as_ref().map(|gap| gap.reason), Some(Reason::Denied));
    }
}

#[test]
fn a_rule_that_does_not_apply_is_skipped_even_if_its_metric_is_missing() {
    let applies = rule(&[("for: 3", "applies: {when: host.cpus > 1, because: there is one CPU}")]);
    let findings = judge(&applies, missing(), missing());
    assert_eq!(findings[0].status, Status::Skipped);
}

#[test]
fn the_highest_of_a_metric_shows_its_reading_and_its_gap() {
    let highest = rule(&[("a.x.ratio.mean", "highest(a.x.ratio)"), ("for: 3", "")]);
    let cpus = reading(Some("cpu"), &[("0", stats(&ALL)), ("1", Stats::constant(0.95))]);
    let findings = judge(&highest, cpus, reading(None, &[("", stats(&ALL))]));
    assert_eq!(findings[0].status, Status::Warning);
    let evidence = findings[0].evidence.iter().find(|evidence| evidence.metric == "a.x.ratio").unwrap();
    assert_eq!((evidence.instance.as_deref(), evidence.mean), (Some("1"), Some(0.95)));
    let findings = judge(&highest, missing(), reading(None, &[("", stats(&ALL))]));
    assert_eq!(findings[0].unavailable.as_ref().map(|gap| gap.reason), Some(Reason::Denied));
}

#[test]
fn a_figure_of_the_instance_alone_is_needed_only_where_a_condition_gets_as_far() {
    let condition = "value > 5 or (value > 0.5 and highest(b.x.ratio, instance=instance) > 0.5)";
    let own = rule(&[("value > 0.5 and b.x.ratio.mean > 0.5", condition)]);
    let verdicts = |intervals: [f64; 5], b: Reading| {
        let a = reading(Some("cpu"), &[("0", stats(&intervals.map(Some)))]);
        let finding = judge(&own, a, b).remove(0);
        (finding.status, finding.unavailable.map(|gap| gap.reason))
    };
    let of_another = || reading(Some("cpu"), &[("1", stats(&ALL))]);
    assert_eq!(verdicts([9.0; 5], missing()), (Status::Warning, None));
    assert_eq!(verdicts([9.0, 9.0, 9.0, 0.9, 0.9], missing()), (Status::Warning, None));
    assert_eq!(verdicts([0.9; 5], missing()), (Status::Unknown, Some(Reason::Denied)));
    assert_eq!(verdicts([0.9; 5], of_another()), (Status::Unknown, Some(Reason::Absent)));
    assert_eq!(verdicts([0.9, 0.1, 0.9, 0.9, 0.1], missing()), (Status::Ok, None), "not long enough, whatever it is");
    assert_eq!(verdicts([0.1; 5], missing()), (Status::Ok, None));
}

#[test]
fn a_label_that_is_not_known_is_a_gap_in_words_and_only_where_a_condition_gets_as_far() {
    let of_class = rule(&[("value > 0.5 and b.x.ratio.mean > 0.5", "value > 0.5 and label.class == 'hdd'")]);
    let of = |value: f64| {
        let a = reading(Some("device"), &[("sda", stats(&[Some(value); 5]))]);
        judge(&of_class, a, reading(None, &[("", stats(&ALL))])).remove(0)
    };
    let busy = of(0.9);
    let gap = busy.unavailable.as_ref().map(|gap| (gap.reason, gap.why.as_str()));
    let why = "whether that is much depends on the class of the device, which is not known";
    assert_eq!((busy.status, gap), (Status::Unknown, Some((Reason::Absent, why))));
    assert_eq!(of(0.1).status, Status::Ok);
}

#[test]
fn a_window_that_was_measured_in_part_is_judged_by_that_part_with_less_confidence() {
    let late = [None, None, None, Some(0.9), Some(0.9)];
    let readings = [("a.x.ratio", stats(&ALL)), ("b.x.ratio", stats(&late))];
    let readings = readings.map(|(id, stats)| (id.to_owned(), reading(None, &[("", stats)])));
    let spans = BTreeMap::from([("b.x.ratio".to_owned(), (3, 5))]);
    let metrics = Metrics { readings: readings.into(), spans, intervals: 5, seconds: 5.0, ..Metrics::default() };
    let facts = Facts::default();
    let judge = Judge::new(Scope { facts: &facts, metrics: Arc::new(metrics), window: 0, log: &[], recent: 0.0 });
    let findings = judge.judge(&rule(&[]), "test");
    assert_eq!(findings[0].status, Status::Warning);
    assert!(findings[0].confidence_reasons[0].why().contains("2 intervals were measured"));
}

#[test]
fn a_rule_knows_the_levels_of_its_conditions_and_the_side_on_which_they_hold() {
    let none = rule(&[("warning: value > 0.5 and b.x.ratio.mean > 0.5", "warning: a.x.ratio.max > 0.5")]).levels();
    assert_eq!(none, Levels { alternatives: vec![vec![Asked::Else]], ..Levels::default() });
    let low =
        rule(&[("warning: value > 0.5 and b.x.ratio.mean > 0.5", "warning: value < 0.95\ncritical: value < 0.1")]);
    let by_status = [(Status::Warning, 0.95), (Status::Critical, 0.1)].into();
    let alternatives = [0.1, 0.95].map(|level| vec![Asked::Value(Sign::Below, level)]).into();
    assert_eq!(low.levels(), Levels { by_status, low_is_bad: true, alternatives });
}
