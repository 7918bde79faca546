//! Builds batches: for producing clients, for the control batches a broker writes, and for tests.

use crate::batch::{self, BATCH_HEADER_BYTES, BatchHeader, CHECKSUM_FROM};
use crate::compression::{CompressError, Compression, compress};
use crate::varint::{varlong_bytes, write_varint, write_varlong};
use crate::{LeaderEpoch, ProducerEpoch, ProducerId, Timestamp};

/// A record to be put into a batch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NewRecord<'a> {
    /// When it was made.
    pub timestamp: Timestamp,
    /// The key, or null.
    pub key: Option<&'a [u8]>,
    /// The value; null for a tombstone.
    pub value: Option<&'a [u8]>,
    /// Headers: key, and value or null.
    pub headers: &'a [(&'a [u8], Option<&'a [u8]>)],
}

/// Who produces a batch, for idempotence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Producer {
    /// The producer.
    pub id: ProducerId,
    /// Its epoch.
    pub epoch: ProducerEpoch,
    /// Sequence of the batch's first record; -1 in control batches.
    pub base_sequence: i32,
}

impl Producer {
    /// What a batch without idempotence carries.
    pub const NONE: Self = Self { id: ProducerId::NONE, epoch: ProducerEpoch(-1), base_sequence: -1 };
}

/// How a transaction ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Marker {
    /// Nothing of it counts.
    Abort,
    /// All of it counts.
    Commit,
}

/// Why records can't become a batch.
#[derive(Debug, thiserror::Error)]
pub enum BuildError {
    /// A batch has at least one record.
    #[error("a batch without records")]
    Empty,
    /// The records don't fit the 31 bits that sizes and counts have; the batch was left as it was.
    #[error("more records or bytes than a batch can hold")]
    TooLarge,
    /// The record's time is too far from the first record's; the batch was left as it was.
    #[error("a timestamp too far from the batch's first")]
    TimestampRange,
    /// The codec failed.
    #[error(transparent)]
    Compress(#[from] CompressError),
}

/// Collects records and writes them as one batch, with base offset 0 and leader epoch -1: a log assigns them.
#[derive(Clone, Debug)]
pub struct BatchBuilder {
    compression: Compression,
    producer: Producer,
    transactional: bool,
    control: bool,
    records: Vec<u8>,
    record_count: i32,
    base_timestamp: Timestamp,
    max_timestamp: Timestamp,
}

impl Default for BatchBuilder {
    fn default() -> Self {
        Self::new()
    }
}

impl BatchBuilder {
    /// A batch without records, compression or producer.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            compression: Compression::None,
            producer: Producer::NONE,
            transactional: false,
            control: false,
            records: Vec::new(),
            record_count: 0,
            base_timestamp: Timestamp::NONE,
            max_timestamp: Timestamp::NONE,
        }
    }

    /// Compresses the records when the batch is built.
    #[must_use]
    pub fn with_compression(self, compression: Compression) -> Self {
        Self { compression, ..self }
    }

    /// Names the producer, which makes the append idempotent.
    #[must_use]
    pub fn with_producer(self, producer: Producer) -> Self {
        Self { producer, ..self }
    }

    /// Makes the batch part of its producer's transaction.
    #[must_use]
    pub fn in_transaction(self) -> Self {
        Self { transactional: true, ..self }
    }

    /// Makes the batch one that a broker writes and consumers skip.
    #[must_use]
    pub fn as_control(self) -> Self {
        Self { control: true, ..self }
    }

    /// Records so far.
    #[must_use]
    pub fn record_count(&self) -> u32 {
        self.record_count.unsigned_abs()
    }

    /// Size of the batch if it were built now without compression, in bytes.
    #[must_use]
    pub const fn uncompressed_bytes(&self) -> usize {
        BATCH_HEADER_BYTES.saturating_add(self.records.len())
    }

    /// How many bytes `record` would add before compression; use it to stay below a limit.
    #[must_use]
    pub fn record_bytes(&self, record: &NewRecord<'_>) -> usize {
        let body = self.body_bytes(record);
        varlong_bytes(i64::try_from(body).unwrap_or(i64::MAX)).saturating_add(body)
    }

    /// Adds a record.
    ///
    /// # Errors
    /// `TooLarge` and `TimestampRange` of [`BuildError`].
    pub fn push(&mut self, record: &NewRecord<'_>) -> Result<(), BuildError> {
        let length = i32::try_from(self.body_bytes(record)).map_err(|_| BuildError::TooLarge)?;
        let total = self.uncompressed_bytes().saturating_add(self.record_bytes(record));
        let record_count = self.record_count.checked_add(1).ok_or(BuildError::TooLarge)?;
        if i32::try_from(total).is_err() {
            return Err(BuildError::TooLarge);
        }
        let timestamp_delta = self.timestamp_delta(record).ok_or(BuildError::TimestampRange)?;
        if self.record_count == 0 {
            self.base_timestamp = record.timestamp;
            self.max_timestamp = record.timestamp;
        }
        self.max_timestamp = self.max_timestamp.max(record.timestamp);
        self.write_record(record, length, timestamp_delta);
        self.record_count = record_count;
        Ok(())
    }

    fn write_record(&mut self, record: &NewRecord<'_>, length: i32, timestamp_delta: i64) {
        let out = &mut self.records;
        write_varint(out, length);
        out.push(0);
        write_varlong(out, timestamp_delta);
        write_varint(out, self.record_count);
        write_nullable(out, record.key);
        write_nullable(out, record.value);
        write_varlong(out, i64::try_from(record.headers.len()).unwrap_or(i64::MAX));
        for (key, value) in record.headers {
            write_nullable(out, Some(key));
            write_nullable(out, *value);
        }
    }

    fn timestamp_delta(&self, record: &NewRecord<'_>) -> Option<i64> {
        if self.record_count == 0 {
            return Some(0);
        }
        record.timestamp.0.checked_sub(self.base_timestamp.0)
    }

    fn body_bytes(&self, record: &NewRecord<'_>) -> usize {
        let timestamp_delta = self.timestamp_delta(record).unwrap_or(i64::MAX);
        let header_count = i64::try_from(record.headers.len()).unwrap_or(i64::MAX);
        let headers = record.headers.iter().flat_map(|(key, value)| [Some(*key), *value]);
        let fields = [record.key, record.value].into_iter().chain(headers).map(nullable_bytes);
        let numbers = [timestamp_delta, i64::from(self.record_count), header_count].map(varlong_bytes);
        numbers.into_iter().chain(fields).fold(1, usize::saturating_add)
    }

    /// Writes the batch.
    ///
    /// # Errors
    /// `Empty`, `TooLarge` and `Compress` of [`BuildError`].
    pub fn build(&self) -> Result<Vec<u8>, BuildError> {
        let last_offset_delta = self.record_count().checked_sub(1).ok_or(BuildError::Empty)?;
        let compressed = match self.compression {
            Compression::None => None,
            codec @ (Compression::Gzip | Compression::Snappy | Compression::Lz4 | Compression::Zstd) => {
                Some(compress(codec, &self.records)?)
            }
        };
        let section = compressed.as_deref().unwrap_or(&self.records);
        let batch_bytes = i32::try_from(BATCH_HEADER_BYTES.saturating_add(section.len()))
            .map_err(|_| BuildError::TooLarge)?
            .unsigned_abs();
        Ok(assemble(self.header(batch_bytes, last_offset_delta), section))
    }

    fn header(&self, batch_bytes: u32, last_offset_delta: u32) -> BatchHeader {
        BatchHeader {
            base_offset: 0,
            batch_bytes,
            leader_epoch: LeaderEpoch(-1),
            crc: 0,
            attributes: batch::attributes(self.compression, self.transactional, self.control),
            last_offset_delta,
            base_timestamp: self.base_timestamp,
            max_timestamp: self.max_timestamp,
            producer_id: self.producer.id,
            producer_epoch: self.producer.epoch,
            base_sequence: self.producer.base_sequence,
            record_count: self.record_count(),
        }
    }
}

/// Header and section as one batch, checksum computed.
fn assemble(header: BatchHeader, section: &[u8]) -> Vec<u8> {
    let unchecked = header.to_bytes();
    let covered = unchecked.get(CHECKSUM_FROM..).unwrap_or_default();
    let crc = crc32c::crc32c_append(crc32c::crc32c(covered), section);
    let mut bytes = Vec::with_capacity(BATCH_HEADER_BYTES.saturating_add(section.len()));
    bytes.extend_from_slice(&BatchHeader { crc, ..header }.to_bytes());
    bytes.extend_from_slice(section);
    bytes
}

/// The control batch that ends a producer's transaction in one partition.
///
/// # Errors
/// None of [`BuildError`] for any input; the signature is that of [`BatchBuilder::build`].
pub fn transaction_marker(
    producer_id: ProducerId,
    producer_epoch: ProducerEpoch,
    marker: Marker,
    coordinator_epoch: i32,
    timestamp: Timestamp,
) -> Result<Vec<u8>, BuildError> {
    let kind: i16 = match marker {
        Marker::Abort => 0,
        Marker::Commit => 1,
    };
    let [high, low] = kind.to_be_bytes();
    let [a, b, c, d] = coordinator_epoch.to_be_bytes();
    // Key and value begin with their version, 0.
    let (key, value) = ([0, 0, high, low], [0, 0, a, b, c, d]);
    let producer = Producer { id: producer_id, epoch: producer_epoch, base_sequence: -1 };
    let mut builder = BatchBuilder::new().with_producer(producer).in_transaction().as_control();
    builder.push(&NewRecord { timestamp, key: Some(&key), value: Some(&value), headers: &[] })?;
    builder.build()
}

fn nullable_bytes(field: Option<&[u8]>) -> usize {
    let Some(bytes) = field else { return varlong_bytes(-1) };
    varlong_bytes(i64::try_from(bytes.len()).unwrap_or(i64::MAX)).saturating_add(bytes.len())
}

fn write_nullable(out: &mut Vec<u8>, field: Option<&[u8]>) {
    let Some(bytes) = field else { return write_varint(out, -1) };
    write_varlong(out, i64::try_from(bytes.len()).unwrap_or(i64::MAX));
    out.extend_from_slice(bytes);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::batch::RecordBatch;

    #[test]
    fn a_batch_is_as_long_as_the_builder_foretold() {
        let mut builder = BatchBuilder::new();
        for round in 0_u8..200 {
            let value = vec![round; usize::from(round)];
            let headers: [(&[u8], Option<&[u8]>); 2] = [(b"h", None), (b"", Some(&value))];
            let record = NewRecord {
                timestamp: Timestamp(i64::from(round) << 30),
                key: (round % 2 == 0).then_some(&value),
                value: Some(&value),
                headers: &headers,
            };
            let foretold = builder.uncompressed_bytes() + builder.record_bytes(&record);
            builder.push(&record).unwrap();
            assert_eq!(builder.build().unwrap().len(), foretold);
        }
    }

    #[test]
    fn a_batch_without_records_is_refused() {
        assert!(matches!(BatchBuilder::new().build(), Err(BuildError::Empty)));
    }

    #[test]
    fn a_record_too_far_in_time_is_refused_and_leaves_the_batch_as_it_was() {
        let mut builder = BatchBuilder::new();
        builder.push(&NewRecord { timestamp: Timestamp(-5), ..NewRecord::default() }).unwrap();
        let before = builder.build().unwrap();
        let far = NewRecord { timestamp: Timestamp(i64::MAX), ..NewRecord::default() };
        assert!(matches!(builder.push(&far), Err(BuildError::TimestampRange)));
        assert_eq!(builder.build().unwrap(), before);
    }

    #[test]
    fn a_transaction_marker_is_a_control_batch_of_one_record() {
        let bytes =
            transaction_marker(ProducerId(7), ProducerEpoch(3), Marker::Commit, 12, Timestamp(99)).unwrap();
        let (batch, rest) = RecordBatch::parse(&bytes).unwrap();
        assert!(rest.is_empty());
        assert!(batch.header().is_control() && batch.header().is_transactional());
        assert_eq!(batch.header().base_sequence, -1);
        assert_eq!(batch.header().last_sequence(), -1);
        let record = batch.records().unwrap().next().unwrap().unwrap();
        assert_eq!(record.key, Some(&[0, 0, 0, 1][..]));
        assert_eq!(record.value, Some(&[0, 0, 0, 0, 0, 12][..]));
    }
}
