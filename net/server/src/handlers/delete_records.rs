//! DeleteRecords: raises the start of partitions' logs. What lies below goes segment by segment, behind the answer.

use std::collections::BTreeMap;
use std::rc::Rc;

use engine_io::Io;
use engine_record::{Offset, PartitionIndex, TopicPartition};
use net_wire::ErrorCode;
use net_wire::messages::delete_records::{
    DeleteRecordsPartitionResult, DeleteRecordsRequest, DeleteRecordsResponse, DeleteRecordsTopicResult,
    HIGH_WATERMARK,
};

use crate::dispatch::Request;
use crate::error_code;
use crate::hooks::{Decision, Operation, Resource, authorize};
use crate::response::{CloseReason, Response};
use crate::shard::Shard;
use crate::turns::Turns;

/// `low_watermark` where there is an error.
const NOT_KNOWN: i64 = -1;

/// What is to be deleted, each partition once. Of one that is named again the last mention counts, as in Apache's broker.
type Asked<'a> = BTreeMap<&'a str, BTreeMap<i32, i64>>;

/// The request's time is for replicas to follow, and this one's log is the only one. So it is not looked at.
pub(crate) async fn handle<I: Io>(
    shard: &Rc<Shard<I>>,
    request: &Request<I>,
) -> Result<Response<I>, CloseReason> {
    let body: DeleteRecordsRequest<'_> = request.decode()?;
    let mut turns = Turns::new(shard.io());
    let asked = each_once(&body, &mut turns).await;
    let mut topics = Vec::with_capacity(asked.len());
    for (name, offsets) in asked {
        let Decision::Allowed =
            authorize(&request.connection.principal, Operation::Delete, Resource::Topic(name));
        let mut partitions = Vec::with_capacity(offsets.len());
        for (index, offset) in offsets {
            turns.step().await;
            partitions.push(answer(index, delete(shard, name, index, offset).await));
        }
        topics.push(DeleteRecordsTopicResult { name, partitions });
    }
    Ok(request.answer(&DeleteRecordsResponse { throttle_time_ms: 0, topics }))
}

async fn each_once<'a, I: Io>(body: &DeleteRecordsRequest<'a>, turns: &mut Turns<'_, I>) -> Asked<'a> {
    let mut asked = Asked::new();
    for topic in &body.topics {
        turns.step().await;
        let offsets = asked.entry(topic.name).or_default();
        for partition in &topic.partitions {
            turns.step().await;
            offsets.insert(partition.partition_index, partition.offset);
        }
    }
    asked
}

/// Deletes, and answers where the log starts now.
async fn delete<I: Io>(
    shard: &Rc<Shard<I>>,
    topic: &str,
    index: i32,
    offset: i64,
) -> Result<Offset, ErrorCode> {
    let topic = shard.topic_id(topic).ok_or(ErrorCode::UNKNOWN_TOPIC_OR_PARTITION)?;
    let id = TopicPartition { topic, partition: PartitionIndex(index) };
    let partition = shard.partition(id).map_err(|refused| match refused.error {
        ErrorCode::UNKNOWN_TOPIC_ID => ErrorCode::UNKNOWN_TOPIC_OR_PARTITION,
        error => error,
    })?;
    let before = match offset {
        HIGH_WATERMARK => None,
        offset => Some(Offset::new(offset).ok_or(ErrorCode::OFFSET_OUT_OF_RANGE)?),
    };
    let deleted = partition.log().delete_records(before).await;
    let log_start = deleted.map_err(|error| error_code::of_deletion(&error))?;
    shard.retention().want(id, shard.io().now());
    Ok(log_start)
}

fn answer(partition_index: i32, deleted: Result<Offset, ErrorCode>) -> DeleteRecordsPartitionResult {
    let (low_watermark, error_code) = match deleted {
        Ok(log_start) => (log_start.value(), ErrorCode::NONE),
        Err(error) => (NOT_KNOWN, error),
    };
    DeleteRecordsPartitionResult { partition_index, low_watermark, error_code }
}
