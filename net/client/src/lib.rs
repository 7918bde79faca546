//! A client of the Kafka protocol.
#![forbid(unsafe_code)]

pub mod accumulator;
pub mod batch;
pub mod metadata;
pub mod partitioner;
pub mod random;
pub mod record;
