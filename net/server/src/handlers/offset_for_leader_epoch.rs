//! OffsetForLeaderEpoch: where the records of a leader's epoch end (KIP-101, KIP-320). A consumer that hears of a new
//! leader asks for the end of the last epoch it has read, and knows by the answer whether what it read is still there.

use std::rc::Rc;

use engine_io::Io;
use engine_record::{LeaderEpoch, PartitionIndex, TopicPartition};
use net_wire::ErrorCode;
use net_wire::messages::offset_for_leader_epoch::{
    EpochEndOffset, OffsetForLeaderEpochRequest, OffsetForLeaderEpochResponse, OffsetForLeaderPartition,
    OffsetForLeaderTopic, OffsetForLeaderTopicResult,
};

use crate::dispatch::Request;
use crate::handlers::fetch::check_epoch;
use crate::hooks::{Decision, Operation, Resource, authorize};
use crate::partition::Partition;
use crate::response::{CloseReason, Response};
use crate::shard::Shard;
use crate::turns::Turns;

pub(crate) async fn handle<I: Io>(
    shard: &Rc<Shard<I>>,
    request: &Request<I>,
) -> Result<Response<I>, CloseReason> {
    let asked: OffsetForLeaderEpochRequest<'_> = request.decode()?;
    let mut topics = Vec::with_capacity(asked.topics.len());
    let mut turns = Turns::new(shard.io());
    for topic in &asked.topics {
        let Decision::Allowed =
            authorize(&request.connection.principal, Operation::Describe, Resource::Topic(topic.topic));
        topics.push(find_in_topic(shard, topic, &mut turns).await);
    }
    Ok(request.answer(&OffsetForLeaderEpochResponse { throttle_time_ms: 0, topics }))
}

async fn find_in_topic<'a, I: Io>(
    shard: &Shard<I>,
    asked: &OffsetForLeaderTopic<'a>,
    turns: &mut Turns<'_, I>,
) -> OffsetForLeaderTopicResult<'a> {
    turns.step().await;
    let mut partitions = Vec::with_capacity(asked.partitions.len());
    for partition in &asked.partitions {
        turns.step().await;
        let found = find(shard, asked.topic, partition);
        partitions.push(answer(partition.partition, found));
    }
    OffsetForLeaderTopicResult { topic: asked.topic, partitions }
}

/// The epoch and its exclusive end; `None` where neither is known.
type Found = Option<(LeaderEpoch, i64)>;

fn find<I: Io>(shard: &Shard<I>, topic: &str, asked: &OffsetForLeaderPartition) -> Result<Found, ErrorCode> {
    let topic = shard.topic_id(topic).ok_or(ErrorCode::UNKNOWN_TOPIC_OR_PARTITION)?;
    let id = TopicPartition { topic, partition: PartitionIndex(asked.partition) };
    let partition = shard.partition(id).map_err(|refused| refused.error)?;
    check_epoch(&partition, asked.current_leader_epoch)?;
    Ok(end_of(&partition, LeaderEpoch(asked.leader_epoch)))
}

/// As Apache's broker has it: an epoch that hasn't begun has no end, and one before all that the log knows ends where the
/// log starts.
fn end_of<I: Io>(partition: &Partition<I>, epoch: LeaderEpoch) -> Found {
    let log = partition.log();
    if epoch.0 < 0 || epoch > log.leader_epoch() {
        return None;
    }
    let found = log.end_offset_for(epoch).unwrap_or_else(|| (epoch, log.offsets().log_start));
    Some((found.0, found.1.value()))
}

fn answer(partition: i32, found: Result<Found, ErrorCode>) -> EpochEndOffset {
    match found {
        Ok(Some((LeaderEpoch(leader_epoch), end_offset))) => {
            EpochEndOffset { error_code: ErrorCode::NONE, partition, leader_epoch, end_offset }
        }
        Ok(None) => EpochEndOffset { partition, ..EpochEndOffset::default() },
        Err(error_code) => EpochEndOffset { error_code, partition, ..EpochEndOffset::default() },
    }
}
