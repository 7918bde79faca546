//! What can be wrong with the bytes of a batch or record: one variant a check.

use crate::varint::VarintError;

/// Why bytes are no record batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CorruptBatch {
    /// Fewer bytes than a batch header.
    #[error("{have} bytes, fewer than a batch header")]
    HeaderIncomplete {
        /// Bytes given.
        have: usize,
    },
    /// The format version isn't 2.
    #[error("batch format version {0}, not 2")]
    Magic(i8),
    /// The length field says less than a header, or is negative.
    #[error("batch length {0} is below that of a header")]
    LengthTooSmall(i32),
    /// The batch is longer than allowed here.
    #[error("batch of {batch_bytes} bytes where at most {batch_bytes_max} may be")]
    TooLarge {
        /// Size of the batch with its header.
        batch_bytes: u32,
        /// The limit given.
        batch_bytes_max: u32,
    },
    /// The bytes end before the batch does.
    #[error("batch of {batch_bytes} bytes cut at {have}")]
    Truncated {
        /// Size of the batch with its header.
        batch_bytes: u32,
        /// Bytes given.
        have: usize,
    },
    /// The checksum in the header isn't that of the bytes.
    #[error("checksum {computed:08x}, header says {stored:08x}")]
    Checksum {
        /// What the header says.
        stored: u32,
        /// What the bytes give.
        computed: u32,
    },
    /// A compression codec that isn't assigned.
    #[error("compression codec {0} doesn't exist")]
    Codec(u8),
    /// A negative count or delta, or more records than the batch has offsets.
    #[error("{record_count} records in a batch whose last offset delta is {last_offset_delta}")]
    RecordCount {
        /// What the header says.
        record_count: i32,
        /// What the header says.
        last_offset_delta: i32,
    },
}

/// Why bytes are not the records that a batch header announces.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CorruptRecord {
    /// A number can't be read.
    #[error(transparent)]
    Varint(#[from] VarintError),
    /// The record's length is negative or reaches past the records section.
    #[error("record length {0} doesn't fit the batch")]
    Length(i32),
    /// A key, value or header reaches past its record, or has a length below -1.
    #[error("field length {0} doesn't fit the record")]
    FieldLength(i32),
    /// The record's attributes byte is missing.
    #[error("a record without its attributes byte")]
    NoAttributes,
    /// The number of headers is negative, or larger than the bytes could hold.
    #[error("{0} headers don't fit the record")]
    HeaderCount(i32),
    /// A header's key is null.
    #[error("a header with a null key")]
    NullHeaderKey,
    /// The record is longer than its fields.
    #[error("{0} bytes behind the fields of a record")]
    BytesInRecord(usize),
    /// Offset deltas don't rise, or pass the batch's last.
    #[error("offset delta {0} is out of order or past the end of its batch")]
    OffsetDelta(i32),
    /// The record's time can't be represented.
    #[error("timestamp delta {0} leaves the range of time")]
    TimestampDelta(i64),
    /// The section is longer than the records announced.
    #[error("{0} bytes behind the last record")]
    BytesInBatch(usize),
    /// The records are compressed; decompress them first.
    #[error("the records are compressed")]
    Compressed,
}
