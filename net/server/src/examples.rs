//! Metadata that tests begin with.

use std::collections::BTreeMap;

use engine_record::{LeaderEpoch, NodeId, TopicId};
use replication::metadata::commands::{Command, Incarnation, RegisterNode};
use replication::metadata::image::{ClusterId, Image, Partition, Topic};
use replication::metadata::lanes::Lane;

/// A cluster of these nodes with so many shards each, at index 1 for the first and so on.
pub(crate) fn cluster(nodes: impl IntoIterator<Item = i32>, shards: u16) -> Image {
    let mut image = Image::new(ClusterId([1; 16]));
    for (index, node) in (1..).zip(nodes) {
        let register = RegisterNode {
            node: NodeId(node),
            directory_id: 1,
            incarnation: Incarnation(1),
            shards,
            endpoints: Vec::new(),
            clean_start: true,
        };
        image.apply(index, &Command::RegisterNode(register));
    }
    image
}

/// A topic with the longest name, each of whose partitions is on the nodes 0, 1 and so on.
pub(crate) fn topic(partitions: usize, replicas: i32) -> Topic {
    let nodes: Vec<NodeId> = (0..replicas).map(NodeId).collect();
    let partition = Partition {
        replicas: nodes.clone(),
        isr: nodes,
        leader: Some(NodeId(0)),
        leader_epoch: LeaderEpoch(1),
        partition_epoch: 1,
        lane: Lane::default(),
    };
    Topic {
        id: TopicId([7; 16]),
        name: "x".repeat(249),
        partitions: vec![partition; partitions],
        configs: BTreeMap::new(),
    }
}
