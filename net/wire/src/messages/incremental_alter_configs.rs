//! IncrementalAlterConfigs: changes settings of topics and brokers by name.

use crate::message::{Request, wire_structs};
use crate::messages::alter_configs::AlterConfigsResourceResponse;

/// `config_operation` that gives a setting a value.
pub const SET: i8 = 0;
/// `config_operation` after which the resource has no value of its own.
pub const DELETE: i8 = 1;
/// `config_operation` that adds to a list.
pub const APPEND: i8 = 2;
/// `config_operation` that takes from a list.
pub const SUBTRACT: i8 = 3;

wire_structs! {
    /// Asks for settings to be changed.
    message IncrementalAlterConfigsRequest<'a> for IncrementalAlterConfigs {
        /// Whose settings, and how.
        resources: Vec<AlterConfigsResource<'a>>;
        /// Whether to check only.
        validate_only: bool;
    }

    /// How to change a resource's settings: all of it or nothing.
    structure AlterConfigsResource<'a> {
        /// What it is: see [`crate::config_resource`].
        resource_type: i8;
        /// A topic's name, a broker's id.
        resource_name: &'a str;
        /// The changes.
        configs: Vec<AlterableConfig<'a>>;
    }

    /// A change of a setting.
    structure AlterableConfig<'a> {
        /// Its name.
        name: &'a str;
        /// [`SET`], [`DELETE`], [`APPEND`] or [`SUBTRACT`].
        config_operation: i8;
        /// With what; null to delete.
        value: Option<&'a str> = Some("");
    }

    /// What became of the settings.
    message IncrementalAlterConfigsResponse<'a> for IncrementalAlterConfigs {
        /// Throttle time in milliseconds.
        throttle_time_ms: i32, else ignored;
        /// The outcomes.
        responses: Vec<AlterConfigsResourceResponse<'a>>;
    }
}

impl Request for IncrementalAlterConfigsRequest<'_> {
    type Response<'r> = IncrementalAlterConfigsResponse<'r>;
}
