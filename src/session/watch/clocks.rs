//! The clocks at the beginning of a block, and whether they went on alike since: a block knows one moment by the wall clock, and counts
//! from it.

use rdiag_kernel::host::Host;

/// A clock that was set by more than so many seconds begins a new block, in which it is right again.
const CLOCK_STEP: f64 = 1.0;

/// The clocks at one moment.
pub(super) struct Clocks {
    pub(super) wall_micros: i64,
    pub(super) monotonic: f64,
    /// Seconds that the host slept since it was booted.
    pub(super) suspended: f64,
}

impl Clocks {
    pub(super) fn now(host: &Host) -> Self {
        Self { wall_micros: host.wall_micros(), monotonic: host.now(), suspended: host.suspended() }
    }

    /// Whether the wall clock was set, or the machine slept, since an earlier moment.
    pub(super) fn stepped_since(&self, before: &Self) -> bool {
        let wall = self.wall_micros.saturating_sub(before.wall_micros) as f64 * 1e-6;
        let step = wall - (self.monotonic - before.monotonic);
        step.abs() > CLOCK_STEP || (self.suspended - before.suspended).abs() > CLOCK_STEP
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WALL: i64 = 1_760_000_000_000_000;

    /// So many seconds later by the monotonic clock; the host slept, and the wall clock was set, by so many.
    fn later(passed: f64, slept: f64, set: f64) -> Clocks {
        Clocks {
            wall_micros: WALL + ((passed + slept + set) * 1e6) as i64,
            monotonic: 5000.0 + passed,
            suspended: 40.0 + slept,
        }
    }

    fn stepped(passed: f64, slept: f64, set: f64) -> bool {
        later(passed, slept, set).stepped_since(&later(0.0, 0.0, 0.0))
    }

    #[test]
    fn a_clock_that_was_set_by_an_hour_either_way_begins_a_new_block() {
        for passed in [0.0, 5.0, 595.0] {
            assert!(stepped(passed, 0.0, 3600.0) && stepped(passed, 0.0, -3600.0), "{passed}");
            assert!(stepped(passed, 0.0, 1.5) && stepped(passed, 0.0, -1.5), "{passed}");
        }
    }

    #[test]
    fn a_suspended_host_begins_a_new_block_whatever_its_wall_clock_says_of_that() {
        assert!(stepped(5.0, 3600.0, 0.0) && stepped(5.0, 2.0, 0.0));
        // The wall clock stood still while the host slept.
        assert!(stepped(5.0, 3600.0, -3600.0));
    }

    #[test]
    fn a_clock_that_is_slewed_by_ntp_does_not() {
        assert!(!stepped(595.0, 0.0, 0.0) && !stepped(3600.0, 0.0, 0.3) && !stepped(595.0, 0.0, -0.3));
        assert!(!stepped(595.0, 0.5, 0.0), "what a virtual machine was paused for");
    }

    #[test]
    fn no_clock_makes_it_panic() {
        let edge = |wall_micros| Clocks { wall_micros, monotonic: 0.0, suspended: 0.0 };
        assert!(edge(i64::MAX).stepped_since(&edge(i64::MIN)) && edge(i64::MIN).stepped_since(&edge(i64::MAX)));
    }
}
