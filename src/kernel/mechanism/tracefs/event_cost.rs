//! What tracing costs: the events of an instance, at what one of them takes on this machine, and what it takes to read them.
//!
//! The kernel counts the run time of programs and not that of its own tracing. So before anything is traced, system calls of rdiag's own
//! are timed with an event and without, and events are counted afterwards. The probes `events`, `functions` and `graph` do so, and `count`
//! and `hist` where the kernel's tables do their work.

use super::instance::Instance;
use super::sums::{THREAD, Wanted};
use crate::host::{Host, thread_usage};
use rdiag_model::Unavailable;

/// The call that is timed. It does next to nothing, in a function whose name the kernel's tracers know, unlike that of getppid.
const GROUP: &str = "syscalls";
const EVENT: &str = "sys_enter_getpgid";
/// Calls that are timed in one piece, and the pieces: the least of them is undisturbed.
const CALLS: u32 = 250;
const PIECES: u32 = 8;
/// Keys of the table that is timed: the kernel's least.
const KEYS: u32 = 128;
/// What an event takes where that cannot be measured, in seconds: as it was on one virtual machine (benches/README.md).
const EVENT_SECONDS: f64 = 0.2e-6;
/// The same of an event that a table sums up.
const SUM_SECONDS: f64 = 0.3e-6;

/// What tracing has cost since its beginning.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Spent {
    /// Events, those that were lost too.
    pub events: u64,
    /// CPU seconds, of the tasks in which the events happened, and of rdiag.
    pub cpu_seconds: f64,
    /// What one event costs the task in which it happens, in seconds.
    pub each: f64,
    /// Whether that was measured here.
    pub is_measured: bool,
}

/// Adds up what tracing costs.
#[derive(Debug)]
pub struct EventCost {
    /// Seconds that one event costs the task in which it happens.
    each: f64,
    is_measured: bool,
    /// CPU seconds of rdiag's own.
    own: f64,
}

impl EventCost {
    /// Of events that are written into a buffer. The instance is one that was just made: off, and nothing chosen yet.
    pub fn of_events(instance: &Instance, host: &Host) -> Result<Self, Unavailable> {
        const ENABLE: &str = "events/syscalls/sys_enter_getpgid/enable";
        let alone = timed(host);
        let begun = instance.try_set(ENABLE, "1").and_then(|()| instance.try_set("tracing_on", "1"));
        let with = timed(host);
        instance.set("tracing_on", "0")?;
        if begun.is_err() {
            // The kernel has no events at system calls.
            return Ok(Self::new(None, EVENT_SECONDS));
        }
        instance.set(ENABLE, "0")?;
        instance.forget()?;
        Ok(Self::new(Some(with - alone), EVENT_SECONDS))
    }

    /// Of events that are summed up in a table like this one. `place` is the group and the name of an event that the timed call passes;
    /// that of the system call if nothing is given.
    pub fn of_sums(
        like: &Wanted,
        place: Option<(String, String)>,
        instance: &Instance,
        host: &Host,
    ) -> Result<Self, Unavailable> {
        let (group, event) = place.unwrap_or((GROUP.to_owned(), EVENT.to_owned()));
        let table = Wanted {
            group,
            event,
            by_stack: like.by_stack,
            power: None,
            keys: vec![THREAD.to_owned()],
            by_name: false,
            value: None,
            filter: String::new(),
        };
        let alone = timed(host);
        let Ok(()) = table.begin(instance, host, KEYS) else { return Ok(Self::new(None, SUM_SECONDS)) };
        let with = timed(host);
        table.end(instance, KEYS)?;
        Ok(Self::new(Some(with - alone), SUM_SECONDS))
    }

    /// Of sums, where nothing can be tried.
    #[must_use]
    pub fn unknown() -> Self {
        Self::new(None, SUM_SECONDS)
    }

    fn new(measured: Option<f64>, otherwise: f64) -> Self {
        // Less than nothing is noise.
        let measured = measured.filter(|seconds| *seconds > 0.0);
        Self { each: measured.unwrap_or(otherwise), is_measured: measured.is_some(), own: 0.0 }
    }

    /// Adds what some work of rdiag's own takes, such as reading.
    pub fn adding<T>(&mut self, work: impl FnOnce() -> T) -> T {
        let before = thread_usage();
        let done = work();
        self.own += thread_usage() - before;
        done
    }

    /// What so many events have cost.
    #[must_use]
    pub fn of(&self, events: u64) -> Spent {
        let cpu_seconds = events as f64 * self.each + self.own;
        Spent { events, cpu_seconds, each: self.each, is_measured: self.is_measured }
    }
}

/// Seconds that a system call takes which does next to nothing.
fn timed(host: &Host) -> f64 {
    let piece = |_| {
        let before = host.now();
        for _ in 0..CALLS {
            let _ = rustix::process::getpgid(None);
        }
        host.now() - before
    };
    (0..PIECES).map(piece).fold(f64::INFINITY, f64::min) / f64::from(CALLS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_cost_what_one_takes_and_what_was_done_for_them() {
        let mut cost = EventCost::new(Some(1e-6), EVENT_SECONDS);
        assert_eq!(cost.of(2_000_000), Spent { events: 2_000_000, cpu_seconds: 2.0, each: 1e-6, is_measured: true });
        let sum: u64 = cost.adding(|| (0..3_000_000_u64).map(std::hint::black_box).sum());
        assert!(sum > 0 && cost.of(0).cpu_seconds > 0.0, "{cost:?}");
    }

    #[test]
    fn what_could_not_be_measured_is_said_to_be_so() {
        for measured in [None, Some(-1e-9), Some(f64::NAN)] {
            let spent = EventCost::new(measured, 3e-7).of(10);
            assert!(!spent.is_measured && spent.each == 3e-7, "{spent:?}");
        }
    }
}
