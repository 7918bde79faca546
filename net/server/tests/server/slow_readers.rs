//! Clients that don't take what they asked for: their replies have a limit, and others go on.

use core::time::Duration;

use net_server::config::{Config, Limits};
use net_wire::ErrorCode;
use net_wire::messages::{FetchRequest, MetadataRequest};

use crate::batches::{batch, large, read};
use crate::calls::{FETCH, Fetch, Topic, produce};
use crate::client::Client;
use crate::node::{Node, config, on_node};

const SECOND: Duration = Duration::from_secs(1);

fn with_memory(reply_bytes: u64) -> Config {
    Config { limits: Limits { reply_bytes, ..Limits::default() }, ..config(1) }
}

/// Room for two answers of a batch, and not for three.
fn little_memory() -> Config {
    with_memory(3 << 20)
}

/// A topic of so many partitions with a record of a megabyte in each.
async fn filled(node: &Node, partitions: i32) -> Topic {
    let topic = node.topic("t", partitions).await;
    let mut client = node.connect(0).await;
    for partition in 0..partitions {
        produce(&mut client, &topic, partition, &large(1_000_000)).await;
    }
    topic
}

/// Clients that fetch and never read.
async fn readers_that_do_not_read(node: &Node, topic: &Topic, count: usize) -> Vec<Client> {
    let mut clients = Vec::new();
    for _ in 0..count {
        let mut client = node.connect(0).await;
        client.send(FETCH, &Fetch::at(topic, 0, 0).request()).await;
        clients.push(client);
    }
    node.pause(SECOND).await;
    clients
}

#[test]
fn readers_that_do_not_read_hold_memory_up_to_the_limit_and_for_a_time() {
    on_node(1, little_memory(), async |node| {
        let topic = filled(&node, 1).await;
        let stuck = readers_that_do_not_read(&node, &topic, 20).await;
        let held = node.snapshot(0).await.reply_bytes;
        assert!((2 << 20..=3 << 20).contains(&held), "{held} bytes of replies are held");
        let (mut reader, mut writer) = (node.connect(0).await, node.connect(0).await);
        let produced_from = writer.now();
        produce(&mut writer, &topic, 0, &batch(&["more"])).await;
        assert!(writer.now().since(produced_from) < SECOND, "producers wait for no reader");
        let begun_at = reader.now();
        while node.snapshot(0).await.connections == 22 {
            Fetch::at(&topic, 0, 0).call(&mut reader).await;
            assert!(reader.now().since(begun_at) < 100 * SECOND, "readers that are stuck are let go");
        }
        drop(stuck);
    });
}

#[test]
fn readers_that_do_not_read_keep_nobody_from_records() {
    on_node(1, little_memory(), async |node| {
        let topic = filled(&node, 2).await;
        let mut writer = node.connect(0).await;
        produce(&mut writer, &topic, 1, &batch(&["newest"])).await;
        let stuck = readers_that_do_not_read(&node, &topic, 20).await;
        let mut reader = node.connect(0).await;
        let begun_at = reader.now();
        // What is in no whole block yet needs no page cache, which keeps nothing for certain.
        let newest = Fetch::at(&topic, 1, 1).call(&mut reader).await.only();
        assert_eq!(read(&newest.records), [(1, "newest".to_owned())]);
        assert!(reader.now().since(begun_at) < SECOND);
        let mut large = Vec::new();
        while large.is_empty() {
            large = Fetch::at(&topic, 1, 0).call(&mut reader).await.only().records;
            assert!(reader.now().since(begun_at) < 9 * SECOND, "before anybody is let go");
        }
        assert_eq!(read(&large)[0].1.len(), 1_000_000);
        assert_eq!(node.snapshot(0).await.connections, 22, "all of them are there");
        drop(stuck);
    });
}

#[test]
fn a_fetch_of_more_than_has_its_place_in_little_memory_waits() {
    on_node(6, little_memory(), async |node| {
        let topic = filled(&node, 1).await;
        let long = node.topic("long", 200).await;
        let mut writer = node.connect(0).await;
        produce(&mut writer, &long, 7, &batch(&["a"])).await;
        let stuck = readers_that_do_not_read(&node, &topic, 20).await;
        let mut reader = node.connect(0).await;
        let all: Vec<(i32, i64)> = (0..200).map(|partition| (partition, 0)).collect();
        let begun_at = reader.now();
        let fetched = Fetch::new(&long, &all).call(&mut reader).await;
        assert!(reader.now().since(begun_at) >= 4 * SECOND, "there is no memory, so it waits");
        let seventh = &fetched.partitions[7];
        assert_eq!((seventh.error, seventh.records.len()), (ErrorCode::NONE, 0), "and then gets no records");
        assert_eq!(seventh.high_watermark, 1);
        while Fetch::new(&long, &all).call(&mut reader).await.partitions[7].records.is_empty() {
            assert!(reader.now().since(begun_at) < 100 * SECOND, "readers that are stuck are let go");
        }
        drop(stuck);
    });
}

#[test]
fn a_slow_reader_is_let_go_only_where_others_wait() {
    on_node(2, little_memory(), async |node| {
        let topic = filled(&node, 1).await;
        let stuck = readers_that_do_not_read(&node, &topic, 2).await;
        node.pause(200 * SECOND).await;
        assert_eq!(node.snapshot(0).await.connections, 2, "nobody waits for their memory");
        drop(stuck);
    });
}

#[test]
fn answers_shrink_before_anybody_waits() {
    on_node(3, little_memory(), async |node| {
        let topic = filled(&node, 3).await;
        let mut reader = node.connect(0).await;
        let all: Vec<(i32, i64)> = (0..3).map(|partition| (partition, 0)).collect();
        let fetch = Fetch { partition_bytes: 2 << 20, ..Fetch::new(&topic, &all) };
        let stuck = readers_that_do_not_read(&node, &topic, 1).await;
        let begun_at = reader.now();
        let fetched = fetch.clone().waiting(20_000, 3_000_000).call(&mut reader).await;
        let counts: Vec<_> =
            fetched.partitions.iter().map(|partition| read(&partition.records).len()).collect();
        assert_eq!(counts, [1, 0, 0], "a batch always fits, and what doesn't is left for the next answer");
        assert!(reader.now().since(begun_at) < SECOND, "what can't be had isn't waited for");
        drop(stuck);
        node.connections_become(0, 1).await;
    });
}

#[test]
fn memory_comes_back_with_every_answer_and_every_connection() {
    on_node(4, little_memory(), async |node| {
        let topic = filled(&node, 2).await;
        for round in 0..20 {
            let mut client = node.connect(0).await;
            for _ in 0..3 {
                client.send(FETCH, &Fetch::new(&topic, &[(0, 0), (1, 0)]).request()).await;
            }
            if round % 2 == 0 {
                for _ in 0..3 {
                    client.answer::<FetchRequest<'_>>(FETCH).await;
                }
            }
        }
        node.connections_become(0, 0).await;
        assert_eq!(node.snapshot(0).await.reply_bytes, 0);
        let mut reader = node.connect(0).await;
        let begun_at = reader.now();
        assert!(!Fetch::at(&topic, 0, 0).call(&mut reader).await.only().records.is_empty());
        assert!(reader.now().since(begun_at) < SECOND);
    });
}

#[test]
fn metadata_are_not_made_while_there_is_no_memory_for_them() {
    // One answer of a batch leaves nothing.
    on_node(5, with_memory(1_000_000), async |node| {
        let topic = filled(&node, 1).await;
        node.topic("long", 500).await;
        let stuck = readers_that_do_not_read(&node, &topic, 20).await;
        let all = MetadataRequest { topics: None, ..MetadataRequest::default() };
        let mut asker = node.connect(0).await;
        asker.send(13, &all).await;
        asker.is_closed().await;
        node.pause(20 * SECOND).await;
        let answer = node.connect(0).await.ask(13, &all).await;
        assert_eq!(answer.body().topics.len(), 2, "those who hold it are let go");
        drop(stuck);
    });
}
