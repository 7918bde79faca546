//! Which segments may go, by age, by size, or because their records were deleted.

use engine_record::{Offset, Timestamp};

use crate::log::Log;
use crate::segment::{Segment, SegmentId, elapsed};

/// The oldest segments, to be deleted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[must_use]
pub struct DeletePlan {
    /// The segments, oldest first.
    pub segments: Vec<SegmentId>,
    /// Where the log begins without them; inclusive.
    pub log_start: Offset,
}

impl DeletePlan {
    /// Whether nothing is to be deleted.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.segments.is_empty()
    }
}

impl Log {
    /// Plans what retention deletes at `now`: the oldest sealed segments, as long as each is below the log's start,
    /// too old, or more than the size to keep. Never what isn't below the high watermark and written. Changes nothing.
    ///
    /// A segment's age is that of its latest record. Where that time is absurd (none, or in the future) its last
    /// append counts.
    pub fn delete_plan(&self, now: Timestamp) -> DeletePlan {
        let safe = self.offsets.high_watermark.min(self.offsets.written);
        let mut remaining = self.segments.total_bytes();
        let mut segments = Vec::new();
        let mut log_start = self.offsets.log_start;
        for segment in self.segments.sealed() {
            let may_go = segment.end_offset() <= safe;
            if !may_go || !self.is_due(segment, remaining, now) {
                break;
            }
            segments.push(segment.id());
            remaining -= u64::from(segment.end_position());
            log_start = log_start.max(segment.end_offset());
        }
        assert!(log_start <= self.offsets.high_watermark, "retention keeps what clients haven't seen");
        assert!(segments.len() <= self.segments.sealed().len(), "the active segment stays");
        assert!(remaining >= u64::from(self.segments.active().end_position()), "the active segment stays");
        DeletePlan { segments, log_start }
    }

    /// The segment to begin at `now` so that retention can delete the active one, too: all others go, and everything in it
    /// is too old, too much or deleted, and was seen by clients. Changes nothing.
    #[must_use]
    pub fn plan_retention_roll(&self, now: Timestamp) -> Option<SegmentId> {
        let active = self.segments.active();
        let log_end = self.offsets.log_end;
        if active.is_empty() || self.offsets.high_watermark.min(self.offsets.written) < log_end {
            return None;
        }
        let others_go = self.delete_plan(now).segments.len() == self.segments.sealed().len();
        let goes = others_go && self.is_due(active, u64::from(active.end_position()), now);
        assert!(active.end_offset() == log_end, "the active segment ends where the log does");
        goes.then_some(SegmentId(log_end))
    }

    fn is_due(&self, segment: &Segment, remaining: u64, now: Timestamp) -> bool {
        let deleted = segment.end_offset() <= self.offsets.log_start;
        let old =
            self.config.retention_age.is_some_and(|age| elapsed(last_touched(segment, now), now) >= age);
        assert!(remaining >= u64::from(segment.end_position()), "a segment is part of what remains");
        let without = remaining - u64::from(segment.end_position());
        let surplus = self.config.retention_bytes.is_some_and(|keep| without >= keep);
        deleted || old || surplus
    }

    /// Notes that deletion of the plan's segments has begun: no read is planned of them any more. The store removes
    /// the files once no reader needs them.
    ///
    /// # Panics
    /// Where the segments aren't the oldest of the log.
    pub fn complete_delete(&mut self, plan: &DeletePlan) {
        let oldest = self.segments.sealed().iter().map(Segment::id).take(plan.segments.len());
        assert!(oldest.eq(plan.segments.iter().copied()), "the oldest segments go first");
        let (bytes, end) = (self.segments.total_bytes(), self.segments.end());
        self.segments.remove_oldest(plan.segments.len());
        assert!(self.segments.total_bytes() <= bytes, "deletion only removes");
        assert_eq!(self.segments.end(), end, "deletion leaves the end");
        self.offsets.advance_log_start(plan.log_start);
        self.leader_epochs.advance_start(self.offsets.log_start);
        assert!(self.offsets.log_start >= plan.log_start, "what is deleted isn't offered");
        self.check();
    }
}

/// The segment's latest record time where it is sane, else its last append.
fn last_touched(segment: &Segment, now: Timestamp) -> Timestamp {
    let summary = segment.summary();
    assert!(summary.last_append.is_some(), "only a segment with batches has an age");
    let sane = summary.max_timestamp >= Timestamp(0) && summary.max_timestamp <= now;
    if sane { summary.max_timestamp } else { summary.last_append.unwrap_or(now) }
}
