//! A batch from a client is refused or accepted, never a panic; what is accepted can be read back record by record.
#![no_main]

use engine_record::{ClientBatchRules, Records, Timestamp, TimestampType, decompress, validate_client_batch};
use libfuzzer_sys::fuzz_target;

/// What a batch of a few kilobytes may become.
const DECOMPRESSED_BYTES_MAX: usize = 1 << 20;

fuzz_target!(|data: &[u8]| {
    let rules = ClientBatchRules {
        batch_bytes_max: 1 << 20,
        zstd_allowed: true,
        timestamp_type: TimestampType::Create,
        earliest_timestamp: Timestamp(0),
        latest_timestamp: Timestamp(i64::MAX),
        keys_required: false,
    };
    // The checksum keeps most mutations out, so the rest is reached with one that is right.
    let mut data = data.to_vec();
    if let Some((head, covered)) = data.split_at_mut_checked(21) {
        let checksum = crc32c::crc32c(covered);
        head[17..21].copy_from_slice(&checksum.to_be_bytes());
    }
    let Ok(batch) = validate_client_batch(&data, &rules) else { return };
    let batch = batch.verify().expect("the checksum was made right");
    match batch.records() {
        Ok(records) => {
            assert!(records.into_iter().all(|record| record.is_ok()), "an accepted batch was walked")
        }
        Err(_) => read_compressed(&batch),
    }
});

fn read_compressed(batch: &engine_record::RecordBatch<'_>) {
    let codec = batch.header().compression();
    if let Ok(section) = decompress(codec, batch.records_section(), DECOMPRESSED_BYTES_MAX) {
        assert!(section.len() <= DECOMPRESSED_BYTES_MAX);
        for record in Records::new(batch.header(), &section) {
            if record.is_err() {
                return;
            }
        }
    }
}
