//! The calls about settings, by their outcome.

use net_wire::ErrorCode;
use net_wire::config_resource::TOPIC;
use net_wire::messages::describe_configs::DescribeConfigsResource;
use net_wire::messages::incremental_alter_configs::{AlterConfigsResource, AlterableConfig, DELETE, SET};
use net_wire::messages::{
    AlterConfigsRequest, DescribeConfigsRequest, IncrementalAlterConfigsRequest, alter_configs,
};

use crate::client::Client;

/// The newest versions that are served.
pub(crate) const DESCRIBE_CONFIGS: i16 = 4;
pub(crate) const ALTER_CONFIGS: i16 = 2;
pub(crate) const INCREMENTAL_ALTER_CONFIGS: i16 = 1;

/// An answer for one resource: the error, and what is said to it.
pub(crate) type Outcome = (ErrorCode, String);

/// Nothing is wrong.
pub(crate) const DONE: Outcome = (ErrorCode::NONE, String::new());

/// A setting as it was described: name, value, source, and the synonyms as name, value, source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Described {
    pub(crate) name: String,
    pub(crate) value: Option<String>,
    pub(crate) source: i8,
    pub(crate) is_read_only: bool,
    pub(crate) kind: i8,
    pub(crate) documentation: Option<String>,
    pub(crate) synonyms: Vec<(String, String, i8)>,
}

/// A change by operation, name and value.
pub(crate) type Change<'a> = (i8, &'a str, Option<&'a str>);

/// A topic's changes, to be asked for.
pub(crate) fn changes<'a>(topic: &'a str, changes: &[Change<'a>]) -> AlterConfigsResource<'a> {
    resource(TOPIC, topic, changes)
}

pub(crate) fn resource<'a>(kind: i8, name: &'a str, changes: &[Change<'a>]) -> AlterConfigsResource<'a> {
    let change =
        |&(config_operation, name, value): &Change<'a>| AlterableConfig { name, config_operation, value };
    AlterConfigsResource {
        resource_type: kind,
        resource_name: name,
        configs: changes.iter().map(change).collect(),
    }
}

/// Changes settings by name; the outcomes in the order of the answer, with the names of the resources.
pub(crate) async fn alter_all<'a>(
    client: &mut Client,
    version: i16,
    resources: Vec<AlterConfigsResource<'a>>,
    validate_only: bool,
) -> Vec<(String, Outcome)> {
    let request = IncrementalAlterConfigsRequest { resources, validate_only };
    let answer = client.ask(version, &request).await;
    let responses = answer.body().responses;
    responses.iter().map(|told| (told.resource_name.to_owned(), outcome(told))).collect()
}

fn outcome(told: &alter_configs::AlterConfigsResourceResponse<'_>) -> Outcome {
    assert_eq!(told.error_message.is_some(), !told.error_code.is_none(), "an error has words: {told:?}");
    (told.error_code, told.error_message.unwrap_or_default().to_owned())
}

/// Changes settings of one topic by name.
pub(crate) async fn alter(client: &mut Client, topic: &str, asked: &[Change<'_>]) -> Outcome {
    let outcomes = alter_all(client, INCREMENTAL_ALTER_CONFIGS, vec![changes(topic, asked)], false).await;
    let [(name, outcome)] = <[_; 1]>::try_from(outcomes).expect("one topic was named");
    assert_eq!(name, topic);
    outcome
}

/// Gives a topic's setting a value, which must be taken.
pub(crate) async fn set(client: &mut Client, topic: &str, name: &str, value: &str) {
    assert_eq!(alter(client, topic, &[(SET, name, Some(value))]).await, DONE);
}

/// Takes a topic's own value of a setting away.
pub(crate) async fn unset(client: &mut Client, topic: &str, name: &str) {
    assert_eq!(alter(client, topic, &[(DELETE, name, None)]).await, DONE);
}

/// Replaces all of a topic's own settings.
pub(crate) async fn replace(
    client: &mut Client,
    version: i16,
    topic: &str,
    settings: &[(&str, Option<&str>)],
) -> Outcome {
    let config = |&(name, value)| alter_configs::AlterableConfig { name, value };
    let resource = alter_configs::AlterConfigsResource {
        resource_type: TOPIC,
        resource_name: topic,
        configs: settings.iter().map(config).collect(),
    };
    let request = AlterConfigsRequest { resources: vec![resource], validate_only: false };
    let answer = client.ask(version, &request).await;
    let responses = answer.body().responses;
    assert_eq!(responses.len(), 1);
    outcome(&responses[0])
}

/// Asks for the settings of one resource, with all there is about them.
pub(crate) async fn describe(
    client: &mut Client,
    version: i16,
    (kind, name): (i8, &str),
    keys: Option<Vec<&str>>,
) -> Result<Vec<Described>, Outcome> {
    let resource =
        DescribeConfigsResource { resource_type: kind, resource_name: name, configuration_keys: keys };
    let request = DescribeConfigsRequest {
        resources: vec![resource],
        include_synonyms: true,
        include_documentation: version >= 3,
    };
    let answer = client.ask(version, &request).await;
    let response = answer.body();
    let [result] = &response.results[..] else { panic!("one resource was named: {response:?}") };
    assert_eq!((result.resource_type, result.resource_name), (kind, name));
    if !result.error_code.is_none() {
        assert!(result.configs.is_empty());
        return Err((result.error_code, result.error_message.unwrap().to_owned()));
    }
    assert_eq!(result.error_message, None);
    let described = result.configs.iter().map(|config| {
        assert!(!config.is_sensitive);
        let synonyms = config.synonyms.iter();
        Described {
            name: config.name.to_owned(),
            value: config.value.map(str::to_owned),
            source: config.config_source,
            is_read_only: config.read_only,
            kind: config.config_type,
            documentation: config.documentation.map(str::to_owned),
            synonyms: synonyms
                .map(|one| (one.name.to_owned(), one.value.unwrap().to_owned(), one.source))
                .collect(),
        }
    });
    Ok(described.collect())
}

/// The topic's own settings, as name and value.
pub(crate) async fn own(client: &mut Client, topic: &str) -> Vec<(String, String)> {
    let described = describe(client, DESCRIBE_CONFIGS, (TOPIC, topic), None).await.unwrap();
    let own = described.into_iter().filter(|setting| setting.source == 1);
    own.map(|setting| (setting.name, setting.value.unwrap())).collect()
}
