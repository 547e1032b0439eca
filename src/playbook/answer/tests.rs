//! Which cause an answer ends in.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::{Answering, Seen, conclude};
use crate::playbook::load::parse;
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

fn answer(load: Option<f64>, statuses: &[(&str, Status)]) -> Answer {
    answer_without(load, statuses, &[])
}

/// The same where no step asked for these rules.
fn answer_without(load: Option<f64>, statuses: &[(&str, Status)], unasked: &[&str]) -> Answer {
    let spec: Answering = parse("answer.yaml", SPEC).unwrap();
    let mut metrics = Metrics::default();
    let reading = |value| Reading::Measured {
        unit: Unit::Count,
        dimension: None,
        source: String::new(),
        rank: 0,
        instances: [(String::new(), Ok(Stats::constant(value)))].into(),
    };
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
