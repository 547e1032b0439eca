//! A thread that reads sources, watched by one that does not: a source that hangs, or a collector that panics, costs its own readings,
//! never the run.
//!
//! All readings of one instant are handed over together. On a saturated host each hand-over waits in the run queue, so one for each source
//! would spread an instant over seconds.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rdiag_collectors::{Collect, Sink};
use rdiag_kernel::host::rights::{self, Phase};
use rdiag_kernel::host::{SharedHost, thread_usage};
use rdiag_model::{Reason, Unavailable};

/// What a worker is asked to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Task {
    /// Set up what takes time, before the window begins.
    Prepare,
    /// Take a sample.
    Sample,
    /// Tell what is known between two samples.
    SoFar,
    /// Add what is worth knowing after the last sample.
    Finish,
}

/// A collector on its way to the worker. `slot` is the caller's name for it.
pub(super) struct Job {
    pub(super) slot: usize,
    pub(super) state: Box<dyn Collect>,
    pub(super) sink: Sink,
    pub(super) task: Task,
}

/// A collector on its way back; without its state if it panicked, which is a defect.
pub(super) struct Done {
    pub(super) slot: usize,
    pub(super) task: Task,
    pub(super) state: Option<Box<dyn Collect>>,
    pub(super) result: Result<(), Unavailable>,
    /// Monotonic seconds before and after.
    pub(super) began: f64,
    pub(super) ended: f64,
    /// CPU seconds that it used.
    pub(super) cpu: f64,
}

/// The worker, and the jobs that wait for it.
pub(super) struct Worker {
    host: SharedHost,
    queue: Arc<Queue>,
    outbox: Arc<Outbox>,
    running: Arc<Running>,
}

/// Jobs that are done. The waiter is woken when there is nothing more to do, not for each of forty quick jobs, which
/// would cost more than some of them do.
#[derive(Default)]
struct Outbox {
    done: Mutex<VecDeque<Done>>,
    ready: Condvar,
}

#[derive(Default)]
struct Queue {
    jobs: Mutex<VecDeque<Job>>,
    ready: Condvar,
    closed: AtomicBool,
    /// What its threads are to be limited to.
    phase: Mutex<Option<Phase>>,
}

/// What one thread is doing.
struct Running {
    /// The slot it works on; `NONE` between jobs.
    slot: AtomicUsize,
    /// Set when another thread has taken its place: it ends after its job, should that ever return.
    replaced: AtomicBool,
}

const NONE: usize = usize::MAX;
/// After so long without a notice it is worth a look what is done.
const UNASKED: Duration = Duration::from_millis(100);

impl Worker {
    pub(super) fn start(host: &SharedHost) -> std::io::Result<Self> {
        let (queue, outbox) = (Arc::new(Queue::default()), Arc::new(Outbox::default()));
        let running = spawn(host, &queue, &outbox)?;
        Ok(Self { host: SharedHost::clone(host), queue, outbox, running })
    }

    /// Hands over jobs; each comes back through [`Self::next`], in this order as long as none hangs.
    pub(super) fn submit(&self, jobs: impl IntoIterator<Item = Job>) {
        self.queue.lock().extend(jobs);
        self.queue.ready.notify_all();
    }

    /// Has the thread, and those that take its place, do what comes next with what this phase needs.
    pub(super) fn narrow(&self, phase: Phase) {
        *self.queue.phase.lock().unwrap_or_else(PoisonError::into_inner) = Some(phase);
    }

    /// The next job that is done. None when nothing came back within `patience`.
    pub(super) fn next(&self, patience: Duration) -> Option<Done> {
        let mut left = patience;
        let mut done = self.outbox.lock();
        loop {
            if let Some(done) = done.pop_front() {
                return Some(done);
            }
            if left.is_zero() {
                return None;
            }
            // When a job hangs, nothing reports that those before it are done.
            let pause = left.min(UNASKED);
            let waited = self.outbox.ready.wait_timeout(done, pause).unwrap_or_else(PoisonError::into_inner);
            if waited.1.timed_out() {
                left -= pause;
            }
            done = waited.0;
        }
    }

    /// Leaves the thread behind with the job it hangs on, starts another one for the rest, and says which job that is.
    /// None when the thread has not begun a job: then the host, not a source, is slow.
    pub(super) fn leave_behind(&mut self) -> std::io::Result<Option<usize>> {
        let slot = self.running.slot.load(Ordering::Acquire);
        if slot == NONE {
            return Ok(None);
        }
        self.running.replaced.store(true, Ordering::Release);
        self.running = spawn(&self.host, &self.queue, &self.outbox)?;
        Ok(Some(slot))
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.queue.closed.store(true, Ordering::Release);
        self.queue.ready.notify_all();
    }
}

impl Queue {
    fn lock(&self) -> MutexGuard<'_, VecDeque<Job>> {
        self.jobs.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for a job; none when there will be no more, or this thread was replaced.
    fn take(&self, running: &Running) -> Option<Job> {
        let mut jobs = self.lock();
        loop {
            if running.replaced.load(Ordering::Acquire) || self.closed.load(Ordering::Acquire) {
                return None;
            }
            if let Some(job) = jobs.pop_front() {
                running.slot.store(job.slot, Ordering::Release);
                return Some(job);
            }
            // The time limit only guards against a notice that comes between the check and the wait.
            let waited = self.ready.wait_timeout(jobs, Duration::from_secs(1));
            jobs = waited.map_or_else(|poisoned| poisoned.into_inner().0, |(jobs, _)| jobs);
        }
    }
}

impl Outbox {
    fn lock(&self) -> MutexGuard<'_, VecDeque<Done>> {
        self.done.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn spawn(host: &SharedHost, queue: &Arc<Queue>, outbox: &Arc<Outbox>) -> std::io::Result<Arc<Running>> {
    let running = Arc::new(Running { slot: AtomicUsize::new(NONE), replaced: AtomicBool::new(false) });
    let (host, own) = (SharedHost::clone(host), Arc::clone(&running));
    let (queue, outbox) = (Arc::clone(queue), Arc::clone(outbox));
    std::thread::Builder::new().name("rdiag-collect".into()).stack_size(512 * 1024).spawn(move || {
        let mut narrowed = None;
        while let Some(job) = queue.take(&own) {
            let phase = *queue.phase.lock().unwrap_or_else(PoisonError::into_inner);
            if phase != narrowed {
                phase.into_iter().for_each(rights::narrow);
                narrowed = phase;
            }
            let done = work(&host, job);
            own.slot.store(NONE, Ordering::Release);
            outbox.lock().push_back(done);
            if own.replaced.load(Ordering::Acquire) || queue.lock().is_empty() {
                outbox.ready.notify_all();
            }
        }
    })?;
    Ok(running)
}

fn work(host: &SharedHost, job: Job) -> Done {
    let Job { slot, mut state, sink, task } = job;
    let (began, cpu) = (host.now(), thread_usage());
    let outcome = catch_unwind(AssertUnwindSafe(|| match task {
        Task::Prepare => {
            state.prepare(host, &sink);
            Ok(())
        }
        Task::Sample => state.sample(host, &sink),
        Task::SoFar => {
            state.so_far(host, &sink);
            Ok(())
        }
        Task::Finish => {
            state.finish(host, &sink);
            Ok(())
        }
    }));
    let ended = host.now();
    let (state, result) = match outcome {
        Ok(result) => (Some(state), result),
        Err(_) => {
            let gap =
                Unavailable::new(Reason::Malformed, "its collector failed on what it read; this is a defect of rdiag");
            (None, Err(gap.with_remedy("please report it with the recording")))
        }
    };
    Done { slot, task, state, result, began, ended, cpu: (thread_usage() - cpu).max(0.0) }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use rdiag_kernel::host::Host;

    /// Sleeps on the first sample, panics on the second, works on the others.
    struct Moody(u32);

    impl Collect for Moody {
        #[expect(clippy::disallowed_methods, reason = "the test is about a source that takes its time")]
        fn sample(&mut self, _: &Host, _: &Sink) -> Result<(), Unavailable> {
            self.0 += 1;
            match self.0 {
                1 => std::thread::sleep(Duration::from_millis(800)),
                2 => panic!("a defect, on purpose"),
                _ => {}
            }
            Ok(())
        }
    }

    fn job(slot: usize, mood: u32) -> Job {
        Job { slot, state: Box::new(Moody(mood)), sink: Sink::new(&[]), task: Task::Sample }
    }

    #[test]
    fn a_source_that_hangs_is_left_behind_and_the_others_go_on() {
        let host = Arc::new(Host::live(Path::new("/")));
        let mut worker = Worker::start(&host).unwrap();
        worker.submit([job(0, 5), job(1, 0), job(2, 5)]);
        assert_eq!(worker.next(Duration::from_secs(5)).unwrap().slot, 0);
        assert!(worker.next(Duration::from_millis(100)).is_none(), "the second one sleeps");
        assert_eq!(worker.leave_behind().unwrap(), Some(1));
        assert_eq!(worker.next(Duration::from_secs(5)).unwrap().slot, 2);
        let late = worker.next(Duration::from_secs(5)).unwrap();
        assert_eq!((late.slot, late.state.is_some()), (1, true), "and it may still come back");
    }

    #[test]
    fn a_collector_that_panics_costs_its_own_readings_only() {
        let host = Arc::new(Host::live(Path::new("/")));
        let worker = Worker::start(&host).unwrap();
        worker.submit([job(0, 1), job(1, 5)]);
        let failed = worker.next(Duration::from_secs(5)).unwrap();
        assert!(failed.state.is_none() && failed.result.is_err());
        assert!(worker.next(Duration::from_secs(5)).unwrap().result.is_ok());
    }
}
