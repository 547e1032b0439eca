//! Which cause an answer ends in.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::{Answering, Seen, conclude};
use crate::load::parse;
use rdiag_model::answer::{Answer, Outcome};
use rdiag_model::{Facts, Metrics, Reading, Stats, Status, Unit};

const SPEC: &str = "
measured: Load {{ load.x.count.last|number }} on {{ host.cpus }} CPUs
present: load.x.count.last > 4
causes:
  - {id: first, title: the first, rules: [disk.errors, disk.saturation]}
  - {id: second, title: the second, rules: [cpu.saturation], when: status('cpu.saturation') >= info and load.x.count.last > 9}
  - {id: third, title: the third, when: load.x.count.last > 90, says: 'It is {{ load.x.count.last|number }}'}
";

fn reading(value: f64) -> Reading {
    Reading::Measured {
        unit: Unit::Count,
        dimension: None,
        source: String::new(),
        rank: 0,
        instances: [(String::new(), Ok(Stats::constant(value)))].into(),
    }
}

fn answer(load: Option<f64>, statuses: &[(&str, Status)]) -> Answer {
    answer_without(load, statuses, &[])
}

/// The same where no step asked for these rules.
fn answer_without(load: Option<f64>, statuses: &[(&str, Status)], unasked: &[&str]) -> Answer {
    let spec: Answering = parse("answer.yaml", SPEC).unwrap();
    let mut metrics = Metrics::default();
    metrics.readings.extend(load.map(|value| ("load.x.count".to_owned(), reading(value))));
    let mut all: BTreeMap<String, Status> =
        ["disk.errors", "disk.saturation", "cpu.saturation"].map(|id| (id.to_owned(), Status::Ok)).into();
    all.extend(statuses.iter().map(|(id, status)| ((*id).to_owned(), *status)));
    let facts = Facts { cpus: 4, ..Facts::default() };
    conclude(
        &spec,
        &Seen {
            facts: &facts,
            metrics: Arc::new(metrics),
            statuses: all,
            unasked: unasked.iter().map(|id| (*id).to_owned()).collect(),
        },
    )
}

fn outcomes(answer: &Answer) -> Vec<(&str, Outcome)> {
    answer.causes.iter().map(|cause| (cause.id.as_str(), cause.outcome)).collect()
}

use Outcome::{Beside, Found, NotLookedFor, RuledOut, Unknown};

#[test]
fn a_cause_is_there_when_one_of_its_rules_gives_a_warning_or_its_condition_holds() {
    let quiet = answer(Some(2.0), &[]);
    assert_eq!((quiet.symptom.as_str(), quiet.present), ("Load 2 on 4 CPUs", Some(false)));
    assert_eq!(outcomes(&quiet), [("first", RuledOut), ("second", RuledOut), ("third", RuledOut)]);
    let disk = answer(Some(20.0), &[("disk.saturation", Status::Warning), ("cpu.saturation", Status::Info)]);
    assert_eq!(outcomes(&disk), [("first", Found), ("second", Found), ("third", RuledOut)]);
    assert_eq!((disk.present, disk.causes[0].status), (Some(true), Status::Warning));
    let third = answer(Some(91.0), &[]);
    assert_eq!((third.causes[0].id.as_str(), third.causes[0].sentence.as_str()), ("third", "It is 91"));
    assert_eq!(third.causes[0].status, Status::Info);
}

#[test]
fn what_fired_and_is_not_the_cause_stands_beside_it_and_is_not_ruled_out() {
    let beside = answer(Some(5.0), &[("cpu.saturation", Status::Critical)]);
    assert_eq!(outcomes(&beside)[0], ("second", Beside));
    assert_eq!(beside.causes[0].status, Status::Critical);
    let worth_knowing = answer(Some(5.0), &[("disk.saturation", Status::Info)]);
    assert_eq!(outcomes(&worth_knowing)[0], ("first", Beside));
}

#[test]
fn what_no_step_looked_for_is_not_ruled_out() {
    let both = answer_without(Some(5.0), &[], &["disk.errors", "disk.saturation"]);
    assert!(outcomes(&both).contains(&("first", NotLookedFor)));
    let one = answer_without(Some(5.0), &[], &["disk.errors"]);
    assert!(outcomes(&one).contains(&("first", RuledOut)), "the other rule looked");
    let by_its_condition = answer_without(Some(5.0), &[], &["cpu.saturation"]);
    assert!(outcomes(&by_its_condition).contains(&("third", RuledOut)), "it asks no rule");
    let aside = answer_without(Some(5.0), &[("disk.saturation", Status::Skipped)], &["disk.errors"]);
    assert!(outcomes(&aside).contains(&("first", NotLookedFor)), "what does not apply saw nothing");
    let blind = answer_without(Some(5.0), &[("disk.saturation", Status::Unknown)], &["disk.errors"]);
    assert!(outcomes(&blind).contains(&("first", NotLookedFor)), "nor did what could not be judged");
    // Whether to ask could not be told: something may well point to it.
    let undecided = [("disk.saturation", Status::Unknown), ("disk.errors", Status::Unknown)];
    let undecided = answer_without(Some(5.0), &undecided, &["disk.errors"]);
    assert!(outcomes(&undecided).contains(&("first", Unknown)));
}

#[test]
fn what_could_not_be_judged_is_never_ruled_out() {
    let unknown = answer(Some(5.0), &[("disk.errors", Status::Unknown), ("disk.saturation", Status::Unknown)]);
    assert_eq!(outcomes(&unknown)[0], ("first", Unknown));
    // One of two rules that each can tell.
    let half = answer(Some(5.0), &[("disk.errors", Status::Unknown)]);
    assert!(outcomes(&half).contains(&("first", RuledOut)));
    let aside = answer(Some(5.0), &[("disk.errors", Status::Skipped), ("disk.saturation", Status::Unknown)]);
    assert!(outcomes(&aside).contains(&("first", Unknown)), "what does not apply rules out nothing else");
    let neither = answer(Some(5.0), &[("disk.errors", Status::Skipped), ("disk.saturation", Status::Skipped)]);
    assert!(outcomes(&neither).contains(&("first", RuledOut)));
    let missing = answer(None, &[("cpu.saturation", Status::Critical)]);
    assert_eq!(outcomes(&missing), [("second", Unknown), ("third", Unknown), ("first", RuledOut)]);
    assert_eq!((missing.symptom.as_str(), missing.present), ("", None));
}

/// How a cause of a built-in playbook ends, where these metrics are known and these rules fired.
fn outcome(yaml: &str, cause: &str, known: &[(&str, f64)], fired: &[(&str, Status)]) -> Outcome {
    let playbook: crate::Playbook = parse("playbook.yaml", yaml).unwrap();
    let mut metrics = Metrics::default();
    metrics.readings.extend(known.iter().map(|(id, value)| ((*id).to_owned(), reading(*value))));
    let rules = playbook.steps.iter().flat_map(|step| &step.rules);
    let mut statuses: BTreeMap<String, Status> = rules.map(|rule| (rule.clone(), Status::Ok)).collect();
    statuses.extend(fired.iter().map(|(id, status)| ((*id).to_owned(), *status)));
    let facts = Facts { cpus: 4, ..Facts::default() };
    let seen = Seen { facts: &facts, metrics: Arc::new(metrics), statuses, unasked: [].into() };
    let answer = conclude(&playbook.answer.unwrap(), &seen);
    answer.causes.iter().find(|one| one.id == cause).unwrap().outcome
}

#[test]
fn tasks_that_wait_for_the_disk_are_no_second_cause_beside_it() {
    let stall = include_str!("../../../playbooks/io-stall.yaml");
    let blocked = |waiting, fired: &[_]| {
        let known = [("tasks.blocked.count", 8.0), ("tasks.waiting_for_io.count", waiting)];
        outcome(stall, "blocked", &known, fired)
    };
    let (disk, tasks) = (("disk.saturation", Status::Critical), ("tasks.saturation.blocked", Status::Warning));
    assert_eq!(blocked(8.0, &[disk, tasks]), Beside);
    assert_eq!(blocked(3.0, &[disk, tasks]), Found, "five of them wait for something else");
    assert_eq!(blocked(8.0, &[tasks]), Found, "no disk is known to be behind it");
    let load = include_str!("../../../playbooks/high-load.yaml");
    let blocked = |waiting| {
        let known = [
            ("tasks.blocked.count", 8.0),
            ("tasks.waiting_for_io.count", waiting),
            ("tasks.uninterruptible.count", 8.0),
            ("cpu.runnable.count", 1.0),
        ];
        outcome(load, "blocked", &known, &[disk, tasks])
    };
    assert_eq!((blocked(8.0), blocked(3.0)), (RuledOut, Found));
}

#[test]
fn a_disk_is_not_slow_where_a_limit_makes_its_tasks_wait() {
    let container = include_str!("../../../playbooks/slow-container.yaml");
    let fired = [("disk.saturation.pressure", Status::Warning), ("cgroup.utilization.io", Status::Warning)];
    let outcomes = ["io", "pressure", "host-disk"].map(|cause| outcome(container, cause, &[], &fired));
    assert_eq!(outcomes, [Found, Found, RuledOut]);
}
