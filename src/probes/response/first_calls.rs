//! The first half second of a command whose calls are all watched. One that makes a million of them per second would be slowed down by a
//! half until the next poll, so a thread of its own looks sooner, and has them watched in parts from then on.

use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use rdiag_kernel::host::rights::{Phase, Work, narrow};

/// Between two looks, in ms. Together they are [`super::watching::FIRST`].
const PAUSES: [u64; 6] = [8, 16, 32, 64, 128, 252];

/// The looks, and what is attached as long as there are few calls.
#[derive(Debug)]
pub(super) struct FirstCalls<H> {
    /// Nothing is sent: the thread ends when this is gone.
    end: Sender<()>,
    thread: JoinHandle<(Vec<H>, Option<u64>)>,
}

impl<H: Send + 'static> FirstCalls<H> {
    /// Looks whether calls are many until they are, and has fewer watched then; that tells since when. None, and nothing is attached any
    /// more, where there can be no such thread.
    pub(super) fn begin(
        attached: Vec<H>,
        are_many: impl Fn() -> bool + Send + 'static,
        watch_fewer: impl FnOnce() -> Option<u64> + Send + 'static,
    ) -> Option<Self> {
        let (end, ends) = channel();
        let look = move || {
            // It began with all that is needed to attach.
            narrow(Phase::Measuring(Work { probes: true, task_states: false }));
            let since = comes_to_be(&ends, are_many).then(watch_fewer).flatten();
            // What is dropped here is attached no longer.
            (if since.is_none() { attached } else { Vec::new() }, since)
        };
        // Without another thread the next poll decides.
        let name = "rdiag-calls".to_owned();
        let thread = std::thread::Builder::new().name(name).stack_size(128 * 1024).spawn(look).ok()?;
        Some(Self { end, thread })
    }

    pub(super) fn are_over(&self) -> bool {
        self.thread.is_finished()
    }

    /// What is still attached, and since when (in ns) fewer calls are watched.
    pub(super) fn end(self) -> (Vec<H>, Option<u64>) {
        drop(self.end);
        self.thread.join().unwrap_or_default()
    }
}

/// Whether that came to be before the end.
fn comes_to_be(ends: &Receiver<()>, is_so: impl Fn() -> bool) -> bool {
    PAUSES
        .into_iter()
        .any(|pause| ends.recv_timeout(Duration::from_millis(pause)) == Err(RecvTimeoutError::Timeout) && is_so())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_calls_are_noticed_long_before_a_poll_and_what_sees_them_is_taken_away() {
        let attached = std::sync::Arc::new(());
        let first = FirstCalls::begin(vec![attached.clone()], || true, || Some(7)).unwrap();
        while !first.are_over() {
            std::thread::yield_now();
        }
        assert_eq!(std::sync::Arc::strong_count(&attached), 1);
        assert!(matches!(first.end(), (held, Some(7)) if held.is_empty()));
    }

    #[test]
    fn few_calls_are_watched_on_to_the_end() {
        let first = FirstCalls::begin(vec!["calls"], || false, || Some(7)).unwrap();
        assert_eq!(first.end(), (vec!["calls"], None), "and that is not waited for");
        let first = FirstCalls::begin(vec!["calls"], || true, || None).unwrap();
        while !first.are_over() {
            std::thread::yield_now();
        }
        assert_eq!(first.end(), (vec!["calls"], None), "less could not be watched");
    }

    #[test]
    fn the_looks_go_on_until_the_first_poll_that_decides() {
        assert_eq!(PAUSES.iter().sum::<u64>() * 1_000_000, super::super::watching::FIRST);
    }
}
