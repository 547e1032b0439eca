//! What happened in a slice, and of how much of it that is known.

use super::super::changes::short;
use super::tasks::{Largest, Most};
use rdiag_model::report::{Course, Pressure, TopConsumer};

/// Times in which tasks stalled, in microseconds.
pub(super) const STALLED: [&str; 5] =
    ["psi.cpu_some", "psi.memory_some", "psi.memory_full", "psi.io_some", "psi.io_full"];

/// A sum, the whole that it is a part of, and the seconds of which both are known.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Sum {
    sum: f64,
    whole: f64,
    seconds: f64,
}

/// The sums of a slice.
#[derive(Debug, Clone, Default)]
pub(super) struct Sums {
    /// Ticks in which CPUs were busy, of all.
    pub(super) busy: Sum,
    /// Seconds in which tasks stalled.
    pub(super) stalled: [Sum; STALLED.len()],
    /// Seconds of all CPUs while processes were looked at.
    pub(super) looked: Sum,
}

impl Sum {
    pub(super) fn add(&mut self, sum: f64, whole: f64, seconds: f64) {
        *self = Self { sum: self.sum + sum, whole: self.whole + whole, seconds: self.seconds + seconds };
    }

    /// The share, if it is known of long enough.
    fn share(&self, least: f64) -> Option<f64> {
        if self.seconds >= least { part(self.sum, self.whole) } else { None }
    }
}

/// A part of a whole; none where there is no whole.
fn part(sum: f64, whole: f64) -> Option<f64> {
    let share = sum / whole;
    share.is_finite().then(|| share.clamp(0.0, 1.0))
}

impl Sums {
    /// Adds those of the next slice.
    pub(super) fn join(&mut self, next: &Self) {
        let sums = self.stalled.iter_mut().chain([&mut self.busy, &mut self.looked]);
        for (sum, next) in sums.zip(next.stalled.iter().chain([&next.busy, &next.looked])) {
            sum.add(next.sum, next.whole, next.seconds);
        }
    }

    /// What is known of at least so many seconds; when it was, the caller knows.
    pub(super) fn told(&self, least: f64, largest: &Largest<'_>) -> Course {
        let [cpu_some, memory_some, memory_full, io_some, io_full] =
            std::array::from_fn(|which| self.stalled.get(which).and_then(|sum| sum.share(least)));
        let top = |most: Most<'_>, whole: f64| {
            let (name, used) = most.filter(|_| self.looked.seconds >= least)?;
            Some(TopConsumer { name: short(name), share: part(used, whole)? })
        };
        Course {
            shown: String::new(),
            seconds: 0.0,
            cpu: self.busy.share(least),
            pressure: Pressure { cpu_some, memory_some, memory_full, io_some, io_full },
            top_cpu: top(largest.cpu, self.looked.whole),
            top_io: top(largest.io, largest.moved),
        }
    }
}
