//! Finding where the batches of a read begin and end.
//!
//! In memory their headers are walked. On disk the index gives both ends where it can: only a reader that starts in
//! the middle of an index interval, or asks for less than one, costs a small read to look at headers.

use std::rc::Rc;

use engine_io::{BLOCK_BYTES, Io};
use engine_log::{BatchPosition, BatchRange, BrokenChain, ReadPlan, ScanRequest, scan};

use super::Located;
use super::memory::Gathered;
use crate::error::{Corruption, ReadError};
use crate::partition::Partition;
use crate::segment_file::SegmentFile;

/// How much is read at once to look at headers, in bytes.
const WINDOW_BYTES: usize = 64 << 10;

impl<I: Io> Partition<I> {
    /// Where the batches lie that answer the read; `None` where there are none.
    pub(super) async fn locate(
        self: &Rc<Self>,
        plan: &ReadPlan,
        at_least_one: bool,
    ) -> Result<Option<Located<I>>, ReadError> {
        let segment = self.segment_file(plan.segment)?;
        let hold = segment.hold();
        let is_sequential = self.state.borrow().recent_ends.ended_at(plan.fetch_offset);
        let request = plan.scan_request(at_least_one);
        let from = self.look_from(plan);
        let in_memory = self.locate_in_memory(&segment, from, &request)?;
        let range = match in_memory {
            Some(range) => range,
            None => self.locate_on_disk(&segment, from, &request).await?,
        };
        Ok(range.map(|range| Located { segment, hold, range, is_sequential }))
    }

    /// The batch wanted itself where that is known, else the last one known before it.
    fn look_from(&self, plan: &ReadPlan) -> BatchPosition {
        let recent = self.state.borrow().recent_ends.position_of(plan.segment, plan.fetch_offset);
        recent.unwrap_or(plan.floor)
    }

    /// `None` where memory doesn't reach back far enough to tell.
    fn locate_in_memory(
        &self,
        segment: &Rc<SegmentFile<I>>,
        from: BatchPosition,
        request: &ScanRequest,
    ) -> Result<Option<Option<BatchRange>>, ReadError> {
        let state = self.state.borrow();
        let reaches_back = state.memory_begins_at(segment).is_some_and(|begins| begins <= from.position);
        if !reaches_back {
            return Ok(None);
        }
        let found = state.scan_memory(segment, from, request);
        found.map(Some).map_err(|(at, cause)| damaged(segment, at, cause))
    }

    async fn locate_on_disk(
        self: &Rc<Self>,
        segment: &Rc<SegmentFile<I>>,
        from: BatchPosition,
        request: &ScanRequest,
    ) -> Result<Option<BatchRange>, ReadError> {
        if from.offset == request.want
            && let Some(end) = self.indexed_end(segment, from, request)
        {
            return Ok(Some(BatchRange { begin: from, end }));
        }
        let first = ScanRequest { max_bytes: 1, at_least_one: true, ..*request };
        let Some(first) = self.scan_windows(segment, from, &first).await? else { return Ok(None) };
        if let Some(end) = self.indexed_end(segment, first.begin, request) {
            return Ok(Some(BatchRange { begin: first.begin, end }));
        }
        self.scan_windows(segment, first.begin, request).await
    }

    /// The last batch boundary the log knows of that ends a read from `begin`: indexed, or the segment's end.
    fn indexed_end(
        &self,
        segment: &SegmentFile<I>,
        begin: BatchPosition,
        request: &ScanRequest,
    ) -> Option<BatchPosition> {
        let state = self.state.borrow();
        let segment = state.log.segment(segment.id())?;
        let fits = |end: &BatchPosition| {
            end.offset <= request.upper
                && u64::from(end.position) <= u64::from(begin.position) + u64::from(request.max_bytes)
        };
        if fits(&segment.end()) {
            return Some(segment.end()).filter(|end| end.position > begin.position);
        }
        let index = segment.index()?;
        let next = |known: &BatchPosition| index.next_above(known.offset);
        core::iter::successors(index.next_above(begin.offset), next).take_while(fits).last()
    }

    /// Walks headers from `from` on, window by window.
    async fn scan_windows(
        self: &Rc<Self>,
        segment: &Rc<SegmentFile<I>>,
        from: BatchPosition,
        request: &ScanRequest,
    ) -> Result<Option<BatchRange>, ReadError> {
        let mut found = Gathered::new(request);
        let mut at = from;
        loop {
            let bytes = ((request.end_position - at.position) as usize).min(WINDOW_BYTES);
            let window =
                if bytes == 0 { Vec::new() } else { self.fetch(segment, at.position, bytes).await? };
            match found.take(scan(&window, at, &found.request())) {
                Some(next) => at = next.map_err(|(at, cause)| damaged(segment, at, cause))?,
                None => return Ok(found.range),
            }
        }
    }

    /// Exactly `bytes` bytes of the segment from `position` on, from memory or disk. They must be in the log.
    pub(crate) async fn fetch(
        self: &Rc<Self>,
        segment: &Rc<SegmentFile<I>>,
        position: u32,
        bytes: usize,
    ) -> Result<Vec<u8>, ReadError> {
        let mut fetched = Vec::with_capacity(bytes);
        while fetched.len() < bytes {
            let at = position + u32::try_from(fetched.len()).expect("a segment's positions have 32 bits");
            let missing = bytes - fetched.len();
            let (in_memory, begins) = {
                let state = self.state.borrow();
                (state.copy_memory(segment, at, missing), state.memory_begins_at(segment))
            };
            if !in_memory.is_empty() {
                fetched.extend(in_memory);
                continue;
            }
            // What memory has may not be on disk yet.
            let on_disk =
                begins.filter(|begins| *begins > at).map_or(missing, |begins| (begins - at) as usize);
            self.fetch_from_disk(segment, at, missing.min(on_disk), &mut fetched).await?;
        }
        Ok(fetched)
    }

    async fn fetch_from_disk(
        &self,
        segment: &Rc<SegmentFile<I>>,
        position: u32,
        bytes: usize,
        fetched: &mut Vec<u8>,
    ) -> Result<(), ReadError> {
        let read = self.read_blocks(segment, position, bytes).await?;
        let block = position as usize % BLOCK_BYTES;
        let Some(found) = read.as_ref().get(block..block + bytes) else {
            let (file, position) = (segment.path().clone(), u64::from(position));
            return Err(ReadError::Corrupt { file, position, why: Corruption::FileTooShort });
        };
        fetched.extend(found);
        Ok(())
    }
}

/// Damage found where a batch of the log must be.
pub(super) fn damaged<I: Io>(segment: &SegmentFile<I>, at: BatchPosition, cause: BrokenChain) -> ReadError {
    let (file, position) = (segment.path().clone(), u64::from(at.position));
    ReadError::Corrupt { file, position, why: Corruption::Batch(cause) }
}
