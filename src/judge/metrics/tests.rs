//! Figures of known series.

use super::formula::{Part, Quotient, describe, statistics};

#[test]
fn of_twenty_intervals_with_one_peak_the_95th_percentile_is_not_the_peak() {
    // 1 to 19, and 100: by nearest rank the nineteenth of twenty.
    let values: Vec<f64> = (1..=19).map(f64::from).chain([100.0]).rev().collect();
    let stats = describe(14.5, 290.0, &values, Vec::new());
    assert_eq!((stats.min, stats.p95, stats.max), (1.0, 19.0, 100.0));
    assert_eq!((stats.mean, stats.total, stats.last), (14.5, 290.0, 1.0));
}

#[test]
fn of_few_intervals_the_95th_percentile_is_the_largest() {
    for count in [1, 2, 5, 19] {
        let values: Vec<f64> = (1..=count).map(f64::from).collect();
        assert_eq!(describe(1.0, 1.0, &values, Vec::new()).p95, f64::from(count), "{count} values");
    }
}

#[test]
fn a_rate_is_total_by_total_and_its_largest_interval_is_its_own() {
    // 10 within one second, then 10 within three.
    let part = |from, to, over| Part { from, to, over, under: to - from };
    let parts = [part(0.0, 1.0, 10.0), part(1.0, 4.0, 10.0)];
    let stats = statistics(&parts, Quotient::Rate, 4, 1.0, 0.0).unwrap();
    assert_eq!((stats.mean, stats.max, stats.total), (5.0, 10.0, 20.0));
    assert!((stats.min - 10.0 / 3.0).abs() < 1e-9);
    let spread: Vec<f64> = stats.intervals.into_iter().flatten().map(f64::round).collect();
    assert_eq!(spread, [10.0, 3.0, 3.0, 3.0]);
}
