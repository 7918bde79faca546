//! CreateTopics.

use core::mem::size_of;
use std::collections::BTreeMap;
use std::rc::Rc;

use engine_io::Io;
use engine_store::ConfigError;
use net_wire::messages::create_topics::{
    CreatableReplicaAssignment, CreatableTopic, CreatableTopicConfigs, CreatableTopicResult,
    CreateTopicsRequest, CreateTopicsResponse,
};
use net_wire::{ErrorCode, Uuid};

use super::orders::{carried_out, end_of, mentions};
use crate::control::channel::{ControlError, CreatedTopic, NewTopic, Placement};
use crate::dispatch::Request;
use crate::error_code;
use crate::hooks::{Decision, Operation, Resource, authorize};
use crate::reply_memory;
use crate::response::{CloseReason, Response};
use crate::settings::{
    BrokerSettings, ListedSetting, PARTITIONS_MAX, SettingError, SettingSource, TOPIC_SETTINGS, TopicSettings,
};
use crate::shard::Shard;
use crate::turns::Turns;

/// What stands for "the broker's default" in a count.
const DEFAULT: i32 = -1;

/// A topic as the controller is to make it.
struct Wish {
    new: NewTopic,
    settings: TopicSettings,
}

/// One topic's outcome, owned.
struct Outcome {
    created: CreatedTopic,
    settings: Vec<ListedSetting>,
}

/// Why one topic is refused.
#[derive(Debug, thiserror::Error)]
enum Refused {
    /// The name stands twice in the request.
    #[error("the request names this topic more than once")]
    NamedTwice,
    /// Counts and assignments exclude each other.
    #[error("num_partitions and replication_factor must be -1 where assignments are given")]
    CountsAndAssignments,
    /// Partition counts begin at 1.
    #[error("a topic has from 1 to {PARTITIONS_MAX} partitions, not {0}")]
    Partitions(i32),
    /// Replication factors begin at 1.
    #[error("a replication factor is at least 1, not {0}")]
    ReplicationFactor(i16),
    /// Assignments that aren't numbered from 0.
    #[error("assignments must name the partitions 0, 1, 2 and so on, each once")]
    Assignments,
    /// A setting that is refused.
    #[error(transparent)]
    Setting(#[from] SettingError),
    /// Settings that there isn't the memory for.
    #[error(transparent)]
    Memory(#[from] ConfigError),
    /// A setting without a value.
    #[error("setting `{0}` has no value")]
    NoValue(String),
    /// The client's time is over.
    #[error("the topic was not created within the request's timeout; it may still be")]
    TimedOut,
    /// The controller refuses.
    #[error(transparent)]
    Control(#[from] ControlError),
}

impl Refused {
    fn code(&self) -> ErrorCode {
        match self {
            Self::NamedTwice | Self::CountsAndAssignments => ErrorCode::INVALID_REQUEST,
            Self::Partitions(_) => ErrorCode::INVALID_PARTITIONS,
            Self::ReplicationFactor(_) => ErrorCode::INVALID_REPLICATION_FACTOR,
            Self::Assignments => ErrorCode::INVALID_REPLICA_ASSIGNMENT,
            Self::Setting(_) | Self::Memory(_) | Self::NoValue(_) => ErrorCode::INVALID_CONFIG,
            Self::TimedOut => ErrorCode::REQUEST_TIMED_OUT,
            Self::Control(error) => error_code::of_control(error),
        }
    }
}

pub(crate) async fn handle<I: Io>(
    shard: &Rc<Shard<I>>,
    request: &Request<I>,
) -> Result<Response<I>, CloseReason> {
    let asked: CreateTopicsRequest<'_> = request.decode()?;
    let wishes = wishes(shard, request, &asked).await;
    let orders =
        wishes.iter().map(|(_, wish)| Some(shard.control().create_topic(wish.as_ref().ok()?.new.clone())));
    // What isn't finished in time says so.
    let created = carried_out(shard, Some(end_of(request, asked.timeout_ms)), orders).await;
    // Where there is none, the topics are there all the same: a client that asks again is told so.
    let bytes = answer_bytes(request, &wishes);
    let memory = reply_memory::reserve_list(shard, bytes).await.ok_or(CloseReason::NoMemory)?;
    let mut outcomes = Vec::with_capacity(wishes.len());
    let mut turns = Turns::new(shard.io());
    for ((name, wish), created) in wishes.into_iter().zip(created) {
        turns.steps(TOPIC_SETTINGS.len()).await;
        let outcome = wish.and_then(|wish| outcome(&shard.config().broker, &wish, created));
        outcomes.push((name, outcome.map_err(|refused| (refused.code(), refused.to_string()))));
    }
    let topics = outcomes.iter().map(|(name, outcome)| answer(name, outcome)).collect();
    Ok(request.answer(&CreateTopicsResponse { throttle_time_ms: 0, topics }).counted(memory))
}

/// What the answer takes while it is made, at most, in bytes: each topic as it was found, put into an answer and encoded,
/// which counts twice since it grows. A topic that is made is told with all its settings, so it may be a hundred times as
/// large as what was asked.
fn answer_bytes<I: Io>(request: &Request<I>, wishes: &[(&str, Result<Wish, Refused>)]) -> u64 {
    /// What is said of a topic, but for what it is called and its settings.
    const TOPIC_BYTES: usize = 512;
    /// A setting's value, and the setting encoded.
    const VALUE_BYTES: usize = 32 + 2 * 64;
    let setting = size_of::<ListedSetting>() + size_of::<CreatableTopicConfigs<'_>>() + VALUE_BYTES;
    let made = wishes.iter().filter(|(_, wish)| wish.is_ok()).count();
    // Names, and what is said of them.
    let names = 4 * request.body().len();
    (names + wishes.len() * TOPIC_BYTES + made * TOPIC_SETTINGS.len() * setting) as u64
}

/// What is asked of the controller, each name once and in the order of the request.
async fn wishes<'a, I: Io>(
    shard: &Shard<I>,
    request: &Request<I>,
    asked: &CreateTopicsRequest<'a>,
) -> Vec<(&'a str, Result<Wish, Refused>)> {
    let mut named = mentions(shard, asked.topics.iter().map(|topic| topic.name)).await;
    let mut turns = Turns::new(shard.io());
    let mut wishes = Vec::with_capacity(named.len());
    for topic in &asked.topics {
        turns.step().await;
        let Decision::Allowed =
            authorize(&request.connection.principal, Operation::Create, Resource::Topic(topic.name));
        let wish = match named.get(topic.name) {
            Some(1) => wish(shard, topic, asked.validate_only),
            // Answered once, at the first mention.
            Some(0) | None => continue,
            Some(_) => {
                named.insert(topic.name, 0);
                Err(Refused::NamedTwice)
            }
        };
        wishes.push((topic.name, wish));
    }
    wishes
}

fn wish<I: Io>(shard: &Shard<I>, topic: &CreatableTopic<'_>, validate_only: bool) -> Result<Wish, Refused> {
    let configs = configs(topic)?;
    let defaults = &shard.config().broker.topic;
    let settings = defaults.with(configs.iter().map(|(name, value)| (name.as_str(), value.as_str())))?;
    shard.directories().check_log_config(&settings.log_config())?;
    let placement = placement(topic, shard.config().broker.num_partitions)?;
    let new = NewTopic { name: topic.name.to_owned(), placement, configs, validate_only };
    Ok(Wish { new, settings })
}

/// What became of a topic; `created` is what the controller has said, if it has.
fn outcome(
    broker: &BrokerSettings,
    wish: &Wish,
    created: Option<Result<CreatedTopic, ControlError>>,
) -> Result<Outcome, Refused> {
    let created = created.ok_or(Refused::TimedOut)??;
    let is_own = |name: &str| wish.new.configs.iter().any(|(own, _)| own == name);
    let source =
        |name: &str| if is_own(name) { SettingSource::Topic } else { broker.source_for_topics(name) };
    Ok(Outcome { created, settings: wish.settings.list(source) })
}

/// The topic's own settings. Of one that stands twice the last counts, as in Kafka: the metadata take each once.
fn configs(topic: &CreatableTopic<'_>) -> Result<Vec<(String, String)>, Refused> {
    let by_name: BTreeMap<&str, Option<&str>> =
        topic.configs.iter().map(|config| (config.name, config.value)).collect();
    by_name
        .into_iter()
        .map(|(name, value)| match value {
            Some(value) => Ok((name.to_owned(), value.to_owned())),
            None => Err(Refused::NoValue(name.to_owned())),
        })
        .collect()
}

fn placement(topic: &CreatableTopic<'_>, default_partitions: u32) -> Result<Placement, Refused> {
    if !topic.assignments.is_empty() {
        if topic.num_partitions != DEFAULT || i32::from(topic.replication_factor) != DEFAULT {
            return Err(Refused::CountsAndAssignments);
        }
        return named_placement(&topic.assignments);
    }
    let partitions = match topic.num_partitions {
        DEFAULT => default_partitions,
        count => u32::try_from(count)
            .ok()
            .filter(|count| (1..=PARTITIONS_MAX).contains(count))
            .ok_or(Refused::Partitions(count))?,
    };
    let replication_factor = match topic.replication_factor {
        -1 => None,
        factor => match u16::try_from(factor) {
            Ok(factor @ 1..) => Some(factor),
            Ok(0) | Err(_) => return Err(Refused::ReplicationFactor(factor)),
        },
    };
    Ok(Placement::Dealt { partitions, replication_factor })
}

/// Assignments in the order of their partitions, which must be 0, 1, 2 and so on.
fn named_placement(assignments: &[CreatableReplicaAssignment]) -> Result<Placement, Refused> {
    let by_partition: BTreeMap<i32, &Vec<i32>> =
        assignments.iter().map(|assignment| (assignment.partition_index, &assignment.broker_ids)).collect();
    let dense = by_partition.keys().copied().eq((0..).take(assignments.len()));
    if !dense || u32::try_from(assignments.len()).map_or(true, |count| count > PARTITIONS_MAX) {
        return Err(Refused::Assignments);
    }
    Ok(Placement::Named(by_partition.into_values().cloned().collect()))
}

fn answer<'o>(name: &'o str, outcome: &'o Result<Outcome, (ErrorCode, String)>) -> CreatableTopicResult<'o> {
    match outcome {
        Ok(Outcome { created, settings }) => CreatableTopicResult {
            name,
            topic_id: Uuid(created.id.0),
            error_code: ErrorCode::NONE,
            error_message: None,
            topic_config_error_code: ErrorCode::NONE,
            num_partitions: i32::try_from(created.partitions).unwrap_or(DEFAULT),
            replication_factor: i16::try_from(created.replication_factor).unwrap_or(-1),
            configs: Some(settings.iter().map(listed_config).collect()),
        },
        Err((code, message)) => CreatableTopicResult {
            name,
            error_code: *code,
            error_message: Some(message),
            ..CreatableTopicResult::default()
        },
    }
}

fn listed_config(setting: &ListedSetting) -> CreatableTopicConfigs<'_> {
    CreatableTopicConfigs {
        name: setting.name,
        value: Some(&setting.value),
        read_only: false,
        config_source: setting.source.code(),
        is_sensitive: false,
    }
}
