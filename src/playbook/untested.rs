//! What the tests of a rule do not prove: changes of the rule that none of them notices.

use super::check::Place;
use super::{Catalogue, Library, LoadedRule, Problem};
use rdiag_judge::rules::{Bench, Mutant, Rule, mutants};

/// How the tests of a rule fared against changed copies of it.
#[derive(Debug, Default)]
pub struct Proof {
    /// Changes that a test noticed.
    pub killed: usize,
    /// Changes that no test noticed, though one could.
    pub survived: Vec<String>,
    /// Changes that no test can notice, as the rule says.
    pub equivalent: usize,
    /// What the rule says no test can notice, and is no change of it, or is noticed.
    pub stale: Vec<String>,
}

/// Tries the tests of a rule against all its changed copies.
#[must_use]
pub fn prove(rule: &Rule, catalogue: &Catalogue) -> Proof {
    let bench = Bench::new(rule, &catalogue.metric_ids(), &|id| catalogue.kind_of(id));
    let mut proof = Proof::default();
    let mut excused: Vec<&String> = rule.equivalent.keys().collect();
    for Mutant { what, rule: changed } in mutants(rule) {
        if bench.notices(&changed) {
            proof.killed += 1;
        } else if let Some(at) = excused.iter().position(|excuse| **excuse == what) {
            excused.swap_remove(at);
            proof.equivalent += 1;
        } else {
            proof.survived.push(what);
        }
    }
    proof.stale.extend(excused.into_iter().cloned());
    proof
}

/// The changes that the tests of the rules in these files do not notice.
#[must_use]
pub fn everything(library: &Library, catalogue: &Catalogue, wanted: &dyn Fn(&str) -> bool) -> Vec<Problem> {
    let wanted = library.rules.values().filter(|loaded| wanted(&loaded.label));
    wanted.flat_map(|loaded| rule(loaded, library, catalogue)).collect()
}

fn rule(loaded: &LoadedRule, library: &Library, catalogue: &Catalogue) -> Vec<Problem> {
    let Some(file) = library.rule_files.get(loaded.file) else { return Vec::new() };
    let place = Place::of_rule(file, &loaded.rule);
    let id = &loaded.rule.id;
    let proof = prove(&loaded.rule, catalogue);
    let survived = proof.survived.iter().map(|what| place.problem("tests", format!("{id}: no test notices if {what}")));
    let stale = proof.stale.iter().map(|what| {
        place.problem(
            "equivalent",
            format!("{id}: {what:?} is no change of the rule, or a test notices it: delete the line"),
        )
    });
    survived.chain(stale).collect()
}
