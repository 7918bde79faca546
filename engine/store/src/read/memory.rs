//! What of a segment is in memory: the tail's frozen chunks, and behind them what is still being filled.

use std::rc::Rc;

use engine_io::{Io, SendPiece};
use engine_log::{BatchPosition, BatchRange, ScanRequest, ScanStep, scan};
use engine_record::BATCH_HEADER_BYTES;

use crate::partition::State;
use crate::segment_file::SegmentFile;

impl<I: Io> State<I> {
    /// Where in `segment` memory begins, from which on it has everything; `None` where it has nothing.
    pub(crate) fn memory_begins_at(&self, segment: &Rc<SegmentFile<I>>) -> Option<u32> {
        self.tail.begins_at(segment.id()).or_else(|| self.fill.begins_at(segment))
    }

    /// The bytes in memory from `position` on, as far as they lie in one buffer.
    pub(crate) fn memory_from(&self, segment: &Rc<SegmentFile<I>>, position: u32) -> Option<&[u8]> {
        match self.tail.chunk_at(segment.id(), position) {
            Some(chunk) => Some(chunk.bytes_from(position)),
            None => self.fill.filled_from(segment, position),
        }
    }

    /// Up to `bytes` bytes in memory from `position` on, copied together.
    pub(crate) fn copy_memory(&self, segment: &Rc<SegmentFile<I>>, position: u32, bytes: usize) -> Vec<u8> {
        let mut copied = Vec::with_capacity(bytes);
        while copied.len() < bytes {
            let at = position + u32::try_from(copied.len()).expect("a segment's positions have 32 bits");
            let Some(more) = self.memory_from(segment, at) else { break };
            copied.extend(more.iter().take(bytes - copied.len()));
        }
        copied
    }

    /// Pieces of memory from `begin` to `end`.
    ///
    /// # Panics
    /// Where memory doesn't have all of it.
    pub(crate) fn memory_pieces(
        &self,
        segment: &Rc<SegmentFile<I>>,
        begin: u32,
        end: u32,
    ) -> Vec<SendPiece<I>> {
        let mut pieces = Vec::new();
        let mut at = begin;
        while at < end {
            let left = (end - at) as usize;
            let piece = match self.tail.chunk_at(segment.id(), at) {
                Some(chunk) => {
                    let from = (at - chunk.start) as usize;
                    let to = from + left.min((chunk.end - at) as usize);
                    SendPiece::Buffer(Rc::clone(&chunk.buffer), from..to)
                }
                None => {
                    // Still being filled: such bytes change their place when frozen, so the reader gets a copy.
                    let filled =
                        self.fill.filled_from(segment, at).expect("memory has everything to the log's end");
                    SendPiece::Owned(filled[..left.min(filled.len())].to_vec())
                }
            };
            at += u32::try_from(piece.as_slice().len()).expect("a segment's positions have 32 bits");
            pieces.push(piece);
        }
        pieces
    }

    /// Finds the batches to answer a read with, all of them in memory; `Err` with where it is damaged.
    pub(crate) fn scan_memory(
        &self,
        segment: &Rc<SegmentFile<I>>,
        from: BatchPosition,
        request: &ScanRequest,
    ) -> Result<Option<BatchRange>, (BatchPosition, engine_log::BrokenChain)> {
        let mut found = Gathered::new(request);
        let mut at = from;
        loop {
            let window = self.memory_from(segment, at.position).unwrap_or_default();
            // A header that lies in two buffers is put together.
            let joined = if window.len() < BATCH_HEADER_BYTES {
                self.copy_memory(segment, at.position, BATCH_HEADER_BYTES)
            } else {
                Vec::new()
            };
            let window = if joined.is_empty() { window } else { &joined };
            match found.take(scan(window, at, &found.request())) {
                Some(next) => {
                    let next = next?;
                    assert!(next.position > at.position, "memory has whole headers up to the log's end");
                    at = next;
                }
                None => return Ok(found.range),
            }
        }
    }
}

/// A scan over several windows.
pub(super) struct Gathered {
    request: ScanRequest,
    pub(super) range: Option<BatchRange>,
}

impl Gathered {
    pub(super) fn new(request: &ScanRequest) -> Self {
        Self { request: *request, range: None }
    }

    /// What is still looked for.
    pub(super) fn request(&self) -> ScanRequest {
        match &self.range {
            None => self.request,
            Some(range) => ScanRequest {
                want: range.end.offset,
                max_bytes: self.request.max_bytes.saturating_sub(range.bytes()),
                at_least_one: false,
                ..self.request
            },
        }
    }

    /// Takes a window's findings in; answers where to look on, or `None` at the end.
    pub(super) fn take(
        &mut self,
        step: ScanStep,
    ) -> Option<Result<BatchPosition, (BatchPosition, engine_log::BrokenChain)>> {
        match step {
            ScanStep::Found(more) => {
                self.extend(more);
                None
            }
            ScanStep::Empty => None,
            ScanStep::NeedMore { so_far, next } => {
                so_far.inspect(|more| self.extend(*more));
                Some(Ok(next))
            }
            ScanStep::Broken { at, cause } => Some(Err((at, cause))),
        }
    }

    fn extend(&mut self, more: BatchRange) {
        let begin = self.range.map_or(more.begin, |range| range.begin);
        self.range = Some(BatchRange { begin, end: more.end });
    }
}
