//! Which appended batches the device hasn't written yet, to know the gapless prefix that it has.

use std::collections::VecDeque;

use engine_record::Offset;

use crate::read::BatchPosition;
use crate::segment::SegmentId;

/// Where an appended batch ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct BatchEnd {
    segment: SegmentId,
    end: BatchPosition,
}

/// The ends of all batches that are appended but not written, oldest first.
#[derive(Clone, Debug, Default)]
pub(crate) struct Unwritten {
    ends: VecDeque<BatchEnd>,
}

impl Unwritten {
    pub(crate) fn append(&mut self, segment: SegmentId, end: BatchPosition) {
        let newest = self.ends.back();
        assert!(newest.is_none_or(|newest| newest.end.offset < end.offset), "appends rise in offset");
        assert!(newest.is_none_or(|newest| newest.segment <= segment), "appends rise in segment");
        assert!(end.offset > segment.0, "a batch ends above its segment's base");
        assert!(end.position > 0, "a batch has bytes");
        self.ends.push_back(BatchEnd { segment, end });
    }

    /// Everything below `end_position` of `segment`, and every earlier segment, is written. Answers the end of the
    /// last batch that is now written whole, where there is a new one.
    pub(crate) fn complete(&mut self, segment: SegmentId, end_position: u32) -> Option<Offset> {
        let newest = self.ends.back()?;
        assert!(newest.segment >= segment, "only an appended segment is written");
        let written =
            self.ends.partition_point(|batch| (batch.segment, batch.end.position) <= (segment, end_position));
        let newly = self.ends.drain(..written).next_back().map(|batch| batch.end.offset);
        let oldest = self.ends.front().map(|batch| batch.end.offset);
        assert!(newly.is_none() || oldest.is_none() || newly < oldest, "the written prefix has no gap");
        newly
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    pub(crate) fn check(&self, written: Offset, log_end: Offset) {
        let (oldest, newest) = (self.ends.front(), self.ends.back());
        assert!(oldest.is_none_or(|oldest| oldest.end.offset > written), "what is written isn't awaited");
        assert_eq!(
            newest.map_or(written, |newest| newest.end.offset),
            log_end,
            "what isn't written is awaited"
        );
        if cfg!(debug_assertions) {
            assert!(self.ends.iter().is_sorted_by_key(|batch| batch.end.offset), "appends rise in offset");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn offset(value: i64) -> Offset {
        Offset::new(value).unwrap()
    }

    /// Two batches in segment 0 that end at (offset 10, position 100) and (20, 200), one in segment 20 (30, 70).
    fn three() -> Unwritten {
        let mut unwritten = Unwritten::default();
        for (segment, end, position) in [(0, 10, 100), (0, 20, 200), (20, 30, 70)] {
            unwritten.append(SegmentId(offset(segment)), BatchPosition { offset: offset(end), position });
        }
        unwritten
    }

    #[test]
    fn a_write_that_ends_inside_a_batch_counts_for_the_batches_before_it() {
        let mut unwritten = three();
        assert_eq!(unwritten.complete(SegmentId(offset(0)), 99), None);
        assert_eq!(unwritten.complete(SegmentId(offset(0)), 199), Some(offset(10)));
        assert_eq!(unwritten.complete(SegmentId(offset(0)), 200), Some(offset(20)));
        unwritten.check(offset(20), offset(30));
    }

    #[test]
    fn a_write_in_a_later_segment_counts_for_all_of_the_earlier() {
        let mut unwritten = three();
        assert_eq!(unwritten.complete(SegmentId(offset(20)), 0), Some(offset(20)));
        assert_eq!(unwritten.complete(SegmentId(offset(20)), 4_096), Some(offset(30)));
        assert!(unwritten.is_empty());
    }

    #[test]
    fn an_older_completion_that_comes_late_changes_nothing() {
        let mut unwritten = three();
        assert_eq!(unwritten.complete(SegmentId(offset(20)), 70), Some(offset(30)));
        assert_eq!(unwritten.complete(SegmentId(offset(0)), 100), None);
    }
}
