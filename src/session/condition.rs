//! Waiting until a condition holds: the metrics that it names are read each second, by nothing but their collectors.
//!
//! Collectors are begun anew with each second, so nothing grows however long it takes.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use thiserror::Error;

use super::record::Recorder;
use rdiag_collectors::{self as collectors, CollectorDef};
use rdiag_judge::metrics;
use rdiag_judge::rules::references::references;
use rdiag_judge::rules::{Expressions, Reference, Values};
use rdiag_kernel::host::SharedHost;
use rdiag_model::{MetricDef, Window};
use rdiag_playbook::suggest::did_you_mean;

/// Seconds that are judged at a time.
const INTERVAL: f64 = 1.0;

/// Why a condition cannot be waited for.
#[derive(Debug, Error)]
pub enum ConditionError {
    /// It is none.
    #[error("{0}")]
    Wrong(String),
    /// None of its metrics can be read on this host.
    #[error("{0} cannot be read: {1}")]
    Unavailable(String, String),
    /// No thread can be started.
    #[error("reading what the condition names: {0}")]
    Io(#[from] std::io::Error),
}

/// How the waiting ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Waited {
    /// It held for as long as was asked for.
    Held,
    /// The time was over before.
    TimedOut,
    /// A signal ended it.
    Stopped,
}

/// A condition over metrics, in the language of playbooks.
pub struct Condition {
    text: String,
    catalogue: Vec<(&'static str, &'static MetricDef)>,
    collectors: Vec<&'static CollectorDef>,
}

impl Condition {
    /// Reads a condition. A metric without a statistic means its mean over the second.
    ///
    /// # Errors
    /// When it is none, or names what no collector reads.
    pub fn parse(text: &str) -> Result<Self, ConditionError> {
        let wrong = |why: String| ConditionError::Wrong(format!("the condition {text:?}: {why}"));
        let found = references(text, &super::provisional::metric_of_path).map_err(|error| wrong(error.to_string()))?;
        let (mut cited, mut whole) = (BTreeSet::new(), text.to_owned());
        for reference in found {
            match reference {
                Reference::Metric(id, statistic) => {
                    if statistic.is_none() {
                        whole = with_mean(&whole, &id);
                    }
                    cited.insert(id);
                }
                Reference::Variable(path) if path.starts_with("host.") || path.starts_with("window.") => {}
                Reference::Variable(path) => return Err(wrong(format!("{path} is for rules"))),
                Reference::Unknown(path) => {
                    let hint = did_you_mean(&path, super::catalogue::all_metrics().map(|(_, metric)| metric.id));
                    let hint = hint.unwrap_or_else(|| "`rdiag list metrics` names them".to_owned());
                    return Err(wrong(format!("there is no metric {path}; {hint}")));
                }
            }
        }
        if cited.is_empty() {
            return Err(wrong("it names no metric".to_owned()));
        }
        let catalogue: Vec<_> =
            super::catalogue::all_metrics().filter(|(_, metric)| cited.contains(metric.id)).collect();
        let owner = |id: &str| collectors::ALL.iter().copied().find(|def| def.id == id);
        if let Some((probe, metric)) = catalogue.iter().find(|(id, _)| owner(id).is_none()) {
            return Err(wrong(format!(
                "{} is measured by the probe {probe}; a condition takes what collectors read",
                metric.id
            )));
        }
        let wanted: BTreeSet<&str> = catalogue.iter().map(|(id, _)| *id).collect();
        let collectors = wanted.into_iter().filter_map(owner).collect();
        Ok(Self { text: whole, catalogue, collectors })
    }

    /// Waits until it held for so many seconds, at most until `timeout` seconds are over.
    ///
    /// # Errors
    /// When its metrics cannot be read here.
    pub fn wait(
        &self,
        host: &SharedHost,
        seconds: f64,
        timeout: Option<f64>,
        stop: &AtomicBool,
    ) -> Result<Waited, ConditionError> {
        let end = timeout.map(|timeout| host.now() + timeout);
        let (mut since, mut was_read, mut late) = (None, false, 0);
        while !stop.load(Ordering::Relaxed) {
            let began = host.now();
            if end.is_some_and(|end| began >= end) {
                return Ok(Waited::TimedOut);
            }
            let holds = match self.holds(host, stop)? {
                Some(Ok(holds)) => {
                    was_read = true;
                    holds
                }
                None => break,
                // A host in trouble may be slow to answer, but each time leaves a thread behind.
                Some(Err(Unknown::Late(who))) if late == MOST_LATE => {
                    return Err(ConditionError::Unavailable(who, "it does not answer".to_owned()));
                }
                Some(Err(Unknown::Late(_))) => {
                    late += 1;
                    false
                }
                // A device may come and go, or have had nothing to do; what was never there is a mistake.
                Some(Err(Unknown::Why(_))) if was_read => false,
                Some(Err(Unknown::Wrong(why))) => return Err(ConditionError::Wrong(why)),
                Some(Err(Unknown::Why(why))) => {
                    return Err(ConditionError::Unavailable("what the condition names".into(), why));
                }
            };
            since = holds.then(|| since.unwrap_or(began));
            if since.is_some_and(|since| host.now() - since >= seconds) {
                return Ok(Waited::Held);
            }
        }
        Ok(Waited::Stopped)
    }

    /// Whether it holds in the next second, or why that cannot be said; none if `stop` was set.
    fn holds(&self, host: &SharedHost, stop: &AtomicBool) -> Result<Option<Result<bool, Unknown>>, ConditionError> {
        let mut recorder = Recorder::of(host, &self.collectors, INTERVAL)?;
        recorder.sample_some(|_| true)?;
        let began = recorder.began();
        if !host.wait(began + INTERVAL, 1, stop) {
            return Ok(None);
        }
        recorder.sample_some(|_| true)?;
        let seconds = host.now() - began;
        let late: Vec<&str> = recorder.slots.iter().filter(|slot| slot.late).map(|slot| slot.id).collect();
        if !late.is_empty() {
            return Ok(Some(Err(Unknown::Late(late.join(", ")))));
        }
        let (collectors, _) = recorder.end()?;
        let window = Window {
            steps: Vec::new(),
            begins: 0.0,
            seconds,
            interval_seconds: INTERVAL,
            suspended_seconds: 0.0,
            collectors,
            probes: BTreeMap::new(),
            ledgers: BTreeMap::new(),
        };
        let metrics = Arc::new(metrics::evaluate(&window, host.facts(), &self.catalogue));
        let mut values = Values::default();
        let (mut gaps, mut wrong) = (Vec::new(), None);
        for (_, metric) in &self.catalogue {
            let stats = metrics.stats(metric.id, "");
            values.set_metric(metric.id, stats.as_ref().ok().copied());
            match (metrics.readings.get(metric.id), metric.dimension) {
                (Some(rdiag_model::Reading::Unavailable(gap)), _) => gaps.push(gap.to_string()),
                (Some(_), Some(of)) if stats.is_err() && self.text.contains(&format!("{}.", metric.id)) => {
                    wrong = Some(format!("{0} has a figure for each {of}: write highest({0})", metric.id));
                }
                _ => {}
            }
        }
        let expressions = Expressions::new(host.facts(), metrics, Arc::default(), BTreeMap::new());
        let holds = expressions.compile(&self.text).and_then(|condition| condition.holds(&values.context()));
        if let Some(wrong) = wrong {
            return Ok(Some(Err(Unknown::Wrong(wrong))));
        }
        // Nothing happened that it could be about: the latency of a disk without requests.
        let undefined = || gaps.into_iter().next().map_or(Ok(false), |gap| Err(Unknown::Why(gap)));
        Ok(Some(holds.or_else(|error| match error.to_string() {
            why if why.starts_with("undefined") => undefined(),
            why if why.contains("not true or false") => {
                let how = "compare it with something, as in 'psi.io.full.ratio > 0.1'";
                Err(Unknown::Wrong(format!("the condition is neither true nor false: {how}")))
            }
            why => Err(Unknown::Why(why)),
        })))
    }
}

/// Why it is not known whether a condition holds.
enum Unknown {
    /// These did not answer in time.
    Late(String),
    /// What it names cannot be read.
    Why(String),
    /// It is no condition, which shows only when it is evaluated.
    Wrong(String),
}

/// How often a source may be late before it is given up: each time one more thread waits for it.
const MOST_LATE: usize = 5;

/// The expression with `.mean` behind a metric that has no statistic, but where a function takes the metric itself.
fn with_mean(text: &str, id: &str) -> String {
    let mut out = String::new();
    let mut rest = text;
    let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '.';
    while let Some((before, after)) = rest.split_once(id) {
        out.push_str(before);
        let is_whole = !out.ends_with(is_name) && !after.starts_with(is_name);
        let within = ["highest(", "top(", "sum(", "where="].iter().any(|call| out.trim_end().ends_with(call));
        out.push_str(id);
        if is_whole && !within {
            out.push_str(".mean");
        }
        rest = after;
    }
    out.push_str(rest);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_metric_without_a_statistic_is_its_mean() {
        let of = |text: &str| with_mean(text, "psi.io.full.ratio");
        assert_eq!(of("psi.io.full.ratio > 0.1"), "psi.io.full.ratio.mean > 0.1");
        assert_eq!(of("psi.io.full.ratio.max > 0.1"), "psi.io.full.ratio.max > 0.1");
        assert_eq!(of("0.1<psi.io.full.ratio"), "0.1<psi.io.full.ratio.mean");
        assert_eq!(
            of("highest( psi.io.full.ratio) > max(psi.io.full.ratio, 1)"),
            "highest( psi.io.full.ratio) > max(psi.io.full.ratio.mean, 1)"
        );
        assert_eq!(of("sum(a.b, where=psi.io.full.ratio) > 1"), "sum(a.b, where=psi.io.full.ratio) > 1");
    }

    #[test]
    fn what_is_no_condition_says_what_is_wrong() {
        let wrong = |text: &str| Condition::parse(text).err().map(|error| error.to_string()).unwrap_or_default();
        assert_eq!(wrong("psi.io.full.ratio > 0.1 and host.cpus > 1"), "");
        assert_eq!(wrong("highest(disk.await.seconds)|default(0) > 0.1"), "");
        for (text, why) in [
            ("", "the condition \"\""),
            ("psi.io.full.ratio >", "the condition \"psi.io.full.ratio >\": "),
            ("psi.io.ful.ratio > 0.1", "there is no metric psi.io.ful.ratio; did you mean `psi.io.full.ratio`?"),
            ("1 > 0", "it names no metric"),
            ("value > psi.io.full.ratio", "value is for rules"),
        ] {
            assert!(wrong(text).contains(why), "{text}: {}", wrong(text));
        }
    }
}
