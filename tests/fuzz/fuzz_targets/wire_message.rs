//! Bodies of every message in every version: the first byte chooses the message, the second the version. Whatever is
//! accepted is the same after it was written and read again.
#![no_main]

use core::fmt::Debug;

use libfuzzer_sys::fuzz_target;
use net_wire::messages::{AlterConfigsRequest, AlterConfigsResponse, ApiVersionsRequest, ApiVersionsResponse, CreatePartitionsRequest, CreatePartitionsResponse, CreateTopicsRequest, CreateTopicsResponse, DeleteRecordsRequest, DeleteRecordsResponse, DeleteTopicsRequest, DeleteTopicsResponse, DescribeClusterRequest, DescribeClusterResponse, DescribeConfigsRequest, DescribeConfigsResponse, DescribeLogDirsRequest, DescribeLogDirsResponse, DescribeTopicPartitionsRequest, DescribeTopicPartitionsResponse, FetchRequest, FetchResponse, IncrementalAlterConfigsRequest, IncrementalAlterConfigsResponse, InitProducerIdRequest, InitProducerIdResponse, ListConfigResourcesRequest, ListConfigResourcesResponse, ListOffsetsRequest, ListOffsetsResponse, MetadataRequest, MetadataResponse, OffsetForLeaderEpochRequest, OffsetForLeaderEpochResponse, ProduceRequest, ProduceResponse};
use net_wire::{Message, Reader, Writer};

macro_rules! choose {
    ($choice:expr, $version:expr, $body:expr; $( $message:ident )*) => {{
        let checks: &[fn(u8, &[u8])] = &[$( |version: u8, body: &[u8]| {
            let mut written = Vec::new();
            let Some((version, message)) = read::<$message>(version, body) else { return };
            message.encode(&mut Writer::new(&mut written), version).expect("what was read can be written");
            let again = $message::decode(&mut Reader::new(&written), version).expect("what was written can be read");
            assert_eq!(again, message);
        }, )*];
        checks[usize::from($choice) % checks.len()]($version, $body);
    }};
}

fuzz_target!(|data: &[u8]| {
    let [choice, version, body @ ..] = data else { return };
    choose!(*choice, *version, body;
        AlterConfigsRequest AlterConfigsResponse ApiVersionsRequest ApiVersionsResponse
        CreatePartitionsRequest CreatePartitionsResponse CreateTopicsRequest CreateTopicsResponse
        DeleteRecordsRequest DeleteRecordsResponse DeleteTopicsRequest DeleteTopicsResponse
        DescribeClusterRequest DescribeClusterResponse DescribeConfigsRequest DescribeConfigsResponse
        DescribeLogDirsRequest DescribeLogDirsResponse DescribeTopicPartitionsRequest
        DescribeTopicPartitionsResponse FetchRequest FetchResponse IncrementalAlterConfigsRequest
        IncrementalAlterConfigsResponse InitProducerIdRequest InitProducerIdResponse
        ListConfigResourcesRequest ListConfigResourcesResponse ListOffsetsRequest ListOffsetsResponse
        MetadataRequest MetadataResponse OffsetForLeaderEpochRequest OffsetForLeaderEpochResponse
        ProduceRequest ProduceResponse);
});

fn read<'a, M: Message<'a> + Debug>(version: u8, body: &'a [u8]) -> Option<(i16, M)> {
    let served = M::API.versions();
    let version = served.min + i16::from(version) % (served.max - served.min + 1);
    M::decode(&mut Reader::new(body), version).ok().map(|message| (version, message))
}
