//! Records whose bytes tell which they are, and whether they are still what was sent.

use engine_record::{
    BatchBuilder, Compression, NewRecord, Producer, RecordBatch, Timestamp, decompress, record::Records,
};

use super::setting::Chance;

/// How many bytes a batch may unpack to.
const UNPACKED_BYTES_MAX: usize = 16 << 20;

/// The value of the record with this number: the number, and bytes that follow from it.
pub(super) fn value(number: u64) -> Vec<u8> {
    let mut state = number.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let words = match state >> 58 {
        0 => 2_000,
        1..=5 => 200,
        few => few % 13,
    };
    let mut value = number.to_be_bytes().to_vec();
    for _ in 0..words {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        value.extend_from_slice(&state.to_be_bytes());
    }
    value
}

/// The number of the record with this value; `None` where no record was ever sent so.
pub(super) fn number(bytes: &[u8]) -> Option<u64> {
    let number = u64::from_be_bytes(*bytes.first_chunk()?);
    (value(number) == bytes).then_some(number)
}

/// A batch of the records from `first` on.
pub(super) fn batch(
    chance: &Chance,
    first: u64,
    count: u64,
    made_at: Timestamp,
    producer: Producer,
) -> Vec<u8> {
    let codec = match chance.pick(0..=7) {
        0 => Compression::Gzip,
        1 => Compression::Lz4,
        2 => Compression::Snappy,
        _ => Compression::None,
    };
    let mut builder = BatchBuilder::new().with_compression(codec).with_producer(producer);
    for number in first..first + count {
        let value = value(number);
        let record = NewRecord { timestamp: made_at, key: None, value: Some(&value), headers: &[] };
        builder.push(&record).expect("a small record at one time fits");
    }
    builder.build().expect("a batch with records can be built")
}

/// The records of whole batches, by offset.
pub(super) type Numbers = Vec<(i64, Option<u64>)>;

/// Reads what a fetch gave.
///
/// # Errors
/// What is wrong with the bytes, in words.
pub(super) fn read(mut bytes: &[u8]) -> Result<Numbers, String> {
    let mut numbers = Vec::new();
    while !bytes.is_empty() {
        let (batch, rest) = RecordBatch::parse(bytes).map_err(|error| format!("a fetched batch: {error}"))?;
        read_batch(&batch, &mut numbers).map_err(|error| format!("a fetched record: {error}"))?;
        bytes = rest;
    }
    Ok(numbers)
}

fn read_batch(batch: &RecordBatch<'_>, numbers: &mut Numbers) -> Result<(), String> {
    let header = batch.header();
    let codec = header.compression();
    let section = match codec {
        Compression::None => batch.records_section().to_vec(),
        Compression::Gzip | Compression::Snappy | Compression::Lz4 | Compression::Zstd => {
            decompress(codec, batch.records_section(), UNPACKED_BYTES_MAX)
                .map_err(|error| error.to_string())?
        }
    };
    for (offset, record) in (header.base_offset..).zip(Records::new(header, &section)) {
        let record = record.map_err(|error| error.to_string())?;
        numbers.push((offset, record.value.and_then(number)));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_told_from_every_changed_one() {
        for number_sent in [0, 1, 7, 1 << 40, u64::MAX] {
            let sent = value(number_sent);
            assert_eq!(number(&sent), Some(number_sent));
            for at in 0..sent.len() {
                let mut changed = sent.clone();
                changed[at] ^= 1;
                assert_ne!(number(&changed), Some(number_sent), "byte {at}");
            }
            assert_eq!(number(&sent[..sent.len() - 1]), None);
        }
    }
}
