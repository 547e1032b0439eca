//! What was seen: which rules fired on the live hosts of the tests, and who was blamed, by the last run of each on each kernel.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use serde_json::Value;

use crate::support::path;

/// The ledger of proofs.
pub(super) struct Seen(Value);

/// A rule that fired: its status, and who is blamed, if anybody.
type Fired = [String; 3];

/// What a test has told of one report.
#[derive(serde::Deserialize)]
#[serde(untagged)]
enum Told {
    /// The rules that fired on a host that it judged.
    Host(Vec<Fired>),
    Answer(Answer),
}

/// What a playbook that starts from a symptom answered: the ids of its causes by what became of them.
#[derive(serde::Deserialize)]
pub(super) struct Answer {
    pub(super) playbook: String,
    pub(super) verdict: String,
    pub(super) found: Vec<String>,
    pub(super) ruled_out: Vec<String>,
    /// Causes that were not clear, not measured, or not looked for.
    pub(super) others: usize,
}

impl Seen {
    pub(super) fn read() -> Self {
        Self(serde_json::from_str(&std::fs::read_to_string(path("tests/proof.json")).unwrap()).unwrap())
    }

    /// The last run of a test on each kernel that has one: its seconds, and what fired on each host that it judged.
    fn runs(&self, test: &str) -> Vec<(&str, f64, Vec<Vec<Fired>>)> {
        let of = |tests: &Value| {
            let entry = tests.get(format!("privileged::{test}"))?;
            let told: Vec<Told> = serde_json::from_value(entry.get("judged")?.clone()).unwrap();
            let host = |told| if let Told::Host(fired) = told { Some(fired) } else { None };
            let hosts: Vec<_> = told.into_iter().filter_map(host).collect();
            (!hosts.is_empty()).then(|| (entry["seconds"].as_f64().unwrap_or_default(), hosts))
        };
        let kernels = self.0.as_object().unwrap().iter();
        kernels
            .filter_map(|(kernel, tests)| of(tests).map(|(seconds, judged)| (kernel.as_str(), seconds, judged)))
            .collect()
    }

    /// What playbooks answered in the last run of each test that asks them, by playbook and test, in the order of the test.
    pub(super) fn answers(&self) -> BTreeMap<(String, String), Vec<Answer>> {
        let mut answers = BTreeMap::<_, Vec<Answer>>::new();
        for (test, entry) in self.0.get("host").and_then(Value::as_object).unwrap() {
            let told = entry.get("judged").cloned().unwrap_or_default();
            for one in serde_json::from_value::<Option<Vec<Told>>>(told).unwrap().unwrap_or_default() {
                let Told::Answer(answer) = one else { continue };
                let test = test.trim_start_matches("privileged::").to_owned();
                answers.entry((answer.playbook.clone(), test)).or_default().push(answer);
            }
        }
        answers
    }

    /// Whether a rule fired in a test on any kernel; none if it judged no whole host.
    pub(super) fn has_fired(&self, test: &str, rule: &str) -> Option<bool> {
        let runs = self.runs(test);
        let fired = |(_, _, hosts): &(&str, f64, Vec<Vec<Fired>>)| hosts.iter().flatten().any(|[id, ..]| id == rule);
        (!runs.is_empty()).then(|| runs.iter().any(fired))
    }
}

/// The section: a row for each test and kernel.
pub(super) fn section(tests: &[String], naming: &BTreeMap<String, BTreeSet<String>>) -> String {
    let seen = Seen::read();
    let mut text = String::from(
        "\n### What was seen\n\nThe last run of each of these tests on each kernel, `host` being that of the machine of the proof. *Found*: rules that the test names, by its\n\
         first host in which each fired, with its status and who is blamed. *Besides*: other rules that gave a warning or worse, which the test allows.\n\
         Where nothing is found, the test is about a look-alike or a quiet host.\n\n\
         | test | kernel | seconds | found | besides |\n|---|---|---:|---|---|\n",
    );
    let (mut faults, mut looked) = (0, 0);
    for test in tests {
        for (kernel, seconds, hosts) in seen.runs(test) {
            let mut found = BTreeMap::new();
            let mut besides = BTreeSet::new();
            for [rule, status, culprit] in hosts.into_iter().flatten() {
                if naming.get(&rule).is_some_and(|tests| tests.contains(test)) {
                    found.entry(rule).or_insert((status, culprit));
                } else if status != "info" {
                    besides.insert(rule);
                }
            }
            looked += 1;
            faults += usize::from(!found.is_empty());
            let blamed = |culprit: &str| {
                if culprit.is_empty() { String::new() } else { format!(", {}", culprit.replace('|', "/")) }
            };
            let found: Vec<_> =
                found.iter().map(|(rule, (status, culprit))| format!("`{rule}` {status}{}", blamed(culprit))).collect();
            let besides: Vec<_> = besides.iter().map(|rule| format!("`{rule}`")).collect();
            writeln!(text, "| `{test}` | {kernel} | {seconds:.0} | {} | {} |", found.join("; "), besides.join(", "))
                .unwrap();
        }
    }
    writeln!(text, "\n{faults} of these {looked} induce a fault, or what is worth knowing; the others are look-alikes and quiet hosts.").unwrap();
    text
}
