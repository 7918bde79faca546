//! Record batches as a producer makes them: records are written once, behind room for the header, and go to the socket
//! from where they were written.
//!
//! A batch's life: [`BatchWriter`] takes records; [`BatchWriter::seal`] compresses and fixes its size; the producer's
//! core stamps it with identity and sequence when it is first sent. The header and the checksum are written only then,
//! because both depend on the sequence, so each byte is read once for the checksum.

use std::rc::Rc;

use engine_record::varint::{varlong_bytes, write_varint, write_varlong};
use engine_record::{
    BATCH_HEADER_BYTES, BatchHeader, CHECKSUM_FROM, CompressError, Compression, LeaderEpoch, NewRecord,
    Producer, Timestamp, compress,
};

/// The most bytes a batch may have: what the length field can say.
const BATCH_BYTES_MAX: usize = i32::MAX as usize;

/// Where in a batch the checksum stands, exclusive end.
const CRC_END: usize = CHECKSUM_FROM;

/// A record that doesn't fit into the batch as it is. The batch is unchanged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DoesNotFit {
    /// The sizes or counts of a batch have 31 bits.
    #[error("more bytes or records than a batch can hold")]
    TooLarge,
    /// The difference to the first record's time has 64 bits.
    #[error("a timestamp too far from the batch's first")]
    TimestampRange,
}

/// Takes records and writes them in the format of a batch.
#[derive(Clone, Debug)]
pub struct BatchWriter {
    /// Room for the header, then the records.
    bytes: Vec<u8>,
    record_count: u32,
    base_timestamp: Timestamp,
    max_timestamp: Timestamp,
}

impl BatchWriter {
    /// A batch without records, in memory that is used again if `memory` has some.
    #[must_use]
    pub fn new(mut memory: Vec<u8>) -> Self {
        memory.clear();
        memory.resize(BATCH_HEADER_BYTES, 0);
        Self {
            bytes: memory,
            record_count: 0,
            base_timestamp: Timestamp::NONE,
            max_timestamp: Timestamp::NONE,
        }
    }

    /// Records so far.
    #[must_use]
    pub const fn record_count(&self) -> u32 {
        self.record_count
    }

    /// Size of the batch with its header, before compression.
    #[must_use]
    pub const fn batch_bytes(&self) -> usize {
        self.bytes.len()
    }

    /// Whether another record brings nothing over `batch_bytes_max`, or the batch is empty and must take it anyway.
    #[must_use]
    pub const fn has_room(&self, record_bytes: usize, batch_bytes_max: usize) -> bool {
        self.record_count == 0 || self.bytes.len() + record_bytes <= batch_bytes_max
    }

    /// Appends a record.
    ///
    /// # Errors
    /// See [`DoesNotFit`].
    pub fn push(&mut self, record: &NewRecord<'_>) -> Result<(), DoesNotFit> {
        let shape =
            self.shape(record.timestamp, record.key.map(<[u8]>::len), record.value.map(<[u8]>::len))?;
        let body_bytes = shape.body_bytes + header_list_bytes(record);
        self.open_record(shape, body_bytes)?;
        write_nullable(&mut self.bytes, record.key);
        write_nullable(&mut self.bytes, record.value);
        write_varlong(&mut self.bytes, signed(record.headers.len()));
        for (key, value) in record.headers {
            write_nullable(&mut self.bytes, Some(key));
            write_nullable(&mut self.bytes, *value);
        }
        Ok(())
    }

    /// Appends a record without headers whose value of `value_bytes` bytes `fill` writes into the batch itself, so
    /// that it is never anywhere else. The slice `fill` gets holds zeros.
    ///
    /// # Errors
    /// See [`DoesNotFit`].
    pub fn push_with(
        &mut self,
        timestamp: Timestamp,
        key: Option<&[u8]>,
        value_bytes: usize,
        fill: impl FnOnce(&mut [u8]),
    ) -> Result<(), DoesNotFit> {
        let shape = self.shape(timestamp, key.map(<[u8]>::len), Some(value_bytes))?;
        let no_headers = 1;
        self.open_record(shape, shape.body_bytes + no_headers)?;
        write_nullable(&mut self.bytes, key);
        write_varlong(&mut self.bytes, signed(value_bytes));
        let value_from = self.bytes.len();
        self.bytes.resize(value_from + value_bytes, 0);
        fill(&mut self.bytes[value_from..]);
        self.bytes.push(0);
        Ok(())
    }

    /// Checks that the record fits; nothing is written.
    fn shape(
        &self,
        timestamp: Timestamp,
        key: Option<usize>,
        value: Option<usize>,
    ) -> Result<Shape, DoesNotFit> {
        let base = if self.record_count == 0 { timestamp } else { self.base_timestamp };
        let timestamp_delta = timestamp.0.checked_sub(base.0).ok_or(DoesNotFit::TimestampRange)?;
        let offset_delta = i32::try_from(self.record_count).map_err(|_| DoesNotFit::TooLarge)?;
        let attributes_bytes = 1;
        let body_bytes = attributes_bytes
            + varlong_bytes(timestamp_delta)
            + varlong_bytes(i64::from(offset_delta))
            + nullable_bytes(key)
            + nullable_bytes(value);
        Ok(Shape { timestamp, base, timestamp_delta, offset_delta, body_bytes })
    }

    /// Writes what stands before the key.
    fn open_record(&mut self, shape: Shape, body_bytes: usize) -> Result<(), DoesNotFit> {
        let length = i32::try_from(body_bytes).map_err(|_| DoesNotFit::TooLarge)?;
        if self.bytes.len() + varlong_bytes(i64::from(length)) + body_bytes > BATCH_BYTES_MAX {
            return Err(DoesNotFit::TooLarge);
        }
        write_varint(&mut self.bytes, length);
        self.bytes.push(0);
        write_varlong(&mut self.bytes, shape.timestamp_delta);
        write_varint(&mut self.bytes, shape.offset_delta);
        let is_first = self.record_count == 0;
        self.base_timestamp = shape.base;
        self.max_timestamp = if is_first { shape.timestamp } else { self.max_timestamp.max(shape.timestamp) };
        self.record_count += 1;
        Ok(())
    }

    /// Ends the batch and compresses it.
    ///
    /// # Errors
    /// The codec's failure; the batch is lost.
    ///
    /// # Panics
    /// Where the batch has no record.
    pub fn seal(self, compression: Compression) -> Result<SealedBatch, CompressError> {
        assert!(self.record_count > 0, "a batch has at least one record");
        let bytes = match compression {
            Compression::None => self.bytes,
            Compression::Gzip | Compression::Snappy | Compression::Lz4 | Compression::Zstd => {
                with_header_room(&compress(compression, &self.bytes[BATCH_HEADER_BYTES..])?)
            }
        };
        let header = Header {
            record_count: self.record_count,
            base_timestamp: self.base_timestamp,
            max_timestamp: self.max_timestamp,
            compression,
        };
        Ok(SealedBatch { bytes: Rc::new(bytes), header, stamped: None })
    }
}

fn with_header_room(section: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(BATCH_HEADER_BYTES + section.len());
    bytes.resize(BATCH_HEADER_BYTES, 0);
    bytes.extend_from_slice(section);
    bytes
}

#[derive(Clone, Copy)]
struct Shape {
    timestamp: Timestamp,
    base: Timestamp,
    timestamp_delta: i64,
    offset_delta: i32,
    body_bytes: usize,
}

/// The most bytes `record` takes in a batch of at most 2^31 bytes.
#[must_use]
pub fn record_bytes_max(record: &NewRecord<'_>) -> usize {
    let longest_numbers = 5 + 1 + 10 + 5;
    let fields = nullable_bytes(record.key.map(<[u8]>::len)) + nullable_bytes(record.value.map(<[u8]>::len));
    longest_numbers + fields + header_list_bytes(record)
}

fn header_list_bytes(record: &NewRecord<'_>) -> usize {
    let of_one = |(key, value): &(&[u8], Option<&[u8]>)| {
        nullable_bytes(Some(key.len())) + nullable_bytes(value.map(<[u8]>::len))
    };
    varlong_bytes(signed(record.headers.len())) + record.headers.iter().map(of_one).sum::<usize>()
}

fn nullable_bytes(len: Option<usize>) -> usize {
    len.map_or(1, |len| varlong_bytes(signed(len)) + len)
}

fn write_nullable(out: &mut Vec<u8>, bytes: Option<&[u8]>) {
    write_varlong(out, bytes.map_or(-1, |bytes| signed(bytes.len())));
    out.extend_from_slice(bytes.unwrap_or_default());
}

fn signed(len: usize) -> i64 {
    i64::try_from(len).unwrap_or(i64::MAX)
}

#[derive(Clone, Copy, Debug)]
struct Header {
    record_count: u32,
    base_timestamp: Timestamp,
    max_timestamp: Timestamp,
    compression: Compression,
}

/// A batch whose records are fixed. Its bytes are shared, so that it can lie on the way to the socket and be kept for
/// another attempt at the same time.
#[derive(Clone, Debug)]
pub struct SealedBatch {
    bytes: Rc<Vec<u8>>,
    header: Header,
    stamped: Option<Producer>,
}

impl SealedBatch {
    /// Records in the batch, at least 1.
    #[must_use]
    pub const fn record_count(&self) -> u32 {
        self.header.record_count
    }

    /// Size of the batch with its header, after compression.
    #[must_use]
    pub fn batch_bytes(&self) -> usize {
        self.bytes.len()
    }

    /// Writes header and checksum for this producer and sequence. Where an earlier attempt still shares the bytes they
    /// are copied, so what is on its way to a socket never changes.
    pub fn stamp(&mut self, producer: Producer) {
        if self.stamped == Some(producer) {
            return;
        }
        let bytes = Rc::make_mut(&mut self.bytes);
        let header = self.header.to_batch_header(bytes.len(), producer);
        bytes[..BATCH_HEADER_BYTES].copy_from_slice(&header.to_bytes());
        let crc = crc32c::crc32c(&bytes[CHECKSUM_FROM..]);
        bytes[CRC_END - size_of::<u32>()..CRC_END].copy_from_slice(&crc.to_be_bytes());
        self.stamped = Some(producer);
    }

    /// The bytes to send.
    ///
    /// # Panics
    /// Where the batch was never stamped.
    #[must_use]
    pub fn bytes(&self) -> Rc<Vec<u8>> {
        assert!(self.stamped.is_some(), "a batch is stamped before it is sent");
        Rc::clone(&self.bytes)
    }

    /// The memory, if nothing shares it any more.
    #[must_use]
    pub fn into_memory(self) -> Option<Vec<u8>> {
        Rc::try_unwrap(self.bytes).ok()
    }
}

impl Header {
    fn to_batch_header(self, batch_bytes: usize, producer: Producer) -> BatchHeader {
        BatchHeader {
            base_offset: 0,
            batch_bytes: u32::try_from(batch_bytes).unwrap_or(u32::MAX),
            leader_epoch: LeaderEpoch(-1),
            crc: 0,
            attributes: i16::from(self.compression.codec()),
            last_offset_delta: self.record_count - 1,
            base_timestamp: self.base_timestamp,
            max_timestamp: self.max_timestamp,
            producer_id: producer.id,
            producer_epoch: producer.epoch,
            base_sequence: producer.base_sequence,
            record_count: self.record_count,
        }
    }
}

#[cfg(test)]
mod tests {
    use engine_record::{BatchBuilder, ProducerEpoch, ProducerId, RecordBatch, decompress};

    use super::*;

    const PRODUCER: Producer = Producer { id: ProducerId(7), epoch: ProducerEpoch(2), base_sequence: 40 };

    fn records() -> [NewRecord<'static>; 4] {
        [
            NewRecord { timestamp: Timestamp(1_000), value: Some(b"one"), ..NewRecord::default() },
            NewRecord { timestamp: Timestamp(900), key: Some(b"k"), ..NewRecord::default() },
            NewRecord {
                timestamp: Timestamp(5_000_000_000_000),
                key: Some(b""),
                value: Some(&[7; 300]),
                headers: &[(b"h", Some(b"v")), (b"n", None)],
            },
            NewRecord { timestamp: Timestamp(1_001), value: Some(b""), ..NewRecord::default() },
        ]
    }

    fn written(compression: Compression) -> SealedBatch {
        let mut writer = BatchWriter::new(vec![9; 700]);
        for record in records() {
            let before = writer.batch_bytes();
            writer.push(&record).unwrap();
            assert!(writer.batch_bytes() - before <= record_bytes_max(&record));
        }
        let mut batch = writer.seal(compression).unwrap();
        batch.stamp(PRODUCER);
        batch
    }

    #[test]
    fn a_written_batch_is_byte_for_byte_what_the_builder_builds() {
        let mut builder = BatchBuilder::new().with_producer(PRODUCER);
        for record in records() {
            builder.push(&record).unwrap();
        }
        assert_eq!(*written(Compression::None).bytes(), builder.build().unwrap());
    }

    #[test]
    fn a_compressed_batch_holds_the_same_records() {
        let plain = written(Compression::None);
        for codec in [Compression::Gzip, Compression::Snappy, Compression::Lz4, Compression::Zstd] {
            let bytes = written(codec).bytes();
            let (batch, rest) = RecordBatch::parse(&bytes).unwrap();
            assert!(rest.is_empty());
            assert_eq!(batch.header().compression(), codec);
            let section = decompress(codec, batch.records_section(), 10_000).unwrap();
            assert_eq!(section, plain.bytes()[BATCH_HEADER_BYTES..]);
        }
    }

    #[test]
    fn stamping_again_leaves_what_was_already_handed_out_alone() {
        let mut batch = written(Compression::None);
        let sent = batch.bytes();
        batch.stamp(Producer { base_sequence: 0, epoch: ProducerEpoch(3), ..PRODUCER });
        let (first, _) = RecordBatch::parse(&sent).unwrap();
        let second_bytes = batch.bytes();
        let (second, _) = RecordBatch::parse(&second_bytes).unwrap();
        assert_eq!((first.header().base_sequence, second.header().base_sequence), (40, 0));
        assert!(batch.into_memory().is_none(), "the test still holds it");
    }

    #[test]
    fn a_value_filled_in_place_reads_like_a_pushed_one() {
        let mut pushed = BatchWriter::new(Vec::new());
        let value = [1, 2, 3];
        let record =
            NewRecord { timestamp: Timestamp(5), key: Some(b"k"), value: Some(&value), headers: &[] };
        pushed.push(&record).unwrap();
        let mut filled = BatchWriter::new(Vec::new());
        filled.push_with(Timestamp(5), Some(b"k"), 3, |room| room.copy_from_slice(&value)).unwrap();
        assert_eq!(pushed.bytes, filled.bytes);
    }

    #[test]
    fn a_time_too_far_from_the_first_leaves_the_batch_as_it_was() {
        let mut writer = BatchWriter::new(Vec::new());
        writer.push(&NewRecord { timestamp: Timestamp(-5), ..NewRecord::default() }).unwrap();
        let before = writer.bytes.clone();
        let late = NewRecord { timestamp: Timestamp(i64::MAX), ..NewRecord::default() };
        assert_eq!(writer.push(&late), Err(DoesNotFit::TimestampRange));
        assert_eq!((writer.bytes, writer.record_count), (before, 1));
    }
}
