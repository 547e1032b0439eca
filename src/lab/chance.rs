//! Chance that can be repeated: the same seed gives the same choices.

/// splitmix64.
#[derive(Debug, Clone)]
pub struct Chance(u64);

impl Chance {
    /// From a seed.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// A number from 0 to `below` - 1; 0 if there is none.
    pub fn below(&mut self, below: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^= mixed >> 31;
        mixed.checked_rem(below as u64).unwrap_or(0) as usize
    }

    /// One of several.
    pub fn one_of<'t, T>(&mut self, things: &'t [T]) -> Option<&'t T> {
        things.get(self.below(things.len()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_seed_chooses_the_same_and_all_are_chosen_in_the_end() {
        let draw = |seed| Chance::new(seed).below(3);
        assert_eq!(draw(7), draw(7));
        let drawn: std::collections::BTreeSet<usize> = (0..100).map(draw).collect();
        assert_eq!(drawn, [0, 1, 2].into());
        assert_eq!(Chance::new(1).below(0), 0);
    }
}
