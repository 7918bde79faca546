//! Random values of every type, valid for a version.

use crate::error_code::ErrorCode;
use crate::uuid::Uuid;
use crate::wire::Version;

/// Where the randomness comes from: a small generator, so that a seed is a test case.
pub(crate) struct Source(u64);

impl Source {
    pub(crate) const fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The next 64 bits (splitmix64).
    pub(crate) const fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number below `bound`.
    pub(crate) fn below(&mut self, bound: usize) -> usize {
        usize::try_from(self.next() % bound as u64).unwrap()
    }

    fn one_in(&mut self, chances: usize) -> bool {
        self.below(chances) == 0
    }

    /// Mostly short lengths, now and then one that needs two bytes as a varint.
    fn length(&mut self) -> usize {
        if self.one_in(8) { self.below(300) } else { self.below(9) }
    }
}

/// A type with random values. Borrowed text and bytes come from static pools.
pub(crate) trait Sample {
    /// A value valid in `version`; null only where `null` allows it.
    fn sample(source: &mut Source, version: Version, null: bool) -> Self;
}

macro_rules! sample_number {
    ($($type:ty),*) => { $(
        impl Sample for $type {
            fn sample(source: &mut Source, _: Version, _: bool) -> Self {
                const BYTES: usize = size_of::<$type>();
                match source.below(8) {
                    0 => 0,
                    1 => -1,
                    2 => <$type>::MAX,
                    3 => <$type>::MIN,
                    _ => <$type>::from_le_bytes(*source.next().to_le_bytes().first_chunk::<BYTES>().unwrap()),
                }
            }
        }
    )* };
}

sample_number!(i8, i16, i32, i64);

impl Sample for bool {
    fn sample(source: &mut Source, _: Version, _: bool) -> Self {
        source.one_in(2)
    }
}

impl Sample for ErrorCode {
    fn sample(source: &mut Source, version: Version, null: bool) -> Self {
        Self(i16::sample(source, version, null))
    }
}

impl Sample for Uuid {
    fn sample(source: &mut Source, _: Version, _: bool) -> Self {
        let halves = (u128::from(source.next()) << 64) | u128::from(source.next());
        if source.one_in(4) { Self::ZERO } else { Self(halves.to_be_bytes()) }
    }
}

impl Sample for &'static str {
    fn sample(source: &mut Source, _: Version, _: bool) -> Self {
        const WORDS: &[&str] = &["", "a", "orders", "größe", "日本", "__consumer_offsets"];
        static LONG: &str = include_str!("sample.rs");
        match source.below(12) {
            index @ 0..=5 => WORDS[index],
            _ => &LONG[..source.length()],
        }
    }
}

impl Sample for &'static [u8] {
    fn sample(source: &mut Source, _: Version, _: bool) -> Self {
        static POOL: &[u8] = include_bytes!("sample.rs");
        let start = source.below(1_000);
        &POOL[start..start + source.length()]
    }
}

impl<T: Sample> Sample for Vec<T> {
    fn sample(source: &mut Source, version: Version, _: bool) -> Self {
        let count = if source.one_in(30) { 130 } else { source.below(4) };
        (0..count).map(|_| T::sample(source, version, true)).collect()
    }
}

impl<T: Sample> Sample for Option<T> {
    fn sample(source: &mut Source, version: Version, null: bool) -> Self {
        if null && source.one_in(3) { None } else { Some(T::sample(source, version, null)) }
    }
}
