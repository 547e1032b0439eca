//! What all processes were asked in this sample, so that collectors need not ask them the same again: with 3000 processes one question
//! takes some 10 ms of CPU time.
//!
//! Only a live host has it. A collector that finds nothing here, or what is too old, asks for itself.

use std::sync::{Arc, Mutex, PoisonError};

/// Answers older than this (seconds) are none: they are meant for the sample in which they were given.
const FRESH: f64 = 0.5;

/// A process, as one pass over all of them showed it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Present {
    /// The process, by its id.
    pub pid: u32,
    /// Ticks since boot.
    pub start_ticks: u64,
    /// User and system time, in ticks.
    pub cpu_ticks: u64,
    /// As /proc/PID/stat writes it.
    pub state: char,
    /// Its threads, itself included.
    pub threads: u32,
    /// The effective user; none where it was not asked.
    pub uid: Option<u32>,
}

/// The number of open files of a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OpenFiles {
    /// The process, by its id.
    pub pid: u32,
    /// How many it has.
    pub count: u64,
}

/// What was asked, each kind with the time of its answer.
#[derive(Debug, Default)]
pub struct Asked {
    /// All processes.
    pub present: CachedAnswer<Present>,
    /// Of all processes whose number of open files the kernel tells without listing them (Linux 6.2).
    pub open_files: CachedAnswer<OpenFiles>,
}

/// One answer about all processes.
#[derive(Debug)]
pub struct CachedAnswer<T>(Mutex<Option<(f64, Arc<Vec<T>>)>>);

impl<T> Default for CachedAnswer<T> {
    fn default() -> Self {
        Self(Mutex::new(None))
    }
}

impl<T> CachedAnswer<T> {
    /// Keeps it; `now` is [`super::Host::now`].
    pub fn keep(&self, now: f64, all: Vec<T>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some((now, Arc::new(all)));
    }

    /// The latest, if it is not too old.
    #[must_use]
    pub fn latest(&self, now: f64) -> Option<Arc<Vec<T>>> {
        let kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        kept.as_ref().filter(|(then, _)| (0.0..=FRESH).contains(&(now - then))).map(|(_, all)| Arc::clone(all))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_serves_its_sample_and_not_the_next() {
        let answer = CachedAnswer::default();
        assert_eq!(answer.latest(10.0), None);
        answer.keep(10.0, vec![OpenFiles { pid: 1, count: 40 }]);
        assert_eq!(answer.latest(10.4).unwrap().len(), 1);
        for too_late_or_early in [10.6, 9.9] {
            assert_eq!(answer.latest(too_late_or_early), None);
        }
    }
}
