//! What holds in every history, whatever goes wrong in it.

use std::collections::{BTreeMap, BTreeSet};

use engine_record::{NodeId, TopicId};
use replication::metadata::driver::Committed;
use replication::metadata::{Command, Image, ProducerIdBlock, Reply};

#[derive(Default)]
pub(crate) struct Checks {
    leaders: BTreeMap<u64, NodeId>,
    entries: BTreeMap<u64, Option<Command>>,
    producer_ids: BTreeMap<i64, i64>,
    topics: BTreeSet<TopicId>,
    acknowledged: BTreeSet<u64>,
    spoken: BTreeMap<NodeId, u64>,
}

impl Checks {
    /// No term has two leaders.
    pub(crate) fn leads(&mut self, node: NodeId, term: u64) {
        let leader = *self.leaders.entry(term).or_insert(node);
        assert_eq!(leader, node, "two leaders in term {term}");
    }

    /// Every node applies the same entry at the same index.
    pub(crate) fn applied(&mut self, committed: &Committed) {
        let entry = self.entries.entry(committed.index).or_insert_with(|| committed.command.clone());
        assert_eq!(*entry, committed.command, "two entries at index {}", committed.index);
    }

    /// What was promised once is never promised again, and is remembered.
    pub(crate) fn acknowledged(&mut self, token: u64, reply: &Reply) {
        assert!(self.acknowledged.insert(token), "proposal {token} was answered twice");
        match reply {
            Reply::ProducerIds(ProducerIdBlock { first, count }) => {
                let (first, end) = (first.0, first.0 + i64::from(*count));
                let before = self.producer_ids.range(..end).next_back();
                assert!(before.is_none_or(|(_, last)| *last <= first), "producer id {first} was given twice");
                self.producer_ids.insert(first, end);
            }
            Reply::TopicCreated { id } => {
                self.topics.insert(*id);
            }
            Reply::NodeRegistered { .. } | Reply::UnknownNode(_) | Reply::InvalidAssignment(_) => {}
            Reply::InvalidRegistration(_)
            | Reply::StaleIncarnation
            | Reply::TopicAlreadyExists { .. }
            | Reply::InvalidTopicId
            | Reply::InvalidTopicName(_)
            | Reply::DuplicateConfig
            | Reply::TopicDeleted { .. }
            | Reply::UnknownTopic
            | Reply::LeaderEpochsBumped { .. }
            | Reply::InvalidProducerIdCount
            | Reply::TopicAltered
            | Reply::PartitionsCreated
            | Reply::PartitionsChanged { .. } => panic!("nothing here is answered with {reply:?}"),
        }
    }

    /// A node has spoken in this term.
    pub(crate) fn spoke(&mut self, node: NodeId, term: u64) {
        let spoken = self.spoken.entry(node).or_default();
        *spoken = term.max(*spoken);
    }

    /// A node that starts again still knows the terms it has spoken in.
    pub(crate) fn started(&self, node: NodeId, durable_term: u64) {
        let spoken = self.spoken.get(&node).copied().unwrap_or_default();
        assert!(durable_term >= spoken, "node {node} spoke in term {spoken} and knows {durable_term}");
    }

    /// In the end every node holds all that was acknowledged.
    pub(crate) fn finish(&self, image: &Image) {
        image.check();
        for id in &self.topics {
            assert!(image.topic(*id).is_some(), "an acknowledged topic is lost");
        }
        let end = self.producer_ids.values().max().copied().unwrap_or_default();
        assert!(image.next_producer_id() >= end, "an acknowledged block of producer ids is lost");
    }

    pub(crate) fn acknowledgements(&self) -> usize {
        self.acknowledged.len()
    }
}
