//! Cutting the log's suffix off, where a follower's log parted from its leader's.
//!
//! The log knows only indexed batches, so a cut takes three steps: [`Log::plan_truncate`] names the segment and where
//! to look; [`BoundarySearch`] finds the batch boundary in bytes the store brings; the store makes the cut durable
//! (removed segments gone, the range behind the boundary zeroed); [`Log::complete_truncate`] notes it.
//!
//! Nothing may be in flight: a late write would put old bytes behind the cut, and a late flush would vouch for new
//! batches that it never saw. The plan refuses unwritten batches; the store waits for its flush, and starts neither
//! append nor flush until the truncation is complete.

use engine_record::{Offset, Timestamp};

use crate::error::{BrokenChain, TruncateError};
use crate::log::Log;
use crate::read::BatchPosition;
use crate::segment::{Segment, SegmentId};
use crate::walk::{BatchWalk, WalkStop};

/// Where a cut is to be made.
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use]
pub struct TruncatePlan {
    /// The offset to cut at: no record at or above it stays. Where it lies inside a batch, the batch goes.
    pub to: Offset,
    /// The segment to be cut; it becomes active.
    pub segment: SegmentId,
    /// An indexed batch at or below `to`, to look from.
    pub floor: BatchPosition,
    /// The segment's size before the cut.
    pub segment_end_position: u32,
    /// Segments that go entirely, oldest first.
    pub removed: Vec<SegmentId>,
    floor_max_timestamp: Timestamp,
    log_end: Offset,
}

impl TruncatePlan {
    /// Begins the search for the batch boundary.
    #[must_use]
    pub fn search(&self) -> BoundarySearch {
        assert!(self.floor.offset <= self.to, "a search begins at or below its aim");
        assert!(self.floor.position < self.segment_end_position, "a search begins in its segment");
        BoundarySearch {
            at: self.floor,
            max_timestamp: self.floor_max_timestamp,
            to: self.to,
            end_position: self.segment_end_position,
        }
    }
}

/// Where the cut goes: the exclusive end of what stays.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Boundary {
    /// The log's new end, and its position in the segment that becomes active.
    pub end: BatchPosition,
    max_timestamp: Timestamp,
}

/// Looks for the boundary at or below the offset to cut at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BoundarySearch {
    at: BatchPosition,
    max_timestamp: Timestamp,
    to: Offset,
    end_position: u32,
}

/// What a window of bytes had for a [`BoundarySearch`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BoundaryStep {
    /// The boundary.
    Found(Boundary),
    /// Bring the bytes from [`BoundarySearch::at`] on.
    NeedMore,
    /// A batch is damaged or out of its place.
    Broken {
        /// Where.
        at: BatchPosition,
        /// What is wrong.
        cause: BrokenChain,
    },
}

impl BoundarySearch {
    /// Where the next window must begin.
    #[must_use]
    pub const fn at(&self) -> BatchPosition {
        self.at
    }

    /// Looks through `window`, whose first byte is that at [`BoundarySearch::at`]. Needs no bytes where the index has
    /// the boundary itself.
    pub fn feed(&mut self, window: &[u8]) -> BoundaryStep {
        if self.at.offset == self.to {
            return BoundaryStep::Found(self.boundary());
        }
        let mut walk = BatchWalk::new(window, self.at, self.end_position);
        while let Some((_, header)) = walk.next() {
            if walk.at().offset > self.to {
                return BoundaryStep::Found(self.boundary());
            }
            self.at = walk.at();
            self.max_timestamp = self.max_timestamp.max(header.max_timestamp);
            if self.at.offset == self.to {
                return BoundaryStep::Found(self.boundary());
            }
        }
        assert!(self.at.offset < self.to, "a search ends at its aim");
        assert!(self.at.position <= self.end_position, "a search ends in its segment");
        match walk.stop().expect("a walk that ended says why") {
            WalkStop::End => BoundaryStep::Found(self.boundary()),
            WalkStop::NeedMore => BoundaryStep::NeedMore,
            WalkStop::Broken(cause) => BoundaryStep::Broken { at: self.at, cause },
        }
    }

    fn boundary(&self) -> Boundary {
        assert!(self.at.offset <= self.to, "no record at or above stays");
        Boundary { end: self.at, max_timestamp: self.max_timestamp }
    }
}

impl Log {
    /// Plans to cut off every record at or above `to`; `None` where there is none. Changes nothing.
    ///
    /// # Errors
    /// See [`TruncateError`].
    pub fn plan_truncate(&self, to: Offset) -> Result<Option<TruncatePlan>, TruncateError> {
        let high_watermark = self.offsets.high_watermark;
        if to < high_watermark {
            return Err(TruncateError::BelowHighWatermark { to, high_watermark });
        }
        self.plan_unclean_truncate(to)
    }

    /// As [`Log::plan_truncate`], but also below the high watermark: after an unclean election only.
    ///
    /// # Errors
    /// Any of [`TruncateError`] but `BelowHighWatermark`.
    pub fn plan_unclean_truncate(&self, to: Offset) -> Result<Option<TruncatePlan>, TruncateError> {
        let (log_start, log_end) = (self.offsets.log_start, self.offsets.log_end);
        if to < log_start {
            return Err(TruncateError::BelowLogStart { to, log_start });
        }
        if to >= log_end {
            return Ok(None);
        }
        if !self.unwritten.is_empty() {
            return Err(TruncateError::WritesInFlight);
        }
        let segment = self.segments.holding(to);
        let index = segment.index().ok_or_else(|| TruncateError::IndexNotLoaded(segment.id()))?;
        let (floor, floor_max_timestamp) = index.floor_with_time(to);
        let above = self.segments.iter().map(Segment::id).filter(|id| *id > segment.id());
        assert!(floor.offset <= to, "a floor is below what stands on it");
        assert!(segment.id().0 <= to, "the segment to cut holds the offset");
        assert!(floor.position < segment.end_position(), "the segment to cut has something to cut");
        assert_eq!(self.offsets.written, log_end, "nothing is written during a truncation");
        Ok(Some(TruncatePlan {
            to,
            segment: segment.id(),
            floor,
            segment_end_position: segment.end_position(),
            removed: above.collect(),
            floor_max_timestamp,
            log_end,
        }))
    }

    /// Notes that the log now ends at the boundary, durably: removed segments are gone, and behind the boundary lies
    /// no byte that could be taken for a batch.
    ///
    /// Where batches of idempotent producers went, their appends are refused from then on until [`Log::install_producers`]
    /// ([`Log::needs_producers`]).
    ///
    /// Every offset above moves down with the log's end; so does the log's start where it lies inside the last batch
    /// to go.
    ///
    /// # Panics
    /// Where the plan isn't of the log as it is, or writes are in flight.
    pub fn complete_truncate(&mut self, plan: &TruncatePlan, boundary: &Boundary) {
        assert_eq!(plan.log_end, self.offsets.log_end, "nothing is appended during a truncation");
        assert!(self.unwritten.is_empty(), "nothing is written during a truncation");
        assert!(boundary.end.offset <= plan.to, "no record at or above stays");
        assert!(boundary.end.offset >= plan.floor.offset, "a boundary is at or above where the search began");
        assert!(
            boundary.end.position >= plan.floor.position,
            "a boundary is at or above where the search began"
        );
        let removed = self.segments().map(Segment::id).filter(|id| *id > plan.segment);
        assert!(removed.eq(plan.removed.iter().copied()), "the plan's segments go");
        self.segments.truncate_to(plan.segment);
        self.segments.active_mut().truncate(boundary.end, boundary.max_timestamp);
        self.leader_epochs.truncate(boundary.end.offset);
        self.offsets.truncate_to(boundary.end.offset);
        if self.producers.truncate(boundary.end.offset) {
            self.producers_complete = false;
        }
        assert_eq!(self.offsets.log_end, boundary.end.offset, "the log ends at the boundary");
        assert_eq!(self.segments.active().id(), plan.segment, "the cut segment is active");
        self.check();
    }

    /// Notes that the log is empty and begins at `new_start`: every file of it is gone. For a follower whose offsets
    /// its leader has no more.
    ///
    /// # Panics
    /// Where writes are in flight.
    pub fn reset(&mut self, new_start: Offset) {
        assert!(self.unwritten.is_empty(), "nothing is written during a truncation");
        *self = Self::empty(self.config, new_start);
        assert_eq!(self.offsets.log_end, new_start, "a reset log is empty");
        self.check();
    }
}
