//! What is always true of an image. Broken, it would be spread to every node, so the process stops instead.

use std::collections::BTreeSet;

use super::{Image, NODE_ID_MAX, Node, Partition, SHARD_COUNT_MAX, Topic};

impl Image {
    /// Asserts all that must be true of an image. Reads everything: for tests, debug builds, and after decoding.
    ///
    /// # Panics
    ///
    /// Something isn't true.
    pub fn check(&self) {
        assert_eq!(self.names.len(), self.topics.len(), "names and topics do not pair up");
        assert!(self.next_producer_id >= 0, "a producer id would be negative");
        for (id, node) in &self.nodes {
            assert_eq!(*id, node.id, "a node lies under another's id");
            assert!(node.epoch <= self.applied, "a node registered in the future");
            node.check();
        }
        for (id, topic) in &self.topics {
            assert_eq!(*id, topic.id, "a topic lies under another's id");
            assert_eq!(self.names.get(&topic.name), Some(id), "a topic's name leads elsewhere");
            topic.check();
        }
    }

    /// The part of [`Image::check`] that costs nothing, and in debug builds all of it.
    pub(super) fn check_after_apply(&self) {
        assert_eq!(self.names.len(), self.topics.len(), "names and topics do not pair up");
        assert!(self.next_producer_id >= 0, "a producer id would be negative");
        if cfg!(debug_assertions) {
            self.check();
        }
    }
}

impl Node {
    pub(super) fn check(&self) {
        assert!((0..=NODE_ID_MAX.0).contains(&self.id.0), "a node id out of range");
        assert!((1..=SHARD_COUNT_MAX).contains(&self.shards), "a shard count out of range");
        assert!(self.replaced != Some(self.incarnation), "a process replaced itself");
        assert!(
            self.endpoints.iter().all(|endpoint| endpoint.shard.0 < self.shards),
            "an endpoint of no shard"
        );
        let sorted = self.endpoints.is_sorted_by(|a, b| a.place() < b.place());
        assert!(sorted, "endpoints are not sorted, or one is there twice");
    }
}

impl Topic {
    pub(super) fn check(&self) {
        assert!(!self.id.is_zero(), "a topic has the id that stands for none");
        assert!(!self.partitions.is_empty(), "a topic has no partitions");
        self.partitions.iter().for_each(Partition::check);
    }
}

impl Partition {
    pub(super) fn check(&self) {
        let replicas: BTreeSet<_> = self.replicas.iter().collect();
        let isr: BTreeSet<_> = self.isr.iter().collect();
        assert_eq!(replicas.len(), self.replicas.len(), "a replica is named twice");
        assert_eq!(isr.len(), self.isr.len(), "an in-sync replica is named twice");
        assert!(!replicas.is_empty(), "a partition has no replicas");
        assert!(isr.is_subset(&replicas), "an in-sync replica is no replica");
        assert!(self.leader.is_none_or(|leader| isr.contains(&leader)), "the leader is not in sync");
        assert!(
            self.leader_epoch.0 >= 0 && self.partition_epoch >= self.leader_epoch.0,
            "an epoch ran ahead"
        );
    }
}
