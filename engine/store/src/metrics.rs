//! What a store has done and holds, counted.

use core::cell::RefCell;

/// A store's counters. All but the `_now` ones only grow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct StoreMetrics {
    /// Batches appended, without duplicates.
    pub appends: u64,
    /// Bytes of batches appended.
    pub bytes_appended: u64,
    /// Writes to segments.
    pub writes: u64,
    /// Bytes written to segments, with rewritten and padded blocks.
    pub bytes_written: u64,
    /// Bytes of zeros written ahead of appends, and flushed.
    pub bytes_zeroed: u64,
    /// Turns of group commit.
    pub flush_turns: u64,
    /// Files flushed in these turns.
    pub flushes: u64,
    /// Appended bytes made durable by these turns.
    pub bytes_flushed: u64,
    /// Bytes served from memory.
    pub bytes_read_tail: u64,
    /// Bytes served from the page cache that were in it when asked for.
    pub bytes_read_warm: u64,
    /// Bytes served from the page cache or by direct reads after they had to be fetched.
    pub bytes_read_cold: u64,
    /// Batches of the log scanned by recoveries, in bytes.
    pub bytes_recovered: u64,
    /// Partitions recovered after an unclean end.
    pub recoveries: u64,
    /// Appends refused for want of space.
    pub storage_full_refusals: u64,
    /// Entries written to the checkpoint.
    pub checkpoint_entries: u64,
    /// Segments sealed.
    pub segments_sealed: u64,
    /// Segments deleted with their files, by retention or because their records were deleted.
    pub segments_deleted: u64,
    /// Bytes of batches in these.
    pub bytes_deleted: u64,
    /// Bytes of pool memory in use.
    pub pool_bytes_now: u64,
    /// Appends that had to wait for pool memory.
    pub pool_waits: u64,
    /// Segments with a descriptor open.
    pub descriptors_now: u64,
}

impl StoreMetrics {
    /// What two stores have done together. They share memory and descriptors: these are counted once.
    #[must_use]
    pub fn with(self, other: Self) -> Self {
        Self {
            appends: self.appends + other.appends,
            bytes_appended: self.bytes_appended + other.bytes_appended,
            writes: self.writes + other.writes,
            bytes_written: self.bytes_written + other.bytes_written,
            bytes_zeroed: self.bytes_zeroed + other.bytes_zeroed,
            flush_turns: self.flush_turns + other.flush_turns,
            flushes: self.flushes + other.flushes,
            bytes_flushed: self.bytes_flushed + other.bytes_flushed,
            bytes_read_tail: self.bytes_read_tail + other.bytes_read_tail,
            bytes_read_warm: self.bytes_read_warm + other.bytes_read_warm,
            bytes_read_cold: self.bytes_read_cold + other.bytes_read_cold,
            bytes_recovered: self.bytes_recovered + other.bytes_recovered,
            recoveries: self.recoveries + other.recoveries,
            storage_full_refusals: self.storage_full_refusals + other.storage_full_refusals,
            checkpoint_entries: self.checkpoint_entries + other.checkpoint_entries,
            segments_sealed: self.segments_sealed + other.segments_sealed,
            segments_deleted: self.segments_deleted + other.segments_deleted,
            bytes_deleted: self.bytes_deleted + other.bytes_deleted,
            pool_bytes_now: self.pool_bytes_now.max(other.pool_bytes_now),
            pool_waits: self.pool_waits + other.pool_waits,
            descriptors_now: self.descriptors_now.max(other.descriptors_now),
        }
    }
}

/// The counters while they count.
#[derive(Debug, Default)]
pub(crate) struct Counters(RefCell<StoreMetrics>);

impl Counters {
    pub(crate) fn count(&self, change: impl FnOnce(&mut StoreMetrics)) {
        change(&mut self.0.borrow_mut());
    }

    pub(crate) fn read(&self) -> StoreMetrics {
        *self.0.borrow()
    }
}
