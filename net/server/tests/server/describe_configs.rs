//! DescribeConfigs: the settings of topics and of the node's brokers.

use net_server::settings::{BROKER_SETTINGS, TOPIC_SETTINGS};
use net_wire::ErrorCode;
use net_wire::config_resource::{BROKER, BROKER_LOGGER, TOPIC};
use net_wire::messages::DescribeConfigsRequest;
use net_wire::messages::describe_configs::DescribeConfigsResource;
use net_wire::{ApiKey, messages::DescribeConfigsResponse};

use crate::calls::impossible_topic_names;
use crate::configs::{DESCRIBE_CONFIGS, Described, describe};
use crate::node::{config, config_with, on_node};
use crate::versions;

fn found<'d>(described: &'d [Described], name: &str) -> &'d Described {
    described.iter().find(|setting| setting.name == name).unwrap()
}

fn synonym(name: &str, value: &str, source: i8) -> (String, String, i8) {
    (name.to_owned(), value.to_owned(), source)
}

#[test]
fn a_topics_settings_are_told_in_every_version_with_where_they_come_from() {
    let file = [("log.retention.hours", "2"), ("num.partitions", "3")];
    on_node(1, config_with(2, &file), async |node| {
        node.topic_with("t", 2, &[("segment.bytes", "1048576")]).await;
        // Whichever shard is asked, and whoever leads the partitions.
        for (version, shard) in versions(ApiKey::DescribeConfigs).zip([0, 1].into_iter().cycle()) {
            let mut client = node.connect(shard).await;
            let told = describe(&mut client, version, (TOPIC, "t"), None).await.unwrap();
            assert_eq!(told.len(), TOPIC_SETTINGS.len(), "v{version}");
            assert!(told.is_sorted_by(|a, b| a.name < b.name));
            assert!(told.iter().all(|setting| !setting.is_read_only));
            let segments = found(&told, "segment.bytes");
            assert_eq!((segments.value.as_deref(), segments.source), (Some("1048576"), 1));
            let set = synonym("segment.bytes", "1048576", 1);
            assert_eq!(segments.synonyms, [set, synonym("log.segment.bytes", "134217728", 5)]);
            let retention = found(&told, "retention.ms");
            assert_eq!((retention.value.as_deref(), retention.source), (Some("7200000"), 4));
            let written = synonym("log.retention.hours", "2", 4);
            assert_eq!(retention.synonyms, [written, synonym("log.retention.hours", "168", 5)]);
            assert_eq!(found(&told, "flush.mode").source, 5);
            let (kinds, words): (Vec<_>, Vec<_>) =
                told.iter().map(|setting| (setting.kind, setting.documentation.is_some())).unzip();
            let are_told = version >= 3;
            assert!(kinds.iter().all(|kind| (*kind != 0) == are_told), "v{version}: {kinds:?}");
            assert!(words.iter().all(|has_words| *has_words || !are_told), "v{version}");
        }
    });
}

#[test]
fn only_named_settings_are_told_and_unknown_ones_left_out() {
    on_node(2, config(1), async |node| {
        node.topic("t", 1).await;
        let mut client = node.connect(0).await;
        for version in versions(ApiKey::DescribeConfigs) {
            for (resource, known) in [((TOPIC, "t"), "segment.ms"), ((BROKER, "1000"), "log.roll.ms")] {
                let keys = Some(vec![known, "no.such.setting", known, ""]);
                let told = describe(&mut client, version, resource, keys).await.unwrap();
                let names: Vec<_> = told.iter().map(|setting| setting.name.as_str()).collect();
                assert_eq!(names, [known], "v{version}");
                let none = describe(&mut client, version, resource, Some(vec!["x"])).await.unwrap();
                assert_eq!(none, [], "v{version}");
                // No names are all names, as in Kafka.
                let all = describe(&mut client, version, resource, Some(Vec::new())).await.unwrap();
                assert!(all.len() > 10, "v{version}");
            }
        }
    });
}

#[test]
fn what_else_there_is_about_a_setting_is_told_where_it_is_asked_for() {
    on_node(3, config(1), async |node| {
        node.topic("t", 1).await;
        let mut client = node.connect(0).await;
        for (include_synonyms, include_documentation) in [(false, true), (true, false), (false, false)] {
            let resources = vec![DescribeConfigsResource {
                resource_type: TOPIC,
                resource_name: "t",
                configuration_keys: None,
            }];
            let request = DescribeConfigsRequest { resources, include_synonyms, include_documentation };
            let answer = client.ask(DESCRIBE_CONFIGS, &request).await;
            let response: DescribeConfigsResponse<'_> = answer.body();
            for config in &response.results[0].configs {
                assert_eq!(config.synonyms.is_empty(), !include_synonyms);
                assert_eq!(config.documentation.is_some(), include_documentation);
            }
        }
    });
}

#[test]
fn the_brokers_settings_are_told_by_each_of_its_ids_and_cannot_be_changed() {
    on_node(4, config_with(2, &[("num.partitions", "3")]), async |node| {
        let mut client = node.connect(1).await;
        for version in versions(ApiKey::DescribeConfigs) {
            for id in ["1000", "1001"] {
                let told = describe(&mut client, version, (BROKER, id), None).await.unwrap();
                assert_eq!(told.len(), BROKER_SETTINGS.len(), "v{version}");
                assert!(told.iter().all(|setting| setting.is_read_only));
                let partitions = found(&told, "num.partitions");
                assert_eq!((partitions.value.as_deref(), partitions.source), (Some("3"), 4));
                assert_eq!(found(&told, "log.retention.hours").value.as_deref(), Some("168"));
                assert_eq!(found(&told, "log.retention.ms").value, None);
            }
            // What all brokers have that don't say otherwise: nothing.
            assert_eq!(describe(&mut client, version, (BROKER, ""), None).await, Ok(Vec::new()));
        }
    });
}

#[test]
fn what_has_no_settings_here_is_refused_with_words() {
    on_node(5, config(1), async |node| {
        let mut client = node.connect(0).await;
        let asked = [
            ((TOPIC, "missing"), ErrorCode::UNKNOWN_TOPIC_OR_PARTITION),
            ((BROKER, "1001"), ErrorCode::INVALID_REQUEST),
            ((BROKER, "2000"), ErrorCode::INVALID_REQUEST),
            ((BROKER, "-1"), ErrorCode::INVALID_REQUEST),
            ((BROKER, "first"), ErrorCode::INVALID_REQUEST),
            ((BROKER_LOGGER, "1000"), ErrorCode::INVALID_REQUEST),
            ((16, "metrics"), ErrorCode::INVALID_REQUEST),
            ((32, "group"), ErrorCode::INVALID_REQUEST),
            ((0, ""), ErrorCode::INVALID_REQUEST),
            ((-7, "t"), ErrorCode::INVALID_REQUEST),
        ];
        for version in versions(ApiKey::DescribeConfigs) {
            for (resource, expected) in asked {
                let (code, words) = describe(&mut client, version, resource, None).await.unwrap_err();
                assert_eq!(code, expected, "{resource:?} in v{version}: {words}");
                assert!(!words.is_empty());
            }
            for name in impossible_topic_names() {
                let refused = describe(&mut client, version, (TOPIC, &name), None).await.unwrap_err();
                assert_eq!(refused.0, ErrorCode::INVALID_TOPIC_EXCEPTION, "`{name}` in v{version}");
            }
        }
    });
}

#[test]
fn a_resource_that_is_named_again_and_again_is_told_once() {
    on_node(6, config(1), async |node| {
        node.topic("t", 1).await;
        let mut client = node.connect(0).await;
        let named = |keys: Option<Vec<&'static str>>| DescribeConfigsResource {
            resource_type: TOPIC,
            resource_name: "t",
            configuration_keys: keys,
        };
        let mut told = async |resources| {
            let request = DescribeConfigsRequest { resources, ..DescribeConfigsRequest::default() };
            let answer = client.ask(DESCRIBE_CONFIGS, &request).await;
            let results = answer.body().results;
            results.iter().map(|result| result.configs.len()).collect::<Vec<_>>()
        };
        assert_eq!(told(vec![named(None); 100_000]).await, [TOPIC_SETTINGS.len()]);
        let apart = vec![named(Some(vec!["segment.ms"])), named(Some(vec!["flush.mode", "segment.ms"]))];
        assert_eq!(told(apart).await, [2]);
        assert_eq!(told(vec![named(Some(vec!["segment.ms"])), named(None)]).await, [TOPIC_SETTINGS.len()]);
    });
}
