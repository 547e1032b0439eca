//! The way to the thread that writes the recorder's files (`files.rs`): nothing waits for the disk.

use std::collections::VecDeque;
use std::io;
use std::sync::mpsc::{SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use super::files::Files;
use super::tiers::ThinningCost;
use crate::history::Incident;
use rdiag_kernel::host::files::Folder;

/// Samples that wait for the disk; when there are more, the disk is what is ill, and they are left out.
const WAITING: usize = 64;
/// News of incidents that wait for it: they are told again, since a disk that hangs is what an incident may be about.
const OWED: usize = 16;
/// What is to be done.
pub(super) enum Job {
    Begin(Vec<u8>),
    Append(Vec<u8>),
    Block(i64, Vec<u8>),
    Incident(Incident),
    /// Of the incident at these microseconds: what was recorded, or why nothing was.
    Drilled(i64, Result<Vec<u8>, String>),
}

/// The way to the thread.
pub(super) struct Keeper {
    jobs: Option<SyncSender<Job>>,
    thread: Option<JoinHandle<()>>,
    said: Arc<Mutex<Vec<String>>>,
    left_out: u64,
    owed: VecDeque<Job>,
    thinning: ThinningCost,
}

impl Keeper {
    /// With the most bytes, and the seconds from sample to sample of old blocks.
    pub(super) fn start(folder: Folder, (keep, tier): (u64, f64), incidents: Vec<Incident>) -> io::Result<Self> {
        let (jobs, to_do) = sync_channel(WAITING);
        let said = Arc::new(Mutex::new(Vec::new()));
        let thinning = ThinningCost::default();
        let mut files = Files::new(folder, (keep, tier, thinning.clone()), incidents, Arc::clone(&said));
        let thread = std::thread::Builder::new().name("rdiag-keep".into()).spawn(move || files.work(&to_do))?;
        Ok(Self { jobs: Some(jobs), thread: Some(thread), said, left_out: 0, owed: VecDeque::new(), thinning })
    }

    /// CPU seconds that thinning old blocks took so far.
    pub(super) fn thinning_cpu_seconds(&self) -> f64 {
        self.thinning.cpu_seconds()
    }

    /// Begins a new tail.
    pub(super) fn begin(&mut self, bytes: Vec<u8>) {
        self.send(Job::Begin(bytes));
    }

    /// Adds a sample to it.
    pub(super) fn append(&mut self, bytes: Vec<u8>) {
        self.pay();
        self.send(Job::Append(bytes));
    }

    /// Enters an incident, whose time is kept from then on.
    pub(super) fn incident(&mut self, incident: Incident) {
        self.owe(Job::Incident(incident));
    }

    /// Keeps what the drill-down of an incident recorded, or enters why there is nothing.
    pub(super) fn drilled(&mut self, wall_micros: i64, outcome: Result<Vec<u8>, String>) {
        // One at most waits in memory: a disk that hangs would make the recorder large.
        let waits = self.owed.iter().any(|job| matches!(job, Job::Drilled(_, Ok(_))));
        let outcome = if waits { Err("the disk did not take that of an earlier incident".to_owned()) } else { outcome };
        self.owe(Job::Drilled(wall_micros, outcome));
    }

    fn owe(&mut self, job: Job) {
        if self.owed.len() < OWED {
            self.owed.push_back(job);
        } else {
            self.left_out += 1;
        }
        self.pay();
    }

    fn pay(&mut self) {
        let Some(jobs) = &self.jobs else { return };
        while let Some(job) = self.owed.pop_front() {
            if let Err(TrySendError::Full(job)) = jobs.try_send(job) {
                return self.owed.push_front(job);
            }
        }
    }

    /// Keeps a block, which makes the tail superfluous.
    pub(super) fn block(&mut self, wall_micros: i64, bytes: Vec<u8>) {
        self.send(Job::Block(wall_micros.div_euclid(1_000_000), bytes));
    }

    fn send(&mut self, job: Job) {
        let Some(jobs) = &self.jobs else { return };
        match jobs.try_send(job) {
            Ok(()) if self.left_out > 0 => {
                let told = format!("the disk answers again; {} samples or blocks were not written", self.left_out);
                self.said.lock().unwrap_or_else(PoisonError::into_inner).push(told);
                self.left_out = 0;
            }
            Ok(()) => {}
            Err(TrySendError::Full(_) | TrySendError::Disconnected(_)) => self.left_out += 1,
        }
    }

    /// What went wrong since it was asked last.
    pub(super) fn problems(&self) -> Vec<String> {
        std::mem::take(&mut *self.said.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Waits until all is written.
    pub(super) fn end(mut self) -> Vec<String> {
        if let Some(jobs) = self.jobs.take() {
            self.owed.drain(..).for_each(|job| drop(jobs.send(job)));
        }
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
        self.problems()
    }
}
