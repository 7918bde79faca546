//! Random choices that one number repeats.

use crate::settings;

/// A generator of pseudo-random numbers (SplitMix64): small, fast, and good enough to choose with.
#[derive(Clone, Debug)]
pub struct Random {
    state: u64,
}

impl Random {
    /// The generator of this seed.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self { state: seed }
    }

    /// The generator of the seed in `SEED`, else of a fixed one. Prints the seed: cargo shows it when the test fails.
    #[expect(clippy::print_stdout, reason = "whoever sees the failure needs the seed")]
    #[must_use]
    pub fn from_environment() -> Self {
        let seed = settings::number("SEED", 20_261_130);
        println!("SEED={seed} repeats the random choices of this run");
        Self::new(seed)
    }

    /// Any number.
    pub fn number(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.state;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number below `end`, which must not be 0.
    ///
    /// # Panics
    /// When `end` is 0.
    pub fn below(&mut self, end: usize) -> usize {
        assert!(end > 0, "nothing lies below 0");
        let end = u64::try_from(end).expect("usize has at most 64 bits");
        usize::try_from(self.number() % end).expect("below an end that is a usize")
    }

    /// One of these.
    ///
    /// # Panics
    /// When there are none.
    pub fn choose<'a, T>(&mut self, choices: &'a [T]) -> &'a T {
        &choices[self.below(choices.len())]
    }

    /// Any byte.
    pub fn byte(&mut self) -> u8 {
        self.number().to_be_bytes()[0]
    }

    /// That many bytes of any kind.
    #[must_use]
    pub fn bytes(&mut self, len: usize) -> Vec<u8> {
        (0..len).map(|_| self.byte()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_repeats_and_another_differs() {
        let first: Vec<u64> = (0..4).map(|_| Random::new(1).number()).collect();
        assert!(first.iter().all(|number| *number == first[0]));
        assert_ne!(Random::new(1).bytes(16), Random::new(2).bytes(16));
    }

    #[test]
    fn every_number_below_the_end_comes_up() {
        let mut random = Random::new(3);
        let mut seen = [false; 5];
        for _ in 0..200 {
            seen[random.below(5)] = true;
        }
        assert_eq!(seen, [true; 5]);
    }
}
