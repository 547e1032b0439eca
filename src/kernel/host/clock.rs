//! Time: the monotonic clock, waiting that a signal can end, and rdiag's own use of the machine.

use std::sync::atomic::{AtomicBool, Ordering};

use jiff::Timestamp;
use rdiag_proc::field;
use rustix::time::{ClockId, Timespec, clock_gettime};

use crate::host::replay::HostSpec;

/// No wait is longer in one piece, so that a signal, or the end of a command that is measured, is noticed soon.
const SLICE_SECONDS: f64 = 0.05;

/// The clock of a live host or of a recorded tree.
#[derive(Debug)]
pub enum Clock {
    /// CLOCK_MONOTONIC.
    Live,
    /// The recorded instants.
    Replay {
        /// Monotonic seconds by instant.
        times: Vec<f64>,
        /// Wall-clock time of the first.
        started: String,
    },
}

impl Clock {
    /// The machine's clock.
    pub fn live() -> Self {
        Self::Live
    }

    /// A recorded tree's clock.
    pub fn replay(spec: &HostSpec) -> Self {
        Self::Replay { times: spec.times.clone(), started: spec.started.clone() }
    }

    /// Monotonic seconds.
    pub fn now(&self, instant: usize) -> f64 {
        match self {
            Self::Live => monotonic(),
            Self::Replay { times, .. } => times.get(instant).or(times.last()).copied().unwrap_or(0.0),
        }
    }

    /// CLOCK_BOOTTIME − CLOCK_MONOTONIC.
    pub fn suspended(&self) -> f64 {
        match self {
            Self::Live => seconds(clock_gettime(ClockId::Boottime)) - seconds(clock_gettime(ClockId::Monotonic)),
            Self::Replay { .. } => 0.0,
        }
    }

    /// Wall-clock time, RFC 3339, UTC, to the second.
    pub fn wall(&self) -> String {
        match self {
            Self::Live => {
                let now = Timestamp::now();
                Timestamp::from_second(now.as_second()).unwrap_or(now).to_string()
            }
            Self::Replay { started, .. } => started.clone(),
        }
    }

    /// Wall-clock time in microseconds since 1970; a recorded tree's to the second, and as if its first instant went on.
    pub fn wall_micros(&self) -> i64 {
        match self {
            Self::Live => Timestamp::now().as_microsecond(),
            Self::Replay { started, .. } => started.parse::<Timestamp>().map_or(0, Timestamp::as_microsecond),
        }
    }

    /// Sleeps until a monotonic time; `false` when `stop` was set before that.
    pub fn wait_until(&self, until: f64, stop: &AtomicBool) -> bool {
        self.sleep_until(until, SLICE_SECONDS, stop)
    }

    /// The same in pieces of so many seconds: a signal to this thread ends one, and what other threads do is noticed after it.
    pub(super) fn sleep_until(&self, until: f64, slice_seconds: f64, stop: &AtomicBool) -> bool {
        loop {
            if stop.load(Ordering::Relaxed) {
                return false;
            }
            let left = until - self.now(0);
            if left <= 0.0 {
                return true;
            }
            let slice = left.min(slice_seconds);
            let request = Timespec { tv_sec: slice as i64, tv_nsec: (slice.fract() * 1e9) as i64 };
            let _ = rustix::thread::nanosleep(&request);
        }
    }
}

/// CLOCK_MONOTONIC in seconds.
pub(super) fn monotonic() -> f64 {
    seconds(clock_gettime(ClockId::Monotonic))
}

fn seconds(time: Timespec) -> f64 {
    time.tv_sec as f64 + time.tv_nsec as f64 * 1e-9
}

/// CPU seconds of the thread that asks, user and system.
#[must_use]
pub fn thread_usage() -> f64 {
    seconds(clock_gettime(ClockId::ThreadCPUTime))
}

/// CPU seconds (user and system) and the largest resident memory in bytes that this process used so far.
#[must_use]
pub fn own_usage() -> (f64, u64) {
    // VmHWM is in /proc/self/status; getrusage would need a call that the safe wrappers do not offer.
    let cpu = seconds(clock_gettime(ClockId::ProcessCPUTime));
    #[expect(clippy::disallowed_methods, reason = "rdiag's own cost is real even on a recorded tree")]
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let peak = field(&status, "VmHWM:").and_then(|rest| rest.split_whitespace().next()?.parse::<u64>().ok());
    (cpu, peak.unwrap_or(0) * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wait_ends_at_its_time_and_not_before_unless_it_is_stopped() {
        let clock = Clock::live();
        for slice in [0.001, 60.0] {
            let until = clock.now(0) + 0.02;
            assert!(clock.sleep_until(until, slice, &AtomicBool::new(false)));
            assert!(clock.now(0) >= until);
            assert!(!clock.sleep_until(until + 60.0, slice, &AtomicBool::new(true)));
        }
    }
}
