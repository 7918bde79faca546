//! What a broker changes in a batch it was sent, without reading it again.
//!
//! [`assign`] writes in front of the checksum. [`stamp_append_time`] and [`set_max_timestamp`] write fields under it
//! and repair it by algebra: a CRC is linear, so changing some bytes changes it by the CRC of their difference, moved
//! past the bytes that follow. Moving past `n` bytes is a multiplication by x^(8n), which a table of x^(8 * 2^k) turns
//! into one product for each bit set in `n`.

use zerocopy::byteorder::big_endian::{I32, I64};
use zerocopy::{FromBytes, IntoBytes};

use crate::batch::{APPEND_TIME_BIT, CHECKSUM_FROM, RawHeader};
use crate::{LeaderEpoch, Offset, Timestamp};

/// Gives the batch at the front of `bytes` its place in the log: base offset and the epoch of the appending leader.
///
/// # Panics
/// Where `bytes` is shorter than a batch header: only parsed batches are assigned.
pub fn assign(bytes: &mut [u8], base_offset: Offset, leader_epoch: LeaderEpoch) {
    let raw = raw_header(bytes);
    raw.base_offset = I64::new(base_offset.value());
    raw.leader_epoch = I32::new(leader_epoch.0);
}

/// Makes `now` the time of every record of the batch, and marks the batch so. `bytes` is exactly one batch.
///
/// # Panics
/// Where `bytes` is shorter than a batch header: only parsed batches are stamped.
pub fn stamp_append_time(bytes: &mut [u8], now: Timestamp) {
    patch_under_checksum(bytes, |raw| {
        raw.attributes.set(raw.attributes.get() | APPEND_TIME_BIT);
        raw.max_timestamp.set(now.0);
    });
}

/// Writes the true latest time of the batch's records into its header. `bytes` is exactly one batch.
///
/// # Panics
/// Where `bytes` is shorter than a batch header: only parsed batches are repaired.
pub fn set_max_timestamp(bytes: &mut [u8], max_timestamp: Timestamp) {
    patch_under_checksum(bytes, |raw| raw.max_timestamp.set(max_timestamp.0));
}

fn raw_header(bytes: &mut [u8]) -> &mut RawHeader {
    RawHeader::mut_from_prefix(bytes).expect("a parsed batch is no shorter than its header").0
}

fn patch_under_checksum(bytes: &mut [u8], patch: impl FnOnce(&mut RawHeader)) {
    let len = bytes.len();
    let raw = raw_header(bytes);
    let before = checksum_of_covered_header(raw);
    patch(raw);
    let change = before ^ checksum_of_covered_header(raw);
    let followed_by = len.saturating_sub(size_of::<RawHeader>());
    raw.crc.set(raw.crc.get() ^ move_past(change, followed_by));
}

fn checksum_of_covered_header(raw: &RawHeader) -> u32 {
    crc32c::crc32c(raw.as_bytes().get(CHECKSUM_FROM..).unwrap_or_default())
}

/// The polynomial of CRC-32C; bit 31 is the coefficient of x^0, as everywhere here.
const POLYNOMIAL: u32 = 0x82f6_3b78;

/// Entry k is x^(8 * 2^k): what moves a CRC past 2^k bytes.
static PAST_POWER_OF_TWO_BYTES: [u32; usize::BITS as usize] = {
    let mut table = [0; usize::BITS as usize];
    let mut factor = 1_u32 << (31 - 8);
    let mut remaining: &mut [u32] = &mut table;
    while let Some((entry, rest)) = remaining.split_first_mut() {
        *entry = factor;
        factor = multiply(factor, factor);
        remaining = rest;
    }
    table
};

/// The change of a CRC after `byte_count` more bytes.
fn move_past(change: u32, byte_count: usize) -> u32 {
    let used = (0..).zip(PAST_POWER_OF_TWO_BYTES).filter(|(bit, _)| byte_count >> bit & 1 != 0);
    used.fold(change, |product, (_, factor)| multiply(product, factor))
}

/// The product of two polynomials over GF(2), modulo the CRC's.
const fn multiply(a: u32, b: u32) -> u32 {
    let (mut product, mut multiple, mut coefficients) = (0, b, a);
    while coefficients != 0 {
        if coefficients >> 31 != 0 {
            product ^= multiple;
        }
        coefficients <<= 1;
        multiple = multiple >> 1 ^ if multiple & 1 == 0 { 0 } else { POLYNOMIAL };
    }
    product
}

/// How much is copied before the checksum follows: what was copied is then still in the nearest cache.
///
/// Not more, since processors copy longer pieces with an instruction that falls to a tenth of its speed where the target
/// lies 1 to 16 bytes further into its page than the source, and where a batch lands in its block is not ours to choose.
const COPY_STEP_BYTES: usize = 2 << 10;

/// Copies `source` to `target` and returns the CRC-32C of it, in one pass over memory.
///
/// A batch's own checksum leaves out its first bytes; copy those apart ([`crate::CHECKSUM_FROM`]).
///
/// # Panics
/// Where the lengths differ.
pub fn copy_and_checksum(source: &[u8], target: &mut [u8]) -> u32 {
    assert_eq!(source.len(), target.len(), "a copy is as long as its source");
    let steps = source.chunks(COPY_STEP_BYTES).zip(target.chunks_mut(COPY_STEP_BYTES));
    steps.fold(0, |crc, (from, to)| {
        to.copy_from_slice(from);
        crc32c::crc32c_append(crc, to)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::batch::{RecordBatch, TimestampType};
    use crate::builder::{BatchBuilder, NewRecord};
    use proptest::prelude::*;

    fn batch_with_value(value: &[u8]) -> Vec<u8> {
        let mut builder = BatchBuilder::new();
        builder
            .push(&NewRecord { timestamp: Timestamp(5), value: Some(value), ..NewRecord::default() })
            .unwrap();
        builder.build().unwrap()
    }

    #[test]
    fn an_assigned_batch_keeps_its_checksum() {
        let mut bytes = batch_with_value(b"v");
        let before = bytes.clone();
        assign(&mut bytes, Offset::new(7 << 40).unwrap(), LeaderEpoch(9));
        let (batch, _) = RecordBatch::parse(&bytes).unwrap();
        assert_eq!((batch.header().base_offset, batch.header().leader_epoch), (7 << 40, LeaderEpoch(9)));
        assert_eq!(bytes[16..], before[16..]);
        assert_eq!(bytes[8..12], before[8..12]);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn a_repaired_checksum_is_the_one_a_full_pass_gives(
            value in prop::collection::vec(any::<u8>(), 0..70_000),
            now: i64,
        ) {
            let mut stamped = batch_with_value(&value);
            stamp_append_time(&mut stamped, Timestamp(now));
            let (batch, rest) = RecordBatch::parse(&stamped).unwrap();
            prop_assert!(rest.is_empty());
            prop_assert_eq!(batch.header().timestamp_type(), TimestampType::LogAppend);
            prop_assert_eq!(batch.header().max_timestamp, Timestamp(now));
            prop_assert_eq!(batch.records().unwrap().next().unwrap().unwrap().timestamp, Timestamp(now));

            let mut repaired = batch_with_value(&value);
            set_max_timestamp(&mut repaired, Timestamp(now));
            let (batch, _) = RecordBatch::parse(&repaired).unwrap();
            prop_assert_eq!(batch.header().max_timestamp, Timestamp(now));
            prop_assert_eq!(batch.header().timestamp_type(), TimestampType::Create);
        }

        #[test]
        fn moving_a_checksum_past_bytes_is_appending_them(change: u32, count in 0_usize..100_000) {
            let zeros = vec![0; count];
            let difference = crc32c::crc32c_append(change, &zeros) ^ crc32c::crc32c_append(0, &zeros);
            prop_assert_eq!(move_past(change, count), difference);
        }

        #[test]
        fn a_copy_is_equal_and_its_checksum_right(source in prop::collection::vec(any::<u8>(), 0..100_000)) {
            let mut target = vec![0; source.len()];
            prop_assert_eq!(copy_and_checksum(&source, &mut target), crc32c::crc32c(&source));
            prop_assert_eq!(source, target);
        }
    }
}
