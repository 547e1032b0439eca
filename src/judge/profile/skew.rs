//! Skew: where the *time* of many calls sits, by duration and by object.

use rdiag_model::ledger::Durations;
use rdiag_model::profile::{Bin, Piece, Range, Skew};
use rdiag_model::quantity;

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

/// Whatever is shorter than this shares one bucket, in nanoseconds.
const SHORTEST: f64 = 256.0;
/// Powers of two that 64 bits of nanoseconds can have; a file may say anything.
const MAX_BINS: usize = 64;

/// The durations by power of two of nanoseconds.
pub(super) fn bins(durations: &Durations) -> Vec<Bin> {
    let mut bins: Vec<(i32, Bin)> = Vec::new();
    for bucket in durations.buckets.iter().filter(|bucket| bucket.count > 0) {
        let below = (bucket.below * 1e9).round().clamp(SHORTEST, 1e18);
        // A bound that is a power of two is the end of the last eighth.
        let power = below.log2().ceil() as i32;
        // A gap becomes empty bars, since the axis has no gap.
        let first = bins.last().map_or(power, |(last, _)| last + 1);
        bins.extend((first..=power).take(MAX_BINS.saturating_sub(bins.len())).map(|power| (power, bin(power))));
        if let Some((_, bin)) = bins.iter_mut().rev().find(|(at, _)| *at == power) {
            bin.count = bin.count.saturating_add(bucket.count);
            bin.seconds += clean(bucket.seconds);
        }
    }
    bins.into_iter().map(|(_, bin)| bin).collect()
}

/// An empty one that ends with this power of two.
fn bin(power: i32) -> Bin {
    let below = 2_f64.powi(power);
    let from = if below <= SHORTEST { 0.0 } else { below / 2.0 };
    Bin { from: from / 1e9, below: below / 1e9, count: 0, seconds: 0.0 }
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

#[cfg(test)]
mod tests {
    use super::*;
    use rdiag_model::ledger::Bucket;

    #[test]
    fn bars_are_powers_of_two_without_a_gap_and_hold_every_wait_and_all_of_its_time() {
        let bucket = |below: f64, count, seconds| Bucket { below: below * 1e-9, count, seconds };
        let durations = Durations {
            buckets: vec![
                bucket(256.0, 3, 3e-7),
                bucket(288.0, 1, 2.7e-7),
                bucket(512.0, 2, 1e-6),
                bucket(4608.0, 4, 1.8e-5),
                bucket(0.0, 0, 0.0),
            ],
            ..Durations::default()
        };
        let bins = bins(&durations);
        let seen: Vec<(u64, u64)> = bins.iter().map(|bin| ((bin.below * 1e9).round() as u64, bin.count)).collect();
        assert_eq!(seen, [(256, 3), (512, 3), (1024, 0), (2048, 0), (4096, 0), (8192, 4)]);
        let sum: f64 = bins.iter().map(|bin| bin.seconds).sum();
        assert!((sum - 1.957e-5).abs() < 1e-12, "{sum}");
        assert_eq!(bins[0].from, 0.0);
        assert!(bins.windows(2).all(|pair| pair[0].below == pair[1].from));
    }

    #[test]
    fn whatever_bounds_a_file_has_there_are_few_bars() {
        let bounds = [-1.0, 0.0, 1e-300, 1e300, 5.0, 1e9];
        let buckets = bounds.map(|below| Bucket { below, count: u64::MAX, seconds: 1.0 }).to_vec();
        assert!(bins(&Durations { buckets, ..Durations::default() }).len() <= MAX_BINS);
    }
}
