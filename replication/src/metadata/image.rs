//! What the commands have made of the cluster: the state that every node and every shard holds a copy of.
//!
//! Cloning is cheap where it matters: nodes and topics are shared, and applying a command replaces only those it changes.
//! So a shard may hold an [`Image`] while the next one is being made, or apply the same commands to one of its own: the
//! outcome is the same, byte for byte.

mod apply;
mod check;
mod encoding;
#[cfg(test)]
mod tests;

pub use apply::check_topic_name;

use core::ops::Bound;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use engine_record::{LeaderEpoch, NodeId, PartitionIndex, ShardId, TopicId};

use crate::metadata::commands::{Incarnation, ListenerEndpoint};
use crate::metadata::lanes::Lane;

/// The most shards one node runs: a shard's broker id is the node id times this, plus the shard.
pub const SHARD_COUNT_MAX: u16 = 1_000;

/// The largest node id whose shards all have a broker id.
pub const NODE_ID_MAX: NodeId = NodeId(i32::MAX / 1_000 - 1);

/// A topic's name has at most this many characters: the longest that Kafka allows.
pub const TOPIC_NAME_CHARS_MAX: usize = 249;

/// A cluster's identity, drawn when its first node is formatted. Shown as 22 characters of URL-safe base64.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ClusterId(pub [u8; 16]);

impl fmt::Display for ClusterId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Cluster ids and topic ids are both 128 bits, and Kafka shows both the same way.
        fmt::Display::fmt(&TopicId(self.0), f)
    }
}

/// The metadata as of one index of the metadata log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Image {
    cluster: ClusterId,
    applied: u64,
    next_producer_id: i64,
    nodes: BTreeMap<NodeId, Arc<Node>>,
    topics: BTreeMap<TopicId, Arc<Topic>>,
    names: BTreeMap<String, TopicId>,
}

/// A registered node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    /// The node.
    pub id: NodeId,
    /// The identity of its data directory.
    pub directory_id: u128,
    /// The process that registered last.
    pub incarnation: Incarnation,
    /// The process that this one replaced; what it still asks for is refused.
    pub replaced: Option<Incarnation>,
    /// The broker epoch: the log index of the registration.
    pub epoch: u64,
    /// How many shards it runs, from 1 to [`SHARD_COUNT_MAX`].
    pub shards: u16,
    /// Its addresses, sorted by listener and shard.
    pub endpoints: Vec<ListenerEndpoint>,
}

/// A topic.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Topic {
    /// Its id, never used again.
    pub id: TopicId,
    /// Its name, free again once the topic is deleted.
    pub name: String,
    /// Its partitions, from partition 0; at least one.
    pub partitions: Vec<Partition>,
    /// Its own settings, by Kafka's names.
    pub configs: BTreeMap<String, String>,
}

/// One partition of a topic.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Partition {
    /// The nodes that hold it, the preferred leader first.
    pub replicas: Vec<NodeId>,
    /// The replicas that hold all that is committed.
    pub isr: Vec<NodeId>,
    /// Who leads it; nobody while no replica may.
    pub leader: Option<NodeId>,
    /// Counts its leaders; bumped also where a leader starts anew after an unclean stop.
    pub leader_epoch: LeaderEpoch,
    /// Counts the changes of this record.
    pub partition_epoch: i32,
    /// Which shard of a replica's node owns it.
    pub lane: Lane,
}

impl Image {
    /// The metadata of a cluster in which nothing has happened yet.
    #[must_use]
    pub fn new(cluster: ClusterId) -> Self {
        Self {
            cluster,
            applied: 0,
            next_producer_id: 0,
            nodes: BTreeMap::new(),
            topics: BTreeMap::new(),
            names: BTreeMap::new(),
        }
    }

    /// The cluster this is the metadata of.
    #[must_use]
    pub fn cluster(&self) -> ClusterId {
        self.cluster
    }

    /// The log index of the last command applied; 0 before the first.
    #[must_use]
    pub fn applied(&self) -> u64 {
        self.applied
    }

    /// The first producer id that nobody has been given.
    #[must_use]
    pub fn next_producer_id(&self) -> i64 {
        self.next_producer_id
    }

    /// The registered nodes, by id.
    pub fn nodes(&self) -> impl ExactSizeIterator<Item = &Arc<Node>> {
        self.nodes.values()
    }

    /// One node.
    #[must_use]
    pub fn node(&self, id: NodeId) -> Option<&Arc<Node>> {
        self.nodes.get(&id)
    }

    /// The topics, by id.
    pub fn topics(&self) -> impl ExactSizeIterator<Item = &Arc<Topic>> {
        self.topics.values()
    }

    /// One topic.
    #[must_use]
    pub fn topic(&self, id: TopicId) -> Option<&Arc<Topic>> {
        self.topics.get(&id)
    }

    /// The topics, by name.
    pub fn topics_by_name(&self) -> impl Iterator<Item = &Arc<Topic>> {
        self.names.values().filter_map(|id| self.topics.get(id))
    }

    /// The topics by name, from this name on.
    pub fn topics_by_name_from(&self, name: &str) -> impl Iterator<Item = &Arc<Topic>> {
        let names = self.names.range::<str, _>((Bound::Included(name), Bound::Unbounded));
        names.filter_map(|(_, id)| self.topics.get(id))
    }

    /// The topic that has this name now.
    #[must_use]
    pub fn topic_named(&self, name: &str) -> Option<&Arc<Topic>> {
        self.names.get(name).and_then(|id| self.topics.get(id))
    }

    /// The shard of `node` that owns a partition with this lane; `None` where the node isn't registered.
    #[must_use]
    pub fn owner(&self, node: NodeId, lane: Lane) -> Option<ShardId> {
        self.node(node).map(|node| lane.owner(node.shards))
    }
}

impl Node {
    /// Whether all its shards are reached at the first one's address, and known by its broker id.
    #[must_use]
    pub fn has_one_address(&self) -> bool {
        // They are sorted: the last is of the last shard that has any.
        self.endpoints.last().is_some_and(|last| last.shard == ShardId(0))
    }

    /// Where one shard is reached through one listener.
    #[must_use]
    pub fn endpoint(&self, listener: &str, shard: ShardId) -> Option<&ListenerEndpoint> {
        let at = self.endpoints.binary_search_by(|endpoint| endpoint.place().cmp(&(listener, shard)));
        at.ok().and_then(|at| self.endpoints.get(at))
    }
}

impl ListenerEndpoint {
    /// What an endpoint is found by.
    pub(crate) fn place(&self) -> (&str, ShardId) {
        (&self.listener, self.shard)
    }
}

impl Topic {
    /// One partition; `None` for a number that the topic doesn't have.
    #[must_use]
    pub fn partition(&self, index: PartitionIndex) -> Option<&Partition> {
        usize::try_from(index.0).ok().and_then(|index| self.partitions.get(index))
    }
}

/// The broker id under which clients see one shard of a node.
///
/// # Panics
///
/// The node is above [`NODE_ID_MAX`] or the shard isn't below [`SHARD_COUNT_MAX`]: neither can be registered.
#[must_use]
pub fn broker_id(node: NodeId, shard: ShardId) -> i32 {
    assert!((0..=NODE_ID_MAX.0).contains(&node.0), "node id out of range");
    assert!(shard.0 < SHARD_COUNT_MAX, "shard out of range");
    node.0 * i32::from(SHARD_COUNT_MAX) + i32::from(shard.0)
}

/// The node and shard that a broker id names; `None` for a negative one or a node above [`NODE_ID_MAX`].
#[must_use]
pub fn broker_id_parts(broker: i32) -> Option<(NodeId, ShardId)> {
    let broker = u32::try_from(broker).ok()?;
    let node = NodeId(i32::try_from(broker / u32::from(SHARD_COUNT_MAX)).ok()?);
    let shard = ShardId(u16::try_from(broker % u32::from(SHARD_COUNT_MAX)).ok()?);
    (node <= NODE_ID_MAX).then_some((node, shard))
}
