//! The record batch: the unit of produce, storage, checksum and fetch.
//!
//! ```text
//! byte  field                       in the CRC
//!    0  base offset            i64  no   set by the broker, in place
//!    8  batch length           i32  no   bytes after this field: size of the batch - 12
//!   12  leader epoch           i32  no   set by the broker, in place
//!   16  magic                  i8   no   2
//!   17  crc                    u32  -    CRC-32C of bytes 21 to the end
//!   21  attributes             i16  yes  bits 0-2 codec, 3 append time, 4 transactional, 5 control, 6 delete horizon
//!   23  last offset delta      i32  yes
//!   27  base timestamp         i64  yes
//!   35  max timestamp          i64  yes
//!   43  producer id            i64  yes  -1: none
//!   51  producer epoch         i16  yes
//!   53  base sequence          i32  yes  -1: none; after 2^31 - 1 comes 0
//!   57  record count           i32  yes
//!   61  records                     yes  one after the other, or all of them compressed as one
//! ```
//!
//! The base offset and the leader epoch are the broker's to set, and lie in front of the checksum so that it can set
//! them without reading the batch again. The price: the checksum doesn't vouch for them, nor for the length. Whoever
//! reads batches back checks those three against what must come next ([`BatchHeader::base_offset`] equal to the
//! expected offset, epochs that never fall, a length within bounds).

use zerocopy::byteorder::big_endian::{I16, I32, I64, U32};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::compression::Compression;
use crate::error::{CorruptBatch, CorruptRecord};
use crate::record::Records;
use crate::{LeaderEpoch, Offset, ProducerEpoch, ProducerId, Timestamp};

/// Size of a batch without records; also the least size of a batch.
pub const BATCH_HEADER_BYTES: usize = 61;

/// Bytes in front of what the length field counts.
pub const BATCH_LENGTH_EXCLUDES_BYTES: u32 = 12;

/// The format version this crate knows.
pub const MAGIC: i8 = 2;

/// The first byte of a batch that its checksum covers; it covers all from there.
pub const CHECKSUM_FROM: usize = 21;

const CODEC_MASK: i16 = 0b111;
pub(crate) const APPEND_TIME_BIT: i16 = 1 << 3;
const TRANSACTIONAL_BIT: i16 = 1 << 4;
const CONTROL_BIT: i16 = 1 << 5;
const DELETE_HORIZON_BIT: i16 = 1 << 6;

/// The header as it lies in the bytes.
#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub(crate) struct RawHeader {
    pub(crate) base_offset: I64,
    pub(crate) batch_length: I32,
    pub(crate) leader_epoch: I32,
    pub(crate) magic: i8,
    pub(crate) crc: U32,
    pub(crate) attributes: I16,
    pub(crate) last_offset_delta: I32,
    pub(crate) base_timestamp: I64,
    pub(crate) max_timestamp: I64,
    pub(crate) producer_id: I64,
    pub(crate) producer_epoch: I16,
    pub(crate) base_sequence: I32,
    pub(crate) record_count: I32,
}

const _: () = assert!(size_of::<RawHeader>() == BATCH_HEADER_BYTES);
const _: () = assert!(core::mem::offset_of!(RawHeader, attributes) == CHECKSUM_FROM);

/// Whose clock a batch's timestamps are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TimestampType {
    /// The producer's: when the record was made.
    #[default]
    Create,
    /// The broker's: when the batch was appended; every record has the batch's max timestamp.
    LogAppend,
}

/// A batch's header, checked for everything that can be known without the records and the checksum.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BatchHeader {
    /// Offset of the first record, as it stands in the bytes: 0 in what a client sends, never negative in a log.
    pub base_offset: i64,
    /// Size of the whole batch with this header, in bytes.
    pub batch_bytes: u32,
    /// Epoch of the leader that appended the batch; -1 in what a client sends.
    pub leader_epoch: LeaderEpoch,
    /// CRC-32C of everything from the attributes on.
    pub crc: u32,
    /// Codec and flags; see the accessors.
    pub attributes: i16,
    /// Offset of the last record minus the base offset.
    pub last_offset_delta: u32,
    /// Time that the records' deltas add to.
    pub base_timestamp: Timestamp,
    /// The latest time of any record.
    pub max_timestamp: Timestamp,
    /// Who produced the batch; [`ProducerId::NONE`] without idempotence.
    pub producer_id: ProducerId,
    /// The producer's epoch; -1 without idempotence.
    pub producer_epoch: ProducerEpoch,
    /// Sequence of the first record; -1 without idempotence and in control batches.
    pub base_sequence: i32,
    /// Records in the batch; after compaction fewer than it has offsets.
    pub record_count: u32,
}

impl BatchHeader {
    /// Reads the header at the front of `bytes`, which may end before the batch does. The checksum isn't looked at.
    ///
    /// `batch_bytes_max` is the largest batch acceptable here, header included.
    ///
    /// # Errors
    /// Any of [`CorruptBatch`] but `Truncated` and `Checksum`.
    pub fn parse(bytes: &[u8], batch_bytes_max: u32) -> Result<Self, CorruptBatch> {
        let (raw, _) = RawHeader::ref_from_prefix(bytes)
            .map_err(|_| CorruptBatch::HeaderIncomplete { have: bytes.len() })?;
        if raw.magic != MAGIC {
            return Err(CorruptBatch::Magic(raw.magic));
        }
        let batch_bytes = batch_bytes(raw.batch_length.get(), batch_bytes_max)?;
        let header = Self::from_raw(raw, batch_bytes)?;
        Compression::from_codec(codec(header.attributes)).map_err(CorruptBatch::Codec)?;
        Ok(header)
    }

    fn from_raw(raw: &RawHeader, batch_bytes: u32) -> Result<Self, CorruptBatch> {
        let (last_offset_delta, record_count) = counts(raw.last_offset_delta.get(), raw.record_count.get())?;
        Ok(Self {
            base_offset: raw.base_offset.get(),
            batch_bytes,
            leader_epoch: LeaderEpoch(raw.leader_epoch.get()),
            crc: raw.crc.get(),
            attributes: raw.attributes.get(),
            last_offset_delta,
            base_timestamp: Timestamp(raw.base_timestamp.get()),
            max_timestamp: Timestamp(raw.max_timestamp.get()),
            producer_id: ProducerId(raw.producer_id.get()),
            producer_epoch: ProducerEpoch(raw.producer_epoch.get()),
            base_sequence: raw.base_sequence.get(),
            record_count,
        })
    }

    /// The header's bytes, as [`BatchHeader::parse`] reads them. The checksum is written as it stands in `self`.
    ///
    /// Counts and sizes past `i32::MAX`, which no parsed header has, are written as `i32::MAX`.
    #[must_use]
    pub fn to_bytes(&self) -> [u8; BATCH_HEADER_BYTES] {
        let signed = |count: u32| I32::new(i32::try_from(count).unwrap_or(i32::MAX));
        let raw = RawHeader {
            base_offset: I64::new(self.base_offset),
            batch_length: signed(self.batch_bytes.saturating_sub(BATCH_LENGTH_EXCLUDES_BYTES)),
            leader_epoch: I32::new(self.leader_epoch.0),
            magic: MAGIC,
            crc: U32::new(self.crc),
            attributes: I16::new(self.attributes),
            last_offset_delta: signed(self.last_offset_delta),
            base_timestamp: I64::new(self.base_timestamp.0),
            max_timestamp: I64::new(self.max_timestamp.0),
            producer_id: I64::new(self.producer_id.0),
            producer_epoch: I16::new(self.producer_epoch.0),
            base_sequence: I32::new(self.base_sequence),
            record_count: signed(self.record_count),
        };
        zerocopy::transmute!(raw)
    }

    /// The batch's codec.
    #[must_use]
    pub fn compression(&self) -> Compression {
        Compression::from_codec(codec(self.attributes)).unwrap_or(Compression::None)
    }

    /// Whether the batch belongs to a transaction.
    #[must_use]
    pub const fn is_transactional(&self) -> bool {
        self.attributes & TRANSACTIONAL_BIT != 0
    }

    /// Whether a broker wrote the batch to mark something, such as the end of a transaction.
    #[must_use]
    pub const fn is_control(&self) -> bool {
        self.attributes & CONTROL_BIT != 0
    }

    /// Whether compaction put into the base timestamp when the batch's tombstones may go.
    #[must_use]
    pub const fn has_delete_horizon(&self) -> bool {
        self.attributes & DELETE_HORIZON_BIT != 0
    }

    /// Whose clock the timestamps are.
    #[must_use]
    pub const fn timestamp_type(&self) -> TimestampType {
        if self.attributes & APPEND_TIME_BIT == 0 { TimestampType::Create } else { TimestampType::LogAppend }
    }

    /// Whether a producer with an identity made the batch.
    #[must_use]
    pub const fn has_producer(&self) -> bool {
        self.producer_id.0 >= 0
    }

    /// Sequence of the last record: after `i32::MAX` comes 0. -1 where the batch has no sequence.
    #[must_use]
    pub fn last_sequence(&self) -> i32 {
        if self.base_sequence < 0 {
            return -1;
        }
        let wrapped = i64::from(self.base_sequence).wrapping_add(i64::from(self.last_offset_delta));
        i32::try_from(wrapped & i64::from(i32::MAX)).unwrap_or(i32::MAX)
    }

    /// Offset of the last record, inclusive; `None` where the base offset is negative or the sum past the end.
    #[must_use]
    pub fn last_offset(&self) -> Option<Offset> {
        Offset::new(self.base_offset)?.checked_add(u64::from(self.last_offset_delta))
    }
}

fn codec(attributes: i16) -> u8 {
    u8::try_from(attributes & CODEC_MASK).unwrap_or(u8::MAX)
}

/// The attributes of a new batch.
pub(crate) fn attributes(compression: Compression, transactional: bool, control: bool) -> i16 {
    let flag = |set: bool, bit: i16| if set { bit } else { 0 };
    i16::from(compression.codec()) | flag(transactional, TRANSACTIONAL_BIT) | flag(control, CONTROL_BIT)
}

fn batch_bytes(batch_length: i32, batch_bytes_max: u32) -> Result<u32, CorruptBatch> {
    let too_small = CorruptBatch::LengthTooSmall(batch_length);
    let length = u32::try_from(batch_length).map_err(|_| too_small)?;
    let batch_bytes = length.saturating_add(BATCH_LENGTH_EXCLUDES_BYTES);
    if (batch_bytes as usize) < BATCH_HEADER_BYTES {
        return Err(too_small);
    }
    if batch_bytes > batch_bytes_max {
        return Err(CorruptBatch::TooLarge { batch_bytes, batch_bytes_max });
    }
    Ok(batch_bytes)
}

/// Checks what holds for client batches and for what compaction leaves of them: not more records than offsets.
fn counts(last_offset_delta: i32, record_count: i32) -> Result<(u32, u32), CorruptBatch> {
    let wrong = CorruptBatch::RecordCount { record_count, last_offset_delta };
    let last = u32::try_from(last_offset_delta).map_err(|_| wrong)?;
    let count = u32::try_from(record_count).map_err(|_| wrong)?;
    if count > last.saturating_add(1) { Err(wrong) } else { Ok((last, count)) }
}

/// One whole batch whose checksum nobody has looked at, borrowed from whoever holds the bytes.
///
/// Whoever reads all of it anyway, such as to copy it, compares the checksum then; others [`verify`](Self::verify) it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnverifiedBatch<'a> {
    header: BatchHeader,
    bytes: &'a [u8],
    records: &'a [u8],
    corrected_max_timestamp: Option<Timestamp>,
}

impl<'a> UnverifiedBatch<'a> {
    /// Takes the batch at the front of `bytes`, of at most `batch_bytes_max` bytes with its header; also returns the
    /// bytes behind it.
    ///
    /// # Errors
    /// Any of [`CorruptBatch`] but `Checksum`.
    pub fn parse(bytes: &'a [u8], batch_bytes_max: u32) -> Result<(Self, &'a [u8]), CorruptBatch> {
        let header = BatchHeader::parse(bytes, batch_bytes_max)?;
        let truncated = CorruptBatch::Truncated { batch_bytes: header.batch_bytes, have: bytes.len() };
        let (batch, rest) = bytes.split_at_checked(header.batch_bytes as usize).ok_or(truncated)?;
        let records = batch.get(BATCH_HEADER_BYTES..).ok_or(truncated)?;
        Ok((Self { header, bytes: batch, records, corrected_max_timestamp: None }, rest))
    }

    /// Compares the checksum.
    ///
    /// # Errors
    /// [`CorruptBatch::Checksum`].
    pub fn verify(&self) -> Result<RecordBatch<'a>, CorruptBatch> {
        let stored = self.header.crc;
        let computed = crc32c::crc32c(self.bytes.get(CHECKSUM_FROM..).unwrap_or_default());
        if computed == stored {
            Ok(RecordBatch(*self))
        } else {
            Err(CorruptBatch::Checksum { stored, computed })
        }
    }

    pub(crate) fn with_corrected_max_timestamp(self, corrected: Timestamp) -> Self {
        let header = BatchHeader { max_timestamp: corrected, ..self.header };
        Self { header, corrected_max_timestamp: Some(corrected), ..self }
    }

    /// The header, with the [corrected](Self::corrected_max_timestamp) max timestamp where there is one.
    #[must_use]
    pub const fn header(&self) -> &BatchHeader {
        &self.header
    }

    /// The whole batch, header included.
    #[must_use]
    pub const fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// What follows the header: records, or what they were compressed to.
    #[must_use]
    pub const fn records_section(&self) -> &'a [u8] {
        self.records
    }

    /// The latest time of any record where [`validate_client_batch`](crate::validate_client_batch) found another one
    /// than the header states: write it with [`set_max_timestamp`](crate::set_max_timestamp) before the append.
    #[must_use]
    pub const fn corrected_max_timestamp(&self) -> Option<Timestamp> {
        self.corrected_max_timestamp
    }
}

/// One whole batch whose checksum is right, borrowed from whoever holds the bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecordBatch<'a>(UnverifiedBatch<'a>);

impl<'a> RecordBatch<'a> {
    /// Takes the batch at the front of `bytes` and checks its checksum; also returns the bytes behind it.
    ///
    /// # Errors
    /// Any of [`CorruptBatch`] but `TooLarge`.
    pub fn parse(bytes: &'a [u8]) -> Result<(Self, &'a [u8]), CorruptBatch> {
        let (batch, rest) = UnverifiedBatch::parse(bytes, u32::MAX)?;
        Ok((batch.verify()?, rest))
    }

    /// The header.
    #[must_use]
    pub const fn header(&self) -> &BatchHeader {
        self.0.header()
    }

    /// The whole batch, header included.
    #[must_use]
    pub const fn bytes(&self) -> &'a [u8] {
        self.0.bytes()
    }

    /// What follows the header: records, or what they were compressed to.
    #[must_use]
    pub const fn records_section(&self) -> &'a [u8] {
        self.0.records_section()
    }

    /// The records of an uncompressed batch.
    ///
    /// # Errors
    /// [`CorruptRecord::Compressed`]; then decompress the section and use [`Records::new`].
    pub fn records(&self) -> Result<Records<'a>, CorruptRecord> {
        match self.header().compression() {
            Compression::None => Ok(Records::new(self.header(), self.records_section())),
            Compression::Gzip | Compression::Snappy | Compression::Lz4 | Compression::Zstd => {
                Err(CorruptRecord::Compressed)
            }
        }
    }
}

impl<'a> From<RecordBatch<'a>> for UnverifiedBatch<'a> {
    fn from(batch: RecordBatch<'a>) -> Self {
        batch.0
    }
}

#[cfg(test)]
mod tests;
