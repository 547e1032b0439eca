//! The conclusion of Method R: the answer to what was asked about the task, not the state of the host.

use super::{io_limit, words};
use rdiag_model::chain::ChainLink;
use rdiag_model::profile::{ComponentRow, Grade, Reach};
use rdiag_model::quantity::percent;
use rdiag_model::report::Verdict;
use rdiag_model::{Finding, Profile, Recording, Status, Unavailable};

/// That CPUs are busy makes a task wait for one. It does not make its own code take longer.
const OF_OTHERS: &str = "cpu.utilization";
/// From this share on, a wait is what the time went into.
const MOSTLY: f64 = 0.5;

/// The verdict on a task: whether it is fast enough, as far as that was asked, and where its time is.
pub(super) fn of_task(
    profile: &Profile,
    findings: &[Finding],
    recording: &Recording,
    may_be_behind: &dyn Fn(&ComponentRow) -> bool,
) -> Verdict {
    let reach = profile.forecast.goal.as_ref().map(|goal| goal.reach);
    let status = match (profile.quality.grade, reach) {
        (Grade::D, _) => Status::Unknown,
        // On average, and some runs miss it.
        (_, Some(Reach::Met)) if missed(profile) > 0 => Status::Info,
        (_, Some(Reach::Met)) => Status::Ok,
        (_, Some(Reach::One | Reach::Several | Reach::No)) => Status::Warning,
        (_, Some(Reach::Unknown) | None) => Status::Info,
    };
    let mut headline = profile.answer.headline.trim_end_matches('.').to_owned();
    if let Some(who) = waited_for(profile) {
        headline.push_str(&format!(". Behind it: {who}"));
    } else if let Some(behind) = behind(profile, findings, may_be_behind) {
        headline.push_str(&format!(". Behind it: {behind}"));
    }
    let mut limits = Vec::new();
    if recording.interrupted {
        limits.push(format!("The run was interrupted after {:.1} s.", profile.elapsed_seconds));
    }
    limits.extend(profile.answer.limits.iter().cloned());
    Verdict { status, headline: headline.into(), limits }
}

/// Whose work the time is, where nearly all of it is waiting for others: a shell waits for a child, which may wait for its neighbour in a
/// pipeline.
fn waited_for(profile: &Profile) -> Option<String> {
    let forecast = &profile.forecast;
    // What the first thread waited for says nothing where all count as one.
    if forecast.as_one {
        return None;
    }
    let (row, waiter) = (forecast.rows.first()?, format!("(thread {})", forecast.thread?));
    let chain = profile.chains.iter().find(|chain| {
        let is_it = |link: &ChainLink| link.component == row.id && link.waiter.ends_with(&waiter);
        chain.links.first().is_some_and(is_it)
    })?;
    let (first, later) = chain.links.split_first()?;
    // A wait for a few moments among others explains nothing.
    if first.share < MOSTLY || row.seconds < MOSTLY * forecast.response_seconds || !chain.end.contains(" itself: ") {
        return None;
    }
    let mut who = first.waker.clone();
    for link in later.iter().take_while(|link| link.share >= MOSTLY) {
        who.push_str(&format!(", which waited {} of its time for {}", percent(link.share), link.waker));
    }
    let is_whole = later.iter().all(|link| link.share >= MOSTLY);
    Some(if is_whole { format!("{who}; {}", chain.end.trim_end_matches('.')) } else { who })
}

/// Single runs that took longer than a goal that is about their mean.
fn missed(profile: &Profile) -> u64 {
    if profile.conversation.goal_share.is_some() {
        return 0;
    }
    profile.runs.as_ref().and_then(|runs| Some(runs.count.saturating_sub(runs.within_goal?))).unwrap_or(0)
}

/// What fired of the rules that explain the largest components.
fn behind(profile: &Profile, findings: &[Finding], may_be_behind: &dyn Fn(&ComponentRow) -> bool) -> Option<String> {
    let large = profile.components.iter().filter(|row| may_be_behind(row));
    let rules = large.flat_map(|row| &row.rules);
    let rules: Vec<&String> = rules.filter(|rule| !rule.starts_with(OF_OTHERS)).collect();
    let explains = |finding: &&Finding| finding.status >= Status::Warning && rules.contains(&&finding.id);
    // At its own limit the task does not wait for the disk, however busy that is.
    let limit = io_limit::own(profile, findings).filter(explains);
    let finding =
        limit.or_else(|| findings.iter().filter(explains).find(|one| !io_limit::is_of_others(profile, one)))?;
    let instance = words::instance_of(finding).map(|instance| format!(" ({instance})"));
    let culprit = finding.culprit.as_ref().map(|culprit| format!("; {}", words::culprit(culprit)));
    Some(format!(
        "{} is {}{}{}",
        words::cell(finding.resource, finding.kind),
        finding.status.word(),
        instance.unwrap_or_default(),
        culprit.unwrap_or_default()
    ))
}

/// The verdict where the task's time could not be accounted for at all.
pub(super) fn unaccounted(gap: &Unavailable, recording: &Recording) -> Verdict {
    let why = gap.why.trim_end_matches('.');
    let mut limits: Vec<String> = gap.remedy.iter().map(|remedy| format!("To see it: {remedy}.")).collect();
    if recording.interrupted {
        limits.push("The run was interrupted.".into());
    }
    let headline = format!("Where the time of the task went is not known: {why}");
    Verdict { status: Status::Unknown, headline: headline.into(), limits }
}
