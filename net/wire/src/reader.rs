//! [`Reader`]: takes primitives off borrowed bytes. Nothing is copied, nothing is allocated.

use core::str;

use crate::error::{DecodeError, Place};
use crate::uuid::Uuid;

/// Takes the protocol's primitives off the front of borrowed bytes.
///
/// Every method moves forward by exactly what it returns, or returns an error. After an error the reader stands
/// somewhere inside the bad element: drop it.
#[derive(Debug, Clone)]
pub struct Reader<'a> {
    rest: &'a [u8],
    position: usize,
}

impl<'a> Reader<'a> {
    /// Reads from the start of `bytes`.
    #[must_use]
    pub const fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes, position: 0 }
    }

    /// Bytes read so far.
    #[inline]
    #[must_use]
    pub const fn position(&self) -> usize {
        self.position
    }

    /// Bytes not read yet.
    #[inline]
    #[must_use]
    pub const fn remaining(&self) -> usize {
        self.rest.len()
    }

    /// The bytes not read yet.
    #[must_use]
    pub const fn rest(&self) -> &'a [u8] {
        self.rest
    }

    /// Takes the next `len` bytes.
    ///
    /// # Errors
    /// [`DecodeError::Truncated`] when fewer remain.
    #[inline]
    pub fn take(&mut self, len: usize) -> Result<&'a [u8], DecodeError> {
        let (taken, rest) = self.rest.split_at_checked(len).ok_or_else(|| self.truncated(len))?;
        self.advance(rest, len);
        Ok(taken)
    }

    /// Takes the next `N` bytes.
    ///
    /// # Errors
    /// [`DecodeError::Truncated`] when fewer remain.
    #[inline]
    pub fn chunk<const N: usize>(&mut self) -> Result<[u8; N], DecodeError> {
        let (taken, rest) = self.rest.split_first_chunk::<N>().ok_or_else(|| self.truncated(N))?;
        self.advance(rest, N);
        Ok(*taken)
    }

    /// Checks that nothing is left.
    ///
    /// # Errors
    /// [`DecodeError::Trailing`] when bytes are left.
    #[inline]
    pub fn finish(&self) -> Result<(), DecodeError> {
        match self.remaining() {
            0 => Ok(()),
            remaining => Err(DecodeError::Trailing { at: self.place(), remaining }),
        }
    }

    #[inline]
    pub(crate) const fn place(&self) -> Place {
        Place { position: self.position, field: "" }
    }

    #[inline]
    const fn advance(&mut self, rest: &'a [u8], len: usize) {
        self.rest = rest;
        // The position never passes the length of a slice, so it cannot wrap.
        self.position = self.position.wrapping_add(len);
    }

    #[cold]
    fn truncated(&self, needed: usize) -> DecodeError {
        DecodeError::Truncated { at: self.place(), needed, remaining: self.remaining() }
    }
}

/// Numbers of fixed width, all big endian.
impl Reader<'_> {
    /// A boolean: any byte but 0 is true.
    ///
    /// # Errors
    /// [`DecodeError::Truncated`].
    #[inline]
    pub fn bool(&mut self) -> Result<bool, DecodeError> {
        Ok(self.i8()? != 0)
    }

    /// An 8-bit integer.
    ///
    /// # Errors
    /// [`DecodeError::Truncated`].
    #[inline]
    pub fn i8(&mut self) -> Result<i8, DecodeError> {
        Ok(i8::from_be_bytes(self.chunk()?))
    }

    /// A 16-bit integer.
    ///
    /// # Errors
    /// [`DecodeError::Truncated`].
    #[inline]
    pub fn i16(&mut self) -> Result<i16, DecodeError> {
        Ok(i16::from_be_bytes(self.chunk()?))
    }

    /// An unsigned 16-bit integer.
    ///
    /// # Errors
    /// [`DecodeError::Truncated`].
    #[inline]
    pub fn u16(&mut self) -> Result<u16, DecodeError> {
        Ok(u16::from_be_bytes(self.chunk()?))
    }

    /// A 32-bit integer.
    ///
    /// # Errors
    /// [`DecodeError::Truncated`].
    #[inline]
    pub fn i32(&mut self) -> Result<i32, DecodeError> {
        Ok(i32::from_be_bytes(self.chunk()?))
    }

    /// A 64-bit integer.
    ///
    /// # Errors
    /// [`DecodeError::Truncated`].
    #[inline]
    pub fn i64(&mut self) -> Result<i64, DecodeError> {
        Ok(i64::from_be_bytes(self.chunk()?))
    }

    /// A double.
    ///
    /// # Errors
    /// [`DecodeError::Truncated`].
    #[inline]
    pub fn f64(&mut self) -> Result<f64, DecodeError> {
        Ok(f64::from_be_bytes(self.chunk()?))
    }

    /// A UUID.
    ///
    /// # Errors
    /// [`DecodeError::Truncated`].
    #[inline]
    pub fn uuid(&mut self) -> Result<Uuid, DecodeError> {
        self.chunk().map(Uuid)
    }
}

/// Numbers of variable width, seven bits a byte, lowest first. Padding with zero bits is allowed up to the longest
/// form of the type, as other implementations allow it; more bits than the type has are refused.
impl Reader<'_> {
    /// An unsigned varint of at most 32 bits.
    ///
    /// # Errors
    /// [`DecodeError::Truncated`], [`DecodeError::VarintTooLong`].
    #[inline]
    pub fn uvarint(&mut self) -> Result<u32, DecodeError> {
        if let Some((&byte, rest)) = self.rest.split_first()
            && byte < 0x80
        {
            self.advance(rest, 1);
            return Ok(u32::from(byte));
        }
        let at = self.place();
        let value = self.uvarlong_of(5)?;
        u32::try_from(value).map_err(|_| DecodeError::VarintTooLong { at })
    }

    /// An unsigned varint of at most 64 bits.
    ///
    /// # Errors
    /// [`DecodeError::Truncated`], [`DecodeError::VarintTooLong`].
    #[inline]
    pub fn uvarlong(&mut self) -> Result<u64, DecodeError> {
        self.uvarlong_of(10)
    }

    /// A zigzag varint of at most 32 bits.
    ///
    /// # Errors
    /// [`DecodeError::Truncated`], [`DecodeError::VarintTooLong`].
    #[inline]
    pub fn varint(&mut self) -> Result<i32, DecodeError> {
        let zigzag = self.uvarint()?;
        Ok((zigzag >> 1).cast_signed() ^ (zigzag & 1).cast_signed().wrapping_neg())
    }

    /// A zigzag varint of at most 64 bits.
    ///
    /// # Errors
    /// [`DecodeError::Truncated`], [`DecodeError::VarintTooLong`].
    #[inline]
    pub fn varlong(&mut self) -> Result<i64, DecodeError> {
        let zigzag = self.uvarlong()?;
        Ok((zigzag >> 1).cast_signed() ^ (zigzag & 1).cast_signed().wrapping_neg())
    }

    fn uvarlong_of(&mut self, bytes_max: u32) -> Result<u64, DecodeError> {
        let at = self.place();
        let mut value = 0_u64;
        for index in 0..bytes_max {
            let [byte] = self.chunk()?;
            let shift = index.wrapping_mul(7);
            let bits = u64::from(byte & 0x7f);
            let shifted = bits.wrapping_shl(shift);
            if shifted.wrapping_shr(shift) != bits {
                return Err(DecodeError::VarintTooLong { at });
            }
            value |= shifted;
            if byte < 0x80 {
                return Ok(value);
            }
        }
        Err(DecodeError::VarintTooLong { at })
    }
}

/// Strings and bytes. The plain forms have a signed length and -1 for null; the compact forms an unsigned varint, one
/// more than the length, and 0 for null.
impl<'a> Reader<'a> {
    /// A string that can't be null, with a 16-bit length.
    ///
    /// # Errors
    /// [`DecodeError::NullNotAllowed`] and those of [`Reader::nullable_string`].
    #[inline]
    pub fn string(&mut self) -> Result<&'a str, DecodeError> {
        self.not_null(Self::nullable_string)
    }

    /// A string or null, with a 16-bit length.
    ///
    /// # Errors
    /// [`DecodeError::Truncated`], [`DecodeError::NegativeLength`], [`DecodeError::InvalidUtf8`].
    #[inline]
    pub fn nullable_string(&mut self) -> Result<Option<&'a str>, DecodeError> {
        let at = self.place();
        let length = i32::from(self.i16()?);
        self.text(signed_length(at, length)?)
    }

    /// A string that can't be null, in compact form.
    ///
    /// # Errors
    /// [`DecodeError::NullNotAllowed`] and those of [`Reader::compact_nullable_string`].
    #[inline]
    pub fn compact_string(&mut self) -> Result<&'a str, DecodeError> {
        self.not_null(Self::compact_nullable_string)
    }

    /// A string or null, in compact form.
    ///
    /// # Errors
    /// [`DecodeError::Truncated`], [`DecodeError::VarintTooLong`], [`DecodeError::InvalidUtf8`].
    #[inline]
    pub fn compact_nullable_string(&mut self) -> Result<Option<&'a str>, DecodeError> {
        let length = self.compact_length()?;
        self.text(length)
    }

    /// Bytes that can't be null, with a 32-bit length.
    ///
    /// # Errors
    /// [`DecodeError::NullNotAllowed`] and those of [`Reader::nullable_bytes`].
    #[inline]
    pub fn bytes(&mut self) -> Result<&'a [u8], DecodeError> {
        self.not_null(Self::nullable_bytes)
    }

    /// Bytes or null, with a 32-bit length.
    ///
    /// # Errors
    /// [`DecodeError::Truncated`], [`DecodeError::NegativeLength`].
    #[inline]
    pub fn nullable_bytes(&mut self) -> Result<Option<&'a [u8]>, DecodeError> {
        let at = self.place();
        let length = self.i32()?;
        signed_length(at, length)?.map(|length| self.take(widen(length))).transpose()
    }

    /// Bytes that can't be null, in compact form.
    ///
    /// # Errors
    /// [`DecodeError::NullNotAllowed`] and those of [`Reader::compact_nullable_bytes`].
    #[inline]
    pub fn compact_bytes(&mut self) -> Result<&'a [u8], DecodeError> {
        self.not_null(Self::compact_nullable_bytes)
    }

    /// Bytes or null, in compact form.
    ///
    /// # Errors
    /// [`DecodeError::Truncated`], [`DecodeError::VarintTooLong`].
    #[inline]
    pub fn compact_nullable_bytes(&mut self) -> Result<Option<&'a [u8]>, DecodeError> {
        self.compact_length()?.map(|length| self.take(widen(length))).transpose()
    }

    #[inline]
    fn not_null<T>(
        &mut self,
        read: fn(&mut Self) -> Result<Option<T>, DecodeError>,
    ) -> Result<T, DecodeError> {
        let at = self.place();
        read(self)?.ok_or(DecodeError::NullNotAllowed { at })
    }

    #[inline]
    fn compact_length(&mut self) -> Result<Option<u32>, DecodeError> {
        Ok(self.uvarint()?.checked_sub(1))
    }

    #[inline]
    fn text(&mut self, length: Option<u32>) -> Result<Option<&'a str>, DecodeError> {
        let Some(length) = length else { return Ok(None) };
        let at = self.place();
        let text = str::from_utf8(self.take(widen(length))?);
        text.map(Some).map_err(|_| DecodeError::InvalidUtf8 { at })
    }
}

/// Array counts. Each takes the fewest bytes an element can have, and refuses a count that the remaining bytes cannot
/// hold, so that memory for the elements may be reserved at once.
impl Reader<'_> {
    /// The count of an array, with a 32-bit count; `None` is a null array. `element_bytes_min` counts as at least 1.
    ///
    /// # Errors
    /// [`DecodeError::Truncated`], [`DecodeError::NegativeLength`], [`DecodeError::CountTooLarge`].
    #[inline]
    pub fn array_count(&mut self, element_bytes_min: usize) -> Result<Option<usize>, DecodeError> {
        let at = self.place();
        let count = self.i32()?;
        self.bounded_count(at, signed_length(at, count)?, element_bytes_min)
    }

    /// The count of an array in compact form; `None` is a null array. `element_bytes_min` counts as at least 1.
    ///
    /// # Errors
    /// [`DecodeError::Truncated`], [`DecodeError::VarintTooLong`], [`DecodeError::CountTooLarge`].
    #[inline]
    pub fn compact_array_count(&mut self, element_bytes_min: usize) -> Result<Option<usize>, DecodeError> {
        let at = self.place();
        let count = self.compact_length()?;
        self.bounded_count(at, count, element_bytes_min)
    }

    #[inline]
    fn bounded_count(
        &self,
        at: Place,
        count: Option<u32>,
        bytes_min: usize,
    ) -> Result<Option<usize>, DecodeError> {
        let Some(count) = count else { return Ok(None) };
        let possible = self.remaining().checked_div(bytes_min).unwrap_or_else(|| self.remaining());
        if widen(count) > possible {
            return Err(DecodeError::CountTooLarge { at, count, possible });
        }
        Ok(Some(widen(count)))
    }
}

/// Tagged fields: the open end of every flexible structure.
impl<'a> Reader<'a> {
    /// Starts a section of tagged fields; go through it with [`TaggedFields::next`] to its end.
    ///
    /// # Errors
    /// [`DecodeError::Truncated`], [`DecodeError::VarintTooLong`].
    pub fn tagged_fields(&mut self) -> Result<TaggedFields, DecodeError> {
        Ok(TaggedFields { left: self.uvarint()?, tag_min: 0 })
    }

    /// Passes over a section of tagged fields, whatever is in it.
    ///
    /// # Errors
    /// Those of [`Reader::tagged_fields`] and [`TaggedFields::next`].
    #[inline]
    pub fn skip_tagged_fields(&mut self) -> Result<(), DecodeError> {
        let mut fields = self.tagged_fields()?;
        while fields.next(self)?.is_some() {}
        Ok(())
    }

    #[inline]
    fn tag_body(&mut self) -> Result<Self, DecodeError> {
        let size = self.uvarint()?;
        let position = self.position;
        Ok(Self { rest: self.take(widen(size))?, position })
    }
}

/// What is left of a section of tagged fields.
#[derive(Debug)]
pub struct TaggedFields {
    left: u32,
    /// Wider than a tag, so that "after the largest tag" can be said.
    tag_min: u64,
}

impl TaggedFields {
    /// The next tag and a reader over its value, or `None` at the end of the section. `reader` must be the one the
    /// section was started on; it moves past the field, so a field that isn't looked at is skipped.
    ///
    /// # Errors
    /// [`DecodeError::Truncated`], [`DecodeError::VarintTooLong`], [`DecodeError::TagOrder`].
    #[inline]
    pub fn next<'a>(&mut self, reader: &mut Reader<'a>) -> Result<Option<(u32, Reader<'a>)>, DecodeError> {
        let Some(left) = self.left.checked_sub(1) else { return Ok(None) };
        self.left = left;
        let at = reader.place();
        let tag = reader.uvarint()?;
        if u64::from(tag) < self.tag_min {
            return Err(DecodeError::TagOrder { at, tag });
        }
        self.tag_min = u64::from(tag).saturating_add(1);
        Ok(Some((tag, reader.tag_body()?)))
    }
}

/// A signed length as a count, with -1 as null.
fn signed_length(at: Place, length: i32) -> Result<Option<u32>, DecodeError> {
    match length {
        -1 => Ok(None),
        length => u32::try_from(length).map(Some).map_err(|_| DecodeError::NegativeLength { at, length }),
    }
}

/// A length from the wire as a size in memory; on narrower targets a length that doesn't fit is one that can't be there.
fn widen(length: u32) -> usize {
    usize::try_from(length).unwrap_or(usize::MAX)
}
