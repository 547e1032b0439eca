//! What a rule cites: the metrics without which it cannot judge, and those that it only mentions.

use std::collections::BTreeSet;

use super::Judge;
use crate::rules::Rule;
use crate::rules::expression::Compiled;
use crate::rules::references::{Reference, has_fallback, is_of_instance, mentioned};
use rdiag_model::{Reading, Unavailable};

/// What the expressions of a rule refer to.
#[derive(Default)]
pub(super) struct Needs {
    /// Cited by `value`: their instances are the ones that are judged.
    pub(super) judged: BTreeSet<String>,
    /// Without these there is no verdict: metric and statistic.
    pub(super) required: BTreeSet<String>,
    /// Judged over all their instances at once: cited without a statistic, as in `highest(…)`.
    pub(super) whole: BTreeSet<String>,
    /// Cited for the judged instance alone, `highest(…, instance=instance)`: needed only where a condition gets as far.
    pub(super) own: BTreeSet<String>,
    /// Cited by sentences, `applies`, `unless` or `culprit` only.
    pub(super) optional: BTreeSet<String>,
}

impl Judge<'_> {
    fn resolve(&self, path: &str) -> Option<String> {
        let mut end = path.len();
        loop {
            let candidate = path.get(..end)?;
            if self.scope.metrics.readings.contains_key(candidate) {
                return Some(candidate.to_owned());
            }
            end = candidate.rfind('.')?;
        }
    }

    /// Notes what an expression cites. An error is a sentence.
    pub(super) fn cites(
        &self,
        needs: &mut Needs,
        rule: &Rule,
        key: &str,
        expression: &str,
        parsed: &Compiled<'_>,
    ) -> Result<(), String> {
        let judged = !matches!(key, "culprit" | "applies" | "unless");
        for reference in parsed.references(&|path| self.resolve(path)) {
            match reference {
                Reference::Metric(id, Some(_)) if judged => {
                    if key == "value" {
                        needs.judged.insert(id.clone());
                    }
                    needs.required.insert(id)
                }
                Reference::Metric(id, None) if judged && is_of_instance(expression, &id) => {
                    needs.own.insert(id.clone()) | needs.optional.insert(id)
                }
                Reference::Metric(id, None) if judged && !has_fallback(expression, &id) => {
                    needs.whole.insert(id.clone()) | needs.optional.insert(id)
                }
                Reference::Metric(id, _) => needs.optional.insert(id),
                Reference::Unknown(name) if judged => {
                    return Err(format!("{name}, in {key} of {}, was not collected", rule.id));
                }
                _ => false,
            };
        }
        Ok(())
    }

    /// Notes the metrics that a sentence mentions.
    pub(super) fn mentions(&self, needs: &mut Needs, sentence: &str) {
        for reference in mentioned(sentence, &|path| self.resolve(path)) {
            if let Reference::Metric(id, _) = reference {
                needs.optional.insert(id);
            }
        }
    }

    /// Why a figure is not there that a condition asked for, of this instance alone.
    pub(super) fn gap_of_instance(&self, needs: &Needs, name: &str) -> Option<Unavailable> {
        needs.own.iter().find_map(|id| self.scope.metrics.stats(id, name).err())
    }

    pub(super) fn dimension(&self, needs: &Needs) -> Option<String> {
        needs.judged.iter().chain(&needs.required).find_map(|id| self.dimension_of(id))
    }

    pub(super) fn dimension_of(&self, id: &str) -> Option<String> {
        match self.scope.metrics.readings.get(id) {
            Some(Reading::Measured { dimension, .. }) => dimension.clone(),
            _ => None,
        }
    }
}
