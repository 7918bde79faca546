//! [`TopicRef`]: how a request or response says which topic it means.

use crate::error::{DecodeError, EncodeError};
use crate::reader::Reader;
use crate::uuid::Uuid;
use crate::wire::{Version, Wire};
use crate::writer::Writer;

/// A topic, by name or by id as the version has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TopicRef<'a> {
    /// By name.
    Name(&'a str),
    /// By id.
    Id(Uuid),
}

impl<'a> TopicRef<'a> {
    /// Reads the form that `version` has: ids from `id_from` on.
    pub(crate) fn read(reader: &mut Reader<'a>, version: Version, id_from: i16) -> Result<Self, DecodeError> {
        if version.number >= id_from {
            reader.uuid().map(Self::Id).map_err(|error| error.within("topic_id"))
        } else {
            <&str>::read(reader, version).map(Self::Name).map_err(|error| error.within("topic"))
        }
    }

    /// Writes the form that `version` has; a topic given in the other form is an error.
    pub(crate) fn write(
        self,
        writer: &mut Writer<'_>,
        version: Version,
        id_from: i16,
    ) -> Result<(), EncodeError> {
        let by_id = version.number >= id_from;
        match self {
            Self::Name(name) if !by_id => name.write(writer, version),
            Self::Id(id) if by_id => id.write(writer, version),
            Self::Name(_) => Err(EncodeError::FieldNotInVersion { field: "topic", version: version.number }),
            Self::Id(_) => Err(EncodeError::FieldNotInVersion { field: "topic_id", version: version.number }),
        }
    }
}
