//! The change of a counter between two samples: wrap, reset, and counters that may step back. A device, interface or control group that is
//! replaced by another of the same name within the window is a reset too: collectors record an identity beside the counters (disk sequence
//! number, interface index, inode), which `formula.rs` compares.

use rdiag_model::{Number, SeriesKind};

/// What became of a counter between two samples.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Delta {
    /// It grew by this much, in the series' own unit.
    Grew(f64),
    /// It went backwards: the sub-window says nothing.
    Reset,
}

/// The change from `previous` to `current`.
///
/// A 32-bit counter that went back has wrapped if the wrapped change is below half of its range; a larger change is no
/// plausible growth between two samples, so it is a reset.
pub(super) fn delta(kind: SeriesKind, previous: Number, current: Number) -> Delta {
    let (Number::Whole(before), Number::Whole(after)) = (previous, current) else {
        let change = current.as_f64() - previous.as_f64();
        return if change >= 0.0 { Delta::Grew(change) } else { Delta::Reset };
    };
    if after >= before {
        return Delta::Grew((after - before) as f64);
    }
    match kind {
        SeriesKind::CounterStepsBack => Delta::Grew(0.0),
        SeriesKind::Counter32 if before <= u64::from(u32::MAX) => {
            let wrapped = after + (1 << 32) - before;
            if wrapped < 1 << 31 { Delta::Grew(wrapped as f64) } else { Delta::Reset }
        }
        _ => Delta::Reset,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn change(kind: SeriesKind, before: u64, after: u64) -> Delta {
        delta(kind, Number::Whole(before), Number::Whole(after))
    }

    #[test]
    fn growth_is_exact_near_the_largest_value() {
        assert_eq!(change(SeriesKind::Counter, u64::MAX - 5, u64::MAX), Delta::Grew(5.0));
    }

    #[test]
    fn a_64_bit_counter_that_steps_back_is_a_reset_and_never_a_negative_rate() {
        assert_eq!(change(SeriesKind::Counter, 100, 99), Delta::Reset);
    }

    #[test]
    fn a_32_bit_counter_wraps_but_a_restart_from_zero_is_a_reset() {
        assert_eq!(change(SeriesKind::Counter32, 4_294_967_290, 10), Delta::Grew(16.0));
        assert_eq!(change(SeriesKind::Counter32, 1000, 0), Delta::Reset);
        assert_eq!(change(SeriesKind::Counter32, 1 << 40, 0), Delta::Reset, "it was no 32-bit counter after all");
    }

    #[test]
    fn idle_time_that_steps_back_counts_as_no_change() {
        assert_eq!(change(SeriesKind::CounterStepsBack, 100, 98), Delta::Grew(0.0));
    }
}
