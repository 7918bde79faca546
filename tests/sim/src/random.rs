//! The one source of chance.

use core::ops::RangeInclusive;
use core::time::Duration;

/// SplitMix64: small, fast, and the same everywhere.
#[derive(Debug)]
pub(crate) struct Random {
    state: u64,
}

impl Random {
    pub(crate) const fn new(seed: u64) -> Self {
        Self { state: seed }
    }

    /// The next 64 bits.
    pub(crate) const fn next(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.state;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    /// A number below `bound`, which isn't 0.
    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        assert!(bound > 0, "no number is below 0");
        let scaled = u128::from(self.next()) * u128::from(bound);
        u64::try_from(scaled >> 64).expect("the high half of a product of two u64 is a u64")
    }

    /// An index into something `len` long, which isn't empty.
    pub(crate) fn index(&mut self, len: usize) -> usize {
        usize::try_from(self.below(len as u64)).expect("an index below a usize is one")
    }

    /// True once in `count` times.
    pub(crate) fn one_in(&mut self, count: u64) -> bool {
        self.below(count) == 0
    }

    /// A duration in the range, to the nanosecond.
    pub(crate) fn duration(&mut self, range: &RangeInclusive<Duration>) -> Duration {
        let spread = range.end().saturating_sub(*range.start());
        let nanos = u64::try_from(spread.as_nanos()).unwrap_or(u64::MAX - 1);
        *range.start() + Duration::from_nanos(self.below(nanos.saturating_add(1)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_stay_in_their_bounds_and_reach_both_ends() {
        let mut random = Random::new(1);
        let drawn: Vec<u64> = (0..200).map(|_| random.below(3)).collect();
        assert!((0..3).all(|number| drawn.contains(&number)));
        let range = Duration::from_nanos(5)..=Duration::from_nanos(6);
        let drawn: Vec<Duration> = (0..50).map(|_| random.duration(&range)).collect();
        assert!(drawn.iter().all(|duration| range.contains(duration)));
        assert!(drawn.contains(range.start()) && drawn.contains(range.end()));
    }

    #[test]
    fn a_seed_gives_the_same_numbers_again() {
        let numbers = |seed| {
            let mut random = Random::new(seed);
            [random.next(), random.next(), random.next()]
        };
        assert_eq!(numbers(7), numbers(7));
        assert_ne!(numbers(7), numbers(8));
    }
}
