//! The checkpoint's content: what of each partition is durable, as bytes and back.
//!
//! One entry a partition. An entry of a change replaces what stood before it, but for the segments: those it doesn't
//! list and doesn't drop stay, so that a long log's entry is as short as what changed.
//!
//! ```text
//! topic id          16 bytes
//! partition         i32
//! generation        u64   of the start that made the entry
//! state             u8    0 deleted: the entry ends here; 1 open: the log may have gone on; 2 closed as it stands here
//! log start         i64
//! high watermark    i64
//! first segment     i64   segments below are gone
//! segments          u32   count, then each, the last one active:
//!                           base offset, end offset, latest, first append and last append time: i64 each
//!                           (i64::MIN for no time), bytes: u32
//! leader epochs     u32   count of bytes, then the log's own encoding
//! producers         u32   count of bytes, then the log's own encoding
//! active index      u32   count of bytes, then a sidecar; 0 where the log is open or the segment empty
//! ```

mod bytes;
pub(crate) mod frame;
#[cfg(test)]
pub(crate) mod testing;

use std::collections::BTreeMap;

use engine_log::{APPEND_ENCODED_BYTES_MAX, Log, LogOffsets, SegmentId, SegmentSummary, encode_sidecar};
use engine_record::{Offset, PartitionIndex, Timestamp, TopicId, TopicPartition};

use bytes::{Reader, Writer};

/// Why a checkpoint can't be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CorruptCheckpoint {
    /// A frame that had been durable is damaged: later ones are not.
    #[error("a frame of the checkpoint is damaged")]
    FrameLost,
    /// Two slots were written and neither holds a whole image.
    #[error("both slots of the checkpoint are damaged")]
    BothSlots,
    /// An entry ends before its fields do.
    #[error("an entry of the checkpoint is cut short")]
    EntryCut,
    /// An entry counts more parts than its bytes could hold.
    #[error("an entry of the checkpoint counts more than it holds")]
    Count,
    /// An offset is negative, or a state unknown.
    #[error("an entry of the checkpoint holds an impossible number")]
    Number,
    /// The log doesn't accept its own part of the entry.
    #[error("an entry of the checkpoint holds an impossible log")]
    Log,
}

/// The durable state of one log: everything in it is on this disk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LogEntry {
    pub(crate) log_start: Offset,
    pub(crate) high_watermark: Offset,
    /// Oldest first; the last one is active. Never none.
    pub(crate) segments: Vec<SegmentSummary>,
    pub(crate) leader_epochs: Vec<u8>,
    pub(crate) producers: Vec<u8>,
    /// Whether the log ends exactly so; otherwise more may lie behind, whole or torn.
    pub(crate) is_closed: bool,
    /// The active segment's index, of a closed log.
    pub(crate) active_index: Vec<u8>,
}

impl LogEntry {
    /// The state up to its present end of a log that goes on; true of the disk once that is flushed.
    pub(crate) fn open(log: &Log) -> Self {
        let (mut leader_epochs, mut producers) = (Vec::new(), Vec::new());
        log.leader_epochs().encode(&mut leader_epochs);
        log.producers().encode(&mut producers);
        let LogOffsets { log_start, high_watermark, .. } = *log.offsets();
        let segments = log.segments().map(|segment| *segment.summary()).collect();
        let (is_closed, active_index) = (false, Vec::new());
        Self { log_start, high_watermark, segments, leader_epochs, producers, is_closed, active_index }
    }

    /// The state of a log that nothing is appended to any more.
    pub(crate) fn closed(log: &Log) -> Self {
        let active = log.active_segment();
        let index = active.index().filter(|_| !active.is_empty());
        let active_index = index.map(|index| encode_sidecar(active.summary(), index)).unwrap_or_default();
        Self { is_closed: true, active_index, ..Self::open(log) }
    }

    /// At most how many bytes the entry of this log takes in an image, open or closed as it is now. Costs no more for a
    /// long log than for a short one.
    pub(crate) fn bytes_max(log: &Log) -> usize {
        ENTRY_BYTES + LOG_BYTES + log.segments().count() * SEGMENT_BYTES + log.encoded_bytes_max()
    }

    /// How many bytes it takes in an entry.
    pub(crate) fn encoded_bytes(&self) -> usize {
        let own = [&self.leader_epochs, &self.producers, &self.active_index];
        let own: usize = own.iter().map(|bytes| bytes.len()).sum();
        LOG_BYTES + self.segments.len() * SEGMENT_BYTES + own
    }

    /// The active segment.
    pub(crate) fn active(&self) -> &SegmentSummary {
        self.segments.last().expect("an entry has a segment: decoding refuses others")
    }
}

/// What the checkpoint says of one partition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    /// The start of the store that made the entry. Of two entries the newer counts.
    pub(crate) generation: u64,
    /// `None` where the partition was deleted.
    pub(crate) log: Option<LogEntry>,
}

/// What a checkpoint says of all its partitions.
pub(crate) type Entries = BTreeMap<TopicPartition, Entry>;

/// An entry without its log: ids, generation and state.
const ENTRY_BYTES: usize = 29;

/// A log's offsets, and the counts before its segments and the encodings that are its own.
const LOG_BYTES: usize = 3 * 8 + 4 * 4;

const SEGMENT_BYTES: usize = 44;

/// Bytes that one append, and a leader epoch that begins behind it, add at most to [`LogEntry::bytes_max`]: a segment, and
/// what is the log's own.
pub(crate) const APPEND_BYTES_MAX: usize = SEGMENT_BYTES + APPEND_ENCODED_BYTES_MAX;

const DELETED: u8 = 0;
const OPEN: u8 = 1;
const CLOSED: u8 = 2;

/// The entry whole, for an image.
pub(crate) fn encode(partition: TopicPartition, entry: &Entry) -> Vec<u8> {
    encode_from(partition, entry, 0)
}

/// How many bytes [`encode`] gives.
pub(crate) fn encoded_bytes(entry: &Entry) -> usize {
    ENTRY_BYTES + entry.log.as_ref().map_or(0, LogEntry::encoded_bytes)
}

/// The entry as a change to `before`: without the segments that stay as they were.
pub(crate) fn encode_change(partition: TopicPartition, entry: &Entry, before: Option<&Entry>) -> Vec<u8> {
    let segments = |entry: &Entry| entry.log.as_ref().map_or(&[][..], |log| &log.segments).to_vec();
    let (new, old) = (segments(entry), before.map(segments).unwrap_or_default());
    let gone =
        old.iter().take_while(|old| new.first().is_none_or(|first| old.segment < first.segment)).count();
    let same = new.iter().zip(old.iter().skip(gone)).take_while(|(new, old)| new == old).count();
    encode_from(partition, entry, same.min(new.len().saturating_sub(1)))
}

fn encode_from(partition: TopicPartition, entry: &Entry, unchanged: usize) -> Vec<u8> {
    let mut writer = Writer::default();
    writer.raw(&partition.topic.0);
    writer.i32(partition.partition.0);
    writer.u64(entry.generation);
    writer.u8(entry.log.as_ref().map_or(DELETED, |log| if log.is_closed { CLOSED } else { OPEN }));
    if let Some(log) = &entry.log {
        encode_log(&mut writer, log, unchanged);
    }
    writer.into_bytes()
}

fn encode_log(writer: &mut Writer, log: &LogEntry, unchanged: usize) {
    writer.i64(log.log_start.value());
    writer.i64(log.high_watermark.value());
    writer.i64(log.segments.first().map_or(log.log_start, |first| first.segment.0).value());
    let segments = log.segments.get(unchanged..).unwrap_or_default();
    writer.count(segments.len());
    segments.iter().for_each(|segment| encode_segment(writer, segment));
    for blob in [&log.leader_epochs, &log.producers, &log.active_index] {
        writer.count(blob.len());
        writer.raw(blob);
    }
}

fn encode_segment(writer: &mut Writer, segment: &SegmentSummary) {
    writer.i64(segment.segment.0.value());
    writer.i64(segment.end_offset.value());
    for time in [Some(segment.max_timestamp), segment.first_append, segment.last_append] {
        writer.i64(time.map_or(i64::MIN, |time| time.0));
    }
    writer.u32(segment.end_position);
}

/// Takes the entries of one frame's payload over into `entries`.
///
/// # Errors
/// What is wrong with the first bad entry; those before it are in `entries`.
pub(crate) fn apply(payload: &[u8], entries: &mut Entries) -> Result<(), CorruptCheckpoint> {
    let mut reader = Reader::new(payload);
    while !reader.is_empty() {
        let topic = TopicId(reader.id()?);
        let partition = TopicPartition { topic, partition: PartitionIndex(reader.i32()?) };
        let generation = reader.u64()?;
        let state = reader.u8()?;
        let log = match state {
            DELETED => None,
            OPEN | CLOSED => Some(decode_log(&mut reader, state == CLOSED, entries.remove(&partition))?),
            _ => return Err(CorruptCheckpoint::Number),
        };
        entries.insert(partition, Entry { generation, log });
    }
    Ok(())
}

fn decode_log(
    reader: &mut Reader<'_>,
    is_closed: bool,
    before: Option<Entry>,
) -> Result<LogEntry, CorruptCheckpoint> {
    let (log_start, high_watermark, first_segment) = (offset(reader)?, offset(reader)?, offset(reader)?);
    let listed = decode_segments(reader)?;
    let mut segments = before.and_then(|entry| entry.log).map(|log| log.segments).unwrap_or_default();
    let listed_from = listed.first().map_or(first_segment, |first| first.segment.0);
    segments.retain(|known| known.segment.0 >= first_segment && known.segment.0 < listed_from);
    segments.extend(listed);
    if segments.is_empty() || log_start > high_watermark {
        return Err(CorruptCheckpoint::Number);
    }
    let (leader_epochs, producers, active_index) = (blob(reader)?, blob(reader)?, blob(reader)?);
    Ok(LogEntry { log_start, high_watermark, segments, leader_epochs, producers, is_closed, active_index })
}

fn decode_segments(reader: &mut Reader<'_>) -> Result<Vec<SegmentSummary>, CorruptCheckpoint> {
    let count = reader.count(SEGMENT_BYTES)?;
    (0..count).map(|_| decode_segment(reader)).collect()
}

fn decode_segment(reader: &mut Reader<'_>) -> Result<SegmentSummary, CorruptCheckpoint> {
    let (segment, end_offset) = (SegmentId(offset(reader)?), offset(reader)?);
    let (max_timestamp, first_append, last_append) = (reader.i64()?, reader.i64()?, reader.i64()?);
    let append_time = |time| if time == i64::MIN { None } else { Some(Timestamp(time)) };
    Ok(SegmentSummary {
        segment,
        end_offset,
        end_position: reader.u32()?,
        max_timestamp: Timestamp(max_timestamp),
        first_append: append_time(first_append),
        last_append: append_time(last_append),
    })
}

fn blob(reader: &mut Reader<'_>) -> Result<Vec<u8>, CorruptCheckpoint> {
    let count = reader.count(1)?;
    Ok(reader.take(count)?.to_vec())
}

fn offset(reader: &mut Reader<'_>) -> Result<Offset, CorruptCheckpoint> {
    Offset::new(reader.i64()?).ok_or(CorruptCheckpoint::Number)
}

/// Reads a slot as a start does, and answers how many entries its whole image has. For the fuzz target alone.
///
/// # Errors
/// What is wrong with the first bad entry.
///
/// # Panics
/// When an entry that was read, written again, reads as another.
#[doc(hidden)]
pub fn read_fuzzed_slot(bytes: &[u8]) -> Result<usize, CorruptCheckpoint> {
    let mut entries = Entries::new();
    let payloads = frame::read_slot(bytes).whole.map(|whole| whole.payloads).unwrap_or_default();
    payloads.iter().try_for_each(|payload| apply(payload, &mut entries))?;
    for (partition, entry) in &entries {
        let mut again = Entries::new();
        assert_eq!(apply(&encode(*partition, entry), &mut again), Ok(()), "what is written can be read");
        assert_eq!(again.get(partition), Some(entry), "an entry reads as it was written");
    }
    Ok(entries.len())
}

/// Takes over what is newer in `other`.
pub(crate) fn merge(entries: &mut Entries, other: Entries) {
    for (partition, entry) in other {
        let is_newer = entries.get(&partition).is_none_or(|known| known.generation < entry.generation);
        if is_newer {
            entries.insert(partition, entry);
        }
    }
}

#[cfg(test)]
mod tests;
