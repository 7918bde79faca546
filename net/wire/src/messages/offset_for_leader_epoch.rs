//! OffsetForLeaderEpoch: where the records of a leader's epoch end.

use crate::error_code::ErrorCode;
use crate::message::{Request, wire_structs};

wire_structs! {
    /// Asks for the ends of epochs.
    message OffsetForLeaderEpochRequest<'a> for OffsetForLeaderEpoch {
        /// Broker id of a follower, -1 or -2 for a consumer.
        replica_id: i32 = -2, since 3, else ignored;
        /// What is asked, by topic.
        topics: Vec<OffsetForLeaderTopic<'a>>;
    }

    /// What is asked of a topic.
    structure OffsetForLeaderTopic<'a> {
        /// The topic's name.
        topic: &'a str;
        /// What is asked, by partition.
        partitions: Vec<OffsetForLeaderPartition>;
    }

    /// What is asked of a partition.
    structure OffsetForLeaderPartition {
        /// Partition index.
        partition: i32;
        /// The leader epoch the sender knows, -1 if none.
        current_leader_epoch: i32 = -1;
        /// The epoch whose end is asked for.
        leader_epoch: i32;
    }

    /// The ends of the epochs.
    message OffsetForLeaderEpochResponse<'a> for OffsetForLeaderEpoch {
        /// Throttle time in milliseconds.
        throttle_time_ms: i32, else ignored;
        /// The answers by topic.
        topics: Vec<OffsetForLeaderTopicResult<'a>>;
    }

    /// A topic's answers.
    structure OffsetForLeaderTopicResult<'a> {
        /// The topic's name.
        topic: &'a str;
        /// The answers by partition.
        partitions: Vec<EpochEndOffset>;
    }

    /// A partition's answer.
    #[derive(Copy, Eq)]
    structure EpochEndOffset {
        /// Whether the partition could be asked.
        error_code: ErrorCode;
        /// Partition index.
        partition: i32;
        /// The largest epoch of the log at or below the one asked for, -1 if unknown.
        leader_epoch: i32 = -1, else ignored;
        /// Where it ends: exclusive; -1 if unknown.
        end_offset: i64 = -1;
    }
}

impl Request for OffsetForLeaderEpochRequest<'_> {
    type Response<'r> = OffsetForLeaderEpochResponse<'r>;
}
