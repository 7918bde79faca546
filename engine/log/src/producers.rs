//! Idempotence: what each producer appended last, so that a batch sent twice is in the log once.
//!
//! For each producer id: its epoch and its last five batches. A batch is
//!
//! - *fenced* where its epoch is older than the producer's;
//! - a *duplicate* where its first and last sequence are those of one of the five: it has its place already;
//! - the *next* where its first sequence follows the last, or is 0 in a newer epoch;
//! - out of order otherwise.
//!
//! A producer that isn't known, be it new or forgotten, may begin with any sequence: a broker that insisted on 0 would
//! break every producer whose state expired. After sequence 2^31 - 1 comes 0.
//!
//! All of it follows from the log: replaying its batches in order rebuilds it. That is the rule after a truncation
//! that took batches of a producer along, since older batches than five aren't remembered.

use std::collections::BTreeMap;

use engine_record::{BatchHeader, Offset, ProducerEpoch, ProducerId, Timestamp};

use crate::config::LogConfig;
use crate::error::AppendError;
use crate::segment::elapsed;

pub(crate) mod snapshot;

pub use snapshot::{PRODUCERS_SNAPSHOT_VERSION, ProducersError};

/// Batches remembered of each producer: as many as a client may have in flight.
pub const REMEMBERED_BATCHES: usize = 5;

/// A batch that a producer appended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AppendedBatch {
    /// Sequence of its first record.
    pub first_sequence: i32,
    /// Sequence of its last record; below the first where the sequence wrapped.
    pub last_sequence: i32,
    /// Offset of its first record.
    pub base_offset: Offset,
    /// Offset of its last record, inclusive.
    pub last_offset: Offset,
    /// The batch's append time on topics that have it; the latest record time elsewhere.
    pub timestamp: Timestamp,
}

/// What is remembered of one producer.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Producer {
    epoch: ProducerEpoch,
    last_append: Timestamp,
    /// Oldest first, [`REMEMBERED_BATCHES`] at most, all of `epoch`.
    batches: Vec<AppendedBatch>,
}

/// What is remembered of all producers of a log.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Producers {
    by_id: BTreeMap<ProducerId, Producer>,
}

/// How a batch stands to its producer's earlier ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sequence {
    /// Append it.
    Next,
    /// It is in the log already.
    Duplicate(AppendedBatch),
}

impl Producers {
    /// Nobody yet.
    #[must_use]
    pub const fn new() -> Self {
        Self { by_id: BTreeMap::new() }
    }

    /// How many are remembered.
    #[must_use]
    pub fn len(&self) -> usize {
        self.by_id.len()
    }

    /// Whether nobody is remembered.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.by_id.is_empty()
    }

    /// Where a client's batch stands.
    ///
    /// # Errors
    /// `InvalidProducerEpoch` and `OutOfOrderSequence` of [`AppendError`].
    pub(crate) fn check_sequence(&self, batch: &BatchHeader) -> Result<Sequence, AppendError> {
        assert!(batch.has_producer(), "only producers have sequences");
        let Some(known) = self.by_id.get(&batch.producer_id) else { return Ok(Sequence::Next) };
        let given = batch.producer_epoch;
        if given < known.epoch {
            let (producer, known) = (batch.producer_id, known.epoch);
            return Err(AppendError::InvalidProducerEpoch { producer, known, given });
        }
        if let (true, Some(duplicate)) = (given == known.epoch, known.duplicate_of(batch)) {
            assert_eq!(duplicate.first_sequence, batch.base_sequence, "a duplicate has its sequences");
            return Ok(Sequence::Duplicate(duplicate));
        }
        let expected = if given > known.epoch { Some(0) } else { known.next_sequence() };
        match expected {
            Some(expected) if expected != batch.base_sequence => {
                let (producer, found) = (batch.producer_id, batch.base_sequence);
                Err(AppendError::OutOfOrderSequence { producer, expected, found })
            }
            Some(_) | None => Ok(Sequence::Next),
        }
    }

    /// Whether `producer` can be remembered at `now`: it is, or there is room, or room can be made.
    pub(crate) fn has_room_for(&self, producer: ProducerId, config: &LogConfig, now: Timestamp) -> bool {
        assert!(producer.0 >= 0, "only producers are remembered");
        let full = self.by_id.len() >= config.producers_max as usize;
        if !full || self.by_id.contains_key(&producer) {
            return true;
        }
        let idlest = self.idlest().and_then(|id| self.by_id.get(&id));
        idlest.is_some_and(|idlest| elapsed(idlest.last_append, now) >= config.producer_idle_min)
    }

    /// Remembers an appended batch, at `base_offset`. In a log of batches in order this never refuses: what a leader
    /// decided, followers and recovery repeat.
    pub(crate) fn record(
        &mut self,
        batch: &BatchHeader,
        base_offset: Offset,
        timestamp: Timestamp,
        now: Timestamp,
    ) {
        assert!(batch.has_producer(), "only producers are remembered");
        let last_offset = base_offset.checked_add(u64::from(batch.last_offset_delta));
        let appended = AppendedBatch {
            first_sequence: batch.base_sequence,
            last_sequence: batch.last_sequence(),
            base_offset,
            last_offset: last_offset.expect("an appended batch has offsets"),
            timestamp,
        };
        assert!(appended.last_offset >= appended.base_offset, "a batch has at least one offset");
        assert_eq!(appended.first_sequence < 0, appended.last_sequence < 0, "a batch has sequences or none");
        let producer =
            self.by_id.entry(batch.producer_id).or_insert_with(|| Producer::new(batch.producer_epoch));
        producer.record(batch.producer_epoch, appended, now);
        assert_eq!(producer.epoch, batch.producer_epoch, "the last batch's epoch counts");
    }

    /// Forgets the idlest producers until at most `producers_max` are left.
    pub(crate) fn shrink_to(&mut self, producers_max: u32) {
        while self.by_id.len() > producers_max as usize {
            let idlest = self.idlest().expect("there are more than the limit");
            let forgotten = self.by_id.remove(&idlest);
            assert!(forgotten.is_some(), "the idlest is one of them");
        }
        assert!(self.by_id.len() <= producers_max as usize, "memory of producers is bounded");
    }

    fn idlest(&self) -> Option<ProducerId> {
        self.by_id.iter().min_by_key(|(_, producer)| producer.last_append).map(|(id, _)| *id)
    }

    /// Forgets who has been idle for `expiry` at `now`; answers how many.
    pub(crate) fn expire(&mut self, expiry: core::time::Duration, now: Timestamp) -> usize {
        let before = self.by_id.len();
        self.by_id.retain(|_, producer| elapsed(producer.last_append, now) < expiry);
        assert!(self.by_id.len() <= before, "expiry only forgets");
        before - self.by_id.len()
    }

    /// Forgets the batches at or above `end`, and whoever has none left. Answers whether anything was forgotten: then
    /// what is left may lack older batches, and must be rebuilt from the log.
    pub(crate) fn truncate(&mut self, end: Offset) -> bool {
        let (mut touched, count) = (false, self.by_id.len());
        self.by_id.retain(|_, producer| {
            let before = producer.batches.len();
            producer.batches.retain(|batch| batch.last_offset < end);
            touched |= producer.batches.len() < before;
            producer.batches.len() == before || !producer.batches.is_empty()
        });
        assert!(touched || self.by_id.len() == count, "who loses no batch stays");
        touched
    }

    pub(crate) fn check(&self, producers_max: u32, log_end: Offset) {
        assert!(self.by_id.len() <= producers_max as usize, "memory of producers is bounded");
        if cfg!(debug_assertions) {
            self.by_id.values().for_each(|producer| producer.check(log_end));
        }
    }
}

impl Producer {
    const fn new(epoch: ProducerEpoch) -> Self {
        Self { epoch, last_append: Timestamp(i64::MIN), batches: Vec::new() }
    }

    fn duplicate_of(&self, batch: &BatchHeader) -> Option<AppendedBatch> {
        assert!(self.batches.len() <= REMEMBERED_BATCHES, "memory of a producer is bounded");
        let sent = (batch.base_sequence, batch.last_sequence());
        self.batches.iter().find(|known| (known.first_sequence, known.last_sequence) == sent).copied()
    }

    /// The sequence that comes next; `None` where no batch of the epoch is remembered.
    fn next_sequence(&self) -> Option<i32> {
        let last = self.batches.last()?.last_sequence;
        assert!(last >= 0, "a remembered batch has sequences");
        Some(last.checked_add(1).unwrap_or(0))
    }

    fn record(&mut self, epoch: ProducerEpoch, appended: AppendedBatch, now: Timestamp) {
        self.last_append = self.last_append.max(now);
        assert!(self.last_append >= now, "a clock set back makes nobody idle");
        if epoch != self.epoch {
            self.epoch = epoch;
            self.batches.clear();
        }
        // A transaction's marker has no sequence: it moves the epoch, and is no batch of its producer's.
        if appended.first_sequence < 0 {
            return;
        }
        if self.batches.len() == REMEMBERED_BATCHES {
            self.batches.remove(0);
        }
        let last = self.batches.last().map(|last| last.last_offset);
        assert!(last.is_none_or(|last| last < appended.base_offset), "a producer's batches rise");
        self.batches.push(appended);
        assert!(self.batches.len() <= REMEMBERED_BATCHES, "memory of a producer is bounded");
    }

    fn check(&self, log_end: Offset) {
        assert!(self.batches.len() <= REMEMBERED_BATCHES, "memory of a producer is bounded");
        assert!(self.batches.is_sorted_by(|a, b| a.last_offset < b.base_offset), "a producer's batches rise");
        assert!(self.batches.last().is_none_or(|last| last.last_offset < log_end), "batches are in the log");
    }
}

#[cfg(test)]
mod tests;
