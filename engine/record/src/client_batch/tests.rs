use super::*;
use crate::builder::{BatchBuilder, NewRecord, Producer};
use crate::patch::set_max_timestamp;
use crate::{ProducerEpoch, ProducerId};

const RULES: ClientBatchRules = ClientBatchRules {
    batch_bytes_max: 1_000,
    zstd_allowed: true,
    timestamp_type: TimestampType::Create,
    earliest_timestamp: Timestamp(100),
    latest_timestamp: Timestamp(200),
    keys_required: false,
};

const PRODUCER: Producer = Producer { id: ProducerId(1), epoch: ProducerEpoch(0), base_sequence: 0 };

fn record(timestamp: i64) -> NewRecord<'static> {
    NewRecord { timestamp: Timestamp(timestamp), value: Some(b"v"), ..NewRecord::default() }
}

fn batch(builder: BatchBuilder, times: &[i64]) -> Vec<u8> {
    let mut builder = builder;
    for &time in times {
        builder.push(&record(time)).unwrap();
    }
    builder.build().unwrap()
}

fn plain() -> Vec<u8> {
    batch(BatchBuilder::new(), &[150, 160])
}

/// Writes `field` at `position` and makes the checksum right again.
fn with_field(mut bytes: Vec<u8>, position: usize, field: &[u8]) -> Vec<u8> {
    bytes[position..position + field.len()].copy_from_slice(field);
    let crc = crc32c::crc32c(&bytes[21..]);
    bytes[17..21].copy_from_slice(&crc.to_be_bytes());
    bytes
}

fn refusal(bytes: &[u8], rules: &ClientBatchRules) -> ClientBatchError {
    validate_client_batch(bytes, rules).expect_err("the batch breaks a rule")
}

fn invalid(bytes: &[u8]) -> InvalidRecord {
    let refused = refusal(bytes, &RULES);
    let ClientBatchError::InvalidRecord(invalid) = refused else { panic!("refused as {refused:?}") };
    invalid
}

#[test]
fn what_ordinary_clients_send_is_accepted() {
    for compression in [Compression::None, Compression::Gzip, Compression::Zstd] {
        let bytes = batch(BatchBuilder::new().with_compression(compression), &[150, 120, 199]);
        assert!(validate_client_batch(&bytes, &RULES).is_ok(), "{compression:?}");
    }
    let idempotent = batch(BatchBuilder::new().with_producer(PRODUCER).in_transaction(), &[150]);
    let accepted = validate_client_batch(&idempotent, &RULES).unwrap();
    assert_eq!(accepted.bytes(), idempotent);
    assert_eq!(accepted.corrected_max_timestamp(), None);
}

#[test]
fn damage_is_answered_as_corrupt_so_that_the_client_sends_again() {
    let mut damaged = plain();
    *damaged.last_mut().unwrap() ^= 1;
    assert!(matches!(refusal(&damaged, &RULES), ClientBatchError::Corrupt(CorruptBatch::Checksum { .. })));
    let compressed = batch(BatchBuilder::new().with_compression(Compression::Zstd), &[150]);
    let mut damaged = compressed.clone();
    *damaged.last_mut().unwrap() ^= 1;
    let unseen = validate_client_batch(&damaged, &RULES).expect("what is compressed isn't looked at");
    assert!(matches!(unseen.verify(), Err(CorruptBatch::Checksum { .. })));
    assert_eq!(validate_client_batch(&compressed, &RULES).unwrap().verify().unwrap().bytes(), compressed);
    let cut = &plain()[..70];
    assert!(matches!(refusal(cut, &RULES), ClientBatchError::Corrupt(CorruptBatch::Truncated { .. })));
    let codec = with_field(plain(), 21, &[0, 6]);
    assert_eq!(refusal(&codec, &RULES), ClientBatchError::Corrupt(CorruptBatch::Codec(6)));
}

/// A damaged field may look like a broken rule, which a client would not send again.
#[test]
fn damage_that_looks_like_a_broken_rule_is_damage() {
    let batch = batch(BatchBuilder::new().with_producer(PRODUCER), &[150]);
    for position in 21..batch.len() {
        for bit in 0..8 {
            let mut damaged = batch.clone();
            damaged[position] ^= 1 << bit;
            match validate_client_batch(&damaged, &RULES) {
                Ok(unseen) => assert!(unseen.verify().is_err()),
                Err(refused) => {
                    assert!(matches!(refused, ClientBatchError::Corrupt(_)), "{position}: {refused}")
                }
            }
        }
    }
}

#[test]
fn the_size_limit_counts_the_header_and_is_inclusive() {
    let bytes = plain();
    let exact = u32::try_from(bytes.len()).unwrap();
    let rules = |batch_bytes_max| ClientBatchRules { batch_bytes_max, ..RULES };
    assert!(validate_client_batch(&bytes, &rules(exact)).is_ok());
    let too_large = ClientBatchError::TooLarge { batch_bytes: u64::from(exact), batch_bytes_max: exact - 1 };
    assert_eq!(refusal(&bytes, &rules(exact - 1)), too_large);
}

#[test]
fn exactly_one_batch_is_taken() {
    assert_eq!(invalid(&[]), InvalidRecord::NoBatch);
    let two = [plain(), plain()].concat();
    assert_eq!(invalid(&two), InvalidRecord::BytesBehind(plain().len()));
    let mut old = plain();
    old[16] = 1;
    assert_eq!(invalid(&old), InvalidRecord::Magic(1));
}

#[test]
fn a_client_knows_no_offsets() {
    let mut bytes = plain();
    bytes[7] = 1;
    assert_eq!(invalid(&bytes), InvalidRecord::BaseOffset(1));
}

#[test]
fn a_client_batch_has_one_record_for_each_offset() {
    let gap = with_field(plain(), 23, &2_i32.to_be_bytes());
    assert_eq!(invalid(&gap), InvalidRecord::Count { record_count: 2, last_offset_delta: 2 });
    let too_many = with_field(plain(), 57, &3_i32.to_be_bytes());
    assert_eq!(invalid(&too_many), InvalidRecord::Count { record_count: 3, last_offset_delta: 1 });
    let empty = with_field(with_field(plain(), 57, &[0; 4]), 23, &[0xff; 4]);
    assert_eq!(invalid(&empty), InvalidRecord::Count { record_count: 0, last_offset_delta: -1 });
}

#[test]
fn a_count_damaged_on_its_way_may_be_sent_again() {
    for at in [24, 26, 58, 60] {
        let mut damaged = plain();
        damaged[at] ^= 4;
        let refused = refusal(&damaged, &RULES);
        assert!(matches!(refused, ClientBatchError::Corrupt(_)), "byte {at}: {refused}");
    }
}

#[test]
fn only_brokers_write_control_batches() {
    assert_eq!(invalid(&batch(BatchBuilder::new().as_control(), &[150])), InvalidRecord::Control);
}

#[test]
fn a_producer_with_an_identity_numbers_its_batches() {
    let built = |producer| batch(BatchBuilder::new().with_producer(producer), &[150]);
    let no_sequence = built(Producer { base_sequence: -1, ..PRODUCER });
    assert_eq!(invalid(&no_sequence), InvalidRecord::Sequence(-1));
    let no_epoch = built(Producer { epoch: ProducerEpoch(-1), ..PRODUCER });
    assert_eq!(invalid(&no_epoch), InvalidRecord::ProducerEpoch(-1));
    let nobody = batch(BatchBuilder::new().in_transaction(), &[150]);
    assert_eq!(invalid(&nobody), InvalidRecord::TransactionWithoutProducer);
}

#[test]
fn append_time_is_not_for_clients_to_claim() {
    let claimed = with_field(plain(), 21, &[0, 8]);
    let refused = ClientBatchError::InvalidTimestamp(InvalidTimestamp::AppendTime);
    assert_eq!(refusal(&claimed, &RULES), refused);
    let stamped = ClientBatchRules { timestamp_type: TimestampType::LogAppend, ..RULES };
    assert!(validate_client_batch(&claimed, &stamped).is_ok(), "the broker writes the time anyway");
}

#[test]
fn times_out_of_bounds_are_refused_where_clients_set_them() {
    let late = batch(BatchBuilder::new(), &[150, 201]);
    let early = batch(BatchBuilder::new(), &[150, 99]);
    let out = |time, index| {
        let timestamp = Timestamp(time);
        ClientBatchError::InvalidTimestamp(InvalidTimestamp::OutOfBounds { timestamp, index })
    };
    assert_eq!(refusal(&late, &RULES), out(201, Some(1)));
    assert_eq!(refusal(&early, &RULES), out(99, Some(1)));
    let compressed = batch(BatchBuilder::new().with_compression(Compression::Gzip), &[150, 201]);
    assert_eq!(
        refusal(&compressed, &RULES),
        out(201, None),
        "by the header, as the records aren't looked at"
    );
    let lies = with_field(plain(), 35, &999_i64.to_be_bytes());
    let corrected = validate_client_batch(&lies, &RULES).unwrap().corrected_max_timestamp();
    assert_eq!(corrected, Some(Timestamp(160)), "the records count, where they are looked at");
    let stamped = ClientBatchRules { timestamp_type: TimestampType::LogAppend, ..RULES };
    assert!(validate_client_batch(&late, &stamped).is_ok());
    assert!(validate_client_batch(&early, &stamped).is_ok());
    assert!(validate_client_batch(&batch(BatchBuilder::new(), &[-1]), &RULES).is_ok(), "no time is allowed");
}

#[test]
fn zstandard_needs_a_request_that_knows_it() {
    let zstd = batch(BatchBuilder::new().with_compression(Compression::Zstd), &[150]);
    let old_request = ClientBatchRules { zstd_allowed: false, ..RULES };
    assert_eq!(refusal(&zstd, &old_request), ClientBatchError::UnsupportedCompression);
}

#[test]
fn records_that_are_not_what_the_header_says_are_refused() {
    // Byte 61 is the first record's length, 64 its offset delta.
    let offset = with_field(plain(), 64, &[2]);
    let wrong_delta = InvalidRecord::Record { index: 1, cause: CorruptRecord::OffsetDelta(1) };
    assert_eq!(invalid(&offset), wrong_delta);
    let mut longer = plain();
    longer.push(0);
    let length = i32::try_from(longer.len()).unwrap() - 12;
    let longer = with_field(longer, 8, &length.to_be_bytes());
    assert_eq!(invalid(&longer), InvalidRecord::Record { index: 2, cause: CorruptRecord::BytesInBatch(1) });
}

#[test]
fn compacted_topics_need_keys() {
    let rules = ClientBatchRules { keys_required: true, ..RULES };
    let refused = ClientBatchError::InvalidRecord(InvalidRecord::NoKey { index: 0 });
    assert_eq!(refusal(&plain(), &rules), refused);
    let mut builder = BatchBuilder::new();
    builder.push(&NewRecord { key: Some(b""), ..record(150) }).unwrap();
    assert!(validate_client_batch(&builder.build().unwrap(), &rules).is_ok());
}

#[test]
fn a_wrong_max_timestamp_is_noticed_and_can_be_repaired() {
    let mut bytes = plain();
    set_max_timestamp(&mut bytes, Timestamp(150));
    let batch = validate_client_batch(&bytes, &RULES).unwrap();
    assert_eq!(batch.corrected_max_timestamp(), Some(Timestamp(160)));
    assert_eq!(batch.header().max_timestamp, Timestamp(160), "the header says what will be stored");
    set_max_timestamp(&mut bytes, Timestamp(160));
    assert_eq!(bytes, plain());
}

/// Walks the records of a compressed batch, so many at a time.
fn walked(bytes: &[u8], count: usize) -> Result<Option<Timestamp>, ClientBatchError> {
    let batch = validate_client_batch(bytes, &RULES)?;
    let codec = batch.header().compression();
    let records = crate::decompress(codec, batch.records_section(), 10_000)
        .map_err(|error| ClientBatchError::from(&error))?;
    let mut walk = RecordWalk::new(batch.header(), &records, &RULES);
    while walk.go_on(count)? {}
    Ok(walk.corrected(&batch).corrected_max_timestamp())
}

#[test]
fn the_records_of_a_compressed_batch_are_held_to_the_same_rules() {
    for compression in [Compression::Gzip, Compression::Snappy, Compression::Lz4, Compression::Zstd] {
        let of = |times: &[i64]| batch(BatchBuilder::new().with_compression(compression), times);
        for count in [1, 2, 100] {
            assert_eq!(walked(&of(&[150, 160, 170]), count), Ok(None), "{compression:?}");
            // The latest time of the header is right, and an earlier record's isn't.
            let early = walked(&of(&[50, 160]), count).unwrap_err();
            let out_of_bounds = InvalidTimestamp::OutOfBounds { timestamp: Timestamp(50), index: Some(0) };
            assert_eq!(early, ClientBatchError::InvalidTimestamp(out_of_bounds));
            let lies = with_field(of(&[150, 160]), 35, &199_i64.to_be_bytes());
            assert_eq!(walked(&lies, count), Ok(Some(Timestamp(160))));
        }
        let section = crate::BATCH_HEADER_BYTES;
        let garbage = with_field(of(&[150]), section, &[0xff; 8]);
        let refused = walked(&garbage, 1).unwrap_err();
        assert_eq!(refused, ClientBatchError::InvalidRecord(InvalidRecord::Compressed(compression)));
    }
}
