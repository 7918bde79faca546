//! CreatePartitions: topics grow while they are in use.

use core::time::Duration;

use engine_io::Io;
use net_wire::messages::create_partitions::{CreatePartitionsAssignment, CreatePartitionsTopic};
use net_wire::messages::create_topics::CreatableTopic;
use net_wire::messages::{CreatePartitionsRequest, CreateTopicsRequest};
use net_wire::{ApiKey, ErrorCode};
use sim::{CrashMode, DiskLatency};

use crate::batches::batch;
use crate::calls::{impossible_topic_names, produce, read_all};
use crate::client::Client;
use crate::node::{FIRST_BROKER, Node, config, on_node};
use crate::versions;

const NEWEST: i16 = 3;

fn more(name: &str, count: i32) -> CreatePartitionsTopic<'_> {
    CreatePartitionsTopic { name, count, assignments: None }
}

fn assigned<'a>(name: &'a str, count: i32, brokers: &[&[i32]]) -> CreatePartitionsTopic<'a> {
    let assignment = |brokers: &&[i32]| CreatePartitionsAssignment { broker_ids: brokers.to_vec() };
    CreatePartitionsTopic { assignments: Some(brokers.iter().map(assignment).collect()), ..more(name, count) }
}

fn request(topics: Vec<CreatePartitionsTopic<'_>>) -> CreatePartitionsRequest<'_> {
    CreatePartitionsRequest { topics, timeout_ms: 10_000, validate_only: false }
}

/// Name, error and words of each topic answered.
type Told = Vec<(String, ErrorCode, String)>;

async fn ask(client: &mut Client, version: i16, request: &CreatePartitionsRequest<'_>) -> Told {
    let answer = client.ask(version, request).await;
    let told = answer.body().results.into_iter().map(|told| {
        assert_eq!(told.error_message.is_some(), !told.error_code.is_none(), "{told:?}");
        (told.name.to_owned(), told.error_code, told.error_message.unwrap_or_default().to_owned())
    });
    told.collect()
}

async fn grow(client: &mut Client, version: i16, topic: CreatePartitionsTopic<'_>) -> (ErrorCode, String) {
    let told = ask(client, version, &request(vec![topic])).await;
    let [(_, code, words)] = &told[..] else { panic!("one topic was asked for: {told:?}") };
    (*code, words.clone())
}

pub(crate) async fn grows(node: &Node, name: &str, count: i32) {
    let told = grow(&mut node.connect(0).await, NEWEST, more(name, count)).await;
    assert_eq!(told, (ErrorCode::NONE, String::new()));
}

async fn refused(client: &mut Client, topic: CreatePartitionsTopic<'_>, code: ErrorCode, part: &str) {
    for version in versions(ApiKey::CreatePartitions) {
        let (told, words) = grow(client, version, topic.clone()).await;
        assert_eq!(told, code, "{topic:?} in v{version}: {words}");
        assert!(words.contains(part), "{words}");
    }
}

#[test]
fn new_partitions_are_served_by_every_shard_at_once_and_stay_through_restart_and_crash() {
    on_node(1, config(3), async |node| {
        let before = node.topic("t", 2).await;
        for partition in 0..2 {
            let mut leader = node.connect_to_leader(&before, partition).await;
            produce(&mut leader, &before, partition, &batch(&["before"])).await;
        }
        for (version, count) in versions(ApiKey::CreatePartitions).zip([3, 7, 8, 12]) {
            let shard = u16::try_from(version % 3).unwrap();
            let mut client = node.connect(shard).await;
            assert_eq!(grow(&mut client, version, more("t", count)).await.0, ErrorCode::NONE, "v{version}");
            let grown = node.describe("t").await;
            assert_eq!(grown.leaders.len(), usize::try_from(count).unwrap());
            assert_eq!((grown.id, &grown.leaders[..2]), (before.id, &before.leaders[..]));
            let newest = count - 1;
            let mut leader = node.connect_to_leader(&grown, newest).await;
            assert_eq!(produce(&mut leader, &grown, newest, &batch(&["at once"])).await, 0);
        }
        let grown = node.describe("t").await;
        for shard in 0..3 {
            let led = grown.leaders.iter().filter(|leader| **leader == FIRST_BROKER + shard).count();
            assert_eq!(led, 4, "{:?}", grown.leaders);
        }
        let node = node.restart_after(CrashMode::LoseAllUnflushed).await.restart().await;
        let after = node.describe("t").await;
        assert_eq!(after.leaders, grown.leaders);
        for (partition, kept) in [(0, "before"), (1, "before"), (2, "at once"), (11, "at once")] {
            let mut leader = node.connect_to_leader(&after, partition).await;
            assert_eq!(read_all(&mut leader, &after, partition).await, [(0, kept.to_owned())]);
        }
    });
}

#[test]
fn assignments_put_each_new_partition_where_they_say() {
    on_node(2, config(3), async |node| {
        node.topic("t", 1).await;
        let mut client = node.connect(0).await;
        let wanted = assigned("t", 4, &[&[1002], &[1000], &[1002]]);
        assert_eq!(grow(&mut client, NEWEST, wanted).await.0, ErrorCode::NONE);
        assert_eq!(node.describe("t").await.leaders[1..], [1002, 1000, 1002]);
    });
}

#[test]
fn what_cannot_be_is_refused_with_words() {
    on_node(3, config(2), async |node| {
        let before = node.topic("t", 3).await;
        let mut client = node.connect(0).await;
        for count in [3, 2, 0, -1, i32::MIN] {
            let part = "has 3 partitions already";
            refused(&mut client, more("t", count), ErrorCode::INVALID_PARTITIONS, part).await;
        }
        for count in [10_001, i32::MAX] {
            refused(&mut client, more("t", count), ErrorCode::INVALID_PARTITIONS, "at most 10000").await;
        }
        let unknown = ErrorCode::UNKNOWN_TOPIC_OR_PARTITION;
        refused(&mut client, more("missing", 4), unknown, "does not exist").await;
        for name in impossible_topic_names() {
            refused(&mut client, more(&name, 4), unknown, "does not exist").await;
        }
        let cases: [&[&[i32]]; 8] = [
            &[],
            &[&[1000], &[1001]],
            &[&[1007]],
            &[&[2000]],
            &[&[-1]],
            &[&[]],
            &[&[1000, 1000]],
            // Two endpoints of one node are one point of failure.
            &[&[1000, 1001]],
        ];
        for brokers in cases {
            let wrong = ErrorCode::INVALID_REPLICA_ASSIGNMENT;
            refused(&mut client, assigned("t", 4, brokers), wrong, "").await;
        }
        // A number that is no increase is said before what is wrong with the assignments.
        let few = assigned("t", 3, &[&[2000]]);
        refused(&mut client, few, ErrorCode::INVALID_PARTITIONS, "already").await;
        assert_eq!(node.describe("t").await, before);
    });
}

#[test]
fn a_topic_named_twice_is_refused_once_and_spoils_no_other() {
    on_node(4, config(1), async |node| {
        node.topic("twice", 1).await;
        node.topic("good", 1).await;
        let mut client = node.connect(0).await;
        let topics = vec![more("twice", 2), more("good", 2), more("twice", 3), more("missing", 2)];
        let told = ask(&mut client, NEWEST, &request(topics)).await;
        let told: Vec<_> = told.iter().map(|(name, code, _)| (name.as_str(), code.0)).collect();
        assert_eq!(told, [("twice", 42), ("good", 0), ("missing", 3)]);
        assert_eq!(node.describe("twice").await.leaders.len(), 1);
        assert_eq!(node.describe("good").await.leaders.len(), 2);
        assert_eq!(ask(&mut client, NEWEST, &request(Vec::new())).await, []);
    });
}

#[test]
fn validating_finds_the_same_errors_and_creates_nothing() {
    on_node(5, config(1), async |node| {
        node.topic("t", 2).await;
        let mut client = node.connect(0).await;
        for version in versions(ApiKey::CreatePartitions) {
            for (topic, expected) in [
                (more("t", 5), ErrorCode::NONE),
                (assigned("t", 3, &[&[1000]]), ErrorCode::NONE),
                (more("t", 2), ErrorCode::INVALID_PARTITIONS),
                (more("missing", 2), ErrorCode::UNKNOWN_TOPIC_OR_PARTITION),
                (assigned("t", 3, &[&[5]]), ErrorCode::INVALID_REPLICA_ASSIGNMENT),
            ] {
                let request = CreatePartitionsRequest { validate_only: true, ..request(vec![topic]) };
                assert_eq!(ask(&mut client, version, &request).await[0].1, expected, "v{version}");
            }
        }
        assert_eq!(node.describe("t").await.leaders.len(), 2);
    });
}

#[test]
fn partitions_that_are_not_created_in_time_say_so_and_may_come_later() {
    on_node(6, config(2), async |node| {
        node.topic("t", 1).await;
        let slow = Duration::from_millis(300);
        node.machine().disk().set_latency(DiskLatency { flush: slow..=slow, ..DiskLatency::default() });
        let mut client = node.connect(0).await;
        for (timeout_ms, count) in [(100, 2), (0, 3), (-1, 4)] {
            let begun_at = client.now();
            let topics = vec![more("t", count), more("missing", 1)];
            let request = CreatePartitionsRequest { timeout_ms, ..request(topics) };
            let told = ask(&mut client, NEWEST, &request).await;
            assert!(client.now().since(begun_at) < Duration::from_millis(200));
            assert_eq!(told[0].1, ErrorCode::REQUEST_TIMED_OUT, "{told:?}");
            node.pause(Duration::from_secs(5)).await;
            let leaders = node.describe("t").await.leaders;
            assert_eq!(leaders.len(), usize::try_from(count).unwrap(), "created all the same");
        }
    });
}

#[test]
fn clients_that_grow_a_topic_at_the_same_time_do_not_undo_each_other() {
    on_node(7, config(2), async |node| {
        node.topic("t", 1).await;
        let (mut one, mut other) = (node.connect(0).await, node.connect(1).await);
        one.send(NEWEST, &request(vec![more("t", 4)])).await;
        other.send(NEWEST, &request(vec![more("t", 7)])).await;
        let mut codes = Vec::new();
        for client in [&mut one, &mut other] {
            let answer = client.answer::<CreatePartitionsRequest<'_>>(NEWEST).await;
            codes.push(answer.body().results[0].error_code);
        }
        assert_eq!(codes[1], ErrorCode::NONE, "the larger number is met in any order");
        assert!([ErrorCode::NONE, ErrorCode::INVALID_PARTITIONS].contains(&codes[0]));
        let grown = node.describe("t").await;
        assert_eq!(grown.leaders.len(), 7);
        for partition in 0..7 {
            let mut leader = node.connect_to_leader(&grown, partition).await;
            assert_eq!(produce(&mut leader, &grown, partition, &batch(&["in use"])).await, 0);
        }
    });
}

#[test]
fn a_topic_may_grow_in_the_turn_of_its_creation_and_be_deleted_behind_that() {
    on_node(8, config(2), async |node| {
        let slow = Duration::from_millis(50);
        node.machine().disk().set_latency(DiskLatency { flush: slow..=slow, ..DiskLatency::default() });
        let (mut earlier, mut first, mut second) =
            (node.connect(0).await, node.connect(0).await, node.connect(1).await);
        let topic = |name| CreatableTopic {
            name,
            num_partitions: 2,
            replication_factor: 1,
            ..CreatableTopic::default()
        };
        let creation = |name| CreateTopicsRequest { topics: vec![topic(name)], ..Default::default() };
        // While the first is made durable, what comes after it waits for one turn together.
        earlier.send(7, &creation("other")).await;
        node.pause(Duration::from_millis(10)).await;
        first.send(7, &creation("t")).await;
        node.pause(Duration::from_millis(1)).await;
        let told = grow(&mut second, NEWEST, more("t", 6)).await;
        assert_eq!(told.0, ErrorCode::NONE, "{told:?}");
        let grown = node.describe("t").await;
        assert_eq!(grown.leaders.len(), 6);
        for partition in 0..6 {
            let mut leader = node.connect_to_leader(&grown, partition).await;
            assert_eq!(produce(&mut leader, &grown, partition, &batch(&["in use"])).await, 0);
        }
        second.send(NEWEST, &request(vec![more("t", 600)])).await;
        node.pause(Duration::from_millis(1)).await;
        assert_eq!(node.delete(&grown).await, ErrorCode::NONE);
        let answer = second.answer::<CreatePartitionsRequest<'_>>(NEWEST).await;
        assert_eq!(answer.body().results[0].error_code, ErrorCode::NONE);
        assert!(node.try_describe("t").await.is_err());
        let node = node.restart().await;
        assert!(node.try_describe("t").await.is_err());
        assert_eq!(node.topic("t", 1).await.leaders.len(), 1);
    });
}

#[test]
fn the_partitions_of_one_request_are_made_durable_together() {
    on_node(9, config(2), async |node| {
        let names: Vec<_> = (0..64).map(|number| format!("t{number}")).collect();
        for name in &names {
            node.topic(name, 1).await;
        }
        let slow = Duration::from_millis(50);
        node.machine().disk().set_latency(DiskLatency { flush: slow..=slow, ..DiskLatency::default() });
        let mut client = node.connect(0).await;
        let begun_at = node.setting().io.now();
        let asked = names.iter().map(|name| more(name, 2)).collect();
        let told = ask(&mut client, NEWEST, &request(asked)).await;
        let took = node.setting().io.now().since(begun_at);
        assert!(took < Duration::from_secs(2), "{took:?}");
        assert!(told.iter().map(|(name, ..)| name).eq(&names), "in the order of the request");
        assert!(told.iter().all(|(_, code, _)| code.is_none()), "{told:?}");
        grows(&node, "t63", 3).await;
    });
}
