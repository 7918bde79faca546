//! CreateTopics.

use std::collections::BTreeMap;
use std::rc::Rc;

use engine_io::Io;
use net_wire::messages::create_topics::{
    CreatableReplicaAssignment, CreatableTopic, CreatableTopicConfigs, CreatableTopicResult,
    CreateTopicsRequest, CreateTopicsResponse,
};
use net_wire::{ErrorCode, Uuid};

use crate::control::channel::{ControlError, CreatedTopic, NewTopic, Placement};
use crate::dispatch::Request;
use crate::error_code;
use crate::hooks::{Decision, Operation, Resource, authorize};
use crate::response::{CloseReason, Response};
use crate::settings::{ListedSetting, PARTITIONS_MAX, SettingError, TopicSettings};
use crate::shard::Shard;
use crate::turns::Turns;

/// What stands for "the broker's default" in a count.
const DEFAULT: i32 = -1;

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
    /// A setting without a value.
    #[error("setting `{0}` has no value")]
    NoValue(String),
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
            Self::Setting(_) | Self::NoValue(_) => ErrorCode::INVALID_CONFIG,
            Self::Control(error) => error_code::of_control(error),
        }
    }
}

pub(crate) async fn handle<I: Io>(
    shard: &Rc<Shard<I>>,
    request: &Request<I>,
) -> Result<Response<I>, CloseReason> {
    let asked: CreateTopicsRequest<'_> = request.decode()?;
    let mut named: BTreeMap<&str, usize> = BTreeMap::new();
    for topic in &asked.topics {
        *named.entry(topic.name).or_default() += 1;
    }
    let mut outcomes = Vec::with_capacity(named.len());
    let mut turns = Turns::new(shard.io());
    for topic in &asked.topics {
        turns.step().await;
        let outcome = match named.get(topic.name) {
            Some(1) => create(shard, request, topic, asked.validate_only).await,
            // Answered once, at the first mention.
            Some(0) | None => continue,
            Some(_) => {
                named.insert(topic.name, 0);
                Err(Refused::NamedTwice)
            }
        };
        outcomes.push((topic.name, outcome.map_err(|refused| (refused.code(), refused.to_string()))));
    }
    let topics = outcomes.iter().map(|(name, outcome)| answer(name, outcome)).collect();
    Ok(request.answer(&CreateTopicsResponse { throttle_time_ms: 0, topics }))
}

async fn create<I: Io>(
    shard: &Rc<Shard<I>>,
    request: &Request<I>,
    topic: &CreatableTopic<'_>,
    validate_only: bool,
) -> Result<Outcome, Refused> {
    let Decision::Allowed =
        authorize(&request.connection.principal, Operation::Create, Resource::Topic(topic.name));
    let configs = configs(topic)?;
    let defaults = &shard.config().broker.topic;
    let settings = defaults.with(configs.iter().map(|(name, value)| (name.as_str(), value.as_str())))?;
    let placement = placement(topic, shard.config().broker.num_partitions)?;
    let named: Vec<String> = configs.iter().map(|(name, _)| name.clone()).collect();
    let new = NewTopic { name: topic.name.to_owned(), placement, configs, validate_only };
    let created = shard.control().create_topic(new).await?;
    Ok(Outcome { created, settings: listed(&settings, &named) })
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

fn listed(settings: &TopicSettings, own: &[String]) -> Vec<ListedSetting> {
    settings.list(|name| own.iter().any(|own| own == name))
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
            configs: None,
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
