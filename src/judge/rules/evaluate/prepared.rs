//! A rule made ready for one window: its expressions and sentences are parsed once for all instances and intervals.

use super::needs::Needs;
use super::{Judge, detail};
use crate::rules::Rule;
use crate::rules::expression::{Compiled, Sentence};
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
    /// None if it is no template; a plain sentence then takes its place.
    pub(super) says: Option<Sentence<'w>>,
    pub(super) quiet: Option<Sentence<'w>>,
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
        let [says, quiet] = [&rule.says, &rule.quiet].map(|text| self.expressions.sentence(text).ok());
        for sentence in [&says, &quiet].into_iter().flatten() {
            self.mentions(&mut needs, sentence);
        }
        Ok(PreparedRule { rule, origin, needs, value, conditions, applies, unless, culprit, says, quiet })
    }
}
