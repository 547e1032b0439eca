//! What is due when: each collector at its cadence, and the most expensive one less often while the recorder uses more than its budget.

use std::collections::BTreeMap;

use super::super::record::Slot;
use rdiag_collectors::Cadence;

/// Capacities are read so many seconds apart.
const CAPACITIES: f64 = 60.0;
/// Nothing is read less often than every so many seconds.
const LONGEST: f64 = 600.0;
/// Below this part of the budget what was stretched is read more often again, after so many looks in a row.
const SLACK: f64 = 0.4;
const CALM_LOOKS: u32 = 10;

/// How often collectors are asked, and what that costs.
#[derive(Debug)]
pub(super) struct Governor {
    budget: f64,
    interval: f64,
    /// Seconds after which the cost is looked at.
    look: f64,
    /// Share of a CPU that recording left of the budget at the last look.
    spare: Option<f64>,
    /// Times as far apart as by themselves.
    stretch: BTreeMap<&'static str, u32>,
    /// Time and CPU seconds of the last look.
    looked: Option<(f64, f64)>,
    /// CPU seconds within each collector since the block began, at the last look.
    used: BTreeMap<&'static str, f64>,
    calm: u32,
}

impl Governor {
    pub(super) fn new(budget: f64, interval: f64, look: f64) -> Self {
        let (stretch, used) = (BTreeMap::new(), BTreeMap::new());
        Self { budget, interval, look, spare: None, stretch, looked: None, used, calm: 0 }
    }

    /// Share of a CPU that recording leaves of the budget, less than 0 beyond it; none before the first look.
    pub(super) fn spare(&self) -> Option<f64> {
        self.spare
    }

    /// Samples from one to the next of a collector when it is not stretched.
    fn natural(&self, cadence: Cadence) -> u32 {
        match cadence {
            Cadence::Interval | Cadence::Gauge => 1,
            Cadence::Ends => ((CAPACITIES / self.interval).round() as u32).max(1),
        }
    }

    /// Samples from one to the next of a collector.
    pub(super) fn every(&self, id: &str, cadence: Cadence) -> usize {
        self.natural(cadence).saturating_mul(self.stretch.get(id).copied().unwrap_or(1)) as usize
    }

    pub(super) fn is_due(&self, id: &str, cadence: Cadence, number: usize) -> bool {
        number.is_multiple_of(self.every(id, cadence))
    }

    /// Those that are asked less often, as so many times their own interval.
    pub(super) fn stretched(&self) -> BTreeMap<String, u32> {
        self.stretch.iter().map(|(id, times)| ((*id).to_owned(), *times)).collect()
    }

    /// Looks at the cost once a minute: what changed, in words.
    pub(super) fn settle(&mut self, slots: &[Slot], now: f64, cpu: f64) -> Option<String> {
        let (then, cpu_then) = *self.looked.get_or_insert((now, cpu));
        if now - then < self.look {
            return None;
        }
        let share = (cpu - cpu_then) / (now - then);
        let cost = |slot: &Slot| {
            // A block begins with none.
            let before = self.used.get(slot.id).copied().unwrap_or(0.0);
            (slot.id, slot.cadence, if slot.cpu >= before { slot.cpu - before } else { slot.cpu })
        };
        let costs: Vec<(&'static str, Cadence, f64)> = slots.iter().map(cost).collect();
        self.used = slots.iter().map(|slot| (slot.id, slot.cpu)).collect();
        self.looked = Some((now, cpu));
        self.spare = Some(self.budget - share);
        self.decide(share, &costs)
    }

    fn decide(&mut self, share: f64, costs: &[(&'static str, Cadence, f64)]) -> Option<String> {
        let percent = |share: f64| format!("{:.2} %", share * 100.0);
        if share > self.budget {
            self.calm = 0;
            let room = |id: &str, cadence| {
                let every = f64::from(self.natural(cadence)) * f64::from(self.stretch.get(id).copied().unwrap_or(1));
                every * 2.0 * self.interval <= LONGEST
            };
            let dearest =
                costs.iter().filter(|(id, cadence, _)| room(id, *cadence)).max_by(|a, b| a.2.total_cmp(&b.2))?;
            let times = self.stretch.entry(dearest.0).or_insert(1);
            *times *= 2;
            let seconds = f64::from(*times) * f64::from(self.natural(dearest.1)) * self.interval;
            return Some(format!(
                "recording used {} of a CPU in the last minute, of {} allowed: {} is read every {seconds:.0} s now",
                percent(share),
                percent(self.budget),
                dearest.0
            ));
        }
        self.calm = if share < self.budget * SLACK { self.calm + 1 } else { 0 };
        if self.calm < CALM_LOOKS {
            return None;
        }
        self.calm = 0;
        let (id, times) = self.stretch.iter_mut().max_by_key(|(_, times)| **times)?;
        *times /= 2;
        let told =
            format!("recording used {} of a CPU in the last minute: {id} is read twice as often again", percent(share));
        self.stretch.retain(|_, times| *times > 1);
        Some(told)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const COSTS: [(&str, Cadence, f64); 3] =
        [("processes", Cadence::Interval, 0.5), ("psi", Cadence::Interval, 0.1), ("filesystems", Cadence::Ends, 0.2)];

    #[test]
    fn counters_are_due_each_time_and_capacities_once_a_minute() {
        let governor = Governor::new(0.005, 5.0, 60.0);
        let due = |id, cadence| (0..25).filter(|at| governor.is_due(id, cadence, *at)).collect::<Vec<_>>();
        assert_eq!(due("psi", Cadence::Interval).len(), 25);
        assert_eq!(due("filesystems", Cadence::Ends), [0, 12, 24]);
    }

    #[test]
    fn the_dearest_is_stretched_until_it_fits_and_comes_back_when_there_is_room() {
        let mut governor = Governor::new(0.005, 5.0, 60.0);
        let said = governor.decide(0.012, &COSTS).unwrap();
        assert_eq!(
            said,
            "recording used 1.20 % of a CPU in the last minute, of 0.50 % allowed: processes is read every 10 s now"
        );
        assert!(
            governor.is_due("processes", Cadence::Interval, 2) && !governor.is_due("processes", Cadence::Interval, 3)
        );
        assert_eq!(governor.stretched(), BTreeMap::from([("processes".to_owned(), 2)]));
        for _ in 0..20 {
            governor.decide(0.1, &COSTS);
        }
        // Nothing is left that may be read less often.
        assert!(governor.stretch.values().all(|times| *times <= 64) && governor.decide(0.1, &COSTS).is_none());
        for _ in 0..CALM_LOOKS - 1 {
            assert_eq!(governor.decide(0.001, &COSTS), None);
        }
        assert!(governor.decide(0.001, &COSTS).unwrap().contains("twice as often again"));
    }

    #[test]
    fn what_recording_leaves_of_the_budget_is_known_from_the_first_look_on() {
        let mut governor = Governor::new(0.005, 5.0, 60.0);
        for (now, cpu, spare) in
            [(0.0, 10.0, None), (30.0, 10.1, None), (60.0, 10.12, Some(0.003)), (120.0, 10.6, Some(-0.003))]
        {
            governor.settle(&[], now, cpu);
            let known = governor.spare();
            assert!(
                known.zip(spare).map_or(known == spare, |(known, spare)| (known - spare).abs() < 1e-9),
                "{now}: {known:?}"
            );
        }
    }
}
