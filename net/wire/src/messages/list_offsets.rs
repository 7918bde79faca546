//! ListOffsets: offsets by time, and a partition's ends.

use crate::error_code::ErrorCode;
use crate::message::{Request, wire_structs};

/// `timestamp` that asks for the offset of the next record to become readable.
pub const LATEST: i64 = -1;
/// `timestamp` that asks for the log start offset.
pub const EARLIEST: i64 = -2;
/// `timestamp` that asks for the record with the largest timestamp; from version 7 on.
pub const MAX_TIMESTAMP: i64 = -3;
/// `timestamp` that asks for the first offset on local disk; from version 8 on.
pub const EARLIEST_LOCAL: i64 = -4;
/// `timestamp` that asks for the last offset in tiered storage; from version 9 on.
pub const LATEST_TIERED: i64 = -5;

wire_structs! {
    /// Asks for offsets by time.
    message ListOffsetsRequest<'a> for ListOffsets {
        /// Broker id of a follower, -1 for a consumer.
        replica_id: i32;
        /// 0 reads to the high watermark, 1 to the last stable offset.
        isolation_level: i8, since 2;
        /// What is asked, by topic.
        topics: Vec<ListOffsetsTopic<'a>>;
        /// How long to wait for tiered storage, in milliseconds.
        timeout_ms: i32, since 10, else ignored;
    }

    /// What is asked of a topic.
    structure ListOffsetsTopic<'a> {
        /// The topic's name.
        name: &'a str;
        /// What is asked, by partition.
        partitions: Vec<ListOffsetsPartition>;
    }

    /// What is asked of a partition.
    structure ListOffsetsPartition {
        /// Partition index.
        partition_index: i32;
        /// The leader epoch the sender knows, -1 if none.
        current_leader_epoch: i32 = -1, since 4, else ignored;
        /// Milliseconds since the epoch, or one of the negative values named in this module.
        timestamp: i64;
    }

    /// The offsets found.
    message ListOffsetsResponse<'a> for ListOffsets {
        /// Throttle time in milliseconds.
        throttle_time_ms: i32, since 2, else ignored;
        /// The answers by topic.
        topics: Vec<ListOffsetsTopicResponse<'a>>;
    }

    /// A topic's answers.
    structure ListOffsetsTopicResponse<'a> {
        /// The topic's name.
        name: &'a str;
        /// The answers by partition.
        partitions: Vec<ListOffsetsPartitionResponse>;
    }

    /// A partition's answer.
    structure ListOffsetsPartitionResponse {
        /// Partition index.
        partition_index: i32;
        /// Whether the partition could be asked.
        error_code: ErrorCode;
        /// Timestamp of the record found, -1 if there is none.
        timestamp: i64 = -1, else ignored;
        /// Offset of the record found, -1 if there is none.
        offset: i64 = -1, else ignored;
        /// Leader epoch of the record found, -1 if there is none.
        leader_epoch: i32 = -1, since 4;
    }
}

impl Request for ListOffsetsRequest<'_> {
    type Response<'r> = ListOffsetsResponse<'r>;
}
