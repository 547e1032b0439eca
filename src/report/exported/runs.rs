//! All runs of a task. A report shows the slowest with what they consist of; when the others began and ended is in the account that it was
//! added up from.

use std::collections::{BTreeMap, BTreeSet};

use rdiag_model::ledger::{Ledger, Target, Thread};
use rdiag_model::runs::Run;
use rdiag_model::{Component, Profile};

/// The runs in order. Those beyond the slowest have parts where a run is the time of one thread. Where waits for children are replaced by
/// what these did, parts were worked out for the slowest only.
pub(super) fn all(profile: &Profile, ledger: Option<&Ledger>) -> Vec<Run> {
    let Some(runs) = &profile.runs else { return Vec::new() };
    let mut known: BTreeMap<u64, Run> = runs.slowest.iter().map(|run| (run.number, run.clone())).collect();
    let seen: BTreeMap<u64, &Thread> =
        ledger.map(|ledger| (1..).zip(whole(ledger, &profile.target)).collect()).unwrap_or_default();
    // An account that does not have just these runs is not the one that the report is of.
    let is_same = |run: &Run| seen.get(&run.number).is_some_and(|thread| thread.pid == run.pid);
    if seen.len() as u64 == runs.count && known.values().all(is_same) {
        for (number, thread) in seen {
            known.entry(number).or_insert_with(|| Run {
                number,
                pid: thread.pid,
                key: thread.key.clone(),
                at: thread.began,
                seconds: thread.seconds,
                parts: if profile.target.marks.is_some() { parts(thread) } else { Vec::new() },
            });
        }
    }
    known.into_values().collect()
}

/// The first threads of the runs that began and ended within the window, by the same conditions as in `judge::profile`.
fn whole<'l>(ledger: &'l Ledger, target: &Target) -> Vec<&'l Thread> {
    let is_leader = |thread: &&Thread| thread.tid != 0 && thread.tid == thread.pid;
    let is_whole = |thread: &&Thread| thread.born && thread.died;
    let leaders = || ledger.threads.iter().filter(is_leader).filter(is_whole);
    let of_runs: BTreeSet<u32> = leaders().map(|thread| thread.pid).collect();
    let mut whole: Vec<&Thread> = match (&target.marks, target.starter()) {
        (Some(_), _) => ledger.threads.iter().filter(|thread| thread.tid != 0).filter(is_whole).collect(),
        (None, Some(starter)) => leaders().filter(|thread| thread.parent == starter).collect(),
        (None, None) => leaders().filter(|thread| !of_runs.contains(&thread.parent)).collect(),
    };
    whole.sort_by(|a, b| a.began.total_cmp(&b.began));
    whole
}

/// What the time of a thread went into, the most first.
fn parts(thread: &Thread) -> Vec<(Component, f64)> {
    let mut sums: BTreeMap<Component, f64> = BTreeMap::new();
    for part in &thread.parts {
        *sums.entry(part.component).or_default() += part.seconds;
    }
    let mut parts: Vec<(Component, f64)> = sums.into_iter().filter(|(_, seconds)| *seconds > 0.0).collect();
    parts.sort_by(|a, b| b.1.total_cmp(&a.1));
    parts
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::accounts::{ledger, part, run};
    use crate::profile_testing::{goal, profile_of};
    use rdiag_model::Component as C;
    use rdiag_model::ledger::Marks;

    fn threads() -> Vec<Thread> {
        (0..20)
            .map(|at| run(100 + at, 10, f64::from(at), vec![part(C::CpuUser, 0.1 + f64::from(at) / 100.0)]))
            .collect()
    }

    fn target() -> Target {
        Target { pids: vec![10], command: Some("true".into()), each: true, ..Target::default() }
    }

    #[test]
    fn all_runs_are_there_and_those_of_the_report_as_it_has_them() {
        let ledger = ledger(42.0, threads());
        let profile = profile_of(&ledger, &target(), goal(0.2));
        let slowest = &profile.runs.as_ref().unwrap().slowest;
        let all = all(&profile, Some(&ledger));
        assert_eq!((all.len(), slowest.len()), (20, 16));
        assert!(slowest.iter().all(|run| all.contains(run)));
        let times: Vec<(u64, f64)> = all.iter().map(|run| (run.number, run.at)).collect();
        assert!(times.iter().enumerate().all(|(at, time)| *time == (at as u64 + 1, at as f64)), "{times:?}");
        assert!(all[0].parts.is_empty() && all[19].parts == slowest[0].parts, "{all:?}");
    }

    #[test]
    fn requests_have_their_parts_and_without_an_account_there_are_the_slowest() {
        let ledger = ledger(42.0, threads());
        let marks = Some(Marks { from: "function=x:a".into(), to: "return=x:a".into(), ..Default::default() });
        let profile = profile_of(&ledger, &Target { marks, ..target() }, goal(0.2));
        assert_eq!(all(&profile, Some(&ledger))[0].parts, [(C::CpuUser, 0.1)]);
        assert_eq!(all(&profile, None).len(), 16);
        let other = crate::accounts::ledger(42.0, threads().split_off(1));
        assert_eq!(all(&profile, Some(&other)).len(), 16, "an account of other runs");
    }
}
