//! The topics' own settings.

use net_wire::ErrorCode;
use net_wire::messages::alter_configs::AlterConfigsResourceResponse;
use net_wire::messages::describe_configs::{DescribeConfigsResourceResult, DescribeConfigsResult};
use net_wire::messages::incremental_alter_configs::DELETE;
use net_wire::messages::{
    DescribeConfigsRequest, DescribeConfigsResponse, IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
};

use super::State;

pub(super) fn describe<'a>(
    state: &'a State,
    request: &DescribeConfigsRequest<'a>,
) -> DescribeConfigsResponse<'a> {
    let default = DescribeConfigsResourceResult {
        name: "segment.ms",
        value: Some("1"),
        config_source: 5,
        ..Default::default()
    };
    let results = request.resources.iter().map(|resource| {
        let (resource_type, resource_name) = (resource.resource_type, resource.resource_name);
        let Some(topic) = state.topics.get(resource_name) else {
            let error_code = ErrorCode::UNKNOWN_TOPIC_OR_PARTITION;
            return DescribeConfigsResult { error_code, resource_type, resource_name, ..Default::default() };
        };
        let own = topic.configs.iter().map(|(name, value)| DescribeConfigsResourceResult {
            name,
            value: Some(value),
            config_source: 1,
            ..Default::default()
        });
        let configs = own.chain([default.clone()]).collect();
        DescribeConfigsResult { resource_type, resource_name, configs, ..Default::default() }
    });
    DescribeConfigsResponse { results: results.collect(), ..Default::default() }
}

pub(super) fn alter<'a>(
    state: &mut State,
    request: &IncrementalAlterConfigsRequest<'a>,
) -> IncrementalAlterConfigsResponse<'a> {
    let responses = request.resources.iter().map(|resource| {
        let (resource_type, resource_name) = (resource.resource_type, resource.resource_name);
        let Some(topic) = state.topics.get_mut(resource_name) else {
            let error_code = ErrorCode::UNKNOWN_TOPIC_OR_PARTITION;
            return AlterConfigsResourceResponse {
                error_code,
                resource_type,
                resource_name,
                error_message: None,
            };
        };
        for config in &resource.configs {
            if config.config_operation == DELETE {
                topic.configs.remove(config.name);
            } else {
                topic.configs.insert(config.name.to_owned(), config.value.unwrap().to_owned());
            }
        }
        let error_code = ErrorCode::NONE;
        AlterConfigsResourceResponse { error_code, resource_type, resource_name, error_message: None }
    });
    IncrementalAlterConfigsResponse { responses: responses.collect(), ..Default::default() }
}
