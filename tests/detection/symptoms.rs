//! What playbooks that start from a symptom answered under their faults and under what looks like them.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use rdiag_session as session;

use super::seen::{Answer, Seen};

/// The section: a row for each report of the last run of each test.
pub(super) fn section() -> String {
    let mut text = String::from(
        "\n### Playbooks by symptom\n\nWhat each playbook answered in the last run of each test that asks it, in the order of the test: faults, and what looks like them. *Found* and\n\
         *ruled out*: its causes by their ids; the number of others, which were not clear, not looked for, or could not be judged. What looks like a\n\
         fault may have a cause of its own. A run in which a test fails is not kept.\n\n\
         | playbook | test | verdict | found | ruled out | others |\n|---|---|---|---|---|---:|\n",
    );
    for ((playbook, test), answers) in Seen::read().answers() {
        for Answer { verdict, found, ruled_out, others, .. } in answers {
            let [found, ruled_out] = [found, ruled_out].map(|ids| ids.join(", "));
            let verdict = verdict.replace('|', "/");
            writeln!(text, "| `{playbook}` | `{test}` | {verdict} | {found} | {ruled_out} | {others} |").unwrap();
        }
    }
    text
}

#[test]
fn each_playbook_by_symptom_was_asked_under_a_fault_and_under_what_looks_like_it() {
    let library = session::library(&[], &[]).unwrap();
    let by_symptom: BTreeSet<String> = library
        .playbooks
        .iter()
        .filter(|(_, loaded)| loaded.playbook.answer.is_some())
        .map(|(name, _)| name.clone())
        .collect();
    let answers = Seen::read().answers();
    // A cause that was found in one report is not in another, of the same test or of another one.
    let differ = |playbook: &&String| {
        let of = answers.iter().filter(|((name, _), _)| name == *playbook).flat_map(|(_, answers)| answers);
        let reports: Vec<&Answer> = of.collect();
        let causes = reports.iter().flat_map(|report| &report.found);
        causes.into_iter().any(|cause| reports.iter().any(|report| !report.found.contains(cause)))
    };
    let without: Vec<&String> = by_symptom.iter().filter(|playbook| !differ(playbook)).collect();
    assert!(without.is_empty(), "no test told a cause of these from what looks like it: {without:?}");
}
