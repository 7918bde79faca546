//! AlterConfigs and IncrementalAlterConfigs: what is taken, what is refused, and what is there afterwards.

use net_wire::config_resource::{BROKER, BROKER_LOGGER, TOPIC};
use net_wire::messages::CreateTopicsRequest;
use net_wire::messages::create_topics::{CreatableTopic, CreatableTopicConfig};
use net_wire::messages::incremental_alter_configs::{APPEND, DELETE, SET, SUBTRACT};
use net_wire::{ApiKey, ErrorCode};
use sim::CrashMode;

use crate::calls::impossible_topic_names;
use crate::client::Client;
use crate::configs::{
    ALTER_CONFIGS, Change, DONE, INCREMENTAL_ALTER_CONFIGS, alter, alter_all, changes, own, replace,
    resource, set, unset,
};
use crate::node::{config, config_with, on_node};
use crate::versions;

fn owned(settings: &[(&str, &str)]) -> Vec<(String, String)> {
    settings.iter().map(|&(name, value)| (name.to_owned(), value.to_owned())).collect()
}

#[test]
fn settings_change_by_name_in_every_version_and_stay_through_restart_and_crash() {
    on_node(1, config(2), async |node| {
        node.topic_with("t", 2, &[("segment.bytes", "1048576")]).await;
        for version in versions(ApiKey::IncrementalAlterConfigs) {
            let mut client = node.connect(0).await;
            let age = if version == 0 { " 60000 " } else { "070000" };
            let asked = [
                (SET, "retention.ms", Some(age)),
                (DELETE, "segment.bytes", None),
                (DELETE, "flush.mode", None),
            ];
            let done = alter_all(&mut client, version, vec![changes("t", &asked)], false).await;
            assert_eq!(done, [("t".to_owned(), DONE)], "v{version}");
            // Answered once every shard has it.
            for shard in [0, 1] {
                let own = own(&mut node.connect(shard).await, "t").await;
                assert_eq!(own, owned(&[("retention.ms", if version == 0 { "60000" } else { "70000" })]));
            }
        }
        let node = node.restart_after(CrashMode::LoseAllUnflushed).await;
        assert_eq!(own(&mut node.connect(1).await, "t").await, owned(&[("retention.ms", "70000")]));
        unset(&mut node.connect(1).await, "t", "retention.ms").await;
        let node = node.restart().await;
        assert_eq!(own(&mut node.connect(0).await, "t").await, []);
    });
}

#[test]
fn settings_are_replaced_as_a_whole_in_every_version() {
    on_node(2, config(1), async |node| {
        let mut client = node.connect(0).await;
        for version in versions(ApiKey::AlterConfigs) {
            let name = format!("t{version}");
            node.topic_with(&name, 1, &[("segment.bytes", "1048576"), ("flush.mode", "isr")]).await;
            let settings = [("flush.mode", Some("async")), ("segment.ms", Some("60000"))];
            assert_eq!(replace(&mut client, version, &name, &settings).await, DONE, "v{version}");
            let after = owned(&[("flush.mode", "async"), ("segment.ms", "60000")]);
            assert_eq!(own(&mut client, &name).await, after);
            assert_eq!(replace(&mut client, version, &name, &[]).await, DONE);
            assert_eq!(own(&mut client, &name).await, []);
            let refused = replace(&mut client, version, &name, &[("flush.mode", None)]).await;
            assert_eq!(refused.0, ErrorCode::INVALID_REQUEST, "v{version}: {refused:?}");
        }
    });
}

#[test]
fn lists_are_added_to_and_taken_from_and_nothing_else_is() {
    on_node(3, config(1), async |node| {
        node.topic("t", 1).await;
        let mut client = node.connect(0).await;
        assert_eq!(alter(&mut client, "t", &[(APPEND, "cleanup.policy", Some("delete"))]).await, DONE);
        assert_eq!(own(&mut client, "t").await, owned(&[("cleanup.policy", "delete")]));
        assert_eq!(alter(&mut client, "t", &[(SUBTRACT, "cleanup.policy", Some("compact"))]).await, DONE);
        let refused: [Change<'_>; 4] = [
            (APPEND, "cleanup.policy", Some("compact")),
            (SUBTRACT, "cleanup.policy", Some("delete")),
            (APPEND, "retention.ms", Some("1")),
            (SUBTRACT, "retention.ms", Some("1")),
        ];
        for change in refused {
            let (code, words) = alter(&mut client, "t", &[change]).await;
            assert_eq!(code, ErrorCode::INVALID_CONFIG, "{change:?}: {words}");
        }
        assert_eq!(own(&mut client, "t").await, owned(&[("cleanup.policy", "delete")]));
    });
}

async fn refused_with(client: &mut Client, topic: &str, asked: &[Change<'_>], code: ErrorCode, part: &str) {
    let (told, words) = alter(client, topic, asked).await;
    assert_eq!(told, code, "{topic} {asked:?}: {words}");
    assert!(words.contains(part), "{words}");
}

#[test]
fn what_is_wrong_is_refused_with_words_and_nothing_of_it_is_done() {
    on_node(4, config(1), async |node| {
        node.topic("t", 1).await;
        let mut client = node.connect(0).await;
        let (config, request) = (ErrorCode::INVALID_CONFIG, ErrorCode::INVALID_REQUEST);
        let good = (SET, "segment.ms", Some("1000"));
        let wrong: [(&[Change<'_>], ErrorCode, &str); 9] = [
            (&[good, (SET, "retention.m", Some("1"))], config, "did you mean `retention.ms`"),
            (&[good, (DELETE, "retention.m", None)], config, "unknown setting"),
            (&[good, (SET, "retention.ms", Some("soon"))], config, "`soon` is not"),
            (&[good, (SET, "cleanup.policy", Some("compact"))], config, "not supported"),
            (&[good, (SET, "max.message.bytes", Some("60"))], config, "from 61"),
            (&[good, (SET, "retention.ms", None)], request, "has no value"),
            (&[good, (APPEND, "cleanup.policy", None)], request, "has no value"),
            (&[good, (DELETE, "segment.ms", None)], request, "more than once"),
            (&[good, (9, "retention.ms", Some("1"))], request, "9 is no operation"),
        ];
        for (asked, code, part) in wrong {
            refused_with(&mut client, "t", asked, code, part).await;
        }
        let unknown = ErrorCode::UNKNOWN_TOPIC_OR_PARTITION;
        refused_with(&mut client, "missing", &[good], unknown, "does not exist").await;
        for name in impossible_topic_names() {
            let code = if name.is_empty() { request } else { ErrorCode::INVALID_TOPIC_EXCEPTION };
            refused_with(&mut client, &name, &[good], code, "").await;
            assert_eq!(replace(&mut client, ALTER_CONFIGS, &name, &[]).await.0, code);
        }
        assert_eq!(own(&mut client, "t").await, []);
        assert_eq!(replace(&mut client, ALTER_CONFIGS, "missing", &[]).await.0, unknown);
        let bad = replace(&mut client, ALTER_CONFIGS, "t", &[("x", Some("1"))]).await;
        assert_eq!(bad.0, config);
    });
}

/// Creates a topic with a setting: the error, and what is said of it.
async fn create(client: &mut Client, name: &str, setting: &str, value: &str) -> (ErrorCode, String) {
    let topic = CreatableTopic {
        name,
        num_partitions: 1,
        replication_factor: 1,
        assignments: Vec::new(),
        configs: vec![CreatableTopicConfig { name: setting, value: Some(value) }],
    };
    let request = CreateTopicsRequest { topics: vec![topic], ..CreateTopicsRequest::default() };
    let answer = client.ask(7, &request).await;
    let created = &answer.body().topics[0];
    (created.error_code, created.error_message.unwrap_or_default().to_owned())
}

/// The node's memory for batches bounds the largest batch.
#[test]
fn a_batch_that_memory_has_no_room_for_is_refused_before_anything_changes() {
    let mut small = config(2);
    small.limits.pool_bytes = 8 << 20;
    on_node(5, small, async |node| {
        let topic = node.topic("t", 1).await;
        let mut client = node.connect(1).await;
        let asked = [(SET, "max.message.bytes", Some("8000000"))];
        let words = "does not fit a pool of 8388608 bytes";
        let created = create(&mut client, "large", "max.message.bytes", "8000000").await;
        assert!(created.0 == ErrorCode::INVALID_CONFIG && created.1.contains(words), "{created:?}");
        refused_with(&mut client, "t", &asked, ErrorCode::INVALID_CONFIG, words).await;
        let replaced =
            replace(&mut client, ALTER_CONFIGS, "t", &[("max.message.bytes", Some("8000000"))]).await;
        assert_eq!(replaced.0, ErrorCode::INVALID_CONFIG);
        set(&mut client, "t", "max.message.bytes", "2000000").await;
        let node = node.restart_after(CrashMode::KeepAll).await;
        assert!(node.opened().iter().all(|shard| shard.offline == 0));
        assert_eq!(node.describe("t").await.id, topic.id);
    });
}

#[test]
fn what_is_only_to_be_checked_is_not_done() {
    on_node(6, config(1), async |node| {
        node.topic("t", 1).await;
        let mut client = node.connect(0).await;
        for version in versions(ApiKey::IncrementalAlterConfigs) {
            let asked = vec![
                changes("t", &[(SET, "segment.ms", Some("1000"))]),
                changes("missing", &[(SET, "segment.ms", Some("1000"))]),
            ];
            let codes: Vec<_> = alter_all(&mut client, version, asked, true).await;
            let codes: Vec<_> = codes.into_iter().map(|(_, (code, _))| code).collect();
            assert_eq!(codes, [ErrorCode::NONE, ErrorCode::UNKNOWN_TOPIC_OR_PARTITION], "v{version}");
            assert_eq!(own(&mut client, "t").await, []);
        }
    });
}

#[test]
fn many_topics_are_changed_together_each_for_itself_and_one_named_twice_not_at_all() {
    on_node(7, config(2), async |node| {
        let names: Vec<_> = (0..100).map(|number| format!("t{number}")).collect();
        for name in &names {
            node.topic(name, 1).await;
        }
        let mut client = node.connect(0).await;
        let one = |name| changes(name, &[(SET, "segment.ms", Some("1000"))]);
        let mut asked: Vec<_> = names.iter().map(|name| one(name.as_str())).collect();
        asked.insert(50, one("missing"));
        asked.insert(10, changes("t99", &[(SET, "flush.mode", Some("isr"))]));
        let outcomes = alter_all(&mut client, INCREMENTAL_ALTER_CONFIGS, asked, false).await;
        assert_eq!(outcomes.len(), 101, "each is answered once");
        for (name, (code, words)) in &outcomes {
            let expected = match name.as_str() {
                "t99" => ErrorCode::INVALID_REQUEST,
                "missing" => ErrorCode::UNKNOWN_TOPIC_OR_PARTITION,
                _ => ErrorCode::NONE,
            };
            assert_eq!(*code, expected, "{name}: {words}");
        }
        assert_eq!(outcomes[10].0, "t99", "at its first mention");
        assert_eq!(own(&mut client, "t99").await, []);
        assert_eq!(own(&mut node.connect(1).await, "t98").await, owned(&[("segment.ms", "1000")]));
    });
}

#[test]
fn the_brokers_settings_are_said_to_be_in_its_configuration_file() {
    on_node(8, config_with(1, &[]), async |node| {
        let mut client = node.connect(0).await;
        let asked: Vec<_> = [
            (BROKER, "1000"),
            (BROKER, ""),
            (BROKER, "2000"),
            (BROKER_LOGGER, "1000"),
            (32, "group"),
            (TOPIC, ""),
        ]
        .map(|(kind, name)| resource(kind, name, &[(SET, "log.retention.ms", Some("1000"))]))
        .to_vec();
        for version in versions(ApiKey::IncrementalAlterConfigs) {
            let outcomes = alter_all(&mut client, version, asked.clone(), false).await;
            assert!(
                outcomes.iter().all(|(_, (code, _))| *code == ErrorCode::INVALID_REQUEST),
                "{outcomes:?}"
            );
            for (_, (_, words)) in &outcomes[..2] {
                assert!(words.contains("configuration file"), "{words}");
            }
        }
        let nothing = vec![resource(BROKER, "1000", &[])];
        let done = alter_all(&mut client, INCREMENTAL_ALTER_CONFIGS, nothing, false).await;
        assert_eq!(done, [("1000".to_owned(), DONE)]);
    });
}
