//! DeleteTopics, and what is left of a deleted topic: nothing.

use core::time::Duration;
use std::path::Path;

use engine_io::Io;
use engine_record::TopicId;
use net_wire::messages::create_topics::{CreatableReplicaAssignment, CreatableTopic};
use net_wire::messages::delete_topics::{DeletableTopicResult, DeleteTopicState};
use net_wire::messages::{CreateTopicsRequest, DeleteTopicsRequest, FetchRequest};
use net_wire::{ApiKey, ErrorCode, Uuid};
use sim::{CrashMode, DiskLatency};

use crate::batches::{batch, large, sequenced};
use crate::calls::{FETCH, Fetch, Produce, produce, read_all};
use crate::client::Client;
use crate::errors::errors_logged;
use crate::node::{FIRST_BROKER, Node, config, config_with, on_node};
use crate::versions;

const NEWEST: i16 = 6;

fn by_name<'a>(version: i16, name: &'a str) -> DeleteTopicsRequest<'a> {
    let request = DeleteTopicsRequest { timeout_ms: 10_000, ..DeleteTopicsRequest::default() };
    if version >= NEWEST {
        let topics = vec![DeleteTopicState { name: Some(name), topic_id: Uuid::ZERO }];
        return DeleteTopicsRequest { topics, ..request };
    }
    DeleteTopicsRequest { topic_names: vec![name], ..request }
}

fn by_state(name: Option<&str>, topic_id: Uuid) -> DeleteTopicsRequest<'_> {
    let topics = vec![DeleteTopicState { name, topic_id }];
    DeleteTopicsRequest { topics, timeout_ms: 10_000, ..DeleteTopicsRequest::default() }
}

/// The outcome for the only topic, which must come with words from version 5 on where it is an error.
async fn delete(client: &mut Client, version: i16, request: &DeleteTopicsRequest<'_>) -> ErrorCode {
    let answer = client.ask(version, request).await;
    let response = answer.body();
    let [told] = &response.responses[..] else { panic!("one topic was named: {response:?}") };
    assert_eq!(told.error_message.is_some(), version >= 5 && !told.error_code.is_none(), "{told:?}");
    told.error_code
}

#[test]
fn every_version_deletes_by_name_and_the_newest_by_id_too() {
    on_node(1, config(2), async |node| {
        for (round, version) in versions(ApiKey::DeleteTopics).enumerate() {
            node.topic("t", 2).await;
            let mut client = node.connect(u16::from(round % 2 == 1)).await;
            assert_eq!(
                delete(&mut client, version, &by_name(version, "t")).await,
                ErrorCode::NONE,
                "v{version}"
            );
            assert_eq!(node.try_describe("t").await, Err(ErrorCode::UNKNOWN_TOPIC_OR_PARTITION));
        }
        let topic = node.topic("t", 2).await;
        let mut client = node.connect(0).await;
        let answer = client.ask(NEWEST, &by_state(None, topic.id)).await;
        let response = answer.body();
        let told = &response.responses[0];
        assert_eq!((told.name, told.topic_id, told.error_code), (Some("t"), topic.id, ErrorCode::NONE));
        assert!(node.try_describe("t").await.is_err());
    });
}

#[test]
fn what_is_not_there_is_refused_by_name_with_3_and_by_id_with_100() {
    on_node(2, config(1), async |node| {
        let mut client = node.connect(0).await;
        for version in versions(ApiKey::DeleteTopics) {
            let error = delete(&mut client, version, &by_name(version, "missing")).await;
            assert_eq!(error, ErrorCode::UNKNOWN_TOPIC_OR_PARTITION, "v{version}");
        }
        let error = delete(&mut client, NEWEST, &by_state(None, Uuid([7; 16]))).await;
        assert_eq!(error, ErrorCode::UNKNOWN_TOPIC_ID);
    });
}

#[test]
fn a_topic_named_by_both_or_by_neither_is_no_request() {
    on_node(3, config(1), async |node| {
        let topic = node.topic("t", 1).await;
        let mut client = node.connect(0).await;
        for (name, id) in [(Some("t"), topic.id), (None, Uuid::ZERO)] {
            let error = delete(&mut client, NEWEST, &by_state(name, id)).await;
            assert_eq!(error, ErrorCode::INVALID_REQUEST);
        }
        assert!(node.try_describe("t").await.is_ok());
    });
}

/// Name, id and error of everything told, in no certain order.
async fn told(client: &mut Client, request: &DeleteTopicsRequest<'_>, version: i16) -> Vec<Told> {
    let answer = client.ask(version, request).await;
    let tell =
        |told: &DeletableTopicResult<'_>| (told.name.map(str::to_owned), told.topic_id, told.error_code);
    let mut told: Vec<_> = answer.body().responses.iter().map(tell).collect();
    told.sort();
    told
}

type Told = (Option<String>, Uuid, ErrorCode);

#[test]
fn a_topic_named_twice_is_refused_once_and_stays() {
    on_node(12, config(1), async |node| {
        let (twice, once) = (node.topic("twice", 1).await, node.topic("once", 1).await);
        let mut client = node.connect(0).await;
        for version in 1..NEWEST {
            let topic_names = vec!["twice", "missing", "twice", "missing", "twice"];
            let request = DeleteTopicsRequest { topic_names, ..DeleteTopicsRequest::default() };
            let expected = ["missing", "twice"]
                .map(|name| (Some(name.to_owned()), Uuid::ZERO, ErrorCode::INVALID_REQUEST));
            assert_eq!(told(&mut client, &request, version).await, expected, "v{version}");
        }
        let by_id = DeleteTopicState { name: None, topic_id: twice.id };
        let by_name = |name| DeleteTopicState { name: Some(name), topic_id: Uuid::ZERO };
        let name = Some("twice".to_owned());
        for (topics, expected) in [
            (vec![by_id.clone(), by_id.clone()], vec![(None, twice.id, ErrorCode::INVALID_REQUEST)]),
            (
                vec![by_name("twice"), by_id.clone()],
                vec![(name.clone(), twice.id, ErrorCode::INVALID_REQUEST)],
            ),
            (vec![by_id, by_name("twice")], vec![(name, twice.id, ErrorCode::INVALID_REQUEST)]),
        ] {
            let request = DeleteTopicsRequest { topics, ..DeleteTopicsRequest::default() };
            assert_eq!(told(&mut client, &request, NEWEST).await, expected);
        }
        assert_eq!(node.describe("twice").await, twice);
        let topics = vec![by_name("twice"), by_name("once"), by_name("twice")];
        let request = DeleteTopicsRequest { topics, ..DeleteTopicsRequest::default() };
        let expected = [
            (Some("once".to_owned()), once.id, ErrorCode::NONE),
            (Some("twice".to_owned()), Uuid::ZERO, ErrorCode::INVALID_REQUEST),
        ];
        assert_eq!(told(&mut client, &request, NEWEST).await, expected, "the others go");
        assert_eq!(node.describe("twice").await, twice);
    });
}

#[test]
fn a_broker_that_forbids_it_deletes_nothing() {
    on_node(4, config_with(1, &[("delete.topic.enable", "false")]), async |node| {
        node.topic("t", 1).await;
        let mut client = node.connect(0).await;
        for version in versions(ApiKey::DeleteTopics) {
            let error = delete(&mut client, version, &by_name(version, "t")).await;
            // Older clients don't know the code.
            let expected =
                if version < 3 { ErrorCode::INVALID_REQUEST } else { ErrorCode::TOPIC_DELETION_DISABLED };
            assert_eq!(error, expected, "v{version}");
        }
        assert!(node.try_describe("t").await.is_ok());
    });
}

#[test]
fn nobody_writes_to_or_reads_from_a_deleted_topic() {
    on_node(5, config(2), async |node| {
        let topic = node.topic("t", 2).await;
        let mut clients = Vec::new();
        for partition in 0..2 {
            let mut client = node.connect_to_leader(&topic, partition).await;
            produce(&mut client, &topic, partition, &batch(&["a"])).await;
            clients.push(client);
        }
        assert_eq!(node.delete(&topic).await, ErrorCode::NONE);
        for (partition, client) in (0..).zip(&mut clients) {
            for version in versions(ApiKey::Produce) {
                let records = batch(&["too late"]);
                let produce = Produce { version, ..Produce::new(&topic, partition, &records) };
                let expected = if version >= 13 { 100 } else { 3 };
                assert_eq!(produce.call(client).await.error.0, expected, "Produce v{version}");
            }
            for version in versions(ApiKey::Fetch) {
                let fetched = Fetch::at(&topic, partition, 0).version(version).call(client).await.only();
                let expected = if version >= 13 { 100 } else { 3 };
                assert_eq!(fetched.error.0, expected, "Fetch v{version}");
            }
        }
    });
}

#[test]
fn a_fetch_that_waits_on_a_topic_is_answered_when_the_topic_goes() {
    on_node(6, config(2), async |node| {
        for version in [12, FETCH] {
            let topic = node.topic("t", 2).await;
            let fetch = Fetch::at(&topic, 1, 0).version(version).waiting(60_000, 1);
            let mut reader = node.connect_to_leader(&topic, 1).await;
            reader.send(version, &fetch.request()).await;
            node.pause(Duration::from_secs(1)).await;
            let begun_at = reader.now();
            assert_eq!(node.delete(&topic).await, ErrorCode::NONE);
            let fetched = fetch.outcome(&reader.answer::<FetchRequest<'_>>(version).await).only();
            assert!(reader.now().since(begun_at) < Duration::from_secs(5), "it doesn't wait its time out");
            assert_eq!(fetched.error.0, if version >= 13 { 100 } else { 3 }, "v{version}");
        }
    });
}

#[test]
fn a_topic_of_the_same_name_begins_anew_under_another_id() {
    on_node(7, config(1), async |node| {
        let old = node.topic("t", 1).await;
        let mut client = node.connect(0).await;
        let producer = node.producer_id(0).await;
        produce(&mut client, &old, 0, &sequenced(producer, 0, 0, 3)).await;
        assert_eq!(node.delete(&old).await, ErrorCode::NONE);
        let new = node.topic("t", 1).await;
        assert_ne!(old.id, new.id);
        assert_eq!(read_all(&mut client, &new, 0).await, []);
        let stale = Fetch::at(&old, 0, 0).call(&mut client).await.only();
        assert_eq!(stale.error, ErrorCode::UNKNOWN_TOPIC_ID);
        let begun = produce(&mut client, &new, 0, &sequenced(producer, 0, 0, 2)).await;
        assert_eq!(begun, 0, "the producer's past went with the old topic");
        let node = node.restart_after(CrashMode::KeepRandomSectors).await;
        assert_eq!(node.describe("t").await.id, new.id);
        assert_eq!(read_all(&mut node.connect(0).await, &new, 0).await.len(), 2);
    });
}

#[test]
fn the_space_of_a_deleted_topic_is_given_back() {
    on_node(8, config(1), async |node| {
        let mut client = node.connect(0).await;
        let mut used = Vec::new();
        for _ in 0..6 {
            let topic = node.topic("t", 4).await;
            for partition in 0..4 {
                produce(&mut client, &topic, partition, &large(100_000)).await;
            }
            assert_eq!(node.delete(&topic).await, ErrorCode::NONE);
            node.pause(Duration::from_secs(30)).await;
            used.push(node.machine().disk().used_bytes());
        }
        let (first, last) = (used[0], used[5]);
        assert!(last < first + 400_000, "deleted topics keep their space: {used:?}");
    });
}

#[test]
fn a_crash_brings_no_deleted_topic_back() {
    on_node(9, config(2), async |node| {
        let (gone, kept) = (node.topic("gone", 2).await, node.topic("kept", 2).await);
        let mut client = node.connect_to_leader(&kept, 0).await;
        produce(&mut client, &kept, 0, &batch(&["kept"])).await;
        assert_eq!(node.delete(&gone).await, ErrorCode::NONE);
        let node = node.restart_after(CrashMode::LoseAllUnflushed).await;
        assert_eq!(node.try_describe("gone").await, Err(ErrorCode::UNKNOWN_TOPIC_OR_PARTITION));
        let mut client = node.connect_to_leader(&kept, 0).await;
        assert_eq!(read_all(&mut client, &kept, 0).await.len(), 1);
        assert!(node.opened().iter().all(|shard| shard.offline == 0));
    });
}

#[test]
fn what_a_crash_leaves_of_a_deleted_topic_goes_with_the_next_start() {
    for (seed, mode) in (30..).zip([CrashMode::LoseAllUnflushed, CrashMode::KeepAll]) {
        on_node(seed, config(2), async |node| {
            let kept = node.topic("kept", 2).await;
            let topic = node.topic("gone", 4).await;
            for partition in 0..4 {
                let mut leader = node.connect_to_leader(&topic, partition).await;
                produce(&mut leader, &topic, partition, &batch(&["x"])).await;
            }
            let mut client = node.connect(0).await;
            assert_eq!(delete(&mut client, NEWEST, &by_name(NEWEST, "gone")).await, ErrorCode::NONE);
            // Its files go in the background: the crash comes first.
            let node = node.restart_after(mode).await;
            node.pause(Duration::from_secs(1)).await;
            assert_eq!(topic_folders(&node).await, [TopicId(kept.id.0).to_string()]);
            let node = node.restart().await;
            assert!(node.opened().iter().all(|shard| shard.is_clean), "{mode:?}");
            assert_eq!(node.describe("kept").await.id, kept.id);
        });
    }
}

/// The names of the topics' folders.
async fn topic_folders(node: &Node) -> Vec<String> {
    let names = node.machine().io().list_folder(Path::new("/data/topics")).await.unwrap();
    names.iter().map(|name| name.to_str().unwrap().to_owned()).collect()
}

/// The shards work at their own pace: one has removed what it can of the topic while another still makes partitions.
#[test]
fn a_topic_that_is_deleted_while_it_is_created_is_no_error() {
    let brokers = |index: i32| vec![FIRST_BROKER + index.min(1)];
    let assign = |index| CreatableReplicaAssignment { partition_index: index, broker_ids: brokers(index) };
    let topic = CreatableTopic {
        name: "t",
        num_partitions: -1,
        replication_factor: -1,
        assignments: (0..40).map(assign).collect(),
        configs: Vec::new(),
    };
    let request = CreateTopicsRequest { topics: vec![topic], ..CreateTopicsRequest::default() };
    for seed in 300..310 {
        let errors = errors_logged(|| {
            on_node(seed, config(2), async |node| {
                let mut clients = [node.connect(0).await, node.connect(0).await];
                for _ in 0..8 {
                    clients[0].send(7, &request).await;
                    while delete(&mut clients[1], 5, &by_name(5, "t")).await != ErrorCode::NONE {}
                    clients[0].answer::<CreateTopicsRequest<'_>>(7).await;
                }
                node.pause(Duration::from_secs(20)).await;
                assert!(topic_folders(&node).await.is_empty(), "nothing is left of it");
            });
        });
        assert!(errors.is_empty(), "seed {seed}: {errors:#?}");
    }
}

#[test]
fn a_partition_that_does_not_open_is_an_error_unless_its_topic_is_being_deleted() {
    for is_deleted in [true, false] {
        let errors = errors_logged(|| {
            on_node(41, config(1), async |node| {
                let slow = Duration::from_millis(50);
                let disk = node.machine().disk();
                disk.set_latency(DiskLatency { metadata: slow..=slow, ..DiskLatency::default() });
                disk.fail_writes(|path| path.ends_with("name"), 0);
                let mut clients = [node.connect(0).await, node.connect(0).await];
                let topic = CreatableTopic {
                    name: "t",
                    num_partitions: 3,
                    replication_factor: 1,
                    assignments: Vec::new(),
                    configs: Vec::new(),
                };
                let request = CreateTopicsRequest { topics: vec![topic], ..CreateTopicsRequest::default() };
                clients[0].send(7, &request).await;
                while is_deleted && delete(&mut clients[1], 5, &by_name(5, "t")).await != ErrorCode::NONE {}
                clients[0].answer::<CreateTopicsRequest<'_>>(7).await;
            });
        });
        let expected = if is_deleted { 0 } else { 3 };
        assert_eq!(errors.len(), expected, "deleted: {is_deleted}, {errors:#?}");
    }
}
