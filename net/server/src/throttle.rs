//! Who is told to wait where requests pile up in a shard's memory, and how long (KIP-219).
//!
//! What a client is told in its answer, its connection is kept to: no further request of it is read meanwhile. Without that it
//! would wait all the same once its requests in flight or the memory are used up, but no client would know why, and none could
//! tell its operator.

use core::time::Duration;

/// The longest pause.
const PAUSE_MAX: Duration = Duration::from_millis(100);
/// Nobody is told to wait while no more than one part in so many is used.
const USED_ABOVE: u64 = 4;
/// No shard takes less long to append so many bytes. No pause is longer than it takes for what is used when pauses begin, so that
/// nobody's leaves it without work.
const BYTES_A_MS: u64 = 1 << 20;
/// Who holds no more than this, in bytes, is never told to wait: what it holds is none of the shortage.
const LITTLE_BYTES: u64 = 64 << 10;

/// How a shard's memory for requests is used.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Load {
    /// Bytes held, also beyond the total.
    pub(crate) used: u64,
    /// Bytes there are.
    pub(crate) total: u64,
    /// Connections that share it.
    pub(crate) connections: usize,
}

/// How long a client is to wait whose connection holds `held` bytes: not at all where little is used or it holds little, less
/// than half of an equal part of what is used; else the longer, the more is used.
pub(crate) fn pause(load: Load, held: u64) -> Duration {
    let threshold = load.total / USED_ABOVE;
    let above = load.used.min(load.total).saturating_sub(threshold);
    if above == 0 || held <= half_of_equal_part(load) {
        return Duration::ZERO;
    }
    let longest = PAUSE_MAX.min(Duration::from_millis(threshold / BYTES_A_MS));
    let nanoseconds = longest.as_nanos() * u128::from(above) / u128::from(load.total - threshold);
    Duration::from_nanos(u64::try_from(nanoseconds).expect("at most the longest pause"))
}

fn half_of_equal_part(load: Load) -> u64 {
    let connections = u64::try_from(load.connections.max(1)).unwrap_or(u64::MAX);
    (load.used / connections / 2).max(LITTLE_BYTES)
}

/// As an answer tells it: a part of a millisecond is one.
pub(crate) fn told(pause: Duration) -> i32 {
    i32::try_from(pause.as_nanos().div_ceil(1_000_000)).expect("at most the longest pause")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const MIB: u64 = 1 << 20;

    fn load(used: u64, connections: usize) -> Load {
        Load { used: used * MIB, total: 400 * MIB, connections }
    }

    #[test]
    fn nobody_waits_while_no_more_than_a_quarter_is_used() {
        for used in [0, 50, 100] {
            assert_eq!(pause(load(used, 10), 300 * MIB), Duration::ZERO, "{used}");
        }
        assert!(!pause(load(101, 10), 300 * MIB).is_zero());
    }

    #[test]
    fn the_pause_grows_with_what_is_used_up_to_its_bound() {
        let of = |used| pause(load(used, 1_000), MIB);
        assert_eq!(of(250), PAUSE_MAX / 2);
        assert_eq!(of(400), PAUSE_MAX);
        assert_eq!(of(700), PAUSE_MAX, "also beyond the limit");
        assert!(of(110) < of(120));
    }

    #[test]
    fn where_there_is_little_memory_no_pause_is_longer_than_what_there_is_to_append() {
        let full = |total| pause(Load { used: total, total, connections: 1 }, total);
        assert_eq!(full(64 * MIB), Duration::from_millis(16));
        assert_eq!(full(2 * MIB), Duration::ZERO);
    }

    #[test]
    fn a_client_that_holds_little_is_never_held_back() {
        assert!(pause(load(400, 10_000), LITTLE_BYTES).is_zero(), "where all hold little");
        assert!(pause(load(200, 100), MIB).is_zero(), "half of an equal part");
        assert!(!pause(load(200, 100), MIB + 1).is_zero());
    }

    #[test]
    fn where_all_hold_the_same_all_wait() {
        assert!(!pause(load(320, 320), MIB).is_zero());
    }

    #[test]
    fn a_part_of_a_millisecond_is_told_as_one() {
        let told_of = |micros| told(Duration::from_micros(micros));
        assert_eq!([0, 1, 1_000, 1_001, 100_000].map(told_of), [0, 1, 1, 2, 100]);
    }

    proptest! {
        #[test]
        fn no_pause_is_longer_than_the_longest(used: u64, total: u64, connections: usize, held: u64) {
            let pause = pause(Load { used, total, connections }, held);
            prop_assert!(pause <= PAUSE_MAX);
            prop_assert!(held > LITTLE_BYTES || pause.is_zero());
            prop_assert!((0..=100).contains(&told(pause)));
        }
    }
}
