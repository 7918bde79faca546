//! DescribeCluster: the brokers or controllers, without topics.

use super::metadata::OPERATIONS_NOT_ASKED;
use crate::error_code::ErrorCode;
use crate::message::{Request, wire_structs};

/// `endpoint_type` for brokers.
pub const ENDPOINT_BROKERS: i8 = 1;
/// `endpoint_type` for controllers.
pub const ENDPOINT_CONTROLLERS: i8 = 2;

wire_structs! {
    /// Asks about the cluster.
    message DescribeClusterRequest for DescribeCluster {
        /// Whether to answer what the client may do with the cluster.
        include_cluster_authorized_operations: bool;
        /// Which endpoints: [`ENDPOINT_BROKERS`] or [`ENDPOINT_CONTROLLERS`].
        endpoint_type: i8 = ENDPOINT_BROKERS, since 1;
        /// Whether to name brokers that are up but serve nobody.
        include_fenced_brokers: bool, since 2;
    }

    /// The cluster.
    message DescribeClusterResponse<'a> for DescribeCluster {
        /// Throttle time in milliseconds.
        throttle_time_ms: i32;
        /// Whether it could be described.
        error_code: ErrorCode;
        /// What was wrong, in words.
        error_message: Option<&'a str>;
        /// Which endpoints `brokers` names.
        endpoint_type: i8 = ENDPOINT_BROKERS, since 1;
        /// The cluster's id.
        cluster_id: &'a str;
        /// Broker id of the controller, -1 if there is none.
        controller_id: i32 = -1;
        /// The endpoints.
        brokers: Vec<DescribeClusterBroker<'a>>;
        /// What the client may do with the cluster, a bit an operation.
        cluster_authorized_operations: i32 = OPERATIONS_NOT_ASKED;
    }

    /// An endpoint.
    structure DescribeClusterBroker<'a> {
        /// Broker id.
        broker_id: i32;
        /// Host name or address.
        host: &'a str;
        /// Port.
        port: i32;
        /// Rack, if it has one.
        rack: Option<&'a str>;
        /// Whether it is up but serves nobody.
        is_fenced: bool, since 2;
    }
}

impl Request for DescribeClusterRequest {
    type Response<'r> = DescribeClusterResponse<'r>;
}
