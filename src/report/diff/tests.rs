use super::*;
use crate::sample::{finding, report};
use rdiag_model::Unavailable;
use rdiag_model::probe::{Frame, Stack};

fn input(findings: Vec<Finding>) -> Input {
    let side = Side { playbook: "use-method".into(), ..Side::default() };
    Input { report: Some(report(findings)), side, ..Input::default() }
}

fn changes(before: &[(&str, Status)], after: &[(&str, Status)]) -> Vec<(String, Change)> {
    let findings = |list: &[(&str, Status)]| list.iter().map(|(id, status)| finding(id, *status)).collect();
    let comparison = compare(&input(findings(before)), &input(findings(after)));
    comparison.findings.into_iter().map(|finding| (finding.id, finding.change)).collect()
}

#[test]
fn findings_appear_go_and_change_and_what_is_not_seen_any_more_is_not_gone() {
    use Status::{Critical, Ok, Unknown, Warning};
    let one = |before, after| changes(&[("cpu.saturation", before)], &[("cpu.saturation", after)]);
    let expected = |change| vec![("cpu.saturation".to_owned(), change)];
    assert_eq!(one(Ok, Warning), expected(Change::Appeared));
    assert_eq!(one(Unknown, Warning), expected(Change::Appeared));
    assert_eq!(one(Warning, Critical), expected(Change::Worse));
    assert_eq!(one(Critical, Warning), expected(Change::Better));
    assert_eq!(one(Critical, Ok), expected(Change::Gone));
    assert_eq!(one(Critical, Unknown), expected(Change::NotSeen));
    assert_eq!(changes(&[("cpu.saturation", Critical)], &[]), expected(Change::NotSeen));
    assert_eq!(one(Warning, Warning), []);
    assert_eq!(one(Unknown, Ok), []);
}

fn measured(intervals: &[f64]) -> Metrics {
    let mean = intervals.iter().sum::<f64>() / intervals.len() as f64;
    let stats = Stats { mean, intervals: intervals.iter().copied().map(Some).collect(), ..Stats::constant(mean) };
    let reading = |dimension: Option<&str>| Reading::Measured {
        unit: Unit::Ratio,
        dimension: dimension.map(str::to_owned),
        source: String::new(),
        rank: 0,
        instances: [
            (String::new(), Ok(stats.clone())),
            ("x".into(), Err(Unavailable::new(rdiag_model::Reason::Absent, ""))),
        ]
        .into(),
    };
    let readings =
        [("cpu.busy.ratio".into(), reading(None)), ("process.cpu.ratio".into(), reading(Some("process")))].into();
    Metrics { readings, ..Metrics::default() }
}

fn moved(before: &[f64], after: &[f64]) -> usize {
    let with = |intervals: &[f64]| Input { metrics: vec![measured(intervals)], ..input(Vec::new()) };
    let comparison = compare(&with(before), &with(after));
    assert_eq!(comparison.metrics_compared, 1, "processes come and go");
    comparison.metrics.len()
}

#[test]
fn a_metric_moved_when_the_change_exceeds_what_its_intervals_vary_by() {
    assert_eq!(moved(&[0.20, 0.22, 0.21, 0.19, 0.20], &[0.41, 0.40, 0.39, 0.42, 0.40]), 1);
    assert_eq!(moved(&[0.1, 0.9, 0.2, 0.8, 0.1], &[0.9, 0.2, 0.9, 0.3, 0.8]), 0, "noise");
    assert_eq!(moved(&[0.2000, 0.2001, 0.2000, 0.2001], &[0.2020, 0.2021, 0.2020, 0.2021]), 0, "too little to matter");
    assert_eq!(moved(&[0.2], &[0.25]), 0, "nothing is known of the noise");
    assert_eq!(moved(&[0.2], &[0.9]), 1);
    assert_eq!(moved(&[0.0; 5], &[0.0; 5]), 0);
    assert_eq!(moved(&[f64::NAN; 5], &[1.0; 5]), 0);
}

/// What changed, and what may have changed by chance, of a finding by the CPUs' busy time before and after.
fn judged(before: &[f64], after: &[f64]) -> (usize, Vec<String>) {
    judged_as("cpu.utilization", Unit::Ratio, [before, after])
}

/// The same of another rule, as if it judged by that figure.
fn judged_as(rule: &str, unit: Unit, [before, after]: [&[f64]; 2]) -> (usize, Vec<String>) {
    let with = |intervals: &[f64], status| {
        let metrics = measured(intervals);
        let mean = metrics.measured("cpu.busy.ratio", "").unwrap().mean;
        let mut finding = finding(rule, status);
        (finding.value, finding.unit) = (Some(mean), unit);
        finding.evidence = vec![Evidence {
            metric: "cpu.busy.ratio".into(),
            instance: None,
            window: 0,
            mean: Some(mean),
            max: None,
            total: None,
            unit,
            source: String::new(),
        }];
        Input { metrics: vec![metrics], ..input(vec![finding]) }
    };
    let comparison = compare(&with(before, Status::Ok), &with(after, Status::Warning));
    (comparison.findings.len(), comparison.findings_in_noise)
}

#[test]
fn a_finding_that_crossed_its_threshold_by_noise_is_told_from_one_that_appeared() {
    assert_eq!(judged(&[0.2, 0.21, 0.2, 0.19], &[0.8, 0.82, 0.81, 0.79]), (1, Vec::new()));
    let noise = judged(&[0.55, 0.62, 0.5, 0.6], &[0.58, 0.64, 0.55, 0.62]);
    assert_eq!(noise, (0, vec!["cpu.utilization".to_owned()]));
    // Two intervals say nothing about noise.
    assert_eq!(judged(&[0.5, 0.6], &[0.6, 0.7]), (1, Vec::new()));
}

#[test]
fn one_kill_more_is_no_noise_however_rare_it_is() {
    let figures: [&[f64]; 2] = [&[0.0, 0.0, 0.0, 0.0], &[0.0, 0.0, 1.0, 0.0]];
    assert_eq!(judged_as("memory.errors.oom", Unit::Count, figures), (1, Vec::new()));
    assert_eq!(judged_as("tasks.saturation.blocked", Unit::Count, figures).0, 0, "a number of tasks varies");
    assert_eq!(judged_as("network.errors.retransmits", Unit::Ratio, figures).0, 0, "and so does a share");
}

#[test]
fn the_curves_of_a_report_tell_its_noise() {
    let with = |level: f64| {
        let mut findings = crate::sample::saturated();
        findings.retain(|finding| finding.id == "cpu.saturation");
        findings[0].status = if level > 0.5 { Status::Critical } else { Status::Warning };
        let mut input = input(findings);
        let plot = &mut input.report.as_mut().unwrap().plots[0];
        plot.points.iter_mut().for_each(|(_, value)| *value = value.map(|value| value + level - 0.7));
        let finding = &mut input.report.as_mut().unwrap().findings[0];
        finding.value = Some(level);
        finding.evidence[0].mean = Some(level);
        input
    };
    let compared = |one: f64, other: f64| compare(&with(one), &with(other));
    assert_eq!(compared(0.49, 0.51).findings_in_noise, ["cpu.saturation"]);
    let clear = compared(0.2, 0.7);
    assert_eq!((clear.findings.len(), clear.findings_in_noise.len()), (1, 0));
    assert!(clear.metrics.iter().any(|metric| metric.errors.is_some()), "{:?}", clear.metrics);
}

fn stacks(list: &[(&[u32], f64)]) -> Stacks {
    let frame = |name: &str| Frame { name: name.into(), ..Frame::default() };
    let stack = |(frames, value): &(&[u32], f64)| Stack {
        owner: "app".into(),
        frames: frames.to_vec(),
        value: *value,
        ..Stack::default()
    };
    Stacks {
        frames: ["main", "a", "b"].map(frame).to_vec(),
        stacks: list.iter().map(stack).collect(),
        ..Stacks::default()
    }
}

#[test]
fn functions_move_in_shares_of_their_own_whole() {
    // Ten times as many samples, of which `a` has a larger part.
    let (before, after) = (stacks(&[(&[0, 1], 5.0), (&[0, 2], 5.0)]), stacks(&[(&[0, 1], 80.0), (&[0, 2], 20.0)]));
    let change = compare_stacks("profile", &before, &after);
    assert_eq!((change.whole_before, change.whole_after), (10.0, 100.0));
    let shares: Vec<_> =
        change.functions.iter().map(|f| (f.name.as_str(), f.own.map(|x| (x * 100.0).round()))).collect();
    assert_eq!(shares, [("a", [50.0, 80.0]), ("b", [50.0, 20.0])], "main is in all stacks of both");
    let svg = picture(&before, &after, true).unwrap();
    for part in [
        "<g class=\"m5\"><title>a: 50.0% before, 80.0% after, +30.0 points</title>",
        "<g class=\"l5\"><title>b: 50.0% before, 20.0% after, −30.0 points</title>",
        "<g class=\"d0\"><title>main: 100% before, 100% after, ±0.0 points</title>",
        ">+30.0 a</text>",
        "Red and +: more in the second.",
    ] {
        assert!(svg.contains(part), "{part} is not in {svg}");
    }
}

#[test]
fn a_side_without_stacks_gives_no_picture() {
    let (empty, some) = (stacks(&[]), stacks(&[(&[0], 1.0)]));
    assert_eq!(picture(&empty, &some, true), None);
    assert!(compare_stacks("profile", &some, &empty).functions.is_empty());
}
