//! ApiVersions: what this broker serves.

use engine_io::Io;
use net_wire::messages::api_versions::{
    ApiVersion, ApiVersionsRequest, ApiVersionsResponse, is_valid_client_software,
};
use net_wire::{ApiKey, ErrorCode};

use crate::dispatch::Request;
use crate::response::{CloseReason, Response};

/// From this version on a client must say what it is.
const SOFTWARE_NAMED_FROM: i16 = 3;

pub(crate) fn handle<I: Io>(request: &Request<I>) -> Result<Response<I>, CloseReason> {
    let asked: ApiVersionsRequest<'_> = request.decode()?;
    let named = [asked.client_software_name, asked.client_software_version];
    let valid = request.version < SOFTWARE_NAMED_FROM || named.into_iter().all(is_valid_client_software);
    let answer = if valid {
        let api_keys = ApiKey::ALL.iter().copied().map(ApiVersion::advertised).collect();
        ApiVersionsResponse { api_keys, ..ApiVersionsResponse::default() }
    } else {
        ApiVersionsResponse { error_code: ErrorCode::INVALID_REQUEST, ..ApiVersionsResponse::default() }
    };
    Ok(request.answer(&answer))
}
