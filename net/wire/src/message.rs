//! How messages are written down: [`wire_structs!`], and what stands behind it.
//!
//! A file under `messages/` lists the fields of each structure in wire order, all versions in one list:
//!
//! ```text
//! message FetchRequest<'a> for Fetch {        a request or response itself
//!     replica_id: i32 = -1, until 14;         present up to version 14; default -1
//!     isolation_level: i8;                    present in every version
//!     rack_id: &'a str, since 11, else ignored;   dropped without complaint where the version lacks it
//!     cluster_id: Option<&'a str>, since 12, tag 0, else ignored;   a tagged field
//!     name: Option<&'a str>, null 10;         may be null from version 10 on
//! }
//! ```
//!
//! The order of the words is: default, `since`, `until`, `null`, `tag`, `else ignored`. An `Option` without `null` may
//! be null in every version. A field that the version lacks reads as its default; writing it when it isn't at its
//! default is an error, `else ignored`. Tagged fields stand in ascending order and are written only when they aren't
//! at their default.

use crate::api::ApiKey;
use crate::error::{DecodeError, EncodeError};
use crate::error_code::ErrorCode;
use crate::reader::Reader;
use crate::uuid::Uuid;
use crate::writer::Writer;

/// An array element takes at most this many times more memory than bytes on the wire.
///
/// A count is bounded by the bytes that remain before memory is reserved, and each level of arrays is charged to the
/// same bytes at most once. So decoding a frame allocates at most `EXPANSION_MAX * ARRAY_DEPTH_MAX` times its length.
pub const EXPANSION_MAX: usize = 24;

/// Arrays within arrays, at most.
pub const ARRAY_DEPTH_MAX: usize = 3;

/// A request's or response's body.
pub trait Message<'a>: Sized {
    /// The API it belongs to.
    const API: ApiKey;

    /// Reads the body, which must be all that is left in `reader`. Strings and bytes are borrowed from it.
    ///
    /// # Errors
    /// [`DecodeError::UnsupportedVersion`] before a byte is read; anything else for bytes that aren't such a message.
    fn decode(reader: &mut Reader<'a>, version: i16) -> Result<Self, DecodeError>;

    /// Appends the body.
    ///
    /// # Errors
    /// Whatever [`EncodeError`] names; nothing has then been appended.
    fn encode(&self, writer: &mut Writer<'_>, version: i16) -> Result<(), EncodeError>;
}

/// A request, which knows what answers it.
pub trait Request {
    /// The response's body.
    type Response<'r>: Message<'r>;
}

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

pub(crate) fn decode<'a, T: Message<'a> + Wire<'a>>(
    reader: &mut Reader<'a>,
    version: i16,
) -> Result<T, DecodeError> {
    let unsupported = DecodeError::UnsupportedVersion { api: T::API, version };
    let message = T::read(reader, Version::served(T::API, version).ok_or(unsupported)?)?;
    reader.finish()?;
    Ok(message)
}

pub(crate) fn encode<'a, T: Message<'a> + Wire<'a>>(
    message: &T,
    writer: &mut Writer<'_>,
    version: i16,
) -> Result<(), EncodeError> {
    let unsupported = EncodeError::UnsupportedVersion { api: T::API, version };
    let version = Version::served(T::API, version).ok_or(unsupported)?;
    let start = writer.position();
    message.write(writer, version).inspect_err(|_| writer.rewind(start))
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

    fn read(reader: &mut Reader<'a>, _: Version) -> Result<Self, DecodeError> {
        reader.i16().map(Self)
    }

    fn write(&self, writer: &mut Writer<'_>, _: Version) -> Result<(), EncodeError> {
        writer.i16(self.0);
        Ok(())
    }
}

impl<'a> Wire<'a> for &'a str {
    fn bytes_min(version: Version) -> usize {
        if version.flexible { 1 } else { 2 }
    }

    fn read(reader: &mut Reader<'a>, version: Version) -> Result<Self, DecodeError> {
        if version.flexible { reader.compact_string() } else { reader.string() }
    }

    fn write(&self, writer: &mut Writer<'_>, version: Version) -> Result<(), EncodeError> {
        Some(*self).write(writer, version)
    }
}

impl<'a> Wire<'a> for Option<&'a str> {
    fn bytes_min(version: Version) -> usize {
        <&str>::bytes_min(version)
    }

    fn read(reader: &mut Reader<'a>, version: Version) -> Result<Self, DecodeError> {
        if version.flexible { reader.compact_nullable_string() } else { reader.nullable_string() }
    }

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

    fn read(reader: &mut Reader<'a>, version: Version) -> Result<Self, DecodeError> {
        if version.flexible { reader.compact_bytes() } else { reader.bytes() }
    }

    fn write(&self, writer: &mut Writer<'_>, version: Version) -> Result<(), EncodeError> {
        Some(*self).write(writer, version)
    }
}

impl<'a> Wire<'a> for Option<&'a [u8]> {
    fn bytes_min(version: Version) -> usize {
        <&[u8]>::bytes_min(version)
    }

    fn read(reader: &mut Reader<'a>, version: Version) -> Result<Self, DecodeError> {
        if version.flexible { reader.compact_nullable_bytes() } else { reader.nullable_bytes() }
    }

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

    fn read(reader: &mut Reader<'a>, version: Version) -> Result<Self, DecodeError> {
        let at = reader.place();
        Option::read(reader, version)?.ok_or(DecodeError::NullNotAllowed { at })
    }

    fn write(&self, writer: &mut Writer<'_>, version: Version) -> Result<(), EncodeError> {
        write_array(Some(self), writer, version)
    }
}

impl<'a, T: Wire<'a>> Wire<'a> for Option<Vec<T>> {
    fn bytes_min(version: Version) -> usize {
        <Vec<T>>::bytes_min(version)
    }

    fn read(reader: &mut Reader<'a>, version: Version) -> Result<Self, DecodeError> {
        let element_bytes_min = T::bytes_min(version);
        debug_assert!(
            size_of::<T>() <= EXPANSION_MAX.saturating_mul(element_bytes_min),
            "EXPANSION_MAX holds"
        );
        let Some(count) = array_count(reader, version, element_bytes_min)? else { return Ok(None) };
        let mut elements = reserve(count);
        for _ in 0..count {
            elements.push(T::read(reader, version)?);
        }
        Ok(Some(elements))
    }

    fn write(&self, writer: &mut Writer<'_>, version: Version) -> Result<(), EncodeError> {
        write_array(self.as_deref(), writer, version)
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

/// The value in brackets if there is one, else the default.
macro_rules! value_or {
    ([$value:expr] $default:expr) => {
        $value
    };
    ([] $default:expr) => {
        $default
    };
}
pub(crate) use value_or;

/// Whether a field with these optional bounds is in `version`.
macro_rules! present {
    ($version:ident [$($since:literal)?] [$($until:literal)?]) => {
        $version.within(
            $crate::message::value_or!([$($since)?] i16::MIN),
            $crate::message::value_or!([$($until)?] i16::MAX),
        )
    };
}
pub(crate) use present;

/// The body if the brackets are empty, else nothing.
macro_rules! unless {
    ([] $($body:tt)*) => { $($body)* };
    ([$($given:tt)+] $($body:tt)*) => {};
}
pub(crate) use unless;

/// Declares structures with their codec; the notation is described at the head of the module.
macro_rules! wire_structs {
    () => {};
    ($(#[$meta:meta])* message $name:ident<$a:lifetime> for $api:ident { $($fields:tt)* } $($rest:tt)*) => {
        $crate::message::wire_structs!(@declare [$(#[$meta])*] $name [$a] [$a] { $($fields)* });
        $crate::message::wire_structs!(@message $name [$a] [$a] $api);
        $crate::message::wire_structs!($($rest)*);
    };
    ($(#[$meta:meta])* message $name:ident for $api:ident { $($fields:tt)* } $($rest:tt)*) => {
        $crate::message::wire_structs!(@declare [$(#[$meta])*] $name ['a] [] { $($fields)* });
        $crate::message::wire_structs!(@message $name ['a] [] $api);
        $crate::message::wire_structs!($($rest)*);
    };
    ($(#[$meta:meta])* structure $name:ident<$a:lifetime> { $($fields:tt)* } $($rest:tt)*) => {
        $crate::message::wire_structs!(@declare [$(#[$meta])*] $name [$a] [$a] { $($fields)* });
        $crate::message::wire_structs!($($rest)*);
    };
    ($(#[$meta:meta])* structure $name:ident { $($fields:tt)* } $($rest:tt)*) => {
        $crate::message::wire_structs!(@declare [$(#[$meta])*] $name ['a] [] { $($fields)* });
        $crate::message::wire_structs!($($rest)*);
    };

    (@message $name:ident [$a:lifetime] [$($generic:lifetime)?] $api:ident) => {
        impl<$a> $crate::message::Message<$a> for $name<$($generic)?> {
            const API: $crate::api::ApiKey = $crate::api::ApiKey::$api;

            fn decode(
                reader: &mut $crate::reader::Reader<$a>,
                version: i16,
            ) -> Result<Self, $crate::error::DecodeError> {
                $crate::message::decode(reader, version)
            }

            fn encode(
                &self,
                writer: &mut $crate::writer::Writer<'_>,
                version: i16,
            ) -> Result<(), $crate::error::EncodeError> {
                $crate::message::encode(self, writer, version)
            }
        }
    };

    (@declare [$(#[$meta:meta])*] $name:ident [$a:lifetime] [$($generic:lifetime)?] { $(
        $(#[$field_meta:meta])*
        $field:ident: $type:ty $(= $default:expr)?
            $(, since $since:literal)? $(, until $until:literal)? $(, null $null:literal)?
            $(, tag $tag:literal)? $(, else $ignored:ident)?;
    )* }) => {
        $(#[$meta])*
        #[derive(Debug, Clone, PartialEq)]
        pub struct $name<$($generic)?> {
            $( $(#[$field_meta])* pub $field: $type, )*
        }

        impl<$($generic)?> Default for $name<$($generic)?> {
            fn default() -> Self {
                Self { $( $field: $crate::message::value_or!([$($default)?] Default::default()), )* }
            }
        }

        impl<$a> $crate::message::Wire<$a> for $name<$($generic)?> {
            fn bytes_min(version: $crate::message::Version) -> usize {
                let mut bytes = usize::from(version.flexible);
                $( $crate::message::unless! { [$($tag)?]
                    if $crate::message::present!(version [$($since)?] [$($until)?]) {
                        bytes = bytes.saturating_add(<$type as $crate::message::Wire<'_>>::bytes_min(version));
                    }
                } )*
                bytes
            }

            fn read(
                reader: &mut $crate::reader::Reader<$a>,
                version: $crate::message::Version,
            ) -> Result<Self, $crate::error::DecodeError> {
                let mut message = Self::default();
                $( $crate::message::unless! { [$($tag)?]
                    if $crate::message::present!(version [$($since)?] [$($until)?]) {
                        let null_from = $crate::message::value_or!([$($null)?] i16::MIN);
                        message.$field =
                            $crate::message::read_field(reader, version, stringify!($field), null_from)?;
                    }
                } )*
                if version.flexible {
                    let mut tagged = reader.tagged_fields()?;
                    while let Some((tag, body)) = tagged.next(reader)? {
                        // Tags of later versions and private ones match nothing: skipped by rule.
                        $( if $crate::message::value_or!([$(Some($tag))?] None) == Some(tag)
                            && $crate::message::present!(version [$($since)?] [$($until)?])
                        {
                            message.$field = $crate::message::read_tagged(&body, version, stringify!($field))?;
                        } )*
                    }
                }
                Ok(message)
            }

            fn write(
                &self,
                writer: &mut $crate::writer::Writer<'_>,
                version: $crate::message::Version,
            ) -> Result<(), $crate::error::EncodeError> {
                let default = Self::default();
                $(
                    if $crate::message::present!(version [$($since)?] [$($until)?]) {
                        $crate::message::unless! { [$($tag)?]
                            let null_from = $crate::message::value_or!([$($null)?] i16::MIN);
                            $crate::message::write_field(
                                &self.$field, writer, version, stringify!($field), null_from,
                            )?;
                        }
                    } else {
                        $crate::message::unless! { [$($ignored)?]
                            $crate::message::require_default(
                                self.$field == default.$field, version, stringify!($field),
                            )?;
                        }
                    }
                )*
                if version.flexible {
                    let mut tagged = 0_u32;
                    $(
                        let $field = $crate::message::value_or!([$(Some($tag))?] None::<u32>).filter(|_| {
                            $crate::message::present!(version [$($since)?] [$($until)?])
                                && self.$field != default.$field
                        });
                        tagged = tagged.saturating_add(u32::from($field.is_some()));
                    )*
                    writer.uvarint(tagged);
                    $( if let Some(tag) = $field {
                        writer.tagged_field(tag, |writer| {
                            $crate::message::Wire::write(&self.$field, writer, version)
                        })?;
                    } )*
                }
                Ok(())
            }
        }

        #[cfg(test)]
        impl<$a> $crate::tests::sample::Sample for $name<$($generic)?> {
            fn sample(
                source: &mut $crate::tests::sample::Source,
                version: $crate::message::Version,
                _: bool,
            ) -> Self {
                let mut message = Self::default();
                $( if $crate::message::present!(version [$($since)?] [$($until)?]) {
                    let null = version.number >= $crate::message::value_or!([$($null)?] i16::MIN);
                    message.$field = $crate::tests::sample::Sample::sample(source, version, null);
                } )*
                message
            }
        }
    };
}
pub(crate) use wire_structs;
