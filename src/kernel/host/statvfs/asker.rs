//! Asking: batch by batch, and once more about those that got no answer.

use std::os::unix::ffi::OsStrExt as _;
use std::path::PathBuf;
use std::process::{Child, Command};
use std::sync::Mutex;

use super::helper::{Helper, Line};
use super::{Outcome, PAUSE, lock, now};
use rdiag_model::Reason;

/// How long all of it may take: with many mounts of one dead server, the first few tell enough.
const BUDGET_SECONDS: f64 = 5.0;
/// Mount points are handed over in pieces that fit the smallest pipe there is, so that writing never blocks.
const BATCH_BYTES: usize = 4000;

/// Asks about each of the mounts; an answer is put down as soon as it is there.
pub(super) fn ask_all(helper: &dyn Fn() -> Command, paths: &[PathBuf], patience: f64, answers: &Mutex<Vec<Outcome>>) {
    let mut asker = Asker { helper, paths, patience, deadline: now() + BUDGET_SECONDS, answers, abandoned: Vec::new() };
    let all: Vec<usize> = (0..paths.len()).collect();
    asker.ask(&all);
    // A host that swaps can be slow for a second; only a mount without an answer to two requests is hung.
    let silent: Vec<usize> = {
        let found = lock(answers);
        all.into_iter().filter(|at| found.get(*at) == Some(&Outcome::Hung)).collect()
    };
    asker.ask(&silent);
    // The killed leave at once, unless they hang; those are left to the reaper of orphans.
    for _ in 0..5 {
        asker.abandoned.retain_mut(|child| !matches!(child.try_wait(), Ok(Some(_))));
        if asker.abandoned.is_empty() {
            break;
        }
        let _ = rustix::thread::nanosleep(&PAUSE);
    }
}

struct Asker<'a> {
    helper: &'a dyn Fn() -> Command,
    paths: &'a [PathBuf],
    patience: f64,
    deadline: f64,
    answers: &'a Mutex<Vec<Outcome>>,
    /// Killed, and not yet gone.
    abandoned: Vec<Child>,
}

impl Asker<'_> {
    /// Asks about some of the mounts, by index; the answer of what is not reached in time stays as it was.
    fn ask(&mut self, which: &[usize]) {
        let mut left = which;
        while !left.is_empty() && now() < self.deadline {
            let asked = self.ask_batch(left);
            left = left.get(asked.max(1)..).unwrap_or_default();
        }
    }

    /// Asks one helper about as many as it takes; returns for how many there is an answer now.
    fn ask_batch(&mut self, left: &[usize]) -> usize {
        let (batch, input) = take_batch(self.paths, left);
        let mut helper = match Helper::start(self.helper, &input, &mut self.abandoned) {
            Ok(helper) => helper,
            Err(problem) => {
                left.iter().for_each(|at| self.put(*at, Outcome::NotAsked(Reason::Absent, problem.clone())));
                return left.len();
            }
        };
        let mut asked = 0;
        for at in left.iter().take(batch) {
            let answer = match helper.line(self.patience) {
                Line::Text(text) => Outcome::parse(&text).unwrap_or_else(|| {
                    Outcome::NotAsked(Reason::Malformed, "the helper's answer makes no sense".to_owned())
                }),
                Line::Late => Outcome::Hung,
                Line::End => Outcome::NotAsked(Reason::Malformed, "the helper process ended early".to_owned()),
            };
            let goes_on = matches!(answer, Outcome::Capacity(_) | Outcome::Failed(_));
            self.put(*at, answer);
            asked += 1;
            if !goes_on || now() >= self.deadline {
                break;
            }
        }
        self.abandoned.extend(helper.leave());
        asked
    }

    fn put(&self, at: usize, answer: Outcome) {
        if let Some(slot) = lock(self.answers).get_mut(at) {
            *slot = answer;
        }
    }
}

/// As many of the first paths as fit, and the text that hands them over.
fn take_batch(paths: &[PathBuf], which: &[usize]) -> (usize, Vec<u8>) {
    let mut input = Vec::new();
    let mut taken = 0;
    for path in which.iter().filter_map(|at| paths.get(*at)) {
        let bytes = path.as_os_str().as_bytes();
        if taken > 0 && input.len() + bytes.len() >= BATCH_BYTES {
            break;
        }
        input.extend_from_slice(bytes);
        input.push(0);
        taken += 1;
    }
    (taken, input)
}
