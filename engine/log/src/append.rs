//! Appending: where a batch goes, decided before a byte moves.

use engine_record::{BatchHeader, LeaderEpoch, Offset, Timestamp, TimestampType};

use crate::error::AppendError;
use crate::log::Log;
use crate::producers::Sequence;
use crate::read::BatchPosition;
use crate::segment::{AddedBatch, SegmentId};

/// Who brings a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AppendOrigin {
    /// A producer, at the leader: the log assigns offsets and checks sequences.
    Client,
    /// The leader, at a follower: the batch has its place, and what the leader took is not refused.
    Replication,
}

/// What becomes of a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum AppendDecision {
    /// Carry out the plan and commit it.
    Append(AppendPlan),
    /// The batch is in the log already: answer with its offsets, once they may be acknowledged.
    Duplicate {
        /// Offset of its first record.
        base_offset: Offset,
        /// Offset of its last record, inclusive.
        last_offset: Offset,
        /// The append time it has on topics with append time; its latest record time elsewhere.
        timestamp: Timestamp,
    },
}

/// A place for a batch. It holds until the log's end or its leader epoch moves, so that of all plans made since the last
/// commit only one can be committed. Whoever had to wait for room plans again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AppendPlan {
    /// Offset of the first record; to be written into the batch.
    pub base_offset: Offset,
    /// Offset of the last record, inclusive.
    pub last_offset: Offset,
    /// Epoch of the leader that appended the batch; to be written into it.
    pub leader_epoch: LeaderEpoch,
    /// A new segment to begin with this batch; equal to `segment` then.
    pub roll: Option<SegmentId>,
    /// The segment the batch goes to.
    pub segment: SegmentId,
    /// Its first byte there.
    pub position: u32,
    /// Its size.
    pub bytes: u32,
    /// The append time to be stamped on the batch, where the topic has that.
    pub append_time: Option<Timestamp>,
    /// When the plan was made, by the broker's clock.
    pub planned_at: Timestamp,
}

impl AppendPlan {
    /// Exclusive end of the batch's offsets: the log's end once it is committed.
    #[must_use]
    pub fn end_offset(&self) -> Offset {
        assert!(self.last_offset >= self.base_offset, "a batch has at least one offset");
        self.last_offset.checked_add(1).expect("a plan leaves an offset for the log's end")
    }

    /// The byte behind the batch, in its segment.
    #[must_use]
    pub fn end_position(&self) -> u32 {
        assert!(self.bytes > 0, "a batch has a header");
        self.position.checked_add(self.bytes).expect("a plan rolls before positions run out")
    }
}

impl Log {
    /// Decides what becomes of a batch, of which the header is enough. Changes nothing.
    ///
    /// `leader_epoch` is this leader's own for [`AppendOrigin::Client`], and that of the leader fetched from for
    /// [`AppendOrigin::Replication`]. `now` is the broker's wall clock.
    ///
    /// # Errors
    /// See [`AppendError`].
    pub fn plan_append(
        &self,
        batch: &BatchHeader,
        origin: AppendOrigin,
        leader_epoch: LeaderEpoch,
        now: Timestamp,
    ) -> Result<AppendDecision, AppendError> {
        let leader_epoch = match origin {
            AppendOrigin::Client => leader_epoch,
            AppendOrigin::Replication => self.check_place(batch, leader_epoch)?,
        };
        self.check_epoch(leader_epoch, origin)?;
        if origin == AppendOrigin::Client
            && let Sequence::Duplicate(known) = self.check_client(batch, now)?
        {
            assert!(known.last_offset < self.offsets.log_end, "a duplicate is of something in the log");
            return Ok(AppendDecision::Duplicate {
                base_offset: known.base_offset,
                last_offset: known.last_offset,
                timestamp: known.timestamp,
            });
        }
        let stamped =
            self.config.timestamp_type == TimestampType::LogAppend && origin == AppendOrigin::Client;
        let append_time = stamped.then_some(now);
        self.place(batch, leader_epoch, append_time, now).map(AppendDecision::Append)
    }

    /// A leader's epoch is at least the latest that led this log. A replicated batch's is at least that of the last
    /// record: an epoch that led here without a record may be later than those of the log it follows.
    fn check_epoch(&self, given: LeaderEpoch, origin: AppendOrigin) -> Result<(), AppendError> {
        let known = match origin {
            AppendOrigin::Client => self.leader_epochs.latest(),
            AppendOrigin::Replication => self.last_record_epoch(),
        };
        let known = known.unwrap_or(LeaderEpoch(0));
        if given < known { Err(AppendError::FencedLeaderEpoch { known, given }) } else { Ok(()) }
    }

    /// Checks that a replicated batch comes next; answers its epoch.
    fn check_place(&self, batch: &BatchHeader, leader: LeaderEpoch) -> Result<LeaderEpoch, AppendError> {
        let expected = self.offsets.log_end;
        if Offset::new(batch.base_offset) != Some(expected) {
            return Err(AppendError::NotContiguous { expected, found: batch.base_offset });
        }
        if batch.leader_epoch > leader {
            return Err(AppendError::LeaderEpochAhead { batch: batch.leader_epoch, leader });
        }
        assert!(batch.leader_epoch <= leader, "a leader has no batch of a later one");
        Ok(batch.leader_epoch)
    }

    fn check_client(&self, batch: &BatchHeader, now: Timestamp) -> Result<Sequence, AppendError> {
        let (batch_bytes, max_batch_bytes) = (batch.batch_bytes, self.config.max_batch_bytes);
        if batch_bytes > max_batch_bytes {
            return Err(AppendError::BatchTooLarge { batch_bytes, max_batch_bytes });
        }
        if !batch.has_producer() {
            return Ok(Sequence::Next);
        }
        if !self.producers_complete {
            return Err(AppendError::ProducersIncomplete);
        }
        if !self.producers.has_room_for(batch.producer_id, &self.config, now) {
            return Err(AppendError::TooManyProducers { producers_max: self.config.producers_max });
        }
        self.producers.check_sequence(batch)
    }

    fn place(
        &self,
        batch: &BatchHeader,
        leader_epoch: LeaderEpoch,
        append_time: Option<Timestamp>,
        planned_at: Timestamp,
    ) -> Result<AppendPlan, AppendError> {
        let base_offset = self.offsets.log_end;
        let last_offset = base_offset
            .checked_add(u64::from(batch.last_offset_delta))
            .filter(|last| *last < Offset::MAX)
            .ok_or(AppendError::OffsetOverflow)?;
        let (bytes, active) = (batch.batch_bytes, self.segments.active());
        let rolls = active.must_roll(&self.config, bytes, last_offset, planned_at);
        let roll = rolls.then_some(SegmentId(base_offset));
        let segment = roll.unwrap_or_else(|| active.id());
        let position = if rolls { 0 } else { active.end_position() };
        assert_eq!(position == 0, segment.0 == base_offset, "a segment begins with its base offset");
        assert!(segment >= active.id(), "a batch goes to the active segment or a new one");
        assert!(last_offset >= base_offset, "a batch has at least one offset");
        Ok(AppendPlan {
            base_offset,
            last_offset,
            leader_epoch,
            roll,
            segment,
            position,
            bytes,
            append_time,
            planned_at,
        })
    }

    /// Notes that the batch is in the log: there is space for it, and its bytes are copied, with the plan's offset,
    /// epoch and append time in them. `batch` is the header that was planned for. The log's end moves.
    ///
    /// # Panics
    /// Where the plan isn't of the log as it is.
    pub fn commit_append(&mut self, plan: &AppendPlan, batch: &BatchHeader) {
        assert_eq!(plan.base_offset, self.offsets.log_end, "a plan is committed before the next is made");
        assert_eq!(plan.bytes, batch.batch_bytes, "a plan is committed with its batch");
        let records = u64::from(batch.last_offset_delta) + 1;
        assert_eq!(
            plan.end_offset().since(plan.base_offset),
            Some(records),
            "a plan is committed with its batch"
        );
        if let Some(new) = plan.roll {
            self.segments.roll(new);
        }
        assert_eq!(self.segments.active().id(), plan.segment, "a plan is of the active segment");
        assert_eq!(self.segments.active().end_position(), plan.position, "batches have no gap");
        let max_timestamp = plan.append_time.unwrap_or(batch.max_timestamp);
        let added = AddedBatch {
            base_offset: plan.base_offset,
            end_offset: plan.end_offset(),
            bytes: plan.bytes,
            max_timestamp,
            appended_at: plan.planned_at,
        };
        self.segments.active_mut().append(&added, self.config.index_interval_bytes);
        self.leader_epochs.note(plan.leader_epoch, plan.base_offset);
        self.remember_producer(plan, batch, max_timestamp);
        let end = BatchPosition { offset: plan.end_offset(), position: plan.end_position() };
        self.unwritten.append(plan.segment, end);
        self.offsets.append_to(plan.end_offset());
        assert_eq!(self.leader_epochs.latest(), Some(plan.leader_epoch), "a batch is of the latest epoch");
        assert_eq!(self.segments.end(), end, "a batch ends the log");
        self.check();
    }

    fn remember_producer(&mut self, plan: &AppendPlan, batch: &BatchHeader, timestamp: Timestamp) {
        if batch.has_producer() {
            self.producers.record(batch, plan.base_offset, timestamp, plan.planned_at);
            self.producers.shrink_to(self.config.producers_max);
        }
        assert!(self.producers.len() <= self.config.producers_max as usize, "memory of producers is bounded");
    }
}
