//! Produce. The request is written around the batches: their bytes stay where the producer wrote them.

use core::ops::Range;
use core::time::Duration;
use std::rc::Rc;

use engine_record::{Offset, Timestamp};
use net_wire::messages::ProduceResponse;
use net_wire::messages::produce::PartitionProduceResponse;
use net_wire::{ApiKey, DecodeError, EncodeError, Message, Reader, RequestHeader, Uuid, Writer};

use super::{LeaderNews, TopicRef, milliseconds, throttle};
use crate::producer_core::{Acks, PartAnswer, ProduceAnswer, ProducePart, ProducePlan};

/// The first version that names topics by id.
pub(crate) const BY_TOPIC_ID_FROM: i16 = 13;

/// A request as it is to be sent: pieces of the head, and batches between them.
#[derive(Debug)]
pub(crate) struct ProduceFrame {
    head: Rc<Vec<u8>>,
    /// A batch goes before this position of the head; ascending.
    splices: Vec<(usize, Rc<Vec<u8>>)>,
}

impl ProduceFrame {
    /// What to send, in order.
    pub(crate) fn pieces(self) -> Vec<(Rc<Vec<u8>>, Range<usize>)> {
        let mut pieces = Vec::with_capacity(self.splices.len() * 2 + 1);
        let mut from = 0;
        for (position, batch) in self.splices {
            pieces.push((Rc::clone(&self.head), from..position));
            let bytes = batch.len();
            pieces.push((batch, 0..bytes));
            from = position;
        }
        let end = self.head.len();
        pieces.push((self.head, from..end));
        pieces
    }
}

/// The highest version all topics of the plan can be named in.
pub(crate) fn version_max(plan: &ProducePlan) -> i16 {
    let has_ids = plan.parts.iter().all(|part| !part.topic_id.is_zero());
    if has_ids { i16::MAX } else { BY_TOPIC_ID_FROM - 1 }
}

/// Writes the request.
pub(crate) fn encode(
    plan: &ProducePlan,
    header: &RequestHeader<'_>,
    acks: Acks,
    timeout: Duration,
) -> Result<ProduceFrame, EncodeError> {
    let (mut head, mut splices) = (Vec::with_capacity(64 + 32 * plan.parts.len()), Vec::new());
    head.extend_from_slice(&[0; net_wire::frame::SIZE_BYTES]);
    let mut body =
        Body { writer: Writer::new(&mut head), is_flexible: ApiKey::Produce.is_flexible(header.version) };
    header.encode(&mut body.writer)?;
    body.string(None)?;
    body.writer.i16(acks.code());
    body.writer.i32(milliseconds(timeout));
    let topics: Vec<_> = plan.parts.chunk_by(|one, next| one.topic == next.topic).collect();
    body.count(topics.len())?;
    for parts in topics {
        body.topic(parts, header.version, &mut splices)?;
    }
    body.end_of_structure();
    let batch_bytes: usize = splices.iter().map(|(_, batch)| batch.len()).sum();
    let size = head.len() - net_wire::frame::SIZE_BYTES + batch_bytes;
    let too_long = EncodeError::TooLong { length: size, limit: i32::MAX as usize };
    let size = i32::try_from(size).map_err(|_| too_long)?;
    head[..net_wire::frame::SIZE_BYTES].copy_from_slice(&size.to_be_bytes());
    Ok(ProduceFrame { head: Rc::new(head), splices })
}

/// Writes lengths and ends in the form of the version.
struct Body<'w> {
    writer: Writer<'w>,
    is_flexible: bool,
}

impl Body<'_> {
    fn topic(
        &mut self,
        parts: &[ProducePart],
        version: i16,
        splices: &mut Vec<(usize, Rc<Vec<u8>>)>,
    ) -> Result<(), EncodeError> {
        let Some(first) = parts.first() else { return Ok(()) };
        if version >= BY_TOPIC_ID_FROM {
            self.writer.uuid(Uuid(first.topic_id.0));
        } else {
            self.string(Some(&first.topic))?;
        }
        self.count(parts.len())?;
        for part in parts {
            self.writer.i32(part.partition.0);
            self.count(part.bytes.len())?;
            splices.push((self.writer.position(), Rc::clone(&part.bytes)));
            self.end_of_structure();
        }
        self.end_of_structure();
        Ok(())
    }

    fn string(&mut self, text: Option<&str>) -> Result<(), EncodeError> {
        if self.is_flexible {
            self.writer.compact_nullable_string(text)
        } else {
            self.writer.nullable_string(text)
        }
    }

    /// The count of an array, or the length of bytes that are spliced in.
    fn count(&mut self, count: usize) -> Result<(), EncodeError> {
        if self.is_flexible { self.writer.compact_count(Some(count)) } else { self.writer.count(Some(count)) }
    }

    fn end_of_structure(&mut self) {
        if self.is_flexible {
            self.writer.uvarint(0);
        }
    }
}

/// Reads the response's body.
pub(crate) fn decode(
    reader: &mut Reader<'_>,
    version: i16,
    plan: &ProducePlan,
) -> Result<(ProduceAnswer, LeaderNews), DecodeError> {
    let response = ProduceResponse::decode(reader, version)?;
    let mut news = LeaderNews::default();
    news.note_endpoints(&response.node_endpoints);
    let parts = plan.parts.iter().map(|part| {
        let found = find(&response, part)?;
        news.note_leader(&part.topic, part.partition, &found.current_leader);
        Some(PartAnswer {
            error: found.error_code,
            base_offset: Offset::new(found.base_offset),
            append_time: Some(Timestamp(found.log_append_time_ms)).filter(|time| time.0 >= 0),
        })
    });
    let answer = ProduceAnswer { parts: parts.collect(), throttle: throttle(response.throttle_time_ms) };
    Ok((answer, news))
}

fn find<'a>(
    response: &'a ProduceResponse<'_>,
    part: &ProducePart,
) -> Option<&'a PartitionProduceResponse<'a>> {
    let topics = response
        .responses
        .iter()
        .filter(|topic| TopicRef { name: topic.name, id: topic.topic_id }.is(&part.topic, part.topic_id));
    topics.flat_map(|topic| &topic.partition_responses).find(|answer| answer.index == part.partition.0)
}
