//! What a shard's limits may come to in memory, and limits that keep within a share of it.

use super::Limits;
use crate::reply_memory;
use crate::request_limits;
use crate::request_memory;
use crate::validation;

/// A list takes at most so many times its bytes, once it is decoded and answered: 42 were measured, of the worst shape.
const LIST_EXPANSION: u64 = 50;
/// A connection's two tasks and what is known of it, in bytes: 3,835 were measured (`benches/pressure idle`).
const IDLE_CONNECTION_BYTES: u64 = 4 << 10;
/// What one takes at most beside the requests' and the replies' memory: its receive buffer, as much again of small requests
/// that are read also where the requests' memory is short, and what it may have of replies where theirs is.
const CONNECTION_BYTES: u64 =
    IDLE_CONNECTION_BYTES + 2 * request_memory::SMALL_BYTES as u64 + reply_memory::SMALL_BYTES;
/// What a connection's counterpart at the owner of partitions takes besides, where requests are forwarded: 14,500 were measured
/// of one that waits for records.
const FORWARDED_CONNECTION_BYTES: u64 = 16 << 10;
/// What is decompressed at a time, to look into it, and registered with the kernel.
const WORK_BYTES: u64 = validation::DECOMPRESSED_BYTES_MAX as u64 + (16 << 20);

/// Below this a pool serves too few readers from memory.
const POOL_BYTES_MIN: u64 = 16 << 20;
/// The pool holds the largest batch twice, and so much beside it (`engine/store`, `check_config`).
const POOL_BYTES_BESIDE_BATCHES: u64 = 4 << 20;
/// Below this too few clients are answered at a time.
const REPLY_BYTES_MIN: u64 = 8 << 20;
/// Below this sessions aren't worth having.
const FETCH_SESSION_BYTES_MIN: u64 = 1 << 20;
/// Below this a shard serves too few clients.
const CONNECTIONS_MIN: usize = 1_024;

/// What the limits of one shard may come to, in bytes: the most that each holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryTable {
    /// Requests, from their first bytes until they are answered.
    pub requests: u64,
    /// Chunks being written, and the tails kept for readers.
    pub pool: u64,
    /// Replies, until their clients have taken them.
    pub replies: u64,
    /// Lists of topics and partitions, decoded and answered.
    pub lists: u64,
    /// Fetch sessions.
    pub fetch_sessions: u64,
    /// Connections: their tasks, receive buffers, small requests and small replies.
    pub connections: u64,
    /// What is decompressed at a time, and memory registered with the kernel.
    pub work: u64,
}

impl MemoryTable {
    /// Each part with its name.
    #[must_use]
    pub const fn parts(&self) -> [(&'static str, u64); 7] {
        [
            ("requests", self.requests),
            ("pool", self.pool),
            ("replies", self.replies),
            ("lists", self.lists),
            ("fetch_sessions", self.fetch_sessions),
            ("connections", self.connections),
            ("work", self.work),
        ]
    }

    /// All together.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.parts().iter().fold(0, |sum, (_, bytes)| sum.saturating_add(*bytes))
    }
}

impl Limits {
    /// What they may come to.
    #[must_use]
    pub fn memory(&self) -> MemoryTable {
        let connections = u64::try_from(self.connections).unwrap_or(u64::MAX);
        MemoryTable {
            requests: self.request_bytes,
            pool: self.pool_bytes,
            replies: self.reply_bytes,
            lists: self.list_bytes.saturating_mul(LIST_EXPANSION),
            fetch_sessions: self.fetch_session_bytes,
            connections: connections.saturating_mul(self.connection_bytes()),
            work: WORK_BYTES,
        }
    }

    /// What a connection takes, in bytes. Each shard keeps something for the clients of every other one, which comes to as
    /// much as all keep for its own.
    fn connection_bytes(&self) -> u64 {
        CONNECTION_BYTES + u64::from(self.owners_beside) * FORWARDED_CONNECTION_BYTES
    }

    /// The same, with no more memory than a shard needs to work that takes batches of `batch_bytes`: two of the largest
    /// requests, since one that is begun must be able to end while another is read; one of the largest lists.
    #[must_use]
    pub fn least(&self, batch_bytes: u32) -> Self {
        let batches = 2 * u64::from(batch_bytes);
        Self {
            connections: self.connections.min(CONNECTIONS_MIN),
            request_bytes: 2 * u64::from(self.frame_bytes),
            list_bytes: self.list_bytes.min(request_limits::LIST_BYTES_MAX as u64),
            reply_bytes: self.reply_bytes.min(REPLY_BYTES_MIN.max(batches)),
            fetch_session_bytes: self.fetch_session_bytes.min(FETCH_SESSION_BYTES_MIN),
            pool_bytes: POOL_BYTES_MIN.max(batches + POOL_BYTES_BESIDE_BATCHES),
            ..self.clone()
        }
    }

    /// The same, each so much smaller that all together come to at most `share` bytes, but none smaller than the
    /// [`least`](Limits::least): what there is beyond these is the pool's first, then divided by what each could use of it.
    #[must_use]
    pub fn within(&self, share: u64, batch_bytes: u32) -> Self {
        let least = self.least(batch_bytes);
        let wanted = self.at_least(&least);
        // Batches of topics may be larger than the broker's.
        let pool_bytes = least.pool_bytes + share.saturating_sub(least.memory().total());
        let least = Self { pool_bytes: pool_bytes.min(wanted.pool_bytes), ..least };
        let floor = least.memory().total();
        let range = wanted.memory().total() - floor;
        let spare = share.saturating_sub(floor).min(range);
        let scaled = |low: u64, high: u64| low + part(high - low, spare, range);
        let connections = scaled(least.connections as u64, wanted.connections as u64);
        Self {
            connections: usize::try_from(connections).expect("no more than was wanted"),
            request_bytes: scaled(least.request_bytes, wanted.request_bytes),
            list_bytes: scaled(least.list_bytes, wanted.list_bytes),
            reply_bytes: scaled(least.reply_bytes, wanted.reply_bytes),
            fetch_session_bytes: scaled(least.fetch_session_bytes, wanted.fetch_session_bytes),
            pool_bytes: scaled(least.pool_bytes, wanted.pool_bytes),
            ..wanted
        }
    }

    fn at_least(&self, least: &Self) -> Self {
        Self {
            request_bytes: self.request_bytes.max(least.request_bytes),
            reply_bytes: self.reply_bytes.max(least.reply_bytes),
            pool_bytes: self.pool_bytes.max(least.pool_bytes),
            ..self.clone()
        }
    }
}

/// `amount * numerator / denominator`, rounded down; all of it where the denominator is 0.
fn part(amount: u64, numerator: u64, denominator: u64) -> u64 {
    let product = u128::from(amount) * u128::from(numerator);
    let part = product.checked_div(u128::from(denominator)).unwrap_or_else(|| amount.into());
    u64::try_from(part).expect("the numerator is at most the denominator")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const MIB: u64 = 1 << 20;
    const BATCH_BYTES: u32 = 1_048_588;

    #[test]
    fn where_there_is_enough_each_limit_is_as_wanted() {
        let wanted = Limits::default();
        assert_eq!(wanted.within(u64::MAX, BATCH_BYTES), wanted);
        assert_eq!(wanted.within(wanted.memory().total(), BATCH_BYTES), wanted);
        assert_ne!(wanted.within(wanted.memory().total() - 1, BATCH_BYTES), wanted);
    }

    #[test]
    fn all_limits_together_keep_within_the_share() {
        let wanted = Limits::default();
        let scaled = wanted.within(1 << 30, BATCH_BYTES);
        let MemoryTable { requests, pool, replies, lists, fetch_sessions, connections, work } =
            scaled.memory();
        let parts = [requests, pool, replies, lists, fetch_sessions, connections, work];
        assert_eq!(parts.iter().sum::<u64>(), scaled.memory().total());
        assert!((1023 * MIB..=1024 * MIB).contains(&scaled.memory().total()), "{scaled:?}");
        for (part, all) in scaled.memory().parts().iter().zip(wanted.memory().parts()) {
            assert!(part.1 <= all.1, "{part:?}");
        }
    }

    #[test]
    fn each_limit_has_the_least_it_works_with_also_where_that_is_more_than_the_share() {
        let wanted = Limits::default();
        let least = wanted.within(0, BATCH_BYTES);
        assert_eq!(least, wanted.least(BATCH_BYTES));
        assert_eq!(least.request_bytes, 2 * u64::from(wanted.frame_bytes), "a request behind another");
        assert_eq!((least.list_bytes, least.connections), (2 * MIB, 1_024));
        let roomy = wanted.least(64 << 20);
        assert_eq!((roomy.pool_bytes, roomy.reply_bytes), (132 * MIB, 128 * MIB), "for the largest batch");
        let few = Limits { connections: 10, ..wanted };
        assert_eq!(few.least(BATCH_BYTES).connections, 10, "no more than the setting");
    }

    #[test]
    fn more_memory_takes_nothing_away_and_goes_to_the_pool_first() {
        let wanted = Limits::default();
        let shares = (0..2_048).map(|mebibytes| wanted.within(mebibytes * MIB, BATCH_BYTES));
        let all: Vec<_> = shares.collect();
        for pair in all.windows(2) {
            let (before, after) = (pair[0].memory().parts(), pair[1].memory().parts());
            assert!(before.iter().zip(after).all(|(before, after)| before.1 <= after.1), "{pair:?}");
        }
        let least = wanted.least(BATCH_BYTES);
        let first = all.iter().find(|limits| limits.connections > least.connections).unwrap();
        assert_eq!(first.pool_bytes, wanted.pool_bytes);
    }

    #[test]
    fn where_requests_are_forwarded_a_connection_takes_memory_at_each_shard() {
        let one_port = Limits { owners_beside: 3, ..Limits::default() };
        let (more, less) = (one_port.memory().connections, Limits::default().memory().connections);
        assert_eq!(more - less, 3 * FORWARDED_CONNECTION_BYTES * one_port.connections as u64);
        let (few, many) =
            (one_port.within(1 << 30, BATCH_BYTES), Limits::default().within(1 << 30, BATCH_BYTES));
        assert!(few.connections < many.connections);
        assert!(few.memory().total() <= 1 << 30);
    }

    #[test]
    fn what_the_settings_ask_for_is_more_than_is_wanted_otherwise() {
        let large = Limits { frame_bytes: 1 << 30, ..Limits::default() };
        assert_eq!(large.within(u64::MAX, BATCH_BYTES).request_bytes, 2 << 30);
    }

    proptest! {
        #[test]
        fn the_sum_is_within_the_share_or_the_least(
            share in 0..8_u64 << 30,
            frame_bytes in 1_024..1_u32 << 30,
            batch_bytes in 61..64_u32 << 20,
            connections in 1..100_000_usize,
        ) {
            let wanted = Limits { frame_bytes, connections, ..Limits::default() };
            let (scaled, least) = (wanted.within(share, batch_bytes), wanted.least(batch_bytes));
            prop_assert!(scaled.memory().total() <= share.max(least.memory().total()));
            let floors = least.memory().parts();
            for (part, floor) in scaled.memory().parts().iter().zip(floors) {
                prop_assert!(part.1 >= floor.1, "{part:?}");
            }
            prop_assert_eq!(scaled.connections.max(wanted.connections), wanted.connections);
        }
    }
}
