//! The buckets of a histogram as bars: one for each power of two, from the first to the last that holds anything.

use rdiag_model::Unit;
use rdiag_model::probe::HistogramRow;
use rdiag_model::probed::Bar;

/// More than 64 powers of two cannot come from a counter of 64 bits; a file may say anything.
const MAX_BARS: usize = 80;

/// Bars in ascending order.
pub(super) fn bars(row: &HistogramRow, unit: Unit) -> Vec<Bar> {
    // The bounds are powers of two in the program's own unit (nanoseconds); a bucket's bound is the end of an eighth.
    let scale = if unit == Unit::Seconds { 1e9 } else { 1.0 };
    let own = |upper: f64| (upper * scale).round();
    let mut bars: Vec<Bar> = if row.coarse { coarse(row) } else { Vec::new() };
    for (upper, count) in row.buckets.iter().filter(|(upper, _)| upper.is_finite() && !row.coarse) {
        let (from, below) = if own(*upper) < 2.0 {
            (0.0, 0.0)
        } else {
            let below = own(*upper).log2().ceil().exp2() / scale;
            (below / 2.0, below)
        };
        while let Some(last) = bars.last().copied()
            && last.below > 0.0
            && last.below * 1.5 < below
            && bars.len() < MAX_BARS
        {
            bars.push(Bar { from: last.below, below: last.below * 2.0, ..Bar::default() });
        }
        let has_room = bars.len() < MAX_BARS;
        match bars.last_mut() {
            Some(last) if (last.below - below).abs() <= below * 1e-9 => last.count = last.count.saturating_add(*count),
            _ if has_room => bars.push(Bar { from, below, count: *count, length: 0.0 }),
            _ => break,
        }
    }
    let most = bars.iter().map(|bar| bar.count).max().unwrap_or(0).max(1);
    for bar in &mut bars {
        bar.length = bar.count as f64 / most as f64;
    }
    bars
}

/// Bars whose bounds are those of the buckets, powers of two being the largest in theirs: 0 to 1, 2, 3 to 4, 5 to 8 …
fn coarse(row: &HistogramRow) -> Vec<Bar> {
    let power = |upper: f64| (upper - 1.0).max(1.0).log2().round();
    let known = || row.buckets.iter().filter(|(upper, _)| upper.is_finite());
    let ends = (known().next(), known().next_back());
    let (Some((first, _)), Some((last, _))) = ends else { return Vec::new() };
    let mut bars = Vec::new();
    let mut at = power(*first);
    while at <= power(*last) && bars.len() < MAX_BARS {
        let within = known().filter(|(upper, _)| power(*upper) == at);
        let count = within.fold(0_u64, |sum, (_, count)| sum.saturating_add(*count));
        let from = if at == 0.0 { 0.0 } else { (at - 1.0).exp2() + 1.0 };
        bars.push(Bar { from, below: at.exp2() + 1.0, count, length: 0.0 });
        at += 1.0;
    }
    bars
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(buckets: &[(f64, u64)]) -> HistogramRow {
        HistogramRow { buckets: buckets.to_vec(), ..HistogramRow::default() }
    }

    #[test]
    fn eighths_add_up_to_powers_of_two_and_gaps_are_filled() {
        let bars = bars(&row(&[(1.0, 3), (9.0, 1), (10.0, 1), (16.0, 2), (64.0, 6)]), Unit::Count);
        let seen: Vec<_> = bars.iter().map(|bar| (bar.from, bar.below, bar.count, bar.length)).collect();
        let expected = [(0.0, 0.0, 3, 0.5), (8.0, 16.0, 4, 4.0 / 6.0), (16.0, 32.0, 0, 0.0), (32.0, 64.0, 6, 1.0)];
        assert_eq!(seen, expected);
    }

    #[test]
    fn a_coarse_bucket_has_its_power_of_two_as_its_largest_number() {
        let row = HistogramRow { coarse: true, ..row(&[(2.0, 4), (5.0, 1), (4097.0, 2)]) };
        let bars = bars(&row, Unit::Count);
        let seen: Vec<_> = bars.iter().map(|bar| (bar.from, bar.below, bar.count)).collect();
        assert_eq!(seen[..4], [(0.0, 2.0, 4), (2.0, 3.0, 0), (3.0, 5.0, 1), (5.0, 9.0, 0)]);
        assert_eq!((seen.last(), bars[0].length), (Some(&(2049.0, 4097.0, 2)), 1.0));
    }

    #[test]
    fn times_have_their_powers_of_two_in_nanoseconds() {
        let bars = bars(&row(&[(1024e-9, 2), (2048e-9, 1)]), Unit::Seconds);
        assert_eq!(bars.len(), 2);
        assert!((bars[1].from - 1024e-9).abs() < 1e-15 && (bars[1].below - 2048e-9).abs() < 1e-15, "{bars:?}");
    }

    #[test]
    fn no_buckets_at_all_or_any_numbers_end_somewhere() {
        assert_eq!(bars(&row(&[]), Unit::Seconds), []);
        let wild = row(&[(-5.0, u64::MAX), (f64::NAN, 1), (2.0, u64::MAX), (1e-300, 1), (1e300, u64::MAX), (3.0, 1)]);
        for (unit, coarse) in [(Unit::Seconds, false), (Unit::Count, false), (Unit::Count, true)] {
            assert!(bars(&HistogramRow { coarse, ..wild.clone() }, unit).len() <= MAX_BARS);
        }
    }
}
