//! The log of one partition: its state, and the events that change it.

use engine_record::{LeaderEpoch, Offset, Timestamp};

use crate::config::LogConfig;
use crate::error::{AppendError, InstallError, ReadError};
use crate::leader_epochs::LeaderEpochs;
use crate::offset_index::SegmentIndex;
use crate::offsets::LogOffsets;
use crate::producers::Producers;
use crate::recovery::Checkpoint;
use crate::segment::{Segment, SegmentId, SegmentSummary};
use crate::segments::Segments;
use crate::unwritten::Unwritten;

/// The log of one partition, as a state machine. See the crate's page for the picture and the invariants.
#[derive(Clone, Debug)]
pub struct Log {
    pub(crate) config: LogConfig,
    pub(crate) offsets: LogOffsets,
    pub(crate) segments: Segments,
    pub(crate) leader_epochs: LeaderEpochs,
    pub(crate) producers: Producers,
    /// Whether the producers are all that the log implies; not so between a truncation and the rebuild.
    pub(crate) producers_complete: bool,
    pub(crate) unwritten: Unwritten,
}

impl Log {
    /// A new log whose first record will have offset `log_start`, led in `leader_epoch`.
    ///
    /// # Panics
    /// Where the configuration breaks [`LogConfig::check`], or the epoch is negative.
    #[must_use]
    pub fn create(config: LogConfig, log_start: Offset, leader_epoch: LeaderEpoch) -> Self {
        let mut log = Self::empty(config, log_start);
        log.leader_epochs.note(leader_epoch, log_start);
        assert_eq!(log.leader_epochs.latest(), Some(leader_epoch), "the log is led in its latest epoch");
        log.check();
        log
    }

    pub(crate) fn empty(config: LogConfig, log_start: Offset) -> Self {
        config.check();
        let log = Self {
            config,
            offsets: LogOffsets::empty(log_start),
            segments: Segments::starting_at(log_start),
            leader_epochs: LeaderEpochs::new(),
            producers: Producers::new(),
            producers_complete: true,
            unwritten: Unwritten::default(),
        };
        log.check();
        log
    }

    /// What is true of the log.
    #[must_use]
    pub const fn offsets(&self) -> &LogOffsets {
        &self.offsets
    }

    /// The configuration in force.
    #[must_use]
    pub const fn config(&self) -> &LogConfig {
        &self.config
    }

    /// Puts another configuration in force, for what comes.
    ///
    /// # Panics
    /// Where it breaks [`LogConfig::check`].
    pub fn set_config(&mut self, config: LogConfig) {
        config.check();
        self.config = config;
        self.producers.shrink_to(config.producers_max);
        self.check();
    }

    /// The segments, oldest first; the last one is active.
    pub fn segments(&self) -> impl DoubleEndedIterator<Item = &Segment> {
        self.segments.iter()
    }

    /// The segment of that name.
    #[must_use]
    pub fn segment(&self, id: SegmentId) -> Option<&Segment> {
        self.segments.get(id)
    }

    /// The segment that is appended to.
    #[must_use]
    pub const fn active_segment(&self) -> &Segment {
        self.segments.active()
    }

    /// Size of all batches, in bytes.
    #[must_use]
    pub fn total_bytes(&self) -> u64 {
        self.segments.total_bytes()
    }

    /// The leader epochs of the log.
    #[must_use]
    pub const fn leader_epochs(&self) -> &LeaderEpochs {
        &self.leader_epochs
    }

    /// As [`LeaderEpochs::end_offset_for`], with the log's end.
    #[must_use]
    pub fn end_offset_for(&self, epoch: LeaderEpoch) -> Option<(LeaderEpoch, Offset)> {
        let found = self.leader_epochs.end_offset_for(epoch, self.offsets.log_end);
        assert!(found.is_none_or(|(_, end)| end <= self.offsets.log_end), "an epoch ends in the log");
        found
    }

    /// The leader epoch of the log's last record: what a follower tells its leader of its log. An epoch that led this log
    /// without a record doesn't count. `None` where the log has no record.
    #[must_use]
    pub fn last_record_epoch(&self) -> Option<LeaderEpoch> {
        let epoch = self.leader_epochs.latest_below(self.offsets.log_end);
        assert!(epoch <= self.leader_epochs.latest(), "no record is of a later epoch than the latest");
        epoch
    }

    /// The idempotent producers of the log.
    #[must_use]
    pub const fn producers(&self) -> &Producers {
        &self.producers
    }

    /// Notes that this log is led in `epoch` from now on. To be made durable before the first append.
    ///
    /// # Errors
    /// `FencedLeaderEpoch` where the log knows a later epoch.
    pub fn start_leader_epoch(&mut self, epoch: LeaderEpoch) -> Result<(), AppendError> {
        let known = self.leader_epochs.latest().unwrap_or(LeaderEpoch(0));
        if epoch < known {
            return Err(AppendError::FencedLeaderEpoch { known, given: epoch });
        }
        self.leader_epochs.note(epoch, self.offsets.log_end);
        assert_eq!(self.leader_epochs.latest(), Some(epoch), "the log is led in its latest epoch");
        self.check();
        Ok(())
    }

    /// Notes that the device has written everything of `segment` below `end_position`, and every earlier segment.
    ///
    /// `end_position` counts bytes of batches, never padding: bytes appended while the write was in flight aren't in
    /// it. It may lie inside a batch, which then counts as not written. An older completion that comes late changes
    /// nothing.
    ///
    /// # Panics
    /// Where the position lies behind the segment's end.
    pub fn complete_write(&mut self, segment: SegmentId, end_position: u32) {
        let end = self.segments.get(segment).map(Segment::end_position);
        assert!(end.is_none_or(|end| end_position <= end), "only what is appended is written");
        if let Some(written) = self.unwritten.complete(segment, end_position) {
            assert!(written > self.offsets.written, "newly written batches are behind the written ones");
            self.offsets.write_to(written);
        }
        self.check();
    }

    /// Notes that everything below `up_to` is durable: a flush that began when `up_to` was written is complete.
    ///
    /// # Panics
    /// Where `up_to` isn't written.
    pub fn complete_flush(&mut self, up_to: Offset) {
        self.offsets.flush_to(up_to);
        assert!(self.offsets.flushed >= up_to, "what is flushed counts");
        self.check();
    }

    /// Raises the high watermark to `to`; one that is lower changes nothing.
    ///
    /// # Panics
    /// Where `to` is behind the log's end.
    pub fn advance_high_watermark(&mut self, to: Offset) {
        self.offsets.advance_high_watermark(to);
        assert!(self.offsets.high_watermark >= to, "the watermark is raised");
        self.check();
    }

    /// Raises the log's start to `to`: records below it are deleted. One that is lower changes nothing.
    ///
    /// # Errors
    /// `OutOfRange` above the high watermark, which is given as the end.
    pub fn advance_log_start(&mut self, to: Offset) -> Result<(), ReadError> {
        let LogOffsets { log_start, high_watermark, .. } = self.offsets;
        if to > high_watermark {
            return Err(ReadError::OutOfRange { offset: to, log_start, log_end: high_watermark });
        }
        self.offsets.advance_log_start(to);
        self.leader_epochs.advance_start(self.offsets.log_start);
        assert!(self.offsets.log_start >= to, "the start is raised");
        self.check();
        Ok(())
    }

    /// The segment to begin at `now` because the active one is too old, though nothing is appended. Changes nothing.
    #[must_use]
    pub fn plan_roll(&self, now: Timestamp) -> Option<SegmentId> {
        let active = self.segments.active();
        let due = active.is_past_age(self.config.segment_age, now);
        assert!(!due || !active.is_empty(), "an empty segment has no age");
        due.then_some(SegmentId(self.offsets.log_end))
    }

    /// Notes that `new` is the active segment: its file is ready.
    ///
    /// # Panics
    /// Where the active segment is empty, or `new` isn't the log's end.
    pub fn complete_roll(&mut self, new: SegmentId) {
        assert_eq!(new.0, self.offsets.log_end, "a segment begins at the log's end");
        self.segments.roll(new);
        assert!(self.segments.active().is_empty(), "a new segment is empty");
        self.check();
    }

    /// Forgets the producers that have been idle too long at `now`; answers how many.
    pub fn expire_producers(&mut self, now: Timestamp) -> usize {
        let before = self.producers.len();
        let expired = self.producers.expire(self.config.producer_expiry, now);
        assert_eq!(self.producers.len() + expired, before, "who isn't expired stays");
        self.check();
        expired
    }

    /// Takes producers rebuilt by replaying the log up to its end, after a truncation.
    ///
    /// # Panics
    /// Where `up_to` isn't the log's end: then batches are missing in what was rebuilt.
    pub fn install_producers(&mut self, producers: Producers, up_to: Offset) {
        assert_eq!(up_to, self.offsets.log_end, "producers are rebuilt up to the log's end");
        self.producers = producers;
        self.producers.shrink_to(self.config.producers_max);
        self.producers_complete = true;
        self.check();
    }

    /// Whether producers must be rebuilt before any may append.
    #[must_use]
    pub const fn needs_producers(&self) -> bool {
        !self.producers_complete
    }

    /// Takes a sealed segment's index into memory; `covers` is the summary it was stored with.
    ///
    /// # Errors
    /// See [`InstallError`].
    pub fn install_index(
        &mut self,
        index: SegmentIndex,
        covers: &SegmentSummary,
    ) -> Result<(), InstallError> {
        let id = covers.segment;
        let segment = self.segments.sealed_mut(id).ok_or(InstallError::NoSegment(id))?;
        segment.install_index(index, covers)?;
        self.check();
        Ok(())
    }

    /// Drops a sealed segment's index from memory; the active segment keeps its own. Its sidecar must be durable, or
    /// the index is to be rebuilt by a scan.
    pub fn evict_index(&mut self, id: SegmentId) {
        if let Some(segment) = self.segments.sealed_mut(id) {
            segment.evict_index();
        }
        self.check();
    }

    /// Bytes of memory that the indexes take.
    #[must_use]
    pub fn index_memory_bytes(&self) -> usize {
        self.segments.iter().map(Segment::index_memory_bytes).sum()
    }

    /// What recovery needs to begin at the log's present end. True of the disk, and fit to be stored, only once the
    /// flushed offset has reached it.
    #[must_use]
    pub fn checkpoint(&self) -> Checkpoint {
        let summary = *self.segments.active().summary();
        assert_eq!(summary.end_offset, self.offsets.log_end, "the active segment ends the log");
        assert!(summary.is_sound(), "a segment contradicts itself nowhere");
        Checkpoint {
            summary,
            durable_position: summary.end_position,
            leader_epochs: self.leader_epochs.clone(),
            producers: self.producers.clone(),
        }
    }

    /// Asserts what is always true of a log; the whole of it in debug builds.
    pub(crate) fn check(&self) {
        self.offsets.check();
        assert_eq!(self.segments.end().offset, self.offsets.log_end, "the active segment ends the log");
        assert!(self.segments.active().index().is_some(), "the active segment's index is in memory");
        assert!(self.segments.first().id().0 <= self.offsets.log_start, "the log's start is in a segment");
        self.unwritten.check(self.offsets.written, self.offsets.log_end);
        self.leader_epochs.check(self.offsets.log_end);
        self.producers.check(self.config.producers_max, self.offsets.log_end);
        if cfg!(debug_assertions) {
            self.segments.check();
        }
    }
}

#[cfg(test)]
mod tests;
