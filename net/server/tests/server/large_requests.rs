//! Requests whose lists are as long as they may be, and longer.

use core::time::Duration;

use net_server::config::{Config, Limits};
use net_wire::messages::create_topics::CreatableTopic;
use net_wire::messages::fetch::{FetchPartition, FetchTopic};
use net_wire::messages::list_offsets::{LATEST, ListOffsetsPartition, ListOffsetsTopic};
use net_wire::messages::metadata::MetadataRequestTopic;
use net_wire::messages::produce::{PartitionProduceData, TopicProduceData, TopicProduceResponse};
use net_wire::messages::{
    ApiVersionsRequest, CreateTopicsRequest, DeleteTopicsRequest, FetchRequest, ListOffsetsRequest,
    MetadataRequest, ProduceRequest,
};
use net_wire::{ErrorCode, Message, Request, Uuid};
use sim::DiskLatency;

use crate::batches::{batch, large};
use crate::calls::{FETCH, Fetch, PRODUCE, produce};
use crate::client::Answer;
use crate::node::{Node, config, on_node};

const SECOND: Duration = Duration::from_secs(1);

/// The most that a list may have, in bytes.
const LIST_BYTES_MAX: usize = 2 << 20;

/// Names of eight characters, no two alike, that no topic has.
fn names(count: usize) -> Vec<String> {
    (0..count).map(|number| format!("{number:08}")).collect()
}

/// How many elements of a size are just below the limit, with room for what stands before and behind them.
const fn below_limit(element_bytes: usize) -> usize {
    (LIST_BYTES_MAX - 100) / element_bytes
}

/// A list that is just short enough is answered, which `is_answered` looks at; one of twice the length ends its
/// connection, and no other.
async fn has_a_limit<'q, Q: Message<'q> + Request>(
    node: &Node,
    version: i16,
    [short, long]: [&Q; 2],
    is_answered: impl FnOnce(&Answer<Q>) -> bool,
) {
    let mut bystander = node.connect(0).await;
    let mut client = node.connect(0).await;
    assert!(is_answered(&client.ask(version, short).await));
    client.send(version, long).await;
    client.is_closed().await;
    let versions = ApiVersionsRequest { client_software_name: "test", client_software_version: "1" };
    assert_eq!(bystander.ask(3, &versions).await.body().error_code, ErrorCode::NONE);
    drop(bystander);
    node.connections_become(0, 0).await;
    assert_eq!(node.snapshot(0).await.request_bytes, 0);
}

#[test]
fn lists_of_partitions_to_fetch_have_a_limit() {
    on_node(1, config(1), async |node| {
        let topic = node.topic("t", 1).await;
        produce(&mut node.connect(0).await, &topic, 0, &batch(&["there"])).await;
        let partition =
            |partition| FetchPartition { partition, partition_max_bytes: 1000, ..FetchPartition::default() };
        let request = |count: usize| {
            let partitions = (0..i32::try_from(count).unwrap()).map(partition).collect();
            let topics = vec![FetchTopic { topic: "", topic_id: topic.id, partitions }];
            FetchRequest { topics, max_bytes: 1 << 20, ..FetchRequest::default() }
        };
        let count = below_limit(33);
        assert!(count > 60_000);
        has_a_limit(&node, FETCH, [&request(count), &request(2 * count)], |answer| {
            let response = answer.body();
            let partitions = &response.responses[0].partitions;
            partitions.len() == count && partitions[0].records.is_some_and(|records| !records.is_empty())
        })
        .await;
    });
}

#[test]
fn lists_of_partitions_to_look_up_have_a_limit() {
    on_node(2, config(1), async |node| {
        let topic = node.topic("t", 1).await;
        let partition = |partition_index| ListOffsetsPartition {
            partition_index,
            current_leader_epoch: -1,
            timestamp: LATEST,
        };
        let request = |count: usize| {
            let partitions = (0..i32::try_from(count).unwrap()).map(partition).collect();
            let topics = vec![ListOffsetsTopic { name: &topic.name, partitions }];
            ListOffsetsRequest { replica_id: -1, topics, ..ListOffsetsRequest::default() }
        };
        let count = below_limit(17);
        has_a_limit(&node, 10, [&request(count), &request(2 * count)], |answer| {
            answer.body().topics[0].partitions.len() == count
        })
        .await;
    });
}

#[test]
fn lists_of_topics_to_describe_to_create_and_to_delete_have_a_limit() {
    on_node(3, config(1), async |node| {
        let count = below_limit(10);
        let names = names(2 * count);
        let request = |count| {
            let topic = |name| MetadataRequestTopic { name: Some(name), topic_id: Uuid::ZERO };
            let topics = Some(names[..count].iter().map(String::as_str).map(topic).collect());
            MetadataRequest { topics, allow_auto_topic_creation: false, ..MetadataRequest::default() }
        };
        has_a_limit(&node, 9, [&request(count), &request(2 * count)], |answer| {
            answer.body().topics.len() == count
        })
        .await;
        let request = |count| {
            let topic_names = names[..count].iter().map(String::as_str).collect();
            DeleteTopicsRequest { topic_names, ..DeleteTopicsRequest::default() }
        };
        has_a_limit(&node, 1, [&request(count), &request(2 * count)], |answer| {
            answer.body().responses.len() == count
        })
        .await;
        let topic = |name| CreatableTopic {
            name,
            num_partitions: 0,
            replication_factor: 1,
            assignments: Vec::new(),
            configs: Vec::new(),
        };
        let request = |count| {
            let topics = names[..count].iter().map(String::as_str).map(topic).collect();
            CreateTopicsRequest { topics, ..CreateTopicsRequest::default() }
        };
        let count = below_limit(18);
        has_a_limit(&node, 7, [&request(count), &request(2 * count)], |answer| {
            answer.body().topics.len() == count
        })
        .await;
    });
}

#[test]
fn partitions_to_produce_to_have_a_limit() {
    on_node(4, config(1), async |node| {
        let topic = node.topic("t", 1).await;
        let request = |count: i32| {
            let partition_data =
                (0..count).map(|index| PartitionProduceData { index, records: None }).collect();
            let topic_data = vec![TopicProduceData { name: "", topic_id: topic.id, partition_data }];
            ProduceRequest { transactional_id: None, acks: 1, timeout_ms: 1_000, topic_data }
        };
        has_a_limit(&node, PRODUCE, [&request(49_999), &request(50_000)], |answer| {
            answer.body().responses[0].partition_responses.len() == 49_999
        })
        .await;
    });
}

#[test]
fn large_lists_wait_for_their_turn() {
    let limits = Limits { list_bytes: 16 << 10, ..Limits::default() };
    on_node(5, Config { limits, ..config(1) }, async |node| {
        let topic = node.topic("t", 1_500).await;
        // The controller takes its time, and whoever waits for it keeps the turn.
        let flush = 12 * SECOND;
        node.machine().disk().set_latency(DiskLatency { flush: flush..=flush, ..DiskLatency::default() });
        let names: Vec<String> = (0..200).map(|number| format!("{number:0100}")).collect();
        let wish = |name| CreatableTopic {
            name,
            num_partitions: 1,
            replication_factor: 1,
            assignments: Vec::new(),
            configs: Vec::new(),
        };
        let topics = names.iter().map(String::as_str).map(wish).collect();
        let create = CreateTopicsRequest { topics, timeout_ms: 30_000, validate_only: false };
        let (mut creating, mut waiting) = (node.connect(0).await, node.connect(0).await);
        creating.send(7, &create).await;
        node.pause(SECOND).await;
        let all: Vec<(i32, i64)> = (0..1_500).map(|partition| (partition, 0)).collect();
        let begun_at = waiting.now();
        waiting.send(FETCH, &Fetch::new(&topic, &all).request()).await;
        Fetch::at(&topic, 0, 0).call(&mut node.connect(0).await).await.only();
        assert!(waiting.now().since(begun_at) < 2 * SECOND, "short lists wait for none");
        waiting.is_closed().await;
        let waited = waiting.now().since(begun_at);
        assert!((10 * SECOND..13 * SECOND).contains(&waited), "in vain: {waited:?}");
        assert_eq!(creating.answer::<CreateTopicsRequest<'_>>(7).await.body().topics.len(), 200);
        Fetch::new(&topic, &all).call(&mut creating).await;
    });
}

/// Others are many here, so that their turns take a time: what the request takes in virtual time is theirs.
#[test]
fn others_have_their_turn_while_many_large_batches_are_worked_on() {
    on_node(6, config(1), async |node| {
        let topic = node.topic_with("t", 1, &[("max.message.bytes", "1000")]).await;
        let mut client = node.connect(0).await;
        let records = large(600_000);
        let of_topic = || {
            let partition_data = vec![PartitionProduceData { index: 0, records: Some(&records) }];
            TopicProduceData { name: "", topic_id: topic.id, partition_data }
        };
        let topic_data = (0..60).map(|_| of_topic()).collect();
        let request = ProduceRequest { transactional_id: None, acks: 1, timeout_ms: 1_000, topic_data };
        let _others = node.others(200);
        let answer = client.ask(PRODUCE, &request).await;
        let error = |topic: &TopicProduceResponse<'_>| topic.partition_responses[0].error_code;
        assert!(answer.body().responses.iter().map(error).all(|error| error == ErrorCode::MESSAGE_TOO_LARGE));
        let ordered = node.snapshot(0).await.latencies[1].max();
        assert!(ordered > 1_000_000, "others had {ordered} ns");
    });
}
