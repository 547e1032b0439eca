//! YAML: playbooks, rules, exercises and lessons of strangers.

use std::sync::LazyLock;

use rdiag_lab as lab;
use rdiag_playbook::{
    Catalogue, Library, LoadedPlaybook, LoadedRule, Plan, Playbook, Problem, RuleFile, SourceFile, check, load,
};
use rdiag_session as session;

static CATALOGUE: LazyLock<Catalogue> = LazyLock::new(session::catalogue);
static LIBRARY: LazyLock<Library> = LazyLock::new(|| Library::read(Vec::new()));

fn text(data: &[u8]) -> Option<&str> {
    std::str::from_utf8(data).ok()
}

fn told(problems: &[Problem]) -> bool {
    // The door to the terminal takes out what acts on it; here it is enough that every problem has a text.
    problems.iter().for_each(|problem| assert!(!problem.to_string().is_empty()));
    problems.is_empty()
}

fn file(text: &str, rules: bool) -> SourceFile {
    SourceFile { label: "x.yaml".into(), text: text.into(), rules, builtin: false }
}

/// `rdiag check PLAYBOOK`, and what `rdiag run` would make of it.
pub fn playbook(data: &[u8]) -> bool {
    let Some(text) = text(data) else { return false };
    let playbook = match load::parse::<Playbook>("x.yaml", text) {
        Ok(playbook) => playbook,
        Err(problem) => return told(&[problem]),
    };
    let loaded = LoadedPlaybook { playbook, file: file(text, false) };
    let problems = check::playbook(&loaded, &LIBRARY, &CATALOGUE);
    let is_well = told(&problems);
    let plan = Plan::new(&loaded, &LIBRARY, &Default::default());
    assert!(plan.is_ok() || !problems.is_empty(), "a playbook without a problem has no plan: {:?}", plan.err());
    if let Ok(plan) = plan {
        serde_json::to_string(&plan).expect("a plan has a JSON form");
        assert!(plan.duration.is_finite() && plan.interval.is_finite() && plan.budget.is_finite());
    }
    is_well
}

/// `rdiag check RULES`: with the tests that they carry.
pub fn rules(data: &[u8]) -> bool {
    let Some(text) = text(data) else { return false };
    let rules = match load::parse::<RuleFile>("x.yaml", text) {
        Ok(RuleFile(rules)) => rules,
        Err(problem) => return told(&[problem]),
    };
    // All that a check looks at in the library is the file of the rule.
    let library = Library { rule_files: vec![file(text, true)], ..Library::default() };
    let mut is_well = true;
    for rule in rules.into_iter().take(4) {
        let loaded = LoadedRule { rule, label: "x.yaml".into(), file: 0, origin: "x.yaml".into() };
        is_well &= told(&check::rule(&loaded, &library, &CATALOGUE, true));
        let _ = loaded.rule.levels();
    }
    is_well
}

/// `rdiag check` of an exercise or a lesson.
pub fn scenario(data: &[u8]) -> bool {
    let Some(text) = text(data) else { return false };
    let scenario = match lab::library::parse("x.yaml", text) {
        Ok(scenario) => told(&lab::lint::problems("x.yaml", text, &scenario, &LIBRARY)),
        Err(problem) => told(&[problem]),
    };
    let lesson = match lab::lesson::parse("x.yaml", text) {
        Ok(lesson) => told(&lab::lesson::problems("x.yaml", text, &lesson, &LIBRARY)),
        Err(problem) => told(&[problem]),
    };
    scenario || lesson
}
