//! DeleteRecords: raises the start of partitions' logs. What lies below goes segment by segment, behind the answer.

use core::time::Duration;
use std::rc::Rc;

use engine_io::{Io, deadline};
use engine_record::{Instant, Offset, PartitionIndex, TopicPartition};
use net_wire::ErrorCode;
use net_wire::messages::delete_records::{
    DeleteRecordsPartition, DeleteRecordsPartitionResult, DeleteRecordsRequest, DeleteRecordsResponse,
    DeleteRecordsTopicResult, HIGH_WATERMARK,
};

use crate::dispatch::Request;
use crate::error_code;
use crate::hooks::{Decision, Operation, Resource, authorize};
use crate::response::{CloseReason, Response};
use crate::shard::Shard;
use crate::turns::Turns;

/// `low_watermark` where there is an error.
const NOT_KNOWN: i64 = -1;

pub(crate) async fn handle<I: Io>(
    shard: &Rc<Shard<I>>,
    request: &Request<I>,
) -> Result<Response<I>, CloseReason> {
    let asked: DeleteRecordsRequest<'_> = request.decode()?;
    let patience = Duration::from_millis(u64::try_from(asked.timeout_ms).unwrap_or(0));
    let until = request.received_at.after(patience);
    let mut topics = Vec::with_capacity(asked.topics.len());
    let mut turns = Turns::new(shard.io());
    for topic in &asked.topics {
        turns.step().await;
        let Decision::Allowed =
            authorize(&request.connection.principal, Operation::Delete, Resource::Topic(topic.name));
        let mut partitions = Vec::with_capacity(topic.partitions.len());
        for partition in &topic.partitions {
            turns.step().await;
            let deleted = delete(shard, topic.name, *partition, until).await;
            partitions.push(answer(partition.partition_index, deleted));
        }
        topics.push(DeleteRecordsTopicResult { name: topic.name, partitions });
    }
    Ok(request.answer(&DeleteRecordsResponse { throttle_time_ms: 0, topics }))
}

/// Deletes, and answers where the log starts now. Where the time runs out it goes on all the same.
async fn delete<I: Io>(
    shard: &Rc<Shard<I>>,
    topic: &str,
    asked: DeleteRecordsPartition,
    until: Instant,
) -> Result<Offset, ErrorCode> {
    let topic = shard.topic_id(topic).ok_or(ErrorCode::UNKNOWN_TOPIC_OR_PARTITION)?;
    let id = TopicPartition { topic, partition: PartitionIndex(asked.partition_index) };
    let partition = shard.partition(id).map_err(|refused| match refused.error {
        ErrorCode::UNKNOWN_TOPIC_ID => ErrorCode::UNKNOWN_TOPIC_OR_PARTITION,
        error => error,
    })?;
    let before = match asked.offset {
        HIGH_WATERMARK => None,
        offset => Some(Offset::new(offset).ok_or(ErrorCode::OFFSET_OUT_OF_RANGE)?),
    };
    let deletion = deadline(shard.io(), until, partition.log().delete_records(before)).await;
    let log_start =
        deletion.ok_or(ErrorCode::REQUEST_TIMED_OUT)?.map_err(|error| error_code::of_deletion(&error))?;
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
