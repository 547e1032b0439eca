//! The states of a thread over time, in a bounded number of slices.

use rdiag_kernel::host::Stolen;
use rdiag_model::Component;
use rdiag_model::ledger::{MAX_SLICES, Slice, Timeline};

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
    pub(super) fn into_timeline(self, tid: u32, user: f64, stolen: Stolen) -> Timeline {
        let mut slices = self.slices;
        for slice in &mut slices {
            let run: f64 = slice.parts.iter().filter(|part| part.0 == Component::CpuUser).map(|part| part.1).sum();
            if run <= 0.0 {
                continue;
            }
            let others: f64 = slice.parts.iter().filter(|part| part.0 != Component::CpuUser).map(|part| part.1).sum();
            let own = stolen.own(run);
            // Beside run time, it was taken for whatever the thread seemed to do.
            let beside = if let Stolen::Beside(ratio) = stolen { (run * ratio).min(others) } else { 0.0 };
            for part in slice.parts.iter_mut().filter(|part| part.0 != Component::CpuUser && others > 0.0) {
                part.1 *= 1.0 - beside / others;
            }
            slice.parts.retain(|part| part.0 != Component::CpuUser);
            let on_cpu = [
                (Component::CpuUser, own * user),
                (Component::CpuSys, own * (1.0 - user)),
                (Component::CpuSteal, run - own + beside),
            ];
            slice.parts.splice(0..0, on_cpu);
            slice.parts.retain(|part| part.1 > 0.0);
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
        let timeline = strip.into_timeline(7, 1.0, Stolen::Nothing);
        assert_eq!(timeline.slices[0].parts, [(Component::WaitSleep, 100.0)]);
        assert_eq!((timeline.slices[0].until, timeline.slices[1].from), (100.0, 200.0));
    }

    #[test]
    fn what_a_hypervisor_took_is_neither_running_nor_what_the_thread_did_else() {
        let parts = |stolen| {
            let mut strip = Strip::default();
            strip.add(0.0, 10.0, &[(Component::CpuUser, 6.0), (Component::Runq, 4.0)]);
            strip.into_timeline(7, 0.5, stolen).slices.remove(0).parts
        };
        use Component::{CpuSteal, CpuSys, CpuUser, Runq};
        assert_eq!(parts(Stolen::Beside(0.5)), [(CpuUser, 3.0), (CpuSys, 3.0), (CpuSteal, 3.0), (Runq, 1.0)]);
        assert_eq!(parts(Stolen::Within(0.5)), [(CpuUser, 1.5), (CpuSys, 1.5), (CpuSteal, 3.0), (Runq, 4.0)]);
        assert_eq!(parts(Stolen::Beside(9.0)), [(CpuUser, 3.0), (CpuSys, 3.0), (CpuSteal, 4.0)]);
    }

    #[test]
    fn however_much_happens_the_slices_are_bounded_and_no_second_is_lost() {
        let mut strip = Strip::default();
        for at in 0..100_000 {
            let part = if at % 2 == 0 { Component::CpuUser } else { Component::IpcPipe };
            strip.add(f64::from(at), f64::from(at + 1), &[(part, 1.0)]);
        }
        assert!(strip.slices.len() <= MAX_SLICES && strip.slices.len() > MAX_SLICES / 4, "{}", strip.slices.len());
        let timeline = strip.into_timeline(7, 0.5, Stolen::Nothing);
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
