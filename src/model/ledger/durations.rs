//! How long waits and calls took.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A distribution of durations that keeps the time in each bucket, since skew of *time* is what matters.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Durations {
    /// How many.
    pub count: u64,
    /// Their sum, exact.
    pub seconds: f64,
    /// The shortest, exact.
    pub min: f64,
    /// The longest, exact.
    pub max: f64,
    /// Buckets that are not empty, ascending; eight per power of two of nanoseconds.
    pub buckets: Vec<Bucket>,
}

/// The durations of one bucket.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Bucket {
    /// Upper bound, exclusive; the same bounds as in a probe's histogram.
    pub below: f64,
    /// How many.
    pub count: u64,
    /// Their sum.
    pub seconds: f64,
}

impl Durations {
    /// Takes in the durations of another distribution with the same bounds.
    pub fn add(&mut self, other: &Self) {
        if other.count == 0 {
            return;
        }
        self.min = if self.count == 0 { other.min } else { self.min.min(other.min) };
        self.max = self.max.max(other.max);
        self.count = self.count.saturating_add(other.count);
        self.seconds += other.seconds;
        for bucket in &other.buckets {
            // Bounds are powers of two and eighths of them times one constant: those of one slot are the same bits.
            match self.buckets.binary_search_by(|own| own.below.total_cmp(&bucket.below)) {
                Ok(at) => {
                    if let Some(own) = self.buckets.get_mut(at) {
                        own.count = own.count.saturating_add(bucket.count);
                        own.seconds += bucket.seconds;
                    }
                }
                Err(at) => self.buckets.insert(at, *bucket),
            }
        }
    }

    /// Their mean; none without any.
    #[must_use]
    pub fn mean(&self) -> Option<f64> {
        (self.count > 0).then(|| self.seconds / self.count as f64)
    }

    /// The duration below which this share (0–1) of them lies: the upper bound of its bucket, at most the longest. Never
    /// too low, and up to 12.5 % too high.
    #[must_use]
    pub fn percentile(&self, share: f64) -> Option<f64> {
        let counted = self.buckets.iter().fold(0_u64, |sum, bucket| sum.saturating_add(bucket.count));
        let rank = (share.clamp(0.0, 1.0) * counted as f64).ceil().max(1.0);
        let mut below = 0_u64;
        for bucket in &self.buckets {
            below = below.saturating_add(bucket.count);
            if below as f64 >= rank {
                return Some(bucket.below.min(self.max));
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn durations(of: &[(f64, u64, f64)]) -> Durations {
        let buckets: Vec<Bucket> = of
            .iter()
            .map(|(below, count, seconds)| Bucket { below: *below, count: *count, seconds: *seconds })
            .collect();
        Durations {
            count: of.iter().map(|bucket| bucket.1).sum(),
            seconds: of.iter().map(|bucket| bucket.2).sum(),
            min: 0.1,
            max: of.last().map_or(0.0, |bucket| bucket.0 * 0.9),
            buckets,
        }
    }

    #[test]
    fn distributions_add_up_bucket_by_bucket() {
        let mut all = durations(&[(1.0, 2, 1.5), (4.0, 1, 3.0)]);
        all.add(&durations(&[(2.0, 1, 1.5), (4.0, 3, 9.0)]));
        all.add(&Durations::default());
        assert_eq!((all.count, all.min), (7, 0.1));
        assert_eq!(
            all.buckets.iter().map(|bucket| (bucket.below, bucket.count)).collect::<Vec<_>>(),
            [(1.0, 2), (2.0, 1), (4.0, 4)]
        );
        assert!((all.seconds - 15.0).abs() < 1e-9);
        assert_eq!(all.percentile(0.5), Some(3.6));
        assert_eq!(all.percentile(0.2), Some(1.0));
    }

    #[test]
    fn an_empty_distribution_has_no_figures() {
        assert_eq!((Durations::default().mean(), Durations::default().percentile(0.5)), (None, None));
    }
}
