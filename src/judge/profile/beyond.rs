//! What is in no line of an account: threads beyond those that can be followed, and what a command left running when it ended.

use std::collections::BTreeMap;

use rdiag_model::ledger::Target;
use rdiag_model::profile::{LeftBehind, NotFollowed, Profile};
use rdiag_model::quantity::{number, percent};

use super::account::{Account, share};
use super::names::cut;

/// Names and process ids that are listed.
const MAX_NAMES: usize = 16;
const MAX_PIDS: usize = 16;
/// The same in a sentence.
const NAMES: usize = 4;
const PIDS: usize = 4;

/// `276 threads, 349 thread-seconds`.
pub(super) fn size(of: NotFollowed) -> String {
    let threads = if of.threads == 1 { "thread" } else { "threads" };
    format!("{} {threads}, {} thread-seconds", of.threads, number(of.seconds))
}

/// The sentence of a headline, which is about the others.
pub(super) fn headline(profile: &Profile) -> Option<String> {
    let of = profile.population.not_followed?;
    let all = percent(share(of.seconds, profile.task_seconds));
    Some(format!(" Not followed: {} ({all} of all).", size(of)))
}

/// Why that is a limit.
pub(super) fn limit(profile: &Profile) -> Option<String> {
    let size = size(profile.population.not_followed?);
    Some(format!(
        "Not followed: {size}, beyond the limit of threads. What they did is unknown; their time is in \"unaccounted\"."
    ))
}

/// Processes that had not ended when the command had. Where the command's own end was not seen, nothing is known of what outlived it; the
/// runs of a command that is started again and again, and requests, are no lives of processes.
pub(super) fn left_behind(account: &Account<'_>, target: &Target) -> Vec<LeftBehind> {
    let Some(command) = target.pids.first().filter(|_| target.command.is_some() && !target.each) else {
        return Vec::new();
    };
    let seen = || account.threads.iter().map(|own| own.thread).filter(|thread| thread.tid != 0);
    let mut own = seen().filter(|thread| thread.pid == *command).peekable();
    if own.peek().is_none() || own.any(|thread| !thread.died) {
        return Vec::new();
    }
    // A process has the name of its first thread, if that is among those that live.
    let mut names: BTreeMap<u32, (bool, &str)> = BTreeMap::new();
    for thread in seen().filter(|thread| !thread.died) {
        let is_first = thread.tid == thread.pid;
        let name = names.entry(thread.pid).or_insert((is_first, &thread.comm));
        if is_first {
            *name = (true, &thread.comm);
        }
    }
    let mut by_name: BTreeMap<&str, LeftBehind> = BTreeMap::new();
    for (pid, (_, comm)) in names {
        let row = by_name.entry(comm).or_insert_with(|| LeftBehind { comm: comm.to_owned(), ..LeftBehind::default() });
        row.processes += 1;
        if row.pids.len() < MAX_PIDS {
            row.pids.push(pid);
        }
    }
    let mut rows: Vec<LeftBehind> = by_name.into_values().collect();
    rows.sort_by_key(|row| std::cmp::Reverse(row.processes));
    rows.truncate(MAX_NAMES);
    rows
}

/// The same for readers: `nginx (2 processes: 12, 13)`.
pub(super) fn of_left_behind(profile: &Profile) -> Option<String> {
    let rows = &profile.left_behind;
    let shown: Vec<String> = rows.iter().take(NAMES).map(named).collect();
    let more = if rows.len() > NAMES { ", and others" } else { "" };
    (!rows.is_empty()).then(|| {
        format!(
            "Still running when the command had ended: {}{more}. Their time after that is not in this account.",
            shown.join(", ")
        )
    })
}

fn named(row: &LeftBehind) -> String {
    let processes = if row.processes == 1 { "process" } else { "processes" };
    let pids: Vec<String> = row.pids.iter().take(PIDS).map(u32::to_string).collect();
    let more = if row.processes > pids.len() as u64 { ", …" } else { "" };
    format!("{} ({} {processes}: {}{more})", cut(&row.comm), row.processes, pids.join(", "))
}

#[cfg(test)]
mod tests {
    use super::super::testing::{ledger, part, thread};
    use super::super::tests::of;
    use super::*;
    use rdiag_model::Component as C;
    use rdiag_model::ledger::{Ledger, NOT_FOLLOWED, Thread};
    use rdiag_model::profile::{Conversation, Grade};

    fn of_command(ledger: &Ledger) -> Profile {
        let target = Target { pids: vec![10], command: Some("sh".into()), children: true, ..Target::default() };
        of(ledger, &target, Conversation::default())
    }

    fn sleeps(tid: u32, pid: u32, seconds: f64, comm: &str, died: bool) -> Thread {
        let parts = vec![part(C::WaitSleep, seconds)];
        Thread { comm: comm.into(), born: true, died, ..thread(tid, pid, seconds, parts) }
    }

    #[test]
    fn threads_beyond_the_limit_are_in_headline_grade_and_unaccounted() {
        let beyond = |threads, seconds| Thread {
            comm: NOT_FOLLOWED.into(),
            stands_for: threads,
            ended: 2.0,
            seconds,
            ..Thread::default()
        };
        let first = || sleeps(10, 10, 2.0, "pool", true);
        let many = (11..411).map(|tid| sleeps(tid, 10, 2.0, "pool", false));
        let profile = of_command(&ledger(2.0, [first()].into_iter().chain(many).chain([beyond(276, 349.0)]).collect()));
        assert_eq!(profile.population.not_followed, Some(NotFollowed { threads: 276, seconds: 349.0 }));
        assert_eq!((profile.population.seen, profile.population.processes), (677, 1));
        assert_eq!((profile.unaccounted_seconds, profile.quality.grade), (349.0, Grade::D));
        let headline = &profile.answer.headline;
        assert!(headline.ends_with(" Not followed: 276 threads, 349 thread-seconds (30.3% of all)."), "{headline}");
        assert!(profile.quality.words.contains("of which 276 threads, 349 thread-seconds were not followed"));
        let limits = profile.answer.limits.join(" ");
        assert!(limits.contains("Not followed: 276 threads, 349 thread-seconds, beyond the limit"), "{limits}");
        assert!(profile.left_behind.is_empty(), "a thread of the command itself had not ended");
        let all = of_command(&ledger(2.0, vec![first()]));
        assert_eq!(all.population.not_followed, None);
        let told = format!("{} {}", all.answer.headline, all.answer.limits.join(" "));
        assert!(!told.contains("ot followed"), "{told}");
        // A program may have that name, and its account.
        let named = of_command(&ledger(2.0, vec![sleeps(10, 10, 2.0, NOT_FOLLOWED, true)]));
        assert_eq!(named.population.not_followed, None);
    }

    #[test]
    fn processes_that_outlive_the_command_are_listed_by_name_and_those_that_ended_are_not() {
        let command = |died| sleeps(10, 10, 1.0, "sh", died);
        let others = [
            sleeps(12, 12, 2.0, "nginx", false),
            sleeps(13, 13, 2.0, "nginx", false),
            sleeps(15, 13, 2.0, "worker", false),
            sleeps(14, 14, 0.5, "true", true),
            sleeps(16, 16, 2.0, "cron", false),
        ];
        let profile = of_command(&ledger(2.0, [command(true)].into_iter().chain(others.clone()).collect()));
        let row = |comm: &str, pids: &[u32]| LeftBehind {
            comm: comm.into(),
            processes: pids.len() as u64,
            pids: pids.to_vec(),
        };
        assert_eq!(profile.left_behind, [row("nginx", &[12, 13]), row("cron", &[16])]);
        let told = "Still running when the command had ended: nginx (2 processes: 12, 13), cron (1 process: 16). Their time after \
                    that is not in this account.";
        assert!(profile.answer.limits.iter().any(|limit| limit == told), "{:#?}", profile.answer.limits);
        // Its end was not seen: it may have been interrupted.
        let open = of_command(&ledger(2.0, [command(false)].into_iter().chain(others).collect()));
        assert!(open.left_behind.is_empty());
        let alone = of_command(&ledger(2.0, vec![command(true), sleeps(14, 14, 0.5, "true", true)]));
        assert!(alone.left_behind.is_empty());
    }
}
