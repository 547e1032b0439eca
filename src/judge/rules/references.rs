//! What an expression or a sentence refers to, found without evaluating it.

use std::collections::{BTreeSet, HashSet};

use minijinja::Error;

use super::expression::{FUNCTIONS, PLAIN, STATUS_NAMES, VARIABLES};
use super::{bounds, paths};
use rdiag_model::Stats;

/// What an expression refers to.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Reference {
    /// A metric, with the statistic that is taken (none inside `top(…)`, `highest(…)` and `sum(…)`).
    Metric(String, Option<String>),
    /// `value`, `host.cpus`, `label.rotational` …
    Variable(String),
    /// Nothing that is known.
    Unknown(String),
}

/// Parses an expression and says what it refers to. `resolve` finds the metric id at the start of a dotted path.
pub fn references(expression: &str, resolve: &dyn Fn(&str) -> Option<String>) -> Result<BTreeSet<Reference>, Error> {
    bounds::expression(expression)?;
    let compiled = PLAIN.compile_expression(expression)?;
    let paths = paths::of_expression(expression).unwrap_or_else(|| compiled.undeclared_variables(true));
    Ok(all_references(paths, resolve))
}

/// The same for a template.
pub fn template_references(
    template: &str,
    resolve: &dyn Fn(&str) -> Option<String>,
) -> Result<BTreeSet<Reference>, Error> {
    bounds::sentence(template)?;
    let parsed = PLAIN.template_from_str(template)?;
    Ok(all_references(parsed.undeclared_variables(true), resolve))
}

/// What a sentence mentions, without parsing it where that can be told; nothing if it is none.
pub fn mentioned(sentence: &str, resolve: &dyn Fn(&str) -> Option<String>) -> BTreeSet<Reference> {
    if bounds::sentence(sentence).is_err() {
        return BTreeSet::new();
    }
    match paths::of_sentence(sentence) {
        Some(paths) => all_references(paths, resolve),
        None => template_references(sentence, resolve).unwrap_or_default(),
    }
}

pub(super) fn all_references(paths: HashSet<String>, resolve: &dyn Fn(&str) -> Option<String>) -> BTreeSet<Reference> {
    paths.into_iter().filter_map(|path| reference(&path, resolve)).collect()
}

/// Whether each `highest(…)` and `sum(…)` of a metric in an expression says what holds where it was not measured:
/// `highest(disk.await.seconds)|default(0)`.
#[must_use]
pub fn has_fallback(expression: &str, metric: &str) -> bool {
    let falls_back = |(_, after): (&str, &str)| {
        let filter = after.trim_start().strip_prefix('|');
        filter.is_some_and(|filter| filter.trim_start().starts_with("default("))
    };
    let calls = calls_about(expression, metric);
    !calls.is_empty() && calls.into_iter().all(falls_back)
}

/// Whether each `highest(…)` of a metric in an expression is about the judged instance alone:
/// `highest(disk.slots.count, instance=instance)`.
#[must_use]
pub fn is_of_instance(expression: &str, metric: &str) -> bool {
    let calls = calls_about(expression, metric);
    !calls.is_empty() && calls.into_iter().all(|(options, _)| options.contains("instance=instance"))
}

/// What stands within each `highest(…)` and `sum(…)` about a metric, also as `where=METRIC`, and what follows it.
fn calls_about<'e>(expression: &'e str, metric: &str) -> Vec<(&'e str, &'e str)> {
    let calls = ["highest(", "sum("].into_iter().flat_map(|name| expression.split(name).skip(1));
    let calls = calls.map(|rest| rest.split_once(')').unwrap_or((rest, "")));
    let condition = format!("where={metric}");
    calls.filter(|(inside, _)| inside.trim_start().starts_with(metric) || inside.contains(&condition)).collect()
}

fn reference(path: &str, resolve: &dyn Fn(&str) -> Option<String>) -> Option<Reference> {
    let first = path.split('.').next().unwrap_or(path);
    if let Some(id) = resolve(path) {
        let rest = path.get(id.len()..).unwrap_or("").trim_start_matches('.');
        return Some(match rest {
            "" => Reference::Metric(id, None),
            field if Stats::FIELDS.contains(&field) => Reference::Metric(id, Some(field.to_owned())),
            _ => Reference::Unknown(path.to_owned()),
        });
    }
    if path == first && (FUNCTIONS.contains(&path) || STATUS_NAMES.iter().any(|(name, _)| *name == path)) {
        return None;
    }
    if VARIABLES.contains(&first) {
        return Some(Reference::Variable(path.to_owned()));
    }
    Some(Reference::Unknown(path.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn references_tell_metrics_from_variables_and_typing_errors() {
        let resolve = |path: &str| path.starts_with("cpu.busy.ratio").then(|| "cpu.busy.ratio".to_owned());
        let found = references("cpu.busy.ratio.mean > knee(host.cpus) and cpu.bsy > 1", &resolve).unwrap();
        assert!(found.contains(&Reference::Metric("cpu.busy.ratio".into(), Some("mean".into()))));
        assert!(found.contains(&Reference::Variable("host.cpus".into())));
        assert!(found.contains(&Reference::Unknown("cpu.bsy".into())));
        assert_eq!(found.len(), 3);
    }

    #[test]
    fn a_metric_with_a_fallback_is_told_from_one_that_is_needed() {
        assert!(has_fallback("(highest(disk.a.count, x='no')|default(0)) > 1", "disk.a.count"));
        assert!(has_fallback("highest( disk.a.count ) | default(0) > 1", "disk.a.count"));
        assert!(!has_fallback("highest(disk.a.count) > 1 and 0|default(0)", "disk.a.count"));
        assert!(!has_fallback("highest(disk.a.count)|default(0) + highest(disk.a.count)", "disk.a.count"));
        assert!(!has_fallback("highest(disk.b.count)|default(0)", "disk.a.count"));
        let sum = "1 - (sum(disk.a.count, where=disk.b.count)|default(0))";
        assert!(has_fallback(sum, "disk.a.count") && has_fallback(sum, "disk.b.count"));
    }
}
