//! Scanning the segments of one log, from a place where all is known to the end of what is good.

use std::collections::BTreeSet;
use std::path::Path;
use std::rc::Rc;

use engine_io::{BLOCK_BYTES, DirectFile, Io, OpenMode};
use engine_log::{
    BatchPosition, BrokenChain, Checkpoint, LeaderEpochs, LogConfig, Producers, RecoveredSegment,
    RecoveryScan, ScanEnd, ScanOutcome, ScanProgress, SegmentId, decode_sidecar,
};

use crate::chunk::block_remainder;
use crate::error::{Corruption, DiskError, DiskOperation, StoreError, disk};
use crate::layout;
use crate::shard::Shard;

/// How much is read at once, in bytes.
const READ_BYTES: usize = 1 << 20;

/// The largest sidecar that is read, in bytes.
const SIDECAR_BYTES_MAX: usize = 17 << 20;

/// What a scan found: segments without a gap, and the file of each that has one.
pub(super) struct Scanned<I: Io> {
    pub(super) segments: Vec<RecoveredSegment>,
    pub(super) files: Vec<(SegmentId, I::File)>,
    pub(super) leader_epochs: LeaderEpochs,
    pub(super) producers: Producers,
    /// What was found behind the last good batch where it wasn't just zeros.
    pub(super) cause: Option<BrokenChain>,
    /// How many bytes of batches were scanned.
    pub(super) bytes: u64,
}

impl<I: Io> Scanned<I> {
    fn last(&self) -> &RecoveredSegment {
        self.segments.last().expect("a scan begins in a segment")
    }

    /// Whether there was nothing behind where the scan began, whole or torn.
    pub(super) fn is_nothing_new(&self) -> bool {
        self.bytes == 0 && self.cause.is_none() && self.segments.len() == 1
    }

    /// The segment that becomes active.
    pub(super) fn last_segment(&self) -> SegmentId {
        self.last().summary.segment
    }

    /// Where the last good batch ends.
    pub(super) fn end(&self) -> BatchPosition {
        let summary = &self.last().summary;
        BatchPosition { offset: summary.end_offset, position: summary.end_position }
    }
}

/// Scans from `start` on, from segment to segment as long as one begins where the other ends.
///
/// # Errors
/// Damage below the durable position; else as the system says.
pub(super) async fn scan_chain<I: Io>(
    shard: &Rc<Shard<I>>,
    folder: &Path,
    start: Checkpoint,
    config: LogConfig,
    on_disk: &BTreeSet<SegmentId>,
) -> Result<Scanned<I>, StoreError> {
    let (mut segments, mut files, mut bytes) = (Vec::new(), Vec::new(), 0);
    let mut start = start;
    loop {
        let id = start.summary.segment;
        let begin = start.begin().position;
        let file = if on_disk.contains(&id) { Some(open(shard, folder, id).await?) } else { None };
        let outcome = scan_segment(shard, folder, start, config, file.as_ref()).await?;
        files.extend(file.map(|file| (id, file)));
        bytes += u64::from(outcome.segment.summary.end_position - begin);
        let cause = judge(folder, id, &outcome)?;
        let next = SegmentId(outcome.segment.summary.end_offset);
        if next == id || !on_disk.contains(&next) {
            let ScanOutcome { segment, leader_epochs, producers, .. } = outcome;
            segments.push(segment);
            return Ok(Scanned { segments, files, leader_epochs, producers, cause, bytes });
        }
        let (segment, following) = outcome.into_following(0);
        segments.push(segment);
        start = following;
    }
}

/// What ended the scan of a segment, where that is no damage to durable bytes.
fn judge(folder: &Path, id: SegmentId, outcome: &ScanOutcome) -> Result<Option<BrokenChain>, StoreError> {
    match outcome.end {
        ScanEnd::Clean => Ok(None),
        ScanEnd::Torn { cause, .. } => Ok(Some(cause)),
        ScanEnd::Corrupt { at, cause } => {
            let (file, position) = (layout::segment(folder, id.0), u64::from(at.position));
            Err(StoreError::Corrupt { file, position, why: Corruption::Batch(cause) })
        }
    }
}

async fn open<I: Io>(shard: &Shard<I>, folder: &Path, id: SegmentId) -> Result<I::File, DiskError> {
    let (io, path) = (&shard.io, layout::segment(folder, id.0));
    let opened = shard.descriptors.spare(io, async || io.open(&path, OpenMode::Existing).await).await;
    opened.map_err(disk(DiskOperation::Open, &path))
}

async fn scan_segment<I: Io>(
    shard: &Rc<Shard<I>>,
    folder: &Path,
    start: Checkpoint,
    config: LogConfig,
    file: Option<&I::File>,
) -> Result<ScanOutcome, StoreError> {
    let begin = start.begin().position;
    let id = start.summary.segment;
    let mut scan = RecoveryScan::new(start, config, shard.io.timestamp());
    if begin > 0
        && let Ok(stored) = shard.io.read_file(&layout::index(folder, id.0), SIDECAR_BYTES_MAX).await
        && let Ok((_, index)) = decode_sidecar(&stored)
    {
        scan = scan.with_index(index);
    }
    if let Some(file) = file {
        let path = layout::segment(folder, id.0);
        let size = file.size().await.map_err(disk(DiskOperation::Read, &path))?;
        if size < u64::from(begin) {
            return Err(StoreError::Corrupt { file: path, position: size, why: Corruption::FileTooShort });
        }
        feed(file, &path, begin, &mut scan).await?;
    }
    Ok(scan.finish())
}

/// Feeds the file's bytes from `begin` on until the scan stops or the file ends.
async fn feed<F: DirectFile>(
    file: &F,
    path: &Path,
    begin: u32,
    scan: &mut RecoveryScan,
) -> Result<(), DiskError> {
    let mut skip = block_remainder(begin);
    let mut position = u64::from(begin) - skip as u64;
    loop {
        let read = file.read(position, READ_BYTES).await.map_err(disk(DiskOperation::Read, path))?;
        let bytes = read.as_ref();
        if scan.feed(bytes.get(skip..).unwrap_or_default()) == ScanProgress::Stopped
            || bytes.len() < READ_BYTES
        {
            return Ok(());
        }
        skip = 0;
        position += READ_BYTES as u64;
    }
}

/// How many bytes behind `end` were written, up to the last that isn't zero. Looks from the file's end on backwards: it
/// reads the space ahead and little more, however much was written.
///
/// # Errors
/// As the system says.
pub(super) async fn written_behind<F: DirectFile>(file: &F, path: &Path, end: u32) -> Result<u64, DiskError> {
    let (end, step) = (u64::from(end), READ_BYTES as u64);
    let mut to = file.size().await.map_err(disk(DiskOperation::Read, path))?;
    while to > end {
        let from = (to - 1) / step * step;
        let read = file.read(from, READ_BYTES).await.map_err(disk(DiskOperation::Read, path))?;
        let written =
            read.as_ref().iter().rposition(|byte| *byte != 0).map_or(0, |last| from + last as u64 + 1);
        if written > from {
            return Ok(written.saturating_sub(end));
        }
        to = from;
    }
    Ok(0)
}

const _: () = assert!(READ_BYTES.is_multiple_of(BLOCK_BYTES), "reads are of whole blocks");
