//! The vocabulary of the log: offsets, ids, time, and the record batch of Kafka's format version 2.
//!
//! This crate is pure and stands on the lowest floor. It knows the bytes of a batch, but no file, no segment and no
//! protocol frame; whoever stores or sends batches hands it slices.
//!
//! - [`Offset`] and its neighbours in [`mod@offset`]: numbers of records in a partition.
//! - [`ids`]: who and what ([`TopicId`], [`PartitionIndex`], [`NodeId`], [`ProducerId`], [`LeaderEpoch`]).
//! - [`time`]: [`Instant`] for waiting, [`Timestamp`] for records. Neither reads a clock.
#![forbid(unsafe_code)]
#![deny(clippy::indexing_slicing, clippy::arithmetic_side_effects)]

pub mod ids;
pub mod offset;
pub mod time;

pub use ids::{
    LeaderEpoch, NodeId, PartitionIndex, ProducerEpoch, ProducerId, ShardId, TopicId, TopicPartition,
};
pub use offset::Offset;
pub use time::{Instant, Timestamp};
