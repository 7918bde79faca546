//! The vocabulary of the log: offsets, ids, time, and the record batch of Kafka's format version 2.
//!
//! This crate is pure and stands on the lowest floor. It knows the bytes of a batch, but no file, no segment and no
//! protocol frame; whoever stores or sends batches hands it slices.
//!
//! - [`Offset`] and its neighbours in [`mod@offset`]: numbers of records in a partition.
//! - [`ids`]: who and what ([`TopicId`], [`PartitionIndex`], [`NodeId`], [`ProducerId`], [`LeaderEpoch`]).
//! - [`time`]: [`Instant`] for waiting, [`Timestamp`] for records. Neither reads a clock.
//! - [`batch`]: the format, drawn; [`BatchHeader`] and [`RecordBatch`], types that can't be wrong once parsed.
//! - [`client_batch`]: what a broker checks before it appends a batch.
//! - [`patch`]: what a broker writes into a batch (offset, epoch, append time) without a second pass over it.
//! - [`record`], [`varint`], [`compression`]: what is inside. [`builder`]: making batches.
//!
//! ```text
//!  client's bytes -> validate_client_batch -> UnverifiedBatch -> (log decides) -> assign, copy_and_checksum -> stored
//!  stored bytes   -> RecordBatch::parse (pair of the check above) -> Records
//! ```
//!
//! Invariants: parsing never panics, whatever the bytes; a parsed header's size, counts and codec are in range; no
//! function allocates more than the bytes it was given, but [`decompress`], which has a limit.
#![forbid(unsafe_code)]
#![deny(clippy::indexing_slicing)]
#![cfg_attr(not(test), deny(clippy::arithmetic_side_effects))]

pub mod batch;
pub mod builder;
pub mod client_batch;
pub mod compression;
pub mod error;
pub mod ids;
pub mod offset;
pub mod patch;
pub mod record;
pub mod time;
pub mod varint;

pub use batch::{
    BATCH_HEADER_BYTES, BatchHeader, CHECKSUM_FROM, RecordBatch, TimestampType, UnverifiedBatch,
};
pub use builder::{BatchBuilder, BuildError, Marker, NewRecord, Producer, transaction_marker};
pub use client_batch::{
    ClientBatchError, ClientBatchRules, InvalidRecord, InvalidTimestamp, RecordWalk, validate_client_batch,
};
pub use compression::{CompressError, Compression, DecompressError, Decompression, compress, decompress};
pub use error::{CorruptBatch, CorruptRecord};
pub use ids::{
    LeaderEpoch, NodeId, PartitionIndex, ProducerEpoch, ProducerId, ShardId, TopicId, TopicPartition,
};
pub use offset::Offset;
pub use patch::{assign, copy_and_checksum, set_max_timestamp, stamp_append_time};
pub use record::{Header, Headers, Record, Records};
pub use time::{Instant, Timestamp};
