//! The hand-written paths say the same as the tables.

use core::mem::discriminant;

use proptest::prelude::*;

use super::family::{self, Family, config};
use super::hostile::mutate;
use super::sample::Source;
use crate::error::EncodeError;
use crate::fetch::{FetchFrame, FetchResponseStart, FetchResponseWriter, FetchedPartition, Piece};
use crate::frame::encode_response;
use crate::messages::fetch::{PartitionData, SnapshotId};
use crate::messages::{FetchResponse, ProduceRequest};
use crate::produce::{self, ProduceView};
use crate::reader::Reader;
use crate::topic_ref::TopicRef;
use crate::{ErrorCode, Message, Uuid};

fn topic_ref<'a>(version: i16, id_from: i16, name: &'a str, id: Uuid) -> TopicRef<'a> {
    if version >= id_from { TopicRef::Id(id) } else { TopicRef::Name(name) }
}

fn assert_same(view: &ProduceView<'_>, request: &ProduceRequest<'_>, version: i16) {
    assert_eq!(view.transactional_id, request.transactional_id);
    assert_eq!((view.acks, view.timeout_ms), (request.acks, request.timeout_ms));
    assert_eq!(view.topics().len(), request.topic_data.len());
    let mut partition_count = 0;
    for (topic, expected) in view.topics().zip(&request.topic_data) {
        let expected_ref = topic_ref(version, produce::TOPIC_ID_FROM, expected.name, expected.topic_id);
        assert_eq!(topic.topic, expected_ref);
        assert_eq!(topic.partitions().len(), expected.partition_data.len());
        for (partition, expected) in topic.partitions().zip(&expected.partition_data) {
            assert_eq!((partition.index, partition.records), (expected.index, expected.records));
            partition_count += 1;
        }
    }
    assert_eq!(view.partition_count, partition_count);
}

/// Both accept, and read the same; or both refuse, for the same kind of reason.
fn assert_agree(bytes: &[u8], version: i16) {
    let view = ProduceView::decode(&mut Reader::new(bytes), version);
    match (view, ProduceRequest::decode(&mut Reader::new(bytes), version)) {
        (Ok(view), Ok(request)) => assert_same(&view, &request, version),
        (Err(ours), Err(expected)) => assert_eq!(discriminant(&ours), discriminant(&expected), "{ours}"),
        (view, request) => panic!("view {view:?}, request {request:?}"),
    }
}

proptest! {
    #![proptest_config(config(100))]

    #[test]
    fn a_view_reads_what_the_request_reads(seed: u64) {
        let mut source = Source::new(!seed);
        for version in family::ProduceRequest::versions() {
            let request = family::ProduceRequest::sample(seed, version);
            let mut bytes = family::ProduceRequest::encode(&request, version);
            assert_same(&ProduceView::decode(&mut Reader::new(&bytes), version).unwrap(), &request, version);
            for _ in 0..8 {
                mutate(&mut bytes, &mut source);
                assert_agree(&bytes, version);
            }
        }
    }

    #[test]
    fn a_response_written_around_its_records_is_the_response(seed: u64) {
        let mut reused = FetchFrame::default();
        for version in family::FetchResponse::versions() {
            let response = writable(family::FetchResponse::sample(seed, version));
            let mut expected = Vec::new();
            encode_response(&mut expected, 77, version, &response).unwrap();
            reused = write(reused, &response, version).unwrap();
            prop_assert_eq!(reused.total_bytes, expected.len());
            prop_assert_eq!(assemble(&reused, &response), expected);
        }
    }
}

/// The writer knows no snapshots, and says "empty" for null records.
fn writable(mut response: FetchResponse<'static>) -> FetchResponse<'static> {
    for partition in response.responses.iter_mut().flat_map(|topic| &mut topic.partitions) {
        partition.snapshot_id = SnapshotId::default();
        partition.records.get_or_insert_default();
    }
    response
}

fn write(frame: FetchFrame, response: &FetchResponse<'_>, version: i16) -> Result<FetchFrame, EncodeError> {
    let start = FetchResponseStart {
        version,
        correlation_id: 77,
        throttle_time_ms: response.throttle_time_ms,
        error_code: response.error_code,
        session_id: response.session_id,
        topic_count: response.responses.len(),
    };
    let mut writer = FetchResponseWriter::begin(frame, &start)?;
    for topic in &response.responses {
        let topic_ref = topic_ref(version, crate::fetch::TOPIC_ID_FROM, topic.topic, topic.topic_id);
        writer.topic(topic_ref, topic.partitions.len())?;
        for partition in &topic.partitions {
            let records = partition.records.unwrap_or_default();
            writer.partition(&fetched(partition), records.len())?;
        }
    }
    writer.finish(&response.node_endpoints)
}

fn fetched<'p>(partition: &'p PartitionData<'_>) -> FetchedPartition<'p> {
    let set = |is_set: bool| is_set.then_some(());
    FetchedPartition {
        partition_index: partition.partition_index,
        error_code: partition.error_code,
        high_watermark: partition.high_watermark,
        last_stable_offset: partition.last_stable_offset,
        log_start_offset: partition.log_start_offset,
        diverging_epoch: set(partition.diverging_epoch != Default::default())
            .map(|()| partition.diverging_epoch),
        current_leader: set(partition.current_leader != Default::default())
            .map(|()| partition.current_leader),
        aborted_transactions: partition.aborted_transactions.as_deref(),
        preferred_read_replica: partition.preferred_read_replica,
    }
}

fn assemble(frame: &FetchFrame, response: &FetchResponse<'_>) -> Vec<u8> {
    let partitions = response.responses.iter().flat_map(|topic| &topic.partitions);
    let records: Vec<&[u8]> =
        partitions.filter_map(|p| p.records).filter(|records| !records.is_empty()).collect();
    assert_eq!(frame.splices.len(), records.len());
    let mut bytes = Vec::new();
    for piece in frame.pieces() {
        match piece {
            Piece::Head(range) => bytes.extend_from_slice(&frame.head[range]),
            Piece::Records(index) => {
                assert_eq!(frame.splices[index].bytes, records[index].len());
                bytes.extend_from_slice(records[index]);
            }
        }
    }
    bytes
}

fn start(version: i16, topic_count: usize) -> FetchResponseStart {
    FetchResponseStart { version, topic_count, ..Default::default() }
}

#[test]
fn records_of_many_gigabytes_are_refused_before_they_are_sent() {
    let mut writer = FetchResponseWriter::begin(FetchFrame::default(), &start(12, 1)).unwrap();
    writer.topic(TopicRef::Name("t"), 2).unwrap();
    writer.partition(&FetchedPartition::default(), 0x7fff_0000).unwrap();
    writer.partition(&FetchedPartition::default(), 0x7fff_0000).unwrap();
    assert!(matches!(writer.finish(&[]), Err(EncodeError::TooLong { limit: 0x7fff_ffff, .. })));
}

#[test]
fn what_was_announced_must_be_written_and_nothing_else() {
    let mut writer = FetchResponseWriter::begin(FetchFrame::default(), &start(4, 1)).unwrap();
    assert_eq!(writer.partition(&FetchedPartition::default(), 0), Err(EncodeError::CountMismatch));
    writer.topic(TopicRef::Name("t"), 1).unwrap();
    assert_eq!(writer.topic(TopicRef::Name("u"), 0), Err(EncodeError::CountMismatch));
    assert_eq!(writer.finish(&[]), Err(EncodeError::CountMismatch));

    let mut writer = FetchResponseWriter::begin(FetchFrame::default(), &start(4, 1)).unwrap();
    writer.topic(TopicRef::Name("t"), 0).unwrap();
    assert_eq!(writer.topic(TopicRef::Name("u"), 0), Err(EncodeError::CountMismatch));

    let writer = FetchResponseWriter::begin(FetchFrame::default(), &start(4, 1)).unwrap();
    assert_eq!(writer.finish(&[]), Err(EncodeError::CountMismatch));
}

#[test]
fn topics_are_named_as_the_version_names_them() {
    let lacking = |field, version| Err(EncodeError::FieldNotInVersion { field, version });
    let mut writer = FetchResponseWriter::begin(FetchFrame::default(), &start(13, 1)).unwrap();
    assert_eq!(writer.topic(TopicRef::Name("t"), 0), lacking("topic", 13));
    let mut writer = FetchResponseWriter::begin(FetchFrame::default(), &start(12, 1)).unwrap();
    assert_eq!(writer.topic(TopicRef::Id(Uuid::ZERO), 0), lacking("topic_id", 12));
}

#[test]
fn a_session_or_a_preferred_replica_is_not_dropped_silently() {
    let begun = FetchResponseStart { session_id: 1, error_code: ErrorCode::NONE, ..start(6, 0) };
    let lacking = |field, version| Some(EncodeError::FieldNotInVersion { field, version });
    let refused = FetchResponseWriter::begin(FetchFrame::default(), &begun).err();
    assert_eq!(refused, lacking("session_id", 6));

    let mut writer = FetchResponseWriter::begin(FetchFrame::default(), &start(10, 1)).unwrap();
    writer.topic(TopicRef::Name("t"), 1).unwrap();
    let elsewhere = FetchedPartition { preferred_read_replica: 4, ..Default::default() };
    assert_eq!(writer.partition(&elsewhere, 0).err(), lacking("preferred_read_replica", 10));
}
