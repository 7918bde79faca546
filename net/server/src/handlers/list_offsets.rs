//! ListOffsets: a partition's ends, and offsets by time.

use std::collections::BTreeSet;
use std::rc::Rc;

use engine_io::Io;
use engine_record::{LeaderEpoch, Offset, PartitionIndex, Timestamp, TopicId, TopicPartition};
use engine_store::{ReadError, TimestampedOffset};
use net_wire::ErrorCode;
use net_wire::messages::list_offsets::{
    EARLIEST, EARLIEST_LOCAL, LATEST, LATEST_TIERED, ListOffsetsPartition, ListOffsetsPartitionResponse,
    ListOffsetsRequest, ListOffsetsResponse, ListOffsetsTopicResponse, MAX_TIMESTAMP,
};

use crate::dispatch::Request;
use crate::error_code;
use crate::handlers::fetch::check_epoch;
use crate::hooks::{Decision, Operation, Resource, authorize};
use crate::lookups::RequestLookups;
use crate::partition::Partition;
use crate::response::{CloseReason, Response};
use crate::shard::Shard;
use crate::turns::Turns;

/// From this version on the answer names the record's leader epoch.
const EPOCH_FROM: i16 = 4;

/// A record found, or an end of the log.
#[derive(Clone, Copy)]
struct Found {
    timestamp: Timestamp,
    offset: Offset,
    epoch: LeaderEpoch,
}

pub(crate) async fn handle<I: Io>(
    shard: &Rc<Shard<I>>,
    request: &Request<I>,
) -> Result<Response<I>, CloseReason> {
    let asked: ListOffsetsRequest<'_> = request.decode()?;
    let mut topics = Vec::with_capacity(asked.topics.len());
    let mut turns = Turns::new(shard.io());
    let lookups = shard.lookups().of_request(shard.io(), request.connection.lookups());
    let named_twice = named_twice(&asked, &mut turns).await;
    for topic in &asked.topics {
        turns.step().await;
        let Decision::Allowed =
            authorize(&request.connection.principal, Operation::Describe, Resource::Topic(topic.name));
        let id = shard.topic_id(topic.name);
        let mut partitions = Vec::with_capacity(topic.partitions.len());
        for partition in &topic.partitions {
            turns.step().await;
            let found = match id {
                _ if named_twice.contains(&(topic.name, partition.partition_index)) => {
                    Err(ErrorCode::INVALID_REQUEST)
                }
                Some(id) => find(shard, request.version, id, partition, &lookups).await,
                None => Err(ErrorCode::UNKNOWN_TOPIC_OR_PARTITION),
            };
            partitions.push(answer(request.version, partition.partition_index, found));
        }
        topics.push(ListOffsetsTopicResponse { name: topic.name, partitions });
    }
    Ok(request.answer(&ListOffsetsResponse { throttle_time_ms: 0, topics }))
}

/// The partitions that the request names more than once.
async fn named_twice<'a, I: Io>(
    asked: &ListOffsetsRequest<'a>,
    turns: &mut Turns<'_, I>,
) -> BTreeSet<(&'a str, i32)> {
    let (mut named, mut twice) = (BTreeSet::new(), BTreeSet::new());
    for topic in &asked.topics {
        for partition in &topic.partitions {
            turns.step().await;
            let partition = (topic.name, partition.partition_index);
            if !named.insert(partition) {
                twice.insert(partition);
            }
        }
    }
    twice
}

/// The first version that knows a special timestamp; `None` for one that none knows.
fn known_from(timestamp: i64) -> Option<i16> {
    match timestamp {
        LATEST | EARLIEST => Some(1),
        MAX_TIMESTAMP => Some(7),
        EARLIEST_LOCAL => Some(8),
        LATEST_TIERED => Some(9),
        _ => None,
    }
}

async fn find<I: Io>(
    shard: &Shard<I>,
    version: i16,
    topic: TopicId,
    asked: &ListOffsetsPartition,
    lookups: &RequestLookups<'_, I>,
) -> Result<Option<Found>, ErrorCode> {
    let id = TopicPartition { topic, partition: PartitionIndex(asked.partition_index) };
    let partition = shard.partition(id).map_err(|refused| match refused.error {
        // Topics are named here, so an id that has just gone is a name that isn't there.
        ErrorCode::UNKNOWN_TOPIC_ID => ErrorCode::UNKNOWN_TOPIC_OR_PARTITION,
        error => error,
    })?;
    check_epoch(&partition, asked.current_leader_epoch)?;
    if asked.timestamp < 0 && known_from(asked.timestamp).is_none_or(|from| version < from) {
        return Err(ErrorCode::UNSUPPORTED_VERSION);
    }
    let offsets = partition.offsets();
    match asked.timestamp {
        LATEST => Ok(Some(end(&partition, offsets.high_watermark))),
        EARLIEST | EARLIEST_LOCAL => Ok(Some(end(&partition, offsets.log_start))),
        LATEST_TIERED => Ok(None),
        MAX_TIMESTAMP => {
            let latest = lookups.in_turn(async || partition.log().max_timestamp().await).await;
            found(latest, offsets.high_watermark)
        }
        timestamp => {
            let time = Timestamp(timestamp);
            let first = lookups.in_turn(async || partition.log().find_timestamp(time).await).await;
            found(first, offsets.high_watermark)
        }
    }
}

/// An end of the log: it has no timestamp.
fn end<I: Io>(partition: &Partition<I>, offset: Offset) -> Found {
    let epoch = partition.log().epoch_at(offset).unwrap_or_else(|| partition.leader_epoch());
    Found { timestamp: Timestamp::NONE, offset, epoch }
}

/// A record, unless consumers can't read it yet. Where nobody has looked, the client is to ask again.
fn found(
    looked: Option<Result<Option<TimestampedOffset>, ReadError>>,
    high_watermark: Offset,
) -> Result<Option<Found>, ErrorCode> {
    let record = looked.ok_or(ErrorCode::REQUEST_TIMED_OUT)?;
    let record = record.map_err(|error| error_code::of_read(&error))?;
    let readable = record.filter(|record| record.offset < high_watermark);
    Ok(readable.map(|record| Found {
        timestamp: record.timestamp,
        offset: record.offset,
        epoch: record.leader_epoch,
    }))
}

fn answer(
    version: i16,
    partition_index: i32,
    found: Result<Option<Found>, ErrorCode>,
) -> ListOffsetsPartitionResponse {
    match found {
        Ok(Some(found)) => ListOffsetsPartitionResponse {
            partition_index,
            error_code: ErrorCode::NONE,
            timestamp: found.timestamp.0,
            offset: found.offset.value(),
            leader_epoch: if version < EPOCH_FROM { -1 } else { found.epoch.0 },
        },
        Ok(None) => {
            ListOffsetsPartitionResponse { partition_index, ..ListOffsetsPartitionResponse::default() }
        }
        Err(error_code) => ListOffsetsPartitionResponse {
            partition_index,
            error_code,
            ..ListOffsetsPartitionResponse::default()
        },
    }
}
