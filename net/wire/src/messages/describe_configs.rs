//! DescribeConfigs: the settings of topics and brokers.

use crate::error_code::ErrorCode;
use crate::message::{Request, wire_structs};

wire_structs! {
    /// Asks for settings.
    message DescribeConfigsRequest<'a> for DescribeConfigs {
        /// Whose settings.
        resources: Vec<DescribeConfigsResource<'a>>;
        /// Whether to tell where each value would come from otherwise.
        include_synonyms: bool;
        /// Whether to tell what each setting means.
        include_documentation: bool, since 3;
    }

    /// Whose settings are asked for, and which.
    structure DescribeConfigsResource<'a> {
        /// What it is: see [`crate::config_resource`].
        resource_type: i8;
        /// A topic's name, a broker's id.
        resource_name: &'a str;
        /// The names of the settings; null for all.
        configuration_keys: Option<Vec<&'a str>> = Some(Vec::new());
    }

    /// The settings.
    message DescribeConfigsResponse<'a> for DescribeConfigs {
        /// Throttle time in milliseconds.
        throttle_time_ms: i32, else ignored;
        /// The answers, by resource.
        results: Vec<DescribeConfigsResult<'a>>;
    }

    /// A resource's settings.
    structure DescribeConfigsResult<'a> {
        /// Whether they could be told.
        error_code: ErrorCode;
        /// Why not, in words.
        error_message: Option<&'a str> = Some("");
        /// What it is.
        resource_type: i8;
        /// Its name.
        resource_name: &'a str;
        /// The settings.
        configs: Vec<DescribeConfigsResourceResult<'a>>;
    }

    /// A setting.
    structure DescribeConfigsResourceResult<'a> {
        /// Its name.
        name: &'a str;
        /// Its value; null where it has none or is secret.
        value: Option<&'a str> = Some("");
        /// Whether it can't be changed by a request.
        read_only: bool;
        /// Where the value comes from, -1 if unknown.
        config_source: i8 = -1, else ignored;
        /// Whether the value is secret.
        is_sensitive: bool;
        /// The values that were set or stand by default, and under which names, what counts first.
        synonyms: Vec<DescribeConfigsSynonym<'a>>, else ignored;
        /// What kind of value it has.
        config_type: i8, since 3, else ignored;
        /// What it means.
        documentation: Option<&'a str> = Some(""), since 3, else ignored;
    }

    /// A value that a setting has, or would have without those before it.
    structure DescribeConfigsSynonym<'a> {
        /// The name it stands under.
        name: &'a str;
        /// The value.
        value: Option<&'a str> = Some("");
        /// Where it comes from.
        source: i8;
    }
}

impl Request for DescribeConfigsRequest<'_> {
    type Response<'r> = DescribeConfigsResponse<'r>;
}
