//! Metadata: brokers, topics, leaders.

use net_wire::messages::MetadataRequest;
use net_wire::messages::metadata::{MetadataRequestTopic, OPERATIONS_NOT_ASKED};
use net_wire::{ApiKey, ErrorCode, Uuid};

use crate::batches::batch;
use crate::calls::produce;
use crate::client::Client;
use crate::node::{FIRST_BROKER, Node, config, config_with, on_node};
use crate::versions;

/// From this version on a request can forbid to create topics.
const MAY_FORBID_FROM: i16 = 4;
/// From these versions on topics can be asked for by id.
const BY_ID: core::ops::RangeInclusive<i16> = 12..=13;

fn by_names<'a>(names: &[&'a str], may_create: bool) -> MetadataRequest<'a> {
    let topic = |&name| MetadataRequestTopic { name: Some(name), topic_id: Uuid::ZERO };
    MetadataRequest {
        topics: Some(names.iter().map(topic).collect()),
        allow_auto_topic_creation: may_create,
        ..MetadataRequest::default()
    }
}

fn by_id(id: Uuid) -> MetadataRequest<'static> {
    let topics = Some(vec![MetadataRequestTopic { name: None, topic_id: id }]);
    MetadataRequest { topics, ..MetadataRequest::default() }
}

/// Name, error and partition count of each topic in the answer.
async fn topics(
    client: &mut Client,
    version: i16,
    request: &MetadataRequest<'_>,
) -> Vec<(String, ErrorCode, usize)> {
    let answer = client.ask(version, request).await;
    let topic = |topic: net_wire::messages::metadata::MetadataResponseTopic<'_>| {
        (topic.name.unwrap_or("(null)").to_owned(), topic.error_code, topic.partitions.len())
    };
    answer.body().topics.into_iter().map(topic).collect()
}

async fn exists(node: &Node, name: &str) -> bool {
    node.try_describe(name).await.is_ok()
}

#[test]
fn every_version_names_the_cluster_its_brokers_and_a_topics_leaders() {
    on_node(1, config(2), async |node| {
        let topic = node.topic("t", 4).await;
        for shard in 0..2 {
            let mut client = node.connect(shard).await;
            for version in versions(ApiKey::Metadata) {
                let answer = client.ask(version, &by_names(&["t"], true)).await;
                let response = answer.body();
                assert_eq!(response.cluster_id.map(str::len), (version >= 2).then_some(22), "v{version}");
                assert_eq!(response.controller_id, if version >= 1 { FIRST_BROKER } else { -1 });
                assert_eq!(response.error_code, ErrorCode::NONE);
                let host = node.address(0).ip().to_string();
                let brokers: Vec<_> = response.brokers.iter().map(|b| (b.node_id, b.host, b.port)).collect();
                assert_eq!(brokers, [(1000, host.as_str(), 9092), (1001, host.as_str(), 9093)], "v{version}");
                let [told] = &response.topics[..] else { panic!("one topic was asked: {response:?}") };
                assert_eq!(
                    (told.name, told.error_code, told.is_internal),
                    (Some("t"), ErrorCode::NONE, false)
                );
                assert_eq!(told.topic_id, if version >= 10 { topic.id } else { Uuid::ZERO }, "v{version}");
                let leaders: Vec<_> = told.partitions.iter().map(|partition| partition.leader_id).collect();
                assert_eq!(leaders, topic.leaders, "v{version}");
                for partition in &told.partitions {
                    assert_eq!(partition.error_code, ErrorCode::NONE);
                    assert_eq!(partition.leader_epoch, if version >= 7 { 0 } else { -1 }, "v{version}");
                    let replicas = [partition.leader_id];
                    assert_eq!(
                        (&partition.replica_nodes[..], &partition.isr_nodes[..]),
                        (&replicas[..], &replicas[..])
                    );
                    assert_eq!(partition.offline_replicas, [0_i32; 0]);
                }
            }
        }
    });
}

#[test]
fn a_topics_leaders_are_spread_evenly_over_the_shards() {
    on_node(2, config(3), async |node| {
        for partitions in [3, 6, 30] {
            let topic = node.topic(&format!("t{partitions}"), partitions).await;
            for broker in FIRST_BROKER..FIRST_BROKER + 3 {
                let led = topic.leaders.iter().filter(|leader| **leader == broker).count();
                assert_eq!(led * 3, topic.leaders.len(), "broker {broker} of {topic:?}");
            }
        }
    });
}

#[test]
fn null_asks_for_all_topics_and_an_empty_list_for_none_but_in_version_0() {
    on_node(3, config(1), async |node| {
        node.topic("b", 2).await;
        node.topic("a", 1).await;
        let mut client = node.connect(0).await;
        let all = [("a".to_owned(), ErrorCode::NONE, 1), ("b".to_owned(), ErrorCode::NONE, 2)];
        for version in versions(ApiKey::Metadata) {
            let mut of_none = topics(&mut client, version, &by_names(&[], true)).await;
            of_none.sort();
            if version == 0 {
                assert_eq!(of_none, all);
                continue;
            }
            assert_eq!(of_none, [], "v{version}");
            let request = MetadataRequest { topics: None, ..MetadataRequest::default() };
            let mut of_null = topics(&mut client, version, &request).await;
            of_null.sort();
            assert_eq!(of_null, all, "v{version}");
        }
    });
}

#[test]
fn a_topic_is_found_by_its_id_and_an_unknown_id_is_said_to_be() {
    on_node(4, config(1), async |node| {
        let topic = node.topic("t", 2).await;
        let mut client = node.connect(0).await;
        for version in BY_ID {
            let answer = client.ask(version, &by_id(topic.id)).await;
            let [found] = &answer.body().topics[..] else { panic!("one topic was asked") };
            assert_eq!((found.name, found.topic_id, found.partitions.len()), (Some("t"), topic.id, 2));
            let unknown = Uuid([7; 16]);
            let answer = client.ask(version, &by_id(unknown)).await;
            let [missing] = &answer.body().topics[..] else { panic!("one topic was asked") };
            assert_eq!(missing.error_code, ErrorCode::UNKNOWN_TOPIC_ID, "v{version}");
            assert_eq!((missing.name, missing.topic_id), (None, unknown), "v{version}");
        }
    });
}

#[test]
fn a_topic_that_is_asked_for_is_created_with_the_defaults() {
    on_node(5, config_with(2, &[("num.partitions", "3")]), async |node| {
        let mut client = node.connect(1).await;
        for version in versions(ApiKey::Metadata) {
            let name = format!("auto-{version}");
            let told = topics(&mut client, version, &by_names(&[&name], true)).await;
            let [(told_name, error, partitions)] = &told[..] else { panic!("one topic was asked: {told:?}") };
            assert_eq!(told_name, &name);
            let ready = (*error, *partitions) == (ErrorCode::NONE, 3);
            assert!(ready || *error == ErrorCode::LEADER_NOT_AVAILABLE, "v{version}: {told:?}");
            let topic = node.describe(&name).await;
            let mut leader = node.connect_to_leader(&topic, 2).await;
            assert_eq!(produce(&mut leader, &topic, 2, &batch(&["at once"])).await, 0);
        }
    });
}

#[test]
fn a_topic_asked_for_many_times_is_answered_once() {
    on_node(14, config(2), async |node| {
        let topic = node.topic("t", 4).await;
        let mut client = node.connect(0).await;
        let names: Vec<&str> = ["t", "new"].into_iter().cycle().take(10_000).collect();
        for version in versions(ApiKey::Metadata) {
            let told = topics(&mut client, version, &by_names(&names, true)).await;
            let told: Vec<_> = told.iter().map(|(name, ..)| name.as_str()).collect();
            assert_eq!(told, ["t", "new"], "v{version}");
        }
        for version in BY_ID {
            let mut request = by_id(topic.id);
            request.topics = request.topics.map(|topics| [&topics[..], &topics].concat());
            assert_eq!(topics(&mut client, version, &request).await.len(), 1, "v{version}");
        }
    });
}

#[test]
fn a_client_that_forbids_it_creates_no_topic() {
    on_node(6, config(1), async |node| {
        let mut client = node.connect(0).await;
        for version in MAY_FORBID_FROM..=ApiKey::Metadata.versions().max {
            let told = topics(&mut client, version, &by_names(&["missing"], false)).await;
            assert_eq!(
                told,
                [("missing".to_owned(), ErrorCode::UNKNOWN_TOPIC_OR_PARTITION, 0)],
                "v{version}"
            );
        }
        assert!(!exists(&node, "missing").await);
    });
}

#[test]
fn a_broker_that_forbids_it_creates_no_topic() {
    on_node(7, config_with(1, &[("auto.create.topics.enable", "false")]), async |node| {
        let mut client = node.connect(0).await;
        for version in versions(ApiKey::Metadata) {
            let told = topics(&mut client, version, &by_names(&["missing"], true)).await;
            assert_eq!(
                told,
                [("missing".to_owned(), ErrorCode::UNKNOWN_TOPIC_OR_PARTITION, 0)],
                "v{version}"
            );
        }
        assert!(!exists(&node, "missing").await);
    });
}

#[test]
fn a_name_that_no_topic_can_have_is_invalid_whoever_may_create() {
    on_node(8, config(1), async |node| {
        let mut client = node.connect(0).await;
        let (longest, too_long) = ("x".repeat(249), "x".repeat(250));
        for version in MAY_FORBID_FROM..=ApiKey::Metadata.versions().max {
            for name in ["", ".", "..", "a b", "a/b", "naïve", too_long.as_str()] {
                for may_create in [true, false] {
                    let told = topics(&mut client, version, &by_names(&[name], may_create)).await;
                    assert_eq!(
                        told,
                        [(name.to_owned(), ErrorCode::INVALID_TOPIC_EXCEPTION, 0)],
                        "v{version}"
                    );
                }
            }
        }
        let told = topics(&mut client, 13, &by_names(&[&longest], true)).await;
        assert_eq!(told, [(longest.clone(), ErrorCode::NONE, 1)]);
    });
}

#[test]
fn a_name_that_collides_with_a_topics_is_not_created() {
    on_node(9, config(1), async |node| {
        node.topic("a.b", 1).await;
        let mut client = node.connect(0).await;
        let told = topics(&mut client, 13, &by_names(&["a_b", "a.b"], true)).await;
        let expected = [
            ("a_b".to_owned(), ErrorCode::INVALID_TOPIC_EXCEPTION, 0),
            ("a.b".to_owned(), ErrorCode::NONE, 1),
        ];
        assert_eq!(told, expected);
    });
}

#[test]
fn two_clients_that_ask_for_the_same_new_topic_get_the_same() {
    on_node(10, config(2), async |node| {
        let mut clients = [node.connect(0).await, node.connect(1).await, node.connect(0).await];
        for client in &mut clients {
            client.send(13, &by_names(&["new"], true)).await;
        }
        let mut errors = Vec::new();
        for client in &mut clients {
            errors.push(client.answer::<MetadataRequest<'_>>(13).await.body().topics[0].error_code);
        }
        // A shard that has not heard of it yet may ask its client to wait, which asks again.
        let allowed = [ErrorCode::NONE, ErrorCode::LEADER_NOT_AVAILABLE];
        assert!(errors.iter().all(|error| allowed.contains(error)), "{errors:?}");
        let created = node.describe("new").await;
        for client in &mut clients {
            let answer = client.ask(13, &by_names(&["new"], true)).await;
            let body = answer.body();
            assert_eq!((body.topics[0].error_code, body.topics[0].topic_id), (ErrorCode::NONE, created.id));
        }
    });
}

#[test]
fn what_the_client_may_do_is_told_where_it_is_asked_for() {
    on_node(11, config(1), async |node| {
        node.topic("t", 1).await;
        let mut client = node.connect(0).await;
        for version in 8..=ApiKey::Metadata.versions().max {
            let answer = client.ask(version, &by_names(&["t"], true)).await;
            assert_eq!(answer.body().topics[0].topic_authorized_operations, OPERATIONS_NOT_ASKED);
            let asked = MetadataRequest {
                include_topic_authorized_operations: true,
                include_cluster_authorized_operations: version <= 10,
                ..by_names(&["t"], true)
            };
            let answer = client.ask(version, &asked).await;
            let (read, create) = (1 << 3, 1 << 5);
            assert!(answer.body().topics[0].topic_authorized_operations & read != 0, "v{version}");
            let of_cluster = answer.body().cluster_authorized_operations;
            assert_eq!(
                of_cluster != OPERATIONS_NOT_ASKED && of_cluster & create != 0,
                version <= 10,
                "v{version}"
            );
        }
    });
}
