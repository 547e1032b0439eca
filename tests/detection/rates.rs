//! How often a fault is found and an idle host accused: from the runs that the ledger of proofs keeps, and from `tests/proof/idle.py`.
//!
//! The ledger changes with each proof. The section is written when the document is, and stands until then.

#![expect(clippy::indexing_slicing, reason = "a test may panic, in its helpers too")]

use std::fmt::Write as _;

use serde_json::Value;

use super::Strictness;
use crate::support::path;

/// What `tests/proof/idle.py` saw, once it has run.
const IDLE: &str = "tests/proof/idle.json";
const HEADING: &str = "## How often\n";
/// What follows the section.
const NEXT: &str = "\n## Rules\n";

/// Pairs of test and kernel, and their runs by how they ended.
#[derive(Default)]
struct Runs {
    pairs: usize,
    first: usize,
    second: usize,
    failed: usize,
    /// Pairs whose last run passed.
    right: usize,
}

impl Runs {
    fn of(tests: &[String], ledger: &Value) -> Self {
        let mut all = Self::default();
        for kernel in ledger.as_object().unwrap().values() {
            for entry in tests.iter().filter_map(|test| kernel.get(format!("privileged::{test}"))) {
                let runs = entry["runs"].as_str().unwrap();
                let ended = |how: char| runs.chars().filter(|run| *run == how).count();
                all.pairs += 1;
                all.right += usize::from(!runs.ends_with('F'));
                all.first += ended('.');
                all.second += ended('r');
                all.failed += ended('F');
            }
        }
        all
    }

    fn row(&self, what: &str) -> String {
        let Self { pairs, first, second, failed, .. } = self;
        let all = first + second + failed;
        let share = 100.0 * *first as f64 / all.max(1) as f64;
        format!("| {what} | {pairs} | {all} | {first} ({share:.1} %) | {second} | {failed} |\n")
    }
}

/// The section as it is today.
pub fn fresh(live: &Strictness) -> String {
    let read = |name: &str| -> Value { serde_json::from_str(&std::fs::read_to_string(path(name)).unwrap()).unwrap() };
    let ledger = read("tests/proof.json");
    let mut text = String::from(HEADING);
    text.push_str(
        "\nRuns of the tests that judge a whole live host, here and in guests, as the ledger of proofs keeps them: the last 20 of each pair of test and\n\
         kernel, those in which a rule or the test itself was still wrong included. A run that passes has found the fault that it induced, or was quiet\n\
         where there is none. A run that failed is tried once more where the whole proof is made.\n\n\
         | tests | pairs | runs | passed at once | at the second try | failed |\n|---|---:|---:|---:|---:|---:|\n",
    );
    for (what, tests) in
        [("all", &live.all), ("fail if any other rule fires", &live.strict), ("look who is blamed", &live.blaming)]
    {
        text.push_str(&Runs::of(tests, &ledger).row(what));
    }
    let [all, blaming] = [&live.all, &live.blaming].map(|tests| Runs::of(tests, &ledger));
    writeln!(
        text,
        "\nIn the last run of each pair, {} of {} found what was induced, or were quiet where nothing was, and {} of the {} that look who is blamed\n\
         saw the right one blamed.",
        all.right, all.pairs, blaming.right, blaming.pairs,
    )
    .unwrap();
    if !path(IDLE).exists() {
        return text;
    }
    let idle = read(IDLE);
    let fired = idle["fired"].as_array().unwrap();
    writeln!(
        text,
        "\nAn idle host (`tests/proof/idle.py`; {} CPUs, Linux {}, {}): in {} windows of {} s, {} at once, {} rules fired. {} more windows were not\n\
         idle, since others used more than 0.05 CPUs, and do not count.",
        idle["cpus"],
        idle["kernel"].as_str().unwrap(),
        idle["on"].as_str().unwrap(),
        idle["windows"],
        idle["seconds"],
        idle["at_once"],
        fired.len(),
        idle["disturbed"],
    )
    .unwrap();
    for one in fired {
        writeln!(text, "`{}`: {}", one["rule"].as_str().unwrap(), one["summary"].as_str().unwrap()).unwrap();
    }
    text
}

/// The section of a document.
pub fn of(document: &str) -> Option<&str> {
    let begin = document.find(HEADING)?;
    let rest = &document[begin..];
    Some(&rest[..rest.find(NEXT)?])
}

#[test]
fn an_idle_host_raised_nothing_in_two_hundred_windows() {
    // Where it was not looked at for long enough, the document does not speak of it.
    if let Ok(text) = std::fs::read_to_string(path(IDLE)) {
        let idle: Value = serde_json::from_str(&text).unwrap();
        assert!(idle["windows"].as_u64().unwrap() >= 200, "{idle}");
        assert_eq!(idle["fired"], serde_json::json!([]), "a rule fired on an idle host");
    }
}
