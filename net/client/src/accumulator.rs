//! Where records wait until their batch is worth sending.
//!
//! Each partition has a [`BatchQueue`]: batches that were never sent, oldest first, the last one perhaps still open.
//! All queues of a producer share one [`BufferMemory`], which bounds the bytes of records that are accepted and not yet
//! answered for. When it is full the producer takes no more records: the broker's pace reaches the application.

use core::time::Duration;
use std::collections::VecDeque;

use engine_record::{CompressError, Compression, Instant, NewRecord};

use crate::batch::{BatchWriter, DoesNotFit, SealedBatch, record_bytes_max};

/// How many emptied buffers are kept for new batches.
const SPARE_BUFFERS_MAX: usize = 64;

/// Numbers the batches of one producer, in the order they were begun.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct BatchId(pub u64);

/// A record's place: which batch, and the how manieth record of it from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ticket {
    /// The batch.
    pub batch: BatchId,
    /// The record's index in the batch.
    pub index: u32,
}

/// When a batch is worth sending, and what bounds it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BatchLimits {
    /// A batch this large, in bytes before compression, takes no further record.
    pub batch_bytes: usize,
    /// How long a batch below that size waits for more records.
    pub linger: Duration,
    /// The largest record accepted, in bytes in its batch; also bounds a request.
    pub request_bytes_max: usize,
    /// How batches are compressed.
    pub compression: Compression,
}

/// Why a record isn't accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotAccepted {
    /// The memory for records under way is in use; there is room once older ones are answered.
    #[error("the memory for records under way is full")]
    MemoryFull,
    /// The record is larger than any request may be.
    #[error("a record of {record_bytes} bytes where at most {record_bytes_max} may be")]
    RecordTooLarge {
        /// What the record would take, at most.
        record_bytes: usize,
        /// The limit.
        record_bytes_max: usize,
    },
}

/// Bounds the bytes of all batches of a producer, and keeps their buffers for the next.
#[derive(Debug)]
pub struct BufferMemory {
    bytes_max: usize,
    bytes: usize,
    spare: Vec<Vec<u8>>,
    next_batch: u64,
}

impl BufferMemory {
    /// At most `bytes_max` bytes; but one batch is always taken when nothing else is under way.
    #[must_use]
    pub const fn new(bytes_max: usize) -> Self {
        Self { bytes_max, bytes: 0, spare: Vec::new(), next_batch: 0 }
    }

    /// Bytes in use.
    #[must_use]
    pub const fn bytes(&self) -> usize {
        self.bytes
    }

    /// Whether `bytes` more may be taken now.
    #[must_use]
    pub const fn has_room(&self, bytes: usize) -> bool {
        self.bytes == 0 || self.bytes.saturating_add(bytes) <= self.bytes_max
    }

    /// A buffer to write a batch into, used before if there is one.
    pub fn buffer(&mut self) -> Vec<u8> {
        self.spare.pop().unwrap_or_default()
    }

    /// Gives back what a batch that ended had taken.
    pub fn release(&mut self, batch: QueuedBatch) {
        assert!(self.bytes >= batch.reserved_bytes, "more memory came back than was taken");
        self.bytes -= batch.reserved_bytes;
        if self.spare.len() < SPARE_BUFFERS_MAX {
            self.spare.extend(batch.sealed.into_memory());
        }
    }

    const fn begin_batch(&mut self) -> BatchId {
        let id = BatchId(self.next_batch);
        self.next_batch += 1;
        id
    }
}

/// A sealed batch in a producer.
#[derive(Debug)]
pub struct QueuedBatch {
    /// Its number.
    pub id: BatchId,
    /// When its first record was accepted.
    pub began: Instant,
    /// Its records.
    pub sealed: SealedBatch,
    /// What it counts for in [`BufferMemory`].
    reserved_bytes: usize,
}

/// A batch whose codec failed.
#[derive(Debug)]
pub struct FailedBatch {
    /// Its number.
    pub id: BatchId,
    /// What the codec said.
    pub cause: CompressError,
}

#[derive(Debug)]
struct OpenBatch {
    id: BatchId,
    began: Instant,
    writer: BatchWriter,
    reserved_bytes: usize,
}

/// A batch that takes no further record.
#[derive(Debug)]
enum ClosedBatch {
    /// Full or flushed, not yet compressed: the codec runs when the batch is about to leave, one batch at a time.
    Written(OpenBatch),
    /// Written elsewhere.
    Sealed(QueuedBatch),
}

impl ClosedBatch {
    const fn began(&self) -> Instant {
        match self {
            Self::Written(batch) => batch.began,
            Self::Sealed(batch) => batch.began,
        }
    }
}

/// One partition's batches that were never sent.
#[derive(Debug, Default)]
pub struct BatchQueue {
    closed: VecDeque<ClosedBatch>,
    open: Option<OpenBatch>,
}

impl BatchQueue {
    /// Whether nothing waits.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.closed.is_empty() && self.open.is_none()
    }

    /// Takes a record.
    ///
    /// # Errors
    /// See [`NotAccepted`]; nothing has changed then.
    pub fn push(
        &mut self,
        record: &NewRecord<'_>,
        limits: &BatchLimits,
        memory: &mut BufferMemory,
        now: Instant,
    ) -> Result<Ticket, NotAccepted> {
        let record_bytes = record_bytes_max(record);
        let record_bytes_limit = limits.request_bytes_max;
        let too_large = NotAccepted::RecordTooLarge { record_bytes, record_bytes_max: record_bytes_limit };
        if record_bytes > record_bytes_limit {
            return Err(too_large);
        }
        if !memory.has_room(record_bytes) {
            return Err(NotAccepted::MemoryFull);
        }
        self.close_unless_room(record_bytes, limits.batch_bytes);
        match self.push_open(record, memory, now) {
            Ok(ticket) => Ok(ticket),
            // The time lies too far from the batch's first: it fits into a batch of its own.
            Err(DoesNotFit::TimestampRange | DoesNotFit::TooLarge) => {
                self.close();
                self.push_open(record, memory, now).map_err(|_| too_large)
            }
        }
    }

    fn push_open(
        &mut self,
        record: &NewRecord<'_>,
        memory: &mut BufferMemory,
        now: Instant,
    ) -> Result<Ticket, DoesNotFit> {
        let mut open = self.open.take().unwrap_or_else(|| {
            let writer = BatchWriter::new(memory.buffer());
            OpenBatch { id: memory.begin_batch(), began: now, writer, reserved_bytes: 0 }
        });
        let pushed = open.writer.push(record);
        let ticket = Ticket { batch: open.id, index: open.writer.record_count().saturating_sub(1) };
        let grown = open.writer.batch_bytes() - open.reserved_bytes;
        if open.writer.record_count() > 0 {
            memory.bytes += grown;
            open.reserved_bytes += grown;
            self.open = Some(open);
        }
        pushed.map(|()| ticket)
    }

    /// Takes a batch that was written elsewhere; open records before it are closed, so the order holds.
    ///
    /// # Errors
    /// [`NotAccepted`], and the batch back.
    pub fn push_batch(
        &mut self,
        batch: SealedBatch,
        limits: &BatchLimits,
        memory: &mut BufferMemory,
        now: Instant,
    ) -> Result<BatchId, (NotAccepted, SealedBatch)> {
        let (record_bytes, record_bytes_max) = (batch.batch_bytes(), limits.request_bytes_max);
        if record_bytes > record_bytes_max {
            return Err((NotAccepted::RecordTooLarge { record_bytes, record_bytes_max }, batch));
        }
        if !memory.has_room(record_bytes) {
            return Err((NotAccepted::MemoryFull, batch));
        }
        self.close();
        memory.bytes += record_bytes;
        let id = memory.begin_batch();
        let queued = QueuedBatch { id, began: now, sealed: batch, reserved_bytes: record_bytes };
        self.closed.push_back(ClosedBatch::Sealed(queued));
        Ok(id)
    }

    fn close_unless_room(&mut self, record_bytes: usize, batch_bytes: usize) {
        if self.open.as_ref().is_some_and(|open| !open.writer.has_room(record_bytes, batch_bytes)) {
            self.close();
        }
    }

    /// Ends the open batch, as a flush does.
    pub fn close(&mut self) {
        self.closed.extend(self.open.take().map(ClosedBatch::Written));
    }

    /// When the oldest batch is worth sending: at once, or when its linger is over. `None` where nothing waits.
    #[must_use]
    pub fn ready_at(&self, limits: &BatchLimits, now: Instant) -> Option<Instant> {
        if !self.closed.is_empty() {
            return Some(now);
        }
        let open = self.open.as_ref()?;
        let is_full = open.writer.batch_bytes() >= limits.batch_bytes;
        Some(if is_full { now } else { open.began.after(limits.linger) })
    }

    /// When the oldest batch was begun.
    #[must_use]
    pub fn oldest_began(&self) -> Option<Instant> {
        let closed = self.closed.front().map(ClosedBatch::began);
        closed.or_else(|| self.open.as_ref().map(|batch| batch.began))
    }

    /// Takes the oldest batch, compressed, whether it is ready or not. `None` where nothing waits.
    ///
    /// # Errors
    /// The batch's number and the codec's failure; its memory is free again.
    pub fn take(
        &mut self,
        limits: &BatchLimits,
        memory: &mut BufferMemory,
    ) -> Option<Result<QueuedBatch, FailedBatch>> {
        let OpenBatch { id, began, writer, reserved_bytes } = match self.take_closed()? {
            ClosedBatch::Sealed(batch) => return Some(Ok(batch)),
            ClosedBatch::Written(batch) => batch,
        };
        let sealed =
            writer.seal(limits.compression).map(|sealed| QueuedBatch { id, began, sealed, reserved_bytes });
        Some(sealed.map_err(|cause| {
            memory.bytes -= reserved_bytes;
            FailedBatch { id, cause }
        }))
    }

    fn take_closed(&mut self) -> Option<ClosedBatch> {
        self.closed.pop_front().or_else(|| self.open.take().map(ClosedBatch::Written))
    }

    /// Drops the oldest batch and answers its number.
    pub fn discard(&mut self, memory: &mut BufferMemory) -> Option<BatchId> {
        match self.take_closed()? {
            ClosedBatch::Sealed(batch) => {
                let id = batch.id;
                memory.release(batch);
                Some(id)
            }
            ClosedBatch::Written(batch) => {
                memory.bytes -= batch.reserved_bytes;
                Some(batch.id)
            }
        }
    }
}

#[cfg(test)]
mod tests;
