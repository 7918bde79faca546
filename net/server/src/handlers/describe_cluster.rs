//! DescribeCluster: the brokers and the controller.

use std::rc::Rc;

use engine_io::Io;
use net_wire::ErrorCode;
use net_wire::messages::describe_cluster::{
    DescribeClusterBroker, DescribeClusterRequest, DescribeClusterResponse, ENDPOINT_BROKERS,
    ENDPOINT_CONTROLLERS,
};
use net_wire::messages::metadata::OPERATIONS_NOT_ASKED;

use crate::dispatch::Request;
use crate::endpoint;
use crate::hooks::{Decision, Operation, Resource, authorize};
use crate::operations::CLUSTER_OPERATIONS;
use crate::reply_memory;
use crate::response::{CloseReason, Response};
use crate::shard::Shard;

pub(crate) async fn handle<I: Io>(
    shard: &Rc<Shard<I>>,
    request: &Request<I>,
) -> Result<Response<I>, CloseReason> {
    let asked: DescribeClusterRequest = request.decode()?;
    let Decision::Allowed = authorize(&request.connection.principal, Operation::Describe, Resource::Cluster);
    let refusal = match asked.endpoint_type {
        ENDPOINT_BROKERS => None,
        ENDPOINT_CONTROLLERS => Some((
            ErrorCode::MISMATCHED_ENDPOINT_TYPE,
            "the request asks for controllers and was sent to a broker's endpoint",
        )),
        _ => Some((ErrorCode::UNSUPPORTED_ENDPOINT_TYPE, "no such type of endpoint")),
    };
    if let Some((error_code, message)) = refusal {
        return Ok(request.answer(&DescribeClusterResponse {
            error_code,
            error_message: Some(message),
            ..DescribeClusterResponse::default()
        }));
    }
    let bytes = endpoint::told_bytes(&shard.image());
    let memory = reply_memory::reserve_list(shard, bytes).await.ok_or(CloseReason::NoMemory)?;
    let image = shard.image();
    let cluster_id = image.cluster().to_string();
    let endpoints = shard.endpoints_told(&request.connection);
    let brokers = endpoints
        .iter()
        .map(|endpoint| DescribeClusterBroker {
            broker_id: endpoint.broker,
            host: &endpoint.host,
            port: i32::from(endpoint.port),
            rack: None,
            is_fenced: false,
        })
        .collect();
    let operations =
        if asked.include_cluster_authorized_operations { CLUSTER_OPERATIONS } else { OPERATIONS_NOT_ASKED };
    let response = DescribeClusterResponse {
        cluster_id: &cluster_id,
        controller_id: shard.controller_id(),
        brokers,
        cluster_authorized_operations: operations,
        ..DescribeClusterResponse::default()
    };
    Ok(request.answer(&response).counted(memory))
}
