//! What can be wrong with bytes that came, and with a message that is to leave.

use core::fmt;

use crate::api::ApiKey;

/// Where in a frame something was wrong.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Place {
    /// Byte at which the bad element starts, counted from the start of what the reader was given.
    pub position: usize,
    /// The innermost named field, empty outside messages.
    pub field: &'static str,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.field {
            "" => write!(f, "byte {}", self.position),
            field => write!(f, "byte {} ({field})", self.position),
        }
    }
}

/// Why bytes were refused. A frame is accepted whole or not at all.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum DecodeError {
    /// The header names an API that isn't in the table.
    #[error("API key {key} is unknown")]
    UnknownApi {
        /// The key as it came.
        key: i16,
    },
    /// The API is known, the version isn't served.
    #[error("{api} version {version} is not served")]
    UnsupportedVersion {
        /// The API asked for.
        api: ApiKey,
        /// The version as it came.
        version: i16,
    },
    /// The bytes end before the element does.
    #[error("{at}: {needed} bytes are needed, {remaining} remain")]
    Truncated {
        /// Where the element starts.
        at: Place,
        /// Bytes the element needs.
        needed: usize,
        /// Bytes there are.
        remaining: usize,
    },
    /// A length or count below -1, or below 0 where null is not possible.
    #[error("{at}: length {length} is negative")]
    NegativeLength {
        /// Where the length stands.
        at: Place,
        /// The length as it came.
        length: i32,
    },
    /// An array claims more elements than the remaining bytes can hold.
    #[error("{at}: {count} elements are claimed, at most {possible} can follow")]
    CountTooLarge {
        /// Where the count stands.
        at: Place,
        /// The count as it came.
        count: u32,
        /// The most that the remaining bytes can hold.
        possible: usize,
    },
    /// A variable-length integer exceeds its type: it goes on for too long or has too many bits.
    #[error("{at}: the varint exceeds its type")]
    VarintTooLong {
        /// Where the integer starts.
        at: Place,
    },
    /// A string isn't UTF-8.
    #[error("{at}: the string is not UTF-8")]
    InvalidUtf8 {
        /// Where the string's text starts.
        at: Place,
    },
    /// Null stands where this version of the message doesn't allow it.
    #[error("{at}: null is not allowed")]
    NullNotAllowed {
        /// Where the null stands.
        at: Place,
    },
    /// Tagged fields must come in ascending order, each at most once.
    #[error("{at}: tag {tag} is out of order")]
    TagOrder {
        /// Where the tag stands.
        at: Place,
        /// The tag that came too late or twice.
        tag: u32,
    },
    /// Bytes follow after the end of the message or of a tagged field.
    #[error("{at}: {remaining} bytes follow the end")]
    Trailing {
        /// Where the message ended.
        at: Place,
        /// Bytes left over.
        remaining: usize,
    },
}

impl DecodeError {
    /// Names the field an error arose in; the innermost name stays.
    #[must_use]
    #[cold]
    pub(crate) fn within(mut self, field: &'static str) -> Self {
        if let Some(place) = self.place_mut()
            && place.field.is_empty()
        {
            place.field = field;
        }
        self
    }

    fn place_mut(&mut self) -> Option<&mut Place> {
        match self {
            Self::UnknownApi { .. } | Self::UnsupportedVersion { .. } => None,
            Self::Truncated { at, .. }
            | Self::NegativeLength { at, .. }
            | Self::CountTooLarge { at, .. }
            | Self::VarintTooLong { at }
            | Self::InvalidUtf8 { at }
            | Self::NullNotAllowed { at }
            | Self::TagOrder { at, .. }
            | Self::Trailing { at, .. } => Some(at),
        }
    }
}

/// Why a message could not be written. The buffer is then as it was before.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum EncodeError {
    /// The version is outside the API's range.
    #[error("{api} has no version {version} here")]
    UnsupportedVersion {
        /// The API of the message.
        api: ApiKey,
        /// The version asked for.
        version: i16,
    },
    /// A field is set that the version lacks and that may not be dropped.
    #[error("{field} is set, but version {version} lacks it")]
    FieldNotInVersion {
        /// The field.
        field: &'static str,
        /// The version asked for.
        version: i16,
    },
    /// A field is null where the version wants a value.
    #[error("{field} is null, which version {version} does not allow")]
    NullNotAllowed {
        /// The field.
        field: &'static str,
        /// The version asked for.
        version: i16,
    },
    /// A string, byte sequence, array or frame is longer than its length prefix can say.
    #[error("length {length} exceeds {limit}")]
    TooLong {
        /// The length to be written.
        length: usize,
        /// The longest possible.
        limit: usize,
    },
    /// Topics or partitions were announced and not written, or written and not announced.
    #[error("the announced count of elements does not match what was written")]
    CountMismatch,
}
