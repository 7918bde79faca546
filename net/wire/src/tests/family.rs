//! Every message as a type parameter, so that a test is written once.

use core::fmt::Debug;

use kafka_protocol::messages as theirs;
use kafka_protocol::protocol::{Decodable, Encodable};
use proptest::test_runner::Config;

use super::sample::{Sample, Source};
use crate::error::DecodeError;
use crate::message::Message;
use crate::messages as ours;
use crate::reader::Reader;
use crate::wire::{Version, Wire};
use crate::writer::Writer;

/// A message of ours, for any lifetime, and the independent implementation's.
pub(super) trait Family {
    type Ours<'a>: Message<'a> + Wire<'a> + Sample + Default + PartialEq + Debug;
    type Theirs: Encodable + Decodable + Default + Debug;
    const NAME: &'static str;

    /// Every version served.
    fn versions() -> impl Iterator<Item = i16> {
        let range = Self::Ours::API.versions();
        range.min..=range.max
    }

    /// Compares two messages that borrow from different frames.
    fn assert_same(left: &Self::Ours<'_>, right: &Self::Ours<'_>, version: i16);

    fn sample(seed: u64, version: i16) -> Self::Ours<'static> {
        let served = Version::served(Self::Ours::API, version).unwrap();
        Sample::sample(&mut Source::new(seed), served, true)
    }

    fn encode(message: &Self::Ours<'_>, version: i16) -> Vec<u8> {
        let mut bytes = Vec::new();
        let encoded = message.encode(&mut Writer::new(&mut bytes), version);
        assert_eq!(encoded, Ok(()), "{} version {version}: {message:?}", Self::NAME);
        bytes
    }

    fn decode(bytes: &[u8], version: i16) -> Result<Self::Ours<'_>, DecodeError> {
        Message::decode(&mut Reader::new(bytes), version)
    }
}

macro_rules! families {
    ($a:lifetime, $( $name:ident: $ours:ty; )*) => {
        $( families!(@one $a, $name, $ours); )*
    };
    (@one $a:lifetime, $name:ident, $ours:ty) => {
        pub(super) struct $name;

        impl Family for $name {
            type Ours<$a> = $ours;
            type Theirs = theirs::$name;
            const NAME: &'static str = stringify!($name);

            fn assert_same(left: &Self::Ours<'_>, right: &Self::Ours<'_>, version: i16) {
                assert_eq!(left, right, "{} version {version}", Self::NAME);
            }
        }
    };
}

families! {
    'a,
    AlterConfigsRequest: ours::AlterConfigsRequest<'a>;
    AlterConfigsResponse: ours::AlterConfigsResponse<'a>;
    ApiVersionsRequest: ours::ApiVersionsRequest<'a>;
    ApiVersionsResponse: ours::ApiVersionsResponse<'a>;
    CreatePartitionsRequest: ours::CreatePartitionsRequest<'a>;
    CreatePartitionsResponse: ours::CreatePartitionsResponse<'a>;
    CreateTopicsRequest: ours::CreateTopicsRequest<'a>;
    CreateTopicsResponse: ours::CreateTopicsResponse<'a>;
    DeleteRecordsRequest: ours::DeleteRecordsRequest<'a>;
    DeleteRecordsResponse: ours::DeleteRecordsResponse<'a>;
    DeleteTopicsRequest: ours::DeleteTopicsRequest<'a>;
    DeleteTopicsResponse: ours::DeleteTopicsResponse<'a>;
    DescribeClusterRequest: ours::DescribeClusterRequest;
    DescribeClusterResponse: ours::DescribeClusterResponse<'a>;
    DescribeConfigsRequest: ours::DescribeConfigsRequest<'a>;
    DescribeConfigsResponse: ours::DescribeConfigsResponse<'a>;
    DescribeLogDirsRequest: ours::DescribeLogDirsRequest<'a>;
    DescribeLogDirsResponse: ours::DescribeLogDirsResponse<'a>;
    DescribeTopicPartitionsRequest: ours::DescribeTopicPartitionsRequest<'a>;
    DescribeTopicPartitionsResponse: ours::DescribeTopicPartitionsResponse<'a>;
    FetchRequest: ours::FetchRequest<'a>;
    FetchResponse: ours::FetchResponse<'a>;
    IncrementalAlterConfigsRequest: ours::IncrementalAlterConfigsRequest<'a>;
    IncrementalAlterConfigsResponse: ours::IncrementalAlterConfigsResponse<'a>;
    InitProducerIdRequest: ours::InitProducerIdRequest<'a>;
    InitProducerIdResponse: ours::InitProducerIdResponse;
    ListConfigResourcesRequest: ours::ListConfigResourcesRequest;
    ListConfigResourcesResponse: ours::ListConfigResourcesResponse<'a>;
    ListOffsetsRequest: ours::ListOffsetsRequest<'a>;
    ListOffsetsResponse: ours::ListOffsetsResponse<'a>;
    MetadataRequest: ours::MetadataRequest<'a>;
    MetadataResponse: ours::MetadataResponse<'a>;
    OffsetForLeaderEpochRequest: ours::OffsetForLeaderEpochRequest<'a>;
    OffsetForLeaderEpochResponse: ours::OffsetForLeaderEpochResponse<'a>;
    ProduceRequest: ours::ProduceRequest<'a>;
    ProduceResponse: ours::ProduceResponse<'a>;
}

/// Calls `check::<Family>(argument)` for every message.
macro_rules! for_every_message {
    ($check:ident($argument:expr)) => {
        for_every_message!($check($argument):
            AlterConfigsRequest AlterConfigsResponse ApiVersionsRequest ApiVersionsResponse
            CreatePartitionsRequest CreatePartitionsResponse CreateTopicsRequest CreateTopicsResponse
            DeleteRecordsRequest DeleteRecordsResponse DeleteTopicsRequest DeleteTopicsResponse
            DescribeClusterRequest DescribeClusterResponse DescribeConfigsRequest DescribeConfigsResponse
            DescribeLogDirsRequest DescribeLogDirsResponse DescribeTopicPartitionsRequest
            DescribeTopicPartitionsResponse FetchRequest FetchResponse IncrementalAlterConfigsRequest
            IncrementalAlterConfigsResponse InitProducerIdRequest InitProducerIdResponse
            ListConfigResourcesRequest ListConfigResourcesResponse ListOffsetsRequest ListOffsetsResponse
            MetadataRequest MetadataResponse OffsetForLeaderEpochRequest OffsetForLeaderEpochResponse
            ProduceRequest ProduceResponse)
    };
    ($check:ident($argument:expr): $($family:ident)*) => {
        $( $check::<crate::tests::family::$family>($argument); )*
    };
}
pub(super) use for_every_message;

/// Property tests print their seed and write no files; a failure found becomes a plain test.
pub(super) fn config(cases: u32) -> Config {
    Config { cases, failure_persistence: None, ..Config::default() }
}

#[test]
fn every_api_has_both_its_messages_here() {
    fn note<F: Family>(seen: &mut Vec<crate::api::ApiKey>) {
        seen.push(<F::Ours<'static> as Message>::API);
    }
    let mut seen = Vec::new();
    for_every_message!(note(&mut seen));
    seen.sort_unstable();
    let twice: Vec<_> = crate::api::ApiKey::ALL.iter().flat_map(|&api| [api, api]).collect();
    assert_eq!(seen, twice);
}
