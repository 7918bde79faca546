//! A small seeded generator: the same seed gives the same choices, so a run can be repeated.

use core::time::Duration;

/// SplitMix64: fast, well spread, not for secrets.
#[derive(Clone, Debug)]
pub struct Generator {
    state: u64,
}

impl Generator {
    /// A generator that repeats itself exactly for the same `seed`.
    #[must_use]
    pub const fn new(seed: u64) -> Self {
        Self { state: seed }
    }

    /// The next 64 bits.
    pub const fn next_bits(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut bits = self.state;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        bits ^ (bits >> 31)
    }

    /// A number below `bound`, which must not be 0. The bias of the multiplication is below one in 2^32.
    pub fn below(&mut self, bound: u32) -> u32 {
        assert!(bound > 0, "a range without numbers");
        let product = (self.next_bits() >> 32).wrapping_mul(u64::from(bound));
        u32::try_from(product >> 32).expect("a product of two 32-bit numbers, shifted by 32, has 32 bits")
    }
}

/// How long to wait before the next attempt: doubling, bounded, with jitter so that clients don't move in step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Backoff {
    /// The wait after the first failure, before jitter.
    pub first: Duration,
    /// The longest wait, before jitter.
    pub longest: Duration,
}

impl Backoff {
    /// The wait after `failures` failures in a row (from 1 on): doubled each time, and 80 to 120 percent of that.
    #[must_use]
    pub fn delay(&self, failures: u32, generator: &mut Generator) -> Duration {
        let doublings = failures.saturating_sub(1).min(31);
        let plain = self.first.saturating_mul(1 << doublings).min(self.longest);
        plain.saturating_mul(80 + generator.below(41)) / 100
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_repeats_itself_and_another_differs() {
        let draw = |seed| {
            let mut generator = Generator::new(seed);
            (0..8).map(|_| generator.next_bits()).collect::<Vec<_>>()
        };
        assert_eq!(draw(7), draw(7));
        assert_ne!(draw(7), draw(8));
    }

    #[test]
    fn every_number_below_the_bound_comes_and_none_at_it() {
        let mut generator = Generator::new(1);
        let mut seen = [0_u32; 5];
        for _ in 0..5_000 {
            seen[generator.below(5) as usize] += 1;
        }
        assert!(seen.iter().all(|count| (800..1_200).contains(count)), "{seen:?}");
    }

    #[test]
    fn the_wait_doubles_up_to_its_bound_with_a_fifth_of_jitter() {
        let backoff = Backoff { first: Duration::from_millis(100), longest: Duration::from_millis(350) };
        let mut generator = Generator::new(3);
        for (failures, plain) in [(1, 100), (2, 200), (3, 350), (40, 350)] {
            let wait = backoff.delay(failures, &mut generator).as_millis();
            assert!((plain * 8 / 10..=plain * 12 / 10).contains(&wait), "{failures}: {wait}");
        }
    }
}
