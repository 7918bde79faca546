//! ApiVersions: the first exchange on a connection.

use crate::api::{ApiKey, VersionRange};
use crate::error_code::ErrorCode;
use crate::message::{Request, wire_structs};

wire_structs! {
    /// Asks which APIs and versions the broker serves.
    message ApiVersionsRequest<'a> for ApiVersions {
        /// Name of the client's library; see [`is_valid_client_software`].
        client_software_name: &'a str, since 3, else ignored;
        /// Version of the client's library; see [`is_valid_client_software`].
        client_software_version: &'a str, since 3, else ignored;
    }

    /// The APIs and versions served, and the cluster's features.
    message ApiVersionsResponse<'a> for ApiVersions {
        /// Whether the request was understood.
        error_code: ErrorCode;
        /// The APIs served.
        api_keys: Vec<ApiVersion>;
        /// Throttle time in milliseconds.
        throttle_time_ms: i32, since 1, else ignored;
        /// Features the broker could use.
        supported_features: Vec<SupportedFeatureKey<'a>>, since 3, tag 0, else ignored;
        /// Epoch of the finalized features; below 0 there are none.
        finalized_features_epoch: i64 = -1, since 3, tag 1, else ignored;
        /// Features in use by the whole cluster. Clients switch behaviour on by them.
        finalized_features: Vec<FinalizedFeatureKey<'a>>, since 3, tag 2, else ignored;
        /// Whether the cluster could leave ZooKeeper; never set here.
        zk_migration_ready: bool, since 3, tag 3, else ignored;
    }

    /// The versions served of one API.
    structure ApiVersion {
        /// The API's key.
        api_key: i16;
        /// Lowest version, inclusive.
        min_version: i16;
        /// Highest version, inclusive.
        max_version: i16;
    }

    /// A feature the broker could use.
    structure SupportedFeatureKey<'a> {
        /// The feature.
        name: &'a str;
        /// Lowest level, inclusive. Before response version 4, features with level 0 here must be left out.
        min_version: i16;
        /// Highest level, inclusive.
        max_version: i16;
    }

    /// A feature in use by the whole cluster.
    structure FinalizedFeatureKey<'a> {
        /// The feature.
        name: &'a str;
        /// Highest level in use, inclusive.
        max_version_level: i16;
        /// Lowest level in use, inclusive.
        min_version_level: i16;
    }
}

impl Request for ApiVersionsRequest<'_> {
    type Response<'r> = ApiVersionsResponse<'r>;
}

impl ApiVersion {
    /// What is advertised of `api`.
    #[must_use]
    pub const fn advertised(api: ApiKey) -> Self {
        let VersionRange { min, max } = api.advertised();
        Self { api_key: api.code(), min_version: min, max_version: max }
    }
}

impl ApiVersionsResponse<'_> {
    /// The answer to an ApiVersions request in a version that isn't served. Encode it in **version 0**, the only one
    /// that every client can read; the request's body need not be looked at.
    #[must_use]
    pub fn unsupported_version() -> Self {
        Self {
            error_code: ErrorCode::UNSUPPORTED_VERSION,
            api_keys: vec![ApiVersion::advertised(ApiKey::ApiVersions)],
            ..Self::default()
        }
    }
}

/// Whether a client's software name or version is one: ASCII letters, digits, `-` and `.`, with a letter or digit first
/// and last. From version 3 on, anything else is answered with INVALID_REQUEST.
#[must_use]
pub fn is_valid_client_software(text: &str) -> bool {
    let is_inner = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.');
    let is_end = |byte: Option<&u8>| byte.is_some_and(u8::is_ascii_alphanumeric);
    let bytes = text.as_bytes();
    is_end(bytes.first()) && is_end(bytes.last()) && bytes.iter().all(is_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn software_names_of_real_clients_are_valid() {
        for name in
            ["librdkafka", "apache-kafka-java", "kafka-python", "v", "2.12.1-librdkafka-2.12.1", "4.3.0"]
        {
            assert!(is_valid_client_software(name), "{name}");
        }
    }

    #[test]
    fn software_names_with_odd_ends_or_characters_are_not() {
        for name in ["", "-", "a-", ".a", "a b", "a_b", "naïve", "a\n", "\0"] {
            assert!(!is_valid_client_software(name), "{name}");
        }
    }
}
