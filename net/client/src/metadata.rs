//! What a client knows of the cluster: which brokers there are, and who leads each partition.
//!
//! It is always a little out of date. What a broker says about a leader is believed only if its epoch isn't older than
//! what is known, so that an answer from a broker that lags doesn't send the client back.

use std::collections::BTreeMap;
use std::rc::Rc;

use engine_record::{PartitionIndex, TopicId};
use net_wire::ErrorCode;
use net_wire::messages::MetadataResponse;
use net_wire::messages::metadata::{MetadataResponsePartition, MetadataResponseTopic};

/// A broker's id as clients see it: an endpoint, which in this project is one shard of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct BrokerId(pub i32);

/// Where something listens. The host may be a name or an address.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Endpoint {
    /// Host name or IP address.
    pub host: Rc<str>,
    /// TCP port.
    pub port: u16,
}

impl core::fmt::Display for Endpoint {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        let Self { host, port } = self;
        if host.contains(':') { write!(f, "[{host}]:{port}") } else { write!(f, "{host}:{port}") }
    }
}

/// Text that is no `host:port`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is no address of the form host:port")]
pub struct InvalidEndpoint {
    text: Box<str>,
}

impl Endpoint {
    /// Reads `host:port`; an IPv6 address stands in brackets.
    ///
    /// # Errors
    /// [`InvalidEndpoint`] where that isn't what the text is.
    pub fn parse(text: &str) -> Result<Self, InvalidEndpoint> {
        let invalid = || InvalidEndpoint { text: text.into() };
        let (host, port) = text.rsplit_once(':').ok_or_else(invalid)?;
        let port = port.parse().map_err(|_| invalid())?;
        let bare = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
        let is_valid =
            bare.is_some_and(|host| !host.is_empty()) || !(host.is_empty() || host.contains([':', '[']));
        if is_valid { Ok(Self { host: bare.unwrap_or(host).into(), port }) } else { Err(invalid()) }
    }
}

/// A broker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Broker {
    /// Where it listens.
    pub endpoint: Endpoint,
    /// Its rack, if it has one.
    pub rack: Option<Rc<str>>,
}

/// A partition, as far as a client cares.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Partition {
    /// Who leads it; `None` while nobody does.
    pub leader: Option<BrokerId>,
    /// The leader's epoch, -1 if unknown.
    pub leader_epoch: i32,
    /// Brokers that have a copy.
    pub replicas: Vec<BrokerId>,
    /// Brokers whose copy counts.
    pub in_sync_replicas: Vec<BrokerId>,
}

/// A topic.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Topic {
    /// Its id; zero where the broker is too old to tell.
    pub id: TopicId,
    /// Whether brokers keep it for themselves.
    pub is_internal: bool,
    /// Its partitions, from 0 on.
    pub partitions: Vec<Partition>,
}

/// A leader that an answer names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LeaderHint {
    /// The leader.
    pub leader: BrokerId,
    /// Its epoch.
    pub leader_epoch: i32,
}

/// What the cluster looked like when it was last asked.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Metadata {
    cluster_id: Option<Rc<str>>,
    controller: Option<BrokerId>,
    brokers: BTreeMap<BrokerId, Broker>,
    topics: BTreeMap<Rc<str>, Topic>,
    /// Why a topic that was asked for isn't known.
    topic_errors: BTreeMap<Rc<str>, ErrorCode>,
}

impl Metadata {
    /// Takes what a broker answered. Topics it doesn't mention stay as they were.
    pub fn apply(&mut self, response: &MetadataResponse<'_>) {
        self.cluster_id = response.cluster_id.map(Rc::from).or_else(|| self.cluster_id.take());
        self.controller = Some(BrokerId(response.controller_id)).filter(|id| id.0 >= 0);
        let brokers = response.brokers.iter().filter_map(|broker| {
            let endpoint = Endpoint { host: broker.host.into(), port: u16::try_from(broker.port).ok()? };
            Some((BrokerId(broker.node_id), Broker { endpoint, rack: broker.rack.map(Rc::from) }))
        });
        self.brokers = brokers.collect();
        for topic in &response.topics {
            self.apply_topic(topic);
        }
    }

    fn apply_topic(&mut self, answer: &MetadataResponseTopic<'_>) {
        let Some(name) = answer.name.filter(|name| !name.is_empty()) else { return };
        let id = TopicId(answer.topic_id.0);
        if answer.error_code.is_none() {
            self.topic_errors.remove(name);
            let known = self.topics.get(name).filter(|known| known.id == id);
            let partitions = partitions(&answer.partitions, known);
            self.topics.insert(name.into(), Topic { id, is_internal: answer.is_internal, partitions });
        } else {
            self.topic_errors.insert(name.into(), answer.error_code);
            if answer.error_code == ErrorCode::UNKNOWN_TOPIC_OR_PARTITION {
                self.topics.remove(name);
            }
        }
    }

    /// Takes what an answer says about a partition's leader; `false` where it is no news.
    pub fn apply_leader(&mut self, topic: &str, partition: PartitionIndex, hint: LeaderHint) -> bool {
        let index = usize::try_from(partition.0).ok();
        let topic = self.topics.get_mut(topic);
        let Some(known) = topic.zip(index).and_then(|(topic, index)| topic.partitions.get_mut(index)) else {
            return false;
        };
        if hint.leader_epoch <= known.leader_epoch || hint.leader.0 < 0 {
            return false;
        }
        known.leader = Some(hint.leader);
        known.leader_epoch = hint.leader_epoch;
        true
    }

    /// Takes where a broker listens, as an answer says that names it as a leader.
    pub fn apply_endpoint(&mut self, id: BrokerId, endpoint: Endpoint) {
        self.brokers.insert(id, Broker { endpoint, rack: None });
    }

    /// Forgets a topic, as after its deletion.
    pub fn forget(&mut self, topic: &str) {
        self.topics.remove(topic);
        self.topic_errors.remove(topic);
    }

    /// The cluster's id.
    #[must_use]
    pub const fn cluster_id(&self) -> Option<&Rc<str>> {
        self.cluster_id.as_ref()
    }

    /// The controller's endpoint.
    #[must_use]
    pub const fn controller(&self) -> Option<BrokerId> {
        self.controller
    }

    /// The brokers, by id.
    #[must_use]
    pub const fn brokers(&self) -> &BTreeMap<BrokerId, Broker> {
        &self.brokers
    }

    /// The topics, by name.
    #[must_use]
    pub const fn topics(&self) -> &BTreeMap<Rc<str>, Topic> {
        &self.topics
    }

    /// A topic by name.
    #[must_use]
    pub fn topic(&self, name: &str) -> Option<&Topic> {
        self.topics.get(name)
    }

    /// Why the last answer about a topic was an error.
    #[must_use]
    pub fn topic_error(&self, name: &str) -> Option<ErrorCode> {
        self.topic_errors.get(name).copied()
    }

    /// Where a broker listens.
    #[must_use]
    pub fn endpoint(&self, id: BrokerId) -> Option<&Endpoint> {
        self.brokers.get(&id).map(|broker| &broker.endpoint)
    }
}

/// The partitions of an answer in order of their index; where it has an older leader than is known, the known one.
fn partitions(answers: &[MetadataResponsePartition], known: Option<&Topic>) -> Vec<Partition> {
    let mut sorted: Vec<_> = answers.iter().collect();
    sorted.sort_by_key(|answer| answer.partition_index);
    // An index that is missing ends the list: a client can't number what it doesn't know.
    let in_order = sorted.into_iter().enumerate();
    let contiguous =
        in_order.take_while(|(index, answer)| usize::try_from(answer.partition_index) == Ok(*index));
    contiguous
        .map(|(index, answer)| partition(answer, known.and_then(|topic| topic.partitions.get(index))))
        .collect()
}

fn partition(answer: &MetadataResponsePartition, known: Option<&Partition>) -> Partition {
    let brokers = |ids: &[i32]| ids.iter().copied().map(BrokerId).collect();
    let told = Partition {
        leader: Some(BrokerId(answer.leader_id)).filter(|leader| leader.0 >= 0),
        leader_epoch: answer.leader_epoch,
        replicas: brokers(&answer.replica_nodes),
        in_sync_replicas: brokers(&answer.isr_nodes),
    };
    match known {
        Some(known) if known.leader_epoch > told.leader_epoch && told.leader_epoch >= 0 => known.clone(),
        Some(_) | None => told,
    }
}

#[cfg(test)]
mod tests;
