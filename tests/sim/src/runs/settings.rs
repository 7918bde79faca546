//! A topic's settings change while it is used; a change that was acknowledged stays, whatever befalls the node.

use std::collections::BTreeSet;
use std::rc::Rc;

use net_wire::messages::describe_configs::DescribeConfigsResource;
use net_wire::messages::incremental_alter_configs::{AlterConfigsResource, AlterableConfig, SET};
use net_wire::messages::{DescribeConfigsRequest, IncrementalAlterConfigsRequest};
use net_wire::{ApiKey, ErrorCode, config_resource};

use super::admin::PASSING;
use super::directory::Topic;
use super::history::Event;
use super::setting::Setting;
use super::wire::{Lost, Wire};

/// One that changes when segments are begun, and no promise.
const NAME: &str = "segment.ms";

/// The values that the setting may have. Nobody else changes it.
struct Values {
    acknowledged: Option<String>,
    /// Asked for without an answer: each may still come to be.
    unanswered: BTreeSet<String>,
}

/// Changes the topic's setting a few times, and looks whether it is as it must be.
pub(super) async fn alter(setting: Rc<Setting>, topic: Topic) {
    let mut values = Values { acknowledged: None, unanswered: BTreeSet::new() };
    for _ in 0..setting.chance.pick(1..=8) {
        setting.pause(1..=1_000).await;
        let value = setting.chance.pick(500..=100_000_000).to_string();
        match try_alter(&setting, &topic, &value).await {
            Ok(true) => values.acknowledged = Some(value),
            // Also where the node says that it is stopping: what it had begun may be there.
            Ok(false) | Err(Lost) => drop(values.unanswered.insert(value)),
        }
        look(&setting, &topic, &values).await;
    }
    while !setting.is_settling() {
        setting.pause(500..=2_000).await;
        look(&setting, &topic, &values).await;
    }
}

/// Whether the change was made.
async fn try_alter(setting: &Rc<Setting>, topic: &Topic, value: &str) -> Result<bool, Lost> {
    let range = ApiKey::IncrementalAlterConfigs.versions();
    let version = setting.chance.version(range.min, range.max);
    let config = AlterableConfig { name: NAME, config_operation: SET, value: Some(value) };
    let resource = AlterConfigsResource {
        resource_type: config_resource::TOPIC,
        resource_name: &topic.name,
        configs: vec![config],
    };
    let request = IncrementalAlterConfigsRequest { resources: vec![resource], validate_only: false };
    let mut wire = Wire::connect(setting, setting.some_address()).await?;
    let answer = wire.ask(version, &request).await?;
    let error =
        answer.body().responses.first().map_or(ErrorCode::UNKNOWN_SERVER_ERROR, |told| told.error_code);
    check(setting, topic, "IncrementalAlterConfigs", error);
    Ok(error.is_none())
}

/// Asks any shard for the setting.
async fn look(setting: &Rc<Setting>, topic: &Topic, values: &Values) {
    let Ok(Some((value, is_own))) = try_look(setting, topic).await else { return };
    let acknowledged = values.acknowledged.as_ref();
    let is_expected = if is_own {
        acknowledged == Some(&value) || values.unanswered.contains(&value)
    } else {
        acknowledged.is_none()
    };
    if !is_expected {
        let why = format!("`{NAME}` of {} is {value} where {acknowledged:?} was acknowledged", topic.name);
        setting.history.note(Event::Nonsense { request: "DescribeConfigs", why });
    }
}

/// The value, and whether it is the topic's own; `None` where the topic is gone.
async fn try_look(setting: &Rc<Setting>, topic: &Topic) -> Result<Option<(String, bool)>, Lost> {
    let range = ApiKey::DescribeConfigs.versions();
    let version = setting.chance.version(range.min, range.max);
    let resource = DescribeConfigsResource {
        resource_type: config_resource::TOPIC,
        resource_name: &topic.name,
        configuration_keys: Some(vec![NAME]),
    };
    let request = DescribeConfigsRequest { resources: vec![resource], ..DescribeConfigsRequest::default() };
    let mut wire = Wire::connect(setting, setting.some_address()).await?;
    let answer = wire.ask(version, &request).await?;
    let response = answer.body();
    let result = response.results.first();
    check(
        setting,
        topic,
        "DescribeConfigs",
        result.map_or(ErrorCode::UNKNOWN_SERVER_ERROR, |result| result.error_code),
    );
    let config = result.and_then(|result| result.configs.first());
    Ok(config.map(|config| (config.value.unwrap_or_default().to_owned(), config.config_source == 1)))
}

/// A topic is unknown only where somebody has asked for its deletion.
fn check(setting: &Setting, topic: &Topic, request: &'static str, error: ErrorCode) {
    let is_gone =
        error == ErrorCode::UNKNOWN_TOPIC_OR_PARTITION && setting.history.is_deletion_asked(topic.id);
    if !error.is_none() && !PASSING.contains(&error) && !is_gone {
        setting.history.note(Event::Forbidden { request, error, log: Some(topic.log(0)) });
    }
}
