//! Reads: from memory, from the page cache, or from disk, whole batches always.
//!
//! ```text
//!   plan (pure) -> where the batches begin and end -> pieces
//!
//!   bytes of the active segment   |......sendable......|.direct.|..tail memory..|..filling..|
//!                                                      ^ last whole block written           ^ log end
//! ```
//!
//! A piece of a file is in the page cache when it is handed out, so that sending it holds up nobody. A read holds its
//! segment until it is dropped.

mod file;
pub(crate) mod index;
mod locate;
mod memory;
pub(crate) mod recent;
pub(crate) mod timestamp;
pub(crate) mod unreadable;

use std::rc::Rc;

use engine_io::{Io, SendPiece};
use engine_log::{BatchRange, LogOffsets, ReadBound, ReadPlan};
use engine_record::Offset;

use crate::error::ReadError;
use crate::partition::Partition;
use crate::segment_file::{SegmentFile, SegmentHold};

/// What a reader asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReadRequest {
    /// The answer begins with the batch that holds this offset.
    pub offset: Offset,
    /// Size of the answer at most.
    pub max_bytes: u32,
    /// Whether a first batch larger than `max_bytes` is the answer all the same.
    pub at_least_one: bool,
    /// How far the reader may see.
    pub bound: ReadBound,
}

/// Whole batches in the order of the log, or none. While it lives, their bytes stay where they are: keep it until the
/// pieces are sent.
pub struct Read<I: Io> {
    /// The batches' bytes.
    pub pieces: Vec<Piece<I>>,
    /// How many they are.
    pub bytes: u32,
    /// Base offset of the first batch; may be below the offset asked for. That offset itself where there is none.
    pub first_offset: Offset,
    /// Where to read on; exclusive end of the batches.
    pub next_offset: Offset,
    /// Below it every record is on all in-sync replicas.
    pub high_watermark: Offset,
    /// The earliest offset of the log.
    pub log_start: Offset,
    hold: Option<SegmentHold<I>>,
}

/// Bytes of batches, which begin and end anywhere in them.
pub enum Piece<I: Io> {
    /// In memory.
    Memory(SendPiece<I>),
    /// In a file, and in the page cache a moment ago.
    File {
        /// The file.
        file: I::SendFile,
        /// The first byte in it.
        position: u64,
        /// How many.
        bytes: u64,
    },
}

impl<I: Io> Read<I> {
    /// Whether there are no batches.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.bytes == 0
    }

    /// Whether it keeps a segment's file from being cut or removed.
    #[must_use]
    pub fn holds_segment(&self) -> bool {
        self.hold.is_some()
    }
}

/// What a read has found out before it gathers the bytes.
struct Located<I: Io> {
    segment: Rc<SegmentFile<I>>,
    hold: SegmentHold<I>,
    range: BatchRange,
    /// Whether the reader goes on where one has just ended.
    is_sequential: bool,
}

impl<I: Io> Partition<I> {
    /// See [`crate::PartitionLog::read`].
    pub(crate) async fn read(self: &Rc<Self>, request: ReadRequest) -> Result<Read<I>, ReadError> {
        self.not_cutting().await?;
        let Some(located) = self.find(request).await? else {
            return self.answer_without_batches(request.offset);
        };
        let pieces = self.gather(&located).await?;
        Ok(self.answer_with(located, pieces))
    }

    /// See [`crate::PartitionLog::read_files`].
    pub(crate) async fn read_files(self: &Rc<Self>, request: ReadRequest) -> Result<Read<I>, ReadError> {
        self.not_cutting().await?;
        let Some(located) = self.find(request).await? else {
            return self.answer_without_batches(request.offset);
        };
        match self.gather_from_file(&located).await? {
            Some(pieces) => Ok(self.answer_with(located, pieces)),
            None => self.answer_without_batches(request.offset),
        }
    }

    /// The batches that answer a read; `None` where there are none.
    async fn find(self: &Rc<Self>, request: ReadRequest) -> Result<Option<Located<I>>, ReadError> {
        if request.max_bytes == 0 && !request.at_least_one {
            // For the partitions of a fetch whose limit is used up, which may be many: no I/O.
            return Ok(None);
        }
        let plan = self.plan_read(request).await?;
        if plan.is_empty() { Ok(None) } else { self.locate(&plan, request.at_least_one).await }
    }

    fn answer_with(&self, located: Located<I>, pieces: Vec<Piece<I>>) -> Read<I> {
        let BatchRange { begin, end } = located.range;
        self.state.borrow_mut().recent_ends.note(located.segment.id(), end);
        let read = self.answer(begin.offset, end.offset);
        Read { pieces, bytes: located.range.bytes(), hold: Some(located.hold), ..read }
    }

    /// Only where the log stands, at no I/O.
    fn answer_without_batches(&self, offset: Offset) -> Result<Read<I>, ReadError> {
        self.check()?;
        let LogOffsets { log_start, log_end, .. } = self.offsets();
        if offset < log_start || offset > log_end {
            return Err(ReadError::OutOfRange { log_start, log_end });
        }
        Ok(self.answer(offset, offset))
    }

    /// An answer without batches yet.
    fn answer(&self, first_offset: Offset, next_offset: Offset) -> Read<I> {
        let offsets = self.offsets();
        let (high_watermark, log_start) = (offsets.high_watermark, offsets.log_start);
        Read {
            pieces: Vec::new(),
            bytes: 0,
            first_offset,
            next_offset,
            high_watermark,
            log_start,
            hold: None,
        }
    }

    async fn plan_read(self: &Rc<Self>, request: ReadRequest) -> Result<ReadPlan, ReadError> {
        loop {
            self.check()?;
            let planned = self.state.borrow().log.plan_read(request.offset, request.max_bytes, request.bound);
            match planned {
                Ok(plan) => return Ok(plan),
                Err(engine_log::ReadError::IndexNotLoaded(segment)) => self.load_index(segment).await?,
                Err(engine_log::ReadError::OutOfRange { log_start, log_end, .. }) => {
                    return Err(ReadError::OutOfRange { log_start, log_end });
                }
            }
        }
    }

    /// The file of a segment of the log.
    pub(crate) fn segment_file(&self, id: engine_log::SegmentId) -> Result<Rc<SegmentFile<I>>, ReadError> {
        self.state.borrow().segments.get(&id).cloned().ok_or(ReadError::Closed)
    }
}
