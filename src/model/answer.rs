//! The answer to a symptom: its measure, and the result for each possible cause.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::status::Status;

/// What a playbook that starts from a symptom concludes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Answer {
    /// The symptom as it was measured: `Load average 38 on 4 CPUs`.
    pub symptom: String,
    /// Whether the symptom is there now; none where no reading tells, or its readings are missing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub present: Option<bool>,
    /// Every cause of the playbook, those that were found first.
    pub causes: Vec<Cause>,
    /// Causes that rdiag cannot see, each with the command that shows them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unseen: Vec<String>,
}

/// One cause of a symptom.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Cause {
    /// Unique in the playbook.
    pub id: String,
    /// What it is, in a few words.
    pub title: String,
    /// What became of it.
    pub outcome: Outcome,
    /// The worst status of the findings behind it.
    pub status: Status,
    /// What was seen: of a cause that was found, the sentence of the verdict; of one that was ruled out or is not clear, why.
    pub sentence: String,
    /// The rules that detect it, the most specific first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub rules: Vec<String>,
}

/// What became of a cause.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// The symptom comes from it.
    Found,
    /// It is there, and the symptom does not come from it.
    Beside,
    /// A figure is near or beyond its limit, and what else would establish the cause is missing; never to be read as ruled out.
    NotClear,
    /// It could not be judged; never to be read as ruled out.
    Unknown,
    /// It was looked for, and what was measured speaks against it.
    RuledOut,
    /// Nothing pointed to it, so the step that would have seen it was not run.
    NotLookedFor,
}

impl Outcome {
    /// The word that stands before a cause.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Found => "found",
            Self::Beside => "also",
            Self::NotClear => "not clear",
            Self::Unknown => "not measured",
            Self::RuledOut => "ruled out",
            Self::NotLookedFor => "not looked for",
        }
    }
}

impl Answer {
    /// The causes with this outcome, in order.
    pub fn with(&self, outcome: Outcome) -> impl Iterator<Item = &Cause> {
        self.causes.iter().filter(move |cause| cause.outcome == outcome)
    }
}
