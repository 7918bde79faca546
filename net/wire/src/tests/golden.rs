//! Frames byte by byte, as they stand on the wire.

use crate::api::ApiKey;
use crate::error::DecodeError;
use crate::frame::encode_response;
use crate::header::RequestHeader;
use crate::message::RINGLOG_TAG;
use crate::messages::api_versions::ApiVersion;
use crate::messages::describe_log_dirs::DescribeLogDirsPartition;
use crate::messages::{ApiVersionsRequest, ApiVersionsResponse, DescribeLogDirsRequest};
use crate::reader::Reader;
use crate::wire::{Version, Wire};
use crate::writer::Writer;
use crate::{Message, ProduceView, TopicRef};

#[test]
fn a_first_request_of_librdkafka() {
    let frame = b"\x00\x12\x00\x03\x00\x00\x00\x01\x00\x07rdkafka\x00\x0blibrdkafka\x062.2.0\x00";
    let mut reader = Reader::new(frame);
    let header = RequestHeader::decode(&mut reader).unwrap();
    assert_eq!((header.api, header.version, header.correlation_id), (ApiKey::ApiVersions, 3, 1));
    assert_eq!(header.client_id, Some("rdkafka"));
    let request = ApiVersionsRequest::decode(&mut reader, header.version).unwrap();
    assert_eq!((request.client_software_name, request.client_software_version), ("librdkafka", "2.2.0"));
}

#[test]
fn an_unsupported_api_versions_request_is_answered_in_the_oldest_form() {
    let request = b"\x00\x12\x00\x63\x00\x00\x00\x2a\xff\xff\x00 whatever this version has";
    let header = RequestHeader::decode(&mut Reader::new(request)).unwrap();
    assert!(!header.is_served());
    let mut bytes = Vec::new();
    let response = ApiVersionsResponse::unsupported_version();
    encode_response(&mut bytes, header.correlation_id, 0, &response).unwrap();
    let expected = b"\x00\x00\x00\x10\x00\x00\x00\x2a\x00\x23\x00\x00\x00\x01\x00\x12\x00\x00\x00\x04";
    assert_eq!(bytes, expected);
}

#[test]
fn an_api_versions_response_has_a_plain_header_even_when_it_is_flexible() {
    let response =
        ApiVersionsResponse { api_keys: vec![ApiVersion::advertised(ApiKey::Produce)], ..Default::default() };
    let mut bytes = Vec::new();
    encode_response(&mut bytes, 1, 4, &response).unwrap();
    let expected =
        b"\x00\x00\x00\x13\x00\x00\x00\x01\x00\x00\x02\x00\x00\x00\x00\x00\x0d\x00\x00\x00\x00\x00\x00";
    assert_eq!(bytes, expected);
}

#[test]
fn a_produce_request_with_one_batch() {
    let body = b"\x00\xff\xff\x00\x00\x75\x30\x02\x05logs\x02\x00\x00\x00\x03\x04abc\x00\x00\x00";
    let view = ProduceView::decode(&mut Reader::new(body), 9).unwrap();
    assert_eq!((view.transactional_id, view.acks, view.timeout_ms), (None, -1, 30_000));
    let topic = view.topics().next().unwrap();
    assert_eq!(topic.topic, TopicRef::Name("logs"));
    let partition = topic.partitions().next().unwrap();
    assert_eq!((partition.index, partition.records), (3, Some(&b"abc"[..])));
    assert_eq!(partition.records.unwrap().as_ptr(), body[19..].as_ptr(), "records are not copied");
}

#[test]
fn an_unknown_api_is_named() {
    let refused = DecodeError::UnknownApi { key: 0x7fff };
    assert_eq!(RequestHeader::decode(&mut Reader::new(b"\x7f\xff\x00\x00")), Err(refused));
    assert_eq!(refused.to_string(), "API key 32767 is unknown");
}

#[test]
fn what_ringlog_asks_beyond_kafka_stands_in_a_tag_that_kafka_will_not_use() {
    assert_eq!(RINGLOG_TAG, 0x5269_6e67);
    let bytes = |version, count_segments| {
        let mut bytes = Vec::new();
        let request = DescribeLogDirsRequest { topics: None, count_segments };
        request.encode(&mut Writer::new(&mut bytes), version).unwrap();
        let decoded = DescribeLogDirsRequest::decode(&mut Reader::new(&bytes), version).unwrap();
        assert_eq!(
            decoded,
            DescribeLogDirsRequest { count_segments: count_segments && version > 1, ..request }
        );
        bytes
    };
    for version in 2..=4 {
        assert_eq!(bytes(version, false), b"\x00\x00", "not a byte more than Kafka's");
        assert_eq!(bytes(version, true), b"\x00\x01\xe7\xdc\xa5\x93\x05\x01\x01");
    }
    assert_eq!(bytes(1, true), b"\xff\xff\xff\xff", "no room for tags");
}

#[test]
fn segments_and_shard_stand_in_tags_of_a_partition() {
    let bytes = |number, segment_count, shard| {
        let version = Version::served(ApiKey::DescribeLogDirs, number).unwrap();
        let partition = DescribeLogDirsPartition {
            partition_index: 1,
            partition_size: 2,
            segment_count,
            shard,
            ..Default::default()
        };
        let mut bytes = Vec::new();
        partition.write(&mut Writer::new(&mut bytes), version).unwrap();
        let mut reader = Reader::new(&bytes);
        let decoded = DescribeLogDirsPartition::read(&mut reader, version).unwrap();
        let told = (decoded.segment_count, decoded.shard);
        assert_eq!(told, if number > 1 { (segment_count, shard) } else { (-1, -1) });
        reader.finish().unwrap();
        bytes
    };
    let kafkas = b"\x00\x00\x00\x01\x00\x00\x00\x00\x00\x00\x00\x02\x00\x00\x00\x00\x00\x00\x00\x00\x00";
    for version in 2..=4 {
        assert_eq!(bytes(version, -1, -1), [kafkas, &b"\x00"[..]].concat(), "not a byte more than Kafka's");
        assert_eq!(
            bytes(version, 9, -1),
            [kafkas, &b"\x01\xe7\xdc\xa5\x93\x05\x04\x00\x00\x00\x09"[..]].concat()
        );
        let both = b"\x02\xe7\xdc\xa5\x93\x05\x04\x00\x00\x00\x09\xe8\xdc\xa5\x93\x05\x04\x00\x00\x00\x03";
        assert_eq!(bytes(version, 9, 3), [kafkas, &both[..]].concat());
    }
    assert_eq!(bytes(1, 9, 3), kafkas, "no room for tags");
}
