//! The states of a thread over time, in a bounded number of slices.

use crate::model::Component;
use crate::model::ledger::{MAX_SLICES, Slice, Timeline};

/// A timeline that is being made.
#[derive(Debug, Default)]
pub(super) struct Strip {
    slices: Vec<Slice>,
    /// Slices are at least so long, in seconds: it grows as there are more.
    width: f64,
}

impl Strip {
    /// Adds what follows: the parts of the time between two looks at the thread.
    pub(super) fn add(&mut self, from: f64, until: f64, parts: &[(Component, f64)]) {
        let parts: Vec<(Component, f64)> = parts.iter().copied().filter(|(_, seconds)| *seconds > 0.0).collect();
        if until <= from || parts.is_empty() {
            return;
        }
        let slice = Slice { from, until, parts };
        match self.slices.last_mut() {
            Some(last) if joins(last, &slice, self.width) => join(last, slice),
            _ => self.slices.push(slice),
        }
        while self.slices.len() > MAX_SLICES {
            let all =
                self.slices.last().map_or(0.0, |last| last.until) - self.slices.first().map_or(0.0, |first| first.from);
            self.width = (self.width * 2.0).max(2.0 * all / MAX_SLICES as f64);
            let mut joined: Vec<Slice> = Vec::with_capacity(MAX_SLICES);
            for slice in self.slices.drain(..) {
                match joined.last_mut() {
                    Some(last) if joins(last, &slice, self.width) => join(last, slice),
                    _ => joined.push(slice),
                }
            }
            self.slices = joined;
        }
    }

    /// The timeline; CPU time is divided as the whole of the thread's is: `user` is the share of its own code.
    pub(super) fn into_timeline(self, tid: u32, user: f64) -> Timeline {
        let mut slices = self.slices;
        for slice in &mut slices {
            let cpu = slice.parts.iter().position(|(component, _)| *component == Component::CpuUser);
            if let Some(part) = cpu.and_then(|at| slice.parts.get_mut(at)) {
                let system = part.1 * (1.0 - user);
                part.1 *= user;
                if system > 0.0 {
                    slice.parts.push((Component::CpuSys, system));
                }
                slice.parts.retain(|(_, seconds)| *seconds > 0.0);
            }
        }
        Timeline { tid, slices }
    }
}

/// Whether two slices become one: nothing but the same in both, or short. A gap between them stays.
fn joins(last: &Slice, next: &Slice, width: f64) -> bool {
    let same = match (last.parts.as_slice(), next.parts.as_slice()) {
        ([(a, _)], [(b, _)]) => a == b,
        _ => false,
    };
    next.from - last.until < 1e-3 && (same || next.until - last.from <= width)
}

fn join(last: &mut Slice, next: Slice) {
    last.until = next.until;
    for (component, seconds) in next.parts {
        match last.parts.iter_mut().find(|(known, _)| *known == component) {
            Some((_, sum)) => *sum += seconds,
            None => last.parts.push((component, seconds)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_state_is_one_slice_and_a_gap_stays_one() {
        let mut strip = Strip::default();
        for at in 0..100 {
            strip.add(f64::from(at), f64::from(at + 1), &[(Component::WaitSleep, 1.0)]);
        }
        strip.add(200.0, 201.0, &[(Component::WaitSleep, 1.0)]);
        assert_eq!(strip.slices.len(), 2);
        let timeline = strip.into_timeline(7, 1.0);
        assert_eq!(timeline.slices[0].parts, [(Component::WaitSleep, 100.0)]);
        assert_eq!((timeline.slices[0].until, timeline.slices[1].from), (100.0, 200.0));
    }

    #[test]
    fn however_much_happens_the_slices_are_bounded_and_no_second_is_lost() {
        let mut strip = Strip::default();
        for at in 0..100_000 {
            let part = if at % 2 == 0 { Component::CpuUser } else { Component::IpcPipe };
            strip.add(f64::from(at), f64::from(at + 1), &[(part, 1.0)]);
        }
        assert!(strip.slices.len() <= MAX_SLICES && strip.slices.len() > MAX_SLICES / 4, "{}", strip.slices.len());
        let timeline = strip.into_timeline(7, 0.5);
        let sum = |wanted| -> f64 {
            timeline
                .slices
                .iter()
                .flat_map(|slice| &slice.parts)
                .filter(|part| part.0 == wanted)
                .map(|part| part.1)
                .sum()
        };
        assert!((sum(Component::CpuUser) - 25_000.0).abs() < 1e-3 && (sum(Component::CpuSys) - 25_000.0).abs() < 1e-3);
        assert!((sum(Component::IpcPipe) - 50_000.0).abs() < 1e-3);
        assert!(timeline.slices.is_sorted_by(|a, b| a.until <= b.from));
    }
}
