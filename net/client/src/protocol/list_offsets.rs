//! ListOffsets.

use std::collections::BTreeMap;

use engine_record::Offset;
use net_wire::messages::list_offsets::{ListOffsetsPartition, ListOffsetsTopic};
use net_wire::messages::{ListOffsetsRequest, ListOffsetsResponse};
use net_wire::{DecodeError, Message, Reader};

use super::throttle;
use crate::consumer_core::{OffsetAnswer, OffsetsAnswer, PartitionQuestion};

/// What a consumer gives as its replica id.
const NO_REPLICA: i32 = -1;

pub(crate) fn request(parts: &[PartitionQuestion]) -> ListOffsetsRequest<'_> {
    let topics = parts.chunk_by(|one, next| one.topic == next.topic);
    ListOffsetsRequest {
        replica_id: NO_REPLICA,
        topics: topics.filter_map(topic).collect(),
        ..ListOffsetsRequest::default()
    }
}

fn topic(parts: &[PartitionQuestion]) -> Option<ListOffsetsTopic<'_>> {
    let partitions = parts.iter().map(|part| ListOffsetsPartition {
        partition_index: part.partition.0,
        current_leader_epoch: part.leader_epoch,
        timestamp: part.wanted,
    });
    Some(ListOffsetsTopic { name: &parts.first()?.topic, partitions: partitions.collect() })
}

/// Reads the response's body.
pub(crate) fn decode(
    reader: &mut Reader<'_>,
    version: i16,
    parts: &[PartitionQuestion],
) -> Result<OffsetsAnswer, DecodeError> {
    let response = ListOffsetsResponse::decode(reader, version)?;
    let named = response.topics.iter().flat_map(|topic| {
        topic.partitions.iter().map(|answer| ((topic.name, answer.partition_index), answer))
    });
    let answers: BTreeMap<_, _> = named.collect();
    let find = |part: &PartitionQuestion| {
        let answer = answers.get(&(&*part.topic, part.partition.0))?;
        Some(OffsetAnswer { error: answer.error_code, offset: Offset::new(answer.offset) })
    };
    let parts = parts.iter().map(find).collect();
    Ok(OffsetsAnswer { throttle: throttle(response.throttle_time_ms), parts })
}
