//! Which partition a record goes to.
//!
//! Producers in other languages must agree on where a key lives, so the hashes are those that clients in the field
//! use, bit for bit. Records without a key have no home: they stay on one partition until a batch is full, because
//! spreading them record by record makes many small batches of them (KIP-794).

use engine_record::PartitionIndex;

use crate::random::Generator;

/// How partitions are chosen for records that name none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Strategy {
    /// Keys by murmur2, as the Java client does; an empty key is a key. Without key: sticky.
    #[default]
    Murmur2,
    /// Keys by CRC-32, as librdkafka does; an empty key counts as none. Without key: sticky.
    Crc32,
    /// Keys by 32-bit FNV-1a taken as a signed number, as sarama does; an empty key is a key. Without key: sticky.
    Fnv1a,
    /// Keys are ignored; one partition after the other, record by record.
    RoundRobin,
    /// Keys are ignored; sticky.
    Sticky,
}

/// A record names a partition that the topic doesn't have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("partition {partition} of a topic that has {partition_count}")]
pub struct PartitionOutOfRange {
    /// The partition named.
    pub partition: PartitionIndex,
    /// How many the topic has, from 0.
    pub partition_count: u32,
}

/// Checks a partition that a record names itself.
///
/// # Errors
/// [`PartitionOutOfRange`] where the topic doesn't have it.
pub fn explicit(
    partition: PartitionIndex,
    partition_count: u32,
) -> Result<PartitionIndex, PartitionOutOfRange> {
    match u32::try_from(partition.0) {
        Ok(index) if index < partition_count => Ok(partition),
        Ok(_) | Err(_) => Err(PartitionOutOfRange { partition, partition_count }),
    }
}

/// Chooses partitions for one topic.
#[derive(Clone, Debug)]
pub struct Partitioner {
    strategy: Strategy,
    sticky: Sticky,
    /// What round robin chooses next.
    turn: u32,
}

impl Partitioner {
    /// `sticky_bytes`: how much goes to a partition before the next is drawn; the size of a batch. `seed` decides what
    /// is drawn.
    #[must_use]
    pub const fn new(strategy: Strategy, sticky_bytes: usize, seed: u64) -> Self {
        let sticky =
            Sticky { bytes_max: sticky_bytes, bytes: 0, current: None, generator: Generator::new(seed) };
        Self { strategy, sticky, turn: 0 }
    }

    /// Chooses for a record of `record_bytes` bytes.
    ///
    /// # Panics
    /// Where `partition_count` is 0: whoever asks has metadata of the topic, and a topic has partitions.
    pub fn choose(
        &mut self,
        key: Option<&[u8]>,
        partition_count: u32,
        record_bytes: usize,
    ) -> PartitionIndex {
        assert!(partition_count > 0, "a topic has at least one partition");
        let hash = match (self.strategy, key) {
            (Strategy::Murmur2, Some(key)) => Some(murmur2(key) & 0x7fff_ffff),
            (Strategy::Fnv1a, Some(key)) => Some(fnv1a(key).cast_signed().unsigned_abs()),
            (Strategy::Crc32, Some(key)) if !key.is_empty() => Some(crc32(key)),
            (Strategy::Murmur2 | Strategy::Fnv1a | Strategy::Crc32, _) | (Strategy::Sticky, _) => None,
            (Strategy::RoundRobin, _) => Some(self.next_turn()),
        };
        let chosen = match hash {
            Some(hash) => hash % partition_count,
            None => self.sticky.choose(partition_count, record_bytes),
        };
        PartitionIndex(i32::try_from(chosen).unwrap_or(i32::MAX))
    }

    const fn next_turn(&mut self) -> u32 {
        let turn = self.turn;
        self.turn = turn.wrapping_add(1);
        turn
    }
}

#[derive(Clone, Debug)]
struct Sticky {
    bytes_max: usize,
    /// Given to the current partition so far.
    bytes: usize,
    current: Option<u32>,
    generator: Generator,
}

impl Sticky {
    fn choose(&mut self, partition_count: u32, record_bytes: usize) -> u32 {
        let known = self.current.filter(|&current| current < partition_count);
        let current = known.unwrap_or_else(|| self.generator.below(partition_count));
        self.bytes += record_bytes;
        let is_full = self.bytes >= self.bytes_max;
        self.current = if is_full { None } else { Some(current) };
        if is_full {
            self.bytes = 0;
        }
        current
    }
}

/// MurmurHash2 with the Java client's seed.
#[must_use]
pub fn murmur2(key: &[u8]) -> u32 {
    const MULTIPLIER: u32 = 0x5bd1_e995;
    let length = u32::try_from(key.len()).unwrap_or(u32::MAX);
    let mut hash = 0x9747_b28c ^ length;
    let mut words = key.chunks_exact(4);
    for word in &mut words {
        let mut mixed = little_endian(word).wrapping_mul(MULTIPLIER);
        mixed = (mixed ^ (mixed >> 24)).wrapping_mul(MULTIPLIER);
        hash = hash.wrapping_mul(MULTIPLIER) ^ mixed;
    }
    if !words.remainder().is_empty() {
        hash = (hash ^ little_endian(words.remainder())).wrapping_mul(MULTIPLIER);
    }
    hash = (hash ^ (hash >> 13)).wrapping_mul(MULTIPLIER);
    hash ^ (hash >> 15)
}

/// Up to four bytes as a number, the first lowest.
fn little_endian(bytes: &[u8]) -> u32 {
    bytes.iter().rev().fold(0, |number, &byte| number << 8 | u32::from(byte))
}

/// FNV-1a with 32 bits.
#[must_use]
pub fn fnv1a(key: &[u8]) -> u32 {
    key.iter().fold(0x811c_9dc5, |hash, &byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193))
}

/// The CRC-32 of IEEE 802.3, reflected.
#[must_use]
pub fn crc32(key: &[u8]) -> u32 {
    let step = |crc: u32, &byte: &u8| CRC32_TABLE[((crc ^ u32::from(byte)) & 0xff) as usize] ^ (crc >> 8);
    !key.iter().fold(u32::MAX, step)
}

const CRC32_TABLE: [u32; 256] = {
    let mut table = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        table[byte as usize] = crc32_of_byte(byte);
        byte += 1;
    }
    table
};

const fn crc32_of_byte(byte: u32) -> u32 {
    let mut crc = byte;
    let mut bit = 0;
    while bit < 8 {
        crc = if crc & 1 == 0 { crc >> 1 } else { (crc >> 1) ^ 0xedb8_8320 };
        bit += 1;
    }
    crc
}

#[cfg(test)]
mod tests {
    use super::*;

    const LONG: &str = "this is another string with more length to it perhaps";

    #[test]
    fn murmur2_agrees_with_the_java_client_for_every_length_of_tail() {
        let vectors: [(&[u8], u32); 9] = [
            (b"", 0x106e_08d9),
            (b"4", 0x5a4b_5ca1),
            (b"34", 0x0739_30da),
            (b"234", 0x67c0_09ca),
            (b"1234", 0x1fc9_7b14),
            (b"23456", 0x058d_780f),
            (b"hejsan", 0x5ec1_9395),
            (LONG.as_bytes(), 0x4f77_03da),
            (b"giberish123456789", 0x0f55_2b0c),
        ];
        for (key, hash) in vectors {
            assert_eq!(murmur2(key) & 0x7fff_ffff, hash, "{}", String::from_utf8_lossy(key));
        }
        assert_eq!(murmur2(b"21").cast_signed(), -973_932_308);
        assert_eq!(murmur2(b"foobar").cast_signed(), -790_332_482);
        assert_eq!(murmur2(b"abc").cast_signed(), 479_470_107);
    }

    /// A byte from 0x80 on is where an implementation with signed bytes goes wrong: it would fill the higher bits.
    #[test]
    fn bytes_from_0x80_on_are_hashed_unsigned() {
        assert_eq!(little_endian(&[0x80, 0xff]), 0xff80);
        assert_eq!(fnv1a(&[0x80]), (0x811c_9dc5_u32 ^ 0x80).wrapping_mul(0x0100_0193));
        assert_eq!(crc32(&[0xff]), 0xff00_0000);
        assert_eq!(crc32(&[0xff, 0xff, 0xff, 0xff]), 0xffff_ffff);
        let tails =
            (1..=7).map(|length| murmur2(&vec![0xf0; length])).collect::<std::collections::BTreeSet<_>>();
        assert_eq!(tails.len(), 7);
    }

    #[test]
    fn crc32_and_fnv1a_agree_with_librdkafka_and_sarama() {
        for (key, crc, fnv) in [
            ("", 0, 0x7ee3_623b),
            ("23456", 0xb1b4_51d7, 0x27e6_f469),
            ("hejsan", 0xd077_037e, 0x17b1_e27a),
            (LONG, 0xb015_0df7, 0x155e_3e5f),
        ] {
            assert_eq!(crc32(key.as_bytes()), crc, "{key}");
            assert_eq!(fnv1a(key.as_bytes()).cast_signed().unsigned_abs(), fnv, "{key}");
        }
        for (key, fnv) in
            [("4", 0x310c_a263), ("34", 0x740f_a83e), ("234", 0x2dea_3cd2), ("1234", 0x023b_dd03)]
        {
            assert_eq!(fnv1a(key.as_bytes()).cast_signed().unsigned_abs(), fnv, "{key}");
        }
    }

    #[test]
    fn an_empty_key_is_hashed_by_java_and_none_to_librdkafka() {
        let mut java = Partitioner::new(Strategy::Murmur2, 100, 1);
        assert!((0..50).all(|_| java.choose(Some(b""), 17, 10).0 == 0x106e_08d9 % 17));
        let mut rd = Partitioner::new(Strategy::Crc32, 1, 1);
        let chosen: std::collections::BTreeSet<_> = (0..200).map(|_| rd.choose(Some(b""), 17, 10)).collect();
        assert_eq!(chosen.len(), 17);
    }

    #[test]
    fn records_without_key_stay_on_a_partition_until_a_batch_is_full() {
        let mut sticky = Partitioner::new(Strategy::Sticky, 100, 9);
        let chosen: Vec<_> = (0..400).map(|_| sticky.choose(None, 8, 25)).collect();
        assert!(chosen.chunks(4).all(|batch| batch.iter().all(|partition| *partition == batch[0])));
        assert_eq!(chosen.iter().collect::<std::collections::BTreeSet<_>>().len(), 8);
        let mut again = Partitioner::new(Strategy::Sticky, 100, 9);
        assert!(
            chosen.iter().all(|partition| again.choose(None, 8, 25) == *partition),
            "a seed repeats itself"
        );
    }

    #[test]
    fn a_topic_that_shrank_gets_no_record_past_its_end() {
        let mut sticky = Partitioner::new(Strategy::Sticky, 1_000_000, 3);
        for _ in 0..64 {
            sticky.choose(None, 64, 1);
        }
        assert!((0..64).all(|_| sticky.choose(None, 1, 1).0 == 0));
    }

    #[test]
    fn round_robin_takes_turns_and_ignores_keys() {
        let mut turns = Partitioner::new(Strategy::RoundRobin, 100, 0);
        let chosen: Vec<_> = (0..6).map(|_| turns.choose(Some(b"same"), 3, 1).0).collect();
        assert_eq!(chosen, [0, 1, 2, 0, 1, 2]);
    }

    #[test]
    fn a_named_partition_must_exist() {
        assert_eq!(explicit(PartitionIndex(2), 3), Ok(PartitionIndex(2)));
        for partition in [PartitionIndex(3), PartitionIndex(-1)] {
            assert_eq!(explicit(partition, 3), Err(PartitionOutOfRange { partition, partition_count: 3 }));
        }
    }
}
