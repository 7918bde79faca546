//! Where recent reads ended: whoever reads on from there finds its batch without a search.

use std::collections::VecDeque;

use engine_log::{BatchPosition, SegmentId};
use engine_record::Offset;

/// How many ends are remembered: more readers than that, each at its own place, search.
const ENDS_MAX: usize = 16;

/// The ends of the last reads of one partition.
#[derive(Debug, Default)]
pub(crate) struct RecentEnds {
    ends: VecDeque<(SegmentId, BatchPosition)>,
}

impl RecentEnds {
    pub(crate) fn new() -> Self {
        Self::default()
    }

    /// Notes that a read ended at `end` of `segment`.
    pub(crate) fn note(&mut self, segment: SegmentId, end: BatchPosition) {
        self.ends.retain(|known| *known != (segment, end));
        if self.ends.len() == ENDS_MAX {
            self.ends.pop_front();
        }
        self.ends.push_back((segment, end));
    }

    /// Where in `segment` the batch with base offset `offset` begins, if a read ended there.
    pub(crate) fn position_of(&self, segment: SegmentId, offset: Offset) -> Option<BatchPosition> {
        let mut ends = self.ends.iter().rev();
        ends.find(|(known, end)| *known == segment && end.offset == offset).map(|(_, end)| *end)
    }

    /// Whether a read ended at `offset`, in whatever segment.
    pub(crate) fn ended_at(&self, offset: Offset) -> bool {
        self.ends.iter().any(|(_, end)| end.offset == offset)
    }

    /// Forgets everything: positions may have changed.
    pub(crate) fn clear(&mut self) {
        self.ends.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn end(offset: i64) -> BatchPosition {
        BatchPosition { offset: Offset::new(offset).unwrap(), position: 100 }
    }

    #[test]
    fn the_oldest_end_makes_room_and_a_repeated_one_is_young_again() {
        let segment = SegmentId(Offset::ZERO);
        let mut ends = RecentEnds::new();
        (0..16).for_each(|offset| ends.note(segment, end(offset)));
        ends.note(segment, end(0));
        ends.note(segment, end(16));
        assert_eq!(ends.position_of(segment, end(0).offset), Some(end(0)));
        assert_eq!(ends.position_of(segment, end(1).offset), None);
        assert_eq!(ends.position_of(SegmentId(end(7).offset), end(16).offset), None);
        assert!(ends.ended_at(end(16).offset));
    }
}
