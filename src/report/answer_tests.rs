//! The headline of a symptom.

use std::collections::BTreeMap;

use super::answer::{complete, of};
use super::sample::{above, finding, unknown};
use rdiag_model::answer::{Answer, Cause, Outcome};
use rdiag_model::finding::Levels;
use rdiag_model::{Confidence, Culprit, Finding, Status};

fn cause(id: &str, outcome: Outcome, rule: &str) -> Cause {
    let status = if outcome == Outcome::Found { Status::Warning } else { Status::Ok };
    let (id, title) = (id.to_owned(), format!("title of {id}"));
    Cause { id, title, outcome, status, sentence: String::new(), rules: vec![rule.to_owned()] }
}

/// What the two rules ask for whose figures may be near their thresholds.
fn levels() -> BTreeMap<String, Levels> {
    let of = |id: &str| (id.to_owned(), Levels { alternatives: vec![above(0.2)], ..Levels::default() });
    ["cpu.saturation", "cpu.saturation.pressure"].map(of).into()
}

fn headline(present: Option<bool>, causes: Vec<Cause>, mut findings: Vec<Finding>) -> (Status, String) {
    let mut answer = Answer { symptom: "Load 38".into(), present, causes, unseen: Vec::new() };
    complete(&mut answer, &mut findings, &levels());
    let (status, headline) = of(&answer, &findings);
    (status, headline.to_string())
}

fn fired(id: &str, status: Status) -> Finding {
    let name = "fio".to_owned();
    let culprit = Culprit {
        kind: "process".into(),
        name,
        pids: vec![7],
        count: 1,
        share: None,
        value: None,
        unit: None,
        metric: None,
        deed: rdiag_model::DeedOfMetric::default(),
        labels: [].into(),
    };
    Finding { culprit: Some(culprit), ..finding(id, status) }
}

#[test]
fn a_headline_begins_with_the_symptom_and_goes_on_with_the_cause_and_who_is_behind_it() {
    let causes = || {
        vec![
            cause("disk", Outcome::Found, "disk.saturation"),
            cause("cpu", Outcome::Beside, "cpu.saturation"),
            cause("memory", Outcome::RuledOut, "memory.saturation"),
        ]
    };
    let findings = || {
        vec![
            fired("cpu.saturation", Status::Critical),
            fired("disk.saturation", Status::Warning),
            finding("disk.errors", Status::Critical),
            finding("memory.saturation", Status::Ok),
        ]
    };
    let (status, said) = headline(Some(true), causes(), findings());
    assert_eq!(said, "Load 38 — The summary of disk.saturation; fio (pid 7) (also: title of cpu and disk errors)");
    assert_eq!(status, Status::Critical, "what else is here is not hidden");
    let mut doubtful = findings();
    doubtful[1].confidence = Confidence::Low;
    assert!(headline(None, causes(), doubtful).1.starts_with("Load 38 — likely: the summary of disk"));
}

#[test]
fn without_a_cause_a_headline_says_what_was_ruled_out_and_what_was_not_measured() {
    let clear =
        || vec![cause("disk", Outcome::RuledOut, "disk.saturation"), cause("cpu", Outcome::RuledOut, "cpu.saturation")];
    let ok = || vec![finding("disk.saturation", Status::Ok), finding("cpu.saturation", Status::Info)];
    let said = "Load 38; no cause found; ruled out: title of disk and title of cpu";
    assert_eq!(headline(Some(false), clear(), ok()), (Status::Ok, said.to_owned()));
    assert_eq!(headline(None, clear(), ok()).0, Status::Ok);
    assert_eq!(headline(Some(true), clear(), ok()).0, Status::Info, "it is there, and not explained");
    let open =
        || vec![cause("disk", Outcome::Unknown, "disk.saturation"), cause("cpu", Outcome::RuledOut, "cpu.saturation")];
    let gap = || vec![unknown("disk.saturation", "no /proc/diskstats"), finding("cpu.saturation", Status::Ok)];
    let said = "Load 38; no cause found; not measured: title of disk; ruled out: title of cpu";
    assert_eq!(headline(None, open(), gap()), (Status::Unknown, said.to_owned()));
    assert_eq!(headline(Some(true), open(), gap()).0, Status::Unknown);
    assert_eq!(headline(Some(false), open(), gap()).0, Status::Ok);
    let elsewhere = vec![finding("network.errors", Status::Warning), finding("disk.saturation", Status::Ok)];
    let (status, said) = headline(Some(false), clear(), elsewhere);
    assert!(status == Status::Warning && said.contains("; also: network errors; ruled out"), "{said}");
}

#[test]
fn each_cause_says_what_was_seen_and_the_findings_of_the_found_one_come_first() {
    let causes = vec![
        cause("disk", Outcome::Found, "disk.saturation"),
        cause("cpu", Outcome::RuledOut, "cpu.saturation"),
        cause("memory", Outcome::Unknown, "memory.saturation"),
    ];
    let mut findings = vec![
        finding("network.errors", Status::Critical),
        finding("disk.saturation", Status::Warning),
        unknown("memory.saturation", "PSI is switched off"),
        finding("cpu.saturation", Status::Ok),
    ];
    let mut answer = Answer { symptom: String::new(), present: None, causes, unseen: Vec::new() };
    complete(&mut answer, &mut findings, &levels());
    let said: Vec<&str> = answer.causes.iter().map(|cause| cause.sentence.as_str()).collect();
    assert_eq!(said, ["The summary of disk.saturation.", "PSI is switched off", "The summary of cpu.saturation."]);
    assert_eq!(findings[0].id, "disk.saturation");
}

#[test]
fn a_figure_near_or_beyond_its_threshold_rules_nothing_out() {
    let rules = ["cpu.saturation", "cpu.saturation.pressure"].map(str::to_owned).to_vec();
    let cpu = Cause { rules, ..cause("cpu", Outcome::RuledOut, "") };
    let said = |first: f64, second: f64| {
        let mut waits = finding("cpu.saturation", Status::Ok);
        waits.value = Some(first);
        let mut pressure = finding("cpu.saturation.pressure", Status::Ok);
        pressure.value = Some(second);
        let mut findings = vec![waits, pressure];
        let causes = vec![cause("disk", Outcome::Unknown, "disk.saturation"), cpu.clone()];
        let mut answer = Answer { symptom: "Load 38".into(), present: None, causes, unseen: Vec::new() };
        complete(&mut answer, &mut findings, &levels());
        let at = answer.causes.iter().position(|cause| cause.id == "cpu").unwrap();
        let cause = &answer.causes[at];
        (at, cause.outcome, cause.sentence.clone(), of(&answer, &findings).1.to_string())
    };
    let headline = "Load 38; no cause found; not clear: title of cpu; not measured: title of disk".to_owned();
    let sentence = "The summary of cpu.saturation, without the other signs of it.".to_owned();
    assert_eq!(said(0.75, 0.1), (0, Outcome::NotClear, sentence, headline.clone()));
    let sentence = "The summary of cpu.saturation.pressure, without the other signs of it.".to_owned();
    assert_eq!(said(0.19, 0.9), (0, Outcome::NotClear, sentence, headline.clone()), "beyond is more than near");
    let sentence = "The summary of cpu.saturation, near its threshold.".to_owned();
    assert_eq!(said(0.19, 0.1), (0, Outcome::NotClear, sentence, headline));
    let headline = "Load 38; no cause found; not measured: title of disk; ruled out: title of cpu".to_owned();
    assert_eq!(said(0.1, 0.1), (1, Outcome::RuledOut, "The summary of cpu.saturation.".to_owned(), headline));
}

#[test]
fn what_fired_for_another_cause_is_counted_under_that_one() {
    let causes =
        vec![cause("disk", Outcome::Found, "disk.saturation"), cause("tasks", Outcome::RuledOut, "disk.saturation")];
    let mut answer = Answer { symptom: "Load 1".into(), present: None, causes, unseen: Vec::new() };
    complete(&mut answer, &mut [finding("disk.saturation", Status::Warning)], &levels());
    let tasks = &answer.causes[1];
    assert_eq!(
        (tasks.outcome, tasks.sentence.as_str()),
        (Outcome::NotClear, "The summary of disk.saturation; counted under: title of disk.")
    );
}

#[test]
fn what_is_over_has_no_other_signs_to_lack() {
    let said = |status| {
        let mut answer = Answer {
            symptom: "Load 1".into(),
            present: None,
            causes: vec![cause("oom", Outcome::RuledOut, "memory.errors.oom")],
            unseen: Vec::new(),
        };
        complete(&mut answer, &mut [finding("memory.errors.oom", status)], &levels());
        (answer.causes[0].outcome, answer.causes[0].sentence.clone())
    };
    assert_eq!(said(Status::Info), (Outcome::RuledOut, "The summary of memory.errors.oom.".to_owned()));
    let open = "The summary of memory.errors.oom, without the other signs of it.".to_owned();
    assert_eq!(said(Status::Warning), (Outcome::NotClear, open));
}

#[test]
fn what_was_not_looked_for_says_so() {
    let causes = vec![cause("deleted", Outcome::NotLookedFor, "filesystem.utilization.deleted")];
    let mut answer = Answer { symptom: "Load 1".into(), present: None, causes, unseen: Vec::new() };
    complete(&mut answer, &mut [], &levels());
    assert_eq!(answer.causes[0].sentence, "nothing pointed to it");
    assert_eq!(of(&answer, &[]).1.to_string(), "Load 1; no cause found", "it is not ruled out by that");
}
