//! How messages are written down: `wire_structs!`, and what stands behind it.
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
//!     count: i32 = -1, since 2, tag RINGLOG_TAG, else ignored;   a tagged field of our own
//! }
//! ```
//!
//! The order of the words is: default, `since`, `until`, `null`, `tag`, `else ignored`. An `Option` without `null` may
//! be null in every version. A field that the version lacks reads as its default; writing it when it isn't at its
//! default is an error, `else ignored`. Tagged fields stand in ascending order and are written only when they aren't
//! at their default.

use crate::api::ApiKey;
use crate::error::{DecodeError, EncodeError};
use crate::reader::Reader;
use crate::wire::{Version, Wire};
use crate::writer::Writer;

/// An array element takes at most this many times more memory than bytes on the wire.
///
/// A count is bounded by the bytes that remain before memory is reserved, and each level of arrays is charged to the
/// same bytes at most once. So decoding a frame allocates at most `EXPANSION_MAX * ARRAY_DEPTH_MAX` times its length.
pub const EXPANSION_MAX: usize = 24;

/// Arrays within arrays, at most.
pub const ARRAY_DEPTH_MAX: usize = 3;

/// The tag of the field that Ringlog adds to a structure of Kafka's; others in the same structure take the numbers behind it.
///
/// Kafka's own can't come to it: KIP-482 counts the tags of each structure by themselves, and its generator of messages
/// refuses a number while a lower one is free, so more than 10^9 fields would have to come before. Brokers made of
/// Kafka's code that add fields begin at 10,000, which is why this doesn't. The number is "Ring" in ASCII, and positive where
/// tags are read as signed. Who doesn't know it passes over the field.
pub const RINGLOG_TAG: u32 = u32::from_be_bytes(*b"Ring");

/// The tag of the second such field of a structure.
pub const RINGLOG_TAG_2: u32 = RINGLOG_TAG + 1;

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
            $(, tag $tag:expr)? $(, else $ignored:ident)?;
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

        impl<$($generic)?> $crate::wire::Structure for $name<$($generic)?> {}

        impl<$a> $crate::wire::Wire<$a> for $name<$($generic)?> {
            fn bytes_min(version: $crate::wire::Version) -> usize {
                let mut bytes = usize::from(version.flexible);
                $( $crate::message::unless! { [$($tag)?]
                    if $crate::message::present!(version [$($since)?] [$($until)?]) {
                        bytes = bytes.saturating_add(<$type as $crate::wire::Wire<'_>>::bytes_min(version));
                    }
                } )*
                bytes
            }

            fn read(
                reader: &mut $crate::reader::Reader<$a>,
                version: $crate::wire::Version,
            ) -> Result<Self, $crate::error::DecodeError> {
                let mut message = Self::default();
                $( $crate::message::unless! { [$($tag)?]
                    if $crate::message::present!(version [$($since)?] [$($until)?]) {
                        let null_from = $crate::message::value_or!([$($null)?] i16::MIN);
                        message.$field =
                            $crate::wire::read_field(reader, version, stringify!($field), null_from)?;
                    }
                } )*
                if version.flexible {
                    let mut tagged = reader.tagged_fields()?;
                    while let Some((tag, body)) = tagged.next(reader)? {
                        // Tags of later versions and private ones match nothing: skipped by rule.
                        $( if $crate::message::value_or!([$(Some($tag))?] None) == Some(tag)
                            && $crate::message::present!(version [$($since)?] [$($until)?])
                        {
                            message.$field = $crate::wire::read_tagged(&body, version, stringify!($field))?;
                        } )*
                    }
                }
                Ok(message)
            }

            fn write(
                &self,
                writer: &mut $crate::writer::Writer<'_>,
                version: $crate::wire::Version,
            ) -> Result<(), $crate::error::EncodeError> {
                let default = Self::default();
                $(
                    if $crate::message::present!(version [$($since)?] [$($until)?]) {
                        $crate::message::unless! { [$($tag)?]
                            let null_from = $crate::message::value_or!([$($null)?] i16::MIN);
                            $crate::wire::write_field(
                                &self.$field, writer, version, stringify!($field), null_from,
                            )?;
                        }
                    } else {
                        $crate::message::unless! { [$($ignored)?]
                            $crate::wire::require_default(
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
                            $crate::wire::Wire::write(&self.$field, writer, version)
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
                version: $crate::wire::Version,
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
