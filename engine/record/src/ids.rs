//! Identities: topics, partitions, nodes, shards, producers, and the epochs that fence them.

use core::fmt;

/// A topic's identity: 128 bits that never return, also when a topic's name is used again.
///
/// Shown as Kafka shows it: URL-safe base64 of the 16 bytes, without padding.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TopicId(pub [u8; 16]);

impl TopicId {
    /// The id that stands for "none" in the protocol.
    pub const ZERO: Self = Self([0; 16]);

    /// Whether this is a real topic's id.
    #[must_use]
    pub fn is_zero(self) -> bool {
        self == Self::ZERO
    }

    /// Parses what [`fmt::Display`] writes; `None` where `text` isn't 22 base64url characters of a 16-byte value.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        if text.len() != 22 {
            return None;
        }
        let mut value: u128 = 0;
        let mut digits = text.bytes().map(base64url_value);
        for _ in 0..21 {
            value = (value << 6) | u128::from(digits.next()??);
        }
        let last = digits.next()??;
        if last & 0b1111 != 0 {
            return None;
        }
        Some(Self(((value << 2) | u128::from(last >> 4)).to_be_bytes()))
    }
}

impl fmt::Display for TopicId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let value = u128::from_be_bytes(self.0);
        for shift in (2..128).step_by(6).rev() {
            fmt::Write::write_char(f, base64url_digit(value >> shift))?;
        }
        fmt::Write::write_char(f, base64url_digit(value << 4))
    }
}

/// The digit for the low six bits of `value`.
fn base64url_digit(value: u128) -> char {
    let six = u8::try_from(value & 0b11_1111).unwrap_or_default();
    let (first, from) = match six {
        0..=25 => (b'A', 0),
        26..=51 => (b'a', 26),
        52..=61 => (b'0', 52),
        62 => (b'-', 62),
        _ => (b'_', 63),
    };
    char::from(first.wrapping_add(six.wrapping_sub(from)))
}

fn base64url_value(digit: u8) -> Option<u8> {
    let (first, from) = match digit {
        b'A'..=b'Z' => (b'A', 0),
        b'a'..=b'z' => (b'a', 26),
        b'0'..=b'9' => (b'0', 52),
        b'-' => (b'-', 62),
        b'_' => (b'_', 63),
        _ => return None,
    };
    Some(digit.wrapping_sub(first).wrapping_add(from))
}

/// Declares a newtype over a number with `Display`, ordering and a public field.
macro_rules! number {
    ($(#[$doc:meta])* $name:ident($inner:ty)) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(pub $inner);

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(&self.0, f)
            }
        }
    };
}

number! {
    /// A partition's number in its topic, from 0.
    PartitionIndex(i32)
}
number! {
    /// A node of the cluster. An endpoint's broker id is made of it and a [`ShardId`].
    NodeId(i32)
}
number! {
    /// A shard of one node, from 0: one core, its executor and the partitions it owns.
    ShardId(u16)
}
number! {
    /// Counts the leaders of a partition; every batch carries its leader's. -1 stands for "unknown" on the wire only.
    LeaderEpoch(i32)
}
number! {
    /// An idempotent producer's identity. -1 stands for "none" on the wire.
    ProducerId(i64)
}
number! {
    /// Fences earlier incarnations of a [`ProducerId`].
    ProducerEpoch(i16)
}

impl ProducerId {
    /// What a batch without an idempotent producer carries.
    pub const NONE: Self = Self(-1);
}

/// One log of one topic.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TopicPartition {
    /// The topic.
    pub topic: TopicId,
    /// The partition in it.
    pub partition: PartitionIndex,
}

impl fmt::Display for TopicPartition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.topic, self.partition)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_topic_id_is_shown_as_base64url_and_read_back() {
        assert_eq!(TopicId::ZERO.to_string(), "AAAAAAAAAAAAAAAAAAAAAA");
        let id = TopicId([0xfb, 0xff, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 0xff]);
        assert_eq!(id.to_string(), "-_8DBAUGBwgJCgsMDQ4P_w");
        assert_eq!(TopicId::parse(&id.to_string()), Some(id));
    }

    #[test]
    fn text_that_is_no_topic_id_is_refused() {
        for text in ["", "AAAAAAAAAAAAAAAAAAAAA", "AAAAAAAAAAAAAAAAAAAAA*", "AAAAAAAAAAAAAAAAAAAAAB"] {
            assert_eq!(TopicId::parse(text), None, "{text}");
        }
    }
}
