//! A look at the files of a log that the checkpoint knows, before anything is built on them: whether they are all there
//! and as long as they were, and, where nothing is to be scanned, whether the last batches are what they were.
//!
//! It costs one listing of the folder and two small reads, whatever the log's size. Only the file of a refused append,
//! which lies behind the log's end, is read whole.

use core::ops::Bound;
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};

use engine_io::Io;
use engine_log::{BatchPosition, BatchWalk, BrokenChain, Segment, SegmentId, SegmentSummary, WalkStop};
use engine_record::{BATCH_HEADER_BYTES, RecordBatch};

use crate::error::{Corruption, DiskError, DiskOperation, StoreError, disk};
use crate::layout;

/// How much of a segment is read at once, in bytes.
const WINDOW_BYTES: usize = 64 << 10;

/// How much is read at once of a file that seems to hold nothing, in bytes.
const UNWRITTEN_WINDOW_BYTES: usize = 1 << 20;

/// The segments in a partition's folder and their sizes.
pub(super) struct OnDisk {
    folder: PathBuf,
    /// Whether the folder is there.
    is_there: bool,
    /// Whether a file was made ready for the next segment.
    has_next: bool,
    sizes: BTreeMap<SegmentId, u64>,
    /// The segments that have an index beside them, or had.
    indexes: BTreeSet<SegmentId>,
}

/// Whether a closed log ends where its checkpoint says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ClosedEnd {
    /// It does. Files of segments behind it hold nothing.
    AsRecorded,
    /// There is more behind: the checkpoint is older than the log.
    GoesOn,
}

impl OnDisk {
    /// Lists the segments in `folder`; none where it isn't there.
    pub(super) async fn list<I: Io>(io: &I, folder: &Path) -> Result<Self, DiskError> {
        let listed = match io.list_files(folder).await {
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            files => Some(files.map_err(disk(DiskOperation::ListFolder, folder))?),
        };
        let (is_there, files) = (listed.is_some(), listed.unwrap_or_default());
        let next = layout::next_segment(folder);
        let has_next = files.iter().any(|(name, _)| next.ends_with(name));
        let segments =
            files.iter().filter_map(|(name, size)| Some((SegmentId(layout::segment_base(name)?), *size)));
        let indexes = files.iter().filter_map(|(name, _)| layout::index_base(name).map(SegmentId));
        let (sizes, indexes) = (segments.collect(), indexes.collect());
        Ok(Self { folder: folder.to_owned(), is_there, has_next, sizes, indexes })
    }

    pub(super) fn is_there(&self) -> bool {
        self.is_there
    }

    /// Whether there is nothing that an append into `last` would find in its way.
    pub(super) fn ends_with(&self, last: SegmentId) -> bool {
        let is_behind = self.sizes.last_key_value().is_some_and(|(segment, _)| *segment > last);
        let has_index = self.indexes.last().is_some_and(|index| *index >= last);
        !is_behind && !has_index && !self.has_next
    }

    /// Whether the segment has a file.
    pub(super) fn has(&self, segment: SegmentId) -> bool {
        self.sizes.contains_key(&segment)
    }

    pub(super) fn segments(&self) -> BTreeSet<SegmentId> {
        self.sizes.keys().copied().collect()
    }

    /// The files of segments before `first`, the oldest first.
    pub(super) fn before(&self, first: SegmentId) -> Vec<PathBuf> {
        let segments = self.sizes.range(..first).map(|(id, _)| layout::segment(&self.folder, id.0));
        let indexes = self.indexes.range(..first).map(|id| layout::index(&self.folder, id.0));
        segments.chain(indexes).collect()
    }

    /// The files of segments behind `last`, the last first.
    pub(super) fn behind(&self, last: SegmentId) -> Vec<PathBuf> {
        let behind = (Bound::Excluded(last), Bound::Unbounded);
        let segments = self.sizes.range(behind).rev().map(|(id, _)| layout::segment(&self.folder, id.0));
        let indexes = self.indexes.range(behind).rev().map(|id| layout::index(&self.folder, id.0));
        segments.chain(indexes).collect()
    }

    /// Whether every segment that has batches is there and no shorter than they are.
    ///
    /// # Errors
    /// [`StoreError::Corrupt`] with the first that isn't.
    pub(super) fn check_sizes(&self, known: &[SegmentSummary]) -> Result<(), StoreError> {
        for segment in known.iter().filter(|segment| !segment.is_empty()) {
            let damaged =
                |position, why| StoreError::Corrupt { file: self.path(segment.segment), position, why };
            match self.sizes.get(&segment.segment) {
                None => return Err(damaged(0, Corruption::FileMissing)),
                Some(size) if *size < u64::from(segment.end_position) => {
                    return Err(damaged(*size, Corruption::FileTooShort));
                }
                Some(_) => {}
            }
        }
        Ok(())
    }

    /// Looks at the end of a closed log's active segment.
    ///
    /// # Errors
    /// [`StoreError::Corrupt`] where its last batches aren't what they were; else as the system says.
    pub(super) async fn check_end<I: Io>(&self, io: &I, active: &Segment) -> Result<ClosedEnd, StoreError> {
        self.check_last_batches(io, active).await?;
        let ends = !self.has_batch(io, active.id(), active.end()).await?
            && self.is_unwritten_behind(io, active.id()).await?;
        Ok(if ends { ClosedEnd::AsRecorded } else { ClosedEnd::GoesOn })
    }

    /// Walks the batches behind the last indexed one: each is the next, and has its checksum where it isn't too large.
    async fn check_last_batches<I: Io>(&self, io: &I, active: &Segment) -> Result<(), StoreError> {
        let end = active.end();
        let mut at = active.index().map_or(end, |index| index.floor(end.offset));
        while at.position < end.position {
            let bytes = WINDOW_BYTES.min((end.position - at.position) as usize);
            let window = self.read(io, active.id(), at.position, bytes).await?;
            at = walk(&window, at, end).map_err(|(at, why)| self.corrupt(active.id(), at, why.into()))?;
        }
        Ok(())
    }

    /// Whether the batch that belongs at `at` is there.
    async fn has_batch<I: Io>(&self, io: &I, id: SegmentId, at: BatchPosition) -> Result<bool, StoreError> {
        if !self.sizes.contains_key(&id) {
            return Ok(false);
        }
        let header = self.read(io, id, at.position, BATCH_HEADER_BYTES).await?;
        Ok(BatchWalk::new(&header, at, u32::MAX).next().is_some())
    }

    /// Whether the segments behind `last` were never written to: an append had made such a file, and then found no
    /// space. Read whole: a file is removed for it.
    async fn is_unwritten_behind<I: Io>(&self, io: &I, last: SegmentId) -> Result<bool, StoreError> {
        for (id, size) in self.sizes.range((Bound::Excluded(last), Bound::Unbounded)) {
            for position in (0..*size).step_by(UNWRITTEN_WINDOW_BYTES) {
                let Ok(position) = u32::try_from(position) else { return Ok(false) };
                let window = self.read(io, *id, position, UNWRITTEN_WINDOW_BYTES).await?;
                if window.iter().any(|byte| *byte != 0) {
                    return Ok(false);
                }
            }
        }
        Ok(true)
    }

    async fn read<I: Io>(
        &self,
        io: &I,
        id: SegmentId,
        position: u32,
        bytes: usize,
    ) -> Result<Vec<u8>, DiskError> {
        let path = self.path(id);
        io.read_range(&path, u64::from(position), bytes).await.map_err(disk(DiskOperation::Read, &path))
    }

    fn path(&self, id: SegmentId) -> PathBuf {
        layout::segment(&self.folder, id.0)
    }

    fn corrupt(&self, id: SegmentId, at: BatchPosition, why: Corruption) -> StoreError {
        StoreError::Corrupt { file: self.path(id), position: u64::from(at.position), why }
    }
}

/// Walks the batches from `at` on that begin in `window`; answers where to go on.
fn walk(
    window: &[u8],
    at: BatchPosition,
    end: BatchPosition,
) -> Result<BatchPosition, (BatchPosition, BrokenChain)> {
    let mut walk = BatchWalk::new(window, at, end.position);
    while let Some((begin, _)) = walk.next() {
        let range = (begin.position - at.position) as usize..(walk.at().position - at.position) as usize;
        if let Some(batch) = window.get(range) {
            RecordBatch::parse(batch).map_err(|why| (begin, why.into()))?;
        }
    }
    let reached = walk.at();
    match walk.stop().expect("a walk that ended says why") {
        WalkStop::Broken(why) => Err((reached, why)),
        WalkStop::NeedMore if reached == at => Err((at, BrokenChain::Cut)),
        WalkStop::NeedMore => Ok(reached),
        WalkStop::End if reached.offset == end.offset => Ok(reached),
        WalkStop::End => {
            Err((reached, BrokenChain::BaseOffset { expected: end.offset, found: reached.offset.value() }))
        }
    }
}
