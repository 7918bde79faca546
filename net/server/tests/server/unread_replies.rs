//! Replies that are large for what was asked, and clients that take none of them: what is made for them has a limit, and
//! those who read are served.

use core::time::Duration;

use engine_io::Io;
use net_server::config::{Config, Limits};
use net_wire::messages::create_topics::CreatableTopic;
use net_wire::messages::list_offsets::{LATEST, ListOffsetsPartition, ListOffsetsTopic};
use net_wire::messages::produce::{PartitionProduceData, TopicProduceData};
use net_wire::messages::{CreateTopicsRequest, ListOffsetsRequest, MetadataRequest, ProduceRequest};
use net_wire::{ErrorCode, Message, Request, Uuid};
use sim::SimTask;

use crate::batches::{batch, large};
use crate::calls::{FETCH, Fetch, Topic, produce};
use crate::client::{Answer, Client};
use crate::node::{Node, config, on_node};

const SECOND: Duration = Duration::from_secs(1);
/// The memory of replies.
const REPLY_BYTES: u64 = 4 << 20;

fn little_memory() -> Config {
    Config { limits: Limits { reply_bytes: REPLY_BYTES, ..Limits::default() }, ..config(1) }
}

/// Sends the frames for each of the clients, which take nothing. Dropping them ends them.
pub(crate) async fn clients_that_do_not_read(
    node: &Node,
    count: usize,
    frames: impl Fn(&mut Client) -> Vec<Vec<u8>>,
) -> Vec<SimTask> {
    let mut clients = Vec::new();
    for _ in 0..count {
        let mut client = node.connect(0).await;
        let frames = frames(&mut client);
        clients.push(node.setting().io.spawn(async move {
            for frame in frames {
                client.send_bytes(frame).await;
            }
            // Keeps the connection.
            core::future::pending::<()>().await;
        }));
    }
    clients
}

/// Clients that hold most of the memory until they are dropped: they have fetched a large batch, and don't read.
async fn hold_most(node: &Node) -> Vec<Client> {
    let topic = node.topic("large", 1).await;
    produce(&mut node.connect(0).await, &topic, 0, &large(1_000_000)).await;
    let mut clients = Vec::new();
    for _ in 0..3 {
        let mut client = node.connect(0).await;
        client.send(FETCH, &Fetch::at(&topic, 0, 0).request()).await;
        clients.push(client);
    }
    node.pause(SECOND / 10).await;
    assert!(node.snapshot(0).await.reply_bytes > REPLY_BYTES / 2);
    clients
}

/// What is held for clients that ask and don't read stays within the limit, also where all of them may go on at the same
/// moment; and one that reads is answered once those have gone. Each answer is larger than what a connection has under
/// way.
async fn is_bounded<'q, Q: Message<'q> + Request>(node: &Node, topic: &Topic, version: i16, request: &Q) {
    let holders = hold_most(node).await;
    let unread = clients_that_do_not_read(node, 40, |client| vec![client.frame(version, request)]).await;
    node.pause(SECOND / 10).await;
    drop(holders);
    for _ in 0..10 {
        let held = node.snapshot(0).await.reply_bytes;
        assert!(held <= REPLY_BYTES, "{held} bytes of replies are held");
        node.pause(SECOND / 10).await;
    }
    assert!(node.snapshot(0).await.reply_bytes > REPLY_BYTES / 20, "they do hold some");
    let mut bystander = node.connect(0).await;
    let begun_at = bystander.now();
    produce(&mut bystander, topic, 0, &batch(&["meanwhile"])).await;
    assert!(bystander.now().since(begun_at) < SECOND, "small requests wait for no reader");
    drop(unread);
    node.connections_become(0, 1).await;
    assert_eq!(node.snapshot(0).await.reply_bytes, 0);
    bystander.send(version, request).await;
    bystander.receive().await.expect("an answer");
}

#[test]
fn metadata_have_memory_before_they_are_made() {
    on_node(1, little_memory(), async |node| {
        let topic = node.topic("t", 1).await;
        for number in 0..24 {
            node.topic(&format!("t{number}"), 500).await;
        }
        let all = MetadataRequest { topics: None, ..MetadataRequest::default() };
        is_bounded(&node, &topic, 13, &all).await;
    });
}

#[test]
fn readers_of_large_metadata_are_all_served() {
    on_node(2, little_memory(), async |node| {
        let topic = node.topic("t", 10_000).await;
        let all = MetadataRequest { topics: None, ..MetadataRequest::default() };
        let mut clients = Vec::new();
        for _ in 0..30 {
            let mut client = node.connect(0).await;
            client.send(13, &all).await;
            clients.push(client);
        }
        for client in &mut clients {
            let answer = client.answer::<MetadataRequest<'_>>(13).await;
            assert_eq!(answer.body().topics[0].partitions.len(), topic.leaders.len());
        }
    });
}

#[test]
fn long_lists_have_memory_before_they_are_sent() {
    on_node(3, little_memory(), async |node| {
        let topic = node.topic("t", 1).await;
        let partition = |partition_index| ListOffsetsPartition {
            partition_index,
            current_leader_epoch: -1,
            timestamp: LATEST,
        };
        let topics =
            vec![ListOffsetsTopic { name: &topic.name, partitions: (0..15_000).map(partition).collect() }];
        let request = ListOffsetsRequest { replica_id: -1, topics, ..ListOffsetsRequest::default() };
        is_bounded(&node, &topic, 10, &request).await;
    });
}

#[test]
fn what_is_said_of_topics_to_create_has_memory_before_it_is_made() {
    on_node(4, little_memory(), async |node| {
        let topic = node.topic("t", 1).await;
        let names: Vec<String> = (0..800).map(|number| format!("n{number}")).collect();
        let topic_of = |name| CreatableTopic {
            name,
            num_partitions: 1,
            replication_factor: 1,
            assignments: Vec::new(),
            configs: Vec::new(),
        };
        let topics = names.iter().map(String::as_str).map(topic_of).collect();
        let request = CreateTopicsRequest { topics, timeout_ms: 60_000, validate_only: true };
        is_bounded(&node, &topic, 7, &request).await;
    });
}

/// A produce that names the topic's first partition again and again, without records.
pub(crate) fn of_nothing(topic: &Topic, partitions: usize) -> ProduceRequest<'_> {
    let partition_data = vec![PartitionProduceData { index: 0, records: None }; partitions];
    let topic_data = vec![TopicProduceData { name: &topic.name, topic_id: Uuid::ZERO, partition_data }];
    ProduceRequest { transactional_id: None, acks: 1, timeout_ms: 1_000, topic_data }
}

/// The version that names topics by name.
pub(crate) const BY_NAME: i16 = 9;

#[test]
fn what_came_of_produces_is_kept_only_as_far_as_there_is_memory() {
    on_node(5, little_memory(), async |node| {
        let topic = node.topic("t", 1).await;
        let unread = clients_that_do_not_read(&node, 6, |client| {
            (0..20).map(|_| client.frame(BY_NAME, &of_nothing(&topic, 8_000))).collect()
        })
        .await;
        for _ in 0..10 {
            node.pause(SECOND / 10).await;
            let held = node.snapshot(0).await.reply_bytes;
            assert!(held <= REPLY_BYTES + 100_000, "{held} bytes of replies are held");
        }
        // Each takes more than half a mebibyte until it is answered.
        let begun = node.snapshot(0).await.latencies[1].len();
        assert!((1..=12).contains(&begun), "{begun} of 120 requests were begun");
        let mut bystander = node.connect(0).await;
        let begun_at = bystander.now();
        produce(&mut bystander, &topic, 0, &batch(&["meanwhile"])).await;
        assert!(bystander.now().since(begun_at) < SECOND, "small requests wait for no reader");
        drop(unread);
        node.connections_become(0, 1).await;
        let snapshot = node.snapshot(0).await;
        assert_eq!((snapshot.reply_bytes, snapshot.request_bytes), (0, 0));
    });
}

#[test]
fn a_connection_that_takes_no_answers_holds_no_requests_for_long() {
    on_node(6, config(1), async |node| {
        let topic = node.topic("t", 1).await;
        let unread = clients_that_do_not_read(&node, 1, |client| {
            (0..20).map(|_| client.frame(BY_NAME, &of_nothing(&topic, 8_000))).collect()
        })
        .await;
        node.pause(SECOND).await;
        assert!(node.snapshot(0).await.reply_bytes < 3 << 20, "its part of the memory is small");
        node.connections_become(0, 0).await;
        let snapshot = node.snapshot(0).await;
        assert_eq!((snapshot.reply_bytes, snapshot.request_bytes), (0, 0));
        drop(unread);
    });
}

#[test]
fn one_who_reads_late_has_every_answer_in_order() {
    on_node(7, little_memory(), async |node| {
        let topic = node.topic("t", 1).await;
        let mut client = node.connect(0).await;
        let counts = [8_000, 1].repeat(20);
        let frames = counts.iter().map(|&count| client.frame(BY_NAME, &of_nothing(&topic, count))).collect();
        let answers = client.answers_while_sending::<ProduceRequest<'_>>(BY_NAME, frames, 4 * SECOND).await;
        for (answer, count) in answers.iter().zip(counts) {
            let said = &answer.body().responses[0].partition_responses;
            assert_eq!(said.len(), count);
            assert!(said.iter().all(|partition| partition.error_code == ErrorCode::INVALID_RECORD));
        }
        assert!(answers.iter().map(Answer::correlation_id).eq(1..=40));
    });
}
