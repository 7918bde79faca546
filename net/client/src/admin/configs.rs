//! The settings of topics: told and changed.

use engine_io::Io;
use net_wire::messages::describe_configs::DescribeConfigsResource;
use net_wire::messages::incremental_alter_configs::{AlterConfigsResource, AlterableConfig, DELETE, SET};
use net_wire::messages::{
    DescribeConfigsRequest, DescribeConfigsResponse, IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
};
use net_wire::{ErrorCode, config_resource};

use super::{Admin, AdminError, Attempts, refused};
use crate::client::ClientError;

/// The protocol's number for a value that a topic has of its own.
const OF_TOPIC: i8 = 1;

/// A setting of a topic.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TopicSetting {
    /// Kafka's name.
    pub name: Box<str>,
    /// Its value; `None` where the broker doesn't tell.
    pub value: Option<Box<str>>,
    /// Whether the topic has it of its own; otherwise it is what the broker gives to all.
    pub is_own: bool,
}

/// What is to become of a topic's own setting.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SettingChange {
    /// Kafka's name.
    pub name: Box<str>,
    /// The new value; `None` where the topic is to have none of its own.
    pub value: Option<Box<str>>,
}

impl<I: Io> Admin<I> {
    /// All settings of a topic, as the broker names them.
    ///
    /// # Errors
    /// See [`AdminError`].
    pub async fn topic_settings(&self, name: &str) -> Result<Vec<TopicSetting>, AdminError> {
        let resource = DescribeConfigsResource {
            resource_type: config_resource::TOPIC,
            resource_name: name,
            configuration_keys: None,
        };
        let request =
            DescribeConfigsRequest { resources: vec![resource], ..DescribeConfigsRequest::default() };
        let mut attempts = Attempts::new(&self.client);
        loop {
            let connection = self.client.any().await?;
            let answer = self.client.ask(&connection, &request).await?;
            let response: DescribeConfigsResponse<'_> = answer.decode().map_err(ClientError::from)?;
            let result = response.results.iter().find(|result| result.resource_name == name);
            let (code, message) = result.map_or((ErrorCode::UNKNOWN_SERVER_ERROR, None), |result| {
                (result.error_code, result.error_message)
            });
            if let Some(result) = result.filter(|_| code.is_none()) {
                let setting = result.configs.iter().map(|config| TopicSetting {
                    name: config.name.into(),
                    value: config.value.map(Box::from),
                    is_own: config.config_source == OF_TOPIC,
                });
                return Ok(setting.collect());
            }
            attempts.again_or(refused(name, code, message)).await?;
        }
    }

    /// Changes a topic's own settings: all these or none.
    ///
    /// # Errors
    /// See [`AdminError`].
    pub async fn alter_topic(&self, name: &str, changes: &[SettingChange]) -> Result<(), AdminError> {
        let configs = changes.iter().map(|change| AlterableConfig {
            name: &change.name,
            config_operation: if change.value.is_some() { SET } else { DELETE },
            value: change.value.as_deref(),
        });
        let resource = AlterConfigsResource {
            resource_type: config_resource::TOPIC,
            resource_name: name,
            configs: configs.collect(),
        };
        let request = IncrementalAlterConfigsRequest { resources: vec![resource], validate_only: false };
        let mut attempts = Attempts::new(&self.client);
        loop {
            let connection = self.controller().await?;
            let answer = self.client.ask(&connection, &request).await?;
            let response: IncrementalAlterConfigsResponse<'_> = answer.decode().map_err(ClientError::from)?;
            let result = response.responses.iter().find(|result| result.resource_name == name);
            let (code, message) = result.map_or((ErrorCode::UNKNOWN_SERVER_ERROR, None), |result| {
                (result.error_code, result.error_message)
            });
            if code.is_none() {
                return Ok(());
            }
            attempts.again_or(refused(name, code, message)).await?;
        }
    }
}
