//! DeleteRecords: deletes the oldest records of partitions.

use crate::error_code::ErrorCode;
use crate::message::{Request, wire_structs};

/// `offset` that asks for all records below the high watermark to be deleted.
pub const HIGH_WATERMARK: i64 = -1;

wire_structs! {
    /// Asks for records to be deleted.
    message DeleteRecordsRequest<'a> for DeleteRecords {
        /// The records, by topic.
        topics: Vec<DeleteRecordsTopic<'a>>;
        /// How long to wait until they are, in milliseconds.
        timeout_ms: i32;
    }

    /// What to delete of a topic.
    structure DeleteRecordsTopic<'a> {
        /// The topic's name.
        name: &'a str;
        /// What to delete, by partition.
        partitions: Vec<DeleteRecordsPartition>;
    }

    /// What to delete of a partition.
    #[derive(Copy, Eq)]
    structure DeleteRecordsPartition {
        /// Partition index.
        partition_index: i32;
        /// The first offset to keep, or [`HIGH_WATERMARK`].
        offset: i64;
    }

    /// What was deleted.
    message DeleteRecordsResponse<'a> for DeleteRecords {
        /// Throttle time in milliseconds.
        throttle_time_ms: i32, else ignored;
        /// The outcomes by topic.
        topics: Vec<DeleteRecordsTopicResult<'a>>;
    }

    /// A topic's outcomes.
    structure DeleteRecordsTopicResult<'a> {
        /// The topic's name.
        name: &'a str;
        /// The outcomes by partition.
        partitions: Vec<DeleteRecordsPartitionResult>;
    }

    /// A partition's outcome.
    #[derive(Copy, Eq)]
    structure DeleteRecordsPartitionResult {
        /// Partition index.
        partition_index: i32;
        /// Where the log starts now on all replicas, -1 where that isn't known.
        low_watermark: i64;
        /// Whether the records were deleted.
        error_code: ErrorCode;
    }
}

impl Request for DeleteRecordsRequest<'_> {
    type Response<'r> = DeleteRecordsResponse<'r>;
}
