//! Chunks: the buffers in which batches lie on their way to disk.
//!
//! ```text
//!  file    |....|....|....|....|....|....|        blocks
//!  frozen       [####|####|##00]                  being written: padded with zeros, never touched again
//!  filling                [##++|+   |    ]        begins with a copy of the frozen one's last, partial block
//! ```
//!
//! Nothing here does I/O: [`Fill`] is told where a batch goes and what memory it may take, and says what to write.

use std::collections::VecDeque;
use std::rc::Rc;

use engine_io::{BLOCK_BYTES, Buffer, Io};
use engine_record::{BATCH_HEADER_BYTES, CHECKSUM_FROM, CorruptBatch, copy_and_checksum};

use crate::permits::Permit;
use crate::segment_file::SegmentFile;

/// A buffer being filled, the last of them still open for more.
struct Chunk<I: Io> {
    segment: Rc<SegmentFile<I>>,
    file: Rc<I::File>,
    buffer: I::Buffer,
    /// The memory it takes of the pool.
    permit: Permit,
    /// Where it begins in its segment; a multiple of a block.
    start: u32,
    /// How much of it is filled. What lies behind is zero.
    filled: usize,
}

impl<I: Io> Chunk<I> {
    fn bytes(&self) -> usize {
        self.buffer.as_slice().len()
    }

    fn room(&self) -> usize {
        self.bytes() - self.filled
    }

    fn end(&self) -> u32 {
        self.start + position(self.filled)
    }
}

/// Memory taken for one append before its place is sure.
pub(crate) struct FreshMemory<I: Io> {
    buffers: VecDeque<I::Buffer>,
    permit: Permit,
}

impl<I: Io> FreshMemory<I> {
    /// Buffers of the given sizes, paid for with `permit`.
    pub(crate) fn new(io: &I, sizes: &[usize], permit: Permit) -> Self {
        Self { buffers: sizes.iter().map(|bytes| io.buffer(*bytes)).collect(), permit }
    }

    /// Whether it is as much as buffers of the given sizes.
    pub(crate) fn covers(&self, sizes: &[usize]) -> bool {
        let bytes: usize = self.buffers.iter().map(|buffer| buffer.as_slice().len()).sum();
        bytes >= sizes.iter().sum()
    }

    /// The only buffer there is, and what it is paid for with.
    pub(crate) fn into_single(mut self) -> (I::Buffer, Permit) {
        let single = self.take();
        assert!(self.buffers.is_empty(), "one buffer was taken");
        single
    }

    fn take(&mut self) -> (I::Buffer, Permit) {
        let buffer = self.buffers.pop_front().expect("an append takes as much memory as it needs");
        let permit = self.permit.split(buffer.as_slice().len());
        (buffer, permit)
    }
}

/// Where a batch goes.
pub(crate) struct Place<I: Io> {
    pub(crate) segment: Rc<SegmentFile<I>>,
    pub(crate) file: Rc<I::File>,
    /// Its first byte in the segment: where everything appended to it so far ends.
    pub(crate) position: u32,
}

/// One write to a segment: whole blocks that nothing changes any more.
pub(crate) struct SegmentWrite<I: Io> {
    pub(crate) segment: Rc<SegmentFile<I>>,
    pub(crate) file: Rc<I::File>,
    pub(crate) buffer: Rc<I::Buffer>,
    /// Where it begins in the segment; a multiple of a block.
    pub(crate) start: u32,
    /// The first byte behind the batches in it, in the segment. The rest of its last block is zeros.
    pub(crate) end: u32,
}

/// What the appends of one partition have filled and nothing has written yet.
pub(crate) struct Fill<I: Io> {
    chunks: VecDeque<Chunk<I>>,
    /// The bytes of the log's last, partial block once nothing is filled; `None` where they must be read from disk.
    head: Option<Vec<u8>>,
    /// How much the last write had, to size the next buffer.
    last_bytes: usize,
}

/// How much was filled at some moment.
#[derive(Clone, Copy)]
struct Mark {
    chunks: usize,
    filled: usize,
}

impl<I: Io> Fill<I> {
    /// For a log that ends at `position` of its last segment.
    pub(crate) fn new(position: u32) -> Self {
        let head = if block_remainder(position) == 0 { Some(Vec::new()) } else { None };
        Self { chunks: VecDeque::new(), head, last_bytes: 0 }
    }

    /// How much the last write had, in bytes.
    pub(crate) fn last_bytes(&self) -> usize {
        self.last_bytes
    }

    /// Whether nothing waits to be written.
    pub(crate) fn is_empty(&self) -> bool {
        self.chunks.is_empty()
    }

    /// Whether the partial block in front of `position`, where the log ends, must be read before more is appended.
    pub(crate) fn lacks_head(&self, position: u32) -> bool {
        block_remainder(position) != 0 && self.chunks.is_empty() && self.head.is_none()
    }

    /// Takes what was read of the partial block at the log's end.
    pub(crate) fn set_head(&mut self, head: Vec<u8>) {
        assert!(head.len() < BLOCK_BYTES, "a partial block is less than a block");
        self.head = Some(head);
    }

    /// The sizes of the buffers an append of `bytes` to `segment` at `position` needs besides those there are.
    ///
    /// While a write is under way more will come, so buffers grow until one holds what comes during a write.
    pub(crate) fn sizes_needed(
        &self,
        place: &Place<I>,
        bytes: usize,
        is_writing: bool,
        bytes_max: usize,
    ) -> Vec<usize> {
        let mut left = match self.continued(place) {
            Some(last) => bytes.saturating_sub(last.room()),
            None => block_remainder(place.position) + bytes,
        };
        // A chunk waiting to be written is followed by another only once it is full.
        let waiting = self.chunks.back().map_or(0, |last| last.buffer.as_slice().len());
        let last_bytes = self.last_bytes.max(waiting);
        let least = if is_writing { last_bytes.saturating_mul(2).min(bytes_max) } else { 0 };
        let mut sizes = Vec::new();
        while left > 0 {
            let size = left.max(least).min(bytes_max).next_multiple_of(BLOCK_BYTES);
            sizes.push(size);
            left = left.saturating_sub(size);
        }
        sizes
    }

    /// The last chunk, where the place continues it.
    fn continued(&self, place: &Place<I>) -> Option<&Chunk<I>> {
        let last = self.chunks.back().filter(|last| Rc::ptr_eq(&last.segment, &place.segment))?;
        assert_eq!(last.end(), place.position, "a batch goes where the last one ends");
        Some(last)
    }

    /// Copies a batch to its place: the bytes in front of the checksum's reach from `header`, the rest from `batch`.
    ///
    /// # Errors
    /// The checksum of the copy isn't `crc`; nothing has changed then.
    ///
    /// # Panics
    /// Where `memory` is less than [`Fill::sizes_needed`], or the partial block wasn't read.
    pub(crate) fn copy(
        &mut self,
        place: &Place<I>,
        header: &[u8; BATCH_HEADER_BYTES],
        batch: &[u8],
        crc: u32,
        mut memory: Option<FreshMemory<I>>,
    ) -> Result<(), CorruptBatch> {
        let before = self.mark();
        self.push(place, &header[..CHECKSUM_FROM], &mut memory);
        let copied = self.push(place, &batch[CHECKSUM_FROM..], &mut memory);
        if copied == crc {
            return Ok(());
        }
        self.undo(before);
        Err(CorruptBatch::Checksum { stored: crc, computed: copied })
    }

    fn mark(&self) -> Mark {
        Mark { chunks: self.chunks.len(), filled: self.chunks.back().map_or(0, |last| last.filled) }
    }

    fn undo(&mut self, to: Mark) {
        self.chunks.truncate(to.chunks);
        if let Some(last) = self.chunks.back_mut() {
            last.buffer.as_mut_slice()[to.filled..last.filled].fill(0);
            last.filled = to.filled;
        }
    }

    /// Copies `bytes` behind what was filled last, into fresh chunks where the last one is full. Returns their CRC-32C.
    fn push(&mut self, place: &Place<I>, mut bytes: &[u8], memory: &mut Option<FreshMemory<I>>) -> u32 {
        let mut crc = None;
        while !bytes.is_empty() {
            let chunk = self.open_chunk(place, memory);
            let (now, later) = bytes.split_at(bytes.len().min(chunk.room()));
            let target = &mut chunk.buffer.as_mut_slice()[chunk.filled..][..now.len()];
            let copied = copy_and_checksum(now, target);
            crc = Some(crc.map_or(copied, |before| crc32c::crc32c_combine(before, copied, now.len())));
            chunk.filled += now.len();
            bytes = later;
        }
        crc.unwrap_or(0)
    }

    /// The last chunk of the place's segment, or a fresh one where it is full or there is none.
    fn open_chunk(&mut self, place: &Place<I>, memory: &mut Option<FreshMemory<I>>) -> &mut Chunk<I> {
        let last = self.chunks.back().filter(|last| Rc::ptr_eq(&last.segment, &place.segment));
        let (start, is_full) = last.map_or((place.position, true), |last| (last.end(), last.room() == 0));
        if is_full {
            let memory = memory.as_mut().expect("an append takes as much memory as it needs");
            let chunk = self.fresh_chunk(place, start, memory.take());
            self.chunks.push_back(chunk);
        }
        self.chunks.back_mut().expect("one was there or is now")
    }

    fn fresh_chunk(&self, place: &Place<I>, at: u32, memory: (I::Buffer, Permit)) -> Chunk<I> {
        let (mut buffer, permit) = memory;
        let filled = block_remainder(at);
        if filled > 0 {
            let head = self.head.as_deref().expect("the partial block was read before");
            assert_eq!(head.len(), filled, "a chunk continues where the log ends");
            buffer.as_mut_slice()[..filled].copy_from_slice(head);
        }
        let (segment, file) = (Rc::clone(&place.segment), Rc::clone(&place.file));
        Chunk { segment, file, buffer, permit, start: at - position(filled), filled }
    }

    /// Freezes the first chunk to be written, and hands over the pool memory it takes; `None` where nothing is filled.
    pub(crate) fn next_write(&mut self) -> Option<(SegmentWrite<I>, Permit)> {
        let mut chunk = self.chunks.pop_front()?;
        let partial = chunk.filled % BLOCK_BYTES;
        if self.chunks.is_empty() {
            self.head = Some(chunk.buffer.as_slice()[chunk.filled - partial..chunk.filled].to_vec());
        }
        let end = chunk.end();
        self.last_bytes = chunk.filled;
        chunk.buffer.trim(chunk.filled.next_multiple_of(BLOCK_BYTES));
        let Chunk { segment, file, buffer, permit, start, .. } = chunk;
        Some((SegmentWrite { segment, file, buffer: Rc::new(buffer), start, end }, permit))
    }

    /// Where in `segment` the bytes begin that are filled and not frozen; `None` where there are none.
    pub(crate) fn begins_at(&self, segment: &Rc<SegmentFile<I>>) -> Option<u32> {
        let first = self.chunks.iter().find(|chunk| Rc::ptr_eq(&chunk.segment, segment))?;
        Some(first.start)
    }

    /// The filled bytes of `segment` from `from` on, as far as they lie in one chunk.
    pub(crate) fn filled_from(&self, segment: &Rc<SegmentFile<I>>, from: u32) -> Option<&[u8]> {
        let mut chunks = self.chunks.iter().filter(|chunk| Rc::ptr_eq(&chunk.segment, segment));
        let chunk = chunks.find(|chunk| chunk.start <= from && from < chunk.end())?;
        chunk.buffer.as_slice().get((from - chunk.start) as usize..chunk.filled)
    }
}

/// How far into its block a position lies.
pub(crate) fn block_remainder(position: u32) -> usize {
    position as usize % BLOCK_BYTES
}

/// The first byte of the block that `position` lies in.
pub(crate) fn block_floor(position: u32) -> u32 {
    position - self::position(block_remainder(position))
}

/// A position or distance in a segment, whose size has 32 bits.
fn position(bytes: usize) -> u32 {
    u32::try_from(bytes).expect("a segment's positions have 32 bits")
}
