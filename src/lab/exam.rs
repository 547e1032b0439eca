//! All answers of an exercise, marked.

use std::collections::BTreeMap;

use super::judge::{Truth, Verdict, judge};
use super::scenario::Scenario;

/// What became of an exam.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// All answers are right.
    Passed,
    /// At least one is wrong or missing.
    NotPassed,
    /// None is wrong, and at least one cannot be judged at this moment.
    CannotJudge,
}

/// The verdict on each answer, by key of the question.
pub type Marks = Vec<(String, Verdict)>;

/// Marks all answers.
#[must_use]
pub fn mark(scenario: &Scenario, answers: &BTreeMap<String, String>, truth: &Truth) -> Marks {
    let mark = |key: &String| answers.get(key).map(String::as_str);
    scenario
        .questions
        .iter()
        .map(|question| (question.key.clone(), judge(question, mark(&question.key), truth)))
        .collect()
}

/// What follows from the marks.
#[must_use]
pub fn outcome(marks: &Marks) -> Outcome {
    let has = |is: fn(&Verdict) -> bool| marks.iter().any(|(_, verdict)| is(verdict));
    if has(|verdict| matches!(verdict, Verdict::Wrong(_) | Verdict::Unanswered)) {
        Outcome::NotPassed
    } else if has(|verdict| matches!(verdict, Verdict::Undecided(_))) {
        Outcome::CannotJudge
    } else {
        Outcome::Passed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_all_right_passes_and_noise_fails_nobody() {
        let marks = |verdicts: &[Verdict]| verdicts.iter().map(|v| ("k".to_owned(), v.clone())).collect::<Marks>();
        let (wrong, noisy) = (Verdict::Wrong("no".into()), Verdict::Undecided("noise".into()));
        assert_eq!(outcome(&marks(&[Verdict::Right, Verdict::Right])), Outcome::Passed);
        assert_eq!(outcome(&marks(&[Verdict::Right, noisy.clone()])), Outcome::CannotJudge);
        assert_eq!(outcome(&marks(&[noisy, wrong])), Outcome::NotPassed);
        assert_eq!(outcome(&marks(&[Verdict::Right, Verdict::Unanswered])), Outcome::NotPassed);
    }
}
