//! What a store is told: where, how large, how patient. Every limit of the crate is here, named and with its default.

use core::time::Duration;
use std::path::PathBuf;

use engine_io::BLOCK_BYTES;
use engine_record::ShardId;

/// Which writes one flush of one file makes durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FlushScope {
    /// All that had completed on the device. Files with fresh space still need their own.
    Device,
    /// Those of the flushed file only.
    PerFile,
}

/// How many segment files are kept open that nothing uses, for direct I/O and for sending each, unless set otherwise.
pub const IDLE_DESCRIPTORS_MAX: usize = 512;

/// One shard's store: where it is, and its limits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoreConfig {
    /// The data folder, shared by all shards of the node.
    pub folder: PathBuf,
    /// The shard that owns this store.
    pub shard: ShardId,
    /// How many shards the node runs, at least 1.
    pub shards: u16,
    /// Which writes one flush covers.
    pub flush_scope: FlushScope,
    /// Memory for batches in bytes: on their way to disk, and kept for readers. Appends wait while it is used up.
    pub pool_bytes: usize,
    /// How much of a partition's newest bytes stays in memory for readers, in bytes.
    pub tail_bytes_per_partition: usize,
    /// The largest single write in bytes, and the largest buffer; a power of two, not below a block.
    pub write_bytes_max: usize,
    /// The first step in which a segment is given disk space, in bytes. Steps double up to `allocation_bytes_max`.
    pub allocation_bytes_min: u32,
    /// The largest step in which a segment is given disk space, in bytes.
    pub allocation_bytes_max: u32,
    /// How far ahead of the appends zeros are written, in bytes, where appends are small and waited for and a flush
    /// covers the device; 0 for never.
    ///
    /// Space that was written before is flushed with the device; fresh space costs a flush of its own. But everything is
    /// written twice: measured on the drive at hand, that costs more than it spares, so it is never done by default.
    pub zero_ahead_bytes: u32,
    /// The largest writes, in bytes, for whose appends zeros are written ahead: with larger ones the drive is the limit
    /// and not the flush, and writing everything twice is no help.
    pub zero_ahead_write_bytes_max: usize,
    /// How many files are flushed at the same time, at least 1.
    pub flushes_max: usize,
    /// How long written data stay unflushed while nobody waits for the flush.
    pub flush_interval: Duration,
    /// How many written bytes stay unflushed while nobody waits for the flush.
    pub flush_bytes: u64,
    /// How long progress stays out of the checkpoint.
    pub checkpoint_interval: Duration,
    /// How many flushed bytes stay out of the checkpoint.
    pub checkpoint_bytes: u64,
    /// Segment files kept open that nothing uses at the moment, for direct I/O and for sending each.
    pub idle_descriptors_max: usize,
    /// Indexes of sealed segments kept in memory.
    pub loaded_indexes_max: usize,
    /// A partition without an append for this long gives back memory, descriptors and space ahead.
    pub idle_after: Duration,
    /// How far ahead of a reader that reads on and on a segment is brought into the page cache, in bytes.
    pub read_ahead_bytes: u64,
    /// How long deleting or truncating waits for readers.
    pub readers_deadline: Duration,
}

impl StoreConfig {
    /// The configuration of shard `shard` of `shards` in `folder`, all else at its default.
    #[must_use]
    pub fn new(folder: impl Into<PathBuf>, shard: ShardId, shards: u16) -> Self {
        Self {
            folder: folder.into(),
            shard,
            shards,
            flush_scope: FlushScope::PerFile,
            pool_bytes: 64 << 20,
            tail_bytes_per_partition: 2 << 20,
            write_bytes_max: 1 << 20,
            allocation_bytes_min: 1 << 20,
            allocation_bytes_max: 32 << 20,
            zero_ahead_bytes: 0,
            zero_ahead_write_bytes_max: 64 << 10,
            flushes_max: 8,
            flush_interval: Duration::from_millis(100),
            flush_bytes: 64 << 20,
            checkpoint_interval: Duration::from_secs(1),
            checkpoint_bytes: 8 << 20,
            idle_descriptors_max: IDLE_DESCRIPTORS_MAX,
            loaded_indexes_max: 64,
            idle_after: Duration::from_secs(60),
            read_ahead_bytes: 8 << 20,
            readers_deadline: Duration::from_secs(10),
        }
    }

    /// Checks every limit against the others.
    ///
    /// # Errors
    /// The first setting found wrong.
    pub fn check(&self) -> Result<(), ConfigError> {
        let block = BLOCK_BYTES;
        refuse(self.shards == 0 || self.shard.0 >= self.shards, ConfigError::Shard)?;
        let write = self.write_bytes_max;
        refuse(!write.is_power_of_two() || write < block || write > 1 << 24, ConfigError::WriteBytesMax)?;
        refuse(self.pool_bytes < write.saturating_mul(2), ConfigError::PoolBytes)?;
        let (first, last) = (self.allocation_bytes_min, self.allocation_bytes_max);
        let steps_aligned =
            [first, last, self.zero_ahead_bytes].iter().all(|step| (*step as usize).is_multiple_of(block));
        refuse(!steps_aligned || first == 0 || first > last, ConfigError::Allocation)?;
        refuse(self.flushes_max == 0, ConfigError::FlushesMax)
    }
}

fn refuse(wrong: bool, error: ConfigError) -> Result<(), ConfigError> {
    if wrong { Err(error) } else { Ok(()) }
}

/// Which setting can't be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConfigError {
    /// The shard isn't one of the node's.
    #[error("the shard's number is not below the node's count of shards")]
    Shard,
    /// `write_bytes_max` isn't a power of two from 4 KiB to 16 MiB.
    #[error("write_bytes_max is not a power of two from 4 KiB to 16 MiB")]
    WriteBytesMax,
    /// `pool_bytes` can't hold two of the largest writes.
    #[error("pool_bytes is below twice write_bytes_max")]
    PoolBytes,
    /// The steps of allocation aren't whole blocks, or the first is larger than the last.
    #[error("allocation steps must be whole blocks, the first not above the last")]
    Allocation,
    /// `flushes_max` is 0.
    #[error("flushes_max is 0")]
    FlushesMax,
    /// The largest batch of a log doesn't fit the pool together with its neighbours.
    #[error("a batch of {batch_bytes_max} bytes does not fit a pool of {pool_bytes} bytes")]
    BatchBytesMax {
        /// The log's largest batch.
        batch_bytes_max: u32,
        /// The store's memory.
        pool_bytes: usize,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config() -> StoreConfig {
        StoreConfig::new("data", ShardId(0), 1)
    }

    #[test]
    fn the_defaults_hold_together() {
        assert_eq!(config().check(), Ok(()));
    }

    #[test]
    fn each_impossible_setting_is_named() {
        let refused = |change: fn(&mut StoreConfig)| {
            let mut config = config();
            change(&mut config);
            config.check().unwrap_err()
        };
        assert_eq!(refused(|c| c.shard = ShardId(1)), ConfigError::Shard);
        assert_eq!(refused(|c| c.write_bytes_max = 5000), ConfigError::WriteBytesMax);
        assert_eq!(refused(|c| c.pool_bytes = c.write_bytes_max), ConfigError::PoolBytes);
        assert_eq!(refused(|c| c.allocation_bytes_min = 100), ConfigError::Allocation);
        assert_eq!(refused(|c| c.allocation_bytes_max = 4096), ConfigError::Allocation);
        assert_eq!(refused(|c| c.flushes_max = 0), ConfigError::FlushesMax);
    }
}
