//! Disks that fail: nothing is acknowledged that isn't there, and half a broker is none.

use core::time::Duration;
use std::path::Path;

use net_server::node::NodeError;
use net_wire::ErrorCode;
use net_wire::messages::CreateTopicsRequest;
use net_wire::messages::create_topics::CreatableTopic;
use sim::CrashMode;

use crate::batches::{batch, large};
use crate::calls::{PRODUCE, Produce, Topic, produce, read_all};
use crate::client::Client;
use crate::errors::errors_logged;
use crate::node::{FIRST_BROKER, Node, config, on_node};

fn is_segment(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "log")
}

/// Produces; tells whether it was acknowledged: a connection that ends says no.
async fn is_acknowledged(client: &mut Client, topic: &Topic, acks: i16, records: &[u8]) -> bool {
    let produce = Produce { acks, ..Produce::new(topic, 0, records) };
    client.send(PRODUCE, &produce.request()).await;
    let answer = client.try_answer(PRODUCE).await;
    answer.is_some_and(|answer| produce.outcome(&answer).error.is_none())
}

/// The shard that failed says why, and the whole node can be taken down.
async fn ends_with_a_storage_failure(node: &mut Node) {
    let ended = node.ended().await;
    assert_eq!(ended.shard.map(|shard| shard.0), Some(0));
    assert!(matches!(ended.result, Err(NodeError::Store { .. })), "{:?}", ended.result);
}

#[test]
fn a_flush_that_fails_acknowledges_nothing_and_ends_the_shard() {
    on_node(1, config(1), async |mut node| {
        let topic = node.topic("t", 1).await;
        let mut client = node.connect(0).await;
        produce(&mut client, &topic, 0, &batch(&["before"])).await;
        node.machine().disk().fail_next_flush();
        assert!(!is_acknowledged(&mut client, &topic, -1, &batch(&["lost"])).await);
        ends_with_a_storage_failure(&mut node).await;
        let node = node.restart_after(CrashMode::LoseAllUnflushed).await;
        let read = read_all(&mut node.connect(0).await, &topic, 0).await;
        assert_eq!(read[0].1, "before");
    });
}

#[test]
fn a_write_that_fails_acknowledges_nothing_and_ends_the_shard() {
    for acks in [1, -1] {
        on_node(2, config(1), async |mut node| {
            let topic = node.topic("t", 1).await;
            let mut client = node.connect(0).await;
            produce(&mut client, &topic, 0, &batch(&["before"])).await;
            node.machine().disk().fail_writes(is_segment, 0);
            assert!(!is_acknowledged(&mut client, &topic, acks, &batch(&["lost"])).await);
            ends_with_a_storage_failure(&mut node).await;
            node.machine().disk().heal();
            let node = node.restart_after(CrashMode::KeepAll).await;
            let read = read_all(&mut node.connect(0).await, &topic, 0).await;
            assert_eq!(read[0], (0, "before".to_owned()));
        });
    }
}

#[test]
fn every_request_behind_a_failed_flush_is_refused_or_its_connection_ends() {
    on_node(3, config(1), async |mut node| {
        let topic = node.topic("t", 1).await;
        let mut clients = Vec::new();
        let records = batch(&["lost"]);
        for _ in 0..8 {
            clients.push(node.connect(0).await);
        }
        node.machine().disk().fail_next_flush();
        for client in &mut clients {
            client.send(PRODUCE, &Produce::new(&topic, 0, &records).request()).await;
        }
        ends_with_a_storage_failure(&mut node).await;
        let read = read_all_after_crash(node, &topic).await;
        let mut acknowledged = 0;
        for client in &mut clients {
            let answer = client.try_answer(PRODUCE).await;
            let outcome = answer.map(|answer| Produce::new(&topic, 0, &records).outcome(&answer));
            acknowledged += usize::from(outcome.is_some_and(|outcome| outcome.error.is_none()));
        }
        assert!(acknowledged <= read, "{acknowledged} acknowledged, {read} there");
    });
}

async fn read_all_after_crash(node: Node, topic: &Topic) -> usize {
    let node = node.restart_after(CrashMode::LoseAllUnflushed).await;
    read_all(&mut node.connect(0).await, topic, 0).await.len()
}

#[test]
fn a_full_disk_refuses_what_needs_space_and_goes_on_when_there_is_some() {
    on_node(4, config(1), async |node| {
        let topic = node.topic_with("t", 1, &[("segment.bytes", "1048576")]).await;
        let mut client = node.connect(0).await;
        produce(&mut client, &topic, 0, &batch(&["before"])).await;
        let disk = node.machine().disk();
        disk.set_capacity(disk.used_bytes());
        let records = large(500_000);
        let mut taken = 1;
        let refused = loop {
            let produced = Produce::new(&topic, 0, &records).call(&mut client).await;
            if !produced.error.is_none() {
                break produced;
            }
            taken += 1;
            assert!(taken < 100, "space for {taken} batches came out of nowhere");
        };
        assert_eq!(refused.error, ErrorCode::KAFKA_STORAGE_ERROR);
        assert_eq!(read_all(&mut client, &topic, 0).await.len(), taken, "what is there can be read");
        disk.set_capacity(u64::MAX);
        // A full disk is asked again in its own time.
        node.pause(Duration::from_secs(10)).await;
        let offset = i64::try_from(taken).unwrap();
        assert_eq!(produce(&mut client, &topic, 0, &records).await, offset);
    });
}

/// The metadata log has space of its own.
#[test]
fn a_full_disk_ends_no_node_however_many_topics_come_and_go() {
    on_node(7, config(1), async |node| {
        let disk = node.machine().disk();
        disk.set_capacity(disk.used_bytes());
        for number in 0..60 {
            let name = format!("{number}-{}", "x".repeat(200));
            let topic = node.topic(&name, 3).await;
            if number % 3 == 0 {
                node.delete(&topic).await;
            }
        }
        let node = node.restart().await;
        node.topic("after", 1).await;
        let node = node.restart_after(CrashMode::LoseAllUnflushed).await;
        node.describe("after").await;
    });
}

#[test]
fn a_topic_created_on_a_full_disk_can_be_used_when_there_is_space() {
    let errors = errors_logged(|| {
        on_node(6, config(2), async |node| {
            let disk = node.machine().disk();
            disk.set_capacity(disk.used_bytes());
            let topic = node.topic("t", 4).await;
            let mut clients = [node.connect(0).await, node.connect(1).await];
            let records = batch(&["a"]);
            for _ in 0..100 {
                for partition in 0..4 {
                    let client = &mut clients[usize::from(topic.leaders[partition] != FIRST_BROKER)];
                    let partition = i32::try_from(partition).unwrap();
                    let produced = Produce::new(&topic, partition, &records).call(client).await;
                    assert_eq!(produced.error, ErrorCode::KAFKA_STORAGE_ERROR);
                    let message = produced.message.unwrap();
                    assert!(message.contains("can't be opened"), "{message}");
                    assert!(!message.contains("/data"), "paths are no business of clients: {message}");
                }
                node.pause(Duration::from_millis(700)).await;
            }
            let gone = node.topic("gone", 4).await;
            node.delete(&gone).await;
            disk.set_capacity(u64::MAX);
            // Nobody asks, and it isn't longer than the longest pause.
            node.pause(Duration::from_secs(31)).await;
            for partition in 0..4 {
                let client = &mut clients[usize::from(topic.leaders[partition] != FIRST_BROKER)];
                produce(client, &topic, i32::try_from(partition).unwrap(), &records).await;
            }
            let node = node.restart().await;
            assert!(node.opened().iter().all(|shard| shard.offline == 0));
        });
    });
    assert_eq!(errors.len(), 4, "one a shard and topic: {errors:?}");
}

#[test]
fn metadata_that_cannot_be_written_create_no_topic() {
    on_node(5, config(2), async |mut node| {
        node.topic("before", 2).await;
        node.machine().disk().fail_writes(|path| path.starts_with("/data/metadata"), 0);
        let mut client = node.connect(0).await;
        let topic = CreatableTopic {
            name: "lost",
            num_partitions: 1,
            replication_factor: 1,
            assignments: Vec::new(),
            configs: Vec::new(),
        };
        let request = CreateTopicsRequest { topics: vec![topic], ..CreateTopicsRequest::default() };
        client.send(7, &request).await;
        let ended = node.ended().await;
        assert_eq!(ended.shard, None, "the control executor ends");
        assert!(matches!(ended.result, Err(NodeError::Metadata(_))), "{:?}", ended.result);
        if let Some(answer) = client.try_answer::<CreateTopicsRequest<'_>>(7).await {
            assert!(!answer.body().topics[0].error_code.is_none());
        }
        node.machine().disk().heal();
        let node = node.restart_after(CrashMode::LoseAllUnflushed).await;
        assert!(node.try_describe("before").await.is_ok());
        assert!(node.try_describe("lost").await.is_err());
    });
}
