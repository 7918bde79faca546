use super::*;
use crate::builder::{BatchBuilder, NewRecord, Producer};
use crate::compression::decompress;
use crate::record::Record;
use proptest::prelude::*;

fn bytes_of(hex: &str) -> Vec<u8> {
    let digits: Vec<u8> = hex.bytes().filter(u8::is_ascii_hexdigit).collect();
    let byte = |pair: &[u8]| u8::from_str_radix(core::str::from_utf8(pair).unwrap(), 16).unwrap();
    digits.chunks(2).map(byte).collect()
}

/// Offset 0, epoch -1, one record at time 1,000 with value "hello", no key, no header.
const ONE_RECORD: &str = "
    0000000000000000 0000003d ffffffff 02 5d035a13 0000 00000000
    00000000000003e8 00000000000003e8 ffffffffffffffff ffff ffffffff 00000001
    16 00 00 00 01 0a 68656c6c6f 00";

/// Two records of producer 9, epoch 1, sequences 5 and 6, transactional: key "k" and a null value with the header
/// ("h", null) at time 0; then a null key and an empty value 2^32 ms later.
const TRANSACTIONAL: &str = "
    0000000000000000 00000047 ffffffff 02 96e43bee 0010 00000001
    0000000000000000 0000000100000000 0000000000000009 0001 00000005 00000002
    14 00 00 00 02 6b 01 02 02 68 01
    14 00 8080808020 02 01 00 00";

#[test]
fn the_smallest_batch_is_written_as_the_format_says() {
    let mut builder = BatchBuilder::new();
    let record = NewRecord { timestamp: Timestamp(1_000), value: Some(b"hello"), ..NewRecord::default() };
    builder.push(&record).unwrap();
    assert_eq!(builder.build().unwrap(), bytes_of(ONE_RECORD));
}

#[test]
fn a_transactional_batch_of_a_producer_is_written_as_the_format_says() {
    let producer = Producer { id: ProducerId(9), epoch: ProducerEpoch(1), base_sequence: 5 };
    let mut builder = BatchBuilder::new().with_producer(producer).in_transaction();
    let headers: [(&[u8], Option<&[u8]>); 1] = [(b"h", None)];
    let first = NewRecord { timestamp: Timestamp(0), key: Some(b"k"), value: None, headers: &headers };
    let second = NewRecord { timestamp: Timestamp(1 << 32), value: Some(b""), ..NewRecord::default() };
    builder.push(&first).unwrap();
    builder.push(&second).unwrap();
    assert_eq!(builder.build().unwrap(), bytes_of(TRANSACTIONAL));
}

#[test]
fn every_field_of_the_header_is_read_from_its_place() {
    let bytes = bytes_of(TRANSACTIONAL);
    let (batch, rest) = RecordBatch::parse(&bytes).unwrap();
    assert!(rest.is_empty());
    let expected = BatchHeader {
        base_offset: 0,
        batch_bytes: 83,
        leader_epoch: LeaderEpoch(-1),
        crc: 0x96e4_3bee,
        attributes: 16,
        last_offset_delta: 1,
        base_timestamp: Timestamp(0),
        max_timestamp: Timestamp(1 << 32),
        producer_id: ProducerId(9),
        producer_epoch: ProducerEpoch(1),
        base_sequence: 5,
        record_count: 2,
    };
    assert_eq!(*batch.header(), expected);
    assert_eq!(expected.to_bytes()[..], bytes[..BATCH_HEADER_BYTES]);
    assert!(expected.is_transactional() && expected.has_producer() && !expected.is_control());
    assert_eq!(expected.last_sequence(), 6);
    assert_eq!(expected.last_offset(), Offset::new(1));
}

#[test]
fn a_spread_of_more_than_24_days_between_records_is_kept() {
    let bytes = bytes_of(TRANSACTIONAL);
    let (batch, _) = RecordBatch::parse(&bytes).unwrap();
    let times: Vec<_> = batch.records().unwrap().map(|record| record.unwrap().timestamp).collect();
    assert_eq!(times, [Timestamp(0), Timestamp(1 << 32)]);
}

#[test]
fn sequences_go_on_at_zero_after_the_last() {
    let mut bytes = bytes_of(TRANSACTIONAL);
    for (base, last) in [(5, 6), (i32::MAX - 1, i32::MAX), (i32::MAX, 0), (-1, -1)] {
        bytes[53..57].copy_from_slice(&i32::to_be_bytes(base));
        assert_eq!(BatchHeader::parse(&bytes, 1_000).unwrap().last_sequence(), last, "from {base}");
    }
}

fn header_with(position: usize, field: &[u8]) -> Result<BatchHeader, CorruptBatch> {
    let mut bytes = bytes_of(TRANSACTIONAL);
    bytes[position..position + field.len()].copy_from_slice(field);
    BatchHeader::parse(&bytes, 1_000)
}

#[test]
fn each_fault_of_a_header_has_its_own_error() {
    assert_eq!(BatchHeader::parse(&[0; 60], 1_000), Err(CorruptBatch::HeaderIncomplete { have: 60 }));
    assert_eq!(BatchHeader::parse(&[0; 61], 1_000), Err(CorruptBatch::Magic(0)));
    assert_eq!(header_with(16, &[1]), Err(CorruptBatch::Magic(1)));
    assert_eq!(header_with(8, &48_i32.to_be_bytes()), Err(CorruptBatch::LengthTooSmall(48)));
    assert_eq!(header_with(8, &(-1_i32).to_be_bytes()), Err(CorruptBatch::LengthTooSmall(-1)));
    let too_large = CorruptBatch::TooLarge { batch_bytes: 1_001, batch_bytes_max: 1_000 };
    assert_eq!(header_with(8, &989_i32.to_be_bytes()), Err(too_large));
    assert_eq!(header_with(21, &[0, 5]), Err(CorruptBatch::Codec(5)));
    let counts =
        |record_count, last_offset_delta| CorruptBatch::RecordCount { record_count, last_offset_delta };
    assert_eq!(header_with(23, &(-1_i32).to_be_bytes()), Err(counts(2, -1)));
    assert_eq!(header_with(57, &(-1_i32).to_be_bytes()), Err(counts(-1, 1)));
    assert_eq!(header_with(57, &3_i32.to_be_bytes()), Err(counts(3, 1)));
}

#[test]
fn bounds_themselves_are_allowed() {
    assert!(header_with(8, &988_i32.to_be_bytes()).is_ok());
    assert!(header_with(8, &49_i32.to_be_bytes()).is_ok());
    assert!(header_with(57, &0_i32.to_be_bytes()).is_ok(), "compaction may empty a batch");
    assert!(header_with(23, &i32::MAX.to_be_bytes()).is_ok(), "compaction may leave gaps");
}

#[test]
fn compressed_records_are_not_read_as_if_they_were_plain() {
    let mut builder = BatchBuilder::new().with_compression(Compression::Lz4);
    builder.push(&NewRecord::default()).unwrap();
    let bytes = builder.build().unwrap();
    let (batch, _) = RecordBatch::parse(&bytes).unwrap();
    assert_eq!(batch.records().unwrap_err(), CorruptRecord::Compressed);
}

#[derive(Clone, Debug)]
struct Made {
    timestamp: i64,
    key: Option<Vec<u8>>,
    value: Option<Vec<u8>>,
    headers: Vec<(Vec<u8>, Option<Vec<u8>>)>,
}

fn some_bytes() -> impl Strategy<Value = Vec<u8>> {
    prop::collection::vec(any::<u8>(), 0..40)
}

fn made() -> impl Strategy<Value = Made> {
    let header = (some_bytes(), prop::option::of(some_bytes()));
    let parts = (
        -(1_i64 << 50)..1 << 50,
        prop::option::of(some_bytes()),
        prop::option::of(some_bytes()),
        prop::collection::vec(header, 0..4),
    );
    parts.prop_map(|(timestamp, key, value, headers)| Made { timestamp, key, value, headers })
}

fn codec() -> impl Strategy<Value = Compression> {
    (0_u8..5).prop_map(|codec| Compression::from_codec(codec).unwrap())
}

fn build(records: &[Made], compression: Compression) -> Vec<u8> {
    let mut builder = BatchBuilder::new().with_compression(compression);
    for made in records {
        let headers: Vec<_> = made.headers.iter().map(|(key, value)| (&key[..], value.as_deref())).collect();
        let record = NewRecord {
            timestamp: Timestamp(made.timestamp),
            key: made.key.as_deref(),
            value: made.value.as_deref(),
            headers: &headers,
        };
        builder.push(&record).unwrap();
    }
    builder.build().unwrap()
}

fn read(record: &Record<'_>) -> Made {
    let headers = record.headers.map(|header| (header.key.to_vec(), header.value.map(<[u8]>::to_vec)));
    Made {
        timestamp: record.timestamp.0,
        key: record.key.map(<[u8]>::to_vec),
        value: record.value.map(<[u8]>::to_vec),
        headers: headers.collect(),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn what_was_built_is_read_back(records in prop::collection::vec(made(), 1..20), codec in codec()) {
        let bytes = build(&records, codec);
        let (batch, rest) = RecordBatch::parse(&bytes).unwrap();
        prop_assert!(rest.is_empty());
        prop_assert_eq!(batch.header().compression(), codec);
        let latest = records.iter().map(|made| made.timestamp).max();
        prop_assert_eq!(Some(batch.header().max_timestamp.0), latest);
        let section = decompress(codec, batch.records_section(), 1 << 20).unwrap();
        let mut count = 0_u32;
        for (made, record) in records.iter().zip(Records::new(batch.header(), &section)) {
            let record = record.unwrap();
            prop_assert_eq!(record.offset_delta, count);
            prop_assert_eq!(format!("{:?}", read(&record)), format!("{made:?}"));
            count += 1;
        }
        prop_assert_eq!(count as usize, records.len());
        prop_assert_eq!(Records::new(batch.header(), &section).count(), records.len());
    }

    #[test]
    fn every_flipped_bit_under_the_checksum_or_in_length_magic_and_checksum_is_found(
        records in prop::collection::vec(made(), 1..4),
        codec in codec(),
    ) {
        let whole = build(&records, codec);
        for position in (8..12).chain(16..whole.len()) {
            for bit in 0..8 {
                let mut damaged = whole.clone();
                damaged[position] ^= 1 << bit;
                prop_assert!(RecordBatch::parse(&damaged).is_err(), "bit {} of byte {}", bit, position);
            }
        }
    }

    #[test]
    fn every_truncation_is_an_error(records in prop::collection::vec(made(), 1..4), codec in codec()) {
        let whole = build(&records, codec);
        for end in 0..whole.len() {
            let expected = if end < BATCH_HEADER_BYTES {
                CorruptBatch::HeaderIncomplete { have: end }
            } else {
                CorruptBatch::Truncated { batch_bytes: u32::try_from(whole.len()).unwrap(), have: end }
            };
            prop_assert_eq!(RecordBatch::parse(&whole[..end]), Err(expected));
        }
    }

    #[test]
    fn batches_are_taken_one_by_one_from_the_front(
        first in prop::collection::vec(made(), 1..4),
        second in prop::collection::vec(made(), 1..4),
    ) {
        let (first, second) = (build(&first, Compression::None), build(&second, Compression::None));
        let both = [first.clone(), second.clone()].concat();
        let (batch, rest) = RecordBatch::parse(&both).unwrap();
        prop_assert_eq!(batch.bytes(), &first[..]);
        prop_assert_eq!(rest, &second[..]);
    }

    #[test]
    fn a_records_section_of_noise_gives_errors_not_panics(
        noise in prop::collection::vec(any::<u8>(), 0..200),
        record_count in 0_u32..50,
    ) {
        let bytes = bytes_of(ONE_RECORD);
        let header = *RecordBatch::parse(&bytes).unwrap().0.header();
        let header = BatchHeader { record_count, last_offset_delta: 100, ..header };
        let found: Vec<_> = Records::new(&header, &noise).collect();
        prop_assert!(found.len() <= record_count as usize + 1);
        prop_assert!(found.iter().rev().skip(1).all(Result::is_ok), "nothing follows an error");
    }
}
