//! Finding a record by its time: the log names a segment and where to look, the records themselves decide.

use std::borrow::Cow;
use std::rc::Rc;

use engine_io::Io;
use engine_log::{BatchPosition, BatchWalk, LogOffsets, TimestampCandidate, WalkStop};
use engine_record::{
    BATCH_HEADER_BYTES, BatchHeader, Compression, CorruptBatch, DecompressError, Decompression, LeaderEpoch,
    Offset, RecordBatch, Records, Timestamp,
};

use super::locate::damaged;
use crate::error::ReadError;
use crate::partition::Partition;
use crate::segment_file::SegmentFile;

/// To look for a time, a batch's records are decompressed to at most so many bytes, which are kept meanwhile.
const RECORDS_BYTES_MAX: usize = 1 << 20;

/// How many records are gone through in a turn.
const RECORDS_A_TURN: usize = 8192;

/// How much is read at once to look at headers, in bytes.
const WINDOW_BYTES: usize = 64 << 10;

/// A record found by its time; or the batch that has it, by the offset of its first record and the time of its latest,
/// where that expands too far to be looked into, or was never readable as its client sent it. A reader who begins there
/// misses no record of that time.
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

/// Why a batch's records were not looked into to their end.
enum NotLookedInto {
    /// They expand too far.
    TooLarge,
    /// They aren't records, or not in the batch's codec.
    Unreadable,
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
                let log = &self.state.borrow().log;
                // Either end may have moved meanwhile.
                let LogOffsets { log_start, log_end, .. } = *log.offsets();
                log.find_timestamp_from(time, from.clamp(log_start, log_end))
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
            // Nothing else would wait where the bytes are in memory, however many batches there are to look into.
            self.shard.io.yield_now().await;
            let bytes = ((candidate.segment_end_position - at.position) as usize).min(WINDOW_BYTES);
            let window =
                if bytes == 0 { Vec::new() } else { self.fetch(&segment, at.position, bytes).await? };
            match walk(&segment, &window, at, candidate)? {
                Walked::Batch(begin, header, end) => {
                    let batch = self.fetch_batch(&segment, begin, &header).await?;
                    if let Some(found) = self.look_in_batch(&segment, begin, &batch, candidate).await? {
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
            self.shard.io.yield_now().await;
        }
        Ok(batch)
    }

    /// The first record of the batch that is late enough; the whole batch where it can't be looked into.
    async fn look_in_batch(
        &self,
        segment: &SegmentFile<I>,
        begin: BatchPosition,
        batch: &[u8],
        candidate: &TimestampCandidate,
    ) -> Result<Option<TimestampedOffset>, ReadError> {
        let broken = |corrupt: CorruptBatch| damaged(segment, begin, corrupt.into());
        let header = BatchHeader::parse(batch, u32::MAX).map_err(broken)?;
        let section = batch.get(BATCH_HEADER_BYTES..).unwrap_or_default();
        match self.look_in_records(&header, begin.offset, section, candidate).await {
            Ok(found) => return Ok(found),
            Err(NotLookedInto::TooLarge) => {}
            Err(NotLookedInto::Unreadable) => {
                // With the checksum right, this is what the client sent: the file is sound.
                RecordBatch::parse(batch).map_err(broken)?;
                let (file, offset) = (segment.path().display(), begin.offset.value());
                tracing::debug!(%file, offset, "a client's batch was never readable; its time stands for its records");
            }
        }
        Ok(Some(whole_batch(begin.offset, &header, candidate)))
    }

    /// The first record in a batch's records section that is late enough.
    async fn look_in_records(
        &self,
        header: &BatchHeader,
        base: Offset,
        section: &[u8],
        candidate: &TimestampCandidate,
    ) -> Result<Option<TimestampedOffset>, NotLookedInto> {
        let records = records_section(&self.shard.io, header.compression(), section).await?;
        for (count, record) in (1_usize..).zip(Records::new(header, &records)) {
            let record = record.map_err(|_| NotLookedInto::Unreadable)?;
            let offset = record.offset(base).ok_or(NotLookedInto::Unreadable)?;
            if offset >= candidate.from && record.timestamp >= candidate.timestamp {
                let (timestamp, leader_epoch) = (record.timestamp, header.leader_epoch);
                return Ok(Some(TimestampedOffset { timestamp, offset, leader_epoch }));
            }
            if count.is_multiple_of(RECORDS_A_TURN) {
                self.shard.io.yield_now().await;
            }
        }
        Ok(None)
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

/// What can be said of a batch that isn't looked into.
fn whole_batch(base: Offset, header: &BatchHeader, candidate: &TimestampCandidate) -> TimestampedOffset {
    let (timestamp, leader_epoch) = (header.max_timestamp, header.leader_epoch);
    TimestampedOffset { timestamp, offset: base.max(candidate.from), leader_epoch }
}

/// The records of a batch, decompressed where they are compressed. Others have their turn between any two pieces.
async fn records_section<'a, I: Io>(
    io: &I,
    codec: Compression,
    section: &'a [u8],
) -> Result<Cow<'a, [u8]>, NotLookedInto> {
    if codec == Compression::None {
        return Ok(Cow::Borrowed(section));
    }
    let mut decompression = Decompression::new(codec, section, RECORDS_BYTES_MAX)?;
    while decompression.go_on()? {
        io.yield_now().await;
    }
    Ok(Cow::Owned(decompression.into_bytes()))
}

impl From<DecompressError> for NotLookedInto {
    fn from(error: DecompressError) -> Self {
        match error {
            DecompressError::TooLarge { .. } => Self::TooLarge,
            DecompressError::Damaged { .. } => Self::Unreadable,
        }
    }
}
