//! For each rule, the situations in which its words would be false, and what keeps it from saying them there (`false_if`).

use std::collections::BTreeSet;

use rdiag_model::Status;
use rdiag_session as session;

/// Rules that can give a warning and have no such list yet: it may only get shorter.
const WITHOUT: &str = include_str!("false_words.txt");

#[test]
fn each_rule_that_can_warn_says_when_its_words_would_be_false() {
    let library = session::library(&[], &[]).unwrap();
    let rules = library.rules.values().map(|loaded| &loaded.rule);
    let can_warn =
        |rule: &&rdiag_judge::rules::Rule| rule.conditions().iter().any(|(status, _)| *status >= Status::Warning);
    let without: Vec<&str> =
        rules.filter(can_warn).filter(|rule| rule.false_if.is_empty()).map(|rule| rule.id.as_str()).collect();
    let listed: Vec<&str> = WITHOUT.lines().collect();
    assert_eq!(without, listed, "tests/false_words.txt lists them, in order");
}

#[test]
fn each_situation_is_excluded_by_a_test_that_exists_or_a_part_of_the_rule() {
    let library = session::library(&[], &[]).unwrap();
    let open: Vec<String> = library.rules.values().flat_map(|loaded| loaded.rule.open_situations()).collect();
    assert!(open.is_empty(), "{open:#?}");
    let mut wrong = library.rules["cpu.saturation"].rule.clone();
    assert!(!wrong.false_if.is_empty());
    wrong.tests.iter_mut().for_each(|test| test.name = None);
    wrong.unless = None;
    assert_eq!(wrong.open_situations().len(), wrong.false_if.len());
}

/// Probes of drill-downs that show a table, or single events, of which no rule makes a sentence.
const WITHOUT_A_SENTENCE: [&str; 3] = ["biosnoop", "drops", "runqslower"];

/// What a probe found is put into words by the rules of its step, most of which can give no more than `info`.
#[test]
fn each_sentence_about_what_a_drill_down_found_says_when_it_would_be_false() {
    let library = session::library(&[], &[]).unwrap();
    let steps = library.playbooks.values().flat_map(|loaded| &loaded.playbook.steps);
    let drill_downs: Vec<_> = steps.filter(|step| step.when.is_some()).collect();
    let rules: BTreeSet<&str> = drill_downs.iter().flat_map(|step| &step.rules).map(String::as_str).collect();
    let listed: Vec<&str> = WITHOUT.lines().collect();
    let is_open = |id: &&&str| library.rules[**id].rule.false_if.is_empty() && !listed.contains(*id);
    let open: Vec<&&str> = rules.iter().filter(is_open).collect();
    assert!(rules.len() > 15 && open.is_empty(), "{open:?} of {rules:?}");

    let probes = |id: &&str| rdiag_probes::ALL.iter().any(|probe| probe.id == *id);
    let mut silent = BTreeSet::new();
    for step in &drill_downs {
        let reads = |id: &str| {
            let of_probe = format!("{id}.");
            let rules = step.rules.iter().map(|rule| &library.rules[rule].rule);
            rules
                .flat_map(|rule| rule.expressions().into_iter().map(|(_, text)| text).chain([rule.says.as_str()]))
                .any(|text| text.contains(&of_probe))
        };
        silent.extend(step.collect.iter().map(rdiag_playbook::Measure::id).filter(probes).filter(|id| !reads(id)));
    }
    assert!(silent.iter().eq(&WITHOUT_A_SENTENCE), "{silent:?}");
}
