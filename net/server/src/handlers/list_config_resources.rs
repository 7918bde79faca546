//! ListConfigResources: what has settings.

use core::mem::size_of;
use std::rc::Rc;

use engine_io::Io;
use net_wire::ErrorCode;
use net_wire::config_resource::{BROKER, BROKER_LOGGER, CLIENT_METRICS, GROUP, TOPIC};
use net_wire::messages::list_config_resources::{
    ListConfigResourcesRequest, ListConfigResourcesResponse, ListedConfigResource,
};

use crate::dispatch::Request;
use crate::endpoint;
use crate::hooks::{Decision, Operation, Resource, authorize};
use crate::reply_memory;
use crate::response::{CloseReason, Response};
use crate::shard::Shard;
use crate::turns::Turns;

/// From this version on more than clients' metrics may be asked for.
const KINDS_FROM: i16 = 1;

/// The kinds that may be asked for, as in Kafka.
const KINDS: [i8; 5] = [TOPIC, BROKER, BROKER_LOGGER, CLIENT_METRICS, GROUP];

pub(crate) async fn handle<I: Io>(
    shard: &Rc<Shard<I>>,
    request: &Request<I>,
) -> Result<Response<I>, CloseReason> {
    let asked: ListConfigResourcesRequest = request.decode()?;
    let Decision::Allowed =
        authorize(&request.connection.principal, Operation::DescribeConfigs, Resource::Cluster);
    if asked.resource_types.iter().any(|kind| !KINDS.contains(kind)) {
        let error_code = ErrorCode::UNSUPPORTED_VERSION;
        return Ok(request
            .answer(&ListConfigResourcesResponse { error_code, ..ListConfigResourcesResponse::default() }));
    }
    let is_wanted = |kind| {
        let kinds = &asked.resource_types;
        request.version >= KINDS_FROM && (kinds.is_empty() || kinds.contains(&kind))
    };
    let bytes = answer_bytes(shard, is_wanted(BROKER), is_wanted(TOPIC));
    let memory = reply_memory::reserve_list(shard, bytes).await.ok_or(CloseReason::NoMemory)?;
    let _turn = shard.turn_to_make(bytes).await;
    let endpoints = shard.endpoints_told_if(is_wanted(BROKER), request);
    let brokers: Vec<String> = endpoints.iter().map(|endpoint| endpoint.broker.to_string()).collect();
    let image = shard.image();
    let listed = |resource_name, resource_type| ListedConfigResource { resource_name, resource_type };
    let mut config_resources: Vec<_> = brokers.iter().map(|broker| listed(broker, BROKER)).collect();
    let mut turns = Turns::new(shard.io());
    for topic in image.topics_by_name().filter(|_| is_wanted(TOPIC)) {
        turns.step().await;
        config_resources.push(listed(&topic.name, TOPIC));
    }
    let response = ListConfigResourcesResponse { config_resources, ..ListConfigResourcesResponse::default() };
    Ok(request.answer(&response).counted(memory))
}

/// What the answer takes while it is made, at most, in bytes: each resource put into an answer, which grows, and encoded,
/// which grows too.
fn answer_bytes<I: Io>(shard: &Shard<I>, brokers: bool, topics: bool) -> u64 {
    let image = shard.image();
    let resource = 2 * (size_of::<ListedConfigResource<'_>>() + 8);
    let names = image.topics().map(|topic| resource + 2 * topic.name.len());
    let topics = if topics { names.sum::<usize>() as u64 } else { 0 };
    if brokers { topics + endpoint::told_bytes(&image) } else { topics }
}
