//! What changed settings do to a topic that is in use.

use core::time::Duration;

use net_wire::ErrorCode;
use net_wire::config_resource::TOPIC;
use net_wire::messages::incremental_alter_configs::SET;
use sim::{CrashMode, DiskLatency};

use crate::batches::{batch, large};
use crate::calls::{Fetch, Produce, Topic, produce, read_all};
use crate::client::Client;
use crate::configs::{DESCRIBE_CONFIGS, alter, describe, set, unset};
use crate::node::{Node, config, config_with, on_node, start};

const SMALL_SEGMENTS: (&str, &str) = ("segment.bytes", "1048576");

/// Produces so many batches of half a small segment.
async fn fill(client: &mut Client, topic: &Topic, batches: usize) {
    for _ in 0..batches {
        produce(client, topic, 0, &large(500_000)).await;
    }
}

async fn log_start(client: &mut Client, topic: &Topic) -> i64 {
    let end = Fetch::at(topic, 0, 0).call(client).await.partitions[0].high_watermark.max(12);
    Fetch::at(topic, 0, end).call(client).await.only().log_start
}

/// What comes of producing a batch with one record of so many bytes.
async fn produced(client: &mut Client, topic: &Topic, acks: i16, bytes: usize) -> ErrorCode {
    let records = large(bytes);
    Produce { acks, ..Produce::new(topic, 0, &records) }.call(client).await.error
}

#[test]
fn what_is_kept_no_longer_goes_soon() {
    on_node(1, config(1), async |node| {
        for (number, (name, value)) in
            [("retention.bytes", "1000000"), ("retention.ms", "60000")].into_iter().enumerate()
        {
            let topic = node.topic_with(&format!("t{number}"), 1, &[SMALL_SEGMENTS]).await;
            let mut client = node.connect(0).await;
            fill(&mut client, &topic, 12).await;
            node.pause(Duration::from_secs(70)).await;
            assert_eq!(log_start(&mut client, &topic).await, 0);
            let before = node.machine().disk().used_bytes();
            set(&mut client, &topic.name, name, value).await;
            node.pause(Duration::from_secs(1)).await;
            let start = log_start(&mut client, &topic).await;
            assert!(start >= 8, "{name}: {start}");
            let freed = before - node.machine().disk().used_bytes();
            assert!(freed > 4_000_000, "{name}: {freed} bytes");
            unset(&mut client, &topic.name, name).await;
            fill(&mut client, &topic, 6).await;
            node.pause(Duration::from_secs(70)).await;
            assert_eq!(log_start(&mut client, &topic).await, start, "nothing more goes");
        }
    });
}

#[test]
fn the_largest_batch_is_what_the_topic_says_now_and_what_is_there_stays() {
    on_node(2, config(1), async |node| {
        let topic = node.topic("t", 1).await;
        let mut client = node.connect(0).await;
        let too_large = ErrorCode::MESSAGE_TOO_LARGE;
        assert_eq!(produced(&mut client, &topic, -1, 2_000_000).await, too_large);
        set(&mut client, "t", "max.message.bytes", "3000000").await;
        assert_eq!(produced(&mut client, &topic, -1, 2_000_000).await, ErrorCode::NONE);
        set(&mut client, "t", "max.message.bytes", "1000").await;
        assert_eq!(produced(&mut client, &topic, -1, 2_000).await, too_large);
        assert_eq!(produced(&mut client, &topic, -1, 500).await, ErrorCode::NONE);
        // What was taken before is no damage, whatever the settings say now.
        let node = node.restart_after(CrashMode::LoseAllUnflushed).await;
        let mut client = node.connect(0).await;
        let read = read_all(&mut client, &topic, 0).await;
        assert_eq!(read.iter().map(|(_, value)| value.len()).collect::<Vec<_>>(), [2_000_000, 500]);
        assert_eq!(produced(&mut client, &topic, -1, 2_000).await, too_large);
        unset(&mut client, "t", "max.message.bytes").await;
        assert_eq!(produced(&mut client, &topic, -1, 2_000).await, ErrorCode::NONE);
    });
}

#[test]
fn with_fewer_in_sync_than_the_topic_wants_now_nothing_is_committed_until_it_wants_fewer() {
    on_node(3, config(1), async |node| {
        let topic = node.topic("t", 1).await;
        let mut client = node.connect(0).await;
        produce(&mut client, &topic, 0, &batch(&["a"])).await;
        set(&mut client, "t", "min.insync.replicas", "2").await;
        assert_eq!(produced(&mut client, &topic, -1, 10).await, ErrorCode::NOT_ENOUGH_REPLICAS);
        assert_eq!(produced(&mut client, &topic, 1, 10).await, ErrorCode::NONE);
        assert_eq!(read_all(&mut client, &topic, 0).await.len(), 1);
        let waiting = Fetch::at(&topic, 0, 1).waiting(60_000, 1);
        let mut reader = node.connect(0).await;
        reader.send(waiting.version, &waiting.request()).await;
        let since = client.now();
        set(&mut client, "t", "min.insync.replicas", "1").await;
        let fetched = waiting.outcome(&reader.answer(waiting.version).await).only();
        assert_eq!(fetched.high_watermark, 2);
        assert!(reader.now().since(since) < Duration::from_secs(2), "it is committed at once");
        assert_eq!(produced(&mut client, &topic, -1, 10).await, ErrorCode::NONE);
    });
}

#[test]
fn a_produce_that_waits_to_be_committed_is_told_when_too_few_are_in_sync_now() {
    on_node(6, config(1), async |node| {
        let topic = node.topic("t", 1).await;
        let slow = Duration::from_secs(2);
        let mut client = node.connect(0).await;
        node.machine().disk().set_latency(DiskLatency { flush: slow..=slow, ..DiskLatency::default() });
        let mut other = node.connect(0).await;
        let records = batch(&["a"]);
        let waiting = Produce::new(&topic, 0, &records);
        let changed = async {
            // Both wait for a flush of two seconds; the change is there first.
            let change = set(&mut other, "t", "min.insync.replicas", "2");
            let produce = async {
                node.pause(Duration::from_millis(1_500)).await;
                waiting.call(&mut client).await
            };
            futures_lite::future::zip(change, produce).await.1
        };
        let produced = changed.await;
        assert_eq!(produced.error, ErrorCode::NOT_ENOUGH_REPLICAS_AFTER_APPEND, "{produced:?}");
        node.machine().disk().set_latency(DiskLatency::default());
        set(&mut other, "t", "min.insync.replicas", "1").await;
        node.pause(Duration::from_secs(3)).await;
        assert_eq!(read_all(&mut other, &topic, 0).await.len(), 1, "it is in the log all the same");
    });
}

#[test]
fn whose_timestamps_are_kept_is_decided_anew_for_the_next_batch() {
    on_node(4, config(1), async |node| {
        let topic = node.topic("t", 1).await;
        let mut client = node.connect(0).await;
        let records = batch(&["a"]);
        let mut append_time =
            async || Produce::new(&topic, 0, &records).call(&mut client).await.append_time_ms;
        assert_eq!(append_time().await, -1);
        set(&mut node.connect(0).await, "t", "message.timestamp.type", "LogAppendTime").await;
        assert!(append_time().await > 0);
        unset(&mut node.connect(0).await, "t", "message.timestamp.type").await;
        assert_eq!(append_time().await, -1);
    });
}

/// Produces one batch after the other until told, and answers how many were acknowledged.
async fn produce_on(node: &Node, topic: &Topic, partition: i32, batches: usize) -> usize {
    let mut client = node.connect_to_leader(topic, partition).await;
    for number in 0..batches {
        let records = batch(&[number.to_string().as_str()]);
        assert_eq!(produce(&mut client, topic, partition, &records).await, i64::try_from(number).unwrap());
    }
    batches
}

#[test]
fn settings_change_under_load_and_no_record_is_lost_refused_or_written_twice() {
    for seed in 10..14 {
        on_node(seed, config(2), async |node| {
            let topic = node.topic_with("t", 4, &[SMALL_SEGMENTS]).await;
            let produced = engine_io::together(
                4,
                (0..4).map(async |partition| {
                    assert_eq!(produce_on(&node, &topic, partition, 300).await, 300);
                }),
            );
            let changed = async {
                let mut client = node.connect(1).await;
                for round in 0..40_usize {
                    let mode = ["async", "leader", "isr", "quorum"][round % 4];
                    let bytes = (1_000 + 1_000 * round).to_string();
                    let asked = [
                        (SET, "flush.mode", Some(mode)),
                        (SET, "max.message.bytes", Some(bytes.as_str())),
                        (SET, "segment.bytes", Some(["1048576", "2097152"][round % 2])),
                        (SET, "message.timestamp.type", Some(["CreateTime", "LogAppendTime"][round % 2])),
                    ];
                    assert!(alter(&mut client, "t", &asked).await.0.is_none());
                    node.pause(Duration::from_millis(round as u64 % 3)).await;
                }
            };
            futures_lite::future::zip(produced, changed).await;
            let node = node.restart_after(CrashMode::KeepAll).await;
            for partition in 0..4 {
                let mut client = node.connect_to_leader(&topic, partition).await;
                let read = read_all(&mut client, &topic, partition).await;
                let expected: Vec<_> = (0..300).map(|number| (number, number.to_string())).collect();
                assert_eq!(read, expected);
            }
            let told = describe(&mut node.connect(0).await, DESCRIBE_CONFIGS, (TOPIC, "t"), None).await;
            let bytes = told.unwrap().into_iter().find(|setting| setting.name == "max.message.bytes");
            assert_eq!(bytes.unwrap().value.as_deref(), Some("40000"));
        });
    }
}

#[test]
fn a_partition_that_could_not_be_opened_yet_comes_to_the_settings_of_now() {
    on_node(5, config(1), async |node| {
        let disk = node.machine().disk();
        disk.set_capacity(disk.used_bytes());
        let topic = node.topic("t", 1).await;
        let mut client = node.connect(0).await;
        assert_eq!(produced(&mut client, &topic, -1, 10).await, ErrorCode::KAFKA_STORAGE_ERROR);
        set(&mut client, "t", "max.message.bytes", "1000").await;
        disk.set_capacity(u64::MAX);
        node.pause(Duration::from_secs(31)).await;
        assert_eq!(produced(&mut client, &topic, -1, 2_000).await, ErrorCode::MESSAGE_TOO_LARGE);
        assert_eq!(produced(&mut client, &topic, -1, 500).await, ErrorCode::NONE);
    });
}

#[test]
fn a_partition_whose_settings_do_not_fit_the_node_any_more_is_served_with_smaller_batches() {
    on_node(7, config(1), async |node| {
        let topic = node.topic("t", 1).await;
        let mut client = node.connect(0).await;
        set(&mut client, "t", "max.message.bytes", "60000000").await;
        produce(&mut client, &topic, 0, &large(3_000_000)).await;
        let (setting, mut small) = node.stop().await;
        small.limits.pool_bytes = 8 << 20;
        let node = start(setting, small).await.unwrap();
        assert_eq!(node.opened()[0].offline, 0);
        let mut client = node.connect(0).await;
        let fetch = Fetch { partition_bytes: 4 << 20, ..Fetch::at(&topic, 0, 0) };
        assert!(fetch.call(&mut client).await.only().records.len() > 3_000_000, "what there is is read");
        assert_eq!(produced(&mut client, &topic, -1, 3_000_000).await, ErrorCode::MESSAGE_TOO_LARGE);
        assert_eq!(produced(&mut client, &topic, -1, 1_000_000).await, ErrorCode::NONE);
        set(&mut client, "t", "retention.ms", "600000").await;
        assert_eq!(produced(&mut client, &topic, -1, 1_000_000).await, ErrorCode::NONE);
        set(&mut client, "t", "max.message.bytes", "500000").await;
        assert_eq!(produced(&mut client, &topic, -1, 1_000_000).await, ErrorCode::MESSAGE_TOO_LARGE);
        assert_eq!(produced(&mut client, &topic, -1, 400_000).await, ErrorCode::NONE);
    });
}

/// A setting changes again and again while the partition is being opened; the last one counts.
#[test]
fn a_partition_keeps_no_settings_of_before_it_was_open() {
    for seed in 20..30 {
        on_node(seed, config(1), async |node| {
            let disk = node.machine().disk();
            disk.set_capacity(disk.used_bytes());
            let topic = node.topic("t", 1).await;
            let mut client = node.connect(0).await;
            let slow = Duration::from_millis(100);
            disk.set_latency(DiskLatency { metadata: slow..=slow, ..DiskLatency::default() });
            disk.set_capacity(u64::MAX);
            let mut room = 0;
            loop {
                room += 1_000;
                assert!(room < 1_000_000, "it is opened at some time");
                set(&mut client, "t", "max.message.bytes", &room.to_string()).await;
                node.pause(Duration::from_millis(20)).await;
                // It fits the newest settings only.
                let produced = produced(&mut client, &topic, -1, room - 200).await;
                if produced != ErrorCode::KAFKA_STORAGE_ERROR {
                    assert_eq!(produced, ErrorCode::NONE, "{room}");
                    break;
                }
            }
            assert!(room > 2_000, "it was changed while it was being opened: {room}");
        });
    }
}

#[test]
fn a_topic_that_is_deleted_meanwhile_is_unknown_or_was_changed_before() {
    for seed in 30..40 {
        on_node(seed, config_with(2, &[]), async |node| {
            let topic = node.topic("t", 8).await;
            let mut client = node.connect(1).await;
            let changed = alter(&mut client, "t", &[(SET, "segment.ms", Some("1000"))]);
            let deleted = async {
                node.pause(Duration::from_micros(seed * 40)).await;
                node.delete(&topic).await
            };
            let ((code, words), deleted) = futures_lite::future::zip(changed, deleted).await;
            assert_eq!(deleted, ErrorCode::NONE);
            let known = [ErrorCode::NONE, ErrorCode::UNKNOWN_TOPIC_OR_PARTITION];
            assert!(known.contains(&code), "{code}: {words}");
            let node = node.restart_after(CrashMode::LoseAllUnflushed).await;
            assert_eq!(node.try_describe("t").await, Err(ErrorCode::UNKNOWN_TOPIC_OR_PARTITION));
        });
    }
}
