//! Gathering the bytes of a read: by the page cache where they may be sent from there, else by direct reads.

use std::rc::Rc;

use engine_io::{BLOCK_BYTES, DirectFile, Io, SendFile, SendPiece};
use engine_log::BatchRange;

use super::unreadable::walk;
use super::{Located, Piece};
use crate::chunk::block_floor;
use crate::error::{Corruption, DiskOperation, ReadError, disk};
use crate::partition::{Partition, State};
use crate::segment_file::SegmentFile;

/// A run of bytes of one segment, from inclusive to exclusive.
#[derive(Clone, Copy, Debug)]
struct Run {
    from: u32,
    to: u32,
}

impl Run {
    fn bytes(self) -> u32 {
        self.to.saturating_sub(self.from)
    }

    fn is_empty(self) -> bool {
        self.to <= self.from
    }
}

impl<I: Io> Partition<I> {
    /// The pieces of a read. What is in memory is taken first, at once: it could be dropped during an await.
    pub(super) async fn gather(self: &Rc<Self>, located: &Located<I>) -> Result<Vec<Piece<I>>, ReadError> {
        let BatchRange { begin, end } = located.range;
        let (begin, end) = (begin.position, end.position);
        let (memory, sendable) = {
            let state = self.state.borrow();
            let from = state.memory_begins_at(&located.segment).unwrap_or(end).clamp(begin, end);
            let memory = state.memory_pieces(&located.segment, from, end);
            (memory, state.sendable_end(&located.segment).clamp(begin, from))
        };
        let memory_bytes: usize = memory.iter().map(|piece| piece.as_slice().len()).sum();
        let memory_from = end - u32::try_from(memory_bytes).expect("a segment's positions have 32 bits");
        let mut pieces = Vec::new();
        self.gather_sendable(located, Run { from: begin, to: sendable }, &mut pieces).await?;
        self.gather_direct(located, Run { from: sendable, to: memory_from }, &mut pieces).await?;
        pieces.extend(memory.into_iter().map(Piece::Memory));
        self.shard.counters.count(|metrics| metrics.bytes_read_tail += memory_bytes as u64);
        Ok(pieces)
    }

    /// The same with as little of it in memory as there can be; `None` where the page cache is too small for the rest.
    pub(super) async fn gather_from_file(
        self: &Rc<Self>,
        located: &Located<I>,
    ) -> Result<Option<Vec<Piece<I>>>, ReadError> {
        let BatchRange { begin, end } = located.range;
        let (begin, end) = (begin.position, end.position);
        let (sendable, memory_from, memory) = {
            let state = self.state.borrow();
            let sendable = state.sendable_end(&located.segment).clamp(begin, end);
            let from = state.memory_begins_at(&located.segment).unwrap_or(end).clamp(sendable, end);
            (sendable, from, state.copy_memory(&located.segment, from, (end - from) as usize))
        };
        let run = Run { from: begin, to: sendable };
        let mut pieces = Vec::new();
        if !run.is_empty() {
            let Some(piece) = self.cached(located, run).await? else { return Ok(None) };
            pieces.push(piece);
        }
        self.gather_direct(located, Run { from: sendable, to: memory_from }, &mut pieces).await?;
        self.shard.counters.count(|metrics| metrics.bytes_read_tail += memory.len() as u64);
        let bytes = memory.len();
        pieces.extend((bytes > 0).then_some(Piece::Memory(SendPiece::Owned(memory))));
        Ok(Some(pieces))
    }

    /// Bytes that never change again: sent from the page cache where that keeps them, else read past it.
    async fn gather_sendable(
        self: &Rc<Self>,
        located: &Located<I>,
        run: Run,
        pieces: &mut Vec<Piece<I>>,
    ) -> Result<(), ReadError> {
        if run.is_empty() {
            return Ok(());
        }
        match self.cached(located, run).await? {
            Some(piece) => pieces.push(piece),
            None => self.gather_direct(located, run, pieces).await?,
        }
        Ok(())
    }

    /// A piece of the page cache, into which the bytes are brought first; `None` where it is too small to keep them until
    /// they are sent.
    async fn cached(self: &Rc<Self>, located: &Located<I>, run: Run) -> Result<Option<Piece<I>>, ReadError> {
        let segment = &located.segment;
        let file = segment.send(&self.shard.io, &self.shard.descriptors).await?;
        let (position, bytes) = (u64::from(run.from), u64::from(run.bytes()));
        let was_warm = file.resident(position, bytes) >= bytes;
        if !was_warm {
            file.prefetch(position, bytes).await.map_err(disk(DiskOperation::Read, segment.path()))?;
        }
        if located.is_sequential {
            self.read_ahead(segment, &file, u64::from(run.to));
        }
        let is_warm = was_warm || file.resident(position, bytes) >= bytes;
        if !is_warm || !self.check_cached(located, &file, run.to)? {
            return Ok(None);
        }
        self.shard.counters.count(|metrics| {
            *if was_warm { &mut metrics.bytes_read_warm } else { &mut metrics.bytes_read_cold } += bytes;
        });
        Ok(Some(Piece::File { file, position, bytes }))
    }

    /// Brings what a reader will ask for next into the page cache, where less than half of that is in it.
    fn read_ahead(self: &Rc<Self>, segment: &Rc<SegmentFile<I>>, file: &I::SendFile, from: u64) {
        let ahead = self.shard.config.read_ahead_bytes;
        let to = u64::from(self.state.borrow().sendable_end(segment)).min(from + ahead);
        let wanted = to.saturating_sub(from);
        if wanted == 0 || segment.is_reading_ahead() || file.resident(from, wanted) * 2 > wanted {
            return;
        }
        let (file, hold) = (file.clone(), segment.hold_reading_ahead());
        self.shard.background.spawn(&self.shard.io, async move {
            // What isn't brought in now is brought in when it is asked for.
            let _helped = file.prefetch(from, wanted).await;
            drop(hold);
        });
    }

    /// Bytes read past the page cache into memory.
    async fn gather_direct(
        self: &Rc<Self>,
        located: &Located<I>,
        run: Run,
        pieces: &mut Vec<Piece<I>>,
    ) -> Result<(), ReadError> {
        let segment = &located.segment;
        let mut next = located.range.begin;
        let step = u32::try_from(self.shard.config.write_bytes_max).expect("a write is at most 16 MiB");
        let mut from = run.from;
        while from < run.to {
            let to = run.to.min(block_floor(from).saturating_add(step));
            let read = self.read_blocks(segment, from, (to - from) as usize).await?;
            let begin = from as usize % BLOCK_BYTES;
            let range = begin..begin + (to - from) as usize;
            if read.as_ref().len() < range.end {
                let (file, position) = (segment.path().clone(), u64::from(from));
                return Err(ReadError::Corrupt { file, position, why: Corruption::FileTooShort });
            }
            if (from..to).contains(&next.position) {
                let known = (next.position - from) as usize;
                next = walk(segment, &read.as_ref()[range.start + known..range.end], next)?;
            }
            pieces.push(Piece::Memory(SendPiece::Read(read, range)));
            from = to;
        }
        self.shard.counters.count(|metrics| metrics.bytes_read_cold += u64::from(run.bytes()));
        Ok(())
    }

    /// Reads the whole blocks that hold `bytes` bytes from `position` on; less only at the file's end.
    pub(super) async fn read_blocks(
        &self,
        segment: &Rc<SegmentFile<I>>,
        position: u32,
        bytes: usize,
    ) -> Result<I::Bytes, ReadError> {
        let file = segment.direct(&self.shard.io, &self.shard.descriptors).await?;
        let from = block_floor(position);
        let blocks = (position as usize % BLOCK_BYTES + bytes).next_multiple_of(BLOCK_BYTES);
        let read = file.read(u64::from(from), blocks).await;
        Ok(read.map_err(disk(DiskOperation::Read, segment.path()))?)
    }
}

impl<I: Io> State<I> {
    /// The end of the segment's bytes that never change again: all of a sealed segment once it is written, whole
    /// blocks of another.
    fn sendable_end(&self, segment: &SegmentFile<I>) -> u32 {
        let written = segment.written();
        let is_sealed = self.log.active_segment().id() != segment.id();
        let is_whole = self.log.segment(segment.id()).is_some_and(|known| known.end_position() == written);
        if is_sealed && is_whole { written } else { block_floor(written) }
    }
}
