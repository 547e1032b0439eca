//! What limits the conclusion: first what changes how far the figures can be trusted, then what the reader might ask for.

use rdiag_model::Profile;
use rdiag_model::ledger::Level;
use rdiag_model::profile::Grade;
use rdiag_model::quantity::percent;

use super::account::share;
use super::answer::beginning;
use super::beyond;
use super::forecast::MOSTLY_IDLE;

/// Reasons for losses in a sentence.
const MAX_LOSSES: usize = 8;

/// What makes the figures those of less than was asked for, or less exact than they look.
pub(super) fn doubts(profile: &Profile) -> Vec<String> {
    let mut doubts = Vec::new();
    if let Some(partial) = &profile.partial {
        doubts.push(format!(
            "It ended early and covers {}, {} of it: {}. What came later is missing; a larger --budget lets it go on.",
            beginning(profile, partial),
            percent(partial.share),
            partial.why
        ));
    }
    if let Some(refused) = profile.refused.first() {
        let remedy = refused.gap.remedy.as_ref().map(|remedy| format!("; {remedy}")).unwrap_or_default();
        doubts
            .push(format!("A more exact account was not possible: {}{remedy}.", refused.gap.why.trim_end_matches('.')));
    }
    if let Some(unseen) = profile.population.unseen.filter(|unseen| *unseen > 0) {
        doubts.push(format!("{unseen} threads ended without having been seen; their waits are missing here."));
    }
    doubts.extend(beyond::limit(profile));
    doubts.extend(beyond::of_left_behind(profile));
    doubts.extend(lost(profile));
    doubts.extend(partly_watched(profile));
    doubts
}

/// All limits; the doubts come after what the account as a whole is.
pub(super) fn limits(profile: &Profile, doubts: &[String]) -> Vec<String> {
    // That it ended early is more than its quality.
    let (early, others) = doubts.split_at(doubts.len().min(usize::from(profile.partial.is_some())));
    let mut limits = early.to_vec();
    match profile.quality.grade {
        Grade::A => {}
        grade => limits.push(format!("Quality {grade:?}: {}.", profile.quality.words)),
    }
    if profile.level != Level::L3 {
        let errors = profile.components.iter().filter(|row| !row.exact).count();
        let how = match profile.level {
            Level::L1 => {
                "from samples of /proc: CPU time and run-queue wait are exact, the causes of other waits are estimates"
            }
            _ => {
                "from /proc and taskstats: time on a CPU, waiting for one and waiting for disks are exact as sums, other \
                 waits and how disk waits divide are estimates"
            }
        };
        limits.push(format!("Measured {how} ({errors} components); single waits, files and wakers are not seen."));
    }
    limits.extend_from_slice(others);
    if let Some(runs) = &profile.runs {
        limits.extend(runs.limits.iter().cloned());
    }
    let idle = share(profile.busy.idle_seconds, profile.task_seconds);
    let is_window = profile.target.command.is_none() && !profile.target.each && profile.partial.is_none();
    if idle > MOSTLY_IDLE && is_window {
        limits.push(
            "Waiting for work may or may not be part of a response time; this window cannot tell. One execution \
             observed from beginning to end can (`-- COMMAND`)."
                .to_owned(),
        );
    }
    if profile.conversation.goal_seconds.is_none() {
        limits.push("No goal was given, so whether this is fast enough is not judged (--goal 200ms).".to_owned());
    }
    limits
}

/// `Lost: stacks that found no room (3).`
fn lost(profile: &Profile) -> Option<String> {
    let shown: Vec<String> =
        profile.lost.iter().take(MAX_LOSSES).map(|(reason, count)| format!("{reason} ({count})")).collect();
    let more = if profile.lost.len() > MAX_LOSSES { "; and others" } else { "" };
    (!shown.is_empty()).then(|| format!("Lost: {}{more}.", shown.join("; ")))
}

/// That calls stand for more than was watched of them.
fn partly_watched(profile: &Profile) -> Option<String> {
    let share = profile.calls.as_ref()?.watched_share?;
    Some(format!(
        "System calls were traced {} of the time: for the rest, counts of calls and the split of CPU time into user and system are \
         extrapolated.",
        percent(share)
    ))
}

#[cfg(test)]
mod tests {
    use super::super::tests::{plain, syncing};

    #[test]
    fn what_was_lost_is_a_doubt_and_a_missing_goal_is_none() {
        let mut ledger = syncing();
        let whole = plain(&ledger).answer;
        assert!(whole.doubts.is_empty(), "{:?}", whole.doubts);
        assert!(whole.limits.iter().any(|limit| limit.starts_with("No goal")), "{:?}", whole.limits);
        ledger.lost.insert("stacks that found no room".into(), 3);
        ledger.lost.insert("threads that found no room".into(), 12);
        let answer = plain(&ledger).answer;
        assert_eq!(answer.doubts, ["Lost: stacks that found no room (3); threads that found no room (12)."]);
        assert!(answer.limits.contains(&answer.doubts[0]), "{:?}", answer.limits);
    }
}
