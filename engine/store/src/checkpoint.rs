//! The checkpoint's content: what of each partition is durable, as bytes and back.
//!
//! One entry a partition. An entry of a change replaces what stood before it, but for the segments: those it doesn't
//! list and doesn't drop stay, so that a long log's entry is as short as what changed.
//!
//! ```text
//! topic id          16 bytes
//! partition         i32
//! generation        u64   of the start that made the entry
//! state             u8    0 deleted: the entry ends here; 1 live
//! log start         i64
//! high watermark    i64
//! next offset       i64   durable end: everything below is on this disk
//! leader epoch      i32   of the last batch
//! first segment     i64   segments below are gone
//! segments          u32   count, then each: base offset i64, bytes u32 (those durable), latest timestamp i64
//! leader epochs     u32   count, then each: epoch i32, start offset i64
//! producers         u32   count of bytes, then the log's own encoding
//! ```

mod bytes;
pub(crate) mod frame;

use std::collections::BTreeMap;

use engine_record::{LeaderEpoch, Offset, PartitionIndex, Timestamp, TopicId, TopicPartition};

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

/// A segment as the checkpoint knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SegmentEntry {
    pub(crate) base: Offset,
    /// Durable bytes; of a segment that isn't the last, all its bytes.
    pub(crate) bytes: u32,
    pub(crate) max_timestamp: Timestamp,
}

/// The durable state of one log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LogEntry {
    pub(crate) log_start: Offset,
    pub(crate) high_watermark: Offset,
    pub(crate) next_offset: Offset,
    pub(crate) leader_epoch: LeaderEpoch,
    pub(crate) segments: Vec<SegmentEntry>,
    pub(crate) leader_epochs: Vec<(LeaderEpoch, Offset)>,
    pub(crate) producers: Vec<u8>,
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

const SEGMENT_BYTES: usize = 20;
const LEADER_EPOCH_BYTES: usize = 12;

/// The entry whole, for an image.
pub(crate) fn encode(partition: TopicPartition, entry: &Entry) -> Vec<u8> {
    encode_from(partition, entry, 0)
}

/// The entry as a change to `before`: without the segments that stay as they were.
pub(crate) fn encode_change(partition: TopicPartition, entry: &Entry, before: Option<&Entry>) -> Vec<u8> {
    let segments = |entry: &Entry| entry.log.as_ref().map_or(&[][..], |log| &log.segments).to_vec();
    let (new, old) = (segments(entry), before.map(segments).unwrap_or_default());
    let gone = old.iter().take_while(|old| new.first().is_none_or(|first| old.base < first.base)).count();
    let same = new.iter().zip(old.iter().skip(gone)).take_while(|(new, old)| new == old).count();
    encode_from(partition, entry, same.min(new.len().saturating_sub(1)))
}

fn encode_from(partition: TopicPartition, entry: &Entry, unchanged: usize) -> Vec<u8> {
    let mut writer = Writer::default();
    writer.raw(&partition.topic.0);
    writer.i32(partition.partition.0);
    writer.u64(entry.generation);
    writer.u8(u8::from(entry.log.is_some()));
    if let Some(log) = &entry.log {
        encode_log(&mut writer, log, unchanged);
    }
    writer.into_bytes()
}

fn encode_log(writer: &mut Writer, log: &LogEntry, unchanged: usize) {
    for offset in [log.log_start, log.high_watermark, log.next_offset] {
        writer.i64(offset.value());
    }
    writer.i32(log.leader_epoch.0);
    writer.i64(log.segments.first().map_or(log.next_offset, |first| first.base).value());
    let segments = log.segments.get(unchanged..).unwrap_or_default();
    writer.count(segments.len());
    for segment in segments {
        writer.i64(segment.base.value());
        writer.u32(segment.bytes);
        writer.i64(segment.max_timestamp.0);
    }
    writer.count(log.leader_epochs.len());
    for (epoch, start) in &log.leader_epochs {
        writer.i32(epoch.0);
        writer.i64(start.value());
    }
    writer.count(log.producers.len());
    writer.raw(&log.producers);
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
        let log = match reader.u8()? {
            0 => None,
            1 => Some(decode_log(&mut reader, entries.remove(&partition))?),
            _ => return Err(CorruptCheckpoint::Number),
        };
        entries.insert(partition, Entry { generation, log });
    }
    Ok(())
}

fn decode_log(reader: &mut Reader<'_>, before: Option<Entry>) -> Result<LogEntry, CorruptCheckpoint> {
    let (log_start, high_watermark, next_offset) = (offset(reader)?, offset(reader)?, offset(reader)?);
    let leader_epoch = LeaderEpoch(reader.i32()?);
    let first_segment = offset(reader)?;
    let listed = decode_segments(reader)?;
    let mut segments = before.and_then(|entry| entry.log).map(|log| log.segments).unwrap_or_default();
    let listed_from = listed.first().map_or(first_segment, |first| first.base);
    segments.retain(|segment| segment.base >= first_segment && segment.base < listed_from);
    segments.extend(listed);
    let leader_epochs = decode_leader_epochs(reader)?;
    let producers = reader.count(1)?;
    let producers = reader.take(producers)?.to_vec();
    Ok(LogEntry { log_start, high_watermark, next_offset, leader_epoch, segments, leader_epochs, producers })
}

fn decode_segments(reader: &mut Reader<'_>) -> Result<Vec<SegmentEntry>, CorruptCheckpoint> {
    let count = reader.count(SEGMENT_BYTES)?;
    let segment = |_| {
        let base = offset(reader)?;
        Ok(SegmentEntry { base, bytes: reader.u32()?, max_timestamp: Timestamp(reader.i64()?) })
    };
    (0..count).map(segment).collect()
}

fn decode_leader_epochs(reader: &mut Reader<'_>) -> Result<Vec<(LeaderEpoch, Offset)>, CorruptCheckpoint> {
    let count = reader.count(LEADER_EPOCH_BYTES)?;
    (0..count).map(|_| Ok((LeaderEpoch(reader.i32()?), offset(reader)?))).collect()
}

fn offset(reader: &mut Reader<'_>) -> Result<Offset, CorruptCheckpoint> {
    Offset::new(reader.i64()?).ok_or(CorruptCheckpoint::Number)
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
