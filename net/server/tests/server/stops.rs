//! Orderly stops.

use core::cell::Cell;
use core::time::Duration;
use std::path::Path;
use std::rc::Rc;

use engine_io::{Io, Task, first};
use net_server::config::{Config, Limits};
use net_wire::Uuid;
use net_wire::messages::metadata::MetadataRequestTopic;
use net_wire::messages::{FetchRequest, MetadataRequest, ProduceRequest};
use sim::{CrashMode, DiskLatency};

use crate::batches::{batch, large, read};
use crate::calls::{FETCH, Fetch, PRODUCE, Produce, Topic, produce, read_all};
use crate::client::Client;
use crate::node::{Node, config, on_node, start};

const SECOND: Duration = Duration::from_secs(1);

#[test]
fn a_stop_answers_what_was_begun() {
    on_node(1, config(2), async |node| {
        let topic = node.topic("t", 2).await;
        let mut clients = Vec::new();
        for partition in 0..2 {
            let mut client = node.connect_to_leader(&topic, partition).await;
            // It makes the segment's file, which takes flushes of its own.
            produce(&mut client, &topic, partition, &batch(&["first"])).await;
            clients.push(client);
        }
        let slow = DiskLatency { flush: SECOND..=SECOND, ..DiskLatency::default() };
        node.machine().disk().set_latency(slow);
        let records = batch(&["begun"]);
        for (partition, client) in (0..).zip(&mut clients) {
            client.send(PRODUCE, &Produce::new(&topic, partition, &records).request()).await;
        }
        node.pause(SECOND / 2).await;
        let (setting, config) = node.stop().await;
        for (partition, client) in (0..).zip(&mut clients) {
            let answer = client.answer::<ProduceRequest<'_>>(PRODUCE).await;
            let produced = Produce::new(&topic, partition, &records).outcome(&answer);
            assert_eq!((produced.error.0, produced.base_offset), (0, 1));
            client.is_closed().await;
        }
        let node = start(setting, config).await.unwrap();
        for partition in 0..2 {
            let mut client = node.connect_to_leader(&topic, partition).await;
            assert_eq!(read_all(&mut client, &topic, partition).await[1].1, "begun");
        }
    });
}

/// The first batch of a log waits for its file before it has its offsets.
#[test]
fn a_stop_answers_what_has_no_order_yet() {
    on_node(5, config(1), async |node| {
        let topic = node.topic("t", 1).await;
        let mut client = node.connect(0).await;
        let slow = DiskLatency { metadata: SECOND / 10..=SECOND / 10, ..DiskLatency::default() };
        node.machine().disk().set_latency(slow);
        let records = batch(&["begun"]);
        client.send(PRODUCE, &Produce::new(&topic, 0, &records).request()).await;
        node.pause(SECOND / 20).await;
        let (setting, config) = node.stop().await;
        let answer = client.answer::<ProduceRequest<'_>>(PRODUCE).await;
        let produced = Produce::new(&topic, 0, &records).outcome(&answer);
        assert_eq!((produced.error.0, produced.base_offset), (0, 0));
        setting.machine.disk().set_latency(DiskLatency::default());
        let node = start(setting, config).await.unwrap();
        let mut client = node.connect(0).await;
        assert_eq!(read_all(&mut client, &topic, 0).await.len(), 1);
    });
}

/// Eight clients, each with one request under way at any time, stopped at some moment.
#[test]
fn a_stop_under_load_carries_out_nothing_that_it_does_not_answer() {
    for seed in 300..340 {
        on_node(seed, config(1), async |node| {
            let topic = node.topic("t", 1).await;
            let mut clients = Vec::new();
            for _ in 0..8 {
                clients.push(node.connect(0).await);
            }
            let answered = Rc::new(Cell::new(0));
            let load: Vec<_> = clients
                .into_iter()
                .map(|client| {
                    let (topic, answered) = (topic.clone(), Rc::clone(&answered));
                    node.setting()
                        .io
                        .spawn(async move { produce_until_closed(client, &topic, &answered).await })
                })
                .collect();
            node.pause(Duration::from_micros(20_000 + seed * 37)).await;
            let (setting, config) = node.stop().await;
            for client in load {
                client.join().await;
            }
            let node = start(setting, config).await.unwrap();
            let mut client = node.connect(0).await;
            assert_eq!(read_all(&mut client, &topic, 0).await.len(), answered.get(), "seed {seed}");
        });
    }
}

async fn produce_until_closed(mut client: Client, topic: &Topic, answered: &Cell<usize>) {
    let records = batch(&["one"]);
    loop {
        client.send(PRODUCE, &Produce::new(topic, 0, &records).request()).await;
        let Some(answer) = client.try_answer::<ProduceRequest<'_>>(PRODUCE).await else { return };
        if Produce::new(topic, 0, &records).outcome(&answer).error.is_none() {
            answered.set(answered.get() + 1);
        }
    }
}

#[test]
fn a_stop_waits_for_short_polls_and_not_for_long_ones() {
    on_node(2, config(1), async |node| {
        let topic = node.topic("t", 1).await;
        let (mut short, mut long) = (node.connect(0).await, node.connect(0).await);
        let fetch = Fetch::at(&topic, 0, 0);
        short.send(FETCH, &fetch.clone().waiting(2_000, 1).request()).await;
        long.send(FETCH, &fetch.clone().waiting(60_000, 1).request()).await;
        node.pause(SECOND).await;
        let begun_at = short.now();
        node.stop().await;
        assert!(short.now().since(begun_at) < 10 * SECOND, "one client doesn't hold the stop up");
        let fetched = fetch.outcome(&short.answer::<FetchRequest<'_>>(FETCH).await).only();
        assert!(fetched.error.is_none() && read(&fetched.records).is_empty());
        // An answer or the end: but not silence.
        while long.receive().await.is_some() {}
    });
}

#[test]
fn a_stop_refuses_those_who_come_later_and_lets_idle_clients_go() {
    on_node(3, config(1), async |node| {
        let topic = node.topic("t", 1).await;
        let mut idle = node.connect(0).await;
        produce(&mut idle, &topic, 0, &batch(&["a"])).await;
        let (address, begun_at) = (node.address(0), idle.now());
        let (setting, _) = node.stop().await;
        assert!(idle.now().since(begun_at) < 2 * SECOND, "idle clients hold nothing up");
        idle.is_closed().await;
        assert!(Client::connect(&setting.io, address).await.is_err());
    });
}

#[test]
fn a_stop_amid_changes_of_the_metadata_is_orderly_and_keeps_what_was_answered() {
    for seed in 200..230 {
        on_node(seed, config(3), async |node| {
            let mut clients = Vec::new();
            for number in 0..6 {
                let mut client = node.connect(number % 3).await;
                let name = format!("t{number}");
                let topics = vec![MetadataRequestTopic { name: Some(&name), topic_id: Uuid::ZERO }];
                let request = MetadataRequest { topics: Some(topics), ..MetadataRequest::default() };
                client.send(13, &request).await;
                clients.push((name.clone(), client));
            }
            node.pause(Duration::from_micros(seed % 30 * 150)).await;
            let (setting, config) = node.stop().await;
            let node = start(setting, config).await.unwrap();
            for (name, mut client) in clients {
                let Some(answer) = client.try_answer::<MetadataRequest<'_>>(13).await else { continue };
                if answer.body().topics[0].error_code.is_none() {
                    node.describe(&name).await;
                }
            }
        });
    }
}

#[test]
fn nothing_is_scanned_after_an_orderly_stop() {
    on_node(4, config(2), async |node| {
        let topic = node.topic("t", 4).await;
        for partition in 0..4 {
            let mut client = node.connect_to_leader(&topic, partition).await;
            produce(&mut client, &topic, partition, &batch(&["a", "b"])).await;
        }
        let node = node.restart().await;
        for shard in node.opened() {
            assert!(shard.is_clean && shard.scanned_bytes == 0 && shard.offline == 0, "{shard:?}");
            assert_eq!(shard.partitions, 2);
        }
        for partition in 0..4 {
            let mut client = node.connect_to_leader(&topic, partition).await;
            produce(&mut client, &topic, partition, &batch(&["c"])).await;
        }
        let node = node.restart_after(CrashMode::KeepAll).await;
        assert!(node.opened().iter().all(|shard| !shard.is_clean && shard.offline == 0));
    });
}

#[test]
fn a_crash_during_an_orderly_stop_loses_nothing() {
    for seed in 100..130 {
        on_node(seed, config(2), async |node| {
            let topic = node.topic("t", 2).await;
            for partition in 0..2 {
                let mut client = node.connect_to_leader(&topic, partition).await;
                produce(&mut client, &topic, partition, &batch(&["acknowledged"])).await;
            }
            let (setting, config) = (Rc::clone(node.setting()), config(2));
            let moment = setting.io.sleep(Duration::from_micros(seed % 30 * 100));
            let _stopped_or_not = first(node.stop(), moment).await;
            setting.machine.crash(CrashMode::KeepRandomSectors);
            let node = start(setting, config).await.unwrap();
            for partition in 0..2 {
                let mut client = node.connect_to_leader(&topic, partition).await;
                assert_eq!(read_all(&mut client, &topic, partition).await, [(0, "acknowledged".to_owned())]);
            }
        });
    }
}

/// The limit for clients, and what the disk takes to end.
async fn stops_in_time(node: Node) {
    let io = node.setting().io.clone();
    let begun_at = io.now();
    let limit = config(1).limits.drain;
    node.stop().await;
    let took = io.now().since(begun_at);
    assert!(took < limit + SECOND, "{took:?}");
}

#[test]
fn a_client_that_never_reads_holds_a_stop_up_no_longer_than_the_limit() {
    for seed in 300..310 {
        on_node(seed, config(1), async |node| {
            let topic = node.topic("t", 1).await;
            let mut client = node.connect(0).await;
            produce(&mut client, &topic, 0, &large(900_000)).await;
            let fetch = Fetch::at(&topic, 0, 0);
            let frames: Vec<u8> = (0..100).flat_map(|_| client.frame(FETCH, &fetch.request())).collect();
            client.send_bytes(frames).await;
            node.pause(SECOND).await;
            stops_in_time(node).await;
            drop(client);
        });
    }
}

#[test]
fn a_client_in_the_middle_of_a_frame_or_without_memory_holds_a_stop_up_no_longer_than_the_limit() {
    let limits = Limits { request_bytes: 300_000, frame_bytes: 150_000, ..Limits::default() };
    for seed in 310..320 {
        on_node(seed, Config { limits: limits.clone(), ..config(1) }, async |node| {
            let topic = node.topic("t", 1).await;
            let mut clients = Vec::new();
            let records = large(100_000);
            for cut in [1, 20, 50_000, 100_000, 100_000, 100_000] {
                let mut client = node.connect(0).await;
                let poll = client.frame(FETCH, &Fetch::at(&topic, 0, 0).waiting(60_000, 1_000_000).request());
                let mut frame = client.frame(PRODUCE, &Produce::new(&topic, 0, &records).request());
                frame.truncate(cut);
                client.send_bytes([poll, frame].concat()).await;
                clients.push(client);
            }
            node.pause(SECOND).await;
            stops_in_time(node).await;
        });
    }
}

#[test]
fn a_stop_leaves_the_files_of_deleted_topics_to_the_next_start() {
    on_node(320, config(1), async |node| {
        let topic = node.topic("t", 200).await;
        let slow = Duration::from_millis(100);
        let disk = node.machine().disk();
        disk.set_latency(DiskLatency { metadata: slow..=slow, ..DiskLatency::default() });
        assert!(node.delete(&topic).await.is_none());
        let begun_at = node.setting().io.now();
        let (setting, config) = node.stop().await;
        let took = setting.io.now().since(begun_at);
        assert!(took < config.limits.drain / 2, "nobody else is there to wait for: {took:?}");
        let node = start(setting, config).await.unwrap();
        assert!(node.opened()[0].is_clean, "what is left is no fault");
        node.pause(100 * SECOND).await;
        let left = node.machine().io().list_folder(Path::new("/data/topics")).await.unwrap();
        assert!(left.is_empty(), "{left:?}");
    });
}

#[test]
fn a_reader_that_holds_a_deleted_topic_holds_a_stop_up_no_longer_than_the_limit() {
    on_node(321, config(1), async |node| {
        let topic = node.topic("t", 1).await;
        let mut client = node.connect(0).await;
        produce(&mut client, &topic, 0, &large(900_000)).await;
        let fetch = Fetch::at(&topic, 0, 0);
        let frames: Vec<u8> = (0..100).flat_map(|_| client.frame(FETCH, &fetch.request())).collect();
        client.send_bytes(frames).await;
        node.pause(SECOND).await;
        node.delete(&topic).await;
        stops_in_time(node).await;
        drop(client);
    });
}
