//! Record batches, sound and damaged.

use engine_record::{
    BatchBuilder, Compression, NewRecord, Producer, ProducerEpoch, ProducerId, RecordBatch, Timestamp,
};

/// When the world begins, and so the time of records that don't say: 2026-01-01 00:00 UTC.
pub(crate) const NOW_MS: i64 = 1_767_225_600_000;

/// Where the fields lie that tests damage.
pub(crate) const BASE_OFFSET_AT: usize = 0;
pub(crate) const MAGIC_AT: usize = 16;
pub(crate) const ATTRIBUTES_AT: usize = 21;
pub(crate) const LAST_OFFSET_DELTA_AT: usize = 23;
pub(crate) const MAX_TIMESTAMP_AT: usize = 35;
pub(crate) const RECORDS_AT: usize = 61;

const CRC_AT: usize = 17;
const CRC_FROM: usize = 21;

/// A batch with a record for each value.
pub(crate) fn batch(values: &[&str]) -> Vec<u8> {
    timed(&values.iter().map(|value| (NOW_MS, *value)).collect::<Vec<_>>())
}

/// A batch with a record for each time and value.
pub(crate) fn timed(records: &[(i64, &str)]) -> Vec<u8> {
    fill(BatchBuilder::new(), records)
}

/// A compressed batch.
pub(crate) fn compressed(codec: Compression, records: &[(i64, &str)]) -> Vec<u8> {
    fill(BatchBuilder::new().with_compression(codec), records)
}

/// A batch of an idempotent producer, with so many records from the sequence on.
pub(crate) fn sequenced(producer: i64, epoch: i16, base_sequence: i32, count: usize) -> Vec<u8> {
    let producer = Producer { id: ProducerId(producer), epoch: ProducerEpoch(epoch), base_sequence };
    fill(BatchBuilder::new().with_producer(producer), &vec![(NOW_MS, "sequenced"); count])
}

/// A batch of one record of so many bytes.
pub(crate) fn large(bytes: usize) -> Vec<u8> {
    batch(&["x".repeat(bytes).as_str()])
}

pub(crate) fn fill(mut builder: BatchBuilder, records: &[(i64, &str)]) -> Vec<u8> {
    for (timestamp, value) in records {
        let record = NewRecord {
            timestamp: Timestamp(*timestamp),
            key: None,
            value: Some(value.as_bytes()),
            headers: &[],
        };
        builder.push(&record).unwrap();
    }
    builder.build().unwrap()
}

/// The batch with other bytes at a position, and a checksum that fits again.
pub(crate) fn with_bytes(mut batch: Vec<u8>, at: usize, bytes: &[u8]) -> Vec<u8> {
    batch[at..at + bytes.len()].copy_from_slice(bytes);
    let crc = checksum(&batch[CRC_FROM..]);
    batch[CRC_AT..CRC_AT + 4].copy_from_slice(&crc.to_be_bytes());
    batch
}

/// CRC-32C, bit by bit: the tests' own, so that it isn't checked against itself.
fn checksum(bytes: &[u8]) -> u32 {
    let step = |crc: u32| if crc & 1 == 1 { (crc >> 1) ^ 0x82f6_3b78 } else { crc >> 1 };
    !bytes.iter().fold(!0, |crc, byte| (0..8).fold(crc ^ u32::from(*byte), |crc, _| step(crc)))
}

/// The batches that a fetch gave, one after the other; each is checked.
pub(crate) fn split(mut records: &[u8]) -> Vec<RecordBatch<'_>> {
    let mut batches = Vec::new();
    while !records.is_empty() {
        let (batch, rest) = RecordBatch::parse(records).expect("a server sends whole, undamaged batches");
        batches.push(batch);
        records = rest;
    }
    batches
}

/// Offset and value of every record of uncompressed batches.
pub(crate) fn read(records: &[u8]) -> Vec<(i64, String)> {
    let mut read = Vec::new();
    for batch in split(records) {
        let base = engine_record::Offset::new(batch.header().base_offset).unwrap();
        for record in batch.records().unwrap() {
            let record = record.unwrap();
            let value = String::from_utf8(record.value.unwrap().to_vec()).unwrap();
            read.push((record.offset(base).unwrap().value(), value));
        }
    }
    read
}
