//! What is refused when it is to leave.

use proptest::prelude::*;

use super::family::{Family, config, for_every_message};
use crate::error::EncodeError;
use crate::frame::{FrameStep, encode_request, encode_response, next_frame};
use crate::header::{RequestHeader, decode_response_header};
use crate::message::Message;
use crate::messages::fetch::{FetchPartition, FetchTopic, ForgottenTopic};
use crate::messages::metadata::MetadataRequestTopic;
use crate::messages::*;
use crate::reader::Reader;
use crate::writer::Writer;
use crate::{ApiKey, ErrorCode, Uuid};

fn encode<'a>(message: &impl Message<'a>, version: i16) -> Result<Vec<u8>, EncodeError> {
    let mut bytes = Vec::new();
    message.encode(&mut Writer::new(&mut bytes), version).map(|()| bytes)
}

proptest! {
    #![proptest_config(config(64))]

    #[test]
    fn messages_come_back_from_their_bytes(seed: u64) {
        fn check<F: Family>(seed: u64) {
            for version in F::versions() {
                let message = F::sample(seed, version);
                let bytes = F::encode(&message, version);
                F::assert_same(&F::decode(&bytes, version).unwrap(), &message, version);
            }
        }
        for_every_message!(check(seed));
    }
}

#[test]
fn a_field_the_version_lacks_is_an_error_when_dropping_it_would_change_the_meaning() {
    let request = MetadataRequest { allow_auto_topic_creation: false, ..Default::default() };
    let lacking = EncodeError::FieldNotInVersion { field: "allow_auto_topic_creation", version: 3 };
    assert_eq!(encode(&request, 3), Err(lacking));
    assert!(encode(&request, 4).is_ok());

    let forgotten = vec![ForgottenTopic { partitions: vec![1], ..Default::default() }];
    let request = FetchRequest { forgotten_topics_data: forgotten, ..Default::default() };
    let lacking = EncodeError::FieldNotInVersion { field: "forgotten_topics_data", version: 6 };
    assert_eq!(encode(&request, 6), Err(lacking));

    let request = FetchRequest { replica_id: 7, ..Default::default() };
    let lacking = EncodeError::FieldNotInVersion { field: "replica_id", version: 15 };
    assert_eq!(encode(&request, 15), Err(lacking));
    assert!(encode(&request, 14).is_ok());
}

#[test]
fn an_ignorable_field_the_version_lacks_is_dropped() {
    let topic = |topic_id| FetchTopic { topic: "orders", topic_id, ..Default::default() };
    let request = |topic| FetchRequest { rack_id: "rack", topics: vec![topic], ..Default::default() };
    let with_id = encode(&request(topic(Uuid([9; 16]))), 10);
    assert_eq!(with_id, encode(&request(topic(Uuid::ZERO)), 10));
    let bytes = with_id.unwrap();
    let decoded = FetchRequest::decode(&mut Reader::new(&bytes), 10).unwrap();
    assert_eq!(decoded.rack_id, "");
    assert_eq!(decoded.topics[0].topic, "orders");
}

#[test]
fn null_is_not_written_in_versions_that_do_not_know_it() {
    let all = MetadataRequest { topics: None, ..Default::default() };
    assert_eq!(encode(&all, 0), Err(EncodeError::NullNotAllowed { field: "topics", version: 0 }));
    assert!(encode(&all, 1).is_ok());
    let by_id = MetadataRequestTopic { topic_id: Uuid([1; 16]), name: None };
    let request = MetadataRequest { topics: Some(vec![by_id]), ..Default::default() };
    assert_eq!(encode(&request, 9), Err(EncodeError::NullNotAllowed { field: "name", version: 9 }));
    assert!(encode(&request, 10).is_ok());
}

#[test]
fn versions_that_are_not_served_are_not_written() {
    let unsupported = EncodeError::UnsupportedVersion { api: ApiKey::Produce, version: 2 };
    assert_eq!(encode(&ProduceRequest::default(), 2), Err(unsupported));
    let unsupported = EncodeError::UnsupportedVersion { api: ApiKey::Fetch, version: 18 };
    assert_eq!(encode(&FetchResponse::default(), 18), Err(unsupported));
}

#[test]
fn a_message_that_cannot_be_written_leaves_the_buffer_as_it_was() {
    let long = "x".repeat(40_000);
    let partitions = vec![FetchPartition::default()];
    let topics = vec![FetchTopic { topic: &long, partitions, ..Default::default() }];
    let request = FetchRequest { topics, ..Default::default() };
    let mut buffer = b"before".to_vec();
    let too_long = Err(EncodeError::TooLong { length: 40_000, limit: 32_767 });
    assert_eq!(request.encode(&mut Writer::new(&mut buffer), 4), too_long);
    let header = RequestHeader { api: ApiKey::Fetch, version: 4, correlation_id: 1, client_id: None };
    assert_eq!(encode_request(&mut buffer, &header, &request), too_long);
    assert_eq!(encode_response(&mut buffer, 1, 99, &FetchResponse::default()).map_err(drop), Err(()));
    assert_eq!(buffer, b"before");
}

#[test]
fn frames_one_behind_the_other_are_found_and_read() {
    let header =
        RequestHeader { api: ApiKey::DescribeCluster, version: 2, correlation_id: 5, client_id: Some("me") };
    let request = DescribeClusterRequest { include_fenced_brokers: true, ..Default::default() };
    let response = DescribeClusterResponse { cluster_id: "c", ..Default::default() };
    let mut stream = Vec::new();
    encode_request(&mut stream, &header, &request).unwrap();
    encode_response(&mut stream, 5, 2, &response).unwrap();

    let FrameStep::Frame(first) = next_frame(&stream, 1_000).unwrap() else { panic!("a whole frame") };
    let mut reader = Reader::new(&stream[first.clone()]);
    assert_eq!(RequestHeader::decode(&mut reader), Ok(header));
    assert_eq!(DescribeClusterRequest::decode(&mut reader, 2), Ok(request));

    let rest = &stream[first.end..];
    let FrameStep::Frame(second) = next_frame(rest, 1_000).unwrap() else { panic!("a whole frame") };
    assert_eq!(second.end, rest.len());
    let mut reader = Reader::new(&rest[second]);
    assert_eq!(decode_response_header(&mut reader, ApiKey::DescribeCluster, 2), Ok(5));
    assert_eq!(DescribeClusterResponse::decode(&mut reader, 2), Ok(response));
}

#[test]
fn error_codes_of_the_future_pass_through() {
    let response = InitProducerIdResponse { error_code: ErrorCode(999), ..Default::default() };
    let bytes = encode(&response, 5).unwrap();
    let decoded = InitProducerIdResponse::decode(&mut Reader::new(&bytes), 5).unwrap();
    assert_eq!(decoded.error_code, ErrorCode(999));
}
