//! The tests of the shipped rules prove the rules: each change of a rule fails one of its tests.

use rdiag_playbook::untested::{Proof, prove};
use rdiag_session as session;

#[test]
fn the_tests_of_the_rules_notice_nearly_every_change_of_a_rule() {
    let library = session::library(&[], &[]).unwrap();
    let catalogue = session::catalogue();
    let before = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    let proofs: Vec<(&String, Proof)> =
        library.rules.iter().map(|(id, loaded)| (id, prove(&loaded.rule, &catalogue))).collect();
    let after = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    let sum = |of: fn(&Proof) -> usize| proofs.iter().map(|(_, proof)| of(proof)).sum::<usize>();
    let (killed, survived) = (sum(|proof| proof.killed), sum(|proof| proof.survived.len()));
    let seconds = after.tv_sec - before.tv_sec;
    let rate = 100.0 * killed as f64 / (killed + survived) as f64;
    println!(
        "{} rules: {killed} of {} changes noticed ({rate:.1} %), {} more that none can notice, {seconds} s of CPU time",
        proofs.len(),
        killed + survived,
        sum(|proof| proof.equivalent),
    );
    let left = proofs.iter().flat_map(|(id, proof)| proof.survived.iter().map(move |what| format!("{id}: {what}")));
    let left: Vec<String> = left.collect();
    assert!(proofs.len() >= 146, "rules are missing");
    assert!(rate >= 95.0, "{rate:.1} % of the changes are noticed; not these:\n{}", left.join("\n"));
    assert!(seconds <= 100, "{seconds} s of CPU time");
}
