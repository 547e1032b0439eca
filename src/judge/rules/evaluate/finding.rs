//! The finding around a verdict: its sentence, evidence, culprit and log lines.

use minijinja::Value;
use serde::Deserialize as _;

use super::{Judge, Needs, PreparedRule};
use crate::rules::culprit::LEAST_SHARE;
use crate::rules::{Next, Rule};
use rdiag_model::finding::Threshold;
use rdiag_model::quantity::with_unit;
use rdiag_model::{
    Confidence, Culprit, DeedOfMetric, Evidence, Finding, Kind, LogLine, Reading, Reason, Resource, Status, Unavailable,
};

/// What the least share is asked of; of functions or devices a twentieth may be worth knowing.
const TASKS: [&str; 3] = ["process", "task", "thread"];

impl Judge<'_> {
    pub(super) fn unjudged(&self, rule: &Rule, origin: &str, name: &str, gap: Unavailable) -> Finding {
        let mut finding = self.blank(rule, origin, name);
        finding.status = if gap.reason == Reason::NotApplicable { Status::Skipped } else { Status::Unknown };
        finding.confidence = Confidence::Low;
        finding.summary = gap.why.clone();
        finding.unavailable = Some(gap);
        finding
    }

    pub(super) fn blank(&self, rule: &Rule, origin: &str, name: &str) -> Finding {
        let (resource, kind) = rule.cell().unwrap_or((Resource::Kernel, Kind::Errors));
        let conditions =
            rule.conditions().into_iter().map(|(status, text)| (status.word().to_owned(), text.to_owned()));
        Finding {
            id: rule.id.clone(),
            title: rule.title.clone(),
            resource,
            kind,
            instance: (!name.is_empty()).then(|| name.to_owned()),
            status: Status::Unknown,
            confidence: Confidence::High,
            confidence_reasons: Vec::new(),
            summary: String::new(),
            value: None,
            unit: rule.unit,
            threshold: Threshold { conditions: conditions.collect(), hold: rule.hold, origin: origin.to_owned() },
            window_seconds: self.scope.metrics.seconds,
            held_intervals: None,
            evidence: Vec::new(),
            culprit: None,
            log: Vec::new(),
            unavailable: None,
            seconds_before: None,
            refuted_by: None,
            why: rule.why.trim().to_owned(),
            verify: rule.verify.trim().to_owned(),
            next: rule.next.iter().map(Next::step).collect(),
            lab: None,
        }
    }

    pub(super) fn culprit(
        &self,
        prepared: &PreparedRule<'_>,
        context: &Value,
        name: &str,
        dimension: Option<&str>,
    ) -> Option<Culprit> {
        let value = prepared.culprit.as_ref()?.eval(context).ok()?;
        // `instance`, or `top(…) or instance` where no culprit is known.
        if dimension.is_some() && value.as_str() == Some(name) {
            let kind = dimension.unwrap_or("instance").to_owned();
            let mut labels =
                self.scope.metrics.labels.get(&kind).and_then(|all| all.get(name)).cloned().unwrap_or_default();
            let shown = labels.remove("name").unwrap_or_else(|| name.to_owned());
            return Some(Culprit {
                kind,
                name: shown,
                pids: labels.remove("pid").and_then(|pid| pid.parse().ok()).into_iter().collect(),
                count: 1,
                share: None,
                value: None,
                unit: None,
                metric: None,
                deed: DeedOfMetric::default(),
                labels,
            });
        }
        let culprit = Culprit::deserialize(value).ok()?;
        // The largest of many small ones is behind nothing.
        let small = culprit.share.is_some_and(|share| share < LEAST_SHARE);
        (!small || !TASKS.contains(&culprit.kind.as_str())).then_some(culprit)
    }

    pub(super) fn log_lines(&self, rule: &Rule) -> Vec<String> {
        let lines = self.scope.log.iter().filter(|line| rule.log.contains(&line.class));
        let mut newest: Vec<&LogLine> = lines.collect();
        newest.sort_by_key(|line| !line.in_window);
        newest.into_iter().take(10).map(|line| format!("[{:.3}] {}", line.seconds_since_boot, line.text)).collect()
    }

    pub(super) fn summary(&self, prepared: &PreparedRule<'_>, context: &Value, finding: &Finding) -> String {
        let sentence = prepared.sentence(finding.status.fired());
        let text = sentence.and_then(|sentence| sentence.render(context).ok());
        let text = text.unwrap_or_else(|| plain_sentence(prepared.rule, finding.value));
        let mut text = text.split_whitespace().collect::<Vec<_>>().join(" ");
        if let Some(gone) = self.says_what_is_gone(prepared.rule).filter(|_| finding.status.fired()) {
            text = format!("{text} {gone}");
        }
        match &finding.refuted_by {
            Some(why) => format!("{text} ({why})"),
            None => match finding.seconds_before {
                Some(seconds) => format!("{text} {}", self.says_when(seconds)),
                None => text,
            },
        }
    }

    pub(super) fn evidence(&self, needs: &Needs, name: &str) -> Vec<Evidence> {
        let cited = needs.required.iter().chain(needs.optional.difference(&needs.required));
        cited
            .filter_map(|id| {
                let Some(Reading::Measured { unit, source, dimension, .. }) = self.scope.metrics.readings.get(id)
                else {
                    return None;
                };
                let (instance, stats) = match self.stats(id, name) {
                    Ok(stats) => (name, stats),
                    Err(_) if needs.whole.contains(id) => self.largest(id).ok()?,
                    Err(_) => return None,
                };
                Some(Evidence {
                    metric: id.clone(),
                    instance: dimension.as_ref().map(|_| instance.to_owned()),
                    window: self.scope.window,
                    mean: Some(stats.mean),
                    max: Some(stats.max),
                    total: Some(stats.total),
                    unit: *unit,
                    source: source.clone(),
                })
            })
            .collect()
    }
}

/// What stands in place of a sentence with a hole that nothing fills.
pub(in crate::rules) fn plain_sentence(rule: &Rule, value: Option<f64>) -> String {
    let value = value.map_or_else(|| "no value".to_owned(), |value| with_unit(value, rule.unit));
    format!("{}: {value}.", rule.title)
}
