//! Whether the advice of Method R holds together: every component has some, and what it names exists.

use std::collections::BTreeSet;

use rdiag_judge::profile::AdviceBook;
use rdiag_model::Component;
use rdiag_playbook::{FORMAT_VERSION, Library, Problem, advice};

/// Whether a command could begin.
pub(super) type RunDry = fn(&str, &Library) -> Result<(), String>;

/// Everything that is wrong with it. `run_dry` tries a command without running it.
pub(super) fn problems(library: &Library, run_dry: RunDry) -> Vec<Problem> {
    if let Some(problem) = advice::unreadable() {
        return vec![problem];
    }
    let book = advice::book();
    let wrong = wrong(book, library, run_dry).into_iter();
    wrong.map(|(token, message)| advice::problem(&token, message)).collect()
}

/// Where, and what.
fn wrong(book: &AdviceBook, library: &Library, run_dry: RunDry) -> Vec<(String, String)> {
    let mut found = Vec::new();
    let mut say = |token: &str, message: String| found.push((token.to_owned(), message));
    if book.format_version != FORMAT_VERSION {
        say("format_version", format!("format_version {} is not known", book.format_version));
    }
    for component in Component::ALL {
        let id = component.id();
        let Some(advice) = book.components.get(component) else {
            say("components", format!("nothing is said of {id}"));
            continue;
        };
        if !advice.says.ends_with('.') || !advice.says.starts_with(char::is_uppercase) {
            say(id, format!("what is said of {id} is no sentence"));
        }
        for name in advice.next.iter().filter(|name| !book.steps.contains_key(*name)) {
            say(id, format!("{id}: there is no step {name}"));
        }
        for rule in component.def().rules.iter().filter(|rule| !library.rules.contains_key(**rule)) {
            say(id, format!("{id}: there is no rule {rule}"));
        }
    }
    let used: BTreeSet<&String> = book
        .components
        .values()
        .flat_map(|advice| &advice.next)
        .chain(&book.slow_wake_ups)
        .chain(book.where_code_is_known.values())
        .collect();
    for name in book.where_code_is_known.iter().flat_map(|(step, other)| [step, other]) {
        if !book.steps.contains_key(name) {
            say("where_code_is_known", format!("where_code_is_known: there is no step {name}"));
        }
    }
    for name in book.slow_wake_ups.iter().filter(|name| !book.steps.contains_key(*name)) {
        say("slow_wake_ups", format!("slow_wake_ups: there is no step {name}"));
    }
    for (name, text) in &book.steps {
        if !used.contains(name) {
            say(name, format!("the step {name} is no component's"));
        }
        if !text.starts_with(char::is_uppercase) || text.ends_with('.') {
            say(
                name,
                format!("the step {name} is no instruction: it begins with a capital letter and has no full stop"),
            );
        }
        for rule in rules_of(text) {
            let is_meant = |id: &String| rule.strip_suffix('*').map_or(id == rule, |part| id.starts_with(part));
            if !library.rules.keys().any(is_meant) {
                say(name, format!("the step {name} names the rule {rule}, which does not exist"));
            }
        }
        for command in commands_of(text) {
            if let Err(error) = run_dry(&command, library) {
                say(name, format!("the step {name}: `{command}`: {error}"));
            }
        }
    }
    for failure in book.failures().into_iter().chain(book.untested()) {
        say("tests", failure);
    }
    found
}

/// The rules that a step names in parentheses: `(rules cpu.saturation and disk.*)`.
fn rules_of(step: &str) -> Vec<&str> {
    let named = step.split_once("(rule").and_then(|(_, rest)| rest.split_once(')'));
    let words = named.map(|(words, _)| words.trim_start_matches('s')).unwrap_or_default();
    words.split([' ', ',']).filter(|word| word.contains('.')).collect()
}

/// The commands of rdiag in a step, as for process 1.
fn commands_of(step: &str) -> Vec<String> {
    let commands = step.match_indices("rdiag ").filter_map(|(at, _)| step.get(at..)?.split(';').next());
    let of = |command: &str| {
        command.replace("{target}", "--pid 1").replace("{again}", "").replace("ITS_PID", "1").trim().to_owned()
    };
    commands.map(of).collect()
}

#[cfg(test)]
mod tests {
    use super::super::tools::dry_run::run_dry;
    use super::*;
    use rdiag_judge::profile::advice as advice_on;
    use rdiag_playbook::SourceFile;

    type Change = fn(&mut AdviceBook);

    fn library() -> Library {
        Library::read(Vec::<SourceFile>::new())
    }

    #[test]
    fn every_component_is_advised_on_and_every_step_leads_to_what_exists() {
        let problems: Vec<String> = problems(&library(), run_dry).iter().map(ToString::to_string).collect();
        assert!(problems.is_empty(), "{}", problems.join("\n"));
        let steps = advice::book().steps.values();
        let (rules, commands) = steps
            .fold((0, 0), |(rules, commands), step| (rules + rules_of(step).len(), commands + commands_of(step).len()));
        assert!(rules >= 10 && commands >= 20, "{rules} rules, {commands} commands");
    }

    #[test]
    fn what_is_wrong_with_advice_is_found() {
        let changed = |change: Change| {
            let mut book = advice::book().clone();
            change(&mut book);
            let found: Vec<String> =
                wrong(&book, &library(), run_dry).into_iter().map(|(_, message)| message).collect();
            found.join("\n")
        };
        let all: [(&str, Change); 13] = [
            ("where_code_is_known: there is no step callers", |book| drop(book.steps.remove("callers"))),
            ("the step callers is no component's", |book| book.where_code_is_known.clear()),
            ("nothing is said of runq", |book| drop(book.components.remove(&Component::Runq))),
            ("slow_wake_ups: there is no step other", |book| book.slow_wake_ups = vec!["other".into()]),
            ("the step wake_ups is no component's", |book| book.slow_wake_ups.clear()),
            ("there is no step code", |book| drop(book.steps.remove("code"))),
            ("the step more is no component's", |book| drop(book.steps.insert("more".into(), "Look".into()))),
            ("no probe named", |book| drop(book.steps.insert("code".into(), "See: rdiag probe profil".into()))),
            ("which does not exist", |book| drop(book.steps.insert("code".into(), "See (rule cpu.x)".into()))),
            ("is no instruction", |book| drop(book.steps.insert("code".into(), "See.".into()))),
            ("no test tells next_steps: 0.05 from", |book| book.tests.clear()),
            ("test 1: ", |book| book.mentioned.headline = 0.95),
            ("format_version 2 is not known", |book| book.format_version = 2),
        ];
        for (says, change) in all {
            let found = changed(change);
            assert!(found.contains(says), "{says}: {found}");
        }
    }

    #[test]
    fn advice_is_given_without_open_holes() {
        for component in Component::ALL {
            let (_, _, next) = advice_on(advice::book(), *component);
            for step in next {
                assert!(!step.changes_host, "{}: only looking is advised: {}", component.id(), step.action);
                assert!(!step.action.contains(['{', '}']), "{}: a hole is open: {}", component.id(), step.action);
            }
        }
    }
}
