//! CreateTopics.

use core::time::Duration;

use engine_io::Io;
use net_wire::messages::CreateTopicsRequest;
use net_wire::messages::create_topics::{CreatableReplicaAssignment, CreatableTopic, CreatableTopicConfig};
use net_wire::{ApiKey, ErrorCode, Uuid};
use sim::{CrashMode, DiskLatency};

use crate::batches::{batch, large};
use crate::calls::{Produce, produce};
use crate::client::Client;
use crate::node::{FIRST_BROKER, config, config_with, on_node};
use crate::versions;

const NEWEST: i16 = 7;
/// From this version on the answer tells counts and settings.
const TOLD_FROM: i16 = 5;

fn topic(name: &str) -> CreatableTopic<'_> {
    CreatableTopic {
        name,
        num_partitions: 1,
        replication_factor: 1,
        assignments: Vec::new(),
        configs: Vec::new(),
    }
}

fn with_setting<'a>(name: &'a str, setting: &'a str, value: Option<&'a str>) -> CreatableTopic<'a> {
    CreatableTopic { configs: vec![CreatableTopicConfig { name: setting, value }], ..topic(name) }
}

/// A topic with its partitions on the brokers named.
fn assigned<'a>(name: &'a str, partitions: &[(i32, &[i32])]) -> CreatableTopic<'a> {
    let assignment = |&(partition_index, brokers): &(i32, &[i32])| CreatableReplicaAssignment {
        partition_index,
        broker_ids: brokers.to_vec(),
    };
    CreatableTopic {
        num_partitions: -1,
        replication_factor: -1,
        assignments: partitions.iter().map(assignment).collect(),
        ..topic(name)
    }
}

fn request(topics: Vec<CreatableTopic<'_>>) -> CreateTopicsRequest<'_> {
    CreateTopicsRequest { topics, timeout_ms: 10_000, validate_only: false }
}

/// What is answered for one topic, which must come with words where it is an error.
async fn create(client: &mut Client, version: i16, topic: CreatableTopic<'_>) -> ErrorCode {
    outcome(client, version, &request(vec![topic])).await
}

async fn outcome(client: &mut Client, version: i16, request: &CreateTopicsRequest<'_>) -> ErrorCode {
    let answer = client.ask(version, request).await;
    let response = answer.body();
    let [told] = &response.topics[..] else { panic!("one topic was asked for: {response:?}") };
    assert_eq!(told.error_message.is_some(), !told.error_code.is_none(), "{told:?}");
    told.error_code
}

#[test]
fn every_version_creates_a_topic_and_tells_what_it_knows_of_it() {
    on_node(1, config(2), async |node| {
        let mut client = node.connect(0).await;
        for version in versions(ApiKey::CreateTopics) {
            let name = format!("t{version}");
            let wanted = CreatableTopic { num_partitions: 3, ..topic(&name) };
            let answer = client.ask(version, &request(vec![wanted])).await;
            let response = answer.body();
            let told = &response.topics[0];
            assert_eq!(
                (told.name, told.error_code, told.error_message),
                (name.as_str(), ErrorCode::NONE, None)
            );
            let counts = if version >= TOLD_FROM { (3, 1) } else { (-1, -1) };
            assert_eq!((told.num_partitions, told.replication_factor), counts, "v{version}");
            let described = node.describe(&name).await;
            assert_eq!(described.leaders.len(), 3);
            assert_eq!(told.topic_id, if version >= 7 { described.id } else { Uuid::ZERO }, "v{version}");
        }
    });
}

#[test]
fn a_created_topic_is_served_by_every_shard_at_once() {
    on_node(2, config(3), async |node| {
        for (round, shard) in [0, 1, 2, 0, 1, 2].into_iter().enumerate() {
            let name = format!("t{round}");
            let wanted = CreatableTopic { num_partitions: 6, ..topic(&name) };
            let mut client = node.connect(shard).await;
            assert_eq!(create(&mut client, NEWEST, wanted).await, ErrorCode::NONE);
            let created = node.describe(&name).await;
            for partition in 0..6 {
                let mut leader = node.connect_to_leader(&created, partition).await;
                assert_eq!(produce(&mut leader, &created, partition, &batch(&["at once"])).await, 0);
            }
        }
    });
}

#[test]
fn minus_1_means_the_brokers_defaults() {
    on_node(3, config_with(1, &[("num.partitions", "4")]), async |node| {
        let mut client = node.connect(0).await;
        for version in versions(ApiKey::CreateTopics) {
            let name = format!("t{version}");
            let wanted = CreatableTopic { num_partitions: -1, replication_factor: -1, ..topic(&name) };
            assert_eq!(create(&mut client, version, wanted).await, ErrorCode::NONE, "v{version}");
            assert_eq!(node.describe(&name).await.leaders.len(), 4);
        }
    });
}

#[test]
fn all_settings_are_told_with_where_they_come_from() {
    on_node(4, config_with(1, &[("log.segment.bytes", "2097152")]), async |node| {
        let mut client = node.connect(0).await;
        for version in TOLD_FROM..=NEWEST {
            let name = format!("t{version}");
            let answer = client
                .ask(version, &request(vec![with_setting(&name, "max.message.bytes", Some("5000"))]))
                .await;
            let response = answer.body();
            let configs = response.topics[0].configs.as_ref().unwrap();
            let told = |name: &str| {
                let setting = configs.iter().find(|setting| setting.name == name).unwrap();
                (setting.value.unwrap().to_owned(), setting.config_source, setting.is_sensitive)
            };
            let (of_topic, of_default) = (1, 5);
            assert_eq!(told("max.message.bytes"), ("5000".to_owned(), of_topic, false), "v{version}");
            assert_eq!(told("min.insync.replicas"), ("1".to_owned(), of_default, false));
            assert_eq!(told("cleanup.policy"), ("delete".to_owned(), of_default, false));
            assert_eq!(told("segment.bytes").0, "2097152", "the broker's setting is the topic's default");
        }
    });
}

#[test]
fn settings_take_effect_for_their_topic_alone() {
    on_node(5, config(1), async |node| {
        let strict = node.topic_with("strict", 1, &[("max.message.bytes", "500")]).await;
        let lax = node.topic("lax", 1).await;
        let mut client = node.connect(0).await;
        let records = large(1000);
        let refused = Produce::new(&strict, 0, &records).call(&mut client).await;
        assert_eq!(refused.error, ErrorCode::MESSAGE_TOO_LARGE);
        assert_eq!(produce(&mut client, &lax, 0, &records).await, 0);
    });
}

#[test]
fn names_that_are_taken_or_cannot_be_are_refused() {
    on_node(6, config(1), async |node| {
        node.topic("a.b", 1).await;
        let mut client = node.connect(0).await;
        let too_long = "x".repeat(250);
        for version in versions(ApiKey::CreateTopics) {
            assert_eq!(create(&mut client, version, topic("a.b")).await, ErrorCode::TOPIC_ALREADY_EXISTS);
            for name in ["a_b", "", ".", "..", "a b", "a/b", "naïve", too_long.as_str()] {
                let error = create(&mut client, version, topic(name)).await;
                assert_eq!(error, ErrorCode::INVALID_TOPIC_EXCEPTION, "`{name}` in v{version}");
            }
        }
        assert_eq!(create(&mut client, NEWEST, topic(&too_long[1..])).await, ErrorCode::NONE);
    });
}

#[test]
fn counts_that_cannot_be_are_refused() {
    on_node(7, config(1), async |node| {
        let mut client = node.connect(0).await;
        for version in versions(ApiKey::CreateTopics) {
            for num_partitions in [0, -2, i32::MIN, i32::MAX] {
                let wanted = CreatableTopic { num_partitions, ..topic("t") };
                let error = create(&mut client, version, wanted).await;
                assert_eq!(error, ErrorCode::INVALID_PARTITIONS, "{num_partitions} in v{version}");
            }
            // There is one node, however many shards it has.
            for replication_factor in [0, -2, 2, i16::MAX, i16::MIN] {
                let wanted = CreatableTopic { replication_factor, ..topic("t") };
                let error = create(&mut client, version, wanted).await;
                assert_eq!(
                    error,
                    ErrorCode::INVALID_REPLICATION_FACTOR,
                    "{replication_factor} in v{version}"
                );
            }
        }
        assert!(node.try_describe("t").await.is_err());
    });
}

#[test]
fn an_assignment_puts_each_partition_where_it_says() {
    on_node(8, config(3), async |node| {
        let mut client = node.connect(0).await;
        for version in versions(ApiKey::CreateTopics) {
            let name = format!("t{version}");
            let wanted = assigned(&name, &[(2, &[1001]), (0, &[1002]), (1, &[1000]), (3, &[1002])]);
            assert_eq!(create(&mut client, version, wanted).await, ErrorCode::NONE, "v{version}");
            let created = node.describe(&name).await;
            assert_eq!(created.leaders, [1002, 1000, 1001, 1002]);
            let mut leader = node.connect(2).await;
            assert_eq!(produce(&mut leader, &created, 3, &batch(&["there"])).await, 0);
        }
    });
}

#[test]
fn assignments_that_cannot_be_are_refused() {
    on_node(9, config(2), async |node| {
        let mut client = node.connect(0).await;
        let cases: [&[(i32, &[i32])]; 9] = [
            &[(0, &[1007])],
            &[(0, &[2000])],
            &[(0, &[-1])],
            &[(0, &[])],
            &[(1, &[1000])],
            &[(0, &[1000]), (2, &[1000])],
            &[(0, &[1000]), (0, &[1001])],
            &[(0, &[1000, 1000])],
            // Two endpoints of one node are one point of failure.
            &[(0, &[1000, 1001])],
        ];
        for version in versions(ApiKey::CreateTopics) {
            for partitions in cases {
                let error = create(&mut client, version, assigned("t", partitions)).await;
                assert_eq!(error, ErrorCode::INVALID_REPLICA_ASSIGNMENT, "{partitions:?} in v{version}");
            }
            for (num_partitions, replication_factor) in [(1, -1), (-1, 1), (1, 1)] {
                let both =
                    CreatableTopic { num_partitions, replication_factor, ..assigned("t", &[(0, &[1000])]) };
                assert_eq!(create(&mut client, version, both).await, ErrorCode::INVALID_REQUEST);
            }
        }
    });
}

#[test]
fn settings_that_are_unknown_or_out_of_range_are_refused() {
    on_node(10, config(1), async |node| {
        let mut client = node.connect(0).await;
        let cases = [
            ("no.such.setting", Some("1")),
            ("max.message.bytes", Some("many")),
            ("max.message.bytes", Some("-5")),
            ("max.message.bytes", Some("")),
            ("max.message.bytes", None),
            ("message.timestamp.type", Some("WallClock")),
            ("cleanup.policy", Some("compact")),
            ("min.insync.replicas", Some("0")),
        ];
        for version in versions(ApiKey::CreateTopics) {
            for (setting, value) in cases {
                let error = create(&mut client, version, with_setting("t", setting, value)).await;
                assert_eq!(error, ErrorCode::INVALID_CONFIG, "{setting}={value:?} in v{version}");
            }
        }
        assert!(node.try_describe("t").await.is_err());
    });
}

#[test]
fn of_a_setting_given_twice_the_last_counts() {
    on_node(14, config(2), async |node| {
        let mut client = node.connect(0).await;
        let setting = |value| CreatableTopicConfig { name: "max.message.bytes", value: Some(value) };
        for version in versions(ApiKey::CreateTopics) {
            let name = format!("t{version}");
            let configs = vec![setting("1000"), setting("2000")];
            let wanted = CreatableTopic { configs, ..topic(&name) };
            let answer = client.ask(version, &request(vec![wanted])).await;
            let response = answer.body();
            let told = &response.topics[0];
            assert_eq!(told.error_code, ErrorCode::NONE, "v{version}");
            let mut configs = told.configs.iter().flatten();
            let told = configs.find(|config| config.name == "max.message.bytes");
            let value = told.and_then(|config| config.value);
            assert_eq!(value, (version >= TOLD_FROM).then_some("2000"), "v{version}");
        }
    });
}

#[test]
fn a_topic_named_twice_is_refused_once_and_spoils_no_other() {
    on_node(11, config(1), async |node| {
        let mut client = node.connect(0).await;
        let topics = vec![topic("twice"), topic("good"), topic("twice"), topic("a b")];
        let answer = client.ask(NEWEST, &request(topics)).await;
        let told: Vec<_> =
            answer.body().topics.iter().map(|told| (told.name.to_owned(), told.error_code.0)).collect();
        let expected = [("twice", 42), ("good", 0), ("a b", 17)].map(|(name, code)| (name.to_owned(), code));
        assert_eq!(told, expected);
        assert!(node.try_describe("twice").await.is_err());
        assert!(node.try_describe("good").await.is_ok());
    });
}

#[test]
fn validating_finds_the_same_errors_and_creates_nothing() {
    on_node(12, config(1), async |node| {
        node.topic("taken", 1).await;
        let mut client = node.connect(0).await;
        let validate = |topic| CreateTopicsRequest { validate_only: true, ..request(vec![topic]) };
        for version in versions(ApiKey::CreateTopics) {
            let answer =
                client.ask(version, &validate(CreatableTopic { num_partitions: 5, ..topic("t") })).await;
            let response = answer.body();
            let told = &response.topics[0];
            assert_eq!((told.error_code, told.topic_id), (ErrorCode::NONE, Uuid::ZERO), "v{version}");
            assert_eq!(told.num_partitions, if version >= TOLD_FROM { 5 } else { -1 }, "v{version}");
            let cases = [
                (topic("taken"), ErrorCode::TOPIC_ALREADY_EXISTS),
                (topic("a b"), ErrorCode::INVALID_TOPIC_EXCEPTION),
                (CreatableTopic { num_partitions: 0, ..topic("t") }, ErrorCode::INVALID_PARTITIONS),
                (
                    CreatableTopic { replication_factor: 9, ..topic("t") },
                    ErrorCode::INVALID_REPLICATION_FACTOR,
                ),
                (assigned("t", &[(0, &[5])]), ErrorCode::INVALID_REPLICA_ASSIGNMENT),
                (with_setting("t", "nonsense", Some("1")), ErrorCode::INVALID_CONFIG),
            ];
            for (wrong, expected) in cases {
                assert_eq!(outcome(&mut client, version, &validate(wrong)).await, expected, "v{version}");
            }
        }
        assert_eq!(node.try_describe("t").await, Err(ErrorCode::UNKNOWN_TOPIC_OR_PARTITION));
    });
}

#[test]
fn the_partitions_of_a_large_topic_are_opened_some_at_a_time() {
    on_node(20, config(1), async |node| {
        let millisecond = Duration::from_millis(1);
        let each = millisecond..=millisecond;
        let latency = DiskLatency { metadata: each.clone(), flush: each, ..DiskLatency::default() };
        node.machine().disk().set_latency(latency);
        let begun_at = node.setting().io.now();
        node.topic("large", 2_000).await;
        let took = node.setting().io.now().since(begun_at);
        assert!(took < 2_000 * millisecond, "each takes more than one turn of the disk: {took:?}");
        let begun_at = node.setting().io.now();
        let node = node.restart_after(CrashMode::KeepAll).await;
        let took = node.setting().io.now().since(begun_at);
        assert!(took < 2_000 * millisecond, "also at a start: {took:?}");
        assert_eq!((node.opened()[0].partitions, node.opened()[0].offline), (2_000, 0));
    });
}

#[test]
fn topics_that_are_not_created_in_time_say_so_and_may_come_later() {
    on_node(60, config(2), async |node| {
        let slow = Duration::from_millis(300);
        node.machine().disk().set_latency(DiskLatency { flush: slow..=slow, ..DiskLatency::default() });
        let mut client = node.connect(0).await;
        for (timeout_ms, name) in [(100, "late"), (0, "none"), (-1, "negative")] {
            let begun_at = client.now();
            let request = CreateTopicsRequest {
                topics: vec![topic(name), CreatableTopic { num_partitions: 0, ..topic("refused") }],
                timeout_ms,
                validate_only: false,
            };
            let answer = client.ask(NEWEST, &request).await;
            assert!(client.now().since(begun_at) < Duration::from_millis(200));
            let codes: Vec<_> =
                answer.body().topics.iter().map(|told| (told.name, told.error_code)).collect();
            assert_eq!(
                codes,
                [(name, ErrorCode::REQUEST_TIMED_OUT), ("refused", ErrorCode::INVALID_PARTITIONS)]
            );
            node.pause(Duration::from_secs(5)).await;
            assert!(node.try_describe(name).await.is_ok(), "it was created all the same");
        }
    });
}

#[test]
fn the_topics_of_one_request_are_made_durable_together_and_placed_level() {
    on_node(61, config(2), async |node| {
        let slow = Duration::from_millis(50);
        node.machine().disk().set_latency(DiskLatency { flush: slow..=slow, ..DiskLatency::default() });
        let names: Vec<_> = (0..256).map(|number| format!("t{number}")).collect();
        let mut client = node.connect(0).await;
        let begun_at = client.now();
        let answer =
            client.ask(NEWEST, &request(names.iter().map(String::as_str).map(topic).collect())).await;
        let took = client.now().since(begun_at);
        assert!(took < Duration::from_secs(5), "{took:?}");
        let told: Vec<_> = answer.body().topics.iter().map(|told| (told.name, told.error_code)).collect();
        let wanted: Vec<_> = names.iter().map(|name| (name.as_str(), ErrorCode::NONE)).collect();
        assert_eq!(told, wanted, "in the order of the request");
        let mut on_first = 0;
        for name in &names {
            on_first += usize::from(node.describe(name).await.leaders == [FIRST_BROKER]);
        }
        assert_eq!(on_first, 128);
    });
}

#[test]
fn topics_of_one_request_that_collide_are_not_both_created() {
    on_node(62, config(1), async |node| {
        let mut client = node.connect(0).await;
        let answer = client.ask(NEWEST, &request(vec![topic("a.b"), topic("a_b"), topic("c")])).await;
        let codes: Vec<_> = answer.body().topics.iter().map(|told| told.error_code).collect();
        assert_eq!(codes, [ErrorCode::NONE, ErrorCode::INVALID_TOPIC_EXCEPTION, ErrorCode::NONE]);
    });
}
