//! What a broker checks before it appends a client's batch, as far as it can be seen in the batch alone.
//!
//! The records of uncompressed batches are walked. Those of compressed batches are trusted unless the topic says otherwise:
//! a client that lies in one stores bytes that its own consumers can't read, and decompressing every batch would cost
//! more than the rest of an append together. Where the topic does, its server decompresses them in pieces and walks them
//! with a [`RecordWalk`].

use zerocopy::FromBytes;

use crate::Timestamp;
use crate::batch::{
    BATCH_LENGTH_EXCLUDES_BYTES, BatchHeader, CHECKSUM_FROM, RawHeader, TimestampType, UnverifiedBatch,
};
use crate::compression::{Compression, DecompressError};
use crate::error::{CorruptBatch, CorruptRecord};
use crate::record::{Record, Records};

/// What a topic and a request allow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClientBatchRules {
    /// Size of the largest batch, header included, as compressed.
    pub batch_bytes_max: u32,
    /// Whether the request is of a version that knows Zstandard.
    pub zstd_allowed: bool,
    /// Whose clock the topic's timestamps are.
    pub timestamp_type: TimestampType,
    /// Earliest record time allowed, inclusive; looked at only where clients set the time.
    pub earliest_timestamp: Timestamp,
    /// Latest record time allowed, inclusive; looked at only where clients set the time.
    pub latest_timestamp: Timestamp,
    /// Whether every record needs a key: so on compacted topics.
    pub keys_required: bool,
}

/// Why a client's batch isn't appended: one variant an answer of the protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ClientBatchError {
    /// CORRUPT_MESSAGE (2): damaged on its way; the client may send it again.
    #[error("corrupt batch: {0}")]
    Corrupt(CorruptBatch),
    /// MESSAGE_TOO_LARGE (10): its records, decompressed.
    #[error("more than {0} bytes after decompression")]
    TooLargeDecompressed(usize),
    /// MESSAGE_TOO_LARGE (10).
    #[error("batch of {batch_bytes} bytes where at most {batch_bytes_max} may be")]
    TooLarge {
        /// Size of the batch.
        batch_bytes: u64,
        /// The topic's limit.
        batch_bytes_max: u32,
    },
    /// INVALID_TIMESTAMP (32).
    #[error("invalid timestamp: {0}")]
    InvalidTimestamp(InvalidTimestamp),
    /// UNSUPPORTED_COMPRESSION_TYPE (76): the codec isn't known to this version of the request.
    #[error("the request's version doesn't know the batch's codec")]
    UnsupportedCompression,
    /// INVALID_RECORD (87): well-formed bytes that no log takes.
    #[error("invalid record: {0}")]
    InvalidRecord(InvalidRecord),
}

/// What is wrong with a batch's times.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidTimestamp {
    /// Only brokers mark a batch as having append time.
    #[error("a client marked its batch as having append time")]
    AppendTime,
    /// A time outside of what the topic allows.
    #[error("{timestamp} lies outside the times the topic allows")]
    OutOfBounds {
        /// The time.
        timestamp: Timestamp,
        /// The record's index in the batch, where the records were looked at.
        index: Option<u32>,
    },
}

/// What is wrong with a batch that arrived undamaged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidRecord {
    /// No batch at all.
    #[error("no batch")]
    NoBatch,
    /// More than one batch, or bytes behind it.
    #[error("{0} bytes behind the batch")]
    BytesBehind(usize),
    /// A format version that isn't appended.
    #[error("batch format version {0}")]
    Magic(i8),
    /// Clients don't know offsets.
    #[error("base offset {0}, not 0")]
    BaseOffset(i64),
    /// A client's batch has a record for every offset, and at least one.
    #[error("{record_count} records for {last_offset_delta} + 1 offsets")]
    Count {
        /// Records by the header.
        record_count: i32,
        /// Last offset delta by the header.
        last_offset_delta: i32,
    },
    /// Only brokers write control batches.
    #[error("a control batch")]
    Control,
    /// A producer with an identity numbers its records.
    #[error("sequence {0} with a producer id")]
    Sequence(i32),
    /// A producer with an identity has an epoch.
    #[error("producer epoch {0} with a producer id")]
    ProducerEpoch(i16),
    /// A transaction belongs to a producer.
    #[error("a transactional batch without a producer id")]
    TransactionWithoutProducer,
    /// A record can't be read, or its offset isn't the next.
    #[error("record {index}: {cause}")]
    Record {
        /// The record's index in the batch.
        index: u32,
        /// What is wrong.
        cause: CorruptRecord,
    },
    /// Its codec didn't write these bytes.
    #[error("damaged {0} data")]
    Compressed(Compression),
    /// A record without a key where compaction needs one.
    #[error("record {index} has no key, on a compacted topic")]
    NoKey {
        /// The record's index in the batch.
        index: u32,
    },
}

impl ClientBatchError {
    /// The index of the record in the batch that is why, where it is one.
    #[must_use]
    pub const fn record_index(&self) -> Option<u32> {
        match self {
            Self::InvalidRecord(InvalidRecord::Record { index, .. } | InvalidRecord::NoKey { index }) => {
                Some(*index)
            }
            Self::InvalidTimestamp(InvalidTimestamp::OutOfBounds { index, .. }) => *index,
            Self::InvalidRecord(_)
            | Self::InvalidTimestamp(_)
            | Self::Corrupt(_)
            | Self::TooLarge { .. }
            | Self::TooLargeDecompressed(_)
            | Self::UnsupportedCompression => None,
        }
    }
}

/// Checks the one batch that a produce request carries for a partition.
///
/// The checksum of an accepted batch is left to whoever copies it, who has to read it all anyway. A refused batch was
/// refused with its checksum right: damage is always answered as such.
///
/// What needs a producer's history (duplicates, sequence gaps, fencing) is the log's to check.
///
/// # Errors
/// See [`ClientBatchError`].
pub fn validate_client_batch<'a>(
    bytes: &'a [u8],
    rules: &ClientBatchRules,
) -> Result<UnverifiedBatch<'a>, ClientBatchError> {
    let (batch, rest) =
        UnverifiedBatch::parse(bytes, u32::MAX).map_err(|corrupt| refusal_of_header(corrupt, bytes))?;
    let header = batch.header();
    if header.batch_bytes > rules.batch_bytes_max {
        return Err(too_large(header.batch_bytes, rules));
    }
    if !rest.is_empty() {
        return Err(ClientBatchError::InvalidRecord(InvalidRecord::BytesBehind(rest.len())));
    }
    check(&batch, rules).map_err(|refusal| match batch.verify() {
        Ok(_) => refusal,
        Err(corrupt) => ClientBatchError::Corrupt(corrupt),
    })
}

/// Checks what means something only in an undamaged batch.
fn check<'a>(
    batch: &UnverifiedBatch<'a>,
    rules: &ClientBatchRules,
) -> Result<UnverifiedBatch<'a>, ClientBatchError> {
    let header = batch.header();
    check_identity(header).map_err(ClientBatchError::InvalidRecord)?;
    check_policy(header, rules)?;
    match header.compression() {
        Compression::None => walk(batch, rules),
        Compression::Gzip | Compression::Snappy | Compression::Lz4 | Compression::Zstd => {
            check_time(header.max_timestamp, None, rules)?;
            Ok(*batch)
        }
    }
}

fn too_large(batch_bytes: u32, rules: &ClientBatchRules) -> ClientBatchError {
    let batch_bytes_max = rules.batch_bytes_max;
    ClientBatchError::TooLarge { batch_bytes: u64::from(batch_bytes), batch_bytes_max }
}

/// Sorts what the parser found by whether sending it again could help.
fn refusal_of_header(corrupt: CorruptBatch, bytes: &[u8]) -> ClientBatchError {
    match corrupt {
        CorruptBatch::HeaderIncomplete { .. } if bytes.is_empty() => {
            ClientBatchError::InvalidRecord(InvalidRecord::NoBatch)
        }
        CorruptBatch::Magic(magic) => ClientBatchError::InvalidRecord(InvalidRecord::Magic(magic)),
        CorruptBatch::RecordCount { record_count, last_offset_delta } if is_undamaged(bytes) => {
            ClientBatchError::InvalidRecord(InvalidRecord::Count { record_count, last_offset_delta })
        }
        CorruptBatch::HeaderIncomplete { .. }
        | CorruptBatch::LengthTooSmall(_)
        | CorruptBatch::TooLarge { .. }
        | CorruptBatch::Truncated { .. }
        | CorruptBatch::RecordCount { .. }
        | CorruptBatch::Checksum { .. }
        | CorruptBatch::Codec(_) => ClientBatchError::Corrupt(corrupt),
    }
}

/// Whether the checksum holds of a batch whose header makes no sense: if so, its client made it like that.
fn is_undamaged(bytes: &[u8]) -> bool {
    let Ok((raw, _)) = RawHeader::ref_from_prefix(bytes) else { return false };
    let length = u32::try_from(raw.batch_length.get()).unwrap_or(0);
    let end = usize::try_from(length.saturating_add(BATCH_LENGTH_EXCLUDES_BYTES)).unwrap_or(usize::MAX);
    bytes.get(CHECKSUM_FROM..end).is_some_and(|covered| crc32c::crc32c(covered) == raw.crc.get())
}

fn check_identity(header: &BatchHeader) -> Result<(), InvalidRecord> {
    if header.base_offset != 0 {
        return Err(InvalidRecord::BaseOffset(header.base_offset));
    }
    if header.record_count != header.last_offset_delta.saturating_add(1) {
        return Err(wrong_count(header));
    }
    if header.is_control() {
        return Err(InvalidRecord::Control);
    }
    if header.has_producer() && header.base_sequence < 0 {
        return Err(InvalidRecord::Sequence(header.base_sequence));
    }
    if header.has_producer() && header.producer_epoch.0 < 0 {
        return Err(InvalidRecord::ProducerEpoch(header.producer_epoch.0));
    }
    if header.is_transactional() && !header.has_producer() {
        return Err(InvalidRecord::TransactionWithoutProducer);
    }
    Ok(())
}

fn wrong_count(header: &BatchHeader) -> InvalidRecord {
    InvalidRecord::Count {
        record_count: header.record_count.cast_signed(),
        last_offset_delta: header.last_offset_delta.cast_signed(),
    }
}

fn check_policy(header: &BatchHeader, rules: &ClientBatchRules) -> Result<(), ClientBatchError> {
    if header.compression() == Compression::Zstd && !rules.zstd_allowed {
        return Err(ClientBatchError::UnsupportedCompression);
    }
    if rules.timestamp_type == TimestampType::LogAppend {
        return Ok(());
    }
    if header.timestamp_type() == TimestampType::LogAppend {
        return Err(ClientBatchError::InvalidTimestamp(InvalidTimestamp::AppendTime));
    }
    Ok(())
}

fn check_time(
    timestamp: Timestamp,
    index: Option<u32>,
    rules: &ClientBatchRules,
) -> Result<(), ClientBatchError> {
    let allowed = rules.earliest_timestamp..=rules.latest_timestamp;
    let append_time = rules.timestamp_type == TimestampType::LogAppend;
    if append_time || timestamp == Timestamp::NONE || allowed.contains(&timestamp) {
        return Ok(());
    }
    Err(ClientBatchError::InvalidTimestamp(InvalidTimestamp::OutOfBounds { timestamp, index }))
}

fn walk<'a>(
    batch: &UnverifiedBatch<'a>,
    rules: &ClientBatchRules,
) -> Result<UnverifiedBatch<'a>, ClientBatchError> {
    let mut walk = RecordWalk::new(batch.header(), batch.records_section(), rules);
    while walk.go_on(usize::MAX)? {}
    Ok(walk.corrected(batch))
}

/// Checks the records of a batch one after the other, some at a time.
pub struct RecordWalk<'r> {
    records: Records<'r>,
    rules: &'r ClientBatchRules,
    index: u32,
    max_timestamp: Timestamp,
}

impl<'r> RecordWalk<'r> {
    /// Of the records in `section`, which is the records section of the batch with this header, decompressed.
    #[must_use]
    pub const fn new(header: &BatchHeader, section: &'r [u8], rules: &'r ClientBatchRules) -> Self {
        let records = Records::new(header, section);
        Self { records, rules, index: 0, max_timestamp: Timestamp::NONE }
    }

    /// Checks the next `count` records at most. Whether there are more.
    ///
    /// # Errors
    /// See [`ClientBatchError`]; the batch's checksum is still to be looked at, since damage is answered as such.
    pub fn go_on(&mut self, count: usize) -> Result<bool, ClientBatchError> {
        for _ in 0..count {
            let Some(record) = self.records.next() else { return Ok(false) };
            let index = self.index;
            let refused = |cause| ClientBatchError::InvalidRecord(InvalidRecord::Record { index, cause });
            let record = record.map_err(refused)?;
            check_record(&record, index, self.rules)?;
            self.max_timestamp = self.max_timestamp.max(record.timestamp);
            self.index = index.saturating_add(1);
        }
        Ok(true)
    }

    /// The batch, all records of which were walked: with their latest time where its header tells another.
    #[must_use]
    pub fn corrected<'a>(&self, batch: &UnverifiedBatch<'a>) -> UnverifiedBatch<'a> {
        let client_sets_time = self.rules.timestamp_type == TimestampType::Create;
        let wrong = client_sets_time && self.max_timestamp != batch.header().max_timestamp;
        if wrong { batch.with_corrected_max_timestamp(self.max_timestamp) } else { *batch }
    }
}

impl From<&DecompressError> for ClientBatchError {
    fn from(error: &DecompressError) -> Self {
        match error {
            DecompressError::TooLarge { limit } => Self::TooLargeDecompressed(*limit),
            DecompressError::Damaged { codec, .. } => Self::InvalidRecord(InvalidRecord::Compressed(*codec)),
        }
    }
}

fn check_record(record: &Record<'_>, index: u32, rules: &ClientBatchRules) -> Result<(), ClientBatchError> {
    if rules.keys_required && record.key.is_none() {
        return Err(ClientBatchError::InvalidRecord(InvalidRecord::NoKey { index }));
    }
    check_time(record.timestamp, Some(index), rules)
}

#[cfg(test)]
mod tests;
