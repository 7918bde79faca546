//! Topics, by requests of our own: tests of other clients shouldn't depend on a client for their preparation.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use net_wire::messages::create_topics::CreatableTopic;
use net_wire::messages::metadata::{MetadataRequestTopic, MetadataResponseTopic};
use net_wire::messages::{CreateTopicsRequest, CreateTopicsResponse, MetadataRequest, MetadataResponse};
use net_wire::{ErrorCode, Uuid};

use crate::connection::Connection;

const METADATA_VERSION: i16 = 12;
const CREATE_TOPICS_VERSION: i16 = 7;
/// Within this the broker has to have created a topic, or said why not.
const CREATE_TIMEOUT_MS: i32 = 10_000;

/// Creates a topic with one replica.
///
/// # Panics
/// When the broker refuses.
pub fn create(address: SocketAddr, name: &str, partitions: i32) {
    let topic = CreatableTopic {
        name,
        num_partitions: partitions,
        replication_factor: 1,
        assignments: Vec::new(),
        configs: Vec::new(),
    };
    let request =
        CreateTopicsRequest { topics: vec![topic], timeout_ms: CREATE_TIMEOUT_MS, validate_only: false };
    let answer = Connection::open(address).ask(CREATE_TOPICS_VERSION, &request);
    let response: CreateTopicsResponse<'_> = answer.body();
    assert_eq!(response.topics.len(), 1, "one topic was asked for: {response:?}");
    let outcome = &response.topics[0];
    assert_eq!(
        outcome.error_code,
        ErrorCode::NONE,
        "topic {name} wasn't created: {:?}",
        outcome.error_message
    );
}

/// What the broker says of one topic.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Description {
    /// Its id.
    pub id: Uuid,
    /// The leader of each partition, by broker id.
    pub leaders: Vec<i32>,
}

/// Asks for a topic, without creating it.
///
/// # Panics
/// When there is no such topic, or a partition of it has no leader.
#[must_use]
pub fn describe(address: SocketAddr, name: &str) -> Description {
    let topic = MetadataRequestTopic { name: Some(name), ..MetadataRequestTopic::default() };
    let request = MetadataRequest {
        topics: Some(vec![topic]),
        allow_auto_topic_creation: false,
        ..MetadataRequest::default()
    };
    let answer = Connection::open(address).ask(METADATA_VERSION, &request);
    let response: MetadataResponse<'_> = answer.body();
    assert_eq!(response.topics.len(), 1, "one topic was asked for: {response:?}");
    description(&response.topics[0])
}

fn description(topic: &MetadataResponseTopic<'_>) -> Description {
    assert_eq!(topic.error_code, ErrorCode::NONE, "the broker doesn't know the topic: {topic:?}");
    let leaders: BTreeMap<i32, i32> = topic
        .partitions
        .iter()
        .inspect(|partition| assert_eq!(partition.error_code, ErrorCode::NONE, "{partition:?}"))
        .map(|partition| (partition.partition_index, partition.leader_id))
        .collect();
    let count = i32::try_from(topic.partitions.len()).expect("partitions are counted in 31 bits");
    assert!(leaders.keys().copied().eq(0..count), "partitions are numbered from 0 without gaps: {leaders:?}");
    Description { id: topic.topic_id, leaders: leaders.into_values().collect() }
}

/// How many partitions each broker id leads, ascending; those that lead none don't appear.
#[must_use]
pub fn leaders_by_broker(leaders: &[i32]) -> BTreeMap<i32, usize> {
    let mut counts = BTreeMap::new();
    for leader in leaders {
        *counts.entry(*leader).or_insert(0) += 1;
    }
    counts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn leaders_are_counted_by_broker() {
        let counts = leaders_by_broker(&[1001, 1000, 1001]);
        assert_eq!(counts.into_iter().collect::<Vec<_>>(), [(1000, 1), (1001, 2)]);
    }
}
