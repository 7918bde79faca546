//! One segment: a run of batches in one file, and when it ends.

use core::fmt;
use core::time::Duration;

use engine_record::{Offset, Timestamp};

use crate::config::LogConfig;
use crate::error::InstallError;
use crate::offset_index::SegmentIndex;
use crate::read::BatchPosition;

/// A segment's name: its base offset, which is that of its first batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SegmentId(pub Offset);

impl fmt::Display for SegmentId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:020}", self.0.value())
    }
}

/// What is known of a segment without its index; stored in the index sidecar's header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SegmentSummary {
    /// The segment.
    pub segment: SegmentId,
    /// Exclusive end of its offsets; the base offset where it is empty.
    pub end_offset: Offset,
    /// Its size in bytes: batches only, no padding.
    pub end_position: u32,
    /// The latest time of any record; [`NO_RECORD_TIME`] where it is empty.
    pub max_timestamp: Timestamp,
    /// When its first batch was appended, by the broker's clock; `None` where it is empty.
    pub first_append: Option<Timestamp>,
    /// When its last batch was appended, by the broker's clock; `None` where it is empty.
    pub last_append: Option<Timestamp>,
}

/// Below every time a record can have.
pub const NO_RECORD_TIME: Timestamp = Timestamp(i64::MIN);

impl SegmentSummary {
    /// An empty segment.
    #[must_use]
    pub const fn empty(segment: SegmentId) -> Self {
        Self {
            segment,
            end_offset: segment.0,
            end_position: 0,
            max_timestamp: NO_RECORD_TIME,
            first_append: None,
            last_append: None,
        }
    }

    /// Whether it has no batch.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.end_position == 0
    }

    /// Whether it contradicts itself nowhere.
    pub(crate) fn is_sound(&self) -> bool {
        self.end_offset >= self.segment.0
            && self.is_empty() == (self.end_offset == self.segment.0)
            && self.is_empty() == self.first_append.is_none()
            && self.first_append.is_none() == self.last_append.is_none()
    }

    /// Adds a batch at the end.
    pub(crate) fn add(&mut self, batch: &AddedBatch) {
        assert_eq!(batch.base_offset, self.end_offset, "offsets of a segment have no gap");
        assert!(batch.end_offset > batch.base_offset, "a batch has at least one offset");
        self.end_offset = batch.end_offset;
        self.end_position =
            self.end_position.checked_add(batch.bytes).expect("the plan rolled before positions ran out");
        self.max_timestamp = self.max_timestamp.max(batch.max_timestamp);
        self.first_append = self.first_append.or(Some(batch.appended_at));
        self.last_append = self.last_append.max(Some(batch.appended_at));
    }
}

/// A batch as the segment sees it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AddedBatch {
    pub(crate) base_offset: Offset,
    pub(crate) end_offset: Offset,
    pub(crate) bytes: u32,
    pub(crate) max_timestamp: Timestamp,
    pub(crate) appended_at: Timestamp,
}

/// Where a segment's index is.
#[derive(Clone, Debug)]
pub enum IndexState {
    /// In memory.
    Loaded(SegmentIndex),
    /// In its sidecar only, or to be rebuilt from the segment.
    OnDisk,
}

/// A segment of the log. The last one is active: it is appended to, and its index is always loaded.
#[derive(Clone, Debug)]
pub struct Segment {
    summary: SegmentSummary,
    index: IndexState,
}

impl Segment {
    pub(crate) const fn empty(id: SegmentId) -> Self {
        Self { summary: SegmentSummary::empty(id), index: IndexState::Loaded(SegmentIndex::new(id)) }
    }

    pub(crate) fn recovered(summary: SegmentSummary, index: Option<SegmentIndex>) -> Self {
        assert!(summary.is_sound(), "a segment is checked before it is taken");
        assert!(
            index.as_ref().is_none_or(|index| index.fits(&summary)),
            "an index is checked before it is taken"
        );
        Self { summary, index: index.map_or(IndexState::OnDisk, IndexState::Loaded) }
    }

    /// Its name, which is its base offset.
    #[must_use]
    pub const fn id(&self) -> SegmentId {
        self.summary.segment
    }

    /// What is known without the index.
    #[must_use]
    pub const fn summary(&self) -> &SegmentSummary {
        &self.summary
    }

    /// Exclusive end of its offsets.
    #[must_use]
    pub const fn end_offset(&self) -> Offset {
        self.summary.end_offset
    }

    /// Its size in bytes: batches only, no padding.
    #[must_use]
    pub const fn end_position(&self) -> u32 {
        self.summary.end_position
    }

    /// Whether it has no batch.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.summary.is_empty()
    }

    /// Where it ends.
    #[must_use]
    pub const fn end(&self) -> BatchPosition {
        BatchPosition { offset: self.summary.end_offset, position: self.summary.end_position }
    }

    /// The index, where it is in memory.
    #[must_use]
    pub const fn index(&self) -> Option<&SegmentIndex> {
        match &self.index {
            IndexState::Loaded(index) => Some(index),
            IndexState::OnDisk => None,
        }
    }

    /// Whether a batch of `bytes` up to `last_offset` (inclusive), appended at `now`, belongs in a new segment.
    pub(crate) fn must_roll(
        &self,
        config: &LogConfig,
        bytes: u32,
        last_offset: Offset,
        now: Timestamp,
    ) -> bool {
        assert!(bytes > 0, "a batch has a header");
        assert!(last_offset >= self.end_offset(), "a batch is appended behind the last");
        if self.is_empty() {
            return false;
        }
        let full = u64::from(self.end_position()) + u64::from(bytes) > u64::from(config.segment_bytes);
        let delta = last_offset.since(self.id().0).expect("offsets of a segment are above its base");
        full || u32::try_from(delta).is_err() || self.is_past_age(config.segment_age, now)
    }

    /// Whether its first append lies `age` back. A clock set back makes it younger, never older.
    pub(crate) fn is_past_age(&self, age: Duration, now: Timestamp) -> bool {
        self.summary.first_append.is_some_and(|first| elapsed(first, now) >= age)
    }

    pub(crate) fn append(&mut self, batch: &AddedBatch, index_interval_bytes: u32) {
        let begin = self.end();
        let earlier = self.summary.max_timestamp;
        assert_eq!(batch.base_offset, begin.offset, "offsets of a segment have no gap");
        self.summary.add(batch);
        match &mut self.index {
            IndexState::Loaded(index) => index.note_batch(begin, earlier, index_interval_bytes),
            IndexState::OnDisk => unreachable!("the active segment's index is in memory"),
        }
        assert!(self.end_position() > begin.position, "an append moves the end");
        assert_eq!(self.end_offset(), batch.end_offset, "an append moves the end to the batch's");
    }

    /// Cuts the segment to `end`, a batch boundary, below which `max_timestamp` is the latest time.
    pub(crate) fn truncate(&mut self, end: BatchPosition, max_timestamp: Timestamp) {
        assert!(end.position <= self.end_position(), "a truncation only removes");
        assert!(end.offset <= self.end_offset(), "a truncation only removes");
        assert_eq!(end.position == 0, end.offset == self.id().0, "the base offset is at position 0");
        self.summary.end_offset = end.offset;
        self.summary.end_position = end.position;
        assert!(max_timestamp <= self.summary.max_timestamp, "a truncation makes nothing later");
        self.summary.max_timestamp = max_timestamp;
        if self.is_empty() {
            self.summary = SegmentSummary::empty(self.id());
        }
        match &mut self.index {
            IndexState::Loaded(index) => index.truncate(end.position),
            IndexState::OnDisk => unreachable!("a truncation was planned with the index in memory"),
        }
    }

    pub(crate) fn install_index(
        &mut self,
        index: SegmentIndex,
        covers: &SegmentSummary,
    ) -> Result<(), InstallError> {
        let same = covers.segment == self.id()
            && covers.end_position == self.end_position()
            && covers.end_offset == self.end_offset()
            && index.fits(self.summary());
        if !same {
            return Err(InstallError::Mismatch {
                segment: self.id(),
                index_bytes: covers.end_position,
                segment_bytes: self.end_position(),
            });
        }
        self.index = IndexState::Loaded(index);
        assert!(self.index().is_some(), "an installed index is in memory");
        Ok(())
    }

    pub(crate) fn evict_index(&mut self) {
        assert!(!self.is_empty(), "a sealed segment has batches, so that its index can be had again");
        self.index = IndexState::OnDisk;
    }

    /// Bytes of memory that the index takes.
    #[must_use]
    pub fn index_memory_bytes(&self) -> usize {
        self.index().map_or(0, SegmentIndex::memory_bytes)
    }

    pub(crate) fn check(&self) {
        let summary = &self.summary;
        assert!(summary.is_sound(), "a segment contradicts itself nowhere: {summary:?}");
        if let Some(index) = self.index() {
            index.check(summary);
        }
    }
}

/// How long after `earlier` is `now`; nothing where it lies before.
pub(crate) fn elapsed(earlier: Timestamp, now: Timestamp) -> Duration {
    // In 128 bits: times are what clients and clocks say, and may be anything.
    let milliseconds = i128::from(now.0) - i128::from(earlier.0);
    Duration::from_millis(u64::try_from(milliseconds.max(0)).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn offset(value: i64) -> Offset {
        Offset::new(value).unwrap()
    }

    fn segment_with(bytes: u32, appended_at: i64) -> Segment {
        let mut segment = Segment::empty(SegmentId(offset(100)));
        let batch = AddedBatch {
            base_offset: offset(100),
            end_offset: offset(110),
            bytes,
            max_timestamp: Timestamp(1),
            appended_at: Timestamp(appended_at),
        };
        segment.append(&batch, 4_096);
        segment.check();
        segment
    }

    const CONFIG: fn() -> LogConfig = || LogConfig {
        segment_bytes: 1_000,
        segment_age: Duration::from_millis(500),
        ..LogConfig::default()
    };

    #[test]
    fn a_segment_is_named_by_twenty_digits() {
        assert_eq!(SegmentId(offset(42)).to_string(), "00000000000000000042");
        assert_eq!(SegmentId(Offset::MAX).to_string(), "09223372036854775807");
    }

    #[test]
    fn a_segment_rolls_when_the_batch_would_not_fit() {
        let segment = segment_with(900, 0);
        let roll = |bytes| segment.must_roll(&CONFIG(), bytes, offset(110), Timestamp(0));
        assert!(!roll(100));
        assert!(roll(101));
    }

    #[test]
    fn an_empty_segment_never_rolls_so_that_any_batch_finds_a_place() {
        let segment = Segment::empty(SegmentId(offset(0)));
        assert!(!segment.must_roll(&CONFIG(), 2_000_000, offset(9), Timestamp(i64::MAX)));
    }

    #[test]
    fn a_segment_rolls_by_age_and_a_clock_set_back_makes_it_younger() {
        let segment = segment_with(100, 1_000);
        let roll = |now| segment.must_roll(&CONFIG(), 100, offset(110), Timestamp(now));
        assert!(!roll(1_499));
        assert!(roll(1_500));
        assert!(!roll(-1_000_000));
    }

    #[test]
    fn a_segment_rolls_before_its_offset_deltas_run_out() {
        let segment = segment_with(100, 0);
        let last = |delta: u64| offset(100).checked_add(delta).unwrap();
        let roll = |delta| segment.must_roll(&CONFIG(), 100, last(delta), Timestamp(0));
        assert!(!roll(u64::from(u32::MAX)));
        assert!(roll(u64::from(u32::MAX) + 1));
    }
}
