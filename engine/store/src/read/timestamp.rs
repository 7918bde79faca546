//! Finding a record by its time: the log names a segment and where to look, the records themselves decide.

use std::rc::Rc;

use engine_io::Io;
use engine_log::{BatchPosition, BatchWalk, TimestampCandidate, WalkStop};
use engine_record::{
    BATCH_HEADER_BYTES, BatchHeader, Compression, DecompressError, LeaderEpoch, Offset, Records, Timestamp,
    decompress,
};

use super::locate::damaged;
use crate::error::{Corruption, ReadError};
use crate::partition::Partition;
use crate::segment_file::SegmentFile;

/// To look for a time, a batch's records are decompressed to at most so many times what they take, but to
/// `RECORDS_BYTES_MIN` in any case and to `RECORDS_BYTES_MAX` in none: the shard does nothing else meanwhile.
const EXPANSION_MAX: usize = 16;
const RECORDS_BYTES_MIN: usize = 1 << 20;
const RECORDS_BYTES_MAX: usize = 16 << 20;

/// How much is read at once to look at headers, in bytes.
const WINDOW_BYTES: usize = 64 << 10;

/// A record found by its time; or the batch that has it, by the offset of its first record and the time of its latest,
/// where that expands too far to be looked into. A reader who begins there misses no record of that time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimestampedOffset {
    /// The record's time, or the latest of its batch.
    pub timestamp: Timestamp,
    /// Its offset, or its batch's first.
    pub offset: Offset,
    /// The epoch of the leader that appended it.
    pub leader_epoch: LeaderEpoch,
}

/// What a window of headers had.
enum Walked {
    /// A batch late enough, and where it ends.
    Batch(BatchPosition, BatchHeader, BatchPosition),
    /// Nothing up to here; look on.
    Nothing(BatchPosition),
    /// Nothing up to the segment's end.
    End,
}

impl<I: Io> Partition<I> {
    /// See [`crate::PartitionLog::find_timestamp`].
    pub(crate) async fn find_timestamp(
        self: &Rc<Self>,
        time: Timestamp,
    ) -> Result<Option<TimestampedOffset>, ReadError> {
        let mut from = self.offsets().log_start;
        loop {
            self.not_cutting().await?;
            self.check()?;
            let candidate = {
                let state = self.state.borrow();
                state.log.find_timestamp_from(time, from)
            };
            let Some(candidate) = self.with_index(candidate).await? else { continue };
            let Some(candidate) = candidate else { return Ok(None) };
            if let Some(found) = self.look_in_segment(&candidate).await? {
                return Ok(Some(found));
            }
            from = candidate.end_offset;
        }
    }

    /// See [`crate::PartitionLog::max_timestamp`].
    pub(crate) async fn max_timestamp(self: &Rc<Self>) -> Result<Option<TimestampedOffset>, ReadError> {
        loop {
            self.not_cutting().await?;
            self.check()?;
            let candidate = {
                let state = self.state.borrow();
                state.log.max_timestamp()
            };
            let Some(candidate) = self.with_index(candidate).await? else { continue };
            let Some(candidate) = candidate else { return Ok(None) };
            return self.look_in_segment(&candidate).await;
        }
    }

    /// Loads the index that the log lacks to answer; `None` where it is to be asked again.
    async fn with_index<T>(
        self: &Rc<Self>,
        answer: Result<T, engine_log::ReadError>,
    ) -> Result<Option<T>, ReadError> {
        match answer {
            Ok(found) => Ok(Some(found)),
            Err(engine_log::ReadError::IndexNotLoaded(segment)) => {
                self.load_index(segment).await?;
                Ok(None)
            }
            Err(engine_log::ReadError::OutOfRange { log_start, log_end, .. }) => {
                Err(ReadError::OutOfRange { log_start, log_end })
            }
        }
    }

    async fn look_in_segment(
        self: &Rc<Self>,
        candidate: &TimestampCandidate,
    ) -> Result<Option<TimestampedOffset>, ReadError> {
        let segment = self.segment_file(candidate.segment)?;
        let _hold = segment.hold();
        let mut at = candidate.floor;
        loop {
            let bytes = ((candidate.segment_end_position - at.position) as usize).min(WINDOW_BYTES);
            let window =
                if bytes == 0 { Vec::new() } else { self.fetch(&segment, at.position, bytes).await? };
            match walk(&segment, &window, at, candidate)? {
                Walked::Batch(begin, header, end) => {
                    let batch = self.fetch_batch(&segment, begin, &header).await?;
                    if let Some(found) = look_in_batch(&segment, begin, &batch, candidate)? {
                        return Ok(Some(found));
                    }
                    at = end;
                }
                Walked::Nothing(next) => at = next,
                Walked::End => return Ok(None),
            }
        }
    }

    async fn fetch_batch(
        self: &Rc<Self>,
        segment: &Rc<SegmentFile<I>>,
        begin: BatchPosition,
        header: &BatchHeader,
    ) -> Result<Vec<u8>, ReadError> {
        let batch_bytes = header.batch_bytes as usize;
        let mut batch = Vec::with_capacity(batch_bytes);
        while batch.len() < batch_bytes {
            let position =
                begin.position + u32::try_from(batch.len()).expect("a segment's positions have 32 bits");
            let bytes = (batch_bytes - batch.len()).min(self.shard.config.write_bytes_max);
            batch.extend(self.fetch(segment, position, bytes).await?);
        }
        Ok(batch)
    }
}

/// Walks the headers in `window` to the first batch late enough.
fn walk<I: Io>(
    segment: &SegmentFile<I>,
    window: &[u8],
    at: BatchPosition,
    candidate: &TimestampCandidate,
) -> Result<Walked, ReadError> {
    let mut walk = BatchWalk::new(window, at, candidate.segment_end_position);
    while let Some((begin, header)) = walk.next() {
        if walk.at().offset > candidate.from && header.max_timestamp >= candidate.timestamp {
            return Ok(Walked::Batch(begin, header, walk.at()));
        }
    }
    match walk.stop() {
        Some(WalkStop::Broken(cause)) => Err(damaged(segment, walk.at(), cause)),
        Some(WalkStop::NeedMore) => Ok(Walked::Nothing(walk.at())),
        Some(WalkStop::End) | None => Ok(Walked::End),
    }
}

/// How many bytes records may take that take `compressed` bytes in their batch.
fn records_bytes_max(compressed: usize) -> usize {
    compressed.saturating_mul(EXPANSION_MAX).clamp(RECORDS_BYTES_MIN, RECORDS_BYTES_MAX)
}

/// What can be said of a batch that isn't looked into.
fn whole_batch(base: Offset, header: &BatchHeader, candidate: &TimestampCandidate) -> TimestampedOffset {
    let (timestamp, leader_epoch) = (header.max_timestamp, header.leader_epoch);
    TimestampedOffset { timestamp, offset: base.max(candidate.from), leader_epoch }
}

/// The first record of the batch that is late enough.
fn look_in_batch<I: Io>(
    segment: &SegmentFile<I>,
    begin: BatchPosition,
    batch: &[u8],
    candidate: &TimestampCandidate,
) -> Result<Option<TimestampedOffset>, ReadError> {
    let header = BatchHeader::parse(batch, u32::MAX);
    let header = header.map_err(|corrupt| damaged(segment, begin, corrupt.into()))?;
    let section = batch.get(BATCH_HEADER_BYTES..).unwrap_or_default();
    let unreadable = || {
        let (file, position) = (segment.path().clone(), u64::from(begin.position));
        ReadError::Corrupt { file, position, why: Corruption::Records }
    };
    let decompressed = match header.compression() {
        Compression::None => None,
        codec @ (Compression::Gzip | Compression::Snappy | Compression::Lz4 | Compression::Zstd) => {
            match decompress(codec, section, records_bytes_max(section.len())) {
                Ok(records) => Some(records),
                Err(DecompressError::TooLarge { .. }) => {
                    return Ok(Some(whole_batch(begin.offset, &header, candidate)));
                }
                Err(DecompressError::Damaged { .. }) => return Err(unreadable()),
            }
        }
    };
    for record in Records::new(&header, decompressed.as_deref().unwrap_or(section)) {
        let record = record.map_err(|_| unreadable())?;
        let offset = record.offset(begin.offset).ok_or_else(unreadable)?;
        if offset >= candidate.from && record.timestamp >= candidate.timestamp {
            let (timestamp, leader_epoch) = (record.timestamp, header.leader_epoch);
            return Ok(Some(TimestampedOffset { timestamp, offset, leader_epoch }));
        }
    }
    Ok(None)
}
