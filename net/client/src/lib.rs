//! A client of the Kafka protocol: producer, consumer and admin calls, for the bench, the tools and the tests.
//!
//! It speaks to any broker of the protocol. It is no group member, knows no transactions and no authentication.
//!
//! ```text
//!   shells, over the seam (I: Io)            pure cores: events in, plans out, time an argument
//!   ------------------------------           ---------------------------------------------------
//!   producer   tasks, handles          ───>  producer_core   order, sequences, retries, outcomes
//!                                             ├─ accumulator   batches that wait, memory bound
//!                                             ├─ batch         records written once, where they are sent from
//!                                             └─ partitioner   which partition
//!   consumer   tasks, poll             ───>  consumer_core   positions, fetches, resets; records read in place
//!   admin      orders and questions
//!   client     connections by broker   ───>  metadata        brokers, leaders, epochs
//!   connection requests in order       ───>  protocol        plans as messages, answers in the plan's order
//!   resolver   names, off the shard
//! ```
//!
//! A shell asks its core what to do whenever something happened, does it, and tells the core what came of it. Nothing
//! is decided in a shell, so what is promised about order, loss and repetition is promised and tested in the cores.
//!
//! Everything here belongs to one shard. Limits are in the settings: memory, requests in flight, sizes, times.
#![forbid(unsafe_code)]

pub mod accumulator;
pub mod admin;
pub mod batch;
pub mod client;
pub mod connection;
pub mod consumer;
pub mod consumer_core;
mod errand;
mod link;
pub mod metadata;
mod other_protocol;
pub mod partitioner;
pub mod producer;
pub mod producer_core;
mod protocol;
pub mod random;
pub mod record;
pub mod request;
pub mod resolver;

pub use accumulator::BatchLimits;
pub use admin::{Admin, AdminError, CreateMode, LogSize, NewTopic, SettingChange, TopicSetting};
pub use batch::{BatchWriter, SealedBatch};
pub use client::{Client, ClientError, ClientSettings, Purpose};
pub use connection::{Connection, ConnectionSettings};
pub use consumer::Consumer;
pub use consumer_core::{
    ConsumeError, ConsumedRecord, ConsumerSettings, FetchedRecords, OffsetReset, Stalled, Start,
};
pub use metadata::{BrokerId, Endpoint, Metadata};
pub use net_wire::ErrorCode;
pub use other_protocol::OtherProtocol;
pub use producer::{BatchDelivery, BatchHandle, DeliveryHandle, Producer, RecordMetadata, SendError};
pub use producer_core::{Acks, Appended, DeliveryError, ProducerSettings};
pub use record::{InvalidRecord, ProducerRecord};
pub use resolver::Resolver;
