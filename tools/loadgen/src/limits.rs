//! What a load may be made of: one range a number, both ends inclusive. What lies beyond is no load that a machine or the
//! protocol carries, or one that never ends.

use core::ops::RangeInclusive;
use core::time::Duration;

use crate::payload::PAYLOAD_HEADER_BYTES;

/// Records a second over all producers. Schedules count in nanoseconds.
pub const RECORDS_PER_SECOND: RangeInclusive<u64> = 1..=1_000_000_000;
/// Partitions written to: what brokers create at once.
pub const PARTITIONS: RangeInclusive<u32> = 1..=10_000;
/// Producers in all. Each has its own connections and its own memory.
pub const PRODUCERS: RangeInclusive<u32> = 1..=1_000;
/// Consumers in all, of a load that is read back.
pub const CONSUMERS: RangeInclusive<u32> = 1..=1_000;
/// Batches under way for each producer: some for each partition.
pub const BATCHES_IN_FLIGHT: RangeInclusive<u32> = 1..=100_000;
/// Bytes of a record's value. At the first there is nothing in it but the header that is verified.
pub const RECORD_BYTES: RangeInclusive<u32> = 40..=8 << 20;
const _: () = assert!(*RECORD_BYTES.start() as usize == PAYLOAD_HEADER_BYTES);
/// Bytes from which on a batch is sent. Four of them with a record each fit the 100 MiB that brokers take in a request.
pub const BATCH_BYTES: RangeInclusive<u32> = 1..=8 << 20;
/// How long a smaller batch waits, in microseconds: less than a delivery may take.
pub const LINGER_US: RangeInclusive<u64> = 0..=10_000_000;
/// Different keys.
pub const KEYS: RangeInclusive<u64> = 1..=1_000_000_000_000;
/// Percents of a value that are the same bytes again and again.
pub const COMPRESSIBLE_PERCENT: RangeInclusive<u8> = 0..=100;
/// How long is measured.
pub const DURATION: RangeInclusive<Duration> = Duration::from_millis(1)..=DAY;
/// How long the load runs before that.
pub const WARMUP: RangeInclusive<Duration> = Duration::ZERO..=DAY;
/// From one snapshot to the next.
pub const INTERVAL: RangeInclusive<Duration> = Duration::from_millis(1)..=DAY;

const DAY: Duration = Duration::from_secs(24 * 60 * 60);
