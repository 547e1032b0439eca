//! Playbooks that start from a symptom: what they say of it, and which of its causes is there.
//!
//! A cause is judged by rules, each of which can detect it alone: with one of them judged, the cause is. What takes several rules together
//! is a condition (`when`) in the language of rules.
//!
//! Steps have the ids of `use-method` where they ask the same, so that a recording of that playbook answers every symptom.

mod judge;
mod lint;
mod proof;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use judge::{Seen, conclude};
pub(super) use lint::problems;
pub(super) use proof::run_tests;

use rdiag_judge::rules::Given;
use rdiag_model::Status;

/// How a playbook answers its symptom.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Answering {
    /// The symptom as it is measured, a template in the language of rules: `Load average {{ cpu.load.one_minute.count.last|number }}`.
    pub measured: String,
    /// Whether the symptom is there now; without it, no reading tells.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub present: Option<String>,
    /// What it may come from, the most specific first: of several that are there, the first one is the answer.
    pub causes: Vec<PossibleCause>,
    /// Causes that rdiag cannot see, each with the command that shows them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unseen: Vec<String>,
}

/// What a symptom may come from.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PossibleCause {
    /// Unique in the playbook.
    pub id: String,
    /// What it is, in a few words, as it stands behind "ruled out:".
    pub title: String,
    /// Rules of the playbook that detect it, the most specific first. None where `when` and `says` are enough.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub rules: Vec<String>,
    /// When the symptom comes from it; without it, when one of its rules gives warning or worse.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub when: Option<String>,
    /// The sentence of the verdict, a template; without it, that of the first of its rules that fired.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub says: Option<String>,
    /// What speaks against it where it is ruled out, a template; without it, the sentence of the first of its rules that did not fire.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quiet: Option<String>,
    /// Where it is only a warning, it stands before critical causes all the same, since it brings them about: a lack of memory makes disks
    /// slow.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub leads: bool,
}

/// A test of the answer, run by `rdiag check`.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AnswerTest {
    /// Readings, as in the tests of rules.
    #[serde(default)]
    pub given: BTreeMap<String, Option<Given>>,
    /// The statuses that rules give; all others give ok.
    #[serde(default)]
    pub statuses: BTreeMap<String, Status>,
    /// The id of the cause that must come out, `none` or `unknown`.
    pub expect: String,
    /// What symptom and sentence together must contain.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub says: Option<String>,
}

impl Answering {
    /// The conditions of all causes.
    fn conditions(&self) -> impl Iterator<Item = &str> {
        self.causes.iter().filter_map(|cause| cause.when.as_deref())
    }

    /// All sentences.
    fn templates(&self) -> impl Iterator<Item = &str> {
        let of_causes = self.causes.iter().flat_map(|cause| cause.says.iter().chain(&cause.quiet));
        std::iter::once(self.measured.as_str()).chain(of_causes.map(String::as_str))
    }
}
