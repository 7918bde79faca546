//! DescribeLogDirs: what each log directory of a broker holds.

use crate::error_code::ErrorCode;
use crate::message::{RINGLOG_TAG, RINGLOG_TAG_2, Request, wire_structs};

wire_structs! {
    /// Asks for log directories to be described.
    message DescribeLogDirsRequest<'a> for DescribeLogDirs {
        /// The partitions to tell of, by topic; null for all.
        topics: Option<Vec<DescribableLogDirTopic<'a>>> = Some(Vec::new());
        /// Whether the segments of each log are to be counted, too. Ringlog's own: other brokers count none.
        count_segments: bool, since 2, tag RINGLOG_TAG, else ignored;
    }

    /// Partitions of a topic.
    structure DescribableLogDirTopic<'a> {
        /// The topic's name.
        topic: &'a str;
        /// Partition indexes.
        partitions: Vec<i32>;
    }

    /// The log directories.
    message DescribeLogDirsResponse<'a> for DescribeLogDirs {
        /// Throttle time in milliseconds.
        throttle_time_ms: i32, else ignored;
        /// Why no directory is described.
        error_code: ErrorCode, since 3, else ignored;
        /// The directories.
        results: Vec<DescribeLogDirsResult<'a>>;
    }

    /// A log directory.
    structure DescribeLogDirsResult<'a> {
        /// Why it isn't in use.
        error_code: ErrorCode;
        /// Its absolute path.
        log_dir: &'a str;
        /// What it holds of the partitions asked for.
        topics: Vec<DescribeLogDirsTopic<'a>>;
        /// All space of the file system it lies on, in bytes; -1 if not told.
        total_bytes: i64 = -1, since 4, else ignored;
        /// What of that may still be used, in bytes; -1 if not told.
        usable_bytes: i64 = -1, since 4, else ignored;
    }

    /// What a directory holds of a topic.
    structure DescribeLogDirsTopic<'a> {
        /// The topic's name.
        name: &'a str;
        /// Its partitions.
        partitions: Vec<DescribeLogDirsPartition>;
    }

    /// What a directory holds of a partition.
    #[derive(Copy, Eq)]
    structure DescribeLogDirsPartition {
        /// Partition index.
        partition_index: i32;
        /// Size of its log's segments in bytes.
        partition_size: i64;
        /// How far the log is behind: a follower's behind the high watermark, one that comes here behind the one in use.
        offset_lag: i64;
        /// Whether it is on its way here from another directory.
        is_future_key: bool;
        /// How many segments its log has, the active one included; -1 if not told. Ringlog's own: told only to who asked
        /// with `count_segments`.
        segment_count: i32 = -1, since 2, tag RINGLOG_TAG, else ignored;
        /// The shard that has it, from 0 on; -1 if not told. Ringlog's own, as above.
        shard: i32 = -1, since 2, tag RINGLOG_TAG_2, else ignored;
    }
}

impl Request for DescribeLogDirsRequest<'_> {
    type Response<'r> = DescribeLogDirsResponse<'r>;
}
