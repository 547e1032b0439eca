//! Questions about a process that the kernel may not answer.
//!
//! A user who holds the lock on the memory map of an own process (by a page that a FUSE daemon of theirs does not serve, say) keeps all
//! waiting that ask what it has mapped; so does a dead server of files. So the question is put on a thread of its own, which is left
//! behind if it takes too long: it ends when the kernel answers, or with rdiag.

use crate::host::rights::{Phase, narrow};
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::mpsc::{Sender, channel};
use std::time::Duration;

/// How long the kernel may take. Asking costs some microseconds; what a thread waits for on a busy host comes on top.
const PATIENCE: Duration = Duration::from_millis(1500);
/// So many processes of one user, and none of that user's are asked about any more: others wait behind them.
const MANY: usize = 2;
/// Users of containers and their processes have numbers from here on, and one user may have thousands of them.
const SUBORDINATE: u32 = 65_536;

type Job = Box<dyn FnOnce() + Send>;

/// Puts questions, one after the other.
#[derive(Debug, Default)]
pub(super) struct Bounded {
    jobs: RefCell<Option<Sender<Job>>>,
    silent: RefCell<Silent>,
}

/// What got no answer.
#[derive(Debug, Default)]
struct Silent {
    processes: BTreeSet<u32>,
    by_user: BTreeMap<u32, usize>,
}

impl Bounded {
    /// The answer to a question about a process, or why there is none.
    pub(super) fn ask<T: Send + 'static>(
        &self,
        pid: u32,
        question: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, String> {
        if let Some(why) = self.silent.borrow().of(pid) {
            return Err(why);
        }
        self.answer(question).ok_or_else(|| {
            self.silent.borrow_mut().add(pid);
            format!("the kernel did not answer within {} s what process {pid} has mapped", PATIENCE.as_secs_f64())
        })
    }

    fn answer<T: Send + 'static>(&self, question: impl FnOnce() -> T + Send + 'static) -> Option<T> {
        let (answer, answers) = channel();
        let job: Job = Box::new(move || drop(answer.send(question())));
        let mut jobs = self.jobs.borrow_mut();
        if jobs.is_none() {
            *jobs = start();
        }
        let told = jobs.as_ref()?.send(job).ok().and_then(|()| answers.recv_timeout(PATIENCE).ok());
        if told.is_none() {
            *jobs = None;
        }
        told
    }
}

fn start() -> Option<Sender<Job>> {
    let (jobs, asked) = channel::<Job>();
    let run = move || {
        narrow(Phase::Naming);
        asked.into_iter().for_each(|job| job());
    };
    std::thread::Builder::new().name("kernel-asker".into()).spawn(run).ok()?;
    Some(jobs)
}

impl Silent {
    fn add(&mut self, pid: u32) {
        if self.processes.insert(pid) {
            *self.by_user.entry(user(pid)).or_default() += 1;
        }
    }

    fn of(&self, pid: u32) -> Option<String> {
        if self.processes.contains(&pid) {
            return Some(format!("process {pid} kept the kernel from answering before"));
        }
        // None of this is asked as long as the kernel answers.
        let are_many = self.by_user.values().any(|silent| *silent >= MANY);
        let silent = are_many.then(|| self.by_user.get(&user(pid)).copied()).flatten()?;
        (silent >= MANY).then(|| format!("other processes of its user kept the kernel from answering {MANY} times"))
    }
}

/// Who runs a process, users of containers being taken for one. Of one that is not told, it is that of root.
#[expect(clippy::disallowed_methods, reason = "this thread has no host, and the file is the kernel's")]
fn user(pid: u32) -> u32 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    rdiag_proc::field(&status, "Uid:")
        .and_then(|ids| ids.split_whitespace().next()?.parse().ok())
        .map_or(0, one_of_many)
}

/// The same number for all users that one user may have at their disposal.
pub(super) fn one_of_many(user: u32) -> u32 {
    user.min(SUBORDINATE)
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;

    use super::*;

    #[test]
    fn what_is_not_answered_costs_its_process_and_then_those_of_its_user() {
        let bounded = Bounded::default();
        let own = std::process::id();
        assert_eq!(bounded.ask(own, || 7), Ok(7));
        let (hold, held) = channel::<()>();
        let stuck = bounded.ask(own, move || held.recv().is_ok());
        assert!(stuck.unwrap_err().contains("did not answer within 1.5 s"));
        let again = bounded.ask(own, || 8);
        assert!(again.unwrap_err().contains("before"));
        // The next one is asked on another thread, and the one that was left behind ends by itself.
        assert_eq!(bounded.ask(1, || 9), Ok(9));
        drop(hold);
        bounded.silent.borrow_mut().by_user.insert(user(1), MANY);
        assert!(bounded.ask(1, || 10).unwrap_err().contains("other processes of its user"));
    }

    #[test]
    fn users_of_containers_are_taken_for_one() {
        assert_eq!([0, 1000, 65_535].map(one_of_many), [0, 1000, 65_535]);
        assert_eq!([65_536, 100_000, u32::MAX].map(one_of_many), [SUBORDINATE; 3]);
    }
}
