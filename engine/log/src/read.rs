//! Reading: which bytes of which segment answer a fetch.
//!
//! The index is sparse, so a plan says where to begin looking; [`scan`] walks the batch headers from there and
//! answers with the exact bytes. Both are pure: the store brings the bytes.

use engine_record::Offset;

use crate::error::{BrokenChain, ReadError};
use crate::log::Log;
use crate::segment::{Segment, SegmentId};
use crate::walk::{BatchWalk, WalkStop};

/// Where a batch begins, or would begin: its base offset, and the byte in its segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BatchPosition {
    /// The batch's base offset.
    pub offset: Offset,
    /// The first byte, counted from the segment's.
    pub position: u32,
}

/// How far a reader may see.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadBound {
    /// Clients: what all in-sync replicas have.
    HighWatermark,
    /// Replicas: everything appended.
    LogEnd,
}

/// Where to find what a reader asks for. It owns all it says, and stays true while the segment exists and isn't
/// truncated: appends only add behind it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReadPlan {
    /// Where the reader starts: the answer begins with the batch that holds this offset.
    pub fetch_offset: Offset,
    /// The segment that has it.
    pub segment: SegmentId,
    /// A batch at or below the fetch offset, to look from; the last one indexed.
    pub floor: BatchPosition,
    /// The first indexed batch above the fetch offset; the batch looked for begins before it.
    pub next_indexed: Option<BatchPosition>,
    /// The segment's size: batches end here.
    pub segment_end_position: u32,
    /// Exclusive: no record at or above is for this reader, whatever the segment has.
    pub upper_offset: Offset,
    /// Exclusive: below this offset the device has the bytes; at or above only memory has.
    pub written_offset: Offset,
    /// Bytes wanted at most; a first batch that is larger is answered whole where the reader must get on.
    pub max_bytes: u32,
}

impl ReadPlan {
    /// Whether there is nothing to read: the reader has caught up with its bound.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.fetch_offset >= self.upper_offset
    }

    /// What [`scan`] is to look for.
    #[must_use]
    pub const fn scan_request(&self, at_least_one: bool) -> ScanRequest {
        assert!(self.floor.position <= self.segment_end_position, "a floor is in its segment");
        ScanRequest {
            want: self.fetch_offset,
            upper: self.upper_offset,
            max_bytes: self.max_bytes,
            at_least_one,
            end_position: self.segment_end_position,
        }
    }
}

impl Log {
    /// Plans a read from `fetch_offset`, of one segment: at its end the reader asks again for the next.
    ///
    /// An offset at the log's end, or above the bound, is answered with an empty plan.
    ///
    /// # Errors
    /// `OutOfRange` below the log's start and above its end; `IndexNotLoaded` where the segment's index is on disk.
    pub fn plan_read(
        &self,
        fetch_offset: Offset,
        max_bytes: u32,
        bound: ReadBound,
    ) -> Result<ReadPlan, ReadError> {
        self.check_in_range(fetch_offset)?;
        let upper_offset = match bound {
            ReadBound::HighWatermark => self.offsets.high_watermark,
            ReadBound::LogEnd => self.offsets.log_end,
        };
        let segment = self.segments.holding(fetch_offset);
        let index = segment.index().ok_or_else(|| ReadError::IndexNotLoaded(segment.id()))?;
        let floor = index.floor(fetch_offset);
        assert!(floor.offset <= fetch_offset, "a floor is below what stands on it");
        assert!(floor.position <= segment.end_position(), "a floor is in its segment");
        assert!(fetch_offset >= segment.id().0, "a segment holds the offset");
        assert!(upper_offset <= self.offsets.log_end, "a bound is in the log");
        Ok(ReadPlan {
            fetch_offset,
            segment: segment.id(),
            floor,
            next_indexed: index.next_above(fetch_offset),
            segment_end_position: segment.end_position(),
            upper_offset,
            written_offset: self.offsets.written,
            max_bytes,
        })
    }

    fn check_in_range(&self, offset: Offset) -> Result<(), ReadError> {
        let (log_start, log_end) = (self.offsets.log_start, self.offsets.log_end);
        assert!(log_start <= log_end, "a log begins before it ends");
        let inside = (log_start..=log_end).contains(&offset);
        if inside { Ok(()) } else { Err(ReadError::OutOfRange { offset, log_start, log_end }) }
    }

    /// Where to look for the first record of at least `timestamp`; `None` where no batch of the log is so late.
    ///
    /// # Errors
    /// As [`Log::find_timestamp_from`].
    pub fn find_timestamp(
        &self,
        timestamp: engine_record::Timestamp,
    ) -> Result<Option<TimestampCandidate>, ReadError> {
        self.find_timestamp_from(timestamp, self.offsets.log_start)
    }

    /// As [`Log::find_timestamp`], for records at or above `from`. When a candidate's segment turns out to have none
    /// (what it promised lies below `from`), look again from [`TimestampCandidate::end_offset`].
    ///
    /// # Errors
    /// `IndexNotLoaded` where the index of the candidate's segment is on disk; `OutOfRange` where `from` is outside.
    pub fn find_timestamp_from(
        &self,
        timestamp: engine_record::Timestamp,
        from: Offset,
    ) -> Result<Option<TimestampCandidate>, ReadError> {
        self.check_in_range(from)?;
        let late_enough = |segment: &&Segment| {
            !segment.is_empty() && segment.end_offset() > from && segment.summary().max_timestamp >= timestamp
        };
        self.segments.iter().find(late_enough).map(|segment| candidate(segment, timestamp, from)).transpose()
    }

    /// Where to look for the record with the latest time of all, and that time; `None` in an empty log.
    ///
    /// # Errors
    /// `IndexNotLoaded` where the index of the segment is on disk.
    pub fn max_timestamp(&self) -> Result<Option<TimestampCandidate>, ReadError> {
        let from = self.offsets.log_start;
        let readable =
            self.segments.iter().filter(|segment| !segment.is_empty() && segment.end_offset() > from);
        // Of equal times the first counts.
        let latest = readable.rev().max_by_key(|segment| segment.summary().max_timestamp);
        latest.map(|segment| candidate(segment, segment.summary().max_timestamp, from)).transpose()
    }
}

/// Where the first record of at least some time may be. The store walks the segment's batches from `floor` to the
/// first at or above `from` whose max timestamp is late enough, and looks for the record in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimestampCandidate {
    /// The time looked for.
    pub timestamp: engine_record::Timestamp,
    /// Records below this offset don't count; inclusive.
    pub from: Offset,
    /// The segment.
    pub segment: SegmentId,
    /// No batch that counts begins before.
    pub floor: BatchPosition,
    /// The segment's size.
    pub segment_end_position: u32,
    /// Exclusive end of the segment's offsets.
    pub end_offset: Offset,
}

fn candidate(
    segment: &Segment,
    timestamp: engine_record::Timestamp,
    from: Offset,
) -> Result<TimestampCandidate, ReadError> {
    let index = segment.index().ok_or_else(|| ReadError::IndexNotLoaded(segment.id()))?;
    let (by_time, by_offset) = (index.floor_of_time(timestamp), index.floor(from));
    let floor = if by_time.position > by_offset.position { by_time } else { by_offset };
    assert!(floor.position < segment.end_position(), "a floor is in its segment");
    assert!(from < segment.end_offset(), "a segment looked through has records that count");
    assert!(segment.summary().max_timestamp >= timestamp, "a segment looked through is late enough");
    Ok(TimestampCandidate {
        timestamp,
        from,
        segment: segment.id(),
        floor,
        segment_end_position: segment.end_position(),
        end_offset: segment.end_offset(),
    })
}

/// What a scan looks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ScanRequest {
    /// The answer begins with the batch that holds this offset.
    pub want: Offset,
    /// Exclusive: a batch with a record at or above isn't in the answer.
    pub upper: Offset,
    /// Size of the answer at most.
    pub max_bytes: u32,
    /// Whether a first batch larger than `max_bytes` is the answer all the same.
    pub at_least_one: bool,
    /// The segment's size.
    pub end_position: u32,
}

/// Whole batches, one behind the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BatchRange {
    /// Where the first one begins.
    pub begin: BatchPosition,
    /// Where the last one ends: exclusive offset and position.
    pub end: BatchPosition,
}

impl BatchRange {
    /// Size of the batches.
    #[must_use]
    pub const fn bytes(&self) -> u32 {
        assert!(self.end.position >= self.begin.position, "a range ends behind its beginning");
        self.end.position - self.begin.position
    }
}

/// What a scan found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ScanStep {
    /// The answer.
    Found(BatchRange),
    /// There is no answer: the batch wanted is above the bound, too large, or behind the segment's end.
    Empty,
    /// The window ended first. `so_far` may be answered as it is, or looked on from `next` with another window.
    NeedMore {
        /// Batches found that belong into the answer.
        so_far: Option<BatchRange>,
        /// Where to look on.
        next: BatchPosition,
    },
    /// A batch is damaged or out of its place: never to be sent to anyone.
    Broken {
        /// Where.
        at: BatchPosition,
        /// What is wrong.
        cause: BrokenChain,
    },
}

/// Walks the batch headers in `window`, whose first byte is that of the batch at `at`, and finds the batches to answer
/// a read with. Never cuts a batch; looks at no more headers than it must.
#[must_use]
pub fn scan(window: &[u8], at: BatchPosition, request: &ScanRequest) -> ScanStep {
    let mut walk = BatchWalk::new(window, at, request.end_position);
    let mut range: Option<BatchRange> = None;
    while let Some((begin, _)) = walk.next() {
        let end = walk.at();
        assert!(end.position > begin.position, "a walk gets on");
        assert!(end.position <= request.end_position, "a walk stays in its segment");
        if end.offset <= request.want {
            continue;
        }
        assert!(range.is_none_or(|range| range.end == begin), "batches of an answer have no gap");
        let longer = BatchRange { begin: range.map_or(begin, |range| range.begin), end };
        let fits = longer.bytes() <= request.max_bytes || (range.is_none() && request.at_least_one);
        if end.offset > request.upper || !fits {
            return range.map_or(ScanStep::Empty, ScanStep::Found);
        }
        range = Some(longer);
        assert!(longer.end.offset <= request.upper, "no record at or above the bound is answered");
        if end.offset == request.upper || longer.bytes() >= request.max_bytes {
            return ScanStep::Found(longer);
        }
    }
    match walk.stop().expect("a walk that ended says why") {
        WalkStop::End => range.map_or(ScanStep::Empty, ScanStep::Found),
        WalkStop::NeedMore => ScanStep::NeedMore { so_far: range, next: walk.at() },
        WalkStop::Broken(cause) => ScanStep::Broken { at: walk.at(), cause },
    }
}

#[cfg(test)]
mod tests;
