//! A client of the Kafka protocol.
#![forbid(unsafe_code)]

pub mod accumulator;
pub mod batch;
pub mod consumer_core;
mod errand;
mod link;
pub mod metadata;
pub mod partitioner;
pub mod producer_core;
pub mod random;
pub mod record;
pub mod request;
