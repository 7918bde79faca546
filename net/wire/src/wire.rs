//! [`Wire`]: how values of each type stand on the wire, whatever the version.

use crate::api::ApiKey;
use crate::error::{DecodeError, EncodeError};
use crate::error_code::ErrorCode;
use crate::reader::Reader;
use crate::uuid::Uuid;
use crate::writer::Writer;

/// A version in use, with what follows from it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Version {
    pub(crate) number: i16,
    pub(crate) flexible: bool,
}

impl Version {
    /// `version` of `api`, if it is served.
    pub(crate) fn served(api: ApiKey, version: i16) -> Option<Self> {
        let flexible = api.is_flexible(version);
        api.versions().contains(version).then_some(Self { number: version, flexible })
    }

    /// Whether a field with this inclusive range of versions is there.
    pub(crate) const fn within(self, since: i16, until: i16) -> bool {
        since <= self.number && self.number <= until
    }
}

/// One value on the wire.
pub(crate) trait Wire<'a>: Sized {
    /// The fewest bytes a value takes. What bounds array counts, so it must never be too high.
    fn bytes_min(version: Version) -> usize;

    fn read(reader: &mut Reader<'a>, version: Version) -> Result<Self, DecodeError>;

    fn write(&self, writer: &mut Writer<'_>, version: Version) -> Result<(), EncodeError>;

    fn is_null(&self) -> bool {
        false
    }
}

macro_rules! wire_fixed {
    ($( $type:ty: $method:ident, $bytes:literal; )*) => { $(
        impl<'a> Wire<'a> for $type {
            fn bytes_min(_: Version) -> usize {
                $bytes
            }

            fn read(reader: &mut Reader<'a>, _: Version) -> Result<Self, DecodeError> {
                reader.$method()
            }

            fn write(&self, writer: &mut Writer<'_>, _: Version) -> Result<(), EncodeError> {
                writer.$method(*self);
                Ok(())
            }
        }
    )* };
}

wire_fixed! {
    bool: bool, 1;
    i8: i8, 1;
    i16: i16, 2;
    u16: u16, 2;
    i32: i32, 4;
    i64: i64, 8;
    f64: f64, 8;
    Uuid: uuid, 16;
}

impl<'a> Wire<'a> for ErrorCode {
    fn bytes_min(_: Version) -> usize {
        2
    }

    #[inline]
    fn read(reader: &mut Reader<'a>, _: Version) -> Result<Self, DecodeError> {
        reader.i16().map(Self)
    }

    #[inline]
    fn write(&self, writer: &mut Writer<'_>, _: Version) -> Result<(), EncodeError> {
        writer.i16(self.0);
        Ok(())
    }
}

impl<'a> Wire<'a> for &'a str {
    fn bytes_min(version: Version) -> usize {
        if version.flexible { 1 } else { 2 }
    }

    #[inline]
    fn read(reader: &mut Reader<'a>, version: Version) -> Result<Self, DecodeError> {
        if version.flexible { reader.compact_string() } else { reader.string() }
    }

    #[inline]
    fn write(&self, writer: &mut Writer<'_>, version: Version) -> Result<(), EncodeError> {
        Some(*self).write(writer, version)
    }
}

impl<'a> Wire<'a> for Option<&'a str> {
    fn bytes_min(version: Version) -> usize {
        <&str>::bytes_min(version)
    }

    #[inline]
    fn read(reader: &mut Reader<'a>, version: Version) -> Result<Self, DecodeError> {
        if version.flexible { reader.compact_nullable_string() } else { reader.nullable_string() }
    }

    #[inline]
    fn write(&self, writer: &mut Writer<'_>, version: Version) -> Result<(), EncodeError> {
        if version.flexible { writer.compact_nullable_string(*self) } else { writer.nullable_string(*self) }
    }

    fn is_null(&self) -> bool {
        self.is_none()
    }
}

impl<'a> Wire<'a> for &'a [u8] {
    fn bytes_min(version: Version) -> usize {
        if version.flexible { 1 } else { 4 }
    }

    #[inline]
    fn read(reader: &mut Reader<'a>, version: Version) -> Result<Self, DecodeError> {
        if version.flexible { reader.compact_bytes() } else { reader.bytes() }
    }

    #[inline]
    fn write(&self, writer: &mut Writer<'_>, version: Version) -> Result<(), EncodeError> {
        Some(*self).write(writer, version)
    }
}

impl<'a> Wire<'a> for Option<&'a [u8]> {
    fn bytes_min(version: Version) -> usize {
        <&[u8]>::bytes_min(version)
    }

    #[inline]
    fn read(reader: &mut Reader<'a>, version: Version) -> Result<Self, DecodeError> {
        if version.flexible { reader.compact_nullable_bytes() } else { reader.nullable_bytes() }
    }

    #[inline]
    fn write(&self, writer: &mut Writer<'_>, version: Version) -> Result<(), EncodeError> {
        if version.flexible { writer.compact_nullable_bytes(*self) } else { writer.nullable_bytes(*self) }
    }

    fn is_null(&self) -> bool {
        self.is_none()
    }
}

impl<'a, T: Wire<'a>> Wire<'a> for Vec<T> {
    fn bytes_min(version: Version) -> usize {
        if version.flexible { 1 } else { 4 }
    }

    #[inline]
    fn read(reader: &mut Reader<'a>, version: Version) -> Result<Self, DecodeError> {
        let at = reader.place();
        Option::read(reader, version)?.ok_or(DecodeError::NullNotAllowed { at })
    }

    #[inline]
    fn write(&self, writer: &mut Writer<'_>, version: Version) -> Result<(), EncodeError> {
        write_array(Some(self), writer, version)
    }
}

impl<'a, T: Wire<'a>> Wire<'a> for Option<Vec<T>> {
    fn bytes_min(version: Version) -> usize {
        <Vec<T>>::bytes_min(version)
    }

    #[inline]
    fn read(reader: &mut Reader<'a>, version: Version) -> Result<Self, DecodeError> {
        let element_bytes_min = T::bytes_min(version);
        debug_assert!(
            size_of::<T>() <= crate::message::EXPANSION_MAX.saturating_mul(element_bytes_min),
            "EXPANSION_MAX holds"
        );
        let Some(count) = array_count(reader, version, element_bytes_min)? else { return Ok(None) };
        let mut elements = reserve(count);
        for _ in 0..count {
            elements.push(T::read(reader, version)?);
        }
        Ok(Some(elements))
    }

    #[inline]
    fn write(&self, writer: &mut Writer<'_>, version: Version) -> Result<(), EncodeError> {
        write_array(self.as_deref(), writer, version)
    }

    fn is_null(&self) -> bool {
        self.is_none()
    }
}

/// Structures declared by [`wire_structs!`](crate::message), which may be null where a message says so.
pub(crate) trait Structure {}

impl<'a, T: Wire<'a> + Structure> Wire<'a> for Option<T> {
    fn bytes_min(_: Version) -> usize {
        1
    }

    /// A byte says whether there is one: negative for none.
    fn read(reader: &mut Reader<'a>, version: Version) -> Result<Self, DecodeError> {
        if reader.i8()? < 0 { Ok(None) } else { T::read(reader, version).map(Some) }
    }

    fn write(&self, writer: &mut Writer<'_>, version: Version) -> Result<(), EncodeError> {
        let Some(structure) = self else {
            writer.i8(-1);
            return Ok(());
        };
        writer.i8(1);
        structure.write(writer, version)
    }

    fn is_null(&self) -> bool {
        self.is_none()
    }
}

/// The one place where decoding takes memory; tests count it.
fn reserve<T>(count: usize) -> Vec<T> {
    #[cfg(test)]
    crate::tests::reserved::add(count.saturating_mul(size_of::<T>()));
    Vec::with_capacity(count)
}

/// The count of an array, bounded by what can follow; `None` is a null array.
pub(crate) fn array_count(
    reader: &mut Reader<'_>,
    version: Version,
    element_bytes_min: usize,
) -> Result<Option<usize>, DecodeError> {
    if version.flexible {
        reader.compact_array_count(element_bytes_min)
    } else {
        reader.array_count(element_bytes_min)
    }
}

/// The count of an array or the length of bytes; `None` is null.
pub(crate) fn write_count(
    writer: &mut Writer<'_>,
    version: Version,
    count: Option<usize>,
) -> Result<(), EncodeError> {
    if version.flexible { writer.compact_count(count) } else { writer.count(count) }
}

pub(crate) fn write_array<'a, T: Wire<'a>>(
    elements: Option<&[T]>,
    writer: &mut Writer<'_>,
    version: Version,
) -> Result<(), EncodeError> {
    write_count(writer, version, elements.map(<[T]>::len))?;
    elements.unwrap_or_default().iter().try_for_each(|element| element.write(writer, version))
}

/// Reads a field of a structure: names it in errors, and refuses a null before version `null_from`.
pub(crate) fn read_field<'a, T: Wire<'a>>(
    reader: &mut Reader<'a>,
    version: Version,
    field: &'static str,
    null_from: i16,
) -> Result<T, DecodeError> {
    let at = reader.place();
    let value = T::read(reader, version).map_err(|error| error.within(field))?;
    if value.is_null() && version.number < null_from {
        return Err(DecodeError::NullNotAllowed { at }.within(field));
    }
    Ok(value)
}

/// Writes a field of a structure; refuses a null before version `null_from`.
pub(crate) fn write_field<'a, T: Wire<'a>>(
    value: &T,
    writer: &mut Writer<'_>,
    version: Version,
    field: &'static str,
    null_from: i16,
) -> Result<(), EncodeError> {
    if value.is_null() && version.number < null_from {
        return Err(EncodeError::NullNotAllowed { field, version: version.number });
    }
    value.write(writer, version)
}

/// Reads a tagged field, which must fill its size.
pub(crate) fn read_tagged<'a, T: Wire<'a>>(
    body: &Reader<'a>,
    version: Version,
    field: &'static str,
) -> Result<T, DecodeError> {
    let mut body = body.clone();
    let value = read_field(&mut body, version, field, i16::MIN)?;
    body.finish().map_err(|error| error.within(field))?;
    Ok(value)
}

/// Refuses a field that the version lacks, unless it says nothing.
pub(crate) fn require_default(
    is_default: bool,
    version: Version,
    field: &'static str,
) -> Result<(), EncodeError> {
    if is_default { Ok(()) } else { Err(EncodeError::FieldNotInVersion { field, version: version.number }) }
}
