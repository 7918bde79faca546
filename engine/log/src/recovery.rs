//! What opening a log after a crash does: scan from a checkpoint, batch by batch, and find the end.
//!
//! A batch counts if and only if it is the next one: format version 2, a sane length, exactly the base offset that
//! comes next, a leader epoch that doesn't fall, and the right checksum. The checksum alone proves nothing: it doesn't
//! cover the offset, and what lies behind the end may be whole batches of an earlier life of the file. So nothing
//! behind the first break counts, however valid it looks.
//!
//! ```text
//!             checkpoint      durable            end of what was written
//!   ----batches----|---batches---|---batches----|..zeros or stale bytes...
//!                  scan starts   |              |
//!                  a break here is corruption   a break here is a torn tail: cut, fence, go on
//! ```
//!
//! A torn tail is an ordinary crash. A break below the durable position is damage to what was promised to be safe: it
//! is reported, never cut.

use engine_record::{BATCH_HEADER_BYTES, BatchHeader, CHECKSUM_FROM, CorruptBatch, Offset, Timestamp};

use crate::config::LogConfig;
use crate::error::BrokenChain;
use crate::leader_epochs::LeaderEpochs;
use crate::log::Log;
use crate::offset_index::SegmentIndex;
use crate::offsets::LogOffsets;
use crate::producers::Producers;
use crate::read::BatchPosition;
use crate::segment::{AddedBatch, Segment, SegmentId, SegmentSummary};
use crate::segments::Segments;
use crate::unwritten::Unwritten;
use crate::walk::next_batch;

/// A place in a segment where all that recovery needs is known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Checkpoint {
    /// The segment up to the place: `end_position` and `end_offset` are where the scan begins.
    pub summary: SegmentSummary,
    /// The byte of this segment below which everything was made durable; a batch boundary.
    pub durable_position: u32,
    /// The leader epochs as of the place.
    pub leader_epochs: LeaderEpochs,
    /// The producers as of the place.
    pub producers: Producers,
}

impl Checkpoint {
    /// The start of a segment, with what is known of the log before it.
    #[must_use]
    pub const fn segment_start(
        segment: SegmentId,
        durable_position: u32,
        leader_epochs: LeaderEpochs,
        producers: Producers,
    ) -> Self {
        Self { summary: SegmentSummary::empty(segment), durable_position, leader_epochs, producers }
    }

    /// Where the scan begins.
    #[must_use]
    pub const fn begin(&self) -> BatchPosition {
        BatchPosition { offset: self.summary.end_offset, position: self.summary.end_position }
    }
}

/// Whether a scan wants more bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum ScanProgress {
    /// Go on feeding.
    Going,
    /// The scan has met its end; more bytes change nothing.
    Stopped,
}

/// How a scan ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ScanEnd {
    /// At the end of the bytes, or at zeros up to there.
    Clean,
    /// At a break at or above the durable position: nothing behind `at` may stay, durably, before
    /// anything is appended there: an old batch of the right length might otherwise become the next one.
    Torn {
        /// Where the last good batch ends.
        at: BatchPosition,
        /// What was found instead of the next.
        cause: BrokenChain,
    },
    /// At a break below the durable position: what was safe is damaged. Quarantine the log; never cut it.
    Corrupt {
        /// Where the last good batch ends.
        at: BatchPosition,
        /// What was found instead of the next.
        cause: BrokenChain,
    },
}

/// Scans one segment from a checkpoint on, in chunks of any size. Holds one header at most, whatever the batches.
#[derive(Clone, Debug)]
pub struct RecoveryScan {
    summary: SegmentSummary,
    durable_position: u32,
    leader_epochs: LeaderEpochs,
    producers: Producers,
    index: SegmentIndex,
    config: LogConfig,
    now: Timestamp,
    state: State,
}

#[derive(Clone, Debug)]
enum State {
    /// The first `filled` bytes of the next header are here.
    Header { bytes: [u8; BATCH_HEADER_BYTES], filled: usize },
    /// A header that fits, and the checksum of its batch so far.
    Records { header: BatchHeader, remaining: usize, checksum: u32 },
    /// Only zeros since the last batch, more than a header of them.
    Padding,
    /// The chain broke.
    Stopped(BrokenChain),
}

const NEXT_HEADER: State = State::Header { bytes: [0; BATCH_HEADER_BYTES], filled: 0 };

/// What a scan found.
#[derive(Clone, Debug)]
pub struct ScanOutcome {
    /// The segment up to the last good batch.
    pub segment: RecoveredSegment,
    /// The leader epochs up to there.
    pub leader_epochs: LeaderEpochs,
    /// The producers up to there.
    pub producers: Producers,
    /// How the scan ended.
    pub end: ScanEnd,
}

impl ScanOutcome {
    /// The place where a following segment must begin, durable up to `durable_position` of it, and the segment
    /// scanned. Only a segment of that name follows.
    #[must_use]
    pub fn into_following(self, durable_position: u32) -> (RecoveredSegment, Checkpoint) {
        let next = SegmentId(self.segment.summary.end_offset);
        assert!(next >= self.segment.summary.segment, "what follows lies above");
        assert!(self.segment.summary.is_sound(), "a scan contradicts itself nowhere");
        let start = Checkpoint::segment_start(next, durable_position, self.leader_epochs, self.producers);
        (self.segment, start)
    }
}

impl RecoveryScan {
    /// A scan that begins at `start`. The first byte fed is that at [`Checkpoint::begin`]. Epochs and batches of
    /// producers that `start` has from above that place are dropped.
    ///
    /// `now` stands for the append times of scanned batches, which the log doesn't hold: retention and expiry count
    /// from the recovery, so that nothing is deleted or forgotten too early.
    ///
    /// # Panics
    /// Where the checkpoint's summary contradicts itself: the log made it, and its holder's checksum vouched for it.
    #[must_use]
    pub fn new(mut start: Checkpoint, config: LogConfig, now: Timestamp) -> Self {
        config.check();
        let begin = start.begin();
        // What belongs above the place comes again with its batches, if they are there.
        start.leader_epochs.truncate(begin.offset.checked_add(1).unwrap_or(begin.offset));
        start.producers.truncate(begin.offset);
        let summary = start.summary;
        assert!(summary.is_sound(), "a checkpoint contradicts itself nowhere: {summary:?}");
        assert_eq!(begin.position, summary.end_position, "a scan begins where the summary ends");
        let unscanned = !summary.is_empty();
        let index = if unscanned { SegmentIndex::of_first_batch } else { SegmentIndex::new }(summary.segment);
        Self {
            index,
            summary,
            durable_position: start.durable_position,
            leader_epochs: start.leader_epochs,
            producers: start.producers,
            config,
            now,
            state: NEXT_HEADER,
        }
    }

    /// Uses an index that was stored for (at least) the bytes below the checkpoint, instead of one without entries
    /// there. One that isn't of the segment is not used.
    #[must_use]
    pub fn with_index(mut self, mut index: SegmentIndex) -> Self {
        assert!(
            matches!(self.state, State::Header { filled: 0, .. }),
            "an index is given before the first byte"
        );
        let has_first = index.entries().first().is_some_and(|first| first.position == 0);
        if has_first {
            index.truncate(self.summary.end_position);
        }
        if index.fits(&self.summary) {
            self.index = index;
        }
        self
    }

    /// Where the last good batch ends, and the next must begin.
    #[must_use]
    pub const fn at(&self) -> BatchPosition {
        BatchPosition { offset: self.summary.end_offset, position: self.summary.end_position }
    }

    /// Takes the next bytes of the segment.
    pub fn feed(&mut self, chunk: &[u8]) -> ScanProgress {
        let mut rest = chunk;
        while !rest.is_empty() {
            let before = rest.len();
            rest = match &mut self.state {
                State::Header { .. } => self.take_header(rest),
                State::Records { .. } => self.take_records(rest),
                State::Padding => self.take_padding(rest),
                State::Stopped(_) => return ScanProgress::Stopped,
            };
            assert!(rest.len() < before, "a scan gets on");
        }
        match self.state {
            State::Stopped(_) => ScanProgress::Stopped,
            State::Header { .. } | State::Records { .. } | State::Padding => ScanProgress::Going,
        }
    }

    fn take_header<'a>(&mut self, chunk: &'a [u8]) -> &'a [u8] {
        let State::Header { bytes, filled } = &mut self.state else { return chunk };
        let missing = bytes.get_mut(*filled..).unwrap_or_default();
        let (taken, rest) = chunk.split_at(missing.len().min(chunk.len()));
        missing.iter_mut().zip(taken).for_each(|(to, from)| *to = *from);
        *filled += taken.len();
        assert_eq!(taken.len() + rest.len(), chunk.len(), "no byte is lost between chunks");
        assert!(*filled <= BATCH_HEADER_BYTES, "a header has its size");
        if *filled == BATCH_HEADER_BYTES {
            let header = *bytes;
            self.state = self.after_header(&header);
            self.accept_if_whole();
        }
        rest
    }

    fn after_header(&self, bytes: &[u8; BATCH_HEADER_BYTES]) -> State {
        assert!(self.summary.is_sound(), "a scan contradicts itself nowhere");
        if is_zero(bytes) {
            return State::Padding;
        }
        match self.check_header(bytes) {
            Ok(header) => State::Records {
                header,
                remaining: (header.batch_bytes as usize).saturating_sub(BATCH_HEADER_BYTES),
                checksum: crc32c::crc32c(bytes.get(CHECKSUM_FROM..).unwrap_or_default()),
            },
            Err(cause) => State::Stopped(cause),
        }
    }

    fn check_header(&self, bytes: &[u8]) -> Result<BatchHeader, BrokenChain> {
        let header = BatchHeader::parse(bytes, u32::MAX)?;
        let next = next_batch(&header, self.at())?;
        let known = self.leader_epochs.latest_below(self.at().offset).unwrap_or_default();
        if header.leader_epoch < known {
            return Err(BrokenChain::LeaderEpoch { known, found: header.leader_epoch });
        }
        let delta = next.offset.since(self.summary.segment.0);
        let indexable = delta.is_some_and(|delta| delta <= u64::from(u32::MAX) + 1);
        if indexable { Ok(header) } else { Err(BrokenChain::OffsetOverflow) }
    }

    fn take_records<'a>(&mut self, chunk: &'a [u8]) -> &'a [u8] {
        let State::Records { remaining, checksum, .. } = &mut self.state else { return chunk };
        let (taken, rest) = chunk.split_at((*remaining).min(chunk.len()));
        *checksum = crc32c::crc32c_append(*checksum, taken);
        *remaining -= taken.len();
        assert!(*remaining == 0 || rest.is_empty(), "a batch takes all it needs");
        self.accept_if_whole();
        rest
    }

    /// Adds the batch to the segment once all of it is here, or stops at it where its checksum is wrong.
    fn accept_if_whole(&mut self) {
        let State::Records { header, remaining: 0, checksum } = self.state else { return };
        if checksum == header.crc {
            self.accept(&header);
            assert!(self.at().offset.value() > header.base_offset, "a scan gets on");
            self.state = NEXT_HEADER;
        } else {
            let wrong = CorruptBatch::Checksum { stored: header.crc, computed: checksum };
            self.state = State::Stopped(wrong.into());
        }
    }

    fn accept(&mut self, header: &BatchHeader) {
        let begin = self.at();
        let next = next_batch(header, begin).expect("the header was checked before its records");
        assert_eq!(header.base_offset, begin.offset.value(), "a batch is at its offset");
        self.index.note_batch(begin, self.summary.max_timestamp, self.config.index_interval_bytes);
        self.summary.add(&AddedBatch {
            base_offset: begin.offset,
            end_offset: next.offset,
            bytes: header.batch_bytes,
            max_timestamp: header.max_timestamp,
            appended_at: self.now,
        });
        assert_eq!(self.at(), next, "a scan is where its last batch ends");
        self.leader_epochs.note(header.leader_epoch, begin.offset);
        assert_eq!(self.leader_epochs.latest(), Some(header.leader_epoch), "a batch is of the latest epoch");
        if header.has_producer() {
            self.producers.record(header, begin.offset, header.max_timestamp, self.now);
            self.producers.shrink_to(self.config.producers_max);
        }
    }

    fn take_padding<'a>(&mut self, chunk: &'a [u8]) -> &'a [u8] {
        assert!(!chunk.is_empty(), "a scan gets on");
        if !is_zero(chunk) {
            self.state = State::Stopped(BrokenChain::BehindPadding);
        }
        &[]
    }

    /// Ends the scan: the bytes fed were all there are.
    #[must_use]
    pub fn finish(self) -> ScanOutcome {
        let at = self.at();
        self.index.check(&self.summary);
        self.leader_epochs.check(at.offset);
        let broken = match &self.state {
            State::Header { bytes, .. } if is_zero(bytes) => None,
            State::Header { .. } | State::Records { .. } => Some(BrokenChain::Cut),
            State::Padding => None,
            State::Stopped(cause) => Some(*cause),
        };
        assert!(at.offset >= self.summary.segment.0, "a scan ends in its segment");
        let end = match broken {
            _ if at.position < self.durable_position => {
                ScanEnd::Corrupt { at, cause: broken.unwrap_or(BrokenChain::Ended) }
            }
            Some(cause) => ScanEnd::Torn { at, cause },
            None => ScanEnd::Clean,
        };
        ScanOutcome {
            segment: RecoveredSegment { summary: self.summary, index: Some(self.index) },
            leader_epochs: self.leader_epochs,
            producers: self.producers,
            end,
        }
    }
}

fn is_zero(bytes: &[u8]) -> bool {
    bytes.iter().all(|byte| *byte == 0)
}

/// A segment found at start.
#[derive(Clone, Debug)]
pub struct RecoveredSegment {
    /// From its sidecar, or from a scan.
    pub summary: SegmentSummary,
    /// Its index, where it is in memory; that of the last segment must be.
    pub index: Option<SegmentIndex>,
}

/// What was found at start: all of it written, and durable by now.
#[derive(Clone, Debug)]
pub struct Recovered {
    /// Where the log begins; moved into the segments found where it lies outside.
    pub log_start: Offset,
    /// The high watermark last stored; moved between the log's start and end where it lies outside.
    pub high_watermark: Offset,
    /// The segments, oldest first; the last one becomes active.
    pub segments: Vec<RecoveredSegment>,
    /// The leader epochs; those that begin behind the end are dropped.
    pub leader_epochs: LeaderEpochs,
    /// The producers up to the end.
    pub producers: Producers,
}

/// Why what was found at start makes no log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RecoveredError {
    /// Not one segment: the log is new, or everything of it is lost.
    #[error("no segment")]
    NoSegment,
    /// A segment doesn't begin where the one before ends.
    #[error("segment {found} where {expected} comes next")]
    Gap {
        /// The segment that must follow.
        expected: SegmentId,
        /// The segment found.
        found: SegmentId,
    },
    /// A segment's summary contradicts itself, or its index isn't of it: scan the segment.
    #[error("what is stored of segment {0} contradicts itself")]
    Unsound(SegmentId),
    /// A segment before the last has no batch.
    #[error("segment {0} is empty, but not the last")]
    Empty(SegmentId),
    /// The last segment's index is missing: scan the segment.
    #[error("no index of the last segment {0}")]
    NoActiveIndex(SegmentId),
    /// Producers have batches behind the log's end: rebuild them.
    #[error("producers with batches behind the log's end")]
    ProducersBehindEnd,
}

impl Log {
    /// The log that was found at start.
    ///
    /// # Errors
    /// See [`RecoveredError`].
    pub fn recovered(config: LogConfig, found: Recovered) -> Result<Self, RecoveredError> {
        config.check();
        check_chain(&found.segments)?;
        let mut segments = found.segments;
        let last = segments.pop().ok_or(RecoveredError::NoSegment)?;
        if last.index.is_none() {
            return Err(RecoveredError::NoActiveIndex(last.summary.segment));
        }
        let active = Segment::recovered(last.summary, last.index);
        let sealed = segments.into_iter().map(|segment| Segment::recovered(segment.summary, segment.index));
        let mut log = Self {
            config,
            offsets: LogOffsets::empty(Offset::ZERO),
            segments: Segments::recovered(sealed.collect(), active),
            leader_epochs: found.leader_epochs,
            producers: found.producers,
            producers_complete: true,
            unwritten: Unwritten::default(),
        };
        log.settle(found.log_start, found.high_watermark)?;
        Ok(log)
    }

    /// Makes the offsets those of a log that is wholly written and flushed.
    fn settle(&mut self, log_start: Offset, high_watermark: Offset) -> Result<(), RecoveredError> {
        let log_end = self.segments.end().offset;
        assert!(self.unwritten.is_empty(), "what is found is written");
        let log_start = log_start.clamp(self.segments.first().id().0, log_end);
        let high_watermark = high_watermark.clamp(log_start, log_end);
        self.offsets = LogOffsets { log_start, high_watermark, flushed: log_end, written: log_end, log_end };
        // An epoch that begins at the end has no record yet; its leader made it durable before the first.
        self.leader_epochs.truncate(log_end.checked_add(1).unwrap_or(log_end));
        self.leader_epochs.advance_start(log_start);
        if self.producers.truncate(log_end) {
            return Err(RecoveredError::ProducersBehindEnd);
        }
        self.producers.shrink_to(self.config.producers_max);
        assert_eq!(self.offsets.flushed, log_end, "what is found is durable");
        self.check();
        Ok(())
    }
}

fn check_chain(segments: &[RecoveredSegment]) -> Result<(), RecoveredError> {
    let unsound = |segment: &&RecoveredSegment| {
        let fits = segment.index.as_ref().is_none_or(|index| index.fits(&segment.summary));
        !fits || !segment.summary.is_sound()
    };
    if let Some(unsound) = segments.iter().find(unsound) {
        return Err(RecoveredError::Unsound(unsound.summary.segment));
    }
    for (segment, next) in segments.iter().zip(segments.iter().skip(1)) {
        let (expected, found) = (SegmentId(segment.summary.end_offset), next.summary.segment);
        if segment.summary.is_empty() {
            return Err(RecoveredError::Empty(segment.summary.segment));
        }
        if expected != found {
            return Err(RecoveredError::Gap { expected, found });
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
