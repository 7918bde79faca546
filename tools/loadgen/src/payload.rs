//! Values that say whose they are, so that a reader can tell loss, repetition, reordering and damage from the record
//! alone, with little memory.
//!
//! ```text
//! byte  0  run              u64  whose load this is; others' records are passed over
//!       8  producer         u32
//!      12  partition        u32
//!      16  sequence         u64  counts the producer's records in the partition, from 0
//!      24  due              u64  when it was to be sent, ns of the host's monotonic clock
//!      32  checksum         u32  CRC-32C of bytes 0 to 32
//!      36  length           u32  of the whole value
//!      40  filler                a piece of a table that follows from the seed; where it begins follows from the sequence
//! ```

use engine_record::Instant;
use net_client::random::Generator;

/// Bytes in front of the filler.
pub const PAYLOAD_HEADER_BYTES: usize = 40;

/// Where the checksum stands.
const CHECKSUM_AT: usize = 32;

/// How many different beginnings of the filler there are.
const STARTS: usize = 64 << 10;

/// The filler changes between random and repeated bytes after so many.
const STRIPE_BYTES: usize = 100;

/// Who sent a record, and which it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stamp {
    /// The producer's number.
    pub producer: u32,
    /// The partition it was sent to.
    pub partition: u32,
    /// Counts the producer's records in the partition.
    pub sequence: u64,
    /// When it was to be sent.
    pub due: Instant,
}

/// What a value turned out to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reading {
    /// One of this run's records, whole.
    Sound(Stamp),
    /// A record of something else.
    Foreign,
    /// One of this run's, but not as it was sent.
    Corrupt,
}

/// Writes and reads the values of one run.
#[derive(Debug)]
pub struct Payload {
    run: u64,
    table: Vec<u8>,
}

impl Payload {
    /// Values of `record_bytes` bytes, of which `compressible_percent` are repetition. What stands in them follows from
    /// `seed`, whose they are from `run`.
    #[must_use]
    pub fn new(run: u64, seed: u64, record_bytes: usize, compressible_percent: u8) -> Self {
        let mut generator = Generator::new(seed);
        let repeated = STRIPE_BYTES * usize::from(compressible_percent.min(100)) / 100;
        let byte = |index: usize| {
            let random = generator.next_bits().to_le_bytes()[0];
            if index % STRIPE_BYTES < repeated { b'.' } else { random }
        };
        let table = (0..STARTS + record_bytes).map(byte).collect();
        Self { run, table }
    }

    /// Fills `value`, which must be at least [`PAYLOAD_HEADER_BYTES`] long.
    pub fn write(&self, stamp: &Stamp, value: &mut [u8]) {
        let length = u32::try_from(value.len()).unwrap_or(u32::MAX);
        let (header, filler) = value.split_at_mut(PAYLOAD_HEADER_BYTES);
        header.copy_from_slice(&self.header(stamp, length));
        filler.copy_from_slice(self.filler(stamp.sequence, filler.len()));
    }

    fn header(&self, stamp: &Stamp, length: u32) -> [u8; PAYLOAD_HEADER_BYTES] {
        let mut header = [0; PAYLOAD_HEADER_BYTES];
        header[..8].copy_from_slice(&self.run.to_be_bytes());
        header[8..12].copy_from_slice(&stamp.producer.to_be_bytes());
        header[12..16].copy_from_slice(&stamp.partition.to_be_bytes());
        header[16..24].copy_from_slice(&stamp.sequence.to_be_bytes());
        header[24..32].copy_from_slice(&stamp.due.as_nanos().to_be_bytes());
        let checksum = crc32c::crc32c(&header[..CHECKSUM_AT]);
        header[CHECKSUM_AT..36].copy_from_slice(&checksum.to_be_bytes());
        header[36..].copy_from_slice(&length.to_be_bytes());
        header
    }

    fn filler(&self, sequence: u64, bytes: usize) -> &[u8] {
        let start = usize::try_from(sequence.wrapping_mul(97) % STARTS as u64).expect("below a small number");
        &self.table[start..start + bytes]
    }

    /// Reads a value, every byte of it.
    #[must_use]
    pub fn read(&self, value: &[u8]) -> Reading {
        if !self.is_own(value) {
            return Reading::Foreign;
        }
        match self.stamp(value) {
            Some(stamp) if self.is_whole(&stamp, value) => Reading::Sound(stamp),
            Some(_) | None => Reading::Corrupt,
        }
    }

    /// Whose a value is, from its header alone; `None` where that isn't as this run writes it.
    #[must_use]
    pub fn stamp(&self, value: &[u8]) -> Option<Stamp> {
        let header = value.get(..PAYLOAD_HEADER_BYTES)?;
        let stamp = Stamp {
            producer: number(&header[8..12]),
            partition: number(&header[12..16]),
            sequence: u64::from_be_bytes(eight(&header[16..24])),
            due: Instant::from_nanos(u64::from_be_bytes(eight(&header[24..32]))),
        };
        let length = u32::try_from(value.len()).unwrap_or(u32::MAX);
        (header == self.header(&stamp, length)).then_some(stamp)
    }

    fn is_own(&self, value: &[u8]) -> bool {
        value.split_first_chunk().is_some_and(|(run, _)| u64::from_be_bytes(*run) == self.run)
    }

    fn is_whole(&self, stamp: &Stamp, value: &[u8]) -> bool {
        let filler = value.get(PAYLOAD_HEADER_BYTES..).unwrap_or_default();
        filler.len() <= self.table.len() - STARTS && filler == self.filler(stamp.sequence, filler.len())
    }
}

fn number(bytes: &[u8]) -> u32 {
    bytes.iter().fold(0, |number, &byte| number << 8 | u32::from(byte))
}

fn eight(bytes: &[u8]) -> [u8; 8] {
    let mut eight = [0; 8];
    eight.copy_from_slice(bytes);
    eight
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn stamp(sequence: u64) -> Stamp {
        Stamp { producer: 3, partition: 9, sequence, due: Instant::from_nanos(77) }
    }

    #[test]
    fn a_value_is_read_back_and_another_runs_is_foreign() {
        let payload = Payload::new(5, 1, 300, 50);
        let mut value = vec![0; 300];
        payload.write(&stamp(70_000), &mut value);
        assert_eq!(payload.read(&value), Reading::Sound(stamp(70_000)));
        assert_eq!(payload.stamp(&value), Some(stamp(70_000)));
        assert_eq!(Payload::new(6, 1, 300, 50).stamp(&value), None);
        assert_eq!(Payload::new(6, 1, 300, 50).read(&value), Reading::Foreign);
        assert_eq!(payload.read(b"short"), Reading::Foreign);
    }

    #[test]
    fn as_much_repeats_as_was_asked_for() {
        for (percent, expected) in [(0, 0), (30, 30), (100, 100)] {
            let payload = Payload::new(5, 1, 300, percent);
            let repeated =
                payload.table.iter().filter(|byte| **byte == b'.').count() * 100 / payload.table.len();
            assert!((expected..=expected + 1).contains(&repeated), "{percent}: {repeated}");
        }
    }

    proptest! {
        #[test]
        fn no_changed_byte_and_no_changed_length_goes_unseen(at in 8_usize..200, flip in 1_u8.., sequence in 0_u64..1_000_000) {
            let payload = Payload::new(5, 1, 200, 0);
            let mut value = vec![0; 200];
            payload.write(&stamp(sequence), &mut value);
            prop_assert_eq!(payload.read(&value[..at]), Reading::Corrupt);
            value[at] ^= flip;
            prop_assert_eq!(payload.read(&value), Reading::Corrupt);
        }
    }
}
