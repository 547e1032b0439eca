//! For each rule, the situations in which its words would be false, and what keeps it from saying them there (`false_if`).

use rdiag::session;
use rdiag_model::Status;

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
