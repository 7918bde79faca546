//! Records as they came from a broker: batches are checked and decompressed once, records are read where they lie.

use core::ops::Range;
use std::rc::Rc;

use engine_record::record::Headers;
use engine_record::{
    BATCH_HEADER_BYTES, BatchHeader, Compression, CorruptBatch, CorruptRecord, DecompressError, Offset,
    PartitionIndex, RecordBatch, Records, Timestamp, decompress,
};

/// Why fetched bytes can't be read.
#[derive(Debug, thiserror::Error)]
pub enum UnreadableBatch {
    /// A batch is damaged.
    #[error("at offset {position}: {cause}")]
    Corrupt {
        /// Where the consumer stood.
        position: Offset,
        /// What is wrong.
        cause: CorruptBatch,
    },
    /// A batch can't be decompressed.
    #[error("at offset {position}: {cause}")]
    Compressed {
        /// Where the consumer stood.
        position: Offset,
        /// What is wrong.
        cause: DecompressError,
    },
    /// A batch's offsets are none.
    #[error("at offset {position}: a batch with base offset {base_offset}")]
    Offsets {
        /// Where the consumer stood.
        position: Offset,
        /// What the batch says.
        base_offset: i64,
    },
}

/// A record as a consumer gets it, borrowed from the answer it came in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConsumedRecord<'a> {
    /// Its offset.
    pub offset: Offset,
    /// When it was made or appended.
    pub timestamp: Timestamp,
    /// The key, or null.
    pub key: Option<&'a [u8]>,
    /// The value; null is a tombstone.
    pub value: Option<&'a [u8]>,
    /// The headers.
    pub headers: Headers<'a>,
}

/// Consecutive records of one partition.
#[derive(Clone, Debug)]
pub struct FetchedRecords {
    topic: Rc<str>,
    partition: PartitionIndex,
    position: Offset,
    next_offset: Offset,
    high_watermark: Option<Offset>,
    frame: Rc<Vec<u8>>,
    batches: Vec<FetchedBatch>,
}

#[derive(Clone, Debug)]
struct FetchedBatch {
    header: BatchHeader,
    base_offset: Offset,
    section: Section,
}

#[derive(Clone, Debug)]
enum Section {
    /// Where in the frame the records lie.
    InFrame(Range<usize>),
    Decompressed(Vec<u8>),
}

/// Where an answer's records of one partition lie.
#[derive(Clone, Debug)]
pub(crate) struct Chunk {
    pub(crate) frame: Rc<Vec<u8>>,
    pub(crate) records: Range<usize>,
    pub(crate) high_watermark: Option<Offset>,
}

impl FetchedRecords {
    /// Checks the batches of `chunk` and leaves out what lies before `position`, and what brokers wrote for
    /// themselves.
    pub(crate) fn decode(
        (topic, partition): (Rc<str>, PartitionIndex),
        chunk: Chunk,
        position: Offset,
        decompressed_bytes_max: usize,
    ) -> Result<Self, UnreadableBatch> {
        let Chunk { frame, records, high_watermark } = chunk;
        let (mut batches, mut next_offset, mut from) = (Vec::new(), position, records.start);
        while from < records.end {
            let (batch, bytes) = match RecordBatch::parse(&frame[from..records.end]) {
                Ok((batch, rest)) => (batch, records.end - from - rest.len()),
                // The end of an answer may be a piece of a batch that didn't fit.
                Err(CorruptBatch::HeaderIncomplete { .. } | CorruptBatch::Truncated { .. })
                    if from > records.start =>
                {
                    break;
                }
                Err(cause) => return Err(UnreadableBatch::Corrupt { position: next_offset, cause }),
            };
            let end = end_offset(batch.header()).ok_or_else(|| UnreadableBatch::Offsets {
                position: next_offset,
                base_offset: batch.header().base_offset,
            })?;
            if end > position && !batch.header().is_control() {
                let section = from + BATCH_HEADER_BYTES..from + bytes;
                batches.push(FetchedBatch::decode(&batch, section, next_offset, decompressed_bytes_max)?);
            }
            next_offset = next_offset.max(end);
            from += bytes;
        }
        Ok(Self { topic, partition, position, next_offset, high_watermark, frame, batches })
    }

    /// The topic's name.
    #[must_use]
    pub const fn topic(&self) -> &Rc<str> {
        &self.topic
    }

    /// The partition.
    #[must_use]
    pub const fn partition(&self) -> PartitionIndex {
        self.partition
    }

    /// Where the consumer stood: no record before it is among these. Inclusive.
    #[must_use]
    pub const fn position(&self) -> Offset {
        self.position
    }

    /// The offset after the last record: where reading goes on. Exclusive.
    #[must_use]
    pub const fn next_offset(&self) -> Offset {
        self.next_offset
    }

    /// The partition's high watermark when the records were read, exclusive; `None` where the broker didn't say.
    #[must_use]
    pub const fn high_watermark(&self) -> Option<Offset> {
        self.high_watermark
    }

    /// The records, in order. A record that can't be read ends its batch with an error; the checksum was right, so
    /// whoever wrote the batch wrote it so.
    pub fn records(&self) -> impl Iterator<Item = Result<ConsumedRecord<'_>, CorruptRecord>> {
        let of_batch = |batch| self.records_of(batch);
        self.batches.iter().flat_map(of_batch)
    }

    fn records_of<'a>(
        &'a self,
        batch: &'a FetchedBatch,
    ) -> impl Iterator<Item = Result<ConsumedRecord<'a>, CorruptRecord>> {
        let section = match &batch.section {
            Section::InFrame(range) => &self.frame[range.clone()],
            Section::Decompressed(bytes) => bytes,
        };
        let base_offset = batch.base_offset;
        let consumed = move |record: engine_record::Record<'a>| {
            let offset = record.offset(base_offset).unwrap_or(Offset::MAX);
            let engine_record::Record { timestamp, key, value, headers, .. } = record;
            ConsumedRecord { offset, timestamp, key, value, headers }
        };
        let from = self.position;
        let is_asked_for = move |record: &Result<ConsumedRecord<'_>, _>| {
            record.as_ref().map_or(true, |record| record.offset >= from)
        };
        Records::new(&batch.header, section).map(move |record| record.map(consumed)).filter(is_asked_for)
    }
}

impl FetchedBatch {
    fn decode(
        batch: &RecordBatch<'_>,
        section: Range<usize>,
        position: Offset,
        decompressed_bytes_max: usize,
    ) -> Result<Self, UnreadableBatch> {
        let header = *batch.header();
        let base_offset = Offset::new(header.base_offset)
            .ok_or(UnreadableBatch::Offsets { position, base_offset: header.base_offset })?;
        let section = match header.compression() {
            Compression::None => Section::InFrame(section),
            codec @ (Compression::Gzip | Compression::Snappy | Compression::Lz4 | Compression::Zstd) => {
                let bytes = decompress(codec, batch.records_section(), decompressed_bytes_max);
                Section::Decompressed(bytes.map_err(|cause| UnreadableBatch::Compressed { position, cause })?)
            }
        };
        Ok(Self { header, base_offset, section })
    }
}

fn end_offset(header: &BatchHeader) -> Option<Offset> {
    header.last_offset()?.checked_add(1)
}

/// Where reading goes on after the batches in `bytes`, from their headers alone; `None` where there is no batch.
pub(crate) fn end_of(mut bytes: &[u8]) -> Option<Offset> {
    let mut end = None;
    while let Ok(header) = BatchHeader::parse(bytes, u32::MAX) {
        let Some((_, rest)) = bytes.split_at_checked(header.batch_bytes as usize) else { break };
        end = end_offset(&header).max(end);
        bytes = rest;
    }
    end
}
