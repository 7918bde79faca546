//! Bytes that no honest peer sends.

use proptest::prelude::*;

use super::family::{self, Family, config, for_every_message};
use super::reserved::counted;
use super::sample::Source;
use crate::error::{DecodeError, Place};
use crate::header::RequestHeader;
use crate::message::{ARRAY_DEPTH_MAX, EXPANSION_MAX, Message};
use crate::messages::fetch::{FetchPartition, FetchTopic};
use crate::messages::{FetchRequest, MetadataRequest, ProduceRequest, produce};
use crate::produce::ProduceView;
use crate::reader::Reader;
use crate::wire::{Version, Wire};

fn every_prefix_is_refused<F: Family>(seed: u64) {
    for version in F::versions() {
        let bytes = F::encode(&F::sample(seed, version), version);
        // Long frames are long because of many equal elements; their first and last kilobyte show all there is.
        let ends = (0..bytes.len()).filter(|&end| end < 1_000 || end + 1_000 > bytes.len());
        for end in ends {
            let decoded = F::decode(&bytes[..end], version);
            assert!(decoded.is_err(), "{} version {version}: {end} of {}", F::NAME, bytes.len());
        }
    }
}

fn trailing_bytes_are_refused<F: Family>(seed: u64) {
    for version in F::versions() {
        let mut bytes = F::encode(&F::sample(seed, version), version);
        let at = Place { position: bytes.len(), field: "" };
        bytes.push(0);
        let refused = Err(DecodeError::Trailing { at, remaining: 1 });
        assert_eq!(F::decode(&bytes, version), refused, "{} version {version}", F::NAME);
    }
}

/// Whatever is accepted means something: it can be written and read back as the same.
fn mutations_are_refused_or_mean_something<F: Family>(seed: u64) {
    let mut source = Source::new(!seed);
    for version in F::versions() {
        let mut bytes = F::encode(&F::sample(seed, version), version);
        for _ in 0..8 {
            mutate(&mut bytes, &mut source);
            assert_memory_bounded::<F>(&bytes, version);
            if let Ok(decoded) = F::decode(&bytes, version) {
                let again = F::encode(&decoded, version);
                F::assert_same(&F::decode(&again, version).unwrap(), &decoded, version);
            }
        }
    }
}

pub(super) fn mutate(bytes: &mut Vec<u8>, source: &mut Source) {
    if bytes.is_empty() {
        return;
    }
    let position = source.below(bytes.len());
    let random = source.next().to_le_bytes();
    match source.below(5) {
        0 => bytes[position] ^= 1 << source.below(8),
        1 => bytes[position] = random[0],
        2 => bytes[position] = [0x00, 0x01, 0x7f, 0x80, 0xff][source.below(5)],
        3 => bytes.insert(position, random[0]),
        _ => drop(bytes.remove(position)),
    }
}

/// Overwrites every place with lengths and counts as large as they can be. Were any believed, memory for it would be
/// reserved, whether or not the frame is refused in the end.
fn memory_is_bounded_by_the_frame<F: Family>(seed: u64) {
    let hostile: [&[u8]; 5] = [
        &[0x7f, 0xff, 0xff, 0xff],
        &[0x00, 0x00, 0x00, 0xff],
        &[0xff, 0xff, 0xff, 0xff, 0x0f],
        &[0xff, 0x01],
        &[0x80, 0x00, 0x00, 0x00],
    ];
    for version in F::versions() {
        let bytes = F::encode(&F::sample(seed, version), version);
        for position in 0..bytes.len().min(150) {
            for patch in hostile {
                let mut bytes = bytes.clone();
                let end = bytes.len().min(position + patch.len());
                bytes.splice(position..end, patch.iter().copied());
                assert_memory_bounded::<F>(&bytes, version);
            }
        }
    }
}

fn assert_memory_bounded<F: Family>(bytes: &[u8], version: i16) {
    let (_, reserved) = counted(|| drop(F::decode(bytes, version)));
    let bound = EXPANSION_MAX * ARRAY_DEPTH_MAX * bytes.len();
    assert!(reserved <= bound, "{} version {version}: {reserved} for {bytes:?}", F::NAME);
}

proptest! {
    #![proptest_config(config(4))]

    #[test]
    fn a_frame_cut_short_anywhere_is_refused(seed: u64) {
        for_every_message!(every_prefix_is_refused(seed));
    }

    #[test]
    fn bytes_after_the_end_are_refused(seed: u64) {
        for_every_message!(trailing_bytes_are_refused(seed));
    }

    #[test]
    fn hostile_counts_take_no_more_memory_than_the_frame_can_fill(seed: u64) {
        for_every_message!(memory_is_bounded_by_the_frame(seed));
    }
}

proptest! {
    #![proptest_config(config(60))]

    #[test]
    fn changed_frames_are_refused_or_mean_something(seed: u64) {
        for_every_message!(mutations_are_refused_or_mean_something(seed));
    }

    #[test]
    fn random_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        fn check<F: Family>(bytes: &[u8]) {
            for version in F::versions() {
                drop(F::decode(bytes, version));
            }
        }
        for_every_message!(check(&bytes));
        let _ = RequestHeader::decode(&mut Reader::new(&bytes));
        let _ = ProduceView::decode(&mut Reader::new(&bytes), 9);
    }
}

#[test]
fn versions_that_are_not_served_are_refused_before_a_byte_is_read() {
    fn check<F: Family>((): ()) {
        let api = F::Ours::API;
        for version in [i16::MIN, -1, api.versions().min - 1, api.versions().max + 1, i16::MAX] {
            let mut reader = Reader::new(&[0; 64]);
            let decoded = F::Ours::decode(&mut reader, version);
            assert_eq!(decoded, Err(DecodeError::UnsupportedVersion { api, version }));
            assert_eq!(reader.position(), 0);
        }
    }
    for_every_message!(check(()));
}

#[test]
fn produce_below_version_3_is_refused_though_it_is_advertised() {
    let api = crate::ApiKey::Produce;
    for version in 0..3 {
        assert!(api.advertised().contains(version));
        let unsupported = DecodeError::UnsupportedVersion { api, version };
        assert_eq!(ProduceRequest::decode(&mut Reader::new(&[]), version), Err(unsupported));
        assert_eq!(ProduceView::decode(&mut Reader::new(&[]), version).unwrap_err(), unsupported);
    }
}

#[test]
fn a_short_frame_that_claims_billions_of_topics_is_refused() {
    let produce = [0xff, 0xff, 0x00, 0x01, 0, 0, 0, 9, 0x7f, 0xff, 0xff, 0xff];
    let at = Place { position: 8, field: "topic_data" };
    let refused = DecodeError::CountTooLarge { at, count: 0x7fff_ffff, possible: 0 };
    assert_eq!(ProduceRequest::decode(&mut Reader::new(&produce), 3), Err(refused));
    assert_eq!(ProduceView::decode(&mut Reader::new(&produce), 3).unwrap_err(), refused);

    let at = Place { position: 0, field: "topics" };
    let refused = DecodeError::CountTooLarge { at, count: 0x7fff_ffff, possible: 0 };
    let metadata = [0x7f, 0xff, 0xff, 0xff];
    assert_eq!(MetadataRequest::decode(&mut Reader::new(&metadata), 1), Err(refused));
}

#[test]
fn null_is_refused_in_versions_that_do_not_know_it() {
    let at = Place { position: 0, field: "topics" };
    let null = [0xff; 4];
    let decoded = MetadataRequest::decode(&mut Reader::new(&null), 0);
    assert_eq!(decoded, Err(DecodeError::NullNotAllowed { at }));
    assert_eq!(MetadataRequest::decode(&mut Reader::new(&null), 1).unwrap().topics, None);
}

#[test]
fn a_known_tagged_field_must_fill_its_size() {
    // Cluster id "c" in a field of three bytes, where two would do.
    let mut bytes = FetchFixture::version_12();
    bytes.extend([1, 0, 3, 2, b'c', 0]);
    let at = Place { position: bytes.len() - 1, field: "cluster_id" };
    let decoded = FetchRequest::decode(&mut Reader::new(&bytes), 12);
    assert_eq!(decoded, Err(DecodeError::Trailing { at, remaining: 1 }));
}

struct FetchFixture;

impl FetchFixture {
    /// A Fetch request of version 12 without its tagged fields.
    fn version_12() -> Vec<u8> {
        let mut bytes = Vec::new();
        let request = FetchRequest::default();
        request.encode(&mut crate::Writer::new(&mut bytes), 12).unwrap();
        assert_eq!(bytes.pop(), Some(0), "no tagged fields");
        bytes
    }
}

/// Were the smallest size too high, arrays of small elements would be refused; too low, and counts would bound less.
#[test]
fn the_smallest_size_of_a_structure_is_that_of_an_empty_one() {
    fn check<F: Family>((): ()) {
        for version in F::versions() {
            let served = Version::served(F::Ours::API, version).unwrap();
            let empty = F::encode(&F::Ours::default(), version);
            assert_eq!(empty.len(), F::Ours::bytes_min(served), "{} version {version}", F::NAME);
        }
    }
    for_every_message!(check(()));
}

#[test]
fn arrays_of_the_smallest_elements_are_accepted() {
    let topics = vec![produce::TopicProduceData::default(); 40];
    let request = ProduceRequest { topic_data: topics, ..Default::default() };
    let topics =
        vec![FetchTopic { partitions: vec![FetchPartition::default(); 40], ..Default::default() }; 3];
    let fetch = FetchRequest { topics, ..Default::default() };
    for version in 4..=13 {
        let bytes = family::ProduceRequest::encode(&request, version);
        family::ProduceRequest::assert_same(
            &family::ProduceRequest::decode(&bytes, version).unwrap(),
            &request,
            version,
        );
        let bytes = family::FetchRequest::encode(&fetch, version);
        family::FetchRequest::assert_same(
            &family::FetchRequest::decode(&bytes, version).unwrap(),
            &fetch,
            version,
        );
    }
}
