//! DeleteTopics, by name or by id.

use std::rc::Rc;

use engine_io::Io;
use engine_record::TopicId;
use net_wire::messages::delete_topics::{
    DeletableTopicResult, DeleteTopicState, DeleteTopicsRequest, DeleteTopicsResponse,
};
use net_wire::{ErrorCode, Uuid};

use crate::dispatch::Request;
use crate::error_code;
use crate::hooks::{Decision, Operation, Resource, authorize};
use crate::response::{CloseReason, Response};
use crate::shard::Shard;

/// From this version on topics are given by name or id.
const BY_ID_FROM: i16 = 6;

/// From this version on clients know that deletion may be forbidden.
const DISABLED_FROM: i16 = 3;

/// One topic's outcome.
struct Outcome {
    name: Option<String>,
    id: TopicId,
    error: ErrorCode,
}

pub(crate) async fn handle<I: Io>(
    shard: &Rc<Shard<I>>,
    request: &Request<I>,
) -> Result<Response<I>, CloseReason> {
    let asked: DeleteTopicsRequest<'_> = request.decode()?;
    let by_name =
        asked.topic_names.iter().map(|&name| DeleteTopicState { name: Some(name), topic_id: Uuid::ZERO });
    let topics: Vec<DeleteTopicState<'_>> =
        if request.version >= BY_ID_FROM { asked.topics.clone() } else { by_name.collect() };
    let mut outcomes = Vec::with_capacity(topics.len());
    for topic in &topics {
        outcomes.push(delete(shard, request, topic).await);
    }
    let responses = outcomes
        .iter()
        .map(|outcome| DeletableTopicResult {
            name: outcome.name.as_deref(),
            topic_id: Uuid(outcome.id.0),
            error_code: outcome.error,
            error_message: outcome.error.name().filter(|_| !outcome.error.is_none()),
        })
        .collect();
    Ok(request.answer(&DeleteTopicsResponse { throttle_time_ms: 0, responses }))
}

async fn delete<I: Io>(shard: &Rc<Shard<I>>, request: &Request<I>, topic: &DeleteTopicState<'_>) -> Outcome {
    let asked_id = TopicId(topic.topic_id.0);
    let refuse = |error| Outcome { name: topic.name.map(str::to_owned), id: asked_id, error };
    if topic.name.is_some() != asked_id.is_zero() {
        return refuse(ErrorCode::INVALID_REQUEST);
    }
    if !shard.config().broker.delete_topics {
        let known = request.version >= DISABLED_FROM;
        return refuse(if known { ErrorCode::TOPIC_DELETION_DISABLED } else { ErrorCode::INVALID_REQUEST });
    }
    let image = shard.image();
    let found = match topic.name {
        Some(name) => image.topic_named(name).ok_or(ErrorCode::UNKNOWN_TOPIC_OR_PARTITION),
        None => image.topic(asked_id).ok_or(ErrorCode::UNKNOWN_TOPIC_ID),
    };
    let (name, id) = match found {
        Ok(topic) => (topic.name.clone(), topic.id),
        Err(error) => return refuse(error),
    };
    drop(image);
    let Decision::Allowed =
        authorize(&request.connection.principal, Operation::Delete, Resource::Topic(&name));
    let deleted = shard.control().delete_topic(id).await;
    let error = deleted.map_or_else(|error| error_code::of_control(&error), |()| ErrorCode::NONE);
    Outcome { name: Some(name), id, error }
}
