//! Every message in every version against an independent implementation, in both directions.

use bytes::{Bytes, BytesMut};
use kafka_protocol::messages as theirs;
use kafka_protocol::protocol::{Decodable, Encodable};
use proptest::prelude::*;

use super::family::{Family, config, for_every_message};
use super::tree::Tree;
use crate::header::{RequestHeader, ResponseHeaderVersion, decode_response_header, encode_response_header};
use crate::reader::Reader;
use crate::writer::Writer;
use crate::{ApiKey, Message};

/// Fields of versions that aren't served here.
const LATER_FIELDS: &[&str] = &[
    "unknown_tagged_fields",
    "high_watermark",
    "enable_2_pc",
    "keep_prepared_txn",
    "ongoing_txn_producer_id",
    "ongoing_txn_producer_epoch",
];

/// Fields that are Ringlog's own: to them a tag that they don't know.
const OWN_FIELDS: &[&str] = &["count_segments", "segment_count", "shard"];

fn assert_same_fields(ours: &Tree, theirs: &Tree, path: &str) {
    match (ours, theirs) {
        // The two print bytes differently; that they are equal is seen in the encoded frames.
        _ if path.ends_with(".records") => {}
        (Tree::Fields(ours), Tree::Fields(theirs)) => {
            for (name, value) in ours.iter().filter(|(name, _)| !OWN_FIELDS.contains(&name.as_str())) {
                let theirs = theirs.get(name).unwrap_or_else(|| panic!("{path}.{name} is named otherwise"));
                assert_same_fields(value, theirs, &format!("{path}.{name}"));
            }
            for name in theirs.keys().filter(|name| !ours.contains_key(*name)) {
                assert!(LATER_FIELDS.contains(&name.as_str()), "{path}.{name} is missing");
            }
        }
        (Tree::List(ours), Tree::List(theirs)) => {
            assert_eq!(ours.len(), theirs.len(), "{path}");
            ours.iter().zip(theirs).for_each(|(ours, theirs)| assert_same_fields(ours, theirs, path));
        }
        (Tree::Null | Tree::Leaf(_), Tree::Null | Tree::Leaf(_)) => assert_eq!(ours, theirs, "{path}"),
        _ => panic!("{path}: {ours:?} is not shaped like {theirs:?}"),
    }
}

fn encode_theirs(message: &impl Encodable, version: i16) -> Bytes {
    let mut bytes = BytesMut::new();
    message.encode(&mut bytes, version).expect("they encode what they decoded");
    bytes.freeze()
}

fn both_sides_agree<F: Family>(seed: u64) {
    for version in F::versions() {
        let message = F::sample(seed, version);
        let bytes = F::encode(&message, version);
        let context = || format!("{} version {version} seed {seed}", F::NAME);

        let mut rest = Bytes::copy_from_slice(&bytes);
        let theirs = F::Theirs::decode(&mut rest, version).unwrap_or_else(|e| panic!("{}: {e}", context()));
        assert!(rest.is_empty(), "{}: they leave {} bytes", context(), rest.len());
        assert_same_fields(&Tree::of(&message), &Tree::of(&theirs), &context());

        let their_bytes = encode_theirs(&theirs, version);
        assert_eq!(their_bytes, bytes, "{}", context());
        let decoded = F::decode(&their_bytes, version).unwrap_or_else(|e| panic!("{}: {e}", context()));
        F::assert_same(&decoded, &message, version);
        assert_eq!(F::encode(&decoded, version), bytes, "{}", context());
    }
}

proptest! {
    #![proptest_config(config(24))]

    #[test]
    fn an_independent_implementation_reads_and_writes_the_same(seed: u64) {
        for_every_message!(both_sides_agree(seed));
    }
}

/// The defaults that decide what may be left out are part of the protocol too.
#[test]
fn defaults_are_the_same() {
    fn check<F: Family>((): ()) {
        assert_same_fields(&Tree::of(&F::Ours::default()), &Tree::of(&F::Theirs::default()), F::NAME);
    }
    for_every_message!(check(()));
}

#[test]
fn version_ranges_and_header_versions_are_the_same() {
    // Their latest versions: between replicas only, and not yet stable.
    let served_less = [ApiKey::Fetch, ApiKey::InitProducerId];
    for &api in ApiKey::ALL {
        let their_api = theirs::ApiKey::try_from(api.code()).unwrap();
        assert_eq!(format!("{their_api:?}"), api.name());
        let theirs = their_api.valid_versions();
        assert_eq!(theirs.min, api.versions().min, "{api}");
        let lacking = i16::from(served_less.contains(&api));
        assert_eq!(theirs.max, api.versions().max + lacking, "{api}");
        for version in api.versions().min..=api.versions().max {
            let tagged = api.response_header(version) == ResponseHeaderVersion::V1;
            assert_eq!(their_api.response_header_version(version), i16::from(tagged), "{api} {version}");
            let flexible = api.is_flexible(version);
            assert_eq!(their_api.request_header_version(version), 1 + i16::from(flexible), "{api} {version}");
        }
    }
}

#[test]
fn request_headers_are_the_same() {
    for (api, version, client_id) in [
        (ApiKey::Produce, 8, Some("client")),
        (ApiKey::Produce, 9, None),
        (ApiKey::ApiVersions, 0, Some("")),
        (ApiKey::ApiVersions, 3, Some("größe")),
    ] {
        let header = RequestHeader { api, version, correlation_id: -7, client_id };
        let mut bytes = Vec::new();
        header.encode(&mut Writer::new(&mut bytes)).unwrap();
        let mut rest = Bytes::copy_from_slice(&bytes);
        let shape = 1 + i16::from(api.is_flexible(version));
        let theirs = theirs::RequestHeader::decode(&mut rest, shape).unwrap();
        assert_eq!(theirs.request_api_key, api.code());
        assert_eq!(theirs.request_api_version, version);
        assert_eq!(theirs.correlation_id, -7);
        assert_eq!(theirs.client_id.as_deref(), client_id);
        assert_eq!(encode_theirs(&theirs, shape), bytes);
        assert_eq!(RequestHeader::decode(&mut Reader::new(&bytes)), Ok(header));
    }
}

#[test]
fn response_headers_are_the_same() {
    for (api, version) in [(ApiKey::Fetch, 11), (ApiKey::Fetch, 12), (ApiKey::ApiVersions, 4)] {
        let mut bytes = Vec::new();
        encode_response_header(&mut Writer::new(&mut bytes), api, version, 99);
        let shape = i16::from(api.response_header(version) == ResponseHeaderVersion::V1);
        let theirs = theirs::ResponseHeader::decode(&mut Bytes::copy_from_slice(&bytes), shape).unwrap();
        assert_eq!(theirs.correlation_id, 99);
        assert_eq!(encode_theirs(&theirs, shape), bytes);
        assert_eq!(decode_response_header(&mut Reader::new(&bytes), api, version), Ok(99));
    }
}

/// Fields that peers of ours add, and fields of later versions, are passed over wherever they stand.
#[test]
fn unknown_tagged_fields_are_passed_over() {
    let private = || [(10_000, Bytes::from_static(b"epoch")), (10_001, Bytes::new())].into();
    let partition = theirs::fetch_request::FetchPartition::default()
        .with_partition(3)
        .with_fetch_offset(500)
        .with_unknown_tagged_fields(private());
    let topic = theirs::fetch_request::FetchTopic::default()
        .with_partitions(vec![partition])
        .with_unknown_tagged_fields(private());
    let request = theirs::FetchRequest::default()
        .with_cluster_id(Some(kafka_protocol::protocol::StrBytes::from_static_str("c")))
        .with_topics(vec![topic])
        .with_unknown_tagged_fields(private());
    let bytes = encode_theirs(&request, 17);
    let decoded = crate::messages::FetchRequest::decode(&mut Reader::new(&bytes), 17).unwrap();
    assert_eq!(decoded.cluster_id, Some("c"));
    assert_eq!(decoded.topics[0].partitions[0].fetch_offset, 500);
}
