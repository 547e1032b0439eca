//! The way to the thread that writes the recorder's files (`files.rs`): nothing waits for the disk.

use std::collections::VecDeque;
use std::io;
use std::sync::mpsc::{SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use super::files::Files;
use super::tiers::ThinningCost;
use rdiag_history::Incident;
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

#[cfg(test)]
mod tests {
    use std::sync::mpsc::Receiver;

    use super::*;
    use rdiag_history::Resource;

    /// One whose thread takes nothing, as if it hung in write(2).
    fn hanging() -> (Keeper, Receiver<Job>) {
        let (jobs, to_do) = sync_channel(WAITING);
        let keeper = Keeper {
            jobs: Some(jobs),
            thread: None,
            said: Arc::default(),
            left_out: 0,
            owed: VecDeque::new(),
            thinning: ThinningCost::default(),
        };
        (keeper, to_do)
    }

    fn incident(second: i64) -> Incident {
        Incident {
            wall_micros: second * 1_000_000,
            resource: Resource::Io,
            rule: None,
            share: 0.9,
            at_least: false,
            seconds: 5.0,
            pinned: true,
            drilled: false,
            note: None,
        }
    }

    #[test]
    fn samples_are_left_out_and_counted_while_the_disk_hangs_and_recording_goes_on() {
        let (mut keeper, to_do) = hanging();
        keeper.begin(vec![0]);
        // One that waited for the disk would wait here for ever.
        (0..10_000_u32).for_each(|sample| keeper.append(sample.to_le_bytes().to_vec()));
        keeper.block(1_000_000, vec![1]);
        assert_eq!(keeper.left_out, 10_002 - WAITING as u64);
        assert!(keeper.problems().is_empty(), "there is nothing to be said before it answers");
        // It takes what waited, in order, and the next sample says what is lost.
        assert!(matches!(to_do.try_recv(), Ok(Job::Begin(_))));
        let taken: Vec<Job> = to_do.try_iter().collect();
        let number = |job: &Job| match job {
            Job::Append(bytes) => bytes.first().copied(),
            _ => None,
        };
        let numbers: Vec<u8> = taken.iter().filter_map(number).collect();
        assert_eq!(numbers, (0..WAITING as u8 - 1).collect::<Vec<_>>());
        keeper.append(vec![9]);
        assert_eq!(
            keeper.problems(),
            [format!("the disk answers again; {} samples or blocks were not written", 10_002 - WAITING)]
        );
        keeper.append(vec![9]);
        assert!(keeper.problems().is_empty() && keeper.left_out == 0);
    }

    #[test]
    fn an_incident_waits_for_a_disk_that_hangs_and_is_entered_when_it_answers() {
        let (mut keeper, to_do) = hanging();
        (0..100).for_each(|_| keeper.append(vec![0]));
        let lost = keeper.left_out;
        (0..3).for_each(|second| keeper.incident(incident(second)));
        // Of two recordings one waits in memory.
        keeper.drilled(0, Ok(vec![7; 1000]));
        keeper.drilled(1_000_000, Ok(vec![7; 1000]));
        assert_eq!((keeper.left_out, keeper.owed.len()), (lost, 5));
        to_do.try_iter().for_each(drop);
        keeper.append(vec![0]);
        let told: Vec<String> = to_do
            .try_iter()
            .map(|job| match job {
                Job::Incident(incident) => format!("incident {}", incident.second()),
                Job::Drilled(_, outcome) => outcome.map_or_else(|why| why, |bytes| format!("{} bytes", bytes.len())),
                Job::Append(_) => "sample".to_owned(),
                Job::Begin(_) | Job::Block(..) => "other".to_owned(),
            })
            .collect();
        let without = "the disk did not take that of an earlier incident";
        assert_eq!(told, ["incident 0", "incident 1", "incident 2", "1000 bytes", without, "sample"]);
        // There is a limit to what waits.
        (0..200).for_each(|_| keeper.append(vec![0]));
        (0..100).for_each(|second| keeper.incident(incident(second)));
        assert_eq!(keeper.owed.len(), OWED);
    }
}
