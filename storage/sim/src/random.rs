//! Pseudorandom numbers that can be repeated by their seed.

/// A small generator (SplitMix64): the same seed always gives the same numbers.
#[derive(Debug, Clone)]
pub struct Random(u64);

impl Random {
    /// The generator with the seed `seed`.
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// A random 64-bit number.
    pub fn any(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    /// A random number below `end`; 0 if `end` is 0.
    pub fn below(&mut self, end: u64) -> u64 {
        self.any().checked_rem(end).unwrap_or(0)
    }

    /// A random number in `[start, end)`.
    pub fn between(&mut self, start: u64, end: u64) -> u64 {
        start + self.below(end.saturating_sub(start))
    }

    /// True with a probability of `percent` in 100.
    pub fn chance(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }
}
