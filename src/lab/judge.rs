//! Whether an answer is right, and what is said to one that is not. What is true is measured at the check, twice: where the two differ by
//! more than the tolerance, no answer is called wrong. Whether the symptom is there at all, the command checks before.

use std::collections::BTreeMap;

use super::curve::Curve;
use super::error::LabError;
use super::reading::Readings;
use super::scenario::{Answer, Question, Tolerance};
use super::text::{Words, fill};
use rdiag_model::Unit;
use rdiag_model::quantity::with_unit;
use rdiag_playbook::suggest::did_you_mean;

const KIB: f64 = 1024.0;
/// Sizes of blocks that are tried out, in KiB.
const SMALLEST_BLOCK: f64 = 0.0625;
const LARGEST_BLOCK: f64 = 1024.0;
/// No answer is longer.
const MAX_ANSWER: usize = 64;

/// What is true on this host at this moment.
#[derive(Debug, Clone, Default)]
pub struct Truth {
    /// Two measurements, one after the other: where they differ too much, no answer is called wrong.
    pub readings: [Readings; 2],
    /// Names of the programs of the load, by role.
    pub names: BTreeMap<String, String>,
    /// The right choices, by key of the question.
    pub choices: BTreeMap<String, String>,
    /// What copying costs by size of block, twice, where it is asked for.
    pub curves: Vec<Curve>,
    /// What stands in holes whose truth is asked for and was not answered yet.
    pub hidden: Words,
}

/// What is said to an answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Assessment {
    /// It is right.
    Right,
    /// It is wrong, and what the measurements say to it.
    Wrong(String),
    /// There is none yet.
    Unanswered,
    /// What is true cannot be told at this moment, and why.
    Undecided(String),
}

impl Truth {
    /// What stands in the holes of texts.
    #[must_use]
    pub fn words(&self) -> Words {
        let [first, second] = &self.readings;
        let mut words: Words = self.names.clone().into_iter().chain(Readings::mean(first, second).words()).collect();
        words.extend(self.hidden.clone());
        words
    }

    /// The answer that is right, in the words of the command line; none where it cannot be measured.
    #[must_use]
    pub fn right_answer(&self, question: &Question) -> Option<String> {
        match &question.answer {
            Answer::Choice { .. } => self.choices.get(&question.key).cloned(),
            Answer::Name { .. } => self.names.get(&question.key).cloned(),
            Answer::Block { .. } => {
                let (first, second) = (self.curves.first()?, self.curves.get(1)?);
                let both = |bytes: f64| Some(first.at(bytes)? + second.at(bytes)?);
                let sums = first.by_calls.iter().filter_map(|(bytes, _)| Some((*bytes, both(*bytes)?)));
                let best = sums.min_by(|(_, one), (_, other)| one.total_cmp(other))?;
                Some((best.0 / KIB).to_string())
            }
            Answer::Number { unit, truth, of, .. } => {
                let [first, second] = &self.readings;
                let value = Readings::mean(first, second).get(*truth, of.as_deref())?;
                let text = format!("{:.3}", value * unit.per_base());
                Some(text.trim_end_matches('0').trim_end_matches('.').to_owned())
            }
        }
    }
}

/// An answer as it was typed, made sure to be one to this question. `name_of` tells the name of a process.
pub fn accept(question: &Question, typed: &str, name_of: impl Fn(u32) -> Option<String>) -> Result<String, LabError> {
    let typed = typed.trim();
    let key = &question.key;
    if typed.is_empty() || typed.chars().count() > MAX_ANSWER {
        return Err(LabError::usage(format!("{key} has no answer that could be one"), question.ask.trim()));
    }
    match &question.answer {
        Answer::Choice { options, .. } if options.contains_key(typed) => Ok(typed.to_owned()),
        Answer::Choice { options, .. } => {
            let known: Vec<&str> = options.keys().map(String::as_str).collect();
            let hint = did_you_mean(typed, known.iter().copied())
                .unwrap_or_else(|| format!("choose one of: {}", known.join(", ")));
            Err(LabError::usage(format!("{key} cannot be {typed:?}"), hint))
        }
        Answer::Name { .. } => match typed.parse::<u32>() {
            Ok(pid) => name_of(pid).ok_or_else(|| {
                LabError::usage(format!("{key}: there is no process {pid} now"), "give its name instead")
            }),
            Err(_) => Ok(typed.to_owned()),
        },
        Answer::Block { .. } => number(key, typed, " KiB", SMALLEST_BLOCK, LARGEST_BLOCK),
        Answer::Number { unit, range: [low, high], .. } => number(key, typed, unit.word(), *low, *high),
    }
}

fn number(key: &str, typed: &str, unit: &str, low: f64, high: f64) -> Result<String, LabError> {
    let bare = typed.strip_suffix(unit.trim()).unwrap_or(typed).trim();
    let number = bare.parse::<f64>().ok().filter(|number| number.is_finite());
    let range = format!("a number from {low} to {high}{unit}");
    match number {
        Some(number) if (low..=high).contains(&number) => Ok(number.to_string()),
        Some(_) => Err(LabError::usage(format!("{key} = {typed} is out of range"), format!("it is {range}"))),
        None => Err(LabError::usage(format!("{key} = {typed:?} is no number"), format!("give {range}"))),
    }
}

/// Judges an answer that was accepted.
#[must_use]
pub fn judge(question: &Question, given: Option<&str>, truth: &Truth) -> Assessment {
    let Some(given) = given else { return Assessment::Unanswered };
    let mut words = truth.words();
    words.insert("answer".into(), given.to_owned());
    match &question.answer {
        Answer::Choice { wrong: texts, .. } => match truth.choices.get(&question.key) {
            Some(right) if right == given => Assessment::Right,
            Some(_) => Assessment::Wrong(fill(texts.get(given).map_or("", String::as_str), &words)),
            None => Assessment::Undecided("the scenario does not say what is right".into()),
        },
        Answer::Name { wrong: text } => match truth.names.get(&question.key) {
            Some(right) if right == given => Assessment::Right,
            Some(_) => Assessment::Wrong(fill(text, &words)),
            None => Assessment::Undecided("no such program runs".into()),
        },
        Answer::Block { slack, wrong: text } => {
            let bytes = given.parse::<f64>().unwrap_or(f64::NAN) * KIB;
            let ratio = |curve: &Curve| Some((curve.at(bytes)?, curve.at(bytes)? / curve.best()?.1));
            let costs: Vec<(f64, f64)> = truth.curves.iter().filter_map(ratio).collect();
            let mean = costs.iter().map(|(cost, _)| cost).sum::<f64>() / costs.len() as f64;
            words.insert("its_cost".into(), with_unit(mean, Unit::Seconds));
            let good = costs.iter().filter(|(_, ratio)| *ratio <= 1.0 + slack).count();
            match good {
                _ if costs.is_empty() => Assessment::Undecided("copying could not be tried out".into()),
                0 => Assessment::Wrong(fill(text, &words)),
                all if all == costs.len() => Assessment::Right,
                _ => Assessment::Undecided("two consecutive trials do not agree".into()),
            }
        }
        Answer::Number { unit, truth: reading, of, tolerance, too_low, too_high, .. } => {
            let [first, second] = &truth.readings;
            let one = |readings: &Readings| readings.get(*reading, of.as_deref()).map(|value| value * unit.per_base());
            let (Some(first), Some(second)) = (one(first), one(second)) else {
                return Assessment::Undecided(format!("this host does not report it: {}", reading.title()));
            };
            let (mean, Ok(given)) = ((first + second) / 2.0, given.parse::<f64>()) else {
                return Assessment::Unanswered;
            };
            let allowed = allowed(*tolerance, mean);
            if (first - second).abs() > allowed {
                return Assessment::Undecided(format!(
                    "two consecutive measurements gave {first:.1} and {second:.1}{}: too far apart to judge",
                    unit.word()
                ));
            }
            match given - mean {
                off if off.abs() <= allowed => Assessment::Right,
                off if off < 0.0 => Assessment::Wrong(fill(too_low, &words)),
                _ => Assessment::Wrong(fill(too_high, &words)),
            }
        }
    }
}

/// How far an answer may be off.
fn allowed(tolerance: Tolerance, truth: f64) -> f64 {
    tolerance.absolute.max(tolerance.relative * truth.abs())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reading::LabMetric;
    use crate::scenario::Shown;

    fn number() -> Question {
        let answer = Answer::Number {
            unit: Shown::Percent,
            truth: LabMetric::OwnCpu,
            of: None,
            range: [0.0, 400.0],
            tolerance: Tolerance { relative: 0.2, absolute: 2.0 },
            too_low: "more than {answer}: {own_cpu}".into(),
            too_high: "less than {answer}: {own_cpu}".into(),
        };
        Question { key: "share".into(), ask: "How much?".into(), answer }
    }

    fn truth(first: f64, second: f64) -> Truth {
        let mut truth = Truth::default();
        for (readings, value) in truth.readings.iter_mut().zip([first, second]) {
            readings.put(LabMetric::OwnCpu, None, value);
        }
        truth
    }

    #[test]
    fn a_number_is_right_within_the_tolerance_and_answered_with_the_measured_one_beyond() {
        let judge = |given: &str, first, second| judge(&number(), Some(given), &truth(first, second));
        assert_eq!(judge("50", 0.5, 0.5), Assessment::Right);
        assert_eq!(judge("41", 0.5, 0.5), Assessment::Right);
        assert_eq!(judge("39", 0.5, 0.5), Assessment::Wrong("more than 39: 50.0%".into()));
        assert_eq!(judge("61", 0.5, 0.5), Assessment::Wrong("less than 61: 50.0%".into()));
        assert_eq!(judge("2", 0.01, 0.01), Assessment::Right, "2 points are allowed, however small the truth");
    }

    #[test]
    fn no_answer_is_called_wrong_where_the_truth_moves_or_is_unknown() {
        assert!(matches!(judge(&number(), Some("5"), &truth(0.3, 0.6)), Assessment::Undecided(_)));
        assert!(matches!(judge(&number(), Some("5"), &Truth::default()), Assessment::Undecided(_)));
        assert_eq!(judge(&number(), None, &truth(0.5, 0.5)), Assessment::Unanswered);
    }

    #[test]
    fn what_is_no_answer_is_refused_with_what_would_be_one() {
        let refuse = |question: &Question, typed: &str| {
            let error = accept(question, typed, |_| None).unwrap_err();
            format!("{error}; {}", error.hint.as_deref().unwrap())
        };
        assert_eq!(accept(&number(), " 33 %", |_| None).unwrap(), "33");
        assert_eq!(refuse(&number(), "900"), "share = 900 is out of range; it is a number from 0 to 400 %");
        assert_eq!(refuse(&number(), "NaN"), "share = \"NaN\" is no number; give a number from 0 to 400 %");
        assert_eq!(refuse(&number(), ""), "share has no answer that could be one; How much?");
        let options =
            BTreeMap::from([("disk".to_owned(), "a disk".to_owned()), ("lock".to_owned(), "a lock".to_owned())]);
        let choice = Answer::Choice { options, wrong: BTreeMap::new() };
        let choice = Question { key: "cause".into(), ask: "Why?".into(), answer: choice };
        assert_eq!(refuse(&choice, "dsk"), "cause cannot be \"dsk\"; did you mean `disk`?");
        let who = Question { key: "who".into(), ask: "Who?".into(), answer: Answer::Name { wrong: String::new() } };
        assert_eq!(refuse(&who, "4711"), "who: there is no process 4711 now; give its name instead");
        assert_eq!(accept(&who, "4711", |_| Some("indexd".into())).unwrap(), "indexd");
    }
}
