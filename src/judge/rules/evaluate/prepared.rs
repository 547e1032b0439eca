//! A rule made ready for one window: its expressions are parsed once for all instances and intervals, and its sentences when the first is
//! written. Most rules write one of their two, and those that ask for a verdict alone none.

use std::cell::OnceCell;

use super::needs::Needs;
use super::{Judge, detail};
use crate::rules::Rule;
use crate::rules::expression::{Compiled, Expressions, Sentence};
use rdiag_model::Status;

/// A rule, ready to be judged.
pub(super) struct PreparedRule<'w> {
    pub(super) rule: &'w Rule,
    /// Where its thresholds come from.
    pub(super) origin: &'w str,
    /// What its expressions and sentences refer to.
    pub(super) needs: Needs,
    pub(super) value: Compiled<'w>,
    /// From the worst down, with their text.
    pub(super) conditions: Vec<(Status, &'w str, Compiled<'w>)>,
    pub(super) applies: Option<Compiled<'w>>,
    pub(super) unless: Option<Compiled<'w>>,
    pub(super) culprit: Option<Compiled<'w>>,
    expressions: &'w Expressions,
    says: OnceCell<Option<Sentence<'w>>>,
    quiet: OnceCell<Option<Sentence<'w>>>,
}

impl<'w> PreparedRule<'w> {
    /// What it says when it fired, or when it did not; none if that is no template: a plain sentence then takes its place.
    pub(super) fn sentence(&self, fired: bool) -> Option<&Sentence<'w>> {
        let (place, text) = if fired { (&self.says, &self.rule.says) } else { (&self.quiet, &self.rule.quiet) };
        place.get_or_init(|| self.expressions.sentence(text).ok()).as_ref()
    }
}

impl Judge<'_> {
    /// Parses a rule and finds out what it needs; an error is a sentence.
    pub(super) fn prepare<'w>(&'w self, rule: &'w Rule, origin: &'w str) -> Result<PreparedRule<'w>, String> {
        let mut needs = Needs::default();
        let mut parse = |key: &str, text: &'w str| -> Result<Compiled<'w>, String> {
            let parsed = self.expressions.compile(text);
            let parsed = parsed.map_err(|error| format!("{key} of {}: {}", rule.id, detail(&error)))?;
            self.cites(&mut needs, rule, key, text, &parsed)?;
            Ok(parsed)
        };
        let value = parse("value", &rule.value)?;
        let mut conditions = Vec::new();
        for (status, text) in rule.conditions() {
            conditions.push((status, text, parse(status.word(), text)?));
        }
        let culprit = rule.culprit.as_deref().map(|text| parse("culprit", text)).transpose()?;
        let applies = rule.applies.as_ref().map(|condition| parse("applies", &condition.when)).transpose()?;
        let unless = rule.unless.as_ref().map(|condition| parse("unless", &condition.when)).transpose()?;
        for sentence in [&rule.says, &rule.quiet] {
            self.mentions(&mut needs, sentence);
        }
        let (expressions, says, quiet) = (&self.expressions, OnceCell::new(), OnceCell::new());
        Ok(PreparedRule { rule, origin, needs, value, conditions, applies, unless, culprit, expressions, says, quiet })
    }
}
