//! A segment's index: sparse, from offsets and times to positions.
//!
//! One entry every `index_interval_bytes` at least, 16 bytes each, says where a batch begins and what the latest time
//! *before* it is. The latter never falls from entry to entry, so that the same sorted entries answer both questions:
//! "where is the batch that has this offset" and "where does the first batch of at least this time begin".
//!
//! ```text
//! entry      0                 1                     2
//!            |-- ..32 KiB.. ---|---- ..32 KiB.. -----|------->  bytes of the segment
//! max before  none              t=70                  t=90
//! ```
//! The first batch of time 80 lies between entries 1 and 2: the first whose batches passed it.

use engine_record::{Offset, Timestamp};

use crate::read::BatchPosition;
use crate::segment::{NO_RECORD_TIME, SegmentId, SegmentSummary};

/// One entry, relative to the segment's base offset.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PackedEntry {
    pub(crate) offset_delta: u32,
    pub(crate) position: u32,
    pub(crate) max_timestamp_before: Timestamp,
}

/// Size of an entry, in memory and in the sidecar.
pub const INDEX_ENTRY_BYTES: usize = 16;

const _: () = assert!(size_of::<PackedEntry>() == INDEX_ENTRY_BYTES);

/// The index of one segment. A segment with batches has an entry for its first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SegmentIndex {
    segment: SegmentId,
    entries: Vec<PackedEntry>,
}

impl SegmentIndex {
    /// The index of an empty segment.
    #[must_use]
    pub const fn new(segment: SegmentId) -> Self {
        Self { segment, entries: Vec::new() }
    }

    /// An index that knows nothing but where the segment's first batch begins.
    #[must_use]
    pub fn of_first_batch(segment: SegmentId) -> Self {
        let mut index = Self::new(segment);
        index.push(BatchPosition { offset: segment.0, position: 0 }, NO_RECORD_TIME);
        index
    }

    pub(crate) fn from_entries(segment: SegmentId, entries: Vec<PackedEntry>) -> Self {
        assert!(entries.is_sorted_by_key(|entry| entry.position), "entries are sorted");
        assert!(entries.len() <= u32::MAX as usize, "a segment has fewer entries than bytes");
        Self { segment, entries }
    }

    /// The segment.
    #[must_use]
    pub const fn segment(&self) -> SegmentId {
        self.segment
    }

    /// What each entry says, in order: where a batch begins, and the latest time before it.
    pub fn indexed(&self) -> impl Iterator<Item = (BatchPosition, Timestamp)> {
        self.entries.iter().map(|entry| (self.resolve(entry), entry.max_timestamp_before))
    }

    pub(crate) fn entries(&self) -> &[PackedEntry] {
        &self.entries
    }

    /// Bytes of memory that the entries take.
    #[must_use]
    pub const fn memory_bytes(&self) -> usize {
        self.entries.capacity() * INDEX_ENTRY_BYTES
    }

    /// Notes that a batch begins at `begin`, before which the latest time is `max_timestamp_before`.
    pub(crate) fn note_batch(
        &mut self,
        begin: BatchPosition,
        max_timestamp_before: Timestamp,
        interval_bytes: u32,
    ) {
        let latest = self.entries.last().map_or(NO_RECORD_TIME, |last| last.max_timestamp_before);
        assert!(latest <= max_timestamp_before, "the latest time never falls");
        let due = self.entries.last().is_none_or(|last| begin.position - last.position >= interval_bytes);
        if due {
            self.push(begin, max_timestamp_before);
        }
    }

    fn push(&mut self, begin: BatchPosition, max_timestamp_before: Timestamp) {
        let delta = begin.offset.since(self.segment.0).expect("a batch lies above its segment's base");
        let offset_delta = u32::try_from(delta).expect("a segment rolls before its offset deltas run out");
        assert_eq!(self.entries.is_empty(), begin.position == 0, "the first batch is indexed");
        let last = self.entries.last();
        assert!(last.is_none_or(|last| last.offset_delta < offset_delta), "entries rise in offset");
        assert!(last.is_none_or(|last| last.position < begin.position), "entries rise in position");
        self.entries.push(PackedEntry { offset_delta, position: begin.position, max_timestamp_before });
    }

    /// The last indexed batch that begins at or below `offset`.
    #[must_use]
    pub fn floor(&self, offset: Offset) -> BatchPosition {
        let floor = self.floor_with_time(offset).0;
        assert!(floor.offset <= offset || floor.position == 0, "a floor is below what stands on it");
        floor
    }

    /// As [`SegmentIndex::floor`], with the latest time before it.
    pub(crate) fn floor_with_time(&self, offset: Offset) -> (BatchPosition, Timestamp) {
        let above = self.first_above(offset);
        assert!(above <= self.entries.len(), "a floor is an entry");
        match self.entries.get(above.wrapping_sub(1)) {
            Some(entry) => (self.resolve(entry), entry.max_timestamp_before),
            None => (BatchPosition { offset: self.segment.0, position: 0 }, NO_RECORD_TIME),
        }
    }

    /// The first indexed batch that begins above `offset`.
    #[must_use]
    pub fn next_above(&self, offset: Offset) -> Option<BatchPosition> {
        self.entries.get(self.first_above(offset)).map(|entry| self.resolve(entry))
    }

    fn first_above(&self, offset: Offset) -> usize {
        let Some(delta) = offset.since(self.segment.0) else { return 0 };
        self.entries.partition_point(|entry| u64::from(entry.offset_delta) <= delta)
    }

    /// Where a search for the first batch of at least this time begins: no such batch begins before.
    #[must_use]
    pub fn floor_of_time(&self, timestamp: Timestamp) -> BatchPosition {
        let above = self.entries.partition_point(|entry| entry.max_timestamp_before < timestamp);
        assert!(above <= self.entries.len(), "a floor is an entry");
        let first = BatchPosition { offset: self.segment.0, position: 0 };
        self.entries.get(above.wrapping_sub(1)).map_or(first, |entry| self.resolve(entry))
    }

    fn resolve(&self, entry: &PackedEntry) -> BatchPosition {
        let offset = self.segment.0.checked_add(u64::from(entry.offset_delta));
        BatchPosition { offset: offset.expect("an indexed batch has an offset"), position: entry.position }
    }

    /// Forgets the batches that begin at or above `end_position`.
    pub(crate) fn truncate(&mut self, end_position: u32) {
        let keep = self.entries.partition_point(|entry| entry.position < end_position);
        self.entries.truncate(keep);
        assert!(
            self.entries.last().is_none_or(|last| last.position < end_position),
            "an index lies in its segment"
        );
        assert_eq!(self.entries.is_empty(), end_position == 0, "the first batch is indexed");
    }

    /// Whether the index can be that of the segment: it has its first batch, and lies within its bytes and times.
    pub(crate) fn fits(&self, summary: &SegmentSummary) -> bool {
        let (Some(first), Some(last)) = (self.entries.first(), self.entries.last()) else {
            return self.segment == summary.segment && summary.is_empty();
        };
        self.segment == summary.segment
            && (first.offset_delta, first.position) == (0, 0)
            && last.position < summary.end_position
            && self.resolve(last).offset < summary.end_offset
            && last.max_timestamp_before <= summary.max_timestamp
    }

    /// Asserts that the index belongs to the segment.
    pub(crate) fn check(&self, summary: &SegmentSummary) {
        assert!(self.fits(summary), "an index is of its segment: {summary:?}");
        if cfg!(debug_assertions) {
            assert!(self.is_sorted(), "entries rise in offset and position, and never fall in time");
        }
    }

    pub(crate) fn is_sorted(&self) -> bool {
        self.entries.is_sorted_by(|a, b| {
            a.offset_delta < b.offset_delta
                && a.position < b.position
                && a.max_timestamp_before <= b.max_timestamp_before
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn offset(value: u64) -> Offset {
        Offset::ZERO.checked_add(value).unwrap()
    }

    const BASE: u64 = 1_000;

    /// Batches as (offsets, bytes, time): the index of them with an entry every 100 bytes, and where each begins.
    fn indexed(batches: &[(u64, u32, i64)]) -> (SegmentIndex, Vec<(BatchPosition, Timestamp)>) {
        let mut index = SegmentIndex::new(SegmentId(offset(BASE)));
        let mut at = BatchPosition { offset: offset(BASE), position: 0 };
        let (mut latest, mut begins) = (NO_RECORD_TIME, Vec::new());
        for &(count, bytes, time) in batches {
            index.note_batch(at, latest, 100);
            begins.push((at, Timestamp(time)));
            latest = latest.max(Timestamp(time));
            at = BatchPosition {
                offset: at.offset.checked_add(count).unwrap(),
                position: at.position + bytes,
            };
        }
        (index, begins)
    }

    #[test]
    fn entries_keep_their_distance() {
        let (index, _) = indexed(&[(1, 60, 0); 10]);
        let positions: Vec<_> = index.entries().iter().map(|entry| entry.position).collect();
        assert_eq!(positions, [0, 120, 240, 360, 480]);
        let (exact, _) = indexed(&[(1, 100, 0); 3]);
        assert_eq!(exact.entries().len(), 3, "the distance itself is enough");
        assert!(index.memory_bytes() >= 5 * INDEX_ENTRY_BYTES);
    }

    #[test]
    fn an_empty_index_answers_with_the_segments_start() {
        let (index, _) = indexed(&[]);
        let start = BatchPosition { offset: offset(BASE), position: 0 };
        assert_eq!(index.floor(offset(BASE + 5)), start);
        assert_eq!(index.floor_of_time(Timestamp(5)), start);
        assert_eq!(index.next_above(offset(0)), None);
    }

    #[test]
    fn an_index_that_begins_in_the_middle_leaves_what_is_before_to_a_scan() {
        let begin = BatchPosition { offset: offset(BASE + 50), position: 5_000 };
        let mut index = SegmentIndex::of_first_batch(SegmentId(offset(BASE)));
        index.note_batch(begin, Timestamp(70), 100);
        assert_eq!(index.floor(offset(BASE + 49)).position, 0);
        assert_eq!(index.floor(offset(BASE + 50)), begin);
        assert_eq!(index.floor_of_time(Timestamp(70)).position, 0);
        assert_eq!(index.floor_of_time(Timestamp(71)), begin);
    }

    fn batches() -> impl Strategy<Value = Vec<(u64, u32, i64)>> {
        prop::collection::vec((1_u64..20, 61_u32..250, 0_i64..50), 0..60)
    }

    proptest! {
        #[test]
        fn the_floor_is_a_batch_at_or_below_and_the_next_above_is_above(batches in batches(), delta in 0_u64..700) {
            let (index, begins) = indexed(&batches);
            let want = offset(BASE + delta);
            let floor = index.floor(want);
            prop_assert!(floor.offset <= want);
            prop_assert!(begins.is_empty() || begins.iter().any(|(begin, _)| *begin == floor));
            if let Some(next) = index.next_above(want) {
                prop_assert!(next.offset > want);
                prop_assert!(begins.iter().any(|(begin, _)| *begin == next));
            }
        }

        #[test]
        fn no_batch_of_at_least_the_time_begins_before_its_floor(batches in batches(), time in -1_i64..60) {
            let (index, begins) = indexed(&batches);
            let floor = index.floor_of_time(Timestamp(time));
            let first = begins.iter().find(|(_, latest)| *latest >= Timestamp(time));
            if let Some((first, _)) = first {
                prop_assert!(floor.position <= first.position);
                let next = index.entries().iter().find(|entry| entry.position > floor.position);
                prop_assert!(next.is_none_or(|next| first.position < next.position), "the floor is near");
            }
        }

        #[test]
        fn a_truncated_index_is_that_of_the_shorter_segment(mut batches in batches(), keep in 0_usize..60) {
            batches.push((1, 61, 0));
            let keep = keep % batches.len();
            let (mut index, begins) = indexed(&batches);
            index.truncate(begins[keep].0.position);
            prop_assert_eq!(index, indexed(&batches[..keep]).0);
        }
    }
}
