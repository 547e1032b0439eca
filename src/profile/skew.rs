//! Skew: where the *time* of many calls sits, by duration and by object.

use crate::model::ledger::Durations;
use crate::model::profile::{Piece, Range, Skew};
use crate::model::quantity;

use super::account::{clean, share};

/// Fewer calls than this say nothing about skew.
const LEAST: u64 = 20;
/// At most this share of the calls …
const FEW: f64 = 0.05;
/// … with at least this share of the time are the few slow ones.
const FEW_HOLD: f64 = 0.5;
/// Small calls (at most twice the mean), or one key, that hold at least this share of the time are all that matters.
const MOST: f64 = 0.8;

/// The durations by decade.
pub(super) fn ranges(durations: &Durations) -> Vec<Range> {
    let mut ranges: Vec<(i32, u64, f64)> = Vec::new();
    for bucket in durations.buckets.iter().filter(|bucket| bucket.count > 0) {
        let seconds = clean(bucket.seconds);
        let decade = (seconds / bucket.count as f64).max(1e-9).log10().floor().clamp(-9.0, 9.0) as i32;
        match ranges.last_mut() {
            Some((last, count, sum)) if *last == decade => {
                *count = count.saturating_add(bucket.count);
                *sum += seconds;
            }
            _ => ranges.push((decade, bucket.count, seconds)),
        }
    }
    let all: f64 = ranges.iter().map(|(_, _, seconds)| seconds).sum();
    let calls: f64 = ranges.iter().map(|(_, count, _)| *count as f64).sum();
    let range = |(decade, count, seconds): (i32, u64, f64)| Range {
        from: 10_f64.powi(decade),
        below: 10_f64.powi(decade + 1),
        seconds,
        share: share(seconds, all),
        count,
        count_share: share(count as f64, calls),
        mean: share(seconds, count as f64),
    };
    ranges.into_iter().map(range).collect()
}

/// Of the slowest calls that together hold half of the time: how many they are, and how much they hold.
fn slowest_half(durations: &Durations) -> (f64, f64) {
    let all: f64 = durations.buckets.iter().map(|bucket| clean(bucket.seconds)).sum();
    let (mut calls, mut held) = (0.0, 0.0);
    for bucket in durations.buckets.iter().rev().filter(|bucket| bucket.count > 0) {
        let (count, seconds) = (bucket.count as f64, clean(bucket.seconds));
        let missing = all * FEW_HOLD - held;
        if seconds >= missing {
            // Whole calls only: a part of one holds no time.
            let needed = (missing * count / seconds.max(1e-12)).ceil().clamp(1.0, count);
            return (calls + needed, held + needed * seconds / count);
        }
        calls += count;
        held += seconds;
    }
    (calls, held)
}

/// The verdict, and what it means.
pub(super) fn verdict(durations: Option<&Durations>, keys: &[Piece]) -> (Skew, String) {
    let single = keys.iter().find(|piece| piece.others == 0 && !piece.name.is_empty() && piece.share >= MOST);
    let of_key = |piece: &Piece| {
        let percent = quantity::percent(piece.share);
        (Skew::OneKey, format!("{} holds {percent} of this time: look at it.", piece.name))
    };
    let Some(durations) = durations.filter(|durations| durations.count >= LEAST) else {
        return single.map_or((Skew::Unknown, String::new()), of_key);
    };
    let all: f64 = durations.buckets.iter().map(|bucket| clean(bucket.seconds)).sum();
    let calls = durations.count as f64;
    let mean = share(all, calls);
    let (slow, held) = slowest_half(durations);
    if slow <= calls * FEW && all > 0.0 {
        let words = format!(
            "{} of {} ({}) hold {} of this time: look at those, not at the average.",
            quantity::number(slow),
            quantity::number(calls),
            quantity::percent(slow / calls),
            quantity::percent(share(held, all))
        );
        return (Skew::FewSlow, words);
    }
    let small = durations.buckets.iter().filter(|bucket| share(bucket.seconds, bucket.count as f64) <= 2.0 * mean);
    let small: f64 = small.map(|bucket| clean(bucket.seconds)).sum();
    if small >= all * MOST && all > 0.0 {
        let words = format!(
            "{} of about {} each: having fewer of them (batching, caching, larger requests) saves as much as making \
             them faster.",
            quantity::number(calls),
            quantity::seconds(mean)
        );
        return (Skew::ManySmall, words);
    }
    if let Some(piece) = single {
        return of_key(piece);
    }
    (Skew::Mixed, "Short and long ones share this time: half of the calls gone need not be half of the time.".into())
}

/// A percentile, where there are enough durations to claim it.
pub(super) fn percentile(durations: Option<&Durations>, share: f64) -> Option<f64> {
    durations.filter(|durations| durations.count as f64 >= (10.0 / (1.0 - share)).round())?.percentile(share)
}
