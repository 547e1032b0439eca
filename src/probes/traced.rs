//! What the probes share that read an instance of the kernel's tracing: what of its events they lost, and what those cost.

use rdiag_kernel::host::Host;
use rdiag_kernel::mechanism::tracefs::event_cost::{EventCost, Spent};
use rdiag_kernel::mechanism::tracefs::instance::Instance;

/// The account of an instance's events.
#[derive(Debug)]
pub(super) struct Account {
    cost: EventCost,
    /// Events that were lost before the last reading.
    lost: u64,
    is_closed: bool,
}

impl Account {
    /// Of an instance that is about to be switched on.
    pub(super) fn new(cost: EventCost, instance: &Instance, host: &Host) -> Self {
        Self { cost, lost: instance.tally(host).lost, is_closed: false }
    }

    /// Nothing is traced any more, and what is in the buffers is read for the last time.
    pub(super) fn close(&mut self, instance: &Instance) {
        // Where that is refused the instance ends all the same, a moment later.
        let _ = instance.set("tracing_on", "0");
        self.is_closed = true;
    }

    /// Whether nothing follows.
    pub(super) fn is_closed(&self) -> bool {
        self.is_closed
    }

    /// Does some work of reading, and adds what it takes.
    pub(super) fn reading<T>(&mut self, work: impl FnOnce() -> T) -> T {
        self.cost.adding(work)
    }

    /// Events that are not in what was read since the last time, by reason.
    pub(super) fn lost(&mut self, instance: &Instance, host: &Host) -> Vec<(&'static str, u64)> {
        let tally = instance.tally(host);
        let before = std::mem::replace(&mut self.lost, tally.lost);
        let unread = if self.is_closed { tally.unread } else { 0 };
        vec![
            ("the buffer was full", tally.lost.saturating_sub(before)),
            ("they were still in the buffer at the end", unread),
        ]
    }

    /// What the events have cost so far.
    pub(super) fn spent(&self, instance: &Instance, host: &Host) -> Spent {
        self.cost.of(instance.tally(host).all())
    }
}
