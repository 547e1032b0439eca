//! Whether the map of old tools holds together. What the commands in it mean, only the command line knows: `cli/tools.rs`.

use std::collections::{BTreeMap, BTreeSet};

use super::name::{Pattern, key};
use super::{Tool, Tools};
use crate::suggest::did_you_mean;
use crate::{Catalogue, FORMAT_VERSION, Problem, builtin};

/// Everything that is wrong with the built-in map but its commands.
#[must_use]
pub fn map(tools: &Tools, catalogue: &Catalogue) -> Vec<Problem> {
    let mut problems = tools.problems.clone();
    let mut owners: BTreeMap<String, &Tool> = BTreeMap::new();
    for group in &tools.groups {
        if group.format_version != FORMAT_VERSION {
            problems.push(Problem::whole(group.file, format!("format_version {} is not known", group.format_version)));
        }
        for tool in &group.tools {
            for (token, message) in wrong(tool, tools, catalogue) {
                problems.push(problem(group.file, &token, message));
            }
            for name in &tool.names {
                let other = owners.insert(key(name), tool).filter(|other| !std::ptr::eq(*other, tool));
                if other.is_some() {
                    problems.push(problem(group.file, name, format!("{name} stands in the map twice")));
                }
            }
        }
    }
    problems.extend(announced(tools));
    problems
}

/// A place in a built-in file.
pub fn problem(file: &str, token: &str, message: String) -> Problem {
    let files = builtin::TOOLS.iter().chain([&builtin::PLANNED]);
    let text = files.into_iter().find(|(name, _)| *name == file).map_or("", |(_, text)| text);
    Problem::at(file, text, 0, token, message)
}

/// What is wrong with one tool: where, and what.
fn wrong(tool: &Tool, tools: &Tools, catalogue: &Catalogue) -> Vec<(String, String)> {
    let mut found = Vec::new();
    let Some(first) = tool.names.first() else { return vec![("names".into(), "a tool has no name".into())] };
    let mut say = |token: &str, message: String| found.push((token.to_owned(), message));
    if first.contains('*') {
        say(first, format!("{first}: the first name stands for the tool in lists, so it can be no pattern"));
    }
    for name in &tool.names {
        if Pattern::new(name).is_some_and(|pattern| pattern.literal() < 3) {
            say(name, format!("{name} fits nearly everything"));
        }
    }
    if !tool.answers.ends_with(['?', '.']) {
        say(first, format!("{first}: what it answers is no sentence"));
    }
    let is_answered = !tool.by.is_empty() || !tool.run.is_empty();
    if is_answered == tool.outside.is_some() {
        say(
            first,
            format!("{first} needs either what answers it (`by`, `run`) or the reason why nothing does (`outside`)"),
        );
    }
    for id in &tool.by {
        if !catalogue.collectors.contains(&id.as_str()) && tools.planned(id).is_none() {
            let known = catalogue.collectors.iter().copied().chain(tools.announced.planned.keys().map(String::as_str));
            let hint = did_you_mean(id, known).unwrap_or_else(|| "or add it to planned.yaml".into());
            say(first, format!("{first} is said to be answered by {id}, which is no probe or collector; {hint}"));
        }
    }
    for id in catalogue.collectors.iter().filter(|id| tool.names.iter().any(|name| name == *id)) {
        if !tool.by.iter().any(|by| by == id) {
            say(first, format!("there is a {id} here, so it must stand in `by` of the tool of that name"));
        }
    }
    found
}

fn announced(tools: &Tools) -> Vec<Problem> {
    let file = builtin::PLANNED.0;
    let mut problems = Vec::new();
    if tools.announced.format_version != FORMAT_VERSION && tools.problems.is_empty() {
        problems.push(Problem::whole(file, format!("format_version {} is not known", tools.announced.format_version)));
    }
    let cited: BTreeSet<&String> = tools.all().flat_map(|(_, tool)| &tool.by).collect();
    for id in tools.announced.planned.keys() {
        if !cited.contains(id) {
            problems.push(problem(file, id, format!("{id} is planned, but it answers no tool")));
        }
    }
    problems
}
