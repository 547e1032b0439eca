//! Lessons: a playbook's questions, each with a prediction, what was measured, what follows, and a quiz. A lesson is played on a
//! recording that is part of the program, so it needs no root and no load; or on this host as it is now.

mod builtin;
mod lint;
pub(super) mod score;
mod view;

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use builtin::LESSONS;
pub use lint::problems;
pub use score::Score;
pub use view::View;

use super::error::{LabError, Trouble};
use rdiag_playbook::suggest::did_you_mean;
use rdiag_playbook::{Problem, load};

/// The format version that this program reads.
const FORMAT_VERSION: u32 = 1;

/// A lesson as it stands in YAML (`lab-scenarios/lessons/NAME.yaml`). It is data: it can neither run a command nor name a file.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Lesson {
    /// Must be 1.
    pub format_version: u32,
    /// The name on the command line, the same as the file's: lower-case letters.
    pub id: String,
    /// What it is about.
    pub title: String,
    /// How long it takes, in minutes.
    pub minutes: u32,
    /// What can be done afterwards that could not be done before.
    pub teaches: Vec<String>,
    /// The playbook whose questions are asked.
    pub playbook: String,
    /// The recording that is looked at; one of those that are part of the program.
    pub recording: String,
    /// What is known of the recorded host, and what its users say: Markdown.
    pub story: String,
    /// The steps, in order.
    pub steps: Vec<LessonStep>,
}

/// One step.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LessonStep {
    /// The playbook's step, whose question and explanation are shown.
    pub step: String,
    /// Rules of that step whose outcome is predicted and then compared.
    pub checks: Vec<String>,
    /// What follows from them together: Markdown.
    pub explain: String,
    /// What is asked afterwards.
    pub quiz: Vec<Quiz>,
}

/// A question with one right answer.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Quiz {
    /// The question.
    pub ask: String,
    /// What can be answered, by the word to answer with.
    pub options: BTreeMap<String, String>,
    /// The word that is right.
    pub right: String,
    /// Why; said to any answer.
    pub because: String,
}

/// Reads a lesson.
pub fn parse(file: &str, text: &str) -> Result<Lesson, Problem> {
    load::parse(file, text)
}

/// All lessons that are part of the program.
pub fn all() -> Result<Vec<Lesson>, LabError> {
    let broken = |problem: Problem| LabError { trouble: Trouble::Failed, message: problem.to_string(), hint: None };
    LESSONS.iter().map(|(file, text)| parse(&format!("built-in lesson {file}"), text).map_err(broken)).collect()
}

/// The lesson of this name.
pub fn find(id: &str) -> Result<Lesson, LabError> {
    let all = all()?;
    let known: Vec<String> = all.iter().map(|lesson| lesson.id.clone()).collect();
    all.into_iter().find(|lesson| lesson.id == id).ok_or_else(|| {
        let hint = did_you_mean(id, known.iter().map(String::as_str));
        LabError::usage(
            format!("there is no lesson {id:?}"),
            hint.unwrap_or_else(|| format!("there are {}", known.join(", "))),
        )
    })
}
