//! Why the log refuses: one variant a cause.

use engine_record::{CorruptBatch, LeaderEpoch, Offset, ProducerEpoch, ProducerId};

use crate::segment::SegmentId;

/// Why a batch is not appended. The log is as it was.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AppendError {
    /// The appending leader's epoch is older than one the log knows, or none at all.
    #[error("leader epoch {given} is older than {known}")]
    FencedLeaderEpoch {
        /// The latest epoch in the log.
        known: LeaderEpoch,
        /// The epoch of the append.
        given: LeaderEpoch,
    },
    /// A replicated batch is of a later epoch than the leader it came from.
    #[error("batch of leader epoch {batch} from the leader of epoch {leader}")]
    LeaderEpochAhead {
        /// The epoch in the batch.
        batch: LeaderEpoch,
        /// The epoch of the leader it was fetched from.
        leader: LeaderEpoch,
    },
    /// A newer incarnation of the producer has taken over.
    #[error("epoch {given} of producer {producer} is older than {known}")]
    InvalidProducerEpoch {
        /// The producer.
        producer: ProducerId,
        /// Its latest epoch in the log.
        known: ProducerEpoch,
        /// The epoch of the batch.
        given: ProducerEpoch,
    },
    /// The batch's first sequence isn't the next of its producer.
    #[error("sequence {found} of producer {producer} where {expected} comes next")]
    OutOfOrderSequence {
        /// The producer.
        producer: ProducerId,
        /// The sequence that comes next.
        expected: i32,
        /// The first sequence in the batch.
        found: i32,
    },
    /// As many producers as may be remembered have appended lately.
    #[error("{producers_max} producers have appended within the time they must be remembered")]
    TooManyProducers {
        /// The limit.
        producers_max: u32,
    },
    /// Part of the producers' state was truncated and must be rebuilt first: see `Log::install_producers`.
    #[error("the producers' state is being rebuilt after a truncation")]
    ProducersIncomplete,
    /// A replicated batch doesn't begin where the log ends.
    #[error("batch at offset {found} where {expected} comes next")]
    NotContiguous {
        /// The log's end.
        expected: Offset,
        /// The batch's base offset.
        found: i64,
    },
    /// The batch would pass the last offset there is.
    #[error("the partition has run out of offsets")]
    OffsetOverflow,
    /// A client's batch is larger than allowed.
    #[error("batch of {batch_bytes} bytes where at most {max_batch_bytes} may be")]
    BatchTooLarge {
        /// Size of the batch.
        batch_bytes: u32,
        /// The limit.
        max_batch_bytes: u32,
    },
}

/// Why a read can't be planned.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReadError {
    /// The offset isn't in the log.
    #[error("offset {offset} is outside of {log_start} to {log_end}")]
    OutOfRange {
        /// The offset asked for.
        offset: Offset,
        /// The earliest offset there is.
        log_start: Offset,
        /// The exclusive end.
        log_end: Offset,
    },
    /// Load this segment's index, install it, and plan again.
    #[error("the index of segment {0} isn't in memory")]
    IndexNotLoaded(SegmentId),
}

/// Why the log's suffix is not cut. The log is as it was.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TruncateError {
    /// What is below the high watermark may have been read, and is cut only after an unclean election.
    #[error("truncation to {to} is below the high watermark {high_watermark}")]
    BelowHighWatermark {
        /// Where the cut was wanted.
        to: Offset,
        /// The high watermark.
        high_watermark: Offset,
    },
    /// There is nothing to cut to: the log begins later. Reset it.
    #[error("truncation to {to} is below the log's start {log_start}")]
    BelowLogStart {
        /// Where the cut was wanted.
        to: Offset,
        /// The log's start.
        log_start: Offset,
    },
    /// Appended batches are still being written; a late write would land in the cut-off part.
    #[error("writes are in flight")]
    WritesInFlight,
    /// Load this segment's index, install it, and plan again.
    #[error("the index of segment {0} isn't in memory")]
    IndexNotLoaded(SegmentId),
}

/// Why an index can't be installed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InstallError {
    /// The log has no such segment (any more).
    #[error("no segment {0}")]
    NoSegment(SegmentId),
    /// The index describes other bytes than the segment has: rebuild it by a scan.
    #[error("an index of {index_bytes} bytes for segment {segment} of {segment_bytes}")]
    Mismatch {
        /// The segment.
        segment: SegmentId,
        /// Log bytes that the index covers.
        index_bytes: u32,
        /// Log bytes that the segment has.
        segment_bytes: u32,
    },
}

/// Why the chain of batches in a segment breaks at some position.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BrokenChain {
    /// The bytes are no batch.
    #[error(transparent)]
    Batch(#[from] CorruptBatch),
    /// A batch, but not the next one.
    #[error("batch at offset {found} where {expected} comes next")]
    BaseOffset {
        /// The offset that comes next.
        expected: Offset,
        /// The base offset found.
        found: i64,
    },
    /// The batch would pass the last offset there is.
    #[error("a batch past the last offset")]
    OffsetOverflow,
    /// The leader epoch falls from one batch to the next.
    #[error("leader epoch {found} after {known}")]
    LeaderEpoch {
        /// The epoch of the batch before.
        known: LeaderEpoch,
        /// The epoch found.
        found: LeaderEpoch,
    },
    /// The bytes end inside a batch or its header.
    #[error("the bytes end inside a batch")]
    Cut,
    /// Zeros, or the end of the bytes, where batches must be.
    #[error("no more batches")]
    Ended,
    /// Zeros, and behind them bytes that aren't.
    #[error("bytes behind the padding")]
    BehindPadding,
    /// The batch would end behind the segment's last byte.
    #[error("a batch that ends behind its segment's end {end_position}")]
    PastEnd {
        /// The segment's logical end.
        end_position: u32,
    },
}
