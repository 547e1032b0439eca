//! Goals that a share of the runs is to meet: p99 ≤ 50 ms.

use std::collections::BTreeSet;

use rdiag_model::Component;
use rdiag_model::profile::{Goal, Reach};
use rdiag_model::quantity::{percent, seconds};
use rdiag_model::runs::PercentileGoal;

use super::account::share;
use super::each::{LEAST, One};

/// From so many runs beyond a percentile on it is one of these runs, and not of a few of them.
const BEYOND: f64 = 10.0;
/// So unlikely must it be that runs which meet the goal are this slow, to call it missed where they are few.
const DOUBT: f64 = 0.05;
/// Components that are named.
const MAX_ROWS: usize = 4;

/// How runs, the fastest first, stand to a goal of which this share is to take no longer.
pub(super) fn of(all: &[One<'_, '_>], wanted: f64, goal: f64) -> PercentileGoal {
    let missed = all.iter().filter(|one| one.seconds() > goal).count();
    let is_enough = all.len() as f64 >= (BEYOND / (1.0 - wanted)).round();
    let at = ((wanted * all.len() as f64).ceil() as usize).saturating_sub(1);
    let now = all.get(at).filter(|_| is_enough).map(One::seconds);
    // Of few runs, some that miss it may be proof; that none does is none.
    let is_proven = || at_least(all.len(), missed, 1.0 - wanted) < DOUBT;
    let met = match now {
        Some(now) => Some(now <= goal),
        None => (missed > 0 && is_proven()).then_some(false),
    };
    let without = if met == Some(false) { without(all, goal) } else { Vec::new() };
    PercentileGoal { share: wanted, seconds: goal, now, missed: missed as u64, met, without }
}

/// How likely so many or more of `all` are where each is one with this probability, between 0 and 1.
pub(super) fn at_least(all: usize, many: usize, each: f64) -> f64 {
    // Logarithms, since the single terms are too small for numbers.
    let (one, other) = (each.ln(), (1.0 - each).ln());
    let mut choices = 0.0;
    let mut sum = 0.0;
    for at in 0..=all {
        if at >= many {
            sum += (choices + one * at as f64 + other * (all - at) as f64).exp();
        }
        choices += ((all - at) as f64).ln() - ((at + 1) as f64).ln();
    }
    sum.min(1.0)
}

/// How many would still miss the goal if one component were as short as in the faster half, for each that makes a difference.
fn without(all: &[One<'_, '_>], goal: f64) -> Vec<(Component, u64)> {
    let Some(fast) = all.get(..all.len() / 2).filter(|_| all.len() >= LEAST) else { return Vec::new() };
    let ids: BTreeSet<Component> = all.iter().flat_map(|one| one.parts.keys().map(|key| key.component)).collect();
    let missed = all.iter().filter(|one| one.seconds() > goal).count();
    let left = |id: Component| {
        let mean = share(fast.iter().map(|one| one.of(id)).sum(), fast.len() as f64);
        let still = |one: &&One<'_, '_>| one.seconds() - (one.of(id) - mean).max(0.0) > goal;
        (id, all.iter().filter(still).count())
    };
    let mut left: Vec<(Component, usize)> = ids.into_iter().map(left).filter(|(_, still)| *still < missed).collect();
    left.sort_by_key(|(_, still)| *still);
    left.truncate(MAX_ROWS);
    left.into_iter().map(|(id, still)| (id, still as u64)).collect()
}

/// The goal in words; of `count` runs.
pub(super) fn goal(of: Option<&PercentileGoal>, wanted: f64, goal: f64, count: u64) -> Goal {
    let name = format!("{} ≤ {}", name(wanted), seconds(goal));
    let told = |reach, to_save, words| Goal {
        goal_seconds: goal,
        to_save_seconds: to_save,
        reach,
        reductions: Vec::new(),
        words,
    };
    let Some(of) = of.filter(|_| count > 0) else {
        let words = format!("Whether {name} is met is not known: it is about single runs, and none was seen (--each).");
        return told(Reach::Unknown, 0.0, words);
    };
    let part = share(of.missed as f64, count as f64);
    let may = percent(1.0 - wanted);
    let now = of.now.map(|now| format!(" ({} is {})", self::name(wanted), seconds(now))).unwrap_or_default();
    let took = format!("{} of {count} runs ({}) took longer, and {may} may{now}", of.missed, percent(part));
    match of.met {
        Some(true) => told(Reach::Met, 0.0, format!("The goal {name} is met: {took}.")),
        None => {
            let least = (BEYOND / (1.0 - wanted)).round();
            let words = format!("Whether {name} is met is not known: {took}, but that takes {least} runs to tell.");
            told(Reach::Unknown, 0.0, words)
        }
        Some(false) => {
            let (reach, how) = how(of, wanted, count);
            let to_save = of.now.map_or(0.0, |now| (now - goal).max(0.0));
            told(reach, to_save, format!("The goal {name} is missed: {took}. {how}"))
        }
    }
}

/// What it would take.
fn how(of: &PercentileGoal, wanted: f64, count: u64) -> (Reach, String) {
    let Some((id, left)) = of.without.first() else {
        return (Reach::Several, "No single component of the slow runs makes up the difference.".to_owned());
    };
    let still = match left {
        0 => "none".to_owned(),
        left => format!("{left} ({})", percent(share(*left as f64, count as f64))),
    };
    let what = format!("If {} took no longer than in the faster half, {still} would", id.def().phrase);
    if *left as f64 <= (1.0 - wanted) * count as f64 {
        (Reach::One, format!("{what}."))
    } else {
        (Reach::Several, format!("{what}; no single component is enough."))
    }
}

/// `p99`, `p99.9`.
pub(super) fn name(share: f64) -> String {
    format!("p{}", (share * 1e4).round() / 1e2)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_runs_prove_that_a_goal_is_missed_only_if_that_is_unlikely_otherwise() {
        // P(at least 1 of 20 | 1 %) = 0.182; at least 2: 0.017.
        assert!((at_least(20, 1, 0.01) - 0.182).abs() < 1e-3 && (at_least(20, 2, 0.01) - 0.0169).abs() < 1e-3);
        assert_eq!((at_least(20, 0, 0.01), at_least(0, 0, 0.01)), (1.0, 1.0));
        assert!(at_least(1000, 1000, 0.01) < 1e-9);
    }

    #[test]
    fn percentiles_are_named_without_what_floating_point_adds() {
        assert_eq!([0.99, 0.999, 0.5, 0.995].map(name), ["p99", "p99.9", "p50", "p99.5"]);
    }

    #[test]
    fn without_single_runs_nothing_is_known_of_a_percentile() {
        let told = goal(None, 0.99, 0.05, 0);
        assert!(told.reach == Reach::Unknown && told.words.contains("--each"), "{}", told.words);
    }
}
