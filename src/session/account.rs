//! Recording → Profile: which of the accounts of a task's time is the best, and what the user told about the task.
//!
//! Both accountants stand in the playbook. Probes are prepared before collectors and claim their level (`Sink::claim`); a collector that
//! could only give a lower level then samples nothing.

use std::borrow::Cow;
use std::collections::BTreeMap;

use rdiag_judge::profile::{Cpus, Input, profile};
use rdiag_model::profile::{Conversation, Refused};
use rdiag_model::{Ledger, Metrics, Profile, Reading, Reason, Recording, Target, Unavailable, Window, quantity};
use rdiag_playbook::{Method, Plan, PlaybookError, advice, duration};

/// Probes and collectors that make accounts, the best first.
pub(super) const ACCOUNTANTS: [&str; 2] = ["response", "task_states"];

/// The profile of the first window that has one; none if the playbook does not ask for any. An error says why the task's
/// time could not be accounted for at all.
pub(super) fn of(recording: &Recording, plan: &Plan, metrics: &[Metrics]) -> Option<Result<Profile, Unavailable>> {
    if plan.playbook.method != Method::MethodR {
        return None;
    }
    let best =
        recording.windows.iter().enumerate().find_map(|(at, window)| Some((at, window, chosen(&window.ledgers)?)));
    let Some((at, window, ChosenLedger { source, ledger, ended_early })) = best else {
        let gap = recording.windows.iter().flat_map(refused).next().map(|refused| refused.gap);
        let nothing = || Unavailable::new(Reason::Absent, "the recording has no account of a task's time");
        return Some(Err(gap.unwrap_or_else(nothing)));
    };
    let ledger = without_starter(ledger, &recording.target);
    // A recording may come from another version, or be made up: what cannot be read was not said.
    let mut conversation = conversation(&recording.params).unwrap_or_default();
    let mut refused = refused(window);
    if let Some((source, early)) = ended_early {
        refused.insert(0, Refused { source: source.to_owned(), gap: early_end(early) });
        let lasted = conversation.now_seconds.is_none().then(|| lasted(early, &ledger, &recording.target)).flatten();
        if lasted.is_some() {
            (conversation.now_seconds, conversation.measured) = (lasted, true);
        }
    }
    Some(Ok(profile(Input {
        ledger: &ledger,
        source,
        refused,
        window: at,
        window_seconds: window.seconds,
        suspended_seconds: window.suspended_seconds,
        target: &recording.target,
        conversation,
        cpus: metrics.get(at).and_then(cpus),
        observing: observing(window, source),
        advice: advice::book(),
    })))
}

/// CPU seconds that a probe's programs took in each second, as the kernel counted them for a part of the window.
fn observing(window: &Window, source: &str) -> f64 {
    let cost = window.probes.get(source).and_then(|probe| probe.as_ref().ok()).map(|probe| &probe.cost);
    cost.filter(|cost| cost.sampled_seconds > 0.0).map_or(0.0, |cost| cost.cpu_seconds / cost.sampled_seconds)
}

/// How busy the CPUs were in a window.
fn cpus(metrics: &Metrics) -> Option<Cpus> {
    let busy = metrics.stats("cpu.busy.ratio", "").ok()?.mean;
    let Some(Reading::Measured { instances, .. }) = metrics.readings.get("cpu.core.busy.ratio") else { return None };
    let each = instances.values().filter_map(|stats| stats.as_ref().ok()).map(|stats| stats.mean);
    Some(Cpus { busy, busiest: each.fold(busy, f64::max) })
}

/// The accounts of a window, by who made them.
type Ledgers = BTreeMap<String, Result<Ledger, Unavailable>>;

/// The account that the report gives, and who made it.
struct ChosenLedger<'w> {
    source: &'w str,
    ledger: &'w Ledger,
    /// A more exact one of the beginning only.
    ended_early: Option<(&'w str, &'w Ledger)>,
}

/// The account of the highest level; but for one that ended early, where another one goes on from there and covers more.
fn chosen(ledgers: &Ledgers) -> Option<ChosenLedger<'_>> {
    let made = ledgers.iter().filter_map(|(source, ledger)| Some((source.as_str(), ledger.as_ref().ok()?)));
    let mut made: Vec<_> = made.filter(|(_, ledger)| has_threads(ledger)).collect();
    made.sort_by_key(|(_, ledger)| std::cmp::Reverse(ledger.level));
    let (source, ledger) = *made.first()?;
    let longer = |(_, other): &&(&str, &Ledger)| other.stopped.is_none() && other.elapsed() > ledger.elapsed();
    match made.iter().skip(1).find(longer).filter(|_| ledger.stopped.is_some()) {
        Some(&(other, longer)) => {
            Some(ChosenLedger { source: other, ledger: longer, ended_early: Some((source, ledger)) })
        }
        None => Some(ChosenLedger { source, ledger, ended_early: None }),
    }
}

/// Why the more exact account is not the one that the report gives.
fn early_end(early: &Ledger) -> Unavailable {
    let why = early.stopped.as_deref().unwrap_or_default().trim_end_matches('.');
    let covers = quantity::seconds(early.elapsed());
    Unavailable::new(Reason::ShortWindow, format!("that of every event covers the first {covers} only ({why})"))
        .with_remedy("a larger --budget lets it go on")
}

/// How long the command took, of whose first thread one account saw the beginning and another the end.
fn lasted(early: &Ledger, late: &Ledger, target: &Target) -> Option<f64> {
    let first = target.pids.first().filter(|_| target.command.is_some() && target.marks.is_none())?;
    let of = |ledger: &Ledger| {
        let thread = ledger.threads.iter().find(|thread| thread.tid == *first)?;
        Some((ledger.began + thread.began, ledger.began + thread.ended))
    };
    let ((began, _), (_, ended)) = (of(early)?, of(late)?);
    Some(ended - began).filter(|seconds| seconds.is_finite() && *seconds > 0.0)
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
    let (goal_share, goal_seconds) = match text("goal") {
        Some(goal) => self::goal(&goal).map(|(share, seconds)| (share, Some(seconds)))?,
        None => (None, None),
    };
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

#[cfg(test)]
mod tests {
    use super::*;
    use rdiag_model::ledger::{Level, Thread};
    use rdiag_model::probe::{ProbeCost, ProbeResult};

    fn account(level: Level, began: f64, ended: f64, stopped: Option<&str>) -> Ledger {
        let thread = Thread { tid: 7, pid: 7, seconds: ended - began, ended: ended - began, ..Thread::default() };
        let stopped = stopped.map(str::to_owned);
        Ledger { level, began, ended, threads: vec![thread], stopped, ..Ledger::default() }
    }

    #[test]
    fn what_observing_took_in_each_second_is_read_off_the_probe_that_made_the_account() {
        let told = |source: &str, sampled_seconds| {
            let cost = ProbeCost { sampled_seconds, cpu_seconds: 0.03, ..ProbeCost::default() };
            let probes = BTreeMap::from([
                ("response".to_owned(), Ok(ProbeResult { cost, ..ProbeResult::default() })),
                ("denied".to_owned(), Err(Unavailable::new(Reason::Denied, "no right"))),
            ]);
            let window = Window {
                steps: Vec::new(),
                begins: 0.0,
                seconds: 1.0,
                interval_seconds: 1.0,
                suspended_seconds: 0.0,
                collectors: BTreeMap::new(),
                probes,
                ledgers: BTreeMap::new(),
            };
            observing(&window, source)
        };
        assert!((told("response", 0.25) - 0.12).abs() < 1e-9);
        assert_eq!(told("response", 0.0), 0.0, "the kernel has no statistics");
        assert_eq!((told("denied", 0.25), told("task_states", 0.25)), (0.0, 0.0));
    }

    #[test]
    fn where_the_exact_account_had_to_stop_samples_go_on_if_they_cover_more() {
        let told = |exact: Ledger, samples: Option<Ledger>| {
            let samples = samples.map(|ledger| ("task_states".to_owned(), Ok(ledger)));
            let ledgers = std::iter::once(("response".to_owned(), Ok(exact))).chain(samples).collect();
            let best = chosen(&ledgers).unwrap();
            (best.ledger.level, best.ended_early.is_some())
        };
        let stopped =
            || account(Level::L3, 100.0, 100.8, Some("its programs took 12% of the CPUs, and the budget is 5.0%"));
        assert_eq!(told(stopped(), Some(account(Level::L2, 101.0, 110.0, None))), (Level::L2, true));
        assert_eq!(told(stopped(), Some(account(Level::L1, 101.0, 101.5, None))), (Level::L3, false), "it covers less");
        assert_eq!(told(stopped(), None), (Level::L3, false));
        let whole = account(Level::L3, 100.0, 105.0, None);
        assert_eq!(
            told(whole, Some(account(Level::L1, 100.0, 110.0, None))),
            (Level::L3, false),
            "it did not have to stop"
        );
    }

    #[test]
    fn how_long_a_command_took_is_known_from_its_beginning_to_its_end() {
        let (early, late) = (account(Level::L3, 100.0, 100.8, Some("why")), account(Level::L1, 101.0, 110.0, None));
        let command = Target { pids: vec![7], command: Some("sort".into()), ..Target::default() };
        assert_eq!(lasted(&early, &late, &command), Some(10.0));
        assert_eq!(lasted(&early, &late, &Target { command: None, ..command.clone() }), None);
        assert_eq!(lasted(&early, &late, &Target { pids: vec![8], ..command }), None);
        let gap = early_end(&early);
        assert_eq!(gap.why, "that of every event covers the first 800 ms only (why)");
    }

    #[test]
    fn what_was_told_is_read_and_nonsense_is_refused() {
        let told = |pairs: &[(&str, &str)]| {
            let params = pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
            conversation(&params)
        };
        assert_eq!(told(&[("goal", ""), ("task", " ")]).unwrap(), Conversation::default());
        let full = told(&[("goal", "200ms"), ("now", "1.2s"), ("for", "customers"), ("per_day", "500")]).unwrap();
        assert_eq!((full.goal_seconds, full.now_seconds, full.per_day), (Some(0.2), Some(1.2), Some(500.0)));
        let of_runs = |goal| told(&[("goal", goal)]).map(|told| (told.goal_share, told.goal_seconds));
        for same in ["p99 <= 50ms", "p99<=50ms", "p99 ≤ 50ms", "P99 < 0.05s", "p99 50ms", "p99: 50ms"] {
            assert_eq!(of_runs(same).unwrap(), (Some(0.99), Some(0.05)), "{same}");
        }
        assert_eq!(of_runs("p99.9 <= 1s").unwrap(), (Some(99.9 / 100.0), Some(1.0)));
        for wrong in ["p", "p99", "p <= 50ms", "p0 <= 1s", "p100 <= 1s", "p1.2.3 1s", "p99 >= 50ms", "p99 <= fast"] {
            assert!(of_runs(wrong).is_err(), "{wrong}");
        }
        for wrong in [("goal", "fast"), ("now", "-1s"), ("per_day", "NaN"), ("per_day", "0")] {
            assert!(told(&[wrong]).is_err(), "{wrong:?}");
        }
    }
}
