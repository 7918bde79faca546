//! Applying a command. Everything is checked here again: what held when the command was proposed may not hold any more.

use std::collections::BTreeMap;
use std::collections::BTreeSet;
use std::sync::Arc;

use engine_record::{LeaderEpoch, NodeId, ProducerId, ShardId, TopicId};

use super::{Image, NODE_ID_MAX, Node, Partition, SHARD_COUNT_MAX, TOPIC_NAME_CHARS_MAX, Topic};
use crate::metadata::commands::{
    AlterTopic, Command, CreatePartitions, CreateTopic, Incarnation, ListenerEndpoint, OtherConfigs,
    PartitionAssignment, RegisterNode,
};
use crate::metadata::reply::{AssignmentError, ProducerIdBlock, RegistrationError, Reply, TopicNameError};

/// The most producer ids in one block.
const PRODUCER_ID_COUNT_MAX: u32 = 1_000_000;

impl Image {
    /// Applies the command at `index` of the metadata log. A refused command changes nothing but [`Image::applied`].
    ///
    /// # Panics
    ///
    /// `index` isn't above [`Image::applied`]: a command would be applied twice.
    pub fn apply(&mut self, index: u64, command: &Command) -> Reply {
        assert!(index > self.applied, "index {index} is applied after index {}", self.applied);
        self.applied = index;
        let reply = match command {
            Command::RegisterNode(registration) => self.register_node(index, registration),
            Command::CreateTopic(topic) => self.create_topic(topic),
            Command::DeleteTopic { id } => self.delete_topic(*id),
            Command::BumpLeaderEpochs { node, reason: _ } => self.bump_leader_epochs(*node),
            Command::AllocateProducerIds { node, incarnation, count } => {
                self.allocate_producer_ids(*node, *incarnation, *count)
            }
            Command::AlterTopic(alteration) => self.alter_topic(alteration),
            Command::CreatePartitions(growth) => self.create_partitions(growth),
        };
        self.check_after_apply();
        reply
    }

    fn register_node(&mut self, index: u64, registration: &RegisterNode) -> Reply {
        if let Err(error) = check_registration(registration) {
            return Reply::InvalidRegistration(error);
        }
        let known = self.nodes.get(&registration.node);
        if let Some(known) = known {
            if known.directory_id != registration.directory_id {
                return Reply::InvalidRegistration(RegistrationError::DirectoryMismatch);
            }
            if known.incarnation == registration.incarnation {
                return Reply::NodeRegistered { epoch: known.epoch };
            }
            if known.replaced == Some(registration.incarnation) {
                return Reply::StaleIncarnation;
            }
        }
        let replaced = known.map(|known| known.incarnation);
        self.nodes.insert(registration.node, Arc::new(node_of(index, registration, replaced)));
        if !registration.clean_start {
            self.bump_partitions_led_by(registration.node);
        }
        Reply::NodeRegistered { epoch: index }
    }

    fn create_topic(&mut self, topic: &CreateTopic) -> Reply {
        if let Err(error) = check_topic_name(&topic.name) {
            return Reply::InvalidTopicName(error);
        }
        if let Some(&id) = self.names.get(&topic.name) {
            return Reply::TopicAlreadyExists { id };
        }
        if topic.id.is_zero() || self.topics.contains_key(&topic.id) {
            return Reply::InvalidTopicId;
        }
        if let Err(error) = self.check_assignment(&topic.partitions) {
            return Reply::InvalidAssignment(error);
        }
        let configs: BTreeMap<_, _> = topic.configs.iter().cloned().collect();
        if configs.len() != topic.configs.len() {
            return Reply::DuplicateConfig;
        }
        let partitions = topic.partitions.iter().map(first_partition).collect();
        let created = Topic { id: topic.id, name: topic.name.clone(), partitions, configs };
        created.check();
        self.names.insert(topic.name.clone(), topic.id);
        self.topics.insert(topic.id, Arc::new(created));
        Reply::TopicCreated { id: topic.id }
    }

    /// Whether partitions may be placed so: every replica on a registered node, and on a node at most once.
    ///
    /// # Errors
    ///
    /// The first rule broken, and by which partition.
    pub fn check_assignment(&self, partitions: &[PartitionAssignment]) -> Result<(), AssignmentError> {
        let first = partitions.first().ok_or(AssignmentError::NoPartitions)?;
        self.check_each(partitions, first.replicas.len())
    }

    /// Whether a topic may get these partitions beside those it has, whose replicas are as many.
    ///
    /// # Errors
    ///
    /// The first rule broken, and by which partition of the topic.
    pub fn check_more(&self, topic: &Topic, more: &[PartitionAssignment]) -> Result<(), AssignmentError> {
        let first = topic.partitions.first().ok_or(AssignmentError::NoPartitions)?;
        if more.is_empty() {
            return Err(AssignmentError::NoPartitions);
        }
        let checked = self.check_each(more, first.replicas.len());
        checked.map_err(|error| error.counted_from(topic.partitions.len()))
    }

    fn check_each(&self, partitions: &[PartitionAssignment], replicas: usize) -> Result<(), AssignmentError> {
        for (partition, assignment) in partitions.iter().enumerate() {
            if assignment.replicas.is_empty() {
                return Err(AssignmentError::NoReplicas { partition });
            }
            if assignment.replicas.len() != replicas {
                return Err(AssignmentError::UnevenReplicas { partition });
            }
            self.check_replicas(partition, &assignment.replicas)?;
        }
        Ok(())
    }

    fn check_replicas(&self, partition: usize, replicas: &[NodeId]) -> Result<(), AssignmentError> {
        let mut seen = BTreeSet::new();
        for &node in replicas {
            if !self.nodes.contains_key(&node) {
                return Err(AssignmentError::UnknownNode { partition, node });
            }
            if !seen.insert(node) {
                return Err(AssignmentError::DuplicateNode { partition, node });
            }
        }
        Ok(())
    }

    fn delete_topic(&mut self, id: TopicId) -> Reply {
        let Some(topic) = self.topics.remove(&id) else {
            return Reply::UnknownTopic;
        };
        let named = self.names.remove(&topic.name);
        assert_eq!(named, Some(id), "a topic's name led to another topic");
        assert_eq!(topic.id, id, "a topic lay under another's id");
        Reply::TopicDeleted { name: topic.name.clone() }
    }

    fn alter_topic(&mut self, alteration: &AlterTopic) -> Reply {
        let changes: BTreeMap<_, _> = alteration.changes.iter().map(|(name, value)| (name, value)).collect();
        if changes.len() != alteration.changes.len() {
            return Reply::DuplicateConfig;
        }
        let Some(topic) = self.topics.get_mut(&alteration.id) else {
            return Reply::UnknownTopic;
        };
        let mut configs = match alteration.others {
            OtherConfigs::Stay => topic.configs.clone(),
            OtherConfigs::Go => BTreeMap::new(),
        };
        for (name, value) in changes {
            match value {
                Some(value) => configs.insert(name.clone(), value.clone()),
                None => configs.remove(name),
            };
        }
        if configs != topic.configs {
            Arc::make_mut(topic).configs = configs;
        }
        Reply::TopicAltered
    }

    fn create_partitions(&mut self, growth: &CreatePartitions) -> Reply {
        let Some(topic) = self.topics.get(&growth.id) else {
            return Reply::UnknownTopic;
        };
        let partitions = u32::try_from(topic.partitions.len()).unwrap_or(u32::MAX);
        if partitions != growth.first {
            return Reply::PartitionsChanged { partitions };
        }
        if let Err(error) = self.check_more(topic, &growth.partitions) {
            return Reply::InvalidAssignment(error);
        }
        let topic = self.topics.get_mut(&growth.id).expect("the topic was found above");
        let grown = Arc::make_mut(topic);
        grown.partitions.extend(growth.partitions.iter().map(first_partition));
        grown.check();
        Reply::PartitionsCreated
    }

    fn bump_leader_epochs(&mut self, node: NodeId) -> Reply {
        if !self.nodes.contains_key(&node) {
            return Reply::UnknownNode(node);
        }
        Reply::LeaderEpochsBumped { partitions: self.bump_partitions_led_by(node) }
    }

    fn bump_partitions_led_by(&mut self, node: NodeId) -> u64 {
        let mut bumped = 0;
        let leads = |partition: &&mut Partition| partition.leader == Some(node);
        for topic in self.topics.values_mut() {
            if topic.partitions.iter().all(|partition| partition.leader != Some(node)) {
                continue;
            }
            for partition in Arc::make_mut(topic).partitions.iter_mut().filter(leads) {
                partition.bump_leader_epoch();
                bumped += 1;
            }
        }
        bumped
    }

    fn allocate_producer_ids(&mut self, node: NodeId, incarnation: Incarnation, count: u32) -> Reply {
        let Some(known) = self.nodes.get(&node) else {
            return Reply::UnknownNode(node);
        };
        if known.incarnation != incarnation {
            return Reply::StaleIncarnation;
        }
        let end = self.next_producer_id.checked_add(i64::from(count));
        match end {
            Some(end) if (1..=PRODUCER_ID_COUNT_MAX).contains(&count) => {
                let first = ProducerId(self.next_producer_id);
                assert!(end > first.0, "a block has at least one id");
                self.next_producer_id = end;
                Reply::ProducerIds(ProducerIdBlock { first, count })
            }
            Some(_) | None => Reply::InvalidProducerIdCount,
        }
    }
}

impl Partition {
    /// The same leader, in a new epoch.
    fn bump_leader_epoch(&mut self) {
        let (leader_epoch, partition_epoch) = (self.leader_epoch, self.partition_epoch);
        self.leader_epoch = LeaderEpoch(leader_epoch.0 + 1);
        self.partition_epoch += 1;
        assert!(self.leader_epoch > leader_epoch, "a leader epoch never goes back");
        assert!(
            self.partition_epoch > partition_epoch,
            "every change of a partition has a new partition epoch"
        );
        self.check();
    }
}

fn node_of(index: u64, registration: &RegisterNode, replaced: Option<Incarnation>) -> Node {
    let mut endpoints = registration.endpoints.clone();
    endpoints.sort_by(|a, b| a.place().cmp(&b.place()));
    let node = Node {
        id: registration.node,
        directory_id: registration.directory_id,
        incarnation: registration.incarnation,
        replaced,
        epoch: index,
        shards: registration.shards,
        endpoints,
    };
    node.check();
    node
}

fn first_partition(assignment: &PartitionAssignment) -> Partition {
    Partition {
        replicas: assignment.replicas.clone(),
        isr: assignment.replicas.clone(),
        leader: assignment.replicas.first().copied(),
        leader_epoch: LeaderEpoch(0),
        partition_epoch: 0,
        lane: assignment.lane,
    }
}

fn check_registration(registration: &RegisterNode) -> Result<(), RegistrationError> {
    if !(0..=NODE_ID_MAX.0).contains(&registration.node.0) {
        return Err(RegistrationError::NodeIdOutOfRange(registration.node));
    }
    if !(1..=SHARD_COUNT_MAX).contains(&registration.shards) {
        return Err(RegistrationError::ShardCount(registration.shards));
    }
    check_endpoints(&registration.endpoints, registration.shards)
}

fn check_endpoints(endpoints: &[ListenerEndpoint], shards: u16) -> Result<(), RegistrationError> {
    let mut seen: BTreeSet<(&str, ShardId)> = BTreeSet::new();
    for endpoint in endpoints {
        if endpoint.shard.0 >= shards {
            return Err(RegistrationError::UnknownShard(endpoint.shard));
        }
        if !seen.insert(endpoint.place()) {
            return Err(RegistrationError::DuplicateEndpoint(endpoint.shard));
        }
    }
    Ok(())
}

/// Whether a topic may be called so; the rules are Kafka's.
///
/// # Errors
///
/// The first rule broken.
pub fn check_topic_name(name: &str) -> Result<(), TopicNameError> {
    if name.is_empty() {
        return Err(TopicNameError::Empty);
    }
    if name == "." || name == ".." {
        return Err(TopicNameError::Dots);
    }
    if let Some(stranger) = name.chars().find(|c| !c.is_ascii_alphanumeric() && !"._-".contains(*c)) {
        return Err(TopicNameError::Character(stranger));
    }
    if name.len() > TOPIC_NAME_CHARS_MAX {
        return Err(TopicNameError::TooLong(name.len()));
    }
    Ok(())
}
