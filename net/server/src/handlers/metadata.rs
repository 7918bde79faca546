//! Metadata: brokers, topics, leaders. Creates topics on demand where the client and the broker allow it.

use std::rc::Rc;

use engine_io::Io;
use engine_record::TopicId;
use net_wire::messages::metadata::{
    MetadataRequest, MetadataRequestTopic, MetadataResponse, MetadataResponseBroker,
    MetadataResponsePartition, MetadataResponseTopic, OPERATIONS_NOT_ASKED,
};
use net_wire::{ErrorCode, Uuid};
use replication::metadata::image::{Image, Topic, broker_id};

use crate::control::channel::{ControlError, NewTopic, Placement};
use crate::dispatch::Request;
use crate::error_code;
use crate::hooks::{Decision, Operation, Resource, authorize};
use crate::operations::{CLUSTER_OPERATIONS, TOPIC_OPERATIONS};
use crate::response::{CloseReason, Response};
use crate::shard::Shard;

/// From this version on a null list asks for all topics and an empty one for none; before, an empty one for all.
const NULL_MEANS_ALL_FROM: i16 = 1;

/// From this version on a topic that isn't known by its id has no name.
const NULL_NAME_FROM: i16 = 12;

/// One topic of the answer.
enum Found {
    Topic(Rc<Image>, TopicId),
    Missing { name: Option<String>, id: Uuid, error: ErrorCode },
}

pub(crate) async fn handle<I: Io>(
    shard: &Rc<Shard<I>>,
    request: &Request<I>,
) -> Result<Response<I>, CloseReason> {
    let asked: MetadataRequest<'_> = request.decode()?;
    let found = match &asked.topics {
        Some(topics) if !topics.is_empty() || request.version >= NULL_MEANS_ALL_FROM => {
            let mut found = Vec::with_capacity(topics.len());
            for topic in topics {
                found.push(find(shard, request, topic, asked.allow_auto_topic_creation).await);
            }
            found
        }
        Some(_) | None => {
            let image = shard.image();
            image.topics_by_name().map(|topic| Found::Topic(Rc::clone(&image), topic.id)).collect()
        }
    };
    let operations = |asked: bool, all: i32| if asked { all } else { OPERATIONS_NOT_ASKED };
    let topic_operations = operations(asked.include_topic_authorized_operations, TOPIC_OPERATIONS);
    let endpoints = shard.endpoints_told(request.connection.reached);
    let cluster_id = shard.image().cluster().to_string();
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
        topics: found.iter().map(|found| answer(request.version, found, topic_operations)).collect(),
        cluster_authorized_operations: operations(
            asked.include_cluster_authorized_operations,
            CLUSTER_OPERATIONS,
        ),
        ..MetadataResponse::default()
    };
    Ok(request.answer(&response))
}

async fn find<I: Io>(
    shard: &Rc<Shard<I>>,
    request: &Request<I>,
    asked: &MetadataRequestTopic<'_>,
    may_create: bool,
) -> Found {
    let image = shard.image();
    if !asked.topic_id.is_zero() {
        return match image.topic(TopicId(asked.topic_id.0)) {
            Some(topic) => Found::Topic(Rc::clone(&image), topic.id),
            None => Found::Missing { name: None, id: asked.topic_id, error: ErrorCode::UNKNOWN_TOPIC_ID },
        };
    }
    let name = asked.name.unwrap_or_default();
    let Decision::Allowed =
        authorize(&request.connection.principal, Operation::Describe, Resource::Topic(name));
    match image.topic_named(name) {
        Some(topic) => Found::Topic(Rc::clone(&image), topic.id),
        None if may_create && shard.config().broker.auto_create_topics => {
            let Decision::Allowed =
                authorize(&request.connection.principal, Operation::Create, Resource::Topic(name));
            drop(image);
            create(shard, name).await
        }
        None => missing(name, error_code::of_unknown_topic_name(name)),
    }
}

fn missing(name: &str, error: ErrorCode) -> Found {
    Found::Missing { name: Some(name.to_owned()), id: Uuid::ZERO, error }
}

/// Creates a topic with the broker's defaults. Another client may have been faster: the topic is there either way.
async fn create<I: Io>(shard: &Rc<Shard<I>>, name: &str) -> Found {
    let placement =
        Placement::Dealt { partitions: shard.config().broker.num_partitions, replication_factor: None };
    let topic = NewTopic { name: name.to_owned(), placement, configs: Vec::new(), validate_only: false };
    let created = shard.control().create_topic(topic).await;
    let image = shard.image();
    match (created, image.topic_named(name)) {
        (Ok(_) | Err(ControlError::TopicAlreadyExists(_)), Some(topic)) => {
            Found::Topic(Rc::clone(&image), topic.id)
        }
        (Ok(_) | Err(ControlError::TopicAlreadyExists(_)), None) => {
            missing(name, ErrorCode::LEADER_NOT_AVAILABLE)
        }
        (Err(error), _) => missing(name, error_code::of_control(&error)),
    }
}

fn answer(version: i16, found: &Found, operations: i32) -> MetadataResponseTopic<'_> {
    let no_name = if version < NULL_NAME_FROM { Some("") } else { None };
    match found {
        Found::Missing { name, id, error } => MetadataResponseTopic {
            error_code: *error,
            name: name.as_deref().or(no_name),
            topic_id: *id,
            ..MetadataResponseTopic::default()
        },
        Found::Topic(image, id) => match image.topic(*id) {
            Some(topic) => describe(image, topic, operations),
            None => MetadataResponseTopic {
                error_code: ErrorCode::UNKNOWN_TOPIC_ID,
                name: no_name,
                topic_id: Uuid(id.0),
                ..MetadataResponseTopic::default()
            },
        },
    }
}

fn describe<'i>(image: &Image, topic: &'i Topic, operations: i32) -> MetadataResponseTopic<'i> {
    let partitions = (0..).zip(&topic.partitions).map(|(index, partition)| {
        let broker = |&node| image.owner(node, partition.lane).map(|shard| broker_id(node, shard));
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
