//! Fetch, without sessions: each request names all it wants.

use core::ops::Range;
use std::collections::BTreeMap;
use std::rc::Rc;

use engine_record::Offset;
use net_wire::messages::fetch::{FetchPartition, FetchTopic, PartitionData};
use net_wire::messages::{FetchRequest, FetchResponse};
use net_wire::{DecodeError, Message, Reader, Uuid};

use super::{LeaderNews, milliseconds, throttle};
use crate::consumer_core::{ConsumerSettings, FetchAnswer, FetchPartAnswer, FetchPlan, PartitionQuestion};

/// The first version that names topics by id.
const BY_TOPIC_ID_FROM: i16 = 13;

/// The highest version all topics of the plan can be named in.
pub(crate) fn version_max(plan: &FetchPlan) -> i16 {
    let has_ids = plan.parts.iter().all(|part| !part.topic_id.is_zero());
    if has_ids { i16::MAX } else { BY_TOPIC_ID_FROM - 1 }
}

pub(crate) fn request<'a>(plan: &'a FetchPlan, settings: &ConsumerSettings) -> FetchRequest<'a> {
    let topics = plan.parts.chunk_by(|one, next| one.topic == next.topic);
    FetchRequest {
        max_wait_ms: milliseconds(plan.wait_max),
        min_bytes: i32::try_from(settings.bytes_min).unwrap_or(i32::MAX),
        max_bytes: i32::try_from(settings.bytes_max).unwrap_or(i32::MAX),
        topics: topics.filter_map(|parts| topic(parts, settings)).collect(),
        ..FetchRequest::default()
    }
}

fn topic<'a>(parts: &'a [PartitionQuestion], settings: &ConsumerSettings) -> Option<FetchTopic<'a>> {
    let first = parts.first()?;
    let partitions = parts.iter().map(|part| FetchPartition {
        partition: part.partition.0,
        current_leader_epoch: part.leader_epoch,
        fetch_offset: part.wanted,
        partition_max_bytes: i32::try_from(settings.partition_bytes_max).unwrap_or(i32::MAX),
        ..FetchPartition::default()
    });
    Some(FetchTopic {
        topic: &first.topic,
        topic_id: Uuid(first.topic_id.0),
        partitions: partitions.collect(),
    })
}

/// Reads the response's body, which is the end of `frame` from `from` on.
pub(crate) fn decode(
    frame: Vec<u8>,
    from: usize,
    version: i16,
    plan: &FetchPlan,
) -> Result<(FetchAnswer, LeaderNews), DecodeError> {
    let body = frame.get(from..).unwrap_or_default();
    let response = FetchResponse::decode(&mut Reader::new(body), version)?;
    let mut news = LeaderNews::default();
    news.note_endpoints(&response.node_endpoints);
    let answers = by_partition(&response);
    let parts = plan.parts.iter().map(|part| {
        let found = find(&answers, part)?;
        news.note_leader(&part.topic, part.partition, &found.current_leader);
        Some(FetchPartAnswer {
            error: found.error_code,
            high_watermark: Offset::new(found.high_watermark),
            records: place_of(found.records.unwrap_or_default(), &frame),
        })
    });
    let parts = parts.collect();
    let (error, throttle) = (response.error_code, throttle(response.throttle_time_ms));
    Ok((FetchAnswer { error, throttle, parts, frame: Rc::new(frame) }, news))
}

/// The answers by topic and partition; topics have a name or an id.
type Answers<'a> = BTreeMap<(&'a str, Uuid, i32), &'a PartitionData<'a>>;

fn by_partition<'a>(response: &'a FetchResponse<'_>) -> Answers<'a> {
    let named = response.responses.iter().flat_map(|topic| {
        let name = if topic.topic_id.is_zero() { topic.topic } else { "" };
        topic.partitions.iter().map(move |answer| ((name, topic.topic_id, answer.partition_index), answer))
    });
    named.collect()
}

fn find<'a>(answers: &Answers<'a>, part: &'a PartitionQuestion) -> Option<&'a PartitionData<'a>> {
    let by_name = || answers.get(&(&*part.topic, Uuid::ZERO, part.partition.0));
    answers.get(&("", Uuid(part.topic_id.0), part.partition.0)).or_else(by_name).copied()
}

/// Where in `frame` a slice lies that was borrowed from it.
fn place_of(slice: &[u8], frame: &[u8]) -> Range<usize> {
    if slice.is_empty() {
        return 0..0;
    }
    let start = slice.as_ptr().addr() - frame.as_ptr().addr();
    start..start + slice.len()
}
