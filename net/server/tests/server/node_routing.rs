//! One port for all shards: what is another shard's is forwarded to it, and a client sees one broker.

use core::time::Duration;

use engine_io::Io;
use futures_lite::future::zip;
use net_server::config::{Config, Limits, Routing};
use net_wire::messages::delete_records::{DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic};
use net_wire::messages::fetch::{FetchPartition, FetchTopic};
use net_wire::messages::list_offsets::{LATEST, ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic};
use net_wire::messages::offset_for_leader_epoch::{
    OffsetForLeaderEpochRequest, OffsetForLeaderPartition, OffsetForLeaderTopic,
};
use net_wire::messages::produce::{PartitionProduceData, TopicProduceData};
use net_wire::messages::{DescribeClusterRequest, FetchRequest, MetadataRequest, ProduceRequest};
use net_wire::{ApiKey, ErrorCode, Uuid};
use sim::SimTask;

use crate::batches::{batch, large, read, sequenced};
use crate::calls::{Fetch, Topic, produce, read_all};
use crate::client::Client;
use crate::node::{FIRST_BROKER, Node, config, on_node};
use crate::request_memory::{little_memory, silent_clients};

const SHARDS: u16 = 3;
const PARTITIONS: i32 = 6;
const PRODUCE: i16 = 13;
const FETCH: i16 = 17;

fn one_port() -> Config {
    Config { routing: Routing::Node, ..config(SHARDS) }
}

/// A batch for each of these partitions, in one request.
fn to_all<'a>(topic: &'a Topic, acks: i16, batches: &'a [(i32, Vec<u8>)]) -> ProduceRequest<'a> {
    let partition =
        |(index, records): &'a (i32, Vec<u8>)| PartitionProduceData { index: *index, records: Some(records) };
    let partition_data = batches.iter().map(partition).collect();
    let topic_data = vec![TopicProduceData { name: "", topic_id: topic.id, partition_data }];
    ProduceRequest { transactional_id: None, acks, timeout_ms: 60_000, topic_data }
}

fn batches(partitions: impl Iterator<Item = i32>, text: &str) -> Vec<(i32, Vec<u8>)> {
    partitions.map(|index| (index, batch(&[&format!("{text}-{index}")]))).collect()
}

/// Partition, error and base offset of each outcome, in the order of the answer.
async fn produced(client: &mut Client, request: &ProduceRequest<'_>) -> Vec<(i32, ErrorCode, i64)> {
    let answer = client.ask(PRODUCE, request).await;
    let response = answer.body();
    let outcomes = response.responses.iter().flat_map(|topic| &topic.partition_responses);
    outcomes.map(|outcome| (outcome.index, outcome.error_code, outcome.base_offset)).collect()
}

/// How many messages have passed mailboxes: in the simulator all shards are one thread.
async fn messages(node: &Node) -> u64 {
    node.snapshot(0).await.mailbox_messages
}

/// So many connections that every shard has some: which takes one is chance.
async fn clients(node: &Node) -> Vec<Client> {
    let mut clients = Vec::new();
    for _ in 0..4 * SHARDS {
        clients.push(node.connect(0).await);
    }
    clients
}

#[test]
fn clients_are_told_of_one_broker_that_leads_everything() {
    on_node(1, one_port(), async |node| {
        let topic = node.topic("t", PARTITIONS).await;
        assert_eq!(topic.leaders, [FIRST_BROKER; 6]);
        for mut client in clients(&node).await {
            let answer = client.ask(13, &MetadataRequest::default()).await;
            let metadata = answer.body();
            let brokers: Vec<_> =
                metadata.brokers.iter().map(|broker| (broker.node_id, broker.port)).collect();
            assert_eq!((brokers, metadata.controller_id), (vec![(FIRST_BROKER, 9092)], FIRST_BROKER));
            let described = client.ask(2, &DescribeClusterRequest::default()).await;
            assert_eq!(described.body().brokers.len(), 1);
        }
    });
}

#[test]
fn every_shard_takes_what_is_any_others() {
    on_node(2, one_port(), async |node| {
        let topic = node.topic("t", PARTITIONS).await;
        for (turn, mut client) in (0..).zip(clients(&node).await) {
            for partition in 0..PARTITIONS {
                let base = produce(&mut client, &topic, partition, &batch(&["a"])).await;
                assert_eq!(base, turn);
                let fetched = Fetch::at(&topic, partition, turn).call(&mut client).await.only();
                assert_eq!((fetched.error, fetched.high_watermark), (ErrorCode::NONE, turn + 1));
                assert_eq!(read(&fetched.records).len(), 1);
            }
        }
        for shard in 0..SHARDS {
            assert!(node.snapshot(shard).await.connections_accepted > 0, "chance has left out a shard");
        }
    });
}

#[test]
fn one_request_for_all_shards_is_answered_in_its_own_order() {
    on_node(3, one_port(), async |node| {
        let topic = node.topic("t", PARTITIONS).await;
        let order = [4, 0, 5, 1, 3, 2];
        for (turn, mut client) in (0..).zip(clients(&node).await) {
            for acks in [1, -1] {
                let all = batches(order.into_iter(), "x");
                let outcomes = produced(&mut client, &to_all(&topic, acks, &all)).await;
                let base = 2 * turn + i64::from(acks == -1);
                assert_eq!(outcomes, order.map(|index| (index, ErrorCode::NONE, base)));
            }
            let from: Vec<_> = order.into_iter().map(|index| (index, 2 * turn)).collect();
            let fetched = Fetch::new(&topic, &from).call(&mut client).await;
            assert_eq!(fetched.partitions.iter().map(|found| found.index).collect::<Vec<_>>(), order);
            for found in fetched.partitions {
                let texts: Vec<_> = read(&found.records).into_iter().map(|(_, text)| text).collect();
                assert_eq!(texts, vec![format!("x-{}", found.index); 2]);
            }
        }
    });
}

#[test]
fn what_nobody_has_fails_alone() {
    on_node(4, one_port(), async |node| {
        let topic = node.topic("t", PARTITIONS).await;
        let all = batches([0, 77, 1, 2].into_iter(), "x");
        for (turn, mut client) in (0..).zip(clients(&node).await) {
            let outcomes = produced(&mut client, &to_all(&topic, -1, &all)).await;
            let (none, unknown) = (ErrorCode::NONE, ErrorCode::UNKNOWN_TOPIC_OR_PARTITION);
            assert_eq!(outcomes, [(0, none, turn), (77, unknown, -1), (1, none, turn), (2, none, turn)]);
        }
    });
}

#[test]
fn a_produce_that_asks_for_no_answer_gets_none_and_is_carried_out_in_order() {
    on_node(5, one_port(), async |node| {
        let topic = node.topic("t", PARTITIONS).await;
        let mut client = node.connect(0).await;
        for turn in 0..20 {
            let all = batches(0..PARTITIONS, &format!("r{turn}"));
            client.send(PRODUCE, &to_all(&topic, 0, &all)).await;
        }
        // It is answered behind what came before it.
        let last = batches(0..PARTITIONS, "last");
        let outcomes = produced(&mut client, &to_all(&topic, -1, &last)).await;
        assert!(
            outcomes.iter().all(|(_, error, base)| (*error, *base) == (ErrorCode::NONE, 20)),
            "{outcomes:?}"
        );
        let texts: Vec<_> =
            read_all(&mut client, &topic, 3).await.into_iter().map(|(_, text)| text).collect();
        let expected = (0..20).map(|turn| format!("r{turn}-3")).chain(["last-3".to_owned()]);
        assert_eq!(texts, expected.collect::<Vec<_>>());
        let wrong = batches([0, 99, 1].into_iter(), "x");
        client.send(PRODUCE, &to_all(&topic, 0, &wrong)).await;
        client.is_closed().await;
    });
}

#[test]
fn requests_that_are_sent_at_once_keep_their_order_whoever_owns_their_partitions() {
    on_node(6, one_port(), async |node| {
        let topic = node.topic("t", PARTITIONS).await;
        let mut client = node.connect(0).await;
        let mut frames = Vec::new();
        for turn in 0..40 {
            // Now for one shard, now for all.
            let partitions = if turn % 3 == 0 { 0..PARTITIONS } else { 2..3 };
            let all = batches(partitions, &format!("r{turn}"));
            frames.push(client.frame(PRODUCE, &to_all(&topic, 1, &all)));
        }
        let answers =
            client.answers_while_sending::<ProduceRequest<'_>>(PRODUCE, frames, Duration::ZERO).await;
        for (turn, answer) in (0..).zip(&answers) {
            let response = answer.body();
            let outcomes = response.responses.iter().flat_map(|topic| &topic.partition_responses);
            let of_two: Vec<_> = outcomes.filter(|outcome| outcome.index == 2).collect();
            assert_eq!((of_two[0].error_code, of_two[0].base_offset), (ErrorCode::NONE, turn));
        }
    });
}

#[test]
fn a_fetch_that_waits_is_woken_by_any_shard() {
    on_node(7, one_port(), async |node| {
        let topic = node.topic("t", PARTITIONS).await;
        let all: Vec<_> = (0..PARTITIONS).map(|index| (index, 0)).collect();
        for partition in 0..PARTITIONS {
            let from: Vec<_> = all.iter().map(|&(index, _)| (index, i64::from(index < partition))).collect();
            let (mut reader, mut writer) = (node.connect(0).await, node.connect(0).await);
            let began = reader.now();
            let fetch = Fetch::new(&topic, &from).waiting(30_000, 1);
            let records = batch(&["a"]);
            let write = async {
                node.pause(Duration::from_secs(2)).await;
                produce(&mut writer, &topic, partition, &records).await;
            };
            let (fetched, ()) = zip(fetch.call(&mut reader), write).await;
            let waited = reader.now().since(began);
            assert!(waited < Duration::from_secs(4), "{waited:?}");
            for found in fetched.partitions {
                assert_eq!(
                    (found.error, found.records.is_empty()),
                    (ErrorCode::NONE, found.index != partition)
                );
            }
        }
        let (mut reader, began) = (node.connect(0).await, node.setting().io.now());
        let from: Vec<_> = all.iter().map(|&(index, _)| (index, 1)).collect();
        let fetched = Fetch::new(&topic, &from).waiting(3_000, 1).call(&mut reader).await;
        assert!(fetched.partitions.iter().all(|found| found.records.is_empty()));
        let waited = reader.now().since(began);
        assert!((Duration::from_secs(3)..Duration::from_secs(4)).contains(&waited), "{waited:?}");
    });
}

#[test]
fn what_a_fetch_waits_for_may_be_with_all_shards_together() {
    on_node(30, one_port(), async |node| {
        let topic = node.topic("t", PARTITIONS).await;
        let mut client = node.connect(0).await;
        let text = "x".repeat(10_000);
        for partition in 0..PARTITIONS {
            produce(&mut client, &topic, partition, &batch(&[&text])).await;
        }
        let from: Vec<_> = (0..PARTITIONS).map(|index| (index, 0)).collect();
        let began = client.now();
        let fetched = Fetch::new(&topic, &from).waiting(10_000, 60_000).call(&mut client).await;
        assert!(client.now().since(began) < Duration::from_secs(1), "60 kB are there");
        assert!(fetched.partitions.iter().map(|found| found.records.len()).sum::<usize>() >= 60_000);
        let began = client.now();
        Fetch::new(&topic, &from).waiting(10_000, 200_000).call(&mut client).await;
        assert!(client.now().since(began) >= Duration::from_secs(10), "200 kB aren't");
    });
}

/// What lies in files goes from there to the socket, whichever shard has that.
#[test]
fn readers_of_files_hold_no_memory_and_keep_nobody_waiting() {
    const LIMIT: u64 = 3 << 20;
    let limits = Limits { reply_bytes: LIMIT, ..Limits::default() };
    on_node(31, Config { limits, ..one_port() }, async |node| {
        let topic = node.topic("t", PARTITIONS).await;
        let mut client = node.connect(0).await;
        for partition in 0..PARTITIONS {
            produce(&mut client, &topic, partition, &large(100_000)).await;
        }
        let node = node.restart().await;
        let from: Vec<_> = (0..PARTITIONS).map(|index| (index, 0)).collect();
        let fetch = Fetch { partition_bytes: 2 << 20, ..Fetch::new(&topic, &from) };
        let mut stuck = Vec::new();
        for _ in 0..20 {
            let mut client = node.connect(0).await;
            client.send(FETCH, &fetch.request()).await;
            stuck.push(client);
        }
        for _ in 0..10 {
            node.pause(Duration::from_millis(300)).await;
            for shard in 0..SHARDS {
                let held = node.snapshot(shard).await.reply_bytes;
                // What has just gone out of the page cache is read into memory. Copies of all would take all there is.
                assert!(held <= LIMIT / 4, "{held} bytes at shard {shard}");
            }
        }
        let mut reader = node.connect(0).await;
        let began = reader.now();
        let fetched = Fetch { partition_bytes: 2 << 20, ..Fetch::new(&topic, &from) }.call(&mut reader).await;
        assert!(fetched.partitions.iter().all(|found| found.records.len() > 100_000));
        assert!(reader.now().since(began) < Duration::from_secs(1), "nobody is waited for");
        drop(stuck);
    });
}

#[test]
fn an_error_of_one_shard_ends_the_wait_of_all() {
    on_node(8, one_port(), async |node| {
        let topic = node.topic("t", PARTITIONS).await;
        let mut client = node.connect(0).await;
        let from: Vec<_> = (0..PARTITIONS).map(|index| (index, if index == 4 { 9 } else { 0 })).collect();
        let began = client.now();
        let fetched = Fetch::new(&topic, &from).waiting(30_000, 1).call(&mut client).await;
        assert!(client.now().since(began) < Duration::from_secs(1));
        let errors = fetched.partitions.iter().map(|found| (found.index, found.error));
        let expected = (0..PARTITIONS)
            .map(|index| (index, if index == 4 { ErrorCode::OFFSET_OUT_OF_RANGE } else { ErrorCode::NONE }));
        assert!(errors.eq(expected));
    });
}

#[test]
fn a_session_is_told_of_news_of_all_shards() {
    on_node(9, one_port(), async |node| {
        let topic = node.topic("t", PARTITIONS).await;
        let mut client = node.connect(0).await;
        let from: Vec<_> = (0..PARTITIONS).map(|index| (index, 0)).collect();
        let first = Fetch::new(&topic, &from).session(0, 0).call(&mut client).await;
        assert_eq!((first.error, first.partitions.len()), (ErrorCode::NONE, 6));
        assert_ne!(first.session_id, 0);
        produce(&mut client, &topic, 4, &batch(&["a"])).await;
        let next = Fetch::new(&topic, &[]).session(first.session_id, 1).call(&mut client).await;
        let told: Vec<_> =
            next.partitions.iter().map(|found| (found.index, found.records.is_empty())).collect();
        assert_eq!((next.error, told), (ErrorCode::NONE, vec![(4, false)]));
    });
}

#[test]
fn the_limit_of_a_fetch_holds_for_all_shards_together() {
    on_node(10, one_port(), async |node| {
        let topic = node.topic("t", PARTITIONS).await;
        let mut client = node.connect(0).await;
        let text = "x".repeat(10_000);
        for partition in 0..PARTITIONS {
            for _ in 0..5 {
                produce(&mut client, &topic, partition, &batch(&[&text])).await;
            }
        }
        for limit in [1, 15_000, 35_000, 1 << 20] {
            let from: Vec<_> = (0..PARTITIONS).map(|index| (index, 0)).collect();
            let mut fetch = Fetch::new(&topic, &from);
            fetch.request.max_bytes = limit;
            let fetched = fetch.call(&mut client).await;
            let sizes: Vec<_> = fetched.partitions.iter().map(|found| found.records.len()).collect();
            let (total, most) = (sizes.iter().sum::<usize>(), usize::try_from(limit).unwrap().max(10_200));
            assert!((10_000..=most).contains(&total), "{limit}: {sizes:?}");
        }
    });
}

#[test]
fn the_limit_of_a_partition_holds_for_all_but_the_first_whoever_owns_them() {
    on_node(32, one_port(), async |node| {
        let topic = node.topic("t", PARTITIONS).await;
        let order = [4, 0, 5, 1, 3, 2];
        for mut client in clients(&node).await {
            produced(&mut client, &to_all(&topic, -1, &batches(0..PARTITIONS, "x"))).await;
            let fetch = Fetch { partition_bytes: 1, ..Fetch::new(&topic, &order.map(|index| (index, 0))) };
            let fetched = fetch.call(&mut client).await;
            let told: Vec<_> =
                fetched.partitions.iter().map(|found| (found.index, found.records.is_empty())).collect();
            assert_eq!(told, order.map(|index| (index, index != 4)));
        }
    });
}

#[test]
fn lists_of_partitions_are_answered_for_all_shards() {
    on_node(11, one_port(), async |node| {
        let topic = node.topic("t", PARTITIONS).await;
        for (turn, mut client) in (1..).zip(clients(&node).await) {
            let all = batches(0..PARTITIONS, "x");
            produced(&mut client, &to_all(&topic, -1, &all)).await;
            let partitions = (0..PARTITIONS).rev().map(|partition_index| ListOffsetsPartition {
                partition_index,
                timestamp: LATEST,
                ..ListOffsetsPartition::default()
            });
            let request = ListOffsetsRequest {
                replica_id: -1,
                topics: vec![ListOffsetsTopic { name: "t", partitions: partitions.collect() }],
                ..ListOffsetsRequest::default()
            };
            let answer = client.ask(7, &request).await;
            let response = answer.body();
            let told = response.topics[0].partitions.iter();
            let told = told.map(|found| (found.partition_index, found.error_code, found.offset));
            assert!(told.eq((0..PARTITIONS).rev().map(|index| (index, ErrorCode::NONE, turn))));
            let partition = |partition| OffsetForLeaderPartition {
                partition,
                leader_epoch: topic.epochs[0],
                ..OffsetForLeaderPartition::default()
            };
            let topics = vec![OffsetForLeaderTopic {
                topic: "t",
                partitions: (0..PARTITIONS).map(partition).collect(),
            }];
            let answer = client
                .ask(4, &OffsetForLeaderEpochRequest { topics, ..OffsetForLeaderEpochRequest::default() })
                .await;
            let response = answer.body();
            assert!(
                response.topics[0]
                    .partitions
                    .iter()
                    .all(|found| (found.error_code, found.end_offset) == (ErrorCode::NONE, turn))
            );
        }
    });
}

#[test]
fn records_are_deleted_of_all_shards() {
    on_node(12, one_port(), async |node| {
        let topic = node.topic("t", PARTITIONS).await;
        let mut client = node.connect(0).await;
        for _ in 0..3 {
            produced(&mut client, &to_all(&topic, -1, &batches(0..PARTITIONS, "x"))).await;
        }
        let partition = |(partition_index, offset)| DeleteRecordsPartition { partition_index, offset };
        let asked = [(5, 2), (0, 1), (1, 9), (5, 3), (0, -1)];
        let topics = vec![DeleteRecordsTopic { name: "t", partitions: asked.map(partition).to_vec() }];
        let answer = client.ask(2, &DeleteRecordsRequest { topics, timeout_ms: 1_000 }).await;
        let response = answer.body();
        let told = response.topics[0].partitions.iter();
        let told: Vec<_> =
            told.map(|found| (found.partition_index, found.low_watermark, found.error_code)).collect();
        let expected =
            [(0, 3, ErrorCode::NONE), (1, -1, ErrorCode::OFFSET_OUT_OF_RANGE), (5, 3, ErrorCode::NONE)];
        assert_eq!(told, expected);
    });
}

#[test]
fn a_client_that_goes_away_leaves_nothing_behind() {
    on_node(13, one_port(), async |node| {
        let topic = node.topic("t", PARTITIONS).await;
        let from: Vec<_> = (0..PARTITIONS).map(|index| (index, 0)).collect();
        for _ in 0..20 {
            let mut client = node.connect(0).await;
            client.send(FETCH, &Fetch::new(&topic, &from).waiting(60_000, 1).request()).await;
            client.send(PRODUCE, &to_all(&topic, -1, &batches(0..PARTITIONS, "x"))).await;
            node.pause(Duration::from_millis(20)).await;
            drop(client);
        }
        for shard in 0..SHARDS {
            node.connections_become(shard, 0).await;
            let snapshot = node.snapshot(shard).await;
            assert_eq!((snapshot.request_bytes, snapshot.reply_bytes), (0, 0), "shard {shard}");
        }
        let began = node.setting().io.now();
        let (setting, _) = node.stop().await;
        let took = setting.io.now().since(began);
        assert!(took < Duration::from_secs(1), "nothing is waited for: {took:?}");
    });
}

#[test]
fn readers_that_do_not_read_hold_their_owners_memory_up_to_its_limit_and_for_a_time() {
    let limits = Limits { reply_bytes: 3 << 20, ..Limits::default() };
    on_node(18, Config { limits, ..one_port() }, async |node| {
        let topic = node.topic("t", PARTITIONS).await;
        let mut writer = node.connect(0).await;
        produce(&mut writer, &topic, 0, &large(1_000_000)).await;
        let mut stuck = Vec::new();
        for _ in 0..20 {
            let mut client = node.connect(0).await;
            // Of two shards: it is divided.
            client.send(FETCH, &Fetch::new(&topic, &[(0, 0), (1, 0)]).request()).await;
            stuck.push(client);
        }
        node.pause(Duration::from_secs(1)).await;
        let mut held = Vec::new();
        for shard in 0..SHARDS {
            held.push(node.snapshot(shard).await.reply_bytes);
        }
        assert!(held.iter().sum::<u64>() <= 4 << 20, "{held:?} bytes of replies are held");
        assert!(held.iter().any(|held| *held >= 2 << 20), "{held:?} bytes of replies are held");
        let mut reader = node.connect(0).await;
        let begun_at = reader.now();
        while Fetch::new(&topic, &[(0, 0), (1, 0)]).call(&mut reader).await.partitions[0].records.is_empty() {
            let waited = reader.now().since(begun_at);
            assert!(waited < Duration::from_secs(100), "readers that are stuck are let go");
        }
        drop(stuck);
    });
}

#[test]
fn a_request_costs_one_message_an_owner_and_none_where_the_shard_has_all() {
    on_node(14, one_port(), async |node| {
        let topic = node.topic("t", PARTITIONS).await;
        let mut client = node.connect(0).await;
        // Each way is made when it is first needed.
        produced(&mut client, &to_all(&topic, -1, &batches(0..PARTITIONS, "x"))).await;
        // Asking for the count costs a few messages itself.
        let (times, mut costs) = (50, Vec::new());
        for partition in 0..PARTITIONS {
            let before = messages(&node).await;
            for _ in 0..times {
                produce(&mut client, &topic, partition, &batch(&["a"])).await;
            }
            costs.push((messages(&node).await - before) / times);
        }
        // Counted where it is sent and where it comes.
        costs.sort_unstable();
        assert_eq!(costs, [0, 0, 2, 2, 2, 2]);
        let before = messages(&node).await;
        for _ in 0..times {
            produced(&mut client, &to_all(&topic, -1, &batches(0..PARTITIONS, "x"))).await;
        }
        assert_eq!((messages(&node).await - before) / times, 2 * u64::from(SHARDS));
    });
}

#[test]
fn a_repeated_batch_is_known_again_whichever_shard_takes_it() {
    on_node(19, one_port(), async |node| {
        let topic = node.topic("t", PARTITIONS).await;
        let producer = node.producer_id(0).await;
        for sequence in 0..10 {
            let of_partition = |index| (index, sequenced(producer, 0, sequence, 1));
            let all: Vec<_> = (0..PARTITIONS).map(of_partition).collect();
            // The second and the third time it is a repetition, by another connection.
            for _ in 0..3 {
                let mut client = node.connect(0).await;
                let outcomes = produced(&mut client, &to_all(&topic, -1, &all)).await;
                let expected: Vec<_> =
                    (0..PARTITIONS).map(|index| (index, ErrorCode::NONE, i64::from(sequence))).collect();
                assert_eq!(outcomes, expected);
            }
        }
    });
}

#[test]
fn many_clients_that_come_at_once_are_all_served() {
    on_node(20, one_port(), async |node| {
        let topic = node.topic("t", PARTITIONS).await;
        let all = batches(0..PARTITIONS, "x");
        let mut clients = Vec::new();
        // More than may be announced to a shard that hasn't seen them.
        for _ in 0..300 {
            let mut client = node.connect(0).await;
            client.send(PRODUCE, &to_all(&topic, -1, &all)).await;
            clients.push(client);
        }
        for client in &mut clients {
            let answer = client.answer::<ProduceRequest<'_>>(PRODUCE).await;
            let response = answer.body();
            let mut outcomes = response.responses.iter().flat_map(|topic| &topic.partition_responses);
            assert!(outcomes.all(|outcome| outcome.error_code.is_none()));
        }
        assert_eq!(read_all(&mut clients[0], &topic, 5).await.len(), 300);
    });
}

#[test]
fn what_has_begun_is_answered_when_the_node_stops() {
    on_node(21, one_port(), async |node| {
        let topic = node.topic("t", PARTITIONS).await;
        let all = batches(0..PARTITIONS, "x");
        let mut clients = clients(&node).await;
        for client in &mut clients {
            produced(client, &to_all(&topic, -1, &all)).await;
            client.send(PRODUCE, &to_all(&topic, -1, &all)).await;
        }
        node.pause(Duration::from_micros(100)).await;
        let began = node.setting().io.now();
        let (setting, config) = node.stop().await;
        assert!(setting.io.now().since(began) < Duration::from_secs(5));
        let mut acknowledged = 12;
        for client in &mut clients {
            // Answered, or the connection has ended before it was read.
            let Some(answer) = client.try_answer::<ProduceRequest<'_>>(PRODUCE).await else { continue };
            let response = answer.body();
            let outcomes = response.responses.iter().flat_map(|topic| &topic.partition_responses);
            let errors: Vec<_> = outcomes.map(|outcome| outcome.error_code).collect();
            assert!(errors.iter().all(|error| error.is_none()), "{errors:?}");
            acknowledged += 1;
        }
        let node = crate::node::start(setting, config).await.unwrap();
        let mut client = node.connect(0).await;
        for partition in 0..PARTITIONS {
            let read = read_all(&mut client, &topic, partition).await.len();
            assert!((acknowledged..=24).contains(&read), "{read} of {acknowledged}");
        }
    });
}

#[test]
fn log_directories_are_told_with_the_partitions_of_all_shards() {
    use net_wire::messages::DescribeLogDirsRequest;
    on_node(22, one_port(), async |node| {
        let topic = node.topic("t", PARTITIONS).await;
        for mut client in clients(&node).await {
            produced(&mut client, &to_all(&topic, -1, &batches(0..PARTITIONS, "x"))).await;
            for version in crate::versions(ApiKey::DescribeLogDirs) {
                let count_segments = version % 2 == 0;
                let request = DescribeLogDirsRequest { topics: None, count_segments };
                let answer = client.ask(version, &request).await;
                let response = answer.body();
                let [directory] = &response.results[..] else { panic!("one directory: {response:?}") };
                let [of_topic] = &directory.topics[..] else { panic!("one topic: {response:?}") };
                let told =
                    of_topic.partitions.iter().map(|one| (one.partition_index, one.partition_size > 0));
                assert!(told.eq((0..PARTITIONS).map(|index| (index, true))), "{response:?}");
                let shards: std::collections::BTreeSet<_> =
                    of_topic.partitions.iter().map(|one| one.shard).collect();
                let all = if count_segments { (0..i32::from(SHARDS)).collect() } else { [-1].into() };
                assert_eq!(shards, all);
                let count = if count_segments { 1 } else { -1 };
                assert!(of_topic.partitions.iter().all(|one| one.segment_count == count), "{response:?}");
            }
        }
    });
}

#[test]
fn a_question_about_log_directories_that_cannot_be_read_ends_the_connection() {
    on_node(33, one_port(), async |node| {
        for version in crate::versions(ApiKey::DescribeLogDirs) {
            let mut client = node.connect(0).await;
            // In flexible versions a header ends with its tags.
            let header_end: &[u8] = if version >= 2 { &[0] } else { &[] };
            let frame = client.odd_frame(ApiKey::DescribeLogDirs.code(), version, header_end);
            client.send_bytes(frame).await;
            client.is_closed().await;
        }
    });
}

#[test]
fn routing_may_change_from_start_to_start() {
    on_node(15, config(SHARDS), async |node| {
        let topic = node.topic("t", PARTITIONS).await;
        for partition in 0..PARTITIONS {
            let mut client = node.connect_to_leader(&topic, partition).await;
            produce(&mut client, &topic, partition, &batch(&["a"])).await;
        }
        let (setting, config) = node.stop().await;
        let node = crate::node::start(setting, Config { routing: Routing::Node, ..config }).await.unwrap();
        let mut client = node.connect(0).await;
        let outcomes = produced(&mut client, &to_all(&topic, -1, &batches(0..PARTITIONS, "x"))).await;
        assert!(
            outcomes.iter().all(|(_, error, base)| (*error, *base) == (ErrorCode::NONE, 1)),
            "{outcomes:?}"
        );
        let (setting, config) = node.stop().await;
        let node = crate::node::start(setting, Config { routing: Routing::Shard, ..config }).await.unwrap();
        let topic = node.describe("t").await;
        for partition in 0..PARTITIONS {
            let mut client = node.connect_to_leader(&topic, partition).await;
            assert_eq!(read_all(&mut client, &topic, partition).await.len(), 2);
        }
    });
}

#[test]
fn an_assignment_to_the_one_broker_is_dealt_to_all_its_shards() {
    use net_wire::messages::CreateTopicsRequest;
    use net_wire::messages::create_topics::{CreatableReplicaAssignment, CreatableTopic};
    on_node(16, one_port(), async |node| {
        let assignment =
            |partition_index| CreatableReplicaAssignment { partition_index, broker_ids: vec![FIRST_BROKER] };
        let topic = CreatableTopic {
            name: "named",
            num_partitions: -1,
            replication_factor: -1,
            assignments: (0..PARTITIONS).map(assignment).collect(),
            configs: Vec::new(),
        };
        let request = CreateTopicsRequest { topics: vec![topic], timeout_ms: 10_000, validate_only: false };
        let answer = node.connect(0).await.ask(7, &request).await;
        assert_eq!(answer.body().topics[0].error_code, ErrorCode::NONE);
        let topic = node.describe("named").await;
        let mut client = node.connect(0).await;
        let outcomes = produced(&mut client, &to_all(&topic, -1, &batches(0..PARTITIONS, "x"))).await;
        assert!(outcomes.iter().all(|(_, error, _)| error.is_none()));
        for shard in 0..SHARDS {
            assert!(node.snapshot(shard).await.store.bytes_written > 0, "shard {shard} has none of them");
        }
    });
}

#[test]
fn old_clients_fetch_from_all_shards_by_name() {
    on_node(17, one_port(), async |node| {
        let topic = node.topic("t", PARTITIONS).await;
        let mut client = node.connect(0).await;
        produced(&mut client, &to_all(&topic, -1, &batches(0..PARTITIONS, "x"))).await;
        for version in crate::versions(ApiKey::Fetch) {
            let partition = |partition| FetchPartition {
                partition,
                partition_max_bytes: 1 << 20,
                ..FetchPartition::default()
            };
            let by_id = version >= 13;
            let request = FetchRequest {
                min_bytes: 1,
                topics: vec![FetchTopic {
                    topic: if by_id { "" } else { "t" },
                    topic_id: if by_id { topic.id } else { Uuid::ZERO },
                    partitions: (0..PARTITIONS).map(partition).collect(),
                }],
                ..FetchRequest::default()
            };
            let answer = client.ask(version, &request).await;
            let response = answer.body();
            let found: Vec<_> = response.responses.iter().flat_map(|topic| &topic.partitions).collect();
            assert_eq!(found.len(), 6, "v{version}");
            for found in found {
                assert_eq!(found.error_code, ErrorCode::NONE);
                assert_eq!(read(found.records.unwrap()).len(), 1, "v{version}");
            }
        }
    });
}

/// Clients that hold 44 of the 48 MiB that each of two shards has for requests. Which shard takes one is chance: those that
/// come beyond it are let go.
async fn nearly_fill_requests(node: &Node) -> Vec<SimTask> {
    const WANTED: u64 = 44 << 20;
    let mut holding = Vec::new();
    loop {
        let more = silent_clients(node, 1, 15_000_000, 1 << 20).await;
        let held = [node.snapshot(0).await.request_bytes, node.snapshot(1).await.request_bytes];
        if held.iter().all(|held| *held <= WANTED + (1 << 20)) {
            holding.extend(more);
        }
        if held.iter().all(|held| *held >= WANTED) {
            return holding;
        }
    }
}

#[test]
fn the_time_to_wait_is_told_whichever_shards_answer() {
    on_node(9, Config { routing: Routing::Node, shards: 2, ..little_memory() }, async |node| {
        let topic = node.topic("t", PARTITIONS).await;
        let _holding = nearly_fill_requests(&node).await;
        for partitions in [0..1, 1..2, 2..3, 3..4, 0..PARTITIONS] {
            let bytes = 900_000 / partitions.len();
            let batches: Vec<_> = partitions.clone().map(|index| (index, large(bytes))).collect();
            let mut client = node.connect(0).await;
            let answer = client.ask(PRODUCE, &to_all(&topic, -1, &batches)).await;
            let told = answer.body();
            let outcomes = told.responses.iter().flat_map(|topic| &topic.partition_responses);
            assert!(outcomes.clone().all(|outcome| outcome.error_code.is_none()), "{told:?}");
            assert!(
                (1..=12).contains(&told.throttle_time_ms),
                "{partitions:?}: {} ms",
                told.throttle_time_ms
            );
        }
    });
}
