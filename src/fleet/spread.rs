//! Median, distance from it, and what distance matters.

use rdiag_model::Unit;

/// 0.6745 median absolute deviations are one standard deviation, if the values are normally distributed.
const DEVIATION: f64 = 0.6745;
/// A deviation below this share of the median is taken for so much: hosts that agree to a per mille are no measure.
const LEAST_SHARE: f64 = 0.01;
/// The same of a logarithm. Of five hosts with figures that vary, three may agree to a per cent by chance: one of 1320 groups of two parts
/// had an odd host by that.
const LEAST_LOG: f64 = 0.02;
/// The resolution beside a median of 0 is taken for no more than this factor, as a logarithm.
const LOG_RESOLUTION: f64 = 0.4;

/// The median of values, none of which is NaN; the mean of the two in the middle. The order changes.
pub(crate) fn median(values: &mut [f64]) -> Option<f64> {
    values.sort_unstable_by(f64::total_cmp);
    let half = values.len() / 2;
    let upper = *values.get(half)?;
    if values.len() % 2 == 1 {
        return Some(upper);
    }
    Some(f64::midpoint(*values.get(half.checked_sub(1)?)?, upper))
}

/// The resolution of a unit, and the smallest difference that matters.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Scale {
    /// A smaller deviation is the noise of the measurement.
    resolution: f64,
    /// A smaller difference does not matter.
    material: f64,
    /// Whether a difference must be a factor of two as well.
    doubles: bool,
}

impl Scale {
    pub(crate) fn of(unit: Unit) -> Self {
        let (resolution, material, doubles) = match unit {
            Unit::Ratio => (0.005, 0.05, false),
            Unit::Seconds => (1e-4, 1e-3, true),
            Unit::Bytes => (1_048_576.0, 64.0 * 1_048_576.0, true),
            Unit::Count => (1.0, 10.0, true),
            Unit::PerSecond => (1.0, 10.0, true),
            Unit::BytesPerSecond => (10_240.0, 1_048_576.0, true),
        };
        Self { resolution, material, doubles }
    }

    /// Whether two values differ by so much that it matters.
    pub(crate) fn is_material(self, one: f64, other: f64) -> bool {
        let (small, large) = (one.abs().min(other.abs()), one.abs().max(other.abs()));
        (one - other).abs() >= self.material && (!self.doubles || one * other < 0.0 || large >= 2.0 * small)
    }

    /// The value on a scale where a factor is a distance; what is below the resolution hardly counts.
    fn log(self, value: f64) -> f64 {
        (value.abs() / self.resolution).ln_1p().copysign(value)
    }

    /// What the resolution is on that scale, beside a median.
    fn log_resolution(self, median: f64) -> f64 {
        (self.resolution / (median.abs() + self.resolution)).ln_1p().clamp(LEAST_LOG, LOG_RESOLUTION)
    }
}

/// The middle and spread of a group's values, by which each of them is measured.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Spread {
    scale: Scale,
    pub(crate) median: f64,
    deviation: f64,
    /// The same of the logarithms, where values may range over orders of magnitude.
    log: Option<(f64, f64)>,
}

impl Spread {
    /// Of values without NaN; none if there are none.
    pub(crate) fn of(values: &[f64], unit: Unit) -> Option<Self> {
        let scale = Scale::of(unit);
        let (median, deviation) = middle(values)?;
        let log = match scale.doubles {
            true => {
                let logs: Vec<f64> = values.iter().map(|value| scale.log(*value)).collect();
                let (middle, deviation) = middle(&logs)?;
                Some((middle, deviation.max(scale.log_resolution(median))))
            }
            false => None,
        };
        let deviation = deviation.max(LEAST_SHARE * median.abs()).max(scale.resolution);
        Some(Self { scale, median, deviation, log })
    }

    /// How many robust standard deviations a value is away. Rates, durations and sizes have long tails on healthy hosts, so theirs is the
    /// smaller of the distances by difference and by factor.
    pub(crate) fn z(&self, value: f64) -> f64 {
        let plain = DEVIATION * (value - self.median) / self.deviation;
        let Some((middle, deviation)) = self.log else { return plain };
        let log = DEVIATION * (self.scale.log(value) - middle) / deviation;
        if log.abs() < plain.abs() { log } else { plain }
    }

    /// Whether a value differs from the median by so much that it matters.
    pub(crate) fn is_material(&self, value: f64) -> bool {
        self.scale.is_material(value, self.median)
    }
}

/// Median and median absolute deviation.
fn middle(values: &[f64]) -> Option<(f64, f64)> {
    let mut values = values.to_vec();
    let middle = median(&mut values)?;
    values.iter_mut().for_each(|value| *value = (*value - middle).abs());
    Some((middle, median(&mut values)?))
}

/// The bounds of a share of which `hits` of `all` were seen: Wilson's, 95 %.
pub(crate) fn wilson(hits: usize, all: usize) -> (f64, f64) {
    if all == 0 {
        return (0.0, 1.0);
    }
    const Z: f64 = 1.96;
    let (all, share) = (all as f64, hits as f64 / all as f64);
    let weight = 1.0 + Z * Z / all;
    let middle = (share + Z * Z / (2.0 * all)) / weight;
    let half = Z / weight * (share * (1.0 - share) / all + Z * Z / (4.0 * all * all)).sqrt();
    ((middle - half).max(0.0), (middle + half).min(1.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians_of_odd_even_and_no_values() {
        assert_eq!(median(&mut [3.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median(&mut [4.0, 1.0, 2.0, 3.0]), Some(2.5));
        assert_eq!(median(&mut [7.0]), Some(7.0));
        assert_eq!(median(&mut []), None);
    }

    #[test]
    fn a_deviation_of_zero_has_a_floor() {
        let equal = Spread::of(&[0.2; 9], Unit::Ratio).unwrap();
        assert_eq!(equal.z(0.2), 0.0);
        // The floor is half a point: 5 points are 6.7 deviations.
        assert!((equal.z(0.25) - DEVIATION * 10.0).abs() < 1e-9, "{}", equal.z(0.25));
        let large = Spread::of(&[100.0; 9], Unit::Ratio).unwrap();
        assert!((large.z(110.0) - DEVIATION * 10.0).abs() < 1e-9, "the floor is 1 % of the median");
    }

    #[test]
    fn what_is_usual_in_a_long_tail_is_not_far() {
        let tail: Vec<f64> = (0..101).map(|n| 1e6 * f64::from(n - 50).mul_add(0.06, 0.0).exp()).collect();
        let spread = Spread::of(&tail, Unit::BytesPerSecond).unwrap();
        let plain = DEVIATION * (tail[100] - spread.median) / spread.deviation;
        assert!(plain > 7.0 && spread.z(tail[100]) < 3.5, "{plain} {}", spread.z(tail[100]));
        assert!(spread.z(1e6 * 8f64.exp()) > 3.5);
    }

    #[test]
    fn small_differences_do_not_matter() {
        assert!(!Scale::of(Unit::Ratio).is_material(0.50, 0.54) && Scale::of(Unit::Ratio).is_material(0.50, 0.56));
        assert!(!Scale::of(Unit::Seconds).is_material(1e-4, 9e-4) && Scale::of(Unit::Seconds).is_material(1e-3, 3e-3));
        assert!(!Scale::of(Unit::PerSecond).is_material(1000.0, 1900.0));
    }

    #[test]
    fn the_bounds_of_a_share_are_wilsons() {
        let (low, high) = wilson(1, 10);
        assert!((low - 0.0179).abs() < 5e-4 && (high - 0.4042).abs() < 5e-4, "{low} {high}");
        assert_eq!(wilson(0, 0), (0.0, 1.0));
    }
}
