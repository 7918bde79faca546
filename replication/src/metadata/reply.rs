//! What applying a command answers. Refusals are answers too: every node applies the same command and comes to the same one.

use engine_record::{NodeId, ProducerId, ShardId, TopicId};
use thiserror::Error;

/// The answer of one applied command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply {
    /// The node is registered, now or by an earlier copy of this command.
    NodeRegistered {
        /// Its broker epoch: the log index of the registration.
        epoch: u64,
    },
    /// The registration breaks a rule.
    InvalidRegistration(RegistrationError),
    /// The process that asks has been replaced by a newer one of the same node.
    StaleIncarnation,
    /// No such node is registered.
    UnknownNode(NodeId),
    /// The topic exists now.
    TopicCreated {
        /// Its id.
        id: TopicId,
    },
    /// The name is taken. Where `id` is the one asked for, an earlier copy of this command created it.
    TopicAlreadyExists {
        /// The topic that has the name.
        id: TopicId,
    },
    /// The id is zero or another topic's.
    InvalidTopicId,
    /// The name breaks a rule.
    InvalidTopicName(TopicNameError),
    /// The partitions cannot be placed so.
    InvalidAssignment(AssignmentError),
    /// One setting is named twice.
    DuplicateConfig,
    /// The topic is gone.
    TopicDeleted {
        /// The name that is free again.
        name: String,
    },
    /// No topic has this id.
    UnknownTopic,
    /// The topic's own settings are as asked.
    TopicAltered,
    /// The topic has the new partitions.
    PartitionsCreated,
    /// The topic has another number of partitions than the command builds on.
    PartitionsChanged {
        /// How many it has.
        partitions: u32,
    },
    /// Every partition led by the node has a new leader epoch.
    LeaderEpochsBumped {
        /// How many there were.
        partitions: u64,
    },
    /// These ids belong to the node that asked.
    ProducerIds(ProducerIdBlock),
    /// A block of no ids was asked for, or of more than there are left.
    InvalidProducerIdCount,
}

/// A range of producer ids that nobody else gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProducerIdBlock {
    /// The first id.
    pub first: ProducerId,
    /// How many, at least 1.
    pub count: u32,
}

/// Why a node may not register so.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum RegistrationError {
    /// The node is known with another data directory: its disk was emptied, or two machines have one node id.
    #[error("the node is registered with another data directory")]
    DirectoryMismatch,
    /// The node id leaves no room for the broker ids of its shards.
    #[error("node id {0} is out of range")]
    NodeIdOutOfRange(NodeId),
    /// A node has between 1 and 1,000 shards.
    #[error("{0} shards are not between 1 and 1,000")]
    ShardCount(u16),
    /// An endpoint of a shard that the node doesn't run.
    #[error("an endpoint names shard {0}, which the node does not run")]
    UnknownShard(ShardId),
    /// Two addresses for one listener of one shard.
    #[error("two endpoints for one listener of shard {0}")]
    DuplicateEndpoint(ShardId),
}

/// Why a topic may not be called so.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum TopicNameError {
    /// No character at all.
    #[error("the name is empty")]
    Empty,
    /// More than 249 characters.
    #[error("the name has {0} characters, more than 249")]
    TooLong(usize),
    /// `.` and `..` name folders.
    #[error("the name is \".\" or \"..\"")]
    Dots,
    /// A character other than ASCII letters, digits, `.`, `_` and `-`.
    #[error("the name has the character {0:?}; allowed are ASCII letters, digits, '.', '_' and '-'")]
    Character(char),
}

/// Why partitions cannot be placed so. The numbers in brackets are the error codes that say this to a Kafka client.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum AssignmentError {
    /// A topic has at least one partition (37).
    #[error("a topic needs at least one partition")]
    NoPartitions,
    /// The replication factor is zero or larger than the number of nodes to choose from (38).
    #[error("replication factor {factor} is not between 1 and the {nodes} nodes there are")]
    ReplicationFactor {
        /// What was asked for.
        factor: usize,
        /// How many nodes there are to choose from.
        nodes: usize,
    },
    /// A partition without replicas (39).
    #[error("partition {partition} has no replicas")]
    NoReplicas {
        /// The partition's place in the list.
        partition: usize,
    },
    /// A replica on a node that isn't registered (39).
    #[error("partition {partition} names node {node}, which is not registered")]
    UnknownNode {
        /// The partition's place in the list.
        partition: usize,
        /// The node.
        node: NodeId,
    },
    /// Two replicas of one partition on one node, also where they name different shards of it (39).
    #[error("partition {partition} names node {node} twice")]
    DuplicateNode {
        /// The partition's place in the list.
        partition: usize,
        /// The node.
        node: NodeId,
    },
    /// A shard that the node doesn't run (39).
    #[error("partition {partition} names shard {shard} of node {node}, which runs fewer")]
    UnknownShard {
        /// The partition's place in the list.
        partition: usize,
        /// The node.
        node: NodeId,
        /// The shard.
        shard: ShardId,
    },
    /// The shards named for the replicas of one partition have no lane in common (39).
    #[error("the shards named for partition {partition} have no lane in common")]
    NoCommonLane {
        /// The partition's place in the list.
        partition: usize,
    },
    /// Partitions of one topic with different numbers of replicas (39).
    #[error("partition {partition} has another number of replicas than partition 0")]
    UnevenReplicas {
        /// The partition's place in the list.
        partition: usize,
    },
}

impl AssignmentError {
    /// The same of partitions that are counted from `first` on.
    #[must_use]
    pub fn counted_from(self, first: usize) -> Self {
        match self {
            Self::NoPartitions | Self::ReplicationFactor { .. } => self,
            Self::NoReplicas { partition } => Self::NoReplicas { partition: first + partition },
            Self::UnknownNode { partition, node } => Self::UnknownNode { partition: first + partition, node },
            Self::DuplicateNode { partition, node } => {
                Self::DuplicateNode { partition: first + partition, node }
            }
            Self::UnknownShard { partition, node, shard } => {
                Self::UnknownShard { partition: first + partition, node, shard }
            }
            Self::NoCommonLane { partition } => Self::NoCommonLane { partition: first + partition },
            Self::UnevenReplicas { partition } => Self::UnevenReplicas { partition: first + partition },
        }
    }
}
