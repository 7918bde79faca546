//! CreatePartitions.

use core::mem::size_of;
use std::rc::Rc;

use engine_io::Io;
use net_wire::ErrorCode;
use net_wire::messages::create_partitions::{
    CreatePartitionsRequest, CreatePartitionsResponse, CreatePartitionsTopic, CreatePartitionsTopicResult,
};

use super::orders::{carried_out, end_of, mentions};
use crate::control::channel::{ControlError, MorePartitions};
use crate::dispatch::Request;
use crate::error_code;
use crate::hooks::{Decision, Operation, Resource, authorize};
use crate::reply_memory;
use crate::response::{CloseReason, Response};
use crate::shard::Shard;
use crate::turns::Turns;

/// Why a topic has no more partitions than before.
#[derive(Debug, thiserror::Error)]
enum Refused {
    /// The name stands twice in the request.
    #[error("the request names this topic more than once")]
    NamedTwice,
    /// The client's time is over.
    #[error("the partitions were not created within the request's timeout; they may still be")]
    TimedOut,
    /// The controller refuses.
    #[error(transparent)]
    Control(#[from] ControlError),
}

impl Refused {
    fn code(&self) -> ErrorCode {
        match self {
            Self::NamedTwice => ErrorCode::INVALID_REQUEST,
            Self::TimedOut => ErrorCode::REQUEST_TIMED_OUT,
            Self::Control(ControlError::UnknownTopic) => ErrorCode::UNKNOWN_TOPIC_OR_PARTITION,
            Self::Control(error) => error_code::of_control(error),
        }
    }
}

/// What is asked of the controller for each topic.
type Wishes<'a> = Vec<(&'a str, Result<MorePartitions, Refused>)>;

pub(crate) async fn handle<I: Io>(
    shard: &Rc<Shard<I>>,
    request: &Request<I>,
) -> Result<Response<I>, CloseReason> {
    let asked: CreatePartitionsRequest<'_> = request.decode()?;
    let wishes = each_once(shard, request, &asked).await;
    let orders =
        wishes.iter().map(|(_, wish)| Some(shard.control().create_partitions(wish.as_ref().ok()?.clone())));
    // What isn't finished in time says so.
    let created = carried_out(shard, Some(end_of(request, asked.timeout_ms)), orders).await;
    // Where there is none, the partitions are there all the same.
    let bytes = answer_bytes(request, wishes.len());
    let memory = reply_memory::reserve_list(shard, bytes).await.ok_or(CloseReason::NoMemory)?;
    let mut outcomes = Vec::with_capacity(wishes.len());
    let mut turns = Turns::new(shard.io());
    for ((name, wish), created) in wishes.into_iter().zip(created) {
        turns.step().await;
        let done = wish.and_then(|_| created.ok_or(Refused::TimedOut)?.map_err(Refused::from));
        outcomes.push((name, done.err().map(|refused| (refused.code(), refused.to_string()))));
    }
    let results = outcomes.iter().map(answer).collect();
    Ok(request.answer(&CreatePartitionsResponse { throttle_time_ms: 0, results }).counted(memory))
}

/// What the answer takes while it is made, at most, in bytes: a topic's outcome and its words, and both encoded, which
/// counts twice since it grows.
fn answer_bytes<I: Io>(request: &Request<I>, topics: usize) -> u64 {
    const WORDS_BYTES: usize = 160;
    let topic = size_of::<(&str, Option<(ErrorCode, String)>)>()
        + size_of::<CreatePartitionsTopicResult<'_>>()
        + 3 * WORDS_BYTES;
    (2 * request.body().len() + topics * topic) as u64
}

/// What is asked, each name once and in the order of the request.
async fn each_once<'a, I: Io>(
    shard: &Shard<I>,
    request: &Request<I>,
    asked: &CreatePartitionsRequest<'a>,
) -> Wishes<'a> {
    let mut mentions = mentions(shard, asked.topics.iter().map(|topic| topic.name)).await;
    let mut turns = Turns::new(shard.io());
    let mut wishes = Vec::with_capacity(mentions.len());
    for topic in &asked.topics {
        turns.steps(1 + topic.assignments.as_ref().map_or(0, Vec::len)).await;
        let Decision::Allowed =
            authorize(&request.connection.principal, Operation::Alter, Resource::Topic(topic.name));
        let wish = match mentions.insert(topic.name, 0) {
            Some(1) => Ok(wish(topic, asked.validate_only)),
            // Answered at the first mention.
            Some(0) | None => continue,
            Some(_) => Err(Refused::NamedTwice),
        };
        wishes.push((topic.name, wish));
    }
    wishes
}

fn wish(topic: &CreatePartitionsTopic<'_>, validate_only: bool) -> MorePartitions {
    let brokers = topic.assignments.as_ref().map(|assignments| {
        assignments.iter().map(|assignment| assignment.broker_ids.clone()).collect::<Vec<_>>()
    });
    MorePartitions { name: topic.name.to_owned(), count: topic.count, assignments: brokers, validate_only }
}

fn answer<'o>(
    (name, refused): &'o (&'o str, Option<(ErrorCode, String)>),
) -> CreatePartitionsTopicResult<'o> {
    let (error_code, error_message) = match refused {
        None => (ErrorCode::NONE, None),
        Some((code, message)) => (*code, Some(message.as_str())),
    };
    CreatePartitionsTopicResult { name, error_code, error_message }
}
