//! [`Writer`]: appends primitives to a byte vector.

use crate::error::EncodeError;
use crate::uuid::Uuid;

/// Appends the protocol's primitives to a byte vector, which may already hold something.
#[derive(Debug)]
pub struct Writer<'w> {
    buffer: &'w mut Vec<u8>,
}

impl<'w> Writer<'w> {
    /// Appends to `buffer`.
    #[must_use]
    pub const fn new(buffer: &'w mut Vec<u8>) -> Self {
        Self { buffer }
    }

    /// Bytes in the buffer, including what it held before.
    #[inline]
    #[must_use]
    pub const fn position(&self) -> usize {
        self.buffer.len()
    }

    /// Appends bytes as they are, without a length.
    #[inline]
    pub fn raw(&mut self, bytes: &[u8]) {
        self.buffer.extend_from_slice(bytes);
    }

    /// Drops what was written from `position` on.
    pub(crate) fn rewind(&mut self, position: usize) {
        self.buffer.truncate(position);
    }

    /// Overwrites four bytes written before; bytes past the end are left alone.
    pub(crate) fn patch_i32(&mut self, position: usize, value: i32) {
        if let Some(place) = self.buffer.get_mut(position..).and_then(<[u8]>::first_chunk_mut) {
            *place = value.to_be_bytes();
        }
    }
}

/// Numbers of fixed width, all big endian.
impl Writer<'_> {
    /// A boolean.
    #[inline]
    pub fn bool(&mut self, value: bool) {
        self.raw(&[u8::from(value)]);
    }

    /// An 8-bit integer.
    #[inline]
    pub fn i8(&mut self, value: i8) {
        self.raw(&value.to_be_bytes());
    }

    /// A 16-bit integer.
    #[inline]
    pub fn i16(&mut self, value: i16) {
        self.raw(&value.to_be_bytes());
    }

    /// An unsigned 16-bit integer.
    #[inline]
    pub fn u16(&mut self, value: u16) {
        self.raw(&value.to_be_bytes());
    }

    /// A 32-bit integer.
    #[inline]
    pub fn i32(&mut self, value: i32) {
        self.raw(&value.to_be_bytes());
    }

    /// A 64-bit integer.
    #[inline]
    pub fn i64(&mut self, value: i64) {
        self.raw(&value.to_be_bytes());
    }

    /// A double.
    #[inline]
    pub fn f64(&mut self, value: f64) {
        self.raw(&value.to_be_bytes());
    }

    /// A UUID.
    #[inline]
    pub fn uuid(&mut self, value: Uuid) {
        self.raw(&value.0);
    }
}

/// Numbers of variable width, always in their shortest form.
impl Writer<'_> {
    /// An unsigned varint.
    #[inline]
    pub fn uvarint(&mut self, value: u32) {
        self.uvarlong(u64::from(value));
    }

    /// An unsigned varint of up to 64 bits.
    #[inline]
    pub fn uvarlong(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.buffer.push(low_seven(value) | 0x80);
            value >>= 7;
        }
        self.buffer.push(low_seven(value));
    }

    /// A zigzag varint.
    #[inline]
    pub fn varint(&mut self, value: i32) {
        self.uvarint((value.wrapping_shl(1) ^ (value >> 31)).cast_unsigned());
    }

    /// A zigzag varint of up to 64 bits.
    #[inline]
    pub fn varlong(&mut self, value: i64) {
        self.uvarlong((value.wrapping_shl(1) ^ (value >> 63)).cast_unsigned());
    }
}

/// Strings, bytes, counts, in plain and compact form; `None` is null.
impl Writer<'_> {
    /// A string or null, with a 16-bit length.
    ///
    /// # Errors
    /// [`EncodeError::TooLong`] above 32,767 bytes.
    #[inline]
    pub fn nullable_string(&mut self, value: Option<&str>) -> Result<(), EncodeError> {
        let Some(text) = value else {
            self.i16(-1);
            return Ok(());
        };
        let length = i16::try_from(text.len()).map_err(|_| too_long(text.len(), 0x7fff))?;
        self.i16(length);
        self.raw(text.as_bytes());
        Ok(())
    }

    /// A string or null, in compact form.
    ///
    /// # Errors
    /// [`EncodeError::TooLong`] above 2 GiB.
    #[inline]
    pub fn compact_nullable_string(&mut self, value: Option<&str>) -> Result<(), EncodeError> {
        self.compact_nullable_bytes(value.map(str::as_bytes))
    }

    /// Bytes or null, with a 32-bit length.
    ///
    /// # Errors
    /// [`EncodeError::TooLong`] above 2 GiB.
    #[inline]
    pub fn nullable_bytes(&mut self, value: Option<&[u8]>) -> Result<(), EncodeError> {
        self.count(value.map(<[u8]>::len))?;
        self.raw(value.unwrap_or_default());
        Ok(())
    }

    /// Bytes or null, in compact form.
    ///
    /// # Errors
    /// [`EncodeError::TooLong`] above 2 GiB.
    #[inline]
    pub fn compact_nullable_bytes(&mut self, value: Option<&[u8]>) -> Result<(), EncodeError> {
        self.compact_count(value.map(<[u8]>::len))?;
        self.raw(value.unwrap_or_default());
        Ok(())
    }

    /// A 32-bit count or length, -1 for null.
    ///
    /// # Errors
    /// [`EncodeError::TooLong`] above 2 GiB.
    #[inline]
    pub fn count(&mut self, count: Option<usize>) -> Result<(), EncodeError> {
        self.i32(count.map_or(Ok(-1), length)?);
        Ok(())
    }

    /// A count or length in compact form: one more than it is, 0 for null.
    ///
    /// # Errors
    /// [`EncodeError::TooLong`] above 2 GiB.
    #[inline]
    pub fn compact_count(&mut self, count: Option<usize>) -> Result<(), EncodeError> {
        let plain = count.map_or(Ok(-1), length)?;
        self.uvarint(plain.wrapping_add(1).cast_unsigned());
        Ok(())
    }

    /// A tagged field: its tag, the size of what `body` writes, and that. The count of tagged fields and ascending
    /// tags are the caller's.
    ///
    /// # Errors
    /// Whatever `body` returns; [`EncodeError::TooLong`] above 2 GiB.
    pub fn tagged_field(
        &mut self,
        tag: u32,
        body: impl FnOnce(&mut Self) -> Result<(), EncodeError>,
    ) -> Result<(), EncodeError> {
        self.uvarint(tag);
        let start = self.position();
        body(self)?;
        let body_end = self.position();
        // The size comes first but is known last: write it behind the body and turn the two round.
        self.uvarint(length(body_end.saturating_sub(start))?.cast_unsigned());
        let size_bytes = self.position().saturating_sub(body_end);
        if let Some(field) = self.buffer.get_mut(start..) {
            field.rotate_right(size_bytes);
        }
        Ok(())
    }
}

/// The longest string, array or frame that a 32-bit length can name.
const LENGTH_MAX: usize = 0x7fff_ffff;

/// A size as the protocol's length.
pub(crate) fn length(size: usize) -> Result<i32, EncodeError> {
    i32::try_from(size).map_err(|_| too_long(size, LENGTH_MAX))
}

const fn too_long(length: usize, limit: usize) -> EncodeError {
    EncodeError::TooLong { length, limit }
}

const fn low_seven(value: u64) -> u8 {
    (value & 0x7f) as u8
}
