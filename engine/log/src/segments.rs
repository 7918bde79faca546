//! The segments of a log in order, the active one last.

use engine_record::Offset;

use crate::read::BatchPosition;
use crate::segment::{Segment, SegmentId};

/// The segments of a log: without gaps, never none.
#[derive(Clone, Debug)]
pub(crate) struct Segments {
    sealed: Vec<Segment>,
    active: Segment,
}

impl Segments {
    pub(crate) const fn starting_at(base_offset: Offset) -> Self {
        Self { sealed: Vec::new(), active: Segment::empty(SegmentId(base_offset)) }
    }

    pub(crate) fn recovered(sealed: Vec<Segment>, active: Segment) -> Self {
        assert!(active.index().is_some(), "the active segment's index is in memory");
        assert!(sealed.last().is_none_or(|last| last.end_offset() == active.id().0), "segments have no gap");
        Self { sealed, active }
    }

    pub(crate) const fn active(&self) -> &Segment {
        &self.active
    }

    pub(crate) const fn active_mut(&mut self) -> &mut Segment {
        &mut self.active
    }

    pub(crate) fn sealed(&self) -> &[Segment] {
        &self.sealed
    }

    pub(crate) fn iter(&self) -> impl DoubleEndedIterator<Item = &Segment> {
        self.sealed.iter().chain(core::iter::once(&self.active))
    }

    /// The segment that has `offset`, or would have it next; the first one where `offset` is below all.
    pub(crate) fn holding(&self, offset: Offset) -> &Segment {
        if offset >= self.active.id().0 {
            return &self.active;
        }
        let above = self.sealed.partition_point(|segment| segment.id().0 <= offset);
        let found = self.sealed.get(above.saturating_sub(1)).unwrap_or(&self.active);
        assert!(above == 0 || offset < found.end_offset(), "segments have no gap");
        found
    }

    pub(crate) fn get(&self, id: SegmentId) -> Option<&Segment> {
        let segment = self.holding(id.0);
        (segment.id() == id).then_some(segment)
    }

    /// The sealed segment of that name.
    pub(crate) fn sealed_mut(&mut self, id: SegmentId) -> Option<&mut Segment> {
        assert!(self.sealed.last().is_none_or(|last| last.id() < self.active.id()), "segments rise");
        let found = self.sealed.binary_search_by_key(&id, Segment::id).ok()?;
        self.sealed.get_mut(found)
    }

    /// Seals the active segment and begins another where it ends.
    pub(crate) fn roll(&mut self, new: SegmentId) {
        assert!(!self.active.is_empty(), "a sealed segment has batches");
        assert_eq!(new.0, self.active.end_offset(), "segments have no gap");
        let sealed = core::mem::replace(&mut self.active, Segment::empty(new));
        assert!(sealed.id() < new, "segments rise");
        self.sealed.push(sealed);
    }

    /// Removes every segment above `last`, which becomes active.
    pub(crate) fn truncate_to(&mut self, last: SegmentId) {
        assert!(last <= self.active.id(), "a truncation only removes");
        if last == self.active.id() {
            return;
        }
        let keep = self.sealed.partition_point(|segment| segment.id() <= last);
        self.sealed.truncate(keep);
        self.active = self.sealed.pop().expect("the segment to keep is in the log");
        assert_eq!(self.active.id(), last, "the segment to keep is in the log");
        assert!(self.sealed.last().is_none_or(|sealed| sealed.id() < last), "segments rise");
    }

    /// Removes the `count` oldest segments; the active one stays.
    pub(crate) fn remove_oldest(&mut self, count: usize) {
        assert!(count <= self.sealed.len(), "the active segment stays");
        let end = self.end();
        self.sealed.drain(..count);
        assert_eq!(self.end(), end, "the end stays");
    }

    pub(crate) fn first(&self) -> &Segment {
        self.sealed.first().unwrap_or(&self.active)
    }

    /// Where the log ends.
    pub(crate) const fn end(&self) -> BatchPosition {
        self.active.end()
    }

    pub(crate) fn total_bytes(&self) -> u64 {
        self.iter().map(|segment| u64::from(segment.end_position())).sum()
    }

    pub(crate) fn check(&self) {
        assert!(self.active.index().is_some(), "the active segment's index is in memory");
        self.iter().for_each(Segment::check);
        let following = self.iter().skip(1);
        for (segment, next) in self.iter().zip(following) {
            assert!(!segment.is_empty(), "a sealed segment has batches");
            assert_eq!(segment.end_offset(), next.id().0, "segments have no gap");
        }
    }
}
