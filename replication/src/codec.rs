//! The bytes of everything this crate stores or sends: little, exact, and safe to read from a stranger.
//!
//! Numbers are LEB128 varints in their shortest form, so that equal values have equal bytes. A count is refused where
//! the bytes that remain cannot hold that many items, before anything is allocated for them.

use engine_record::{LeaderEpoch, NodeId, TopicId};
use thiserror::Error;

/// Why bytes are not what they should be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum DecodeError {
    /// The bytes end inside a value.
    #[error("the bytes end inside a value")]
    Truncated,
    /// Bytes follow the end of the value.
    #[error("{0} bytes follow the end of the value")]
    TrailingBytes(usize),
    /// A number is longer than its type or not in its shortest form.
    #[error("a number is too large or not in its shortest form")]
    Number,
    /// A flag is neither 0 nor 1.
    #[error("a flag has the value {0}")]
    Flag(u8),
    /// A count that the remaining bytes cannot hold.
    #[error("{count} items are announced where {remaining} bytes remain")]
    Count {
        /// Items announced.
        count: u64,
        /// Bytes that remain.
        remaining: usize,
    },
    /// A text that isn't UTF-8.
    #[error("a text is not UTF-8")]
    Text,
    /// A version of this format that this program doesn't know.
    #[error("version {0} of the format is unknown")]
    Version(u8),
    /// A tag that names no variant.
    #[error("tag {0} names nothing known")]
    Tag(u8),
    /// Keys of a map that are not in rising order, or not unique.
    #[error("keys are not in rising order")]
    KeyOrder,
    /// Parts that are each readable and together break a rule of what they describe.
    #[error("the parts contradict each other")]
    Inconsistent,
    /// The checksum doesn't match the bytes.
    #[error("the checksum does not match")]
    Checksum,
    /// The first bytes aren't those of this format.
    #[error("the first bytes are not those of this format")]
    Magic,
}

/// Appends values to a byte vector.
#[derive(Debug, Default)]
pub(crate) struct Writer {
    bytes: Vec<u8>,
}

impl Writer {
    pub(crate) fn new() -> Self {
        Self::default()
    }

    pub(crate) fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }

    pub(crate) fn u8(&mut self, value: u8) {
        self.bytes.push(value);
    }

    pub(crate) fn flag(&mut self, value: bool) {
        self.u8(u8::from(value));
    }

    pub(crate) fn number(&mut self, value: impl Into<u64>) {
        let mut rest = value.into();
        while rest >= 0x80 {
            self.bytes.push(0x80 | low_seven(rest));
            rest >>= 7;
        }
        self.bytes.push(low_seven(rest));
    }

    /// A number that is never negative, of a type that could be.
    pub(crate) fn natural<T: TryInto<u64, Error: core::fmt::Debug>>(&mut self, value: T) {
        let value: u64 = value.try_into().expect("what is written here is never negative");
        self.number(value);
    }

    pub(crate) fn count(&mut self, count: usize) {
        self.natural(count);
    }

    pub(crate) fn fixed(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    pub(crate) fn u128(&mut self, value: u128) {
        self.fixed(&value.to_le_bytes());
    }

    pub(crate) fn bytes(&mut self, bytes: &[u8]) {
        self.count(bytes.len());
        self.fixed(bytes);
    }

    pub(crate) fn text(&mut self, text: &str) {
        self.bytes(text.as_bytes());
    }

    pub(crate) fn node(&mut self, node: NodeId) {
        self.natural(node.0);
    }

    pub(crate) fn topic_id(&mut self, id: TopicId) {
        self.fixed(&id.0);
    }

    pub(crate) fn list<T>(&mut self, items: &[T], mut each: impl FnMut(&mut Self, &T)) {
        self.count(items.len());
        for item in items {
            each(self, item);
        }
    }
}

fn low_seven(value: u64) -> u8 {
    u8::try_from(value & 0x7f).expect("seven bits fit a byte")
}

/// Reads values from the front of a byte slice.
#[derive(Debug)]
pub(crate) struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    /// Nothing may be left.
    pub(crate) fn finish(self) -> Result<(), DecodeError> {
        if self.rest.is_empty() { Ok(()) } else { Err(DecodeError::TrailingBytes(self.rest.len())) }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    pub(crate) fn slice(&mut self, count: usize) -> Result<&'a [u8], DecodeError> {
        let (head, rest) = self.rest.split_at_checked(count).ok_or(DecodeError::Truncated)?;
        self.rest = rest;
        Ok(head)
    }

    pub(crate) fn array<const N: usize>(&mut self) -> Result<[u8; N], DecodeError> {
        let (head, rest) = self.rest.split_first_chunk::<N>().ok_or(DecodeError::Truncated)?;
        self.rest = rest;
        Ok(*head)
    }

    pub(crate) fn u8(&mut self) -> Result<u8, DecodeError> {
        let [byte] = self.array()?;
        Ok(byte)
    }

    pub(crate) fn flag(&mut self) -> Result<bool, DecodeError> {
        match self.u8()? {
            0 => Ok(false),
            1 => Ok(true),
            other => Err(DecodeError::Flag(other)),
        }
    }

    pub(crate) fn u64(&mut self) -> Result<u64, DecodeError> {
        let mut value = 0_u64;
        for shift in (0..64).step_by(7) {
            let byte = self.u8()?;
            let bits = u64::from(byte & 0x7f);
            let last = byte & 0x80 == 0;
            let overflows = (bits << shift) >> shift != bits;
            let padded = last && bits == 0 && shift > 0;
            if overflows || padded {
                return Err(DecodeError::Number);
            }
            value |= bits << shift;
            if last {
                return Ok(value);
            }
        }
        Err(DecodeError::Number)
    }

    /// A number of a type that may be narrower than the 64 bits of the format.
    pub(crate) fn number<T: TryFrom<u64>>(&mut self) -> Result<T, DecodeError> {
        T::try_from(self.u64()?).map_err(|_| DecodeError::Number)
    }

    /// A count of items that take at least `item_bytes_min` bytes each.
    pub(crate) fn count(&mut self, item_bytes_min: usize) -> Result<usize, DecodeError> {
        assert!(item_bytes_min > 0, "an item of no bytes would let a count be anything");
        let count = self.u64()?;
        let remaining = self.rest.len();
        let fits = usize::try_from(count).ok().filter(|count| *count <= remaining / item_bytes_min);
        fits.ok_or(DecodeError::Count { count, remaining })
    }

    pub(crate) fn u128(&mut self) -> Result<u128, DecodeError> {
        Ok(u128::from_le_bytes(self.array()?))
    }

    pub(crate) fn bytes(&mut self) -> Result<&'a [u8], DecodeError> {
        let count = self.count(1)?;
        self.slice(count)
    }

    pub(crate) fn text(&mut self) -> Result<String, DecodeError> {
        let bytes = self.bytes()?;
        core::str::from_utf8(bytes).map(str::to_owned).map_err(|_| DecodeError::Text)
    }

    pub(crate) fn node(&mut self) -> Result<NodeId, DecodeError> {
        self.number().map(NodeId)
    }

    pub(crate) fn leader_epoch(&mut self) -> Result<LeaderEpoch, DecodeError> {
        self.number().map(LeaderEpoch)
    }

    pub(crate) fn topic_id(&mut self) -> Result<TopicId, DecodeError> {
        self.array().map(TopicId)
    }

    /// A counted list of items that take at least `item_bytes_min` bytes each.
    pub(crate) fn list<T>(
        &mut self,
        item_bytes_min: usize,
        mut each: impl FnMut(&mut Self) -> Result<T, DecodeError>,
    ) -> Result<Vec<T>, DecodeError> {
        let count = self.count(item_bytes_min)?;
        (0..count).map(|_| each(self)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_number_is_read_as_it_was_written(value: u64) {
            let mut writer = Writer::new();
            writer.number(value);
            let bytes = writer.into_bytes();
            let mut reader = Reader::new(&bytes);
            prop_assert_eq!(reader.u64(), Ok(value));
            prop_assert_eq!(reader.finish(), Ok(()));
        }

        #[test]
        fn bytes_that_read_as_a_number_are_the_ones_it_is_written_as(bytes in prop::collection::vec(any::<u8>(), 0..12)) {
            let mut reader = Reader::new(&bytes);
            if let Ok(value) = reader.u64() {
                let mut writer = Writer::new();
                writer.number(value);
                let written = writer.into_bytes();
                prop_assert_eq!(&bytes[..written.len()], &written[..]);
            }
        }
    }

    #[test]
    fn a_count_beyond_the_bytes_that_remain_is_refused_before_anything_is_allocated() {
        let mut writer = Writer::new();
        writer.number(u64::MAX);
        writer.fixed(&[0; 16]);
        let bytes = writer.into_bytes();
        let read = Reader::new(&bytes).list(4, Reader::u8);
        assert_eq!(read, Err(DecodeError::Count { count: u64::MAX, remaining: 16 }));
        let mut exact = Reader::new(&[2, 7, 8]);
        assert_eq!(exact.list(1, Reader::u8), Ok(vec![7, 8]));
        assert_eq!(
            Reader::new(&[2, 7, 8]).list(2, Reader::u8),
            Err(DecodeError::Count { count: 2, remaining: 2 })
        );
    }

    #[test]
    fn padding_an_overlong_number_and_an_odd_flag_are_refused() {
        assert_eq!(Reader::new(&[0x80, 0x00]).u64(), Err(DecodeError::Number));
        assert_eq!(Reader::new(&[0xff; 10]).u64(), Err(DecodeError::Number));
        assert_eq!(Reader::new(&[0x80]).u64(), Err(DecodeError::Truncated));
        assert_eq!(Reader::new(&[2]).flag(), Err(DecodeError::Flag(2)));
        assert_eq!(Reader::new(&[0xff, 0xff, 0xff, 0xff, 0x0f]).number::<i32>(), Err(DecodeError::Number));
        assert_eq!(Reader::new(&[1, 0xff]).text(), Err(DecodeError::Text));
    }
}
