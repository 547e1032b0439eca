//! The scenarios that there are.

use std::collections::BTreeMap;

use super::builtin::SCENARIOS;
use super::error::{LabError, Trouble};
use super::scenario::Scenario;
use rdiag_playbook::suggest::did_you_mean;
use rdiag_playbook::{Problem, load};

/// Reads a scenario.
pub fn parse(file: &str, text: &str) -> Result<Scenario, Problem> {
    load::parse(file, text)
}

/// All scenarios that are part of the program, in order.
pub fn all() -> Result<Vec<Scenario>, LabError> {
    SCENARIOS.iter().map(|(file, text)| parse(&format!("built-in {file}"), text).map_err(broken)).collect()
}

/// The scenario of this id; its number, or what follows the number, is enough.
pub fn find(id: &str) -> Result<Scenario, LabError> {
    let all = all()?;
    // With or without its leading zero.
    let asked = id.parse::<u32>().ok();
    let is_meant = |known: &str| {
        let is_part = |(number, word): (&str, &str)| id == word || asked.is_some() && number.parse().ok() == asked;
        known == id || known.split_once('-').is_some_and(is_part)
    };
    let known: Vec<String> = all.iter().map(|scenario| scenario.id.clone()).collect();
    all.into_iter().find(|scenario| is_meant(&scenario.id)).ok_or_else(|| {
        let hint = did_you_mean(id, known.iter().map(String::as_str));
        LabError::usage(
            format!("there is no exercise {id:?}"),
            hint.unwrap_or_else(|| format!("there are {}", known.join(", "))),
        )
    })
}

/// The exercise in which rdiag must find a rule by itself, by rule. The gate for authors proves each of them, so this is no promise.
///
/// Every report asks for it, and to read all scenarios would be a tenth of the time that a run takes to judge and write: their lines are
/// looked through instead. A test holds what that finds against the scenarios as they are read.
#[must_use]
pub fn reproducing() -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    for (file, text) in SCENARIOS {
        let id = file.trim_end_matches(".yaml");
        let diagnosed = text.lines().filter_map(|line| line.trim_start().strip_prefix("- {rule: "));
        for rule in diagnosed.filter_map(|rest| rest.split([',', '}']).next()) {
            found.entry(rule.to_owned()).or_insert_with(|| id.to_owned());
        }
    }
    found
}

fn broken(problem: Problem) -> LabError {
    LabError { trouble: Trouble::Failed, message: problem.to_string(), hint: None }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::Diagnosis;

    #[test]
    fn the_lines_of_scenarios_say_the_same_as_the_scenarios() {
        let mut read = BTreeMap::new();
        for scenario in all().unwrap() {
            for diagnosis in scenario.variants.iter().flat_map(|variant| &variant.diagnosis) {
                if let Diagnosis::Rule { rule, .. } = diagnosis {
                    read.entry(rule.clone()).or_insert_with(|| scenario.id.clone());
                }
            }
        }
        assert!(!read.is_empty());
        assert_eq!(reproducing(), read);
    }

    #[test]
    fn what_an_exercise_proves_names_an_exercise_that_can_be_started() {
        let found = reproducing();
        assert_eq!(found.get("tasks.saturation.blocked").map(String::as_str), Some("04-load"));
        for (rule, id) in &found {
            assert_eq!(&super::find(id).unwrap().id, id, "{rule}");
        }
    }

    #[test]
    fn a_scenario_is_found_by_its_id_its_number_or_its_word() {
        for asked in ["01-stutter", "01", "1", "stutter"] {
            assert_eq!(find(asked).unwrap().id, "01-stutter");
        }
        let error = find("01-stuter").unwrap_err();
        assert_eq!(error.hint.as_deref(), Some("did you mean `01-stutter`?"));
        assert!(find("xyzzy").unwrap_err().hint.unwrap().starts_with("there are 00-busydisk, 01-stutter, "));
    }
}
