//! What a record holds, so that whoever reads it can tell whether it is the right one, whole.
//!
//! Everything follows from the partition and the record's number in it, its *sequence*: keys name both, values are of
//! many lengths and end in their own checksum, headers repeat partition and checksum. `tests/clients/content.py` says
//! the same in Python, so what one client wrote another can check.
//!
//! ```text
//! key      "<partition>-<sequence, 8 digits>"         null at every 50th record (49, 99, ..)
//! value    0 to 199 bytes, CRC-32 of them as 8 digits  null at every 100th record (98, 198, ..)
//! headers  partition: text, crc: 4 bytes, empty: no bytes, null: null
//! ```

use flate2::Crc;

/// Kafka's ways to compress a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Codec {
    /// Not at all.
    None,
    /// DEFLATE with gzip's header.
    Gzip,
    /// Snappy in frames of Xerial's format.
    Snappy,
    /// LZ4 in frames.
    Lz4,
    /// Zstandard.
    Zstd,
}

impl Codec {
    /// All of them, in the order in which round trips use them.
    pub const ALL: [Self; 5] = [Self::None, Self::Gzip, Self::Snappy, Self::Lz4, Self::Zstd];

    /// The name that clients and `ringlog produce` know it by.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Gzip => "gzip",
            Self::Snappy => "snappy",
            Self::Lz4 => "lz4",
            Self::Zstd => "zstd",
        }
    }
}

/// What bytes a value is made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// Printable ASCII, no nulls: for clients that read lines and write JSON.
    Text,
    /// All bytes, and nulls too.
    Binary,
}

/// A header: name, and value or null.
pub type Header = (String, Option<Vec<u8>>);

/// A record as a client sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// The key, or null.
    pub key: Option<Vec<u8>>,
    /// The value, or null.
    pub value: Option<Vec<u8>>,
    /// The headers in order.
    pub headers: Vec<Header>,
    /// When it was made, milliseconds since 1970.
    pub timestamp_ms: i64,
}

/// The rule that makes the records of a topic.
#[derive(Clone, Copy, Debug)]
pub struct Content {
    /// What values are made of.
    pub shape: Shape,
    /// Timestamp of sequence 0; each record is a millisecond younger than the one before.
    pub first_timestamp_ms: i64,
}

impl Content {
    /// The record with this number in this partition.
    ///
    /// # Panics
    /// When the partition is negative, or the sequence above 62 bits.
    #[must_use]
    pub fn record(&self, partition: i32, sequence: u64) -> Record {
        let pad = self.pad(partition, sequence);
        let crc = crc32(&pad);
        let is_null = |remainder| self.shape == Shape::Binary && sequence % 100 == remainder;
        let key = format!("{partition}-{sequence:08}").into_bytes();
        let value = [pad, format!("{crc:08x}").into_bytes()].concat();
        let past = i64::try_from(sequence).expect("sequences are small");
        Record {
            key: (!is_null(49) && !is_null(99)).then_some(key),
            value: (!is_null(98)).then_some(value),
            headers: vec![
                ("partition".to_owned(), Some(partition.to_string().into_bytes())),
                ("crc".to_owned(), Some(crc.to_be_bytes().to_vec())),
                ("empty".to_owned(), Some(Vec::new())),
                ("null".to_owned(), None),
            ],
            timestamp_ms: self.first_timestamp_ms + past,
        }
    }

    /// The value's bytes before its checksum: a piece of a repeated alphabet, which compresses as real values do.
    fn pad(&self, partition: i32, sequence: u64) -> Vec<u8> {
        let (first, count) = match self.shape {
            Shape::Text => (33, 94),
            Shape::Binary => (0, 256),
        };
        let partition = u64::try_from(partition).expect("partitions are numbered from 0");
        let len = (sequence * 7_919 + partition * 104_729) % 200;
        let start = sequence * 31 % count;
        (start..start + len)
            .map(|at| u8::try_from(first + at % count).expect("within the alphabet"))
            .collect()
    }
}

/// CRC-32 as gzip has it, since Python's standard library computes it too.
#[must_use]
pub fn crc32(bytes: &[u8]) -> u32 {
    let mut crc = Crc::new();
    crc.update(bytes);
    crc.sum()
}

/// How many of `total` records each of `partitions` gets, and each codec of them: all alike.
///
/// # Panics
/// When they can't be dealt evenly.
#[must_use]
pub fn records_per_codec(total: u64, partitions: i32) -> u64 {
    let shares = u64::try_from(partitions).expect("partitions are counted from 0") * 5;
    assert!(total > 0 && total.is_multiple_of(shares), "{total} records can't be dealt to {shares} evenly");
    total / shares
}

#[cfg(test)]
mod tests {
    use super::*;

    const BINARY: Content = Content { shape: Shape::Binary, first_timestamp_ms: 1_000 };

    /// `tests/clients/content.py` checks itself against the same record.
    #[test]
    fn the_rule_is_the_one_written_in_python() {
        let record = BINARY.record(3, 12);
        assert_eq!(record.key.as_deref(), Some(&b"3-00000012"[..]));
        let pad: Vec<u8> = (0..15).map(|at| 116 + at).collect();
        assert_eq!(record.value.unwrap(), [&pad[..], format!("{:08x}", crc32(&pad)).as_bytes()].concat());
        assert_eq!(record.timestamp_ms, 1_012);
        assert_eq!(crc32(b"123456789"), 0xcbf4_3926);
    }

    #[test]
    fn nulls_come_in_binary_only() {
        assert_eq!(BINARY.record(0, 49).key, None);
        assert_eq!(BINARY.record(0, 99).key, None);
        assert_eq!(BINARY.record(0, 98).value, None);
        let text = Content { shape: Shape::Text, ..BINARY };
        for sequence in 0..100 {
            let record = text.record(0, sequence);
            assert!(record.key.is_some());
            assert!(record.value.unwrap().iter().all(u8::is_ascii_graphic));
        }
    }

    #[test]
    fn records_are_dealt_evenly() {
        assert_eq!(records_per_codec(100_000, 8), 2_500);
    }
}
