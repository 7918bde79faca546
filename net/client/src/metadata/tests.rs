use net_wire::Uuid;
use net_wire::messages::metadata::MetadataResponseBroker;

use super::*;

fn answer(topic_id: u8, leaders: &[(i32, i32)]) -> MetadataResponse<'static> {
    let partitions = leaders.iter().zip(0..).map(|(&(leader_id, leader_epoch), partition_index)| {
        MetadataResponsePartition { partition_index, leader_id, leader_epoch, ..Default::default() }
    });
    MetadataResponse {
        brokers: vec![MetadataResponseBroker { node_id: 1_000, host: "10.0.0.1", port: 9_092, rack: None }],
        cluster_id: Some("c"),
        controller_id: 1_000,
        topics: vec![MetadataResponseTopic {
            name: Some("orders"),
            topic_id: Uuid([topic_id; 16]),
            partitions: partitions.collect(),
            ..Default::default()
        }],
        ..Default::default()
    }
}

fn leader(metadata: &Metadata, partition: usize) -> (Option<BrokerId>, i32) {
    let partition = &metadata.topic("orders").unwrap().partitions[partition];
    (partition.leader, partition.leader_epoch)
}

#[test]
fn an_answer_that_lags_does_not_bring_an_old_leader_back() {
    let mut metadata = Metadata::default();
    metadata.apply(&answer(1, &[(1, 5), (2, 5)]));
    metadata.apply(&answer(1, &[(7, 4), (3, 6)]));
    assert_eq!(leader(&metadata, 0), (Some(BrokerId(1)), 5));
    assert_eq!(leader(&metadata, 1), (Some(BrokerId(3)), 6));
}

#[test]
fn a_topic_created_again_begins_with_its_own_epochs() {
    let mut metadata = Metadata::default();
    metadata.apply(&answer(1, &[(1, 5)]));
    metadata.apply(&answer(2, &[(2, 0)]));
    assert_eq!(leader(&metadata, 0), (Some(BrokerId(2)), 0));
}

#[test]
fn a_hint_is_taken_only_with_a_newer_epoch_and_for_a_partition_that_exists() {
    let mut metadata = Metadata::default();
    metadata.apply(&answer(1, &[(1, 5)]));
    let hint = |leader, leader_epoch| LeaderHint { leader: BrokerId(leader), leader_epoch };
    assert!(!metadata.apply_leader("orders", PartitionIndex(0), hint(9, 5)));
    assert!(!metadata.apply_leader("orders", PartitionIndex(1), hint(9, 6)));
    assert!(!metadata.apply_leader("orders", PartitionIndex(0), hint(-1, 6)));
    assert!(!metadata.apply_leader("else", PartitionIndex(0), hint(9, 6)));
    assert!(metadata.apply_leader("orders", PartitionIndex(0), hint(9, 6)));
    assert_eq!(leader(&metadata, 0), (Some(BrokerId(9)), 6));
}

#[test]
fn a_topic_that_is_gone_is_forgotten_and_says_why() {
    let mut metadata = Metadata::default();
    metadata.apply(&answer(1, &[(1, 5)]));
    let mut gone = answer(1, &[]);
    gone.topics[0].error_code = ErrorCode::UNKNOWN_TOPIC_OR_PARTITION;
    metadata.apply(&gone);
    assert!(metadata.topic("orders").is_none());
    assert_eq!(metadata.topic_error("orders"), Some(ErrorCode::UNKNOWN_TOPIC_OR_PARTITION));
    metadata.apply(&answer(3, &[(1, 0)]));
    assert_eq!(metadata.topic_error("orders"), None);
}

#[test]
fn a_passing_error_leaves_what_is_known() {
    let mut metadata = Metadata::default();
    metadata.apply(&answer(1, &[(1, 5)]));
    let mut passing = answer(1, &[]);
    passing.topics[0].error_code = ErrorCode::LEADER_NOT_AVAILABLE;
    metadata.apply(&passing);
    assert_eq!(leader(&metadata, 0), (Some(BrokerId(1)), 5));
}

#[test]
fn partitions_are_numbered_without_gaps() {
    let mut with_gap = answer(1, &[(1, 0), (2, 0), (3, 0)]);
    with_gap.topics[0].partitions.remove(1);
    with_gap.topics[0].partitions.reverse();
    let mut metadata = Metadata::default();
    metadata.apply(&with_gap);
    assert_eq!(metadata.topic("orders").unwrap().partitions.len(), 1);
    assert_eq!(leader(&metadata, 0), (Some(BrokerId(1)), 0));
}

#[test]
fn endpoints_are_read_as_they_are_written() {
    for text in ["localhost:9092", "10.0.0.1:1", "[::1]:9092", "a.b-c.example:65535"] {
        assert_eq!(Endpoint::parse(text).unwrap().to_string(), text);
    }
    for text in ["", "localhost", ":9092", "host:", "host:70000", "::1:9092", "[]:9092", "[::1:9092"] {
        assert!(Endpoint::parse(text).is_err(), "{text}");
    }
}
