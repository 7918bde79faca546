//! Zig-zag variable-length integers, the numbers inside a record.
//!
//! Seven bits a byte, least significant first, the top bit set on every byte but the last. Zig-zag puts the sign in
//! bit 0, so that small negative numbers are short too: 0, -1, 1, -2 are written as 0, 1, 2, 3.

/// Why bytes are no varint.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum VarintError {
    /// The bytes end inside the number.
    #[error("the bytes end inside a varint")]
    Truncated,
    /// The number has more bits than its type.
    #[error("a varint is wider than its type")]
    TooWide,
}

/// Takes a 32-bit varint from the front of `bytes`; on an error `bytes` is left where it was.
///
/// # Errors
/// See [`VarintError`].
#[inline]
pub fn read_varint(bytes: &mut &[u8]) -> Result<i32, VarintError> {
    let zigzag = u32::try_from(read_unsigned(bytes, 32)?).map_err(|_| VarintError::TooWide)?;
    Ok((zigzag >> 1).cast_signed() ^ (zigzag & 1).cast_signed().wrapping_neg())
}

/// Takes a 64-bit varint from the front of `bytes`; on an error `bytes` is left where it was.
///
/// # Errors
/// See [`VarintError`].
#[inline]
pub fn read_varlong(bytes: &mut &[u8]) -> Result<i64, VarintError> {
    let zigzag = read_unsigned(bytes, 64)?;
    Ok((zigzag >> 1).cast_signed() ^ (zigzag & 1).cast_signed().wrapping_neg())
}

#[inline]
fn read_unsigned(bytes: &mut &[u8], bits: u32) -> Result<u64, VarintError> {
    let mut rest = *bytes;
    let (mut value, mut shift) = (0_u64, 0_u32);
    loop {
        let (&byte, tail) = rest.split_first().ok_or(VarintError::Truncated)?;
        rest = tail;
        let low = u64::from(byte & 0x7f);
        let room = bits.saturating_sub(shift);
        if room < 7 && low >> room != 0 {
            return Err(VarintError::TooWide);
        }
        value |= low << shift;
        if byte < 0x80 {
            *bytes = rest;
            return Ok(value);
        }
        shift = shift.saturating_add(7);
        if shift >= bits {
            return Err(VarintError::TooWide);
        }
    }
}

/// Appends `value` to `out`: 1 to 10 bytes, at most 5 for what [`read_varint`] reads.
pub fn write_varlong(out: &mut Vec<u8>, value: i64) {
    let mut rest = (value << 1 ^ value >> 63).cast_unsigned();
    while rest >= 0x80 {
        out.push(low_byte(rest) | 0x80);
        rest >>= 7;
    }
    out.push(low_byte(rest));
}

/// Appends `value` to `out`: 1 to 5 bytes.
pub fn write_varint(out: &mut Vec<u8>, value: i32) {
    write_varlong(out, i64::from(value));
}

/// How many bytes [`write_varlong`] writes for `value`.
#[must_use]
pub const fn varlong_bytes(value: i64) -> usize {
    let bits = 64_u32.saturating_sub((value << 1 ^ value >> 63).leading_zeros());
    if bits == 0 { 1 } else { bits.div_ceil(7) as usize }
}

const fn low_byte(value: u64) -> u8 {
    value.to_le_bytes()[0]
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_examples_of_the_module_hold() {
        for (value, byte) in [(0, 0), (-1, 1), (1, 2), (-2, 3), (63, 126), (-64, 127)] {
            let mut out = Vec::new();
            write_varint(&mut out, value);
            assert_eq!(out, [byte], "{value}");
        }
    }

    #[test]
    fn a_number_wider_than_its_type_is_refused() {
        let eleven = [0xff; 10];
        assert_eq!(read_varlong(&mut &eleven[..]), Err(VarintError::TooWide));
        assert_eq!(read_varint(&mut &[0xff, 0xff, 0xff, 0xff, 0x1f][..]), Err(VarintError::TooWide));
        assert_eq!(read_varint(&mut &[0xff, 0xff, 0xff, 0xff, 0x8f, 0][..]), Err(VarintError::TooWide));
        assert_eq!(read_varint(&mut &[0xff, 0xff, 0xff, 0xff, 0x0f][..]), Ok(i32::MIN));
        let mut widest = [0xff_u8; 10];
        widest[9] = 1;
        assert_eq!(read_varlong(&mut &widest[..]), Ok(i64::MIN));
        widest[9] = 2;
        assert_eq!(read_varlong(&mut &widest[..]), Err(VarintError::TooWide));
    }

    proptest! {
        #[test]
        fn every_number_is_read_back_and_no_prefix_of_it_is(value: i64, shift in 0_u32..64) {
            let value = value >> shift;
            let mut out = Vec::new();
            write_varlong(&mut out, value);
            prop_assert_eq!(out.len(), varlong_bytes(value));
            let mut rest = &out[..];
            prop_assert_eq!(read_varlong(&mut rest), Ok(value));
            prop_assert!(rest.is_empty());
            for end in 0..out.len() {
                let mut cut = &out[..end];
                prop_assert_eq!(read_varlong(&mut cut), Err(VarintError::Truncated));
                prop_assert_eq!(cut.len(), end, "an error takes nothing");
            }
            match i32::try_from(value) {
                Ok(narrow) => prop_assert_eq!(read_varint(&mut &out[..]), Ok(narrow)),
                Err(_) => prop_assert_eq!(read_varint(&mut &out[..]), Err(VarintError::TooWide)),
            }
        }
    }
}
