//! What a partition's log is told about sizes, ages and limits.

use core::time::Duration;

use engine_record::{BATCH_HEADER_BYTES, TimestampType};

/// Settings of one log, resolved: units are in the types and names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogConfig {
    /// Size at which the active segment is rolled. A single batch larger than this gets a segment of its own.
    pub segment_bytes: u32,
    /// Age at which a segment that has records is rolled, counted from its first append.
    pub segment_age: Duration,
    /// Least distance between two index entries.
    pub index_interval_bytes: u32,
    /// Size of the largest batch a client may append, header included. What a leader took, its followers take.
    pub max_batch_bytes: u32,
    /// Whose clock the records' times are.
    pub timestamp_type: TimestampType,
    /// Age past which a sealed segment may be deleted; `None` keeps it for good.
    pub retention_age: Option<Duration>,
    /// Size of the whole log that retention keeps at least; `None` keeps everything.
    pub retention_bytes: Option<u64>,
    /// Idempotent producers remembered at most.
    pub producers_max: u32,
    /// Idle time after which a producer is forgotten.
    pub producer_expiry: Duration,
    /// Idle time below which no producer is forgotten, also to make room for another: longer than clients retry.
    pub producer_idle_min: Duration,
}

impl Default for LogConfig {
    fn default() -> Self {
        Self {
            segment_bytes: 128 << 20,
            segment_age: Duration::from_secs(7 * 24 * 3_600),
            index_interval_bytes: 32 << 10,
            max_batch_bytes: (1 << 20) + 12,
            timestamp_type: TimestampType::Create,
            retention_age: Some(Duration::from_secs(7 * 24 * 3_600)),
            retention_bytes: None,
            producers_max: 10_000,
            producer_expiry: Duration::from_secs(24 * 3_600),
            producer_idle_min: Duration::from_secs(15 * 60),
        }
    }
}

impl LogConfig {
    /// Asserts the limits that every resolved configuration keeps.
    ///
    /// # Panics
    /// Where one doesn't hold: configuration is checked before it comes here.
    pub fn check(&self) {
        let header_bytes = 61;
        assert_eq!(header_bytes as usize, BATCH_HEADER_BYTES, "the least batch is a header");
        assert!(self.segment_bytes >= header_bytes, "a segment holds at least one batch");
        assert!(self.max_batch_bytes >= header_bytes, "some batch may be appended");
        assert!(self.max_batch_bytes <= i32::MAX.unsigned_abs(), "a batch length has 31 bits");
        assert!(self.index_interval_bytes > 0, "an index is sparse");
        assert!(self.producers_max > 0, "some producer may be idempotent");
        assert!(self.producer_idle_min <= self.producer_expiry, "room is made no later than expiry");
    }
}
