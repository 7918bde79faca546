//! Entries for the tests of whatever keeps them.

use engine_log::{SegmentId, SegmentSummary};
use engine_record::{Offset, PartitionIndex, Timestamp, TopicId, TopicPartition};

use super::{Entry, LogEntry};

pub(crate) fn partition(number: i32) -> TopicPartition {
    TopicPartition { topic: TopicId([7; 16]), partition: PartitionIndex(number) }
}

/// An entry told from others by `mark`, with `bytes` bytes besides.
pub(crate) fn entry(mark: i64, bytes: usize) -> Entry {
    let high_watermark = Offset::new(mark).unwrap();
    let segment = SegmentSummary {
        segment: SegmentId(Offset::ZERO),
        end_offset: high_watermark,
        end_position: 1,
        max_timestamp: Timestamp(0),
        first_append: None,
        last_append: None,
    };
    let log = LogEntry {
        log_start: Offset::ZERO,
        high_watermark,
        segments: vec![segment],
        leader_epochs: vec![1; bytes],
        producers: Vec::new(),
        is_closed: true,
        active_index: Vec::new(),
    };
    Entry { generation: 1, log: Some(log) }
}
