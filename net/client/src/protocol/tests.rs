use engine_record::{Offset, Timestamp};
use net_wire::messages::fetch::{FetchableTopicResponse, PartitionData};
use net_wire::messages::list_offsets::{ListOffsetsPartitionResponse, ListOffsetsTopicResponse};
use net_wire::messages::produce::{
    PartitionProduceData, PartitionProduceResponse, TopicProduceData, TopicProduceResponse,
};
use net_wire::messages::{FetchResponse, ListOffsetsResponse, ProduceRequest, ProduceResponse};
use net_wire::{ApiKey, ErrorCode, Message, Reader, RequestHeader, Writer, encode_request};

use super::*;
use crate::consumer_core::{FetchPlan, PartitionQuestion};
use crate::producer_core::{Acks, ProducePart, ProducePlan};
use crate::request::RequestId;

fn part(topic: &str, topic_id: u8, partition: i32, bytes: &[u8]) -> ProducePart {
    ProducePart {
        topic: topic.into(),
        topic_id: TopicId([topic_id; 16]),
        partition: PartitionIndex(partition),
        bytes: Rc::new(bytes.to_vec()),
    }
}

fn plan() -> ProducePlan {
    let parts = vec![part("a", 1, 0, b"first"), part("a", 1, 3, b"second batch"), part("b", 2, 0, &[7; 300])];
    ProducePlan { request: RequestId(0), broker: BrokerId(1), parts }
}

/// The request as the codec would write it from a structure.
fn reference(plan: &ProducePlan, header: &RequestHeader<'_>) -> Vec<u8> {
    let topics = plan.parts.chunk_by(|one, next| one.topic == next.topic).map(|parts| TopicProduceData {
        name: if header.version < 13 { &parts[0].topic } else { "" },
        topic_id: if header.version < 13 { Uuid::ZERO } else { Uuid(parts[0].topic_id.0) },
        partition_data: parts
            .iter()
            .map(|part| PartitionProduceData { index: part.partition.0, records: Some(&part.bytes) })
            .collect(),
    });
    let request =
        ProduceRequest { transactional_id: None, acks: -1, timeout_ms: 1_500, topic_data: topics.collect() };
    let mut bytes = Vec::new();
    encode_request(&mut bytes, header, &request).unwrap();
    bytes
}

#[test]
fn a_spliced_produce_request_is_byte_for_byte_the_codecs_in_every_version() {
    let plan = plan();
    for version in 3..=13 {
        let header =
            RequestHeader { api: ApiKey::Produce, version, correlation_id: 9, client_id: Some("client") };
        let frame = produce::encode(&plan, &header, Acks::All, Duration::from_millis(1_500)).unwrap();
        let pieces = frame.pieces();
        let sent: Vec<u8> = pieces.iter().flat_map(|(bytes, range)| bytes[range.clone()].to_vec()).collect();
        assert_eq!(sent, reference(&plan, &header), "version {version}");
        let shared =
            pieces.iter().filter(|(bytes, _)| plan.parts.iter().any(|part| Rc::ptr_eq(bytes, &part.bytes)));
        assert_eq!(shared.count(), 3, "batches are not copied");
    }
}

#[test]
fn topics_without_an_id_are_named() {
    let mut plan = plan();
    assert_eq!(produce::version_max(&plan), i16::MAX);
    plan.parts[1].topic_id = TopicId::ZERO;
    assert_eq!(produce::version_max(&plan), 12);
}

#[test]
fn an_answer_in_another_order_is_put_into_the_plans_and_leaders_are_noted() {
    let plan = plan();
    let answer = |index, base_offset| PartitionProduceResponse { index, base_offset, ..Default::default() };
    let moved = PartitionProduceResponse {
        index: 0,
        error_code: ErrorCode::NOT_LEADER_OR_FOLLOWER,
        base_offset: -1,
        current_leader: LeaderIdAndEpoch { leader_id: 4, leader_epoch: 9 },
        ..Default::default()
    };
    let stamped = PartitionProduceResponse { log_append_time_ms: 77, ..answer(3, 30) };
    let response = ProduceResponse {
        responses: vec![
            TopicProduceResponse { name: "b", partition_responses: vec![moved], ..Default::default() },
            TopicProduceResponse { name: "a", partition_responses: vec![stamped], ..Default::default() },
        ],
        throttle_time_ms: 40,
        node_endpoints: vec![NodeEndpoint { node_id: 4, host: "h", port: 9_092, rack: None }],
    };
    let mut bytes = Vec::new();
    response.encode(&mut Writer::new(&mut bytes), 10).unwrap();
    let (answer, news) = produce::decode(&mut Reader::new(&bytes), 10, &plan).unwrap();
    assert_eq!(answer.throttle, Duration::from_millis(40));
    assert_eq!(answer.parts[0], None, "the broker said nothing about it");
    let second = answer.parts[1].unwrap();
    assert_eq!((second.base_offset, second.append_time), (Offset::new(30), Some(Timestamp(77))));
    let third = answer.parts[2].unwrap();
    assert_eq!((third.error, third.base_offset), (ErrorCode::NOT_LEADER_OR_FOLLOWER, None));
    assert_eq!(news.leaders[0].2, LeaderHint { leader: BrokerId(4), leader_epoch: 9 });
    assert_eq!(news.endpoints[0].0, BrokerId(4));
}

fn questions(partitions: &[(&str, u8, i32)]) -> Vec<PartitionQuestion> {
    let question = |&(topic, topic_id, partition): &(&str, u8, i32)| PartitionQuestion {
        topic: topic.into(),
        topic_id: TopicId([topic_id; 16]),
        partition: PartitionIndex(partition),
        leader_epoch: 0,
        wanted: 0,
    };
    partitions.iter().map(question).collect()
}

#[test]
fn fetched_partitions_are_found_by_the_topics_name_or_id_in_any_order() {
    let parts = questions(&[("a", 1, 0), ("a", 1, 1), ("b", 2, 1), ("b", 2, 7)]);
    let plan = FetchPlan { request: RequestId(0), broker: BrokerId(1), wait_max: Duration::ZERO, parts };
    let data = |partition_index, high_watermark| PartitionData {
        partition_index,
        high_watermark,
        ..Default::default()
    };
    let topic =
        |topic, id, partitions| FetchableTopicResponse { topic, topic_id: Uuid([id; 16]), partitions };
    for version in [12, 13] {
        let responses = vec![topic("b", 2, vec![data(1, 21)]), topic("a", 1, vec![data(1, 11), data(0, 10)])];
        let mut frame = Vec::new();
        let response = FetchResponse { responses, ..Default::default() };
        response.encode(&mut Writer::new(&mut frame), version).unwrap();
        let (answer, _) = fetch::decode(frame, 0, version, &plan).unwrap();
        let found = answer.parts.iter().map(|part| part.as_ref()?.high_watermark.map(Offset::value));
        assert_eq!(found.collect::<Vec<_>>(), [Some(10), Some(11), Some(21), None], "version {version}");
    }
}

#[test]
fn found_offsets_are_put_into_the_order_of_the_questions() {
    let parts = questions(&[("a", 0, 0), ("a", 0, 1), ("b", 0, 0)]);
    let answer = |partition_index, offset| ListOffsetsPartitionResponse {
        partition_index,
        offset,
        ..Default::default()
    };
    let topics = vec![
        ListOffsetsTopicResponse { name: "b", partitions: vec![answer(0, 20)] },
        ListOffsetsTopicResponse { name: "a", partitions: vec![answer(1, 11)] },
    ];
    let response = ListOffsetsResponse { topics, ..Default::default() };
    let mut bytes = Vec::new();
    response.encode(&mut Writer::new(&mut bytes), 5).unwrap();
    let answers = list_offsets::decode(&mut Reader::new(&bytes), 5, &parts).unwrap();
    let found = answers.parts.iter().map(|part| part.and_then(|part| part.offset).map(Offset::value));
    assert_eq!(found.collect::<Vec<_>>(), [None, Some(11), Some(20)]);
}
