//! Carries out the log's plans on files, for one shard.
//!
//! [`engine_log`] decides where a batch goes, what may be read and what recovery may keep; this crate brings the bytes
//! there and back. It is a shell over the seam of [`engine_io`] and runs wherever that is carried out. It knows no
//! protocol, no leader and no replica: who may append, and how far the high watermark moves, others say.
//!
//! ```text
//!  append ─ turn ─ plan ─ copy + CRC ─ commit ──> Fill ──> one write at a time ──> Tail (memory for readers)
//!           (append.rs)                (chunk.rs)  (partition.rs)     |
//!                                                                     v
//!  written, flushed <── Flusher: one turn at a time for all files <── completed writes
//!           |           (flush.rs)
//!           v
//!  Checkpointer: what is durable, in two slots a shard     (checkpointer.rs, slot.rs, reserve.rs, checkpoint.rs)
//!
//!  read ─ plan ─ locate (headers, index) ─ pieces: memory | page cache | direct read       (read.rs, read/)
//!  open ─ closed entry | scan and fence (open.rs)     truncate.rs, retention.rs, delete.rs, orphans.rs, seal.rs,
//!                                                   roll.rs, idle.rs: the rest
//! ```
//!
//! What holds:
//! - One owner: a store and all it gives out live on one shard. State is decided on under a borrow and never borrowed
//!   across an await; what an operation has to finish once begun runs as a task, so every future may be dropped.
//! - Appends of a partition take effect in the order they were called, also when one waits for memory or space.
//! - Memory under a write in flight never changes: it is frozen before, and the partial block at its end is copied.
//! - `written` moves when the device has taken a gapless prefix, `flushed` when a flush that began after that is done.
//! - A failed write or flush ends the store: nothing is tried again, nothing more is acknowledged. Want of space while
//!   allocating refuses one append and leaves no trace. Stores of other folders on the shard go on ([`Resources`]).
//! - A log takes an append only where there is space to say that it is closed: a stop is clean on a full drive too.
//! - The checkpoint never says more than is durable. Durable bytes that are damaged are reported, never cut.
//! - Bytes given to a reader stay where they are until it lets go.
//! - Every queue, buffer and cache has a limit in [`StoreConfig`]; an idle partition holds none of them.
#![forbid(unsafe_code)]

mod append;
mod background;
mod checkpoint;
mod checkpoint_files;
mod checkpointer;
mod chunk;
mod config;
mod delete;
mod descriptors;
mod error;
mod failure;
mod flush;
pub mod format;
mod idle;
mod layout;
mod metrics;
mod open;
mod orphans;
mod partition;
mod partition_log;
mod permits;
mod pool;
mod progress;
mod read;
mod reserve;
mod resources;
mod retention;
mod roll;
mod seal;
mod segment_file;
mod shard;
mod slot;
mod store;
mod tail;
mod truncate;
mod want;
mod with_descriptor;
mod zeros;

pub use append::Appended;
pub use checkpoint::CorruptCheckpoint;
#[doc(hidden)]
pub use checkpoint::read_fuzzed_slot;
pub use config::{ConfigError, FlushScope, IDLE_DESCRIPTORS_MAX, StoreConfig};
pub use engine_log::{AppendError as LogAppendError, AppendOrigin, LogConfig, LogOffsets, ReadBound};
pub use error::{
    AppendError, Corruption, DeleteRecordsError, DiskError, DiskOperation, ReadError, StoreError,
    StoreFailure, WaitError,
};
pub use flush::FlushInterest;
pub use metrics::StoreMetrics;
pub use orphans::holds_segments;
pub use partition_log::PartitionLog;
pub use read::timestamp::TimestampedOffset;
pub use read::{Piece, Read, ReadRequest};
pub use resources::Resources;
pub use retention::Deleted;
pub use store::{RecoveryReport, Store};
