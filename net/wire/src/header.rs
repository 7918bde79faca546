//! Request and response headers.
//!
//! Request headers come in two shapes: version 2 adds tagged fields to version 1. (Version 0, without a client id,
//! belonged to a broker-internal API that is gone.) The client id never takes compact form, so that a header can be read
//! before its version is understood. Response headers come in two shapes as well: version 1 adds tagged fields. But
//! ApiVersions always answers with version 0, since its client doesn't know yet what the broker speaks.

use crate::api::ApiKey;
use crate::error::{DecodeError, EncodeError};
use crate::reader::Reader;
use crate::writer::Writer;

/// A shape of request header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RequestHeaderVersion {
    /// Key, version, correlation id and client id.
    V1,
    /// And tagged fields.
    V2,
}

/// A shape of response header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ResponseHeaderVersion {
    /// The correlation id.
    V0,
    /// And tagged fields.
    V1,
}

impl ApiKey {
    /// The header of a request of this API in `version`, which need not be served.
    #[must_use]
    pub const fn request_header(self, version: i16) -> RequestHeaderVersion {
        if self.is_flexible(version) { RequestHeaderVersion::V2 } else { RequestHeaderVersion::V1 }
    }

    /// The header of a response of this API in `version`.
    #[must_use]
    pub const fn response_header(self, version: i16) -> ResponseHeaderVersion {
        if self.is_flexible(version) && !matches!(self, Self::ApiVersions) {
            ResponseHeaderVersion::V1
        } else {
            ResponseHeaderVersion::V0
        }
    }
}

/// What stands before a request's body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RequestHeader<'a> {
    /// The API asked for.
    pub api: ApiKey,
    /// The version of the body, as it came: it need not be served, see [`RequestHeader::is_served`].
    pub version: i16,
    /// Returned in the response.
    pub correlation_id: i32,
    /// What the client calls itself.
    pub client_id: Option<&'a str>,
}

impl<'a> RequestHeader<'a> {
    /// Reads a header, whose shape follows from the key and version in it. A known API in a version that isn't served
    /// is read too: ApiVersions must answer such a request.
    ///
    /// # Errors
    /// [`DecodeError::UnknownApi`], or what is wrong with the bytes.
    pub fn decode(reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
        let (key, version) = (reader.i16()?, reader.i16()?);
        let api = ApiKey::from_code(key).ok_or(DecodeError::UnknownApi { key })?;
        let correlation_id = reader.i32().map_err(|error| error.within("correlation_id"))?;
        let client_id = reader.nullable_string().map_err(|error| error.within("client_id"))?;
        if api.request_header(version) == RequestHeaderVersion::V2 {
            reader.skip_tagged_fields()?;
        }
        Ok(Self { api, version, correlation_id, client_id })
    }

    /// Appends the header.
    ///
    /// # Errors
    /// [`EncodeError::TooLong`] for a client id above 32,767 bytes.
    pub fn encode(&self, writer: &mut Writer<'_>) -> Result<(), EncodeError> {
        writer.i16(self.api.code());
        writer.i16(self.version);
        writer.i32(self.correlation_id);
        writer.nullable_string(self.client_id)?;
        if self.api.request_header(self.version) == RequestHeaderVersion::V2 {
            writer.uvarint(0);
        }
        Ok(())
    }

    /// Whether the body can be decoded in this version.
    #[must_use]
    pub const fn is_served(&self) -> bool {
        self.api.versions().contains(self.version)
    }
}

/// Appends a response's header.
pub fn encode_response_header(writer: &mut Writer<'_>, api: ApiKey, version: i16, correlation_id: i32) {
    writer.i32(correlation_id);
    if api.response_header(version) == ResponseHeaderVersion::V1 {
        writer.uvarint(0);
    }
}

/// Reads a response's header, knowing what was asked; answers the correlation id. To find out what was asked, look at
/// the first four bytes: in every shape they are the correlation id.
///
/// # Errors
/// What is wrong with the bytes.
pub fn decode_response_header(
    reader: &mut Reader<'_>,
    api: ApiKey,
    version: i16,
) -> Result<i32, DecodeError> {
    let correlation_id = reader.i32().map_err(|error| error.within("correlation_id"))?;
    if api.response_header(version) == ResponseHeaderVersion::V1 {
        reader.skip_tagged_fields()?;
    }
    Ok(correlation_id)
}
