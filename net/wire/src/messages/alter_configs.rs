//! AlterConfigs: replaces the settings of topics and brokers.

use crate::error_code::ErrorCode;
use crate::message::{Request, wire_structs};

wire_structs! {
    /// Gives all settings that the resources are to have of their own.
    message AlterConfigsRequest<'a> for AlterConfigs {
        /// Whose settings, and what they are to be.
        resources: Vec<AlterConfigsResource<'a>>;
        /// Whether to check only.
        validate_only: bool;
    }

    /// What a resource's settings are to be.
    structure AlterConfigsResource<'a> {
        /// What it is: see [`crate::config_resource`].
        resource_type: i8;
        /// A topic's name, a broker's id.
        resource_name: &'a str;
        /// All it is to have of its own.
        configs: Vec<AlterableConfig<'a>>;
    }

    /// A setting.
    structure AlterableConfig<'a> {
        /// Its name.
        name: &'a str;
        /// Its value.
        value: Option<&'a str> = Some("");
    }

    /// What became of the settings.
    message AlterConfigsResponse<'a> for AlterConfigs {
        /// Throttle time in milliseconds.
        throttle_time_ms: i32, else ignored;
        /// The outcomes.
        responses: Vec<AlterConfigsResourceResponse<'a>>;
    }

    /// A resource's outcome.
    structure AlterConfigsResourceResponse<'a> {
        /// Whether its settings were changed.
        error_code: ErrorCode;
        /// What was wrong, in words.
        error_message: Option<&'a str> = Some("");
        /// What it is.
        resource_type: i8;
        /// Its name.
        resource_name: &'a str;
    }
}

impl Request for AlterConfigsRequest<'_> {
    type Response<'r> = AlterConfigsResponse<'r>;
}
