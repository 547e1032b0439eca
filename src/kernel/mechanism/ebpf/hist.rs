//! Distributions as the programs keep them (`struct hist` in rdiag.h): eight buckets per power of two.

use rdiag_model::probe::HistogramRow;

/// 64-bit words of a `struct hist`: count, sum, max, and the slots.
pub const WORDS: usize = 3 + SLOTS;
const SLOTS: usize = 496;

/// One `struct hist`, word by word.
pub type Hist = [u64; WORDS];

/// Adds up the copies of all CPUs.
#[must_use]
pub fn sum<'h>(copies: impl IntoIterator<Item = &'h Hist>) -> Hist {
    let mut total: Hist = [0; WORDS];
    for copy in copies {
        for (at, (sum, value)) in total.iter_mut().zip(copy).enumerate() {
            *sum = if at == 2 { (*sum).max(*value) } else { sum.wrapping_add(*value) };
        }
    }
    total
}

/// As a row for people; `scale` is what one unit of the program is in base units (1e-9 for nanoseconds).
#[must_use]
pub fn row(instance: &str, hist: &Hist, scale: f64) -> HistogramRow {
    let [count, sum, max, slots @ ..] = hist;
    let buckets = slots.iter().enumerate().filter(|(_, count)| **count > 0);
    HistogramRow {
        instance: instance.to_owned(),
        count: *count,
        sum: *sum as f64 * scale,
        max: *max as f64 * scale,
        buckets: buckets.map(|(slot, count)| (upper(slot) * scale, *count)).collect(),
        coarse: false,
    }
}

/// The first value above a slot.
fn upper(slot: usize) -> f64 {
    if slot < 8 {
        return (slot + 1) as f64;
    }
    let (power, eighth) = (slot / 8 - 1, slot % 8);
    (eighth + 9) as f64 * (power as f64).exp2()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The C function, once more.
    fn slot(value: u64) -> usize {
        if value < 8 {
            return value as usize;
        }
        let top = 63 - value.leading_zeros() as usize;
        ((top - 2) << 3) + ((value >> (top - 3)) & 7) as usize
    }

    #[test]
    fn every_value_lies_below_the_upper_bound_of_its_slot_and_within_an_eighth_of_it() {
        for value in (0..5000).chain([65_535, 65_536, 1 << 40, (1 << 40) + 12_345, u64::MAX / 3]) {
            let slot = slot(value);
            assert!(slot < SLOTS, "{value}");
            let bound = upper(slot);
            assert!(
                (value as f64) < bound && bound <= (value as f64 * 1.125).max(value as f64 + 1.0) + 1.0,
                "{value}: {bound}"
            );
        }
    }

    #[test]
    fn the_copies_of_all_cpus_add_up_and_the_largest_maximum_counts() {
        let mut one: Hist = [0; WORDS];
        one[..4].copy_from_slice(&[2, 10, 9, 1]);
        let mut two = one;
        two[2] = 4;
        let row = row("", &sum([&one, &two]), 1e-9);
        assert_eq!((row.count, row.buckets), (4, vec![(1e-9, 2)]));
        assert!((row.sum - 20e-9).abs() < 1e-15 && (row.max - 9e-9).abs() < 1e-15);
    }
}
