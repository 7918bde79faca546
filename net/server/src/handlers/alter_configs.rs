//! AlterConfigs and IncrementalAlterConfigs: change the topics' own settings, as a whole or by name.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use engine_io::Io;
use engine_store::ConfigError;
use net_wire::ErrorCode;
use net_wire::config_resource::TOPIC;
use net_wire::messages::alter_configs::AlterConfigsResourceResponse;
use net_wire::messages::incremental_alter_configs::{APPEND, DELETE, SET, SUBTRACT};
use net_wire::messages::{
    AlterConfigsRequest, AlterConfigsResponse, IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse, alter_configs, incremental_alter_configs,
};
use replication::metadata::commands::{AlterTopic, OtherConfigs};

use crate::control::channel::ControlError;
use crate::dispatch::Request;
use crate::error_code;
use crate::handlers::config_resource::{ConfigResource, Named, NotNamed};
use crate::handlers::orders::{carried_out, mentions};
use crate::hooks::Operation;
use crate::response::{CloseReason, Response};
use crate::settings::{SettingError, TOPIC_SETTINGS, TopicSettings, is_list};
use crate::shard::Shard;
use crate::turns::Turns;

/// What a client wants of a resource.
struct Wish<'a> {
    resource: ConfigResource<'a>,
    others: OtherConfigs,
    changes: Vec<Change<'a>>,
}

/// A change of one setting, as the protocol says it.
struct Change<'a> {
    name: &'a str,
    operation: i8,
    value: Option<&'a str>,
}

impl<'a> Change<'a> {
    fn as_a_whole(config: &alter_configs::AlterableConfig<'a>) -> Self {
        Self { name: config.name, operation: SET, value: config.value }
    }

    fn by_name(config: &incremental_alter_configs::AlterableConfig<'a>) -> Self {
        Self { name: config.name, operation: config.config_operation, value: config.value }
    }
}

/// What is to become of settings, as the metadata are told: by name, `None` where the topic is to have none of its own.
type Changes = Vec<(String, Option<String>)>;

/// Why a resource's settings stay as they are.
#[derive(Debug, thiserror::Error)]
enum Refused {
    #[error("the request names this resource more than once")]
    ResourceTwice,
    #[error("the request names setting `{0}` more than once")]
    SettingTwice(String),
    #[error("setting `{0}` has no value")]
    NoValue(String),
    #[error("{0} is no operation on a setting")]
    Operation(i8),
    #[error("nothing is set for all topics together here but in the configuration file: name a topic")]
    EveryTopic,
    #[error(
        "settings of the broker can't be changed while it runs: they are in the table [kafka] of its configuration file, which is read at the start"
    )]
    Broker,
    #[error(transparent)]
    NotNamed(#[from] NotNamed),
    #[error("the topic does not exist")]
    UnknownTopic,
    #[error("setting `{0}` is not a list, of which something could be added or taken")]
    NotAList(String),
    #[error(transparent)]
    Setting(#[from] SettingError),
    #[error("setting `max.message.bytes`: {0}")]
    Log(#[from] ConfigError),
    #[error(transparent)]
    Control(#[from] ControlError),
}

impl Refused {
    fn code(&self) -> ErrorCode {
        match self {
            Self::ResourceTwice
            | Self::SettingTwice(_)
            | Self::NoValue(_)
            | Self::Operation(_)
            | Self::EveryTopic
            | Self::Broker => ErrorCode::INVALID_REQUEST,
            Self::NotNamed(error) => error.code(),
            Self::UnknownTopic | Self::Control(ControlError::UnknownTopic) => {
                ErrorCode::UNKNOWN_TOPIC_OR_PARTITION
            }
            Self::NotAList(_) | Self::Setting(_) | Self::Log(_) => ErrorCode::INVALID_CONFIG,
            Self::Control(error) => error_code::of_control(error),
        }
    }
}

/// What became of a resource.
struct Outcome<'a> {
    resource: ConfigResource<'a>,
    refused: Option<(ErrorCode, String)>,
}

pub(crate) async fn handle<I: Io>(
    shard: &Rc<Shard<I>>,
    request: &Request<I>,
) -> Result<Response<I>, CloseReason> {
    let asked: AlterConfigsRequest<'_> = request.decode()?;
    let each = asked.resources.into_iter().map(|resource| {
        let changes = resource.configs.iter().map(Change::as_a_whole).collect();
        let resource = ConfigResource { kind: resource.resource_type, name: resource.resource_name };
        Wish { resource, others: OtherConfigs::Go, changes }
    });
    let wishes = wishes(shard, each).await;
    let outcomes = alter(shard, request, &wishes, asked.validate_only).await;
    let responses = outcomes.iter().map(Outcome::answer).collect();
    Ok(request.answer(&AlterConfigsResponse { throttle_time_ms: 0, responses }))
}

pub(crate) async fn handle_incremental<I: Io>(
    shard: &Rc<Shard<I>>,
    request: &Request<I>,
) -> Result<Response<I>, CloseReason> {
    let asked: IncrementalAlterConfigsRequest<'_> = request.decode()?;
    let each = asked.resources.into_iter().map(|resource| {
        let changes = resource.configs.iter().map(Change::by_name).collect();
        let resource = ConfigResource { kind: resource.resource_type, name: resource.resource_name };
        Wish { resource, others: OtherConfigs::Stay, changes }
    });
    let wishes = wishes(shard, each).await;
    let outcomes = alter(shard, request, &wishes, asked.validate_only).await;
    let responses = outcomes.iter().map(Outcome::answer).collect();
    Ok(request.answer(&IncrementalAlterConfigsResponse { throttle_time_ms: 0, responses }))
}

async fn wishes<'a, I: Io>(shard: &Shard<I>, each: impl Iterator<Item = Wish<'a>>) -> Vec<Wish<'a>> {
    let (mut wishes, mut turns) = (Vec::new(), Turns::new(shard.io()));
    for wish in each {
        turns.steps(1 + wish.changes.len()).await;
        wishes.push(wish);
    }
    wishes
}

impl Outcome<'_> {
    fn answer(&self) -> AlterConfigsResourceResponse<'_> {
        let (error_code, error_message) = match &self.refused {
            None => (ErrorCode::NONE, None),
            Some((code, message)) => (*code, Some(message.as_str())),
        };
        let ConfigResource { kind, name } = self.resource;
        AlterConfigsResourceResponse { error_code, error_message, resource_type: kind, resource_name: name }
    }
}

/// Makes the changes, those of one resource all or none, and answers each resource once, in the order of the request.
async fn alter<'a, I: Io>(
    shard: &Rc<Shard<I>>,
    request: &Request<I>,
    wishes: &[Wish<'a>],
    validate_only: bool,
) -> Vec<Outcome<'a>> {
    let planned = plan_each_once(shard, request, wishes).await;
    let orders = planned.iter().map(|(_, plan)| {
        let alteration = plan.as_ref().ok()?.as_ref().filter(|_| !validate_only)?;
        Some(shard.control().alter_topic(alteration.clone()))
    });
    let altered = carried_out(shard, None, orders).await;
    let outcome = |((resource, plan), altered): ((ConfigResource<'a>, Result<_, Refused>), Option<_>)| {
        let done = plan.and_then(|_| altered.unwrap_or(Ok(())).map_err(Refused::from));
        Outcome { resource, refused: done.err().map(|refused| (refused.code(), refused.to_string())) }
    };
    let mut outcomes = Vec::with_capacity(planned.len());
    let mut turns = Turns::new(shard.io());
    for one in planned.into_iter().zip(altered) {
        turns.step().await;
        outcomes.push(outcome(one));
    }
    outcomes
}

/// What is to be done for each resource; `None` for nothing. One that is named twice is refused, and stands here once.
async fn plan_each_once<'a, I: Io>(
    shard: &Shard<I>,
    request: &Request<I>,
    wishes: &[Wish<'a>],
) -> Vec<(ConfigResource<'a>, Result<Option<AlterTopic>, Refused>)> {
    let mut mentions = mentions(shard, wishes.iter().map(|wish| wish.resource)).await;
    let mut turns = Turns::new(shard.io());
    let mut planned = Vec::with_capacity(mentions.len());
    for wish in wishes {
        turns.steps(TOPIC_SETTINGS.len()).await;
        let plan = match mentions.insert(wish.resource, 0) {
            Some(1) => plan(shard, request, wish),
            // Answered at the first mention.
            Some(0) | None => continue,
            Some(_) => Err(Refused::ResourceTwice),
        };
        planned.push((wish.resource, plan));
    }
    planned
}

fn plan<I: Io>(
    shard: &Shard<I>,
    request: &Request<I>,
    wish: &Wish<'_>,
) -> Result<Option<AlterTopic>, Refused> {
    if wish.resource == (ConfigResource { kind: TOPIC, name: "" }) {
        return Err(Refused::EveryTopic);
    }
    match wish.resource.resolve(shard, request, Operation::AlterConfigs)? {
        Named::Topic(name) => {
            let image = shard.image();
            let topic = image.topic_named(name).ok_or(Refused::UnknownTopic)?;
            let defaults = &shard.config().broker.topic;
            let (settings, changes) = plan_changes(defaults, &topic.configs, wish)?;
            // What doesn't fit this node any more is no reason to refuse other changes.
            let is_about_batches = changes.iter().any(|(name, _)| name == "max.message.bytes");
            if is_about_batches {
                shard.directories().check_log_config(&settings.log_config())?;
            }
            Ok(Some(AlterTopic { id: topic.id, others: wish.others, changes }))
        }
        Named::Broker | Named::EveryBroker if wish.changes.is_empty() => Ok(None),
        Named::Broker | Named::EveryBroker => Err(Refused::Broker),
    }
}

/// The changes that make of a topic's `own` settings what is wished, each value as it would be written, and the settings
/// that come of it.
fn plan_changes(
    defaults: &TopicSettings,
    own: &BTreeMap<String, String>,
    wish: &Wish<'_>,
) -> Result<(TopicSettings, Changes), Refused> {
    let mut after: BTreeMap<&str, Cow<'_, str>> = match wish.others {
        OtherConfigs::Stay => own.iter().map(|(name, value)| (name.as_str(), value.into())).collect(),
        OtherConfigs::Go => BTreeMap::new(),
    };
    // The loop is short: a name that isn't new, or isn't known, ends it.
    let mut named = BTreeSet::new();
    for change in &wish.changes {
        let name = change.name;
        if !named.insert(name) {
            return Err(Refused::SettingTwice(name.to_owned()));
        }
        if after.remove(name).is_none() || change.operation != DELETE {
            TopicSettings::check_name(name)?;
        }
        let value = || change.value.ok_or_else(|| Refused::NoValue(name.to_owned()));
        let before = || match own.get(name) {
            Some(own) => own.clone(),
            None => defaults.value(name),
        };
        match change.operation {
            SET => drop(after.insert(name, value()?.into())),
            DELETE => {}
            APPEND | SUBTRACT if !is_list(name) => return Err(Refused::NotAList(name.to_owned())),
            APPEND => drop(after.insert(name, appended(&before(), value()?).into())),
            SUBTRACT => drop(after.insert(name, subtracted(&before(), value()?).into())),
            other => return Err(Refused::Operation(other)),
        }
    }
    let settings = defaults.with(after.iter().map(|(name, value)| (*name, value.as_ref())))?;
    let change = |name: &str| (name.to_owned(), after.contains_key(name).then(|| settings.value(name)));
    let changes = named.into_iter().map(change).collect();
    Ok((settings, changes))
}

fn parts(list: &str) -> impl Iterator<Item = &str> {
    list.split(',').map(str::trim).filter(|part| !part.is_empty())
}

/// A list with those of `more` that it hasn't.
fn appended(list: &str, more: &str) -> String {
    let mut all: Vec<&str> = parts(list).collect();
    for part in parts(more) {
        if !all.contains(&part) {
            all.push(part);
        }
    }
    all.join(",")
}

/// A list without those of `less`.
fn subtracted(list: &str, less: &str) -> String {
    let less: BTreeSet<&str> = parts(less).collect();
    parts(list).filter(|part| !less.contains(part)).collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn own(configs: &[(&str, &str)]) -> BTreeMap<String, String> {
        configs.iter().map(|&(name, value)| (name.to_owned(), value.to_owned())).collect()
    }

    /// What comes of changes, given by operation, name and value, to a topic that keeps records for a second.
    fn changed(
        others: OtherConfigs,
        changes: &[(i8, &'static str, Option<&'static str>)],
    ) -> Result<Changes, Refused> {
        let change = |&(operation, name, value): &(i8, &'static str, Option<&'static str>)| Change {
            name,
            operation,
            value,
        };
        let wish = Wish {
            resource: ConfigResource { kind: 2, name: "t" },
            others,
            changes: changes.iter().map(change).collect(),
        };
        plan_changes(&TopicSettings::default(), &own(&[("retention.ms", "1000")]), &wish)
            .map(|(_, changes)| changes)
    }

    fn words(result: Result<Changes, Refused>) -> (ErrorCode, String) {
        let refused = result.unwrap_err();
        (refused.code(), refused.to_string())
    }

    fn expected(changes: &[(&str, Option<&str>)]) -> Changes {
        changes.iter().map(|&(name, value)| (name.to_owned(), value.map(str::to_owned))).collect()
    }

    #[test]
    fn changes_come_by_name_and_with_their_values_as_they_would_be_written() {
        use OtherConfigs::{Go, Stay};
        let changes = [
            (SET, "segment.ms", Some(" 0500 ")),
            (DELETE, "retention.ms", None),
            (DELETE, "retention.bytes", None),
        ];
        let planned = [("retention.bytes", None), ("retention.ms", None), ("segment.ms", Some("500"))];
        assert_eq!(changed(Stay, &changes).unwrap(), expected(&planned));
        let replaced = changed(Go, &[(SET, "flush.mode", Some("isr"))]).unwrap();
        assert_eq!(replaced, expected(&[("flush.mode", Some("isr"))]));
        assert_eq!(changed(Go, &[]).unwrap(), []);
    }

    #[test]
    fn lists_are_added_to_and_taken_from() {
        assert_eq!(appended("a,b", "b, c,,a"), "a,b,c");
        assert_eq!(subtracted("a, b,c", "c,d,a"), "b");
        let append = |value| changed(OtherConfigs::Stay, &[(APPEND, "cleanup.policy", Some(value))]);
        assert_eq!(append("delete").unwrap(), expected(&[("cleanup.policy", Some("delete"))]));
        let (code, said) = words(append("compact"));
        assert_eq!(code, ErrorCode::INVALID_CONFIG);
        assert!(said.contains("`delete,compact` is not supported"), "{said}");
        let none_left = changed(OtherConfigs::Stay, &[(SUBTRACT, "cleanup.policy", Some("delete"))]);
        assert_eq!(words(none_left).0, ErrorCode::INVALID_CONFIG);
        let (code, said) = words(changed(OtherConfigs::Stay, &[(APPEND, "segment.ms", Some("1"))]));
        assert_eq!(code, ErrorCode::INVALID_CONFIG);
        assert!(said.contains("`segment.ms` is not a list"), "{said}");
    }

    #[test]
    fn what_makes_no_sense_is_refused_with_the_reason() {
        let refused = |changes: &[_]| words(changed(OtherConfigs::Stay, changes));
        let twice = [(SET, "segment.ms", Some("1")), (DELETE, "segment.ms", None)];
        assert_eq!(refused(&twice).0, ErrorCode::INVALID_REQUEST);
        assert_eq!(refused(&[(SET, "segment.ms", None)]).0, ErrorCode::INVALID_REQUEST);
        assert_eq!(refused(&[(4, "segment.ms", Some("1"))]).0, ErrorCode::INVALID_REQUEST);
        for operation in [SET, DELETE, APPEND, SUBTRACT] {
            let (code, said) = refused(&[(operation, "segment.mss", Some("1"))]);
            assert_eq!(code, ErrorCode::INVALID_CONFIG);
            assert!(said.contains("did you mean `segment.ms`"), "{said}");
        }
        let (code, said) = refused(&[(SET, "segment.ms", Some("soon"))]);
        assert_eq!(code, ErrorCode::INVALID_CONFIG);
        assert!(said.contains("`soon` is not milliseconds from 1"), "{said}");
    }

    #[test]
    fn a_setting_of_a_later_version_stands_in_the_way_until_it_is_deleted() {
        let later = own(&[("from.later", "1")]);
        let plan = |changes: Vec<Change<'_>>| {
            let resource = ConfigResource { kind: 2, name: "t" };
            let wish = Wish { resource, others: OtherConfigs::Stay, changes };
            plan_changes(&TopicSettings::default(), &later, &wish).map(|(_, changes)| changes)
        };
        let set = Change { name: "segment.ms", operation: SET, value: Some("5") };
        assert!(words(plan(vec![set])).1.contains("`from.later`"));
        let delete = Change { name: "from.later", operation: DELETE, value: None };
        assert_eq!(plan(vec![delete]).unwrap(), expected(&[("from.later", None)]));
    }
}
