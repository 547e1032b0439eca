use super::*;
use crate::library;

#[test]
fn only_what_is_judged_by_itself_is_checked_beside_others_and_everything_once() {
    let all = library::all().unwrap();
    let batches = batches(&all);
    let told: Vec<String> = batches
        .iter()
        .map(|batch| batch.iter().map(|(s, v)| format!("{} {}", s.id, v.name)).collect::<Vec<_>>().join(", "))
        .collect();
    assert_eq!(batches.concat().len(), all.iter().map(|scenario| scenario.variants.len()).sum::<usize>());
    assert!(told.contains(&"04-load disk".to_owned()), "all exercises share its disk: {told:?}");
    let quota = told.iter().find(|text| text.contains("11-slow quota")).unwrap();
    assert!(quota.contains(", ") && !quota.contains("10-more") && !quota.contains("04-load disk"), "{quota}");
    assert!(told.contains(&"10-more many".to_owned()), "it takes all CPUs: {told:?}");
    let drill = told.iter().find(|text| text.contains("30-requests heap")).unwrap();
    assert!(drill.contains("33-missing licence") && !drill.contains("30-requests mapping"), "{drill}");
}
#[test]
fn a_disturbance_excuses_what_came_out_wrong_and_nothing_that_was_left_behind() {
    let loud = Disturbance::of_test(2.0);
    assert!(loud.is_too_much());
    let wrong = || vec!["the right answers do not pass".to_owned()];
    let left = || vec!["after stop the folder is left".to_owned()];
    let judged = |wrong, left, disturbance| Seen { wrong, left, disturbance, unproven: vec![] }.judged();
    assert_eq!(judged(vec![], vec![], loud), Checked::Well, "what comes out right in spite of it is right");
    assert_eq!(judged(wrong(), vec![], Disturbance::of_test(0.1)), Checked::Wrong(wrong()));
    assert_eq!(judged(wrong(), vec![], loud), Checked::CannotJudge(loud, wrong()));
    assert_eq!(judged(vec![], left(), loud), Checked::Wrong(left()));
    assert_eq!(judged(wrong(), left(), loud), Checked::Wrong([wrong(), left()].concat()));
}

#[test]
fn what_others_may_have_caused_is_proven_only_on_a_quiet_host() {
    let scenario = library::find("24-parser").unwrap();
    let unproven = about_all_tasks(&scenario.variants[0]);
    assert_eq!(unproven, ["others may be why rdiag finds cpu.utilization.system"], "the other rule names the load");
    let limited = library::find("16-vanish").unwrap();
    assert!(about_all_tasks(&limited.variants[0]).is_empty(), "CPU time of others kills no process at a limit");
    let judged = |others| {
        let disturbance = Disturbance::of_test(others);
        (Seen { unproven: unproven.clone(), disturbance, ..Seen::default() }.judged(), disturbance)
    };
    assert_eq!(judged(0.1).0, Checked::Well);
    let (checked, loud) = judged(2.0);
    assert_eq!(checked, Checked::CannotJudge(loud, unproven.clone()));
}
