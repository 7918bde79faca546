use super::*;
use crate::metadata::commands::{Command, CreateTopic, Incarnation, RegisterNode};
use crate::metadata::image::ClusterId;
use crate::metadata::reply::Reply;
use engine_record::TopicId;
use proptest::prelude::*;

fn registration(node: i32, shards: u16) -> Command {
    Command::RegisterNode(RegisterNode {
        node: NodeId(node),
        directory_id: 1,
        incarnation: Incarnation(1),
        shards,
        endpoints: Vec::new(),
        clean_start: true,
    })
}

/// Nodes 1, 2, .. with these numbers of shards.
fn cluster(shards: &[u16]) -> Image {
    let mut image = Image::new(ClusterId([7; 16]));
    for (node, shards) in (1..).zip(shards) {
        let index = image.applied() + 1;
        let reply = image.apply(index, &registration(node, *shards));
        assert_eq!(reply, Reply::NodeRegistered { epoch: index });
    }
    image
}

fn create(image: &mut Image, partitions: Vec<PartitionAssignment>) {
    let index = image.applied() + 1;
    let id = TopicId((u128::from(index)).to_be_bytes());
    let topic = CreateTopic { name: format!("topic-{index}"), id, partitions, configs: Vec::new() };
    assert_eq!(image.apply(index, &Command::CreateTopic(topic)), Reply::TopicCreated { id });
}

/// The largest and the smallest number of partitions that a shard of `node` would lead if it ran `shards` shards.
fn spread<'a>(
    partitions: impl Iterator<Item = (&'a NodeId, Lane)>,
    node: NodeId,
    shards: u16,
) -> (usize, usize) {
    let mut counts = vec![0; usize::from(shards)];
    for (leader, lane) in partitions {
        if *leader == node {
            counts[usize::from(lane.owner(shards).0)] += 1;
        }
    }
    (*counts.iter().max().unwrap(), *counts.iter().min().unwrap())
}

fn led(placed: &[PartitionAssignment]) -> impl Iterator<Item = (&NodeId, Lane)> {
    placed.iter().map(|assignment| (&assignment.replicas[0], assignment.lane))
}

fn all_led(image: &Image) -> Vec<(NodeId, Lane)> {
    let partitions = image.topics().flat_map(|topic| &topic.partitions);
    partitions.map(|partition| (partition.leader.unwrap(), partition.lane)).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn shards_of_one_topic_differ_by_at_most_one_for_any_shard_count_today_and_later(
        shards in 1..=64_u16,
        earlier in prop::collection::vec(1..40_usize, 0..6),
        partitions in 1..1024_usize,
    ) {
        let mut image = cluster(&[shards]);
        for count in earlier {
            let placed = deal(&image, count, 1, &[NodeId(1)]).unwrap();
            create(&mut image, placed);
        }
        let placed = deal(&image, partitions, 1, &[NodeId(1)]).unwrap();
        for later in 1..=64 {
            let (most, least) = spread(led(&placed), NodeId(1), later);
            prop_assert!(most - least <= 1, "{later} shards: from {least} to {most}");
        }
    }

    #[test]
    fn totals_over_many_topics_stay_level(
        shards in 1..=64_u16,
        counts in prop::collection::vec(1..20_usize, 1..60),
    ) {
        let mut image = cluster(&[shards, shards]);
        for count in counts {
            let placed = deal(&image, count, 2, &[NodeId(1), NodeId(2)]).unwrap();
            create(&mut image, placed);
        }
        let partitions = all_led(&image);
        for node in [NodeId(1), NodeId(2)] {
            let (most, least) = spread(partitions.iter().map(|(node, lane)| (node, *lane)), node, shards);
            prop_assert!(most - least <= 1, "{shards} shards: from {least} to {most}");
        }
    }
}

#[test]
fn many_small_topics_use_the_cores_of_a_node_that_grew() {
    let mut image = cluster(&[4]);
    for _ in 0..512 {
        let placed = deal(&image, 1, 1, &[NodeId(1)]).unwrap();
        create(&mut image, placed);
    }
    let partitions = all_led(&image);
    for grown in [4, 6, 16, 48, 64] {
        let (most, least) = spread(partitions.iter().map(|(node, lane)| (node, *lane)), NodeId(1), grown);
        assert!(most - least <= 1, "{grown} shards: from {least} to {most}");
    }
}

#[test]
fn a_deleted_topic_leaves_room_that_the_next_one_takes() {
    let mut image = cluster(&[4]);
    for _ in 0..8 {
        let placed = deal(&image, 1, 1, &[NodeId(1)]).unwrap();
        create(&mut image, placed);
    }
    let doomed: Vec<_> =
        image.topics().filter(|topic| topic.partitions[0].lane.owner(4) == ShardId(2)).collect();
    let ids: Vec<_> = doomed.iter().map(|topic| topic.id).collect();
    for id in ids {
        let index = image.applied() + 1;
        image.apply(index, &Command::DeleteTopic { id });
    }
    for _ in 0..2 {
        let placed = deal(&image, 1, 1, &[NodeId(1)]).unwrap();
        assert_eq!(placed[0].lane.owner(4), ShardId(2), "the idle shard comes first");
        create(&mut image, placed);
    }
}

#[test]
fn leaders_take_turns_and_followers_of_one_leader_spread() {
    let image = cluster(&[2, 2, 2]);
    let order = [NodeId(3), NodeId(1), NodeId(2)];
    let placed = deal(&image, 6, 2, &order).unwrap();
    let nodes: Vec<Vec<i32>> =
        placed.iter().map(|one| one.replicas.iter().map(|node| node.0).collect()).collect();
    assert_eq!(nodes, [[3, 1], [1, 2], [2, 3], [3, 2], [1, 3], [2, 1]]);
    for node in order {
        let (most, least) = spread(led(&placed), node, 2);
        assert_eq!((most, least), (1, 1));
    }
}

#[test]
fn more_partitions_than_lanes_stay_as_level_as_the_lanes_allow() {
    let image = cluster(&[3]);
    let placed = deal(&image, 2_500, 1, &[NodeId(1)]).unwrap();
    let (most, least) = spread(led(&placed), NodeId(1), 3);
    assert!(most - least <= 3, "from {least} to {most}");
}

#[test]
fn what_cannot_be_placed_is_refused_with_the_rule_it_breaks() {
    let image = cluster(&[2, 2]);
    let (one, two, gone) = (NodeId(1), NodeId(2), NodeId(9));
    assert_eq!(deal(&image, 0, 1, &[one]), Err(AssignmentError::NoPartitions));
    assert_eq!(deal(&image, 1, 0, &[one]), Err(AssignmentError::ReplicationFactor { factor: 0, nodes: 1 }));
    assert_eq!(
        deal(&image, 1, 3, &[one, two]),
        Err(AssignmentError::ReplicationFactor { factor: 3, nodes: 2 })
    );
    assert_eq!(
        deal(&image, 1, 1, &[one, gone]),
        Err(AssignmentError::UnknownNode { partition: 0, node: gone })
    );
    assert_eq!(
        deal(&image, 1, 1, &[one, one]),
        Err(AssignmentError::DuplicateNode { partition: 0, node: one })
    );
}

fn target(node: i32, shard: u16) -> ReplicaTarget {
    ReplicaTarget { node: NodeId(node), shard: Some(ShardId(shard)) }
}

#[test]
fn a_manual_assignment_lands_on_the_shards_it_names() {
    let image = cluster(&[4, 6]);
    let written = vec![vec![target(1, 3), target(2, 5)], vec![target(2, 0), target(1, 2)]];
    let placed = manual(&image, &written).unwrap();
    for (assignment, targets) in placed.iter().zip(&written) {
        for target in targets {
            assert_eq!(image.owner(target.node, assignment.lane), target.shard);
        }
    }
    assert_eq!(placed[0].replicas, [NodeId(1), NodeId(2)]);
}

#[test]
fn a_manual_assignment_that_breaks_a_rule_is_refused_with_the_rule() {
    let image = cluster(&[4, 4]);
    let refused = |partitions: &[Vec<ReplicaTarget>]| manual(&image, partitions).unwrap_err();
    assert_eq!(refused(&[]), AssignmentError::NoPartitions);
    assert_eq!(refused(&[vec![target(1, 0)], vec![]]), AssignmentError::NoReplicas { partition: 1 });
    assert_eq!(
        refused(&[vec![target(1, 0), target(1, 1)]]),
        AssignmentError::DuplicateNode { partition: 0, node: NodeId(1) },
        "two endpoints of one node"
    );
    assert_eq!(
        refused(&[vec![target(1, 4)]]),
        AssignmentError::UnknownShard { partition: 0, node: NodeId(1), shard: ShardId(4) }
    );
    assert_eq!(refused(&[vec![target(1, 0), target(2, 1)]]), AssignmentError::NoCommonLane { partition: 0 });
    assert_eq!(
        refused(&[vec![target(1, 0)], vec![target(1, 0), target(2, 0)]]),
        AssignmentError::UnevenReplicas { partition: 1 }
    );
    assert_eq!(
        refused(&[vec![target(5, 0)]]),
        AssignmentError::UnknownNode { partition: 0, node: NodeId(5) }
    );
}

#[test]
fn an_assignment_that_names_nodes_is_level_over_their_shards() {
    let image = cluster(&[3]);
    let node = ReplicaTarget { node: NodeId(1), shard: None };
    let placed = manual(&image, &vec![vec![node]; 6]).unwrap();
    let owners: Vec<_> = placed.iter().map(|partition| partition.lane.owner(3).0).collect();
    assert_eq!(owners, [0, 1, 2, 0, 1, 2]);
}
