use super::*;
use crate::metadata::commands::{
    Command, CreatePartitions, CreateTopic, Incarnation, PartitionAssignment, RegisterNode,
};
use crate::metadata::image::{ClusterId, Image, Topic};
use crate::metadata::reply::{AssignmentError, Reply};
use engine_record::{NodeId, TopicId};
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

/// The topic created at this index of the log.
fn topic_of(image: &Image, index: u64) -> &Topic {
    image.topic(TopicId(u128::from(index).to_be_bytes())).unwrap()
}

fn grow(image: &mut Image, topic: u64, count: usize, order: &[NodeId]) {
    let index = image.applied() + 1;
    let grown = topic_of(image, topic);
    let growth = CreatePartitions {
        id: grown.id,
        first: u32::try_from(grown.partitions.len()).unwrap(),
        partitions: deal_more(image, grown, count, order).unwrap(),
    };
    assert_eq!(image.apply(index, &Command::CreatePartitions(growth)), Reply::PartitionsCreated);
}

fn led_of(topic: &Topic) -> Vec<(NodeId, Lane)> {
    topic.partitions.iter().map(|partition| (partition.leader.unwrap(), partition.lane)).collect()
}

fn spread_of(partitions: &[(NodeId, Lane)], node: NodeId, shards: u16) -> (usize, usize) {
    spread(partitions.iter().map(|(node, lane)| (node, *lane)), node, shards)
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

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    #[test]
    fn shards_of_a_topic_that_grows_differ_by_at_most_one_for_any_shard_count_today_and_later(
        shards in 1..=64_u16,
        others in prop::collection::vec(1..40_usize, 0..4),
        begins_with in 1..300_usize,
        growths in prop::collection::vec(1..200_usize, 1..8),
    ) {
        let order = [NodeId(1), NodeId(2)];
        let mut image = cluster(&[shards, shards]);
        for count in others {
            let placed = deal(&image, count, 1, &order).unwrap();
            create(&mut image, placed);
        }
        let placed = deal(&image, begins_with, 2, &order).unwrap();
        create(&mut image, placed);
        let grown = image.applied();
        for count in growths {
            let other = deal(&image, 1, 1, &order).unwrap();
            create(&mut image, other);
            grow(&mut image, grown, count, &order);
        }
        let partitions = led_of(topic_of(&image, grown));
        for later in 1..=64 {
            for node in order {
                let (most, least) = spread_of(&partitions, node, later);
                prop_assert!(most - least <= 1, "{later} shards of {node}: from {least} to {most}");
            }
        }
    }
}

#[test]
fn topics_that_grow_leave_the_shards_of_a_node_level() {
    for shards in [1, 3, 4, 16] {
        let mut image = cluster(&[shards]);
        let mut topics = Vec::new();
        for _ in 0..20 {
            let placed = deal(&image, 1, 1, &[NodeId(1)]).unwrap();
            create(&mut image, placed);
            topics.push(image.applied());
        }
        for _ in 0..3 {
            for topic in &topics {
                grow(&mut image, *topic, 2, &[NodeId(1)]);
            }
        }
        let (most, least) = spread_of(&all_led(&image), NodeId(1), shards);
        assert!(most - least <= 2, "{shards} shards: from {least} to {most}");
    }
}

#[test]
fn a_run_of_lanes_grows_at_the_end_that_levels_the_shards_and_not_over_the_last_lane() {
    let mut image = cluster(&[4]);
    let lane = |lane| PartitionAssignment { replicas: vec![NodeId(1)], lane: Lane::new(lane).unwrap() };
    let lanes = |image: &Image, topic| -> Vec<u16> {
        topic_of(image, topic).partitions.iter().map(|partition| partition.lane.value()).collect()
    };
    create(&mut image, vec![lane(1_022)]);
    let last = image.applied();
    grow(&mut image, last, 3, &[NodeId(1)]);
    assert_eq!(lanes(&image, last), [1_022, 1_023, 1_021, 1_020]);
    // Shard 1 has nothing to do but the one before, and shard 3 has much.
    create(&mut image, vec![lane(3); 5]);
    create(&mut image, vec![lane(6)]);
    let middle = image.applied();
    grow(&mut image, middle, 1, &[NodeId(1)]);
    assert_eq!(lanes(&image, middle), [6, 5]);
}

#[test]
fn a_topic_with_named_lanes_grows_where_there_is_the_least_to_do() {
    let mut image = cluster(&[4]);
    let lane = |lane| PartitionAssignment { replicas: vec![NodeId(1)], lane: Lane::new(lane).unwrap() };
    create(&mut image, vec![lane(0), lane(4), lane(2)]);
    let topic = image.applied();
    grow(&mut image, topic, 2, &[NodeId(1)]);
    let partitions = led_of(topic_of(&image, topic));
    assert_eq!(spread_of(&partitions, NodeId(1), 4), (2, 0));
    let owners: Vec<u16> = partitions.iter().skip(3).map(|(_, lane)| lane.owner(4).0).collect();
    assert_eq!(owners, [1, 2], "a run that leaves out the fullest shard");
}

#[test]
fn a_topic_grows_beyond_the_lanes_there_are() {
    let mut image = cluster(&[3]);
    let placed = deal(&image, 1_000, 1, &[NodeId(1)]).unwrap();
    create(&mut image, placed);
    let topic = image.applied();
    for _ in 0..3 {
        grow(&mut image, topic, 500, &[NodeId(1)]);
    }
    let (most, least) = spread_of(&led_of(topic_of(&image, topic)), NodeId(1), 3);
    assert!(most - least <= 3, "from {least} to {most}");
}

#[test]
fn the_nodes_of_a_topic_that_grows_lead_on_in_turn() {
    let order = [NodeId(3), NodeId(1), NodeId(2)];
    let mut image = cluster(&[2, 2, 2]);
    let placed = deal(&image, 2, 2, &order).unwrap();
    create(&mut image, placed);
    let topic = image.applied();
    grow(&mut image, topic, 4, &order);
    let at_once = deal(&image, 6, 2, &order).unwrap();
    let replicas = topic_of(&image, topic).partitions.iter().map(|partition| &partition.replicas);
    assert!(replicas.eq(at_once.iter().map(|assignment| &assignment.replicas)));
}

#[test]
fn more_partitions_that_cannot_be_placed_are_refused_with_the_rule_they_break() {
    let mut image = cluster(&[2, 2]);
    let placed = deal(&image, 2, 2, &[NodeId(1), NodeId(2)]).unwrap();
    create(&mut image, placed);
    let topic = topic_of(&image, image.applied());
    let more = |count, order: &[NodeId]| deal_more(&image, topic, count, order).unwrap_err();
    assert_eq!(more(0, &[NodeId(1), NodeId(2)]), AssignmentError::NoPartitions);
    assert_eq!(more(1, &[NodeId(1)]), AssignmentError::ReplicationFactor { factor: 2, nodes: 1 });
    let gone = NodeId(9);
    assert_eq!(more(1, &[NodeId(1), gone]), AssignmentError::UnknownNode { partition: 0, node: gone });
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
