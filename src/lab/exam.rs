//! All answers of an exercise, marked.

use std::collections::BTreeMap;

use super::judge::{Assessment, Truth, judge};
use super::scenario::{Answer, Scenario};

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
pub type Marks = Vec<(String, Assessment)>;

/// Marks all answers. What is said to a wrong one does not tell what is right elsewhere.
#[must_use]
pub fn mark(scenario: &Scenario, answers: &BTreeMap<String, String>, truth: &Truth) -> Marks {
    let marks = |truth: &Truth| -> Marks {
        let mark = |key: &String| answers.get(key).map(String::as_str);
        scenario
            .questions
            .iter()
            .map(|question| (question.key.clone(), judge(question, mark(&question.key), truth)))
            .collect()
    };
    let mut truth = truth.clone();
    for (question, (_, verdict)) in scenario.questions.iter().zip(marks(&truth)) {
        match &question.answer {
            _ if verdict == Assessment::Right => {}
            Answer::Name { .. } => drop(truth.hidden.insert(question.key.clone(), "the program".into())),
            Answer::Number { truth: reading, of, .. } => {
                let hole = of.as_deref().map_or_else(|| reading.word().into(), |of| format!("{of}.{}", reading.word()));
                truth.hidden.insert(hole, "…".into());
            }
            Answer::Choice { .. } | Answer::Block { .. } => {}
        }
    }
    marks(&truth)
}

/// What follows from the marks.
#[must_use]
pub fn outcome(marks: &Marks) -> Outcome {
    let has = |is: fn(&Assessment) -> bool| marks.iter().any(|(_, verdict)| is(verdict));
    if has(|verdict| matches!(verdict, Assessment::Wrong(_) | Assessment::Unanswered)) {
        Outcome::NotPassed
    } else if has(|verdict| matches!(verdict, Assessment::Undecided(_))) {
        Outcome::CannotJudge
    } else {
        Outcome::Passed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_said_to_one_wrong_answer_tells_nothing_that_is_asked_for_elsewhere() {
        let scenario = crate::library::find("00-busydisk").unwrap();
        let mut truth = Truth::default();
        for readings in &mut truth.readings {
            readings.put(crate::reading::LabMetric::OwnWritten, None, 20.0 * 1024.0 * 1024.0);
        }
        truth.choices.insert("direction".into(), "over".into());
        truth.names.insert("who".into(), "snapkeep".into());
        let said = |rate: &str| {
            let answers = [("direction", "load"), ("who", "snapkeep"), ("rate", rate)];
            let answers = answers.map(|(key, given)| (key.to_owned(), given.to_owned())).into();
            mark(&scenario, &answers, &truth).into_iter().find_map(|(_, verdict)| match verdict {
                Assessment::Wrong(text) if text.starts_with("It read") => Some(text),
                _ => None,
            })
        };
        assert!(said("20").unwrap().contains("wrote 20.0 MiB/s to it"), "{:?}", said("20"));
        assert!(said("3").unwrap().contains("wrote … to it"), "{:?}", said("3"));
    }

    #[test]
    fn only_all_right_passes_and_noise_fails_no_student() {
        let marks = |verdicts: &[Assessment]| verdicts.iter().map(|v| ("k".to_owned(), v.clone())).collect::<Marks>();
        let (wrong, noisy) = (Assessment::Wrong("no".into()), Assessment::Undecided("noise".into()));
        assert_eq!(outcome(&marks(&[Assessment::Right, Assessment::Right])), Outcome::Passed);
        assert_eq!(outcome(&marks(&[Assessment::Right, noisy.clone()])), Outcome::CannotJudge);
        assert_eq!(outcome(&marks(&[noisy, wrong])), Outcome::NotPassed);
        assert_eq!(outcome(&marks(&[Assessment::Right, Assessment::Unanswered])), Outcome::NotPassed);
    }
}
