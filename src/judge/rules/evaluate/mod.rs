//! Judging: one rule over one window gives one finding for each instance.

mod finding;
mod needs;
mod prepared;
mod recent;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use minijinja::Value;
use minijinja::value::{Serde, merge_maps};

pub(super) use finding::plain_sentence;
use needs::Needs;
use prepared::PreparedRule;

use super::culprit::OTHERS;
use super::expression::Expressions;
use super::values::Values;
use super::{Rule, confidence};
use rdiag_model::finding::DoubtKind;
use rdiag_model::{Facts, Finding, LogLine, Metrics, Reading, Reason, Stats, Status, Unavailable};

/// What a rule may look at: the readings of one window, the host's facts, and the kernel log.
pub struct Scope<'s> {
    /// Facts of the recorded host.
    pub facts: &'s Facts,
    /// Readings of the window.
    pub metrics: Arc<Metrics>,
    /// Index of the window in the recording.
    pub window: usize,
    /// Recognised lines of the kernel log.
    pub log: &'s [LogLine],
    /// Seconds before the run in which a line of the kernel log counts as one of the window; 0 if none does.
    pub recent: f64,
}

/// Evaluates rules in one scope.
pub struct Judge<'s> {
    scope: Scope<'s>,
    expressions: Expressions,
}

impl<'s> Judge<'s> {
    /// A judge for one scope.
    #[must_use]
    pub fn new(scope: Scope<'s>) -> Self {
        let mut named: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for line in scope.log.iter().filter(|line| line.in_window) {
            named.entry(line.class.clone()).or_default().extend(line.subject.clone());
        }
        let expressions = Expressions::new(scope.facts, Arc::clone(&scope.metrics), Arc::new(named), BTreeMap::new());
        Self { scope, expressions }
    }

    /// The findings of a rule: one, or one for each instance of the metrics that it cites.
    #[must_use]
    pub fn judge(&self, rule: &Rule, origin: &str) -> Vec<Finding> {
        let prepared = match self.prepare(rule, origin) {
            Ok(prepared) => prepared,
            Err(error) => return vec![self.unjudged(rule, origin, "", Unavailable::new(Reason::Malformed, error))],
        };
        let needs = &prepared.needs;
        // Without one of its metrics a rule can judge nothing: that is one gap, not one for each instance.
        let gap = needs.required.iter().find_map(|id| match self.scope.metrics.readings.get(id) {
            Some(Reading::Unavailable(gap)) => Some(gap.clone()),
            _ => None,
        });
        if let Some(gap) = gap {
            let context = self.context(needs, "", &self.labels("", None), None);
            let skipped = self.not_applicable(&prepared, "", &context);
            return vec![skipped.unwrap_or_else(|| self.unjudged(rule, origin, "", gap))];
        }
        let Some(dimension) = self.dimension(needs) else {
            return vec![self.instance(&prepared, "", None)];
        };
        let mut instances = BTreeSet::new();
        // Instances are those of the judged value: what a condition cites besides may have more of them (all interfaces,
        // where only devices are judged).
        let of_value = needs.judged.iter().any(|id| self.dimension_of(id).is_some());
        for id in if of_value { &needs.judged } else { &needs.required } {
            match self.scope.metrics.readings.get(id) {
                Some(Reading::Measured { dimension: Some(of), instances: found, .. }) if *of == dimension => {
                    instances.extend(found.keys().filter(|name| *name != OTHERS));
                }
                _ => {}
            }
        }
        if instances.is_empty() {
            let gap = Unavailable::new(Reason::NotApplicable, format!("this host shows no {dimension}"));
            return vec![self.unjudged(rule, origin, "", gap)];
        }
        instances.into_iter().map(|name| self.instance(&prepared, name, Some(&dimension))).collect()
    }

    /// A metric's figures for an instance; those of the whole host where the metric has no instances.
    fn stats(&self, id: &str, instance: &str) -> Result<&Stats, Unavailable> {
        self.scope.metrics.stats(id, self.instance_of(id, instance))
    }

    /// The same, where it does not matter why there are none.
    fn measured(&self, id: &str, instance: &str) -> Option<&Stats> {
        self.scope.metrics.measured(id, self.instance_of(id, instance))
    }

    fn instance_of<'n>(&self, id: &str, instance: &'n str) -> &'n str {
        let whole_host = matches!(self.scope.metrics.readings.get(id), Some(Reading::Measured { dimension: None, .. }));
        if whole_host { "" } else { instance }
    }

    /// The instance with the largest mean of a metric, which `highest(…)` is about.
    fn largest(&self, id: &str) -> Result<(&str, &Stats), Unavailable> {
        let instances = match self.scope.metrics.readings.get(id) {
            Some(Reading::Measured { instances, .. }) => instances,
            Some(Reading::Unavailable(gap)) => return Err(gap.clone()),
            None => return Err(Unavailable::new(Reason::Absent, format!("{id} was not collected in this window"))),
        };
        let named = instances.iter().filter(|(name, _)| *name != OTHERS);
        let measured = named.filter_map(|(name, stats)| Some((name.as_str(), stats.as_ref().ok()?)));
        let largest = measured.max_by(|(_, a), (_, b)| a.mean.total_cmp(&b.mean));
        let gap = || instances.values().find_map(|stats| stats.as_ref().err().cloned());
        let none = || Unavailable::new(Reason::NotApplicable, format!("{id} has no instance here"));
        largest.ok_or_else(|| gap().unwrap_or_else(none))
    }

    /// What the expressions of a rule see of an instance: over the whole window, or in one interval.
    fn context(&self, needs: &Needs, instance: &str, labels: &Value, interval: Option<usize>) -> Value {
        let mut values = Values::default();
        for id in needs.required.iter().chain(&needs.optional) {
            let stats = self.measured(id, instance);
            match interval {
                None => values.set_metric(id, stats),
                Some(at) => values.set_level(id, stats.and_then(|stats| stats.intervals.get(at).copied().flatten())),
            }
        }
        values.set("instance", Value::from(instance));
        values.set("label", labels.clone());
        values.context()
    }

    /// The labels of an instance, as expressions see them.
    fn labels(&self, instance: &str, dimension: Option<&str>) -> Value {
        let labels = dimension.and_then(|of| self.scope.metrics.labels.get(of)?.get(instance));
        Value::from(Serde(labels.cloned().unwrap_or_default()))
    }

    fn instance(&self, prepared: &PreparedRule<'_>, name: &str, dimension: Option<&str>) -> Finding {
        let PreparedRule { rule, origin, needs, .. } = prepared;
        let mut finding = self.blank(rule, origin, name);
        let labels = self.labels(name, dimension);
        let plain = self.context(needs, name, &labels, None);
        if let Some(skipped) = self.not_applicable(prepared, name, &plain) {
            return skipped;
        }
        let missing = needs.required.iter().find_map(|id| self.stats(id, name).err());
        let missing = missing.or_else(|| needs.whole.iter().find_map(|id| self.largest(id).err()));
        if let Some(gap) = missing {
            return self.unjudged(rule, origin, name, gap);
        }
        let value = match prepared.value.number(&plain) {
            Ok(value) => value,
            Err(error) => {
                let why = format!("`{}` has no value: {}", rule.value, detail(&error));
                return self.unjudged(rule, origin, name, Unavailable::new(Reason::Malformed, why));
            }
        };
        finding.value = Some(value);
        let context = with_value(value, plain);
        let judged = match rule.hold {
            None => judge_window(prepared, &context),
            Some(hold) => self.judge_intervals(prepared, name, &labels, hold, &mut finding),
        };
        finding.status = match judged {
            Ok(status) => status,
            Err(gap) => {
                let known = self.gap_of_instance(needs, name).or_else(|| match gap.reason {
                    Reason::Malformed => unknown_label(prepared, &labels, dimension.unwrap_or("host")),
                    _ => None,
                });
                return self.unjudged(rule, origin, name, known.unwrap_or(gap));
            }
        };
        finding.evidence = self.evidence(needs, name);
        let cited = finding.evidence.iter().map(|evidence| evidence.metric.clone()).collect();
        let confirmed = self.is_limit_logged(prepared, name).then_some(recent::LIMIT_FAILURES);
        finding.confidence_reasons.extend(confidence::reasons(&self.scope.metrics, &cited, name, confirmed));
        if finding.status.fired() {
            refute(prepared, &context, &mut finding);
        }
        // Lines that were lost speak only against having found none of those that are asked for.
        let asks_the_log = needs.judged.iter().any(|id| id.starts_with("kernel.log."));
        if finding.status.fired() || !asks_the_log {
            finding.confidence_reasons.retain(|reason| reason.kind() != DoubtKind::UnreadRecords);
        }
        if finding.is_past() {
            self.count_recent(prepared, name, &labels, &mut finding);
        }
        if finding.status.fired() {
            let named = self.culprit(prepared, &context, name, dimension);
            finding.culprit = named.or_else(|| self.recent_culprit(prepared, name, &finding));
            finding.log = self.log_lines(rule);
        }
        finding.confidence = confidence::level(&finding.confidence_reasons);
        finding.summary = self.summary(prepared, &context, &finding);
        finding
    }

    /// The finding of a rule that makes no sense here.
    fn not_applicable(&self, prepared: &PreparedRule<'_>, name: &str, context: &Value) -> Option<Finding> {
        let condition = prepared.rule.applies.as_ref()?;
        let applies = prepared.applies.as_ref()?.holds(context).unwrap_or(true);
        let gap = || Unavailable::new(Reason::NotApplicable, condition.because.clone());
        (!applies).then(|| self.unjudged(prepared.rule, prepared.origin, name, gap()))
    }

    /// The worst status whose condition held for `hold` intervals in a row.
    fn judge_intervals(
        &self,
        prepared: &PreparedRule<'_>,
        name: &str,
        labels: &Value,
        hold: usize,
        finding: &mut Finding,
    ) -> Result<Status, Unavailable> {
        let needs = &prepared.needs;
        let intervals = self.scope.metrics.intervals.max(1);
        let measured = self.measured_intervals(&needs.required, intervals);
        let needed = hold.clamp(1, measured.max(1));
        if measured < hold {
            let were = if measured == 1 { "interval was" } else { "intervals were" };
            let reason = format!("{measured} {were} measured, and the rule wants {hold} in a row");
            finding.confidence_reasons.push(reason.into());
        }
        let mut contexts = Vec::with_capacity(intervals);
        for at in 0..intervals {
            // On a host that suffers, samples come late and the readings of an interval may not all be there.
            let there =
                |id: &String| self.measured(id, name).is_some_and(|s| s.intervals.get(at).is_some_and(Option::is_some));
            if !needs.required.iter().all(there) {
                contexts.push(None);
                continue;
            }
            let context = self.context(needs, name, labels, Some(at));
            let value = prepared.value.number(&context).ok();
            contexts.push(value.map(|value| with_value(value, context)));
        }
        if contexts.iter().all(Option::is_none) {
            return Err(Unavailable::new(Reason::ShortWindow, "in no interval were all readings there that it needs"));
        }
        for (status, text, condition) in &prepared.conditions {
            let verdicts: Vec<Result<bool, Unavailable>> = contexts
                .iter()
                .map(|context| match context {
                    Some(context) => condition.holds(context).map_err(|error| broken(text, &error)),
                    None => Ok(false),
                })
                .collect();
            let longest = longest_run(verdicts.iter().map(|verdict| matches!(verdict, Ok(true))));
            if longest >= needed {
                finding.held_intervals = Some((longest, intervals));
                return Ok(*status);
            }
            // With what is not known it might have held for long enough.
            let possible = longest_run(verdicts.iter().map(|verdict| !matches!(verdict, Ok(false))));
            if possible >= needed {
                verdicts.into_iter().collect::<Result<Vec<_>, _>>()?;
            }
        }
        Ok(Status::Ok)
    }

    /// How many intervals the samples of all these metrics span.
    fn measured_intervals(&self, metrics: &BTreeSet<String>, intervals: usize) -> usize {
        let spans = metrics.iter().filter_map(|id| self.scope.metrics.spans.get(id));
        let (first, end) = spans.fold((0, intervals), |(first, end), (from, to)| (first.max(*from), end.min(*to)));
        end.saturating_sub(first)
    }
}

/// The most in a row that are true.
fn longest_run(all: impl Iterator<Item = bool>) -> usize {
    let runs = all.scan(0, |run, holds| {
        *run = if holds { *run + 1 } else { 0 };
        Some(*run)
    });
    runs.max().unwrap_or(0)
}

/// A context in which the judged value is known.
fn with_value(value: f64, context: Value) -> Value {
    merge_maps([Value::from_pairs([("value", value)]), context])
}

/// The worst status whose condition holds over the whole window.
fn judge_window(prepared: &PreparedRule<'_>, context: &Value) -> Result<Status, Unavailable> {
    for (status, text, condition) in &prepared.conditions {
        if condition.holds(context).map_err(|error| broken(text, &error))? {
            return Ok(*status);
        }
    }
    Ok(Status::Ok)
}

/// Takes a finding back if what speaks against it holds.
fn refute(prepared: &PreparedRule<'_>, context: &Value, finding: &mut Finding) {
    let (Some(unless), Some(condition)) = (&prepared.rule.unless, &prepared.unless) else { return };
    match condition.holds(context) {
        Ok(true) => {
            finding.status = Status::Ok;
            finding.refuted_by = Some(unless.because.clone());
        }
        Ok(false) => {}
        Err(_) => finding.confidence_reasons.push(format!("could not check whether {}", unless.because).into()),
    }
}

/// What is not known of an instance though a condition asks for it: a source that has the figures may not say what they are of.
fn unknown_label(prepared: &PreparedRule<'_>, labels: &Value, dimension: &str) -> Option<Unavailable> {
    let mut asked = prepared.conditions.iter().flat_map(|(_, _, condition)| condition.labels());
    let is_known = |label: &String| labels.get_attr(label).is_ok_and(|value| !value.is_undefined());
    let label = asked.find(|label| !is_known(label))?;
    let why = format!("whether that is much depends on the {label} of the {dimension}, which is not known");
    Some(Unavailable::new(Reason::Absent, why))
}

fn broken(condition: &str, error: &minijinja::Error) -> Unavailable {
    Unavailable::new(Reason::Malformed, format!("`{condition}` cannot be judged: {}", detail(error)))
}

fn detail(error: &minijinja::Error) -> String {
    error.detail().map_or_else(|| error.to_string(), str::to_owned)
}
