//! What is refused on a drive that fills up, before it is full, and what goes on.

use core::time::Duration;

use net_server::config::Config;
use net_server::{Watermark, Watermarks};
use net_wire::ErrorCode;
use net_wire::messages::create_partitions::CreatePartitionsTopic;
use net_wire::messages::create_topics::CreatableTopic;
use net_wire::messages::{CreatePartitionsRequest, CreateTopicsRequest};

use crate::batches::{batch, large};
use crate::calls::{CREATE_TOPICS, PRODUCE, Produce, Produced, Topic, produce, read_all};
use crate::client::Client;
use crate::node::{Node, config, on_node};

const SOFT: u64 = 64 << 20;
const HARD: u64 = 32 << 20;

fn with_watermarks() -> Config {
    let watermarks = Watermarks { soft: Watermark::bytes(SOFT), hard: Watermark::bytes(HARD) };
    Config { watermarks, ..config(1) }
}

/// Leaves so much free on the drive, and the node the time to see that.
async fn leave(node: &Node, free_bytes: u64) {
    let disk = node.machine().disk();
    disk.set_capacity(disk.used_bytes() + free_bytes);
    node.pause(Duration::from_millis(1_100)).await;
}

async fn try_produce(client: &mut Client, topic: &Topic) -> Produced {
    Produce::new(topic, 0, &batch(&["a"])).call(client).await
}

async fn create(client: &mut Client, name: &str) -> (ErrorCode, String) {
    let topic = CreatableTopic {
        name,
        num_partitions: 1,
        replication_factor: 1,
        assignments: Vec::new(),
        configs: Vec::new(),
    };
    let request = CreateTopicsRequest { topics: vec![topic], ..CreateTopicsRequest::default() };
    let answer = client.ask(CREATE_TOPICS, &request).await;
    let told = &answer.body().topics[0];
    (told.error_code, told.error_message.unwrap_or_default().to_owned())
}

async fn grow(client: &mut Client, name: &str, count: i32) -> (ErrorCode, String) {
    let topics = vec![CreatePartitionsTopic { name, count, assignments: None }];
    let request = CreatePartitionsRequest { topics, timeout_ms: 10_000, validate_only: false };
    let answer = client.ask(3, &request).await;
    let told = &answer.body().results[0];
    (told.error_code, told.error_message.unwrap_or_default().to_owned())
}

fn is_refused(produced: &Produced) {
    assert_eq!(produced.error, ErrorCode::KAFKA_STORAGE_ERROR, "{produced:?}");
    let message = produced.message.as_ref().unwrap();
    assert!(message.contains("`disk_soft_watermark`"), "{message}");
}

#[test]
fn below_the_soft_watermark_records_are_refused_and_all_else_goes_on() {
    on_node(1, with_watermarks(), async |node| {
        let (topic, gone) = (node.topic("t", 1).await, node.topic("gone", 1).await);
        let mut client = node.connect(0).await;
        produce(&mut client, &topic, 0, &batch(&["kept"])).await;
        leave(&node, SOFT - 1).await;
        is_refused(&try_produce(&mut client, &topic).await);
        assert_eq!(read_all(&mut client, &topic, 0).await.len(), 1);
        assert_eq!(create(&mut client, "new").await.0, ErrorCode::NONE, "there is more than the hard one");
        assert_eq!(node.delete(&gone).await, ErrorCode::NONE);
        assert_eq!(node.snapshot(0).await.low_space_refusals, 1);
        leave(&node, SOFT + SOFT / 5).await;
        assert_eq!(produce(&mut client, &topic, 0, &batch(&["b"])).await, 1, "without a restart");
    });
}

#[test]
fn below_the_hard_watermark_new_topics_and_partitions_are_refused_too_and_deletions_go_on() {
    on_node(2, with_watermarks(), async |node| {
        let topic = node.topic("t", 1).await;
        node.topic("kept", 1).await;
        let mut client = node.connect(0).await;
        leave(&node, HARD - 1).await;
        is_refused(&try_produce(&mut client, &topic).await);
        let (error, message) = create(&mut client, "new").await;
        assert_eq!(error, ErrorCode::KAFKA_STORAGE_ERROR);
        assert!(message.contains("`disk_hard_watermark`"), "{message}");
        let (error, message) = grow(&mut client, "kept", 2).await;
        assert_eq!(error, ErrorCode::KAFKA_STORAGE_ERROR);
        assert!(message.contains("`disk_hard_watermark`"), "{message}");
        assert_eq!(node.delete(&topic).await, ErrorCode::NONE);
        leave(&node, 2 * SOFT).await;
        assert_eq!(create(&mut client, "new").await.0, ErrorCode::NONE);
        assert_eq!(grow(&mut client, "kept", 2).await.0, ErrorCode::NONE);
    });
}

#[test]
fn a_node_that_starts_on_a_drive_below_its_watermark_takes_no_record() {
    on_node(3, with_watermarks(), async |node| {
        let topic = node.topic("t", 1).await;
        leave(&node, SOFT - 1).await;
        let node = node.restart().await;
        is_refused(&try_produce(&mut node.connect(0).await, &topic).await);
    });
}

#[test]
fn a_producer_that_waits_for_nothing_loses_its_connection_below_the_soft_watermark() {
    on_node(4, with_watermarks(), async |node| {
        let topic = node.topic("t", 1).await;
        leave(&node, SOFT - 1).await;
        let mut client = node.connect(0).await;
        let records = batch(&["a"]);
        let unacknowledged = Produce { acks: 0, ..Produce::new(&topic, 0, &records) };
        client.send(PRODUCE, &unacknowledged.request()).await;
        client.is_closed().await;
    });
}

#[test]
fn a_fast_producer_goes_little_below_the_soft_watermark() {
    on_node(5, with_watermarks(), async |node| {
        let topic = node.topic_with("t", 1, &[("segment.bytes", "1048576")]).await;
        let disk = node.machine().disk();
        let capacity = disk.used_bytes() + 2 * SOFT;
        leave(&node, 2 * SOFT).await;
        let (mut client, records) = (node.connect(0).await, large(500_000));
        let mut taken: usize = 0;
        while Produce::new(&topic, 0, &records).call(&mut client).await.error.is_none() {
            taken += 1;
            assert!(taken < 300, "the drive is full by now");
        }
        let free = capacity - disk.used_bytes();
        assert!((HARD..SOFT).contains(&free), "{free} bytes are free");
        assert_eq!(read_all(&mut client, &topic, 0).await.len(), taken);
    });
}
