//! ListConfigResources: what has settings.

use crate::config_resource::CLIENT_METRICS;
use crate::error_code::ErrorCode;
use crate::message::{Request, wire_structs};

wire_structs! {
    /// Asks what has settings.
    message ListConfigResourcesRequest for ListConfigResources {
        /// The kinds to list, see [`config_resource`](crate::config_resource); none for all.
        resource_types: Vec<i8>, since 1;
    }

    /// What has settings.
    message ListConfigResourcesResponse<'a> for ListConfigResources {
        /// Throttle time in milliseconds.
        throttle_time_ms: i32;
        /// Why nothing is listed.
        error_code: ErrorCode;
        /// The list.
        config_resources: Vec<ListedConfigResource<'a>>;
    }

    /// Something that has settings.
    structure ListedConfigResource<'a> {
        /// Its name.
        resource_name: &'a str;
        /// Its kind.
        resource_type: i8 = CLIENT_METRICS, since 1, else ignored;
    }
}

impl Request for ListConfigResourcesRequest {
    type Response<'r> = ListConfigResourcesResponse<'r>;
}
