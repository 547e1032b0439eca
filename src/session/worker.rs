//! A thread that reads sources, watched by one that does not: a source that hangs costs its own readings, never the run.

use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::Duration;

use crate::collectors::{Collect, Sink};
use crate::host::SharedHost;
use crate::model::Unavailable;

/// What a worker is asked to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Task {
    /// Take a sample.
    Sample,
    /// Add what is worth knowing after the last sample.
    Finish,
}

/// A collector on its way to a worker.
pub(super) struct Job {
    pub(super) state: Box<dyn Collect>,
    pub(super) sink: Sink,
    pub(super) task: Task,
}

/// A collector on its way back.
pub(super) struct Done {
    pub(super) state: Box<dyn Collect>,
    pub(super) result: Result<(), Unavailable>,
    /// Monotonic seconds before and after.
    pub(super) began: f64,
    pub(super) ended: f64,
}

/// Why a job did not come back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Lost {
    /// Not yet: it may still.
    Late,
    /// Never: the collector panicked, which is a bug.
    Crashed,
}

/// A thread that runs one job after the other.
pub(super) struct Worker {
    jobs: Sender<Job>,
    done: Receiver<Done>,
}

impl Worker {
    pub(super) fn start(host: &SharedHost) -> std::io::Result<Self> {
        let (jobs, inbox) = channel::<Job>();
        let (outbox, done) = channel();
        let host = SharedHost::clone(host);
        std::thread::Builder::new().name("rdiag-collect".into()).stack_size(512 * 1024).spawn(move || {
            for Job { mut state, sink, task } in inbox {
                let began = host.now();
                let result = match task {
                    Task::Sample => state.sample(&host, &sink),
                    Task::Finish => {
                        state.finish(&host, &sink);
                        Ok(())
                    }
                };
                let ended = host.now();
                if outbox.send(Done { state, result, began, ended }).is_err() {
                    break;
                }
            }
        })?;
        Ok(Self { jobs, done })
    }

    /// Hands over a job and waits for it, at most `patience`.
    pub(super) fn run(&self, job: Job, patience: Duration) -> Result<Done, Lost> {
        self.jobs.send(job).map_err(|_| Lost::Crashed)?;
        self.wait(patience)
    }

    /// Waits for a job that was late.
    pub(super) fn wait(&self, patience: Duration) -> Result<Done, Lost> {
        self.done.recv_timeout(patience).map_err(|error| match error {
            RecvTimeoutError::Timeout => Lost::Late,
            RecvTimeoutError::Disconnected => Lost::Crashed,
        })
    }
}
