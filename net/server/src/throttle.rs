//! Who is told to wait where a shard's memory for requests runs short, and how long (KIP-219).
//!
//! What a client is told in its answer, its connection is kept to: no further request of it is read meanwhile. Without that the
//! same memory would be waited for all the same, but no client would know why, and none could tell its operator.

use core::time::Duration;

/// The longest pause.
const PAUSE_MAX: Duration = Duration::from_millis(100);
/// No shard takes less long to append so many bytes, and none pauses longer than a shard takes for a quarter of its memory. While
/// it is short it has three times as much to append, so nobody's pause leaves it without work.
const BYTES_A_MS: u64 = 1 << 20;
/// Nobody is told to wait while more than one part in so many is free.
const FREE_BELOW: u64 = 4;
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

/// How long a client is to wait whose connection holds `held` bytes: not at all where there is enough or it holds little, less
/// than half of an equal part; else the longer, the less is free.
pub(crate) fn pause(load: Load, held: u64) -> Duration {
    let free = load.total.saturating_sub(load.used);
    let threshold = load.total / FREE_BELOW;
    if free >= threshold || held <= fair_share(load) {
        return Duration::ZERO;
    }
    let lacking = u128::from(threshold - free);
    let longest = PAUSE_MAX.min(Duration::from_millis(threshold / BYTES_A_MS));
    let nanoseconds = longest.as_nanos() * lacking / u128::from(threshold);
    Duration::from_nanos(u64::try_from(nanoseconds).expect("at most the longest pause"))
}

fn fair_share(load: Load) -> u64 {
    let connections = u64::try_from(load.connections.max(1)).unwrap_or(u64::MAX);
    (load.total / connections / 2).max(LITTLE_BYTES)
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
    fn nobody_waits_while_a_quarter_is_free() {
        for used in [0, 200, 300] {
            assert_eq!(pause(load(used, 10), 300 * MIB), Duration::ZERO, "{used}");
        }
        assert!(!pause(load(301, 10), 300 * MIB).is_zero());
    }

    #[test]
    fn the_pause_grows_with_what_is_used_up_to_its_bound() {
        let of = |used| pause(load(used, 1_000), MIB);
        assert_eq!(of(350), PAUSE_MAX / 2);
        assert_eq!(of(400), PAUSE_MAX);
        assert_eq!(of(700), PAUSE_MAX, "also beyond the limit");
        assert!(of(310) < of(320));
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
        assert!(pause(load(400, 100), 2 * MIB).is_zero(), "half of an equal part");
        assert!(!pause(load(400, 100), 2 * MIB + 1).is_zero());
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
