//! A byte stream as a connection sees it: frames, headers, bodies. Whatever is accepted can be written again.
#![no_main]

use libfuzzer_sys::fuzz_target;
use net_wire::messages::{AlterConfigsRequest, ApiVersionsRequest, CreatePartitionsRequest, CreateTopicsRequest, DeleteRecordsRequest, DeleteTopicsRequest, DescribeClusterRequest, DescribeConfigsRequest, DescribeLogDirsRequest, DescribeTopicPartitionsRequest, FetchRequest, IncrementalAlterConfigsRequest, InitProducerIdRequest, ListConfigResourcesRequest, ListOffsetsRequest, MetadataRequest, OffsetForLeaderEpochRequest, ProduceRequest};
use net_wire::{ApiKey, DecodeError, FrameStep, Message, Reader, RequestHeader, encode_request, next_frame};

const FRAME_BYTES_MAX: usize = 1 << 20;

fuzz_target!(|stream: &[u8]| {
    let mut rest = stream;
    while let Ok(FrameStep::Frame(frame)) = next_frame(rest, FRAME_BYTES_MAX) {
        let end = frame.end;
        let _ = request(&rest[frame]);
        rest = &rest[end..];
    }
});

fn request(frame: &[u8]) -> Result<(), DecodeError> {
    let mut reader = Reader::new(frame);
    let header = RequestHeader::decode(&mut reader)?;
    match header.api {
        ApiKey::Produce => body::<ProduceRequest<'_>>(&header, reader),
        ApiKey::Fetch => body::<FetchRequest<'_>>(&header, reader),
        ApiKey::ListOffsets => body::<ListOffsetsRequest<'_>>(&header, reader),
        ApiKey::Metadata => body::<MetadataRequest<'_>>(&header, reader),
        ApiKey::ApiVersions => body::<ApiVersionsRequest<'_>>(&header, reader),
        ApiKey::CreateTopics => body::<CreateTopicsRequest<'_>>(&header, reader),
        ApiKey::DeleteTopics => body::<DeleteTopicsRequest<'_>>(&header, reader),
        ApiKey::DeleteRecords => body::<DeleteRecordsRequest<'_>>(&header, reader),
        ApiKey::InitProducerId => body::<InitProducerIdRequest<'_>>(&header, reader),
        ApiKey::OffsetForLeaderEpoch => body::<OffsetForLeaderEpochRequest<'_>>(&header, reader),
        ApiKey::DescribeConfigs => body::<DescribeConfigsRequest<'_>>(&header, reader),
        ApiKey::AlterConfigs => body::<AlterConfigsRequest<'_>>(&header, reader),
        ApiKey::DescribeLogDirs => body::<DescribeLogDirsRequest<'_>>(&header, reader),
        ApiKey::CreatePartitions => body::<CreatePartitionsRequest<'_>>(&header, reader),
        ApiKey::IncrementalAlterConfigs => body::<IncrementalAlterConfigsRequest<'_>>(&header, reader),
        ApiKey::DescribeCluster => body::<DescribeClusterRequest>(&header, reader),
        ApiKey::ListConfigResources => body::<ListConfigResourcesRequest>(&header, reader),
        ApiKey::DescribeTopicPartitions => body::<DescribeTopicPartitionsRequest<'_>>(&header, reader),
    }
}

fn body<'a, M: Message<'a>>(header: &RequestHeader<'_>, mut reader: Reader<'a>) -> Result<(), DecodeError> {
    let message = M::decode(&mut reader, header.version)?;
    encode_request(&mut Vec::new(), header, &message).expect("what was read can be written");
    Ok(())
}
