//! Metadata: brokers, topics, leaders. Creates topics on demand where the client and the broker allow it.

use core::mem::size_of;
use std::collections::BTreeSet;
use std::rc::Rc;

use engine_io::Io;
use engine_record::TopicId;
use net_wire::messages::metadata::{
    MetadataRequest, MetadataRequestTopic, MetadataResponse, MetadataResponseBroker,
    MetadataResponsePartition, MetadataResponseTopic, OPERATIONS_NOT_ASKED,
};
use net_wire::{ErrorCode, Uuid};
use replication::metadata::image::{Image, Topic};

use crate::control::channel::{ControlError, NewTopic, Placement};
use crate::dispatch::Request;
use crate::endpoint;
use crate::error_code;
use crate::hooks::{Decision, Operation, Resource, authorize};
use crate::operations::{CLUSTER_OPERATIONS, TOPIC_OPERATIONS};
use crate::reply_memory;
use crate::response::{CloseReason, Response};
use crate::shard::Shard;
use crate::turns::Turns;

/// From this version on a null list asks for all topics and an empty one for none; before, an empty one for all.
const NULL_MEANS_ALL_FROM: i16 = 1;

/// From this version on a topic that isn't known by its id has no name.
const NULL_NAME_FROM: i16 = 12;

/// One topic of the answer. It holds nothing of the metadata: others may be created before the answer is written, and
/// each would have to copy what is held.
enum Found<'a> {
    Topic { name: Option<&'a str>, id: TopicId },
    Missing { name: Option<&'a str>, id: Uuid, error: ErrorCode },
}

pub(crate) async fn handle<I: Io>(
    shard: &Rc<Shard<I>>,
    request: &Request<I>,
) -> Result<Response<I>, CloseReason> {
    let asked: MetadataRequest<'_> = request.decode()?;
    let found = match &asked.topics {
        Some(topics) if !topics.is_empty() || request.version >= NULL_MEANS_ALL_FROM => {
            Some(find_all(shard, request, topics, asked.allow_auto_topic_creation).await)
        }
        Some(_) | None => None,
    };
    // It may be much larger than what was asked, so nothing of it is made while there is no memory for all.
    let bytes = answer_bytes(shard, found.as_deref()).await;
    let memory = reply_memory::reserve_list(shard, bytes).await.ok_or(CloseReason::NoMemory)?;
    let _turn = shard.turn_to_make(bytes).await;
    let image = shard.image();
    let found = found.unwrap_or_else(|| {
        image.topics_by_name().map(|topic| Found::Topic { name: None, id: topic.id }).collect()
    });
    let operations = |asked: bool, all: i32| if asked { all } else { OPERATIONS_NOT_ASKED };
    let topic_operations = operations(asked.include_topic_authorized_operations, TOPIC_OPERATIONS);
    let endpoints = shard.endpoints_told(&request.connection);
    let cluster_id = image.cluster().to_string();
    let mut topics = Vec::with_capacity(found.len());
    let mut turns = Turns::new(shard.io());
    for found in &found {
        let topic = answer(&image, request.version, found, topic_operations);
        turns.steps(1 + topic.partitions.len()).await;
        topics.push(topic);
    }
    let response = MetadataResponse {
        brokers: endpoints
            .iter()
            .map(|endpoint| MetadataResponseBroker {
                node_id: endpoint.broker,
                host: &endpoint.host,
                port: i32::from(endpoint.port),
                rack: None,
            })
            .collect(),
        cluster_id: Some(&cluster_id),
        controller_id: shard.controller_id(),
        topics,
        cluster_authorized_operations: operations(
            asked.include_cluster_authorized_operations,
            CLUSTER_OPERATIONS,
        ),
        ..MetadataResponse::default()
    };
    Ok(request.answer(&response).counted(memory))
}

/// Looks for the topics asked for, each once.
async fn find_all<'a, I: Io>(
    shard: &Rc<Shard<I>>,
    request: &Request<I>,
    topics: &[MetadataRequestTopic<'a>],
    may_create: bool,
) -> Vec<Found<'a>> {
    let mut found = Vec::new();
    let mut turns = Turns::new(shard.io());
    for topic in each_once(topics) {
        turns.step().await;
        found.push(find(shard, request, topic, may_create).await);
    }
    found
}

/// What the answer takes while it is made, at most, in bytes; `None` asks for all topics.
async fn answer_bytes<I: Io>(shard: &Shard<I>, found: Option<&[Found<'_>]>) -> u64 {
    let mut bytes = endpoint::told_bytes(&shard.image());
    let Some(found) = found else {
        return bytes + shard.image().topics().map(|topic| topic_bytes(topic)).sum::<u64>();
    };
    let mut turns = Turns::new(shard.io());
    for found in found {
        turns.step().await;
        bytes += match found {
            Found::Topic { id, .. } => {
                shard.image().topic(*id).map_or(TOPIC_BYTES, |topic| topic_bytes(topic))
            }
            Found::Missing { name, .. } => TOPIC_BYTES + 2 * name.map_or(0, str::len) as u64,
        };
    }
    bytes
}

/// A topic as it is found, put into an answer and encoded, but for its name and partitions. The encoded answer counts
/// twice, here and below: it grows.
const TOPIC_BYTES: u64 = (size_of::<Found<'_>>() + size_of::<MetadataResponseTopic<'_>>() + 2 * 48) as u64;

fn topic_bytes(topic: &Topic) -> u64 {
    /// A partition encoded, but for its replicas.
    const ENCODED_BYTES: usize = 32;
    /// What a list of replicas takes beside them.
    const LIST_BYTES: usize = 32;
    let replicas = topic.partitions.iter().map(|partition| partition.replicas.len()).max().unwrap_or(0);
    let lists = 2 * (LIST_BYTES + 2 * size_of::<i32>() * replicas);
    let encoded = ENCODED_BYTES + 2 * size_of::<i32>() * replicas;
    let partition = size_of::<MetadataResponsePartition>() + lists + 2 * encoded;
    TOPIC_BYTES + (2 * topic.name.len() + topic.partitions.len() * partition) as u64
}

/// The topics asked for without those that were asked for before: a short list could make a long answer otherwise.
fn each_once<'r, 'a>(
    topics: &'r [MetadataRequestTopic<'a>],
) -> impl Iterator<Item = &'r MetadataRequestTopic<'a>> {
    let mut before = BTreeSet::new();
    topics.iter().filter(move |topic| before.insert((topic.topic_id, topic.name)))
}

async fn find<'a, I: Io>(
    shard: &Rc<Shard<I>>,
    request: &Request<I>,
    asked: &MetadataRequestTopic<'a>,
    may_create: bool,
) -> Found<'a> {
    if !asked.topic_id.is_zero() {
        return Found::Topic { name: None, id: TopicId(asked.topic_id.0) };
    }
    let name = asked.name.unwrap_or_default();
    let Decision::Allowed =
        authorize(&request.connection.principal, Operation::Describe, Resource::Topic(name));
    match shard.topic_id(name) {
        Some(id) => Found::Topic { name: Some(name), id },
        None if may_create && shard.config().broker.auto_create_topics => {
            let Decision::Allowed =
                authorize(&request.connection.principal, Operation::Create, Resource::Topic(name));
            create(shard, name).await
        }
        None => missing(name, error_code::of_unknown_topic_name(name)),
    }
}

fn missing(name: &str, error: ErrorCode) -> Found<'_> {
    Found::Missing { name: Some(name), id: Uuid::ZERO, error }
}

/// Creates a topic with the broker's defaults. Another client may have been faster: the topic is there either way.
async fn create<'a, I: Io>(shard: &Rc<Shard<I>>, name: &'a str) -> Found<'a> {
    let placement =
        Placement::Dealt { partitions: shard.config().broker.num_partitions, replication_factor: None };
    let topic = NewTopic { name: name.to_owned(), placement, configs: Vec::new(), validate_only: false };
    let created = shard.control().create_topic(topic).await;
    match (created, shard.topic_id(name)) {
        (Ok(_) | Err(ControlError::TopicAlreadyExists(_)), Some(id)) => Found::Topic { name: Some(name), id },
        (Ok(_) | Err(ControlError::TopicAlreadyExists(_)), None) => {
            missing(name, ErrorCode::LEADER_NOT_AVAILABLE)
        }
        (Err(error), _) => missing(name, error_code::of_control(&error)),
    }
}

fn answer<'r>(
    image: &'r Image,
    version: i16,
    found: &Found<'r>,
    operations: i32,
) -> MetadataResponseTopic<'r> {
    let (name, id, error_code) = match *found {
        Found::Missing { name, id, error } => (name, id, error),
        Found::Topic { name, id } => match (image.topic(id), name) {
            (Some(topic), _) => return describe(image, topic, operations),
            // It was there when it was looked for.
            (None, Some(_)) => (name, Uuid::ZERO, ErrorCode::UNKNOWN_TOPIC_OR_PARTITION),
            (None, None) => (None, Uuid(id.0), ErrorCode::UNKNOWN_TOPIC_ID),
        },
    };
    let no_name = if version < NULL_NAME_FROM { Some("") } else { None };
    MetadataResponseTopic {
        error_code,
        name: name.or(no_name),
        topic_id: id,
        ..MetadataResponseTopic::default()
    }
}

fn describe<'i>(image: &Image, topic: &'i Topic, operations: i32) -> MetadataResponseTopic<'i> {
    let partitions = (0..).zip(&topic.partitions).map(|(index, partition)| {
        let owner = |&node| Some((node, image.owner(node, partition.lane)?));
        let broker = |node| owner(node).map(|(node, shard)| endpoint::broker_of(image, node, shard));
        let leader = partition.leader.as_ref().and_then(broker);
        MetadataResponsePartition {
            error_code: if leader.is_some() { ErrorCode::NONE } else { ErrorCode::LEADER_NOT_AVAILABLE },
            partition_index: index,
            leader_id: leader.unwrap_or(-1),
            leader_epoch: partition.leader_epoch.0,
            replica_nodes: partition.replicas.iter().filter_map(broker).collect(),
            isr_nodes: partition.isr.iter().filter_map(broker).collect(),
            offline_replicas: Vec::new(),
        }
    });
    MetadataResponseTopic {
        error_code: ErrorCode::NONE,
        name: Some(&topic.name),
        topic_id: Uuid(topic.id.0),
        is_internal: false,
        partitions: partitions.collect(),
        topic_authorized_operations: operations,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::examples::{cluster, topic};

    /// The bytes of what is made for the topic, and of it encoded twice.
    fn bytes_made(image: &Image, topic: &Topic, version: i16) -> usize {
        let described = describe(image, topic, OPERATIONS_NOT_ASKED);
        let lists = |partition: &MetadataResponsePartition| {
            4 * (partition.replica_nodes.capacity() + partition.isr_nodes.capacity())
        };
        let made = size_of::<MetadataResponseTopic<'_>>()
            + described.partitions.capacity() * size_of::<MetadataResponsePartition>()
            + described.partitions.iter().map(lists).sum::<usize>();
        let response = MetadataResponse { topics: vec![described], ..MetadataResponse::default() };
        let mut frame = Vec::new();
        net_wire::frame::encode_response(&mut frame, 1, version, &response).unwrap();
        made + 2 * frame.len()
    }

    #[test]
    fn no_topic_takes_more_than_is_expected() {
        for (partitions, replicas) in [(0, 0), (1, 1), (1_000, 1), (1_000, 3), (1_000, 5), (50, 100)] {
            let (image, topic) = (cluster(0..replicas, 1), topic(partitions, replicas));
            for version in 0..=13 {
                let made = bytes_made(&image, &topic, version) as u64;
                let expected = topic_bytes(&topic);
                // Beside the topic, a frame has some bytes of its own.
                assert!(made <= expected + 100, "{made} bytes, not {expected}: {partitions} of {replicas}");
            }
        }
    }
}
