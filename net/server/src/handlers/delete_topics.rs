//! DeleteTopics, by name or by id.

use std::collections::BTreeMap;
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
use crate::turns::Turns;

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

/// How often a request names a topic.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mention {
    Once,
    Repeated,
    /// Repeatedly, and it has been answered.
    Answered,
}

/// The topics that a request names by name or by id. One that it names twice isn't deleted, as in Kafka: it is refused
/// once.
struct Mentions<'a>(BTreeMap<(Option<&'a str>, TopicId), Mention>);

impl<'a> Mentions<'a> {
    async fn of<I: Io>(topics: &[DeleteTopicState<'a>], turns: &mut Turns<'_, I>) -> Self {
        let mut mentions = BTreeMap::new();
        for topic in topics {
            turns.step().await;
            let key = (topic.name, TopicId(topic.topic_id.0));
            mentions.entry(key).and_modify(|mention| *mention = Mention::Repeated).or_insert(Mention::Once);
        }
        Self(mentions)
    }

    /// How often the topic is named, to be answered now.
    fn answer(&mut self, topic: &DeleteTopicState<'a>) -> Mention {
        let mention = self.0.get_mut(&(topic.name, TopicId(topic.topic_id.0)));
        let mention = mention.expect("all topics of the request are counted");
        let before = *mention;
        if before == Mention::Repeated {
            *mention = Mention::Answered;
        }
        before
    }

    fn has_id(&self, id: TopicId) -> bool {
        self.0.contains_key(&(None, id))
    }

    fn has_once(&self, name: &str) -> bool {
        self.0.get(&(Some(name), TopicId::ZERO)) == Some(&Mention::Once)
    }
}

pub(crate) async fn handle<I: Io>(
    shard: &Rc<Shard<I>>,
    request: &Request<I>,
) -> Result<Response<I>, CloseReason> {
    let asked: DeleteTopicsRequest<'_> = request.decode()?;
    let by_name = |name| DeleteTopicState { name: Some(name), topic_id: Uuid::ZERO };
    let topics: Vec<DeleteTopicState<'_>> = if request.version >= BY_ID_FROM {
        asked.topics
    } else {
        asked.topic_names.into_iter().map(by_name).collect()
    };
    let mut turns = Turns::new(shard.io());
    let mut mentions = Mentions::of(&topics, &mut turns).await;
    let mut outcomes = Vec::with_capacity(topics.len());
    for topic in &topics {
        turns.step().await;
        outcomes.extend(match (refusal(shard, request.version, topic), mentions.answer(topic)) {
            (Some(error), _) => Some(refuse(topic, error)),
            (None, Mention::Once) => delete(shard, request, &mentions, topic).await,
            (None, Mention::Repeated) => Some(refuse(topic, ErrorCode::INVALID_REQUEST)),
            (None, Mention::Answered) => None,
        });
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

/// Why nothing named so is deleted.
fn refusal<I: Io>(shard: &Shard<I>, version: i16, topic: &DeleteTopicState<'_>) -> Option<ErrorCode> {
    let is_disabled = !shard.config().broker.delete_topics;
    let is_unclear = topic.name.is_some() != TopicId(topic.topic_id.0).is_zero();
    match (is_disabled, is_unclear) {
        (true, _) if version >= DISABLED_FROM => Some(ErrorCode::TOPIC_DELETION_DISABLED),
        (true, _) | (false, true) => Some(ErrorCode::INVALID_REQUEST),
        (false, false) => None,
    }
}

fn refuse(topic: &DeleteTopicState<'_>, error: ErrorCode) -> Outcome {
    Outcome { name: topic.name.map(str::to_owned), id: TopicId(topic.topic_id.0), error }
}

/// `None` where another mention of the topic is answered for it.
async fn delete<I: Io>(
    shard: &Rc<Shard<I>>,
    request: &Request<I>,
    mentions: &Mentions<'_>,
    topic: &DeleteTopicState<'_>,
) -> Option<Outcome> {
    let asked_id = TopicId(topic.topic_id.0);
    let image = shard.image();
    let found = match topic.name {
        Some(name) => image.topic_named(name).ok_or(ErrorCode::UNKNOWN_TOPIC_OR_PARTITION),
        None => image.topic(asked_id).ok_or(ErrorCode::UNKNOWN_TOPIC_ID),
    };
    let (name, id) = match found {
        Ok(topic) => (topic.name.clone(), topic.id),
        Err(error) => return Some(refuse(topic, error)),
    };
    drop(image);
    if topic.name.is_some() && mentions.has_id(id) {
        // Named twice, in two ways: refused, and answered here.
        return Some(Outcome { name: Some(name), id, error: ErrorCode::INVALID_REQUEST });
    }
    if topic.name.is_none() && mentions.has_once(&name) {
        return None;
    }
    let Decision::Allowed =
        authorize(&request.connection.principal, Operation::Delete, Resource::Topic(&name));
    let deleted = shard.control().delete_topic(id).await;
    let error = deleted.map_or_else(|error| error_code::of_control(&error), |()| ErrorCode::NONE);
    Some(Outcome { name: Some(name), id, error })
}
