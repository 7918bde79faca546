//! The cluster's metadata: which nodes, topics and leaders there are, agreed by a Raft quorum.
//!
//! A [`Command`] is proposed to the [`Driver`] of the controller, becomes an entry of the metadata log, is committed by a
//! majority of the voters, and is then applied to the [`Image`] of every node in the same order. The controller is the
//! leader of the metadata log; its term is the controller epoch. A node's broker epoch is the log index of its
//! registration.
//!
//! [`Driver`]: driver::Driver

pub mod commands;
pub mod driver;
pub mod genesis;
pub mod image;
pub mod lanes;
pub mod membership;
pub mod message;
pub mod reply;
pub mod snapshot;
pub mod wal;

pub use commands::{
    AlterTopic, BumpReason, Command, CreatePartitions, CreateTopic, Incarnation, ListenerEndpoint,
    OtherConfigs, PartitionAssignment, RegisterNode,
};
pub use driver::{Config, Driver, Effects};
pub use image::{ClusterId, Image, Node, Partition, Topic};
pub use lanes::Lane;
pub use reply::{AssignmentError, ProducerIdBlock, RegistrationError, Reply, TopicNameError};
