//! What the benches share: batches of exactly the size that is asked for.
//!
//! ```text
//! benches/benches/*.rs   one pure function each, timed by criterion: `cargo bench -p benches`
//! benches/compare/       the store and the broker against fio and iperf3 in one run: `benches/compare/run.sh`
//! benches/RESULTS.md     what the comparison last found, with the machine it ran on
//! ```
//!
//! A figure counts only beside another one of the same run: hosts differ, and one host differs from hour to hour.

#![forbid(unsafe_code)]

use engine_record::{
    BATCH_HEADER_BYTES, BatchBuilder, ClientBatchRules, NewRecord, Timestamp, TimestampType,
};

/// The value of all records but a batch's last, in bytes.
const VALUE_BYTES: usize = 1 << 10;

/// Sizes of batches, from a producer that hardly waits to one that fills the largest batch allowed by default.
pub const BATCH_SIZES_BYTES: [usize; 4] = [1 << 10, 16 << 10, 128 << 10, 1 << 20];

/// The time of every record.
pub const TIMESTAMP: Timestamp = Timestamp(1_700_000_000_000);

/// Rules that [`batch`] keeps.
pub const RULES: ClientBatchRules = ClientBatchRules {
    batch_bytes_max: u32::MAX,
    zstd_allowed: true,
    timestamp_type: TimestampType::Create,
    earliest_timestamp: Timestamp(0),
    latest_timestamp: Timestamp(i64::MAX),
    keys_required: false,
};

/// A batch as a client sends it, exactly `bytes` long, of uncompressed records of about 1 KiB.
///
/// # Panics
/// Where no record makes the batch that long: below the size of a batch with one empty record, and for the few sizes
/// between two lengths of a length field.
#[must_use]
pub fn batch(bytes: usize) -> Vec<u8> {
    let mut builder = BatchBuilder::new();
    let mut left = bytes.checked_sub(BATCH_HEADER_BYTES).expect("a batch is no shorter than its header");
    let value: Vec<u8> = (0..=u8::MAX).cycle().take(left).collect();
    // The last record is at least as long as the others, so that it can always be made to fit.
    while left > 2 * builder.record_bytes(&record(&value[..VALUE_BYTES.min(left)])) {
        let next = record(&value[..VALUE_BYTES]);
        left -= builder.record_bytes(&next);
        builder.push(&next).expect("a batch of this size can be built");
    }
    let fits = |len: &usize| builder.record_bytes(&record(&value[..*len])) == left;
    let last = (0..=left).rev().find(fits).expect("the last record can be as long as what is left");
    builder.push(&record(&value[..last])).expect("a batch of this size can be built");
    builder.build().expect("a batch of this size can be built")
}

fn record(value: &[u8]) -> NewRecord<'_> {
    NewRecord { timestamp: TIMESTAMP, value: Some(value), ..NewRecord::default() }
}

#[cfg(test)]
mod tests {
    use engine_record::RecordBatch;

    use super::*;

    #[test]
    fn a_batch_is_as_long_as_asked_and_whole() {
        for bytes in BATCH_SIZES_BYTES.into_iter().chain([100, 4096, 5000]) {
            let batch = batch(bytes);
            let (parsed, rest) = RecordBatch::parse(&batch).unwrap();
            assert_eq!((batch.len(), rest.len()), (bytes, 0));
            let records = parsed.records().unwrap().map(Result::unwrap).count();
            assert_eq!(records, parsed.header().record_count as usize);
            assert!(records >= bytes / 3 / VALUE_BYTES, "records are about 1 KiB");
        }
    }
}
