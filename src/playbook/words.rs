//! How playbooks and rules speak: short titles, one short sentence with a number and its unit, and the terms of the field.
//! What breaks this still runs, so all of it is a warning.

mod banned;
#[cfg(test)]
mod tests;

use super::check::Place;
use super::{Catalogue, Library, LoadedPlaybook, LoadedRule, Problem};
use banned::BANNED;
use rdiag_judge::rules::{Bench, Rule};
use rdiag_model::Unit;

/// Characters of a title: it heads a column and a finding.
const TITLE: usize = 40;
/// Characters of the sentence of a finding, with its figures: two lines of a terminal.
const SAYS: usize = 160;
/// What may follow a percentage and say what it is a share of; one in parentheses is a part of that before it.
const SHARE_OF: [&str; 5] = ["of", "busy", "idle", "full", "free"];

/// Everything that is hard to read, by rule and playbook.
#[must_use]
pub fn everything(library: &Library, catalogue: &Catalogue) -> Vec<Problem> {
    let rules = library.rules.values().flat_map(|loaded| rule(loaded, library, catalogue));
    rules.chain(library.playbooks.values().flat_map(playbook)).collect()
}

fn rule(loaded: &LoadedRule, library: &Library, catalogue: &Catalogue) -> Vec<Problem> {
    let Some(file) = library.rule_files.get(loaded.file) else { return Vec::new() };
    let rule = &loaded.rule;
    let place = Place::of_rule(file, rule);
    let mut found = Vec::new();
    let mut say = |key: &str, what: String, hint: &str| {
        let message = format!("{key} of {} {what}", rule.id);
        found.push(place.problem(key, message).hint(Some(hint.to_owned())));
    };
    let length = rule.title.chars().count();
    if length > TITLE {
        say("title", format!("has {length} characters"), "name the quantity in at most 40 characters");
    }
    let said = Bench::new(rule, &catalogue.metric_ids(), &|id| catalogue.kind_of(id)).said();
    if let Some(longest) = said.iter().max_by_key(|says| says.chars().count())
        && longest.chars().count() > SAYS
    {
        let what = format!("has {} characters: {longest}", longest.chars().count());
        say("says", what, "say what, of which object and how much in at most 160 characters; reasons belong in `why`");
    }
    if !is_state(rule)
        && let Some(without) = said.iter().find(|says| !has_unit(says))
    {
        say("says", format!("has no number with a unit: {without}"), "write the measured value and its unit");
    }
    if let Some((says, share)) = said.iter().find_map(|says| Some((says, bare_share(says)?))) {
        let hint = format!("write of what: {share} of …, or {share} busy, idle, full or free");
        say("says", format!("does not say what {share} is a share of: {says}"), &hint);
    }
    for (key, text) in texts(rule) {
        for (phrase, instead) in banned(text) {
            say(key, format!("uses {phrase:?}"), instead);
        }
    }
    found
}

fn playbook(loaded: &LoadedPlaybook) -> Vec<Problem> {
    let playbook = &loaded.playbook;
    let file = &loaded.file;
    let mut texts = vec![("title".to_owned(), playbook.title.as_str())];
    texts.extend(playbook.params.iter().map(|(name, param)| (name.clone(), param.help.as_str())));
    texts.extend(playbook.answer.iter().map(|answer| ("measured".to_owned(), answer.measured.as_str())));
    for cause in playbook.answer.iter().flat_map(|answer| &answer.causes) {
        let says = cause.says.as_deref().unwrap_or_default();
        texts.extend([(cause.id.clone(), cause.title.as_str()), (cause.id.clone(), says)]);
    }
    for step in &playbook.steps {
        texts.extend([(step.id.clone(), step.question.as_str()), (step.id.clone(), step.teach.as_str())]);
    }
    let phrases = texts.iter().flat_map(|(key, text)| banned(text).map(move |found| (key, found)));
    let problems = phrases.map(|(key, (phrase, instead))| {
        let message = format!("{key} of {} uses {phrase:?}", playbook.name);
        Problem::at(&file.label, &file.text, 0, key, message).hint(Some(instead.to_owned()))
    });
    problems.collect()
}

/// What a person reads of a rule, by the key that it stands under; `because` of a condition is proven with the condition.
fn texts(rule: &Rule) -> Vec<(&'static str, &str)> {
    let mut all =
        vec![("title", rule.title.as_str()), ("says", &rule.says), ("quiet", &rule.quiet), ("why", &rule.why)];
    all.extend(rule.next.iter().map(|next| ("next", next.action())));
    all
}

/// Whether a rule is about a state and not about a quantity: there is one or there is none.
fn is_state(rule: &Rule) -> bool {
    let yes =
        |condition: &str| !condition.contains(" or ") && [" > 0", " >= 1"].iter().any(|one| condition.ends_with(one));
    rule.unit == Unit::Count && rule.conditions().iter().all(|(_, text)| yes(text)) && !rule.says.contains("|number")
}

/// Whether a number is followed by what it counts or is measured in.
fn has_unit(text: &str) -> bool {
    let mut rest = text;
    while let Some(at) = rest.find(|c: char| c.is_ascii_digit()) {
        let number = rest.get(at..).unwrap_or_default();
        let end = number.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(number.len());
        rest = number.get(end..).unwrap_or_default();
        if rest.starts_with(['%', '/'])
            || rest.strip_prefix(' ').is_some_and(|unit| unit.starts_with(char::is_alphabetic))
        {
            return true;
        }
    }
    false
}

/// The first percentage that does not say of what.
fn bare_share(text: &str) -> Option<&str> {
    let within = |at: usize| text.get(..at).is_some_and(|text| text.matches('(').count() > text.matches(')').count());
    let mut explained = false;
    for (at, _) in text.match_indices('%') {
        let before = text.get(..at)?;
        let start = before.rfind(|c: char| !c.is_ascii_digit() && c != '.').map_or(0, |other| other + 1);
        let after = text.get(at + 1..)?;
        let word = after.trim_start().split(|c: char| !c.is_alphabetic()).next().unwrap_or_default();
        if SHARE_OF.contains(&word) {
            explained = true;
        } else if !(explained && within(at)) {
            return text.get(start..=at).filter(|share| share.len() > 1);
        }
    }
    None
}

/// The banned phrases in a text, and what to write instead of each. What templates put in is not looked at.
pub fn banned(text: &str) -> impl Iterator<Item = (&'static str, &'static str)> + use<> {
    let words = format!(" {} ", plain(text));
    BANNED.iter().filter(move |(phrase, _)| words.contains(&format!(" {phrase} "))).copied()
}

/// Lower-case words with one blank between them, without what stands in braces.
fn plain(text: &str) -> String {
    let mut kept = String::new();
    let mut depth = 0_usize;
    for c in text.chars() {
        match c {
            '{' => depth += 1,
            '}' => depth = depth.saturating_sub(1),
            _ if depth > 0 => {}
            '\'' | '’' => kept.push('\''),
            _ if c.is_alphanumeric() || c == '-' => kept.extend(c.to_lowercase()),
            _ => kept.push(' '),
        }
    }
    kept.split_whitespace().collect::<Vec<_>>().join(" ")
}
