//! What can't be read is said once per segment and cause, however many readers ask for it; and bytes are held against
//! the log before they are handed out.

use core::mem::{Discriminant, discriminant};
use std::io;
use std::path::Path;
use std::rc::Rc;

use engine_io::{Io, SendFile};
use engine_log::{BatchPosition, BatchRange, BatchWalk, WalkStop};
use engine_record::{BATCH_HEADER_BYTES, Offset};

use super::Located;
use super::locate::damaged;
use crate::error::{Corruption, DiskOperation, ReadError, SEGMENT_ADVICE};
use crate::partition::Partition;
use crate::segment_file::SegmentFile;

/// Why a segment can't be read, as far as an operator is told of each only once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum UnreadableCause {
    /// The system refused this.
    Disk(DiskOperation, io::ErrorKind),
    /// The bytes aren't what they were.
    Damage(Discriminant<Corruption>),
}

impl<I: Io> Partition<I> {
    /// Passes an answer on, and tells an operator of a segment that can't be read.
    pub(crate) fn tell_unreadable<T>(&self, answer: Result<T, ReadError>) -> Result<T, ReadError> {
        if let Err(error) = &answer
            && let Some((file, cause)) = cause_of(error)
            && self.check().is_ok()
            && self.segment_at(file).is_some_and(|segment| segment.note_unreadable(cause))
        {
            tracing::error!(partition = %self.at, %error, "records can't be read. {SEGMENT_ADVICE}");
        }
        answer
    }

    fn segment_at(&self, file: &Path) -> Option<Rc<SegmentFile<I>>> {
        self.state.borrow().segments.values().find(|segment| segment.path() == file).cloned()
    }

    /// Whether batches of the log begin where they must in what is about to be sent from the page cache, so that a file
    /// shortened and grown again under the running process is noticed: at the front and at the last place that the index
    /// knows. Looking at all headers would cost as much as the sending; the rest is under the batches' checksums. `false`
    /// where these are in the page cache no more.
    ///
    /// # Errors
    /// [`ReadError::Corrupt`] where another thing lies there.
    pub(super) fn check_cached(
        &self,
        located: &Located<I>,
        file: &I::SendFile,
        sent_to: u32,
    ) -> Result<bool, ReadError> {
        let BatchRange { begin, end } = located.range;
        let last = self.indexed_before(&located.segment, end.offset);
        let places = [Some(begin), last.filter(|last| last.position > begin.position)];
        for at in places.into_iter().flatten() {
            let mut header = [0; BATCH_HEADER_BYTES];
            let is_sent = u64::from(at.position) + BATCH_HEADER_BYTES as u64 <= u64::from(sent_to);
            if !is_sent {
                continue;
            }
            if file.peek(u64::from(at.position), &mut header) < BATCH_HEADER_BYTES {
                return Ok(false);
            }
            walk(&located.segment, &header, at)?;
        }
        Ok(true)
    }

    /// The last place at which the index knows a batch to begin below `end`.
    fn indexed_before(&self, segment: &SegmentFile<I>, end: Offset) -> Option<BatchPosition> {
        let below = Offset::new(end.value() - 1)?;
        let state = self.state.borrow();
        state.log.segment(segment.id())?.index().map(|index| index.floor(below))
    }
}

/// Walks the batches that begin in `bytes`, of which the first begins at `at`; answers where the next one does.
///
/// # Errors
/// [`ReadError::Corrupt`] where one isn't the next of the log.
pub(super) fn walk<I: Io>(
    segment: &SegmentFile<I>,
    bytes: &[u8],
    at: BatchPosition,
) -> Result<BatchPosition, ReadError> {
    let mut walk = BatchWalk::new(bytes, at, u32::MAX);
    while walk.next().is_some() {}
    match walk.stop() {
        Some(WalkStop::Broken(why)) => Err(damaged(segment, walk.at(), why)),
        Some(WalkStop::End | WalkStop::NeedMore) | None => Ok(walk.at()),
    }
}

fn cause_of(error: &ReadError) -> Option<(&Path, UnreadableCause)> {
    match error {
        ReadError::Disk(error) => Some((&error.path, UnreadableCause::Disk(error.operation, error.kind))),
        ReadError::Corrupt { file, why, .. } => Some((file, UnreadableCause::Damage(discriminant(why)))),
        ReadError::OutOfRange { .. } | ReadError::Closed | ReadError::Failed(_) => None,
    }
}
