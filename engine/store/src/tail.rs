//! The tail: a partition's newest bytes in memory, where readers that keep up find them.
//!
//! Its chunks are the frozen buffers of the appends. What isn't written yet is never dropped; the rest goes oldest
//! first when the partition has more than its share, or when appends need the pool's memory.

use std::collections::VecDeque;
use std::rc::Rc;

use engine_io::{Buffer, Io};
use engine_log::SegmentId;

use crate::permits::Permit;

/// A frozen buffer with bytes of one segment.
pub(crate) struct TailChunk<I: Io> {
    pub(crate) segment: SegmentId,
    /// Where it begins in the segment; a multiple of a block.
    pub(crate) start: u32,
    /// The first byte behind the batches in it.
    pub(crate) end: u32,
    pub(crate) buffer: Rc<I::Buffer>,
    /// The memory it takes of the pool; given back when the chunk is dropped.
    pub(crate) permit: Permit,
    /// Its age among all chunks of the shard: larger is younger.
    pub(crate) number: u64,
    pub(crate) is_written: bool,
}

/// The chunks of one partition, oldest first.
pub(crate) struct Tail<I: Io> {
    chunks: VecDeque<TailChunk<I>>,
    /// Pool memory they take, in bytes.
    bytes: usize,
}

impl<I: Io> Tail<I> {
    pub(crate) fn new() -> Self {
        Self { chunks: VecDeque::new(), bytes: 0 }
    }

    pub(crate) fn push(&mut self, chunk: TailChunk<I>) {
        self.bytes += chunk.permit.count();
        self.chunks.push_back(chunk);
    }

    /// Notes that the chunk of that number is on disk.
    pub(crate) fn complete_write(&mut self, number: u64) {
        let found = self.chunks.iter_mut().rev().find(|chunk| chunk.number == number);
        found.expect("what isn't written stays in the tail").is_written = true;
    }

    /// Takes the oldest chunk out; `None` where there is none or it isn't written.
    pub(crate) fn evict_oldest(&mut self) -> Option<TailChunk<I>> {
        if !self.chunks.front()?.is_written {
            return None;
        }
        let chunk = self.chunks.pop_front()?;
        self.bytes -= chunk.permit.count();
        Some(chunk)
    }

    /// Pool memory its chunks take, in bytes.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// The number of the oldest chunk.
    pub(crate) fn oldest(&self) -> Option<u64> {
        self.chunks.front().map(|chunk| chunk.number)
    }

    /// The numbers of all chunks.
    pub(crate) fn numbers(&self) -> impl Iterator<Item = u64> {
        self.chunks.iter().map(|chunk| chunk.number)
    }

    /// Where in `segment` the tail begins; `None` where it has nothing of it.
    pub(crate) fn begins_at(&self, segment: SegmentId) -> Option<u32> {
        self.chunks.iter().find(|chunk| chunk.segment == segment).map(|chunk| chunk.start)
    }

    /// The chunk with the byte at `position`, the youngest if several have it.
    ///
    /// A younger chunk begins with a copy of the older one's partial block, which is the same bytes.
    pub(crate) fn chunk_at(&self, segment: SegmentId, position: u32) -> Option<&TailChunk<I>> {
        let mut chunks = self.chunks.iter().rev().filter(|chunk| chunk.segment == segment);
        chunks.find(|chunk| chunk.start <= position && position < chunk.end)
    }
}

impl<I: Io> TailChunk<I> {
    /// Its bytes from `position` on.
    pub(crate) fn bytes_from(&self, position: u32) -> &[u8] {
        let filled = (self.end - self.start) as usize;
        &self.buffer.as_slice()[(position - self.start) as usize..filled]
    }
}
