//! Recording → Profile: which of the accounts of a task's time is the best, and what the user told about the task.
//!
//! Both accountants stand in the playbook. Probes are prepared before collectors and claim their level (`Sink::claim`); a collector that
//! could only give a lower level then samples nothing.

use std::borrow::Cow;
use std::collections::BTreeMap;

use crate::playbook::{Method, Plan, PlaybookError, duration};
use rdiag_judge::profile::{Cpus, Input, profile};
use rdiag_model::profile::{Conversation, Refused};
use rdiag_model::{Ledger, Metrics, Profile, Reading, Reason, Recording, Target, Unavailable, Window};

/// Probes and collectors that make accounts, the best first.
pub(super) const ACCOUNTANTS: [&str; 2] = ["response", "task_states"];

/// The profile of the first window that has one; none if the playbook does not ask for any. An error says why the task's
/// time could not be accounted for at all.
pub(super) fn of(recording: &Recording, plan: &Plan, metrics: &[Metrics]) -> Option<Result<Profile, Unavailable>> {
    if plan.playbook.method != Method::MethodR {
        return None;
    }
    let best = recording.windows.iter().enumerate().find_map(|(at, window)| Some((at, window, best(window)?)));
    let Some((at, window, (source, ledger))) = best else {
        let gap = recording.windows.iter().flat_map(refused).next().map(|refused| refused.gap);
        let nothing = || Unavailable::new(Reason::Absent, "the recording has no account of a task's time");
        return Some(Err(gap.unwrap_or_else(nothing)));
    };
    let ledger = without_starter(ledger, &recording.target);
    Some(Ok(profile(Input {
        ledger: &ledger,
        source,
        refused: refused(window),
        window: at,
        window_seconds: window.seconds,
        suspended_seconds: window.suspended_seconds,
        target: &recording.target,
        // A recording may come from another version, or be made up: what cannot be read was not said.
        conversation: conversation(&recording.params).unwrap_or_default(),
        cpus: metrics.get(at).and_then(cpus),
    })))
}

/// How busy the CPUs were in a window.
fn cpus(metrics: &Metrics) -> Option<Cpus> {
    let busy = metrics.stats("cpu.busy.ratio", "").ok()?.mean;
    let Some(Reading::Measured { instances, .. }) = metrics.readings.get("cpu.core.busy.ratio") else { return None };
    let each = instances.values().filter_map(|stats| stats.as_ref().ok()).map(|stats| stats.mean);
    Some(Cpus { busy, busiest: each.fold(busy, f64::max) })
}

/// The account of the highest level, and who made it.
fn best(window: &Window) -> Option<(&str, &Ledger)> {
    let made = window.ledgers.iter().filter_map(|(source, ledger)| Some((source.as_str(), ledger.as_ref().ok()?)));
    made.filter(|(_, ledger)| has_threads(ledger)).max_by_key(|(_, ledger)| ledger.level)
}

/// The account without the process that only starts what is observed: accounts that are made by samples hold it as well.
fn without_starter<'l>(ledger: &'l Ledger, target: &Target) -> Cow<'l, Ledger> {
    let starter = target.starter();
    if ledger.threads.iter().all(|thread| Some(thread.pid) != starter) {
        return Cow::Borrowed(ledger);
    }
    let mut ledger = ledger.clone();
    ledger.threads.retain(|thread| Some(thread.pid) != starter);
    ledger.timelines.retain(|timeline| Some(timeline.tid) != starter);
    Cow::Owned(ledger)
}

/// An account without a thread accounts for nothing.
fn has_threads(ledger: &Ledger) -> bool {
    ledger.elapsed() > 0.0 && ledger.threads.iter().any(|thread| thread.seconds > 0.0)
}

/// The accounts that could not be made, the best first.
fn refused(window: &Window) -> Vec<Refused> {
    let gap = |source: &str| -> Option<Unavailable> {
        match (window.ledgers.get(source), window.probes.get(source), window.collectors.get(source)) {
            (Some(Ok(ledger)), _, _) if has_threads(ledger) => None,
            (Some(Ok(_)), _, _) => Some(
                Unavailable::new(Reason::NotVisible, "no thread of the tasks that were named could be observed")
                    .with_remedy("see whether they still run, and whether this user may look at them (/proc/PID/task)"),
            ),
            (Some(Err(gap)), _, _) | (None, Some(Err(gap)), _) => Some(gap.clone()),
            (None, _, Some(record)) => record.unavailable.clone(),
            (None, _, None) => None,
        }
    };
    ACCOUNTANTS.iter().filter_map(|source| Some(Refused { source: (*source).to_owned(), gap: gap(source)? })).collect()
}

/// What the user told about the task: the parameters `task`, `for`, `now`, `goal` and `per_day` of the playbook; "" is
/// nothing told.
pub fn conversation(params: &BTreeMap<String, String>) -> Result<Conversation, PlaybookError> {
    let text = |name: &str| params.get(name).map(|text| text.trim().to_owned()).filter(|text| !text.is_empty());
    let seconds = |name: &str| text(name).map(|text| duration(name, &text)).transpose();
    let per_day = text("per_day").map(|text| {
        text.parse::<f64>().ok().filter(|times| times.is_finite() && *times > 0.0).ok_or_else(|| PlaybookError::Param {
            name: "per_day".into(),
            problem: format!("{text:?} is no number of executions"),
        })
    });
    Ok(Conversation {
        task: text("task"),
        for_whom: text("for"),
        now_seconds: seconds("now")?,
        goal_seconds,
        goal_share,
        per_day: per_day.transpose()?,
        measured: false,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_told_is_read_and_nonsense_is_refused() {
        let told = |pairs: &[(&str, &str)]| {
            let params = pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
            conversation(&params)
        };
        assert_eq!(told(&[("goal", ""), ("task", " ")]).unwrap(), Conversation::default());
        let full = told(&[("goal", "200ms"), ("now", "1.2s"), ("for", "customers"), ("per_day", "500")]).unwrap();
        assert_eq!((full.goal_seconds, full.now_seconds, full.per_day), (Some(0.2), Some(1.2), Some(500.0)));
        for wrong in [("goal", "fast"), ("now", "-1s"), ("per_day", "NaN"), ("per_day", "0")] {
            assert!(told(&[wrong]).is_err(), "{wrong:?}");
        }
    }
}
    let (goal_share, goal_seconds) = match text("goal") {
        Some(goal) => self::goal(&goal).map(|(share, seconds)| (share, Some(seconds)))?,
        None => (None, None),
    };
/// A goal: a duration, `200ms`, or one that a share of the runs is to keep: `p99 <= 50ms`, `p99.9 50ms`.
fn goal(text: &str) -> Result<(Option<f64>, f64), PlaybookError> {
    let wrong = |problem: String| PlaybookError::Param { name: "goal".into(), problem };
    let Some(rest) = text.trim().strip_prefix(['p', 'P']) else { return Ok((None, duration("goal", text)?)) };
    let end = rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len());
    let (percentile, bound) = rest.split_at(end);
    let percentile: f64 = percentile.parse().map_err(|_| wrong(format!("{text:?} is no goal; p99 <= 50ms is one")))?;
    if !(percentile > 0.0 && percentile < 100.0) {
        return Err(wrong(format!("{text:?}: a percentile lies between 0 and 100")));
    }
    let bound = bound.trim_start();
    let bound = ["<=", "≤", "<", ":"].into_iter().find_map(|sign| bound.strip_prefix(sign)).unwrap_or(bound);
    Ok((Some(percentile / 100.0), duration("goal", bound.trim())?))
}

        let of_runs = |goal| told(&[("goal", goal)]).map(|told| (told.goal_share, told.goal_seconds));
        for same in ["p99 <= 50ms", "p99<=50ms", "p99 ≤ 50ms", "P99 < 0.05s", "p99 50ms", "p99: 50ms"] {
            assert_eq!(of_runs(same).unwrap(), (Some(0.99), Some(0.05)), "{same}");
        }
        assert_eq!(of_runs("p99.9 <= 1s").unwrap(), (Some(99.9 / 100.0), Some(1.0)));
        for wrong in ["p", "p99", "p <= 50ms", "p0 <= 1s", "p100 <= 1s", "p1.2.3 1s", "p99 >= 50ms", "p99 <= fast"] {
            assert!(of_runs(wrong).is_err(), "{wrong}");
        }
