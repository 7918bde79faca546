//! Walking from batch to batch by their headers alone.

use engine_record::{BatchHeader, CorruptBatch, Offset};

use crate::error::BrokenChain;
use crate::read::BatchPosition;

/// Walks the batches of a segment in a window of its bytes, from a batch boundary on. Only headers are looked at, so
/// the last batch may reach out of the window. Each batch must carry exactly the offset that comes next.
#[derive(Clone, Debug)]
pub struct BatchWalk<'a> {
    window: &'a [u8],
    at: BatchPosition,
    end_position: u32,
    stop: Option<WalkStop>,
}

/// Why a walk ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WalkStop {
    /// At the segment's end.
    End,
    /// The window holds no whole header any more: go on with another one that begins at [`BatchWalk::at`].
    NeedMore,
    /// At something that isn't the next batch.
    Broken(BrokenChain),
}

impl<'a> BatchWalk<'a> {
    /// A walk over `window`, whose first byte is that of the batch at `at`, in a segment that ends at `end_position`.
    #[must_use]
    pub const fn new(window: &'a [u8], at: BatchPosition, end_position: u32) -> Self {
        Self { window, at, end_position, stop: None }
    }

    /// Where the next batch begins, or where the walk ended.
    #[must_use]
    pub const fn at(&self) -> BatchPosition {
        self.at
    }

    /// Why the walk ended; `None` while it goes on.
    #[must_use]
    pub const fn stop(&self) -> Option<WalkStop> {
        self.stop
    }

    fn step(&mut self) -> Result<(BatchPosition, BatchHeader), WalkStop> {
        let begin = self.at;
        if begin.position >= self.end_position {
            return Err(WalkStop::End);
        }
        let header = match BatchHeader::parse(self.window, u32::MAX) {
            Ok(header) => header,
            Err(CorruptBatch::HeaderIncomplete { .. }) => return Err(self.header_incomplete()),
            Err(corrupt) => return Err(WalkStop::Broken(corrupt.into())),
        };
        let next = next_batch(&header, begin).map_err(WalkStop::Broken)?;
        if next.position > self.end_position {
            return Err(WalkStop::Broken(BrokenChain::PastEnd { end_position: self.end_position }));
        }
        assert!(next.offset > begin.offset, "a walk gets on");
        assert!(next.position > begin.position, "a walk gets on");
        self.window = self.window.get(header.batch_bytes as usize..).unwrap_or_default();
        self.at = next;
        Ok((begin, header))
    }

    /// Fewer bytes than a header: the window's end, unless the segment ends there too.
    fn header_incomplete(&self) -> WalkStop {
        assert!(self.window.len() < engine_record::BATCH_HEADER_BYTES, "a whole header is looked at");
        let header_end = u64::from(self.at.position) + engine_record::BATCH_HEADER_BYTES as u64;
        if header_end > u64::from(self.end_position) {
            return WalkStop::Broken(BrokenChain::PastEnd { end_position: self.end_position });
        }
        WalkStop::NeedMore
    }
}

impl Iterator for BatchWalk<'_> {
    type Item = (BatchPosition, BatchHeader);

    fn next(&mut self) -> Option<Self::Item> {
        if self.stop.is_some() {
            return None;
        }
        self.step().map_err(|stop| self.stop = Some(stop)).ok()
    }
}

/// Where the batch behind the one at `begin` begins, if that is the batch that belongs there.
pub(crate) fn next_batch(header: &BatchHeader, begin: BatchPosition) -> Result<BatchPosition, BrokenChain> {
    if Offset::new(header.base_offset) != Some(begin.offset) {
        return Err(BrokenChain::BaseOffset { expected: begin.offset, found: header.base_offset });
    }
    let offset = begin.offset.checked_add(u64::from(header.last_offset_delta) + 1);
    let position = begin.position.checked_add(header.batch_bytes);
    let next = offset.zip(position).map(|(offset, position)| BatchPosition { offset, position });
    assert!(next.is_none_or(|next| next.offset > begin.offset), "a batch has at least one offset");
    next.ok_or(BrokenChain::OffsetOverflow)
}
